"""mgx-plan-memory: gives every intermediate tensor an offset in one arena."""

from __future__ import annotations

import heapq
import math
from bisect import bisect_left, insort
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import ClassVar

from mlir import ir

from mgx_mlir.dialects import mgx
from mgx_mlir.errors import OpenError
from mgx_mlir.rewriting.graph import main_function, node_name
from mgx_mlir.rewriting.lifetimes import Lifetimes, staged_values
from mgx_mlir.rewriting.pass_base import Pass, PassContext
from mgx_mlir.rewriting.plan_attributes import ARENA_BYTES, IN_PLACE, OFFSETS, STAGED
from mgx_mlir.rewriting.queries import blocks, memory_of, yielded
from mgx_mlir.rewriting.symbolic import named_symbols, sizes_of
from mgx_mlir.rewriting.tensors import Tensor, lower_bound
from mgx_mlir.sizes.arithmetic import ceil_div, symbols

PLACED = (mgx.LaunchOp, *mgx.CONTROL_FLOW)


@dataclass(frozen=True)
class PlanMemory(Pass):
    """Writes `mgx.offsets` on launches and control flow, and `mgx.arena_bytes` on the module.

    Before:  %1 = mgx.launch @k0(%0) : (tensor<4xf32>) -> tensor<4xf32>
    After:   %1 = mgx.launch @k0(%0) {mgx.offsets = array<i64: 0>} : ...

    Tensors that are alive at one time do not overlap. An offset is a multiple of `alignment`
    bytes, for a smaller tensor of the power of two that holds it, at least 16. A tensor in the
    caller's memory has the offset -1 - n, where n is the output's number.

    A result of `mgx.if`, and of its branches, is one tensor where their lives allow it, and
    so are an initial value, a carried value, its next value and the loop's result. Where they
    differ the plan copies.

    Where sizes are symbols, a run chooses the offsets: `mgx.offsets` holds tensors' numbers.
    """

    alignment: int = field(default=256, metadata={"least": 16, "multiple_of": 16})

    required: ClassVar[bool] = True
    symbolic: ClassVar[bool] = True
    name: ClassVar[str] = "mgx-plan-memory"

    def apply(self, module: ir.Module, context: PassContext) -> None:
        main = main_function(module)
        if _has_symbols(main):
            _number_tensors(main)
            return
        lifetimes = Lifetimes.of(main)
        size = place(lifetimes.in_arena(), self.alignment)
        for block in blocks(main):
            for op in block.operations:
                if isinstance(op, PLACED) or IN_PLACE in op.attributes:
                    _write(op, lifetimes)
        i64 = ir.IntegerType.get_signless(64)
        module.operation.attributes[ARENA_BYTES] = ir.IntegerAttr.get(i64, size)


def _write(op: ir.OpView, lifetimes: Lifetimes) -> None:
    offsets = [lifetimes.offset(result) for result in op.results]
    op.attributes[OFFSETS] = ir.DenseI64ArrayAttr.get(offsets)
    staged = lifetimes.staged(op)
    if staged:
        op.attributes[STAGED] = ir.DenseI64ArrayAttr.get([tensor.offset for tensor in staged])


def _has_symbols(main: ir.OpView) -> bool:
    """Whether an input, or a tensor that a kernel makes, has a size that is a symbol.

    Raises OpenError naming the node of a result whose size follows from no symbol.
    """
    block = main.regions[0].blocks[0]
    types = [argument.type for argument in block.arguments]
    found = any(not ir.RankedTensorType(type_).has_static_shape for type_ in types)
    known = named_symbols(types)
    for block in blocks(main):
        for op in block.operations:
            for result in op.results if isinstance(op, PLACED) else ():
                if ir.RankedTensorType(result.type).has_static_shape:
                    continue
                found = True
                sizes = sizes_of(result.type, known)
                if any(
                    s is None or not {x.name for x in symbols(s)} <= known.keys() for s in sizes
                ):
                    node = node_name(op) or "?"
                    raise OpenError(
                        f"node '{node}': its result {result.type} has a size that is known only "
                        "when the model runs",
                        (node,),
                    )
    return found


