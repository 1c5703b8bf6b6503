"""Where a program is cut into stages: equal memory, few bytes from one stage to the next."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field

from mlir import ir

from mgx_mlir.dialects import mgx
from mgx_mlir.dialects.types import numpy_dtype
from mgx_mlir.errors import ResourceError, UsageError, memory_text
from mgx_mlir.pipelines.planning import SILENT
from mgx_mlir.rewriting.graph import Graph
from mgx_mlir.rewriting.plan_attributes import IN_PLACE
from mgx_mlir.rewriting.queries import captured, definition, memory_of
from mgx_mlir.rewriting.symbolic import named_symbols, sizes_of
from mgx_mlir.sizes.arithmetic import evaluate

# The most places that are compared: of more, the cheapest one of each stretch of steps.
_PLACES = 256
# How far the fullest stage may be above the least that it can need.
_SLACK = 1.1
# The size of a symbol without a best or a greatest size, by which stages are compared.
_USUAL = 32


@dataclass(frozen=True)
class Cut:
    """The steps of a stage: those from number `first` to before `end`."""

    first: int
    end: int


@dataclass
class Steps:
    """A program's steps in order, and the values that they make and need."""

    ops: list[ir.OpView]
    # By value in memory of its own: the step that makes it, and the last one that needs it.
    made: dict[ir.Value, int] = field(default_factory=dict)
    last: dict[ir.Value, int] = field(default_factory=dict)
    needs: list[list[ir.Value]] = field(default_factory=list)

    @staticmethod
    def of(block: ir.Block) -> Steps:
        """Of a program's block."""
        steps = Steps([op for op in block.operations if not isinstance(op, SILENT)])
        for number, op in enumerate(steps.ops):
            found = list(dict.fromkeys(memory_of(value) for value in captured(op)))
            steps.needs.append(found)
            steps.last.update((value, number) for value in found)
            steps.made.update((value, number) for value in op.results)
        return steps

    def crossing(self, place: int) -> list[ir.Value]:
        """The values that steps before `place` make and others need."""
        made, last = self.made, self.last
        return [v for v, number in made.items() if number < place <= last.get(v, -1)]


def cuts(graph: Graph, count: int, memory: int | None) -> list[Cut]:
    """The stages of a compiled program. Raises ResourceError where one needs more than `memory`
    bytes, UsageError for more stages than the program has steps."""
    block = graph.main.regions[0].blocks[0]
    steps = Steps.of(block)
    size = _sizes(block)
    places = _places(steps, size, count)
    need = _Memory(steps, size)
    ends = [0, *places, len(steps.ops)]
    full = _best(ends, count, lambda a, b: (need.of(a, b), 0))
    if full is None:
        raise UsageError(
            f"{graph.name} has {len(steps.ops)} steps, which cannot be cut into {count} stages"
        )
    least = max(need.of(one.first, one.end) for one in full)
    if memory is not None and least > memory:
        raise ResourceError(
            f"{graph.name}: a stage of {count} needs at least {memory_text(least)}, and a device "
            f"is to have {memory_text(memory)}; use more devices, or fewer bits for weights"
        )
    most = int(least * _SLACK) if memory is None else memory
    sent = {0: 0} | {place: sum(map(size, steps.crossing(place))) for place in places}

    def bytes_sent(first: int, end: int) -> tuple[int, int]:
        needed = need.of(first, end)
        return (needed, sent[first]) if needed <= most else (_NEVER, 0)

    found = _best(ends, count, bytes_sent, by_sum=True)
    return found or full


_NEVER = 1 << 62
# What a stage costs: bytes of memory, and bytes that it gets from others.
Cost = Callable[[int, int], tuple[int, int]]


def _best(ends: list[int], count: int, cost: Cost, by_sum: bool = False) -> list[Cut] | None:
    """The cuts at `count` - 1 of the places with the smallest fullest stage, or with `by_sum` those
    with the fewest bytes between stages; None where there are none."""

    def joined(so_far: tuple[int, int], own: tuple[int, int]) -> tuple[int, int]:
        fullest, total = max(so_far[by_sum], own[0]), so_far[not by_sum] + own[1]
        return (total, fullest) if by_sum else (fullest, total)

    rows: list[dict[int, tuple[tuple[int, int], int]]] = [{0: ((0, 0), 0)}]
    for stage in range(1, count + 1):
        row: dict[int, tuple[tuple[int, int], int]] = {}
        last = stage == count
        for end in ends[-1:] if last else ends[1:-1]:
            options = [
                (joined(total, own), first)
                for first, (total, _) in rows[-1].items()
                if first < end and (own := cost(first, end))[0] < _NEVER
            ]
            if options:
                row[end] = min(options)
        rows.append(row)
    end, found = ends[-1], []
    for row in reversed(rows[1:]):
        if end not in row:
            return None
        first = row[end][1]
        found.append(Cut(first, end))
        end = first
    return found[::-1]


class _Memory:
    """The memory of stages: their weights, and the most that is alive at one time."""

    def __init__(self, steps: Steps, size: Callable[[ir.Value], int]) -> None:
        self._known: dict[tuple[int, int], int] = {}
        self._weights = [
            {
                op.key.value: size(value)
                for value in needs
                if isinstance(op := definition(value), mgx.LiteralOp)
            }
            for needs in steps.needs
        ]
        count = len(steps.ops)
        change = [0] * (count + 1)
        for value, number in steps.made.items():
            change[number] += size(value)
            change[steps.last.get(value, number) + 1] -= size(value)
        alive, self._alive = 0, []
        for number in range(count):
            alive += change[number]
            self._alive.append(alive)

    def of(self, first: int, end: int) -> int:
        """The bytes of the steps from `first` to before `end`."""
        if (first, end) not in self._known:
            held: dict[str, int] = {}
            for weights in self._weights[first:end]:
                held |= weights
            self._known[first, end] = sum(held.values()) + max(self._alive[first:end])
        return self._known[first, end]


def _places(steps: Steps, size: Callable[[ir.Value], int], count: int) -> list[int]:
    """The numbers of steps before which the program can be cut.

    Operands of a concat in place are parts of its result: all are made in its stage.
    """
    joined: set[int] = set()
    for number, op in enumerate(steps.ops):
        if IN_PLACE in op.attributes:
            first = min(steps.made[memory_of(value)] for value in op.operands)
            joined.update(range(first + 1, number + 1))
    found: list[tuple[int, int]] = []
    for place in range(1, len(steps.ops)):
        if place not in joined:
            found.append((place, sum(map(size, steps.crossing(place)))))
    if len(found) <= max(_PLACES, count):
        return [place for place, _ in found]
    stretch = math.ceil(len(found) / max(_PLACES, count))
    parts = (found[n : n + stretch] for n in range(0, len(found), stretch))
    return [min(part, key=lambda each: each[1])[0] for part in parts]


def _sizes(block: ir.Block) -> Callable[[ir.Value], int]:
    """The bytes of a value, where symbols have their best or greatest sizes."""
    symbols = named_symbols(argument.type for argument in block.arguments).values()
    usual = {s.name: max(s.optimals, default=s.high or max(s.low, _USUAL)) for s in symbols}

    def size(value: ir.Value) -> int:
        total = numpy_dtype(value.type).itemsize
        for one in sizes_of(value.type, None):
            assert one is not None
            total *= one if isinstance(one, int) else evaluate(one, usual)
        return total

    return size