def _number_tensors(main: ir.OpView) -> None:
    """Writes the numbers of tensors as offsets; a returned tensor is one of the caller's."""
    block = main.regions[0].blocks[0]
    returned: dict[ir.Value, int] = {}
    for number, value in enumerate(yielded(block)):
        returned.setdefault(memory_of(value), number)
    count = 0
    for op in (op for block in blocks(main) for op in block.operations):
        if not isinstance(op, PLACED):
            continue
        offsets = [
            -1 - returned[result] if result in returned else number
            for number, result in enumerate(op.outputs, count)
        ]
        op.attributes[OFFSETS] = ir.DenseI64ArrayAttr.get(offsets)
        count += len(offsets)
        staged = staged_values(op) if isinstance(op, mgx.LoopOp) else []
        if staged:
            numbers = range(count, count + len(staged))
            op.attributes[STAGED] = ir.DenseI64ArrayAttr.get(list(numbers))
            count += len(staged)


def place(tensors: Sequence[Tensor], alignment: int) -> int:
    """Sets each tensor's offset; returns the arena's size in bytes.

    Each tensor goes to the lowest offset that is free while it is alive. Launches that do not
    depend on each other may run at the same time if their tensors share no memory. All tensors are
    kept apart for that, else the smaller ones only, where it takes little more memory.
    """
    least = lower_bound(tensors)
    offsets, size, order = _best(tensors, 0, _ORDERS, alignment)
    most = least + max(int(least * _SLACK), _SLACK_BYTES)
    for limit in _APART:
        apart, wanted, _ = _best(tensors, limit, (order,), alignment)
        if wanted <= most:
            offsets, size = apart, wanted
            break
    for tensor, offset in zip(tensors, offsets, strict=True):
        tensor.offset = offset
    return ceil_div(int(size), alignment) * alignment


Order = Callable[[Tensor], tuple[int, int]]
# The most that the least arena may grow so that launches can run at the same time, as a share or
# in bytes; and the sizes in bytes up to which tensors are kept apart for that, tried in order.
_SLACK = 0.1
_SLACK_BYTES = 8192
_APART = (1 << 62, 1 << 16, 1 << 12)


def _best(
    tensors: Sequence[Tensor], apart: int, orders: Sequence[Order], alignment: int
) -> tuple[list[int], float, Order]:
    """The order of placing tensors that takes the smallest arena: offsets, bytes, order.

    Where too many pairs are alive at one time, tensors are placed as they come to life. With
    `apart`, that would keep none apart: none are placed then, and the size is infinite.
    """
    neighbours = _neighbours(tensors, apart)
    if neighbours is None:
        offsets, size = _place_by_time(tensors, alignment) if not apart else ([], math.inf)
        return offsets, size, orders[0]
    least = lower_bound(tensors)
    found: list[tuple[list[int], int, Order]] = []
    for order in orders:
        sequence = sorted(range(len(tensors)), key=lambda n: order(tensors[n]))
        found.append((*_place_in(sequence, tensors, neighbours, alignment), order))
        if found[-1][1] <= least:
            break
    return min(found, key=lambda result: result[1])


# Large before small; long before short lives; from the end of the program; from its beginning.
_ORDERS: tuple[Order, ...] = (
    lambda t: (-t.size, t.first),
    lambda t: (t.first - t.last, -t.size),
    lambda t: (-t.last, -t.size),
    lambda t: (t.first, -t.size),
)


# The most pairs of tensors that are compared: for each tensor, and in addition.
_PAIRS_OF_EACH, _PAIRS = 256, 1 << 19


def _neighbours(tensors: Sequence[Tensor], apart: int) -> list[list[int]] | None:
    """For each tensor, the tensors that are alive at a time when it is.

    Tensors of up to `apart` bytes also have those that may be, if launches run at the same time.
    None where more pairs would be compared than a program of this size may cost.
    """
    left = _PAIRS + _PAIRS_OF_EACH * len(tensors)
    found: list[list[int]] = [[] for _ in tensors]
    alive: list[int] = []
    # By the last launch that uses them: in most programs, the launches that a tensor's makers need
    # go back to the start without a gap, and no tensor used within these alone can meet it.
    small: list[tuple[int, int]] = []
    for number in sorted(range(len(tensors)), key=lambda n: tensors[n].first):
        tensor = tensors[number]
        alive = [other for other in alive if tensors[other].last >= tensor.first]
        left -= len(alive)
        if left < 0:
            return None
        meeting = {other for other in alive if tensors[other].meets(tensor)}
        if tensor.size <= apart:
            behind = bisect_left(small, (_trailing_ones(tensor.needed) + 1, -1))
            left -= len(small) - behind
            if left < 0:
                return None
            meeting.update(n for _, n in small[behind:] if tensors[n].may_meet(tensor))
            insort(small, (tensor.users.bit_length(), number))
        for other in meeting:
            found[number].append(other)
            found[other].append(number)
        alive.append(number)
    return found


def _trailing_ones(number: int) -> int:
    """The number of lowest bits of a number that are all set."""
    return (~number & (number + 1)).bit_length() - 1


def _place_in(
    sequence: Sequence[int],
    tensors: Sequence[Tensor],
    neighbours: Sequence[Sequence[int]],
    alignment: int,
) -> tuple[list[int], int]:
    """The offsets, by number, of tensors placed in a sequence; and the end of the last one."""
    offsets, size = [-1] * len(tensors), 0
    for number in sequence:
        wanted = tensors[number].size
        step = _alignment(wanted, alignment)
        taken = sorted((offsets[n], tensors[n].size) for n in neighbours[number] if offsets[n] >= 0)
        offset = 0
        for start, length in taken:
            if offset + wanted <= start:
                break
            offset = max(offset, _up(start + length, step))
        offsets[number] = offset
        size = max(size, offset + wanted)
    return offsets, size


def _place_by_time(tensors: Sequence[Tensor], alignment: int) -> tuple[list[int], int]:
    """Places each tensor when its first life begins, in the first gap that is large enough.

    A tensor keeps its offset from its first life to its last. The result is as `_place_in`'s.
    """
    offsets, size = [-1] * len(tensors), 0
    ending: list[tuple[int, int]] = []
    gaps: list[tuple[int, int]] = []  # (offset, end), ascending, none touches another
    for number in sorted(range(len(tensors)), key=lambda n: tensors[n].first):
        tensor = tensors[number]
        while ending and ending[0][0] < tensor.first:
            _, gone = heapq.heappop(ending)
            _free(gaps, offsets[gone], offsets[gone] + tensors[gone].size)
        step = _alignment(tensor.size, alignment)
        found = [*gaps[:_MOST_GAPS], (size, math.inf)]
        place = next(i for i, (a, b) in enumerate(found) if _up(a, step) + tensor.size <= b)
        start = found[place][0]
        offset = _up(start, step)
        if place < len(found) - 1:
            rest = [(start, offset), (offset + tensor.size, gaps[place][1])]
            gaps[place : place + 1] = [(a, b) for a, b in rest if a < b]
        elif start < offset:
            _free(gaps, start, offset)
        offsets[number] = offset
        size = max(size, offset + tensor.size)
        heapq.heappush(ending, (tensor.last, number))
    return offsets, size


# The most gaps that are tried for a tensor.
_MOST_GAPS = 256


def _up(offset: int, step: int) -> int:
    return ceil_div(offset, step) * step


def _free(gaps: list[tuple[int, int]], start: int, end: int) -> None:
    """Adds a gap, merged with those it touches."""
    if start == end:
        return
    place = bisect_left(gaps, (start, end))
    if place < len(gaps) and gaps[place][0] == end:
        end = gaps.pop(place)[1]
    if place and gaps[place - 1][1] == start:
        start = gaps.pop(place - 1)[0]
        place -= 1
    gaps.insert(place, (start, end))


def _alignment(size: int, most: int) -> int:
    """A tensor's alignment: kernels read vectors of 16 bytes, and cache lines of large tensors."""
    return min(most, max(16, 1 << (size - 1).bit_length())) if size else 1
