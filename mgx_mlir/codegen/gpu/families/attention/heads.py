"""Attention with symbolic numbers of heads, queries and keys: the function for one head.

    %y = mgx.attention(%q, %k, %v) : tensor<?x?x64xf16, #mgx.dims<[heads, seq, _]>>, ...

The sizes of a head are static, and so are the schedules: one for few queries, one for many, each
a function, and two functions for few queries with many keys, where work-groups share a query's
keys. The grids of the others are 0 when the sizes are met. Pointers advance to the
work-group's head in 64 bits, because the tensors may have any size. Within a head offsets have 32
bits. The launch passes the numbers of queries and keys, and the strides that depend on them. A head
that is too large for 32-bit offsets is refused when a run's sizes are known. Results may
be transposed, so that a product reads rows of all heads: they have strides, as operands do.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from mgx_mlir.artifact.code_object import Argument
from mgx_mlir.artifact.target import Target
from mgx_mlir.codegen.builders import emit
from mgx_mlir.codegen.gpu.builders.function import (
    MAX_THREADS,
    Tensor,
    block_number,
    signature,
    thread_number,
)
from mgx_mlir.codegen.gpu.builders.launches import Launches, lines_of
from mgx_mlir.codegen.gpu.builders.pointers import (
    Move,
    forwards,
    one_part,
    reach,
    usual_size,
    value_of,
)
from mgx_mlir.codegen.gpu.builders.program import Generated, GpuProgram
from mgx_mlir.codegen.gpu.builders.units import Unit
from mgx_mlir.codegen.gpu.families.attention.combine import combine
from mgx_mlir.codegen.gpu.families.attention.constraints import (
    Plan,
    base_unit,
    problem_refusal,
)
from mgx_mlir.codegen.gpu.families.attention.cost import choose
from mgx_mlir.codegen.gpu.families.attention.generator import Generator
from mgx_mlir.codegen.gpu.families.attention.layout import shaped
from mgx_mlir.codegen.gpu.families.attention.space import PARTS, AttentionSchedule
from mgx_mlir.codegen.gpu.families.contraction.convolution import place_of_results
from mgx_mlir.codegen.gpu.families.contraction.epilogue import Epilogue
from mgx_mlir.codegen.gpu.families.family import Family
from mgx_mlir.codegen.meaning.element import F32, element_named, sizes_of
from mgx_mlir.codegen.problem.attention import Attention, match_attention
from mgx_mlir.codegen.problem.match import mapped
from mgx_mlir.codegen.problem.problem import Axis, Matrix
from mgx_mlir.codegen.refusal import Refusal
from mgx_mlir.codegen.regimes import Regime, scheduled
from mgx_mlir.dialects import mgx
from mgx_mlir.rewriting.symbolic import named_symbols
from mgx_mlir.sizes.arithmetic import Number, Size, Symbol, ceil_div, is_more, minimum

# Threads of the function that combines parts.
THREADS = 256
# Few queries of a head: they are one tile.
FEW = 16
# Queries of all heads up to which schedules are chosen for fewer heads, and the numbers of queries
# and of keys that they are chosen for.
MANY, SOME = 1 << 16, 1024
# Heads, and keys, that a schedule of work-groups that share keys is chosen for.
USUAL_HEADS, CUT_KEYS = 16, (1024, 2048, 4096)


def heads_program(kernel: mgx.KernelOp, target: Target) -> Generated[GpuProgram] | Refusal | None:
    """The program of an `mgx.kernel` with symbolic sizes, and the schedule in words.

    None where the kernel holds no attention.
    """
    with kernel.context, kernel.location:
        operations = kernel.regions[0].blocks[0].operations
        if not any(isinstance(op, mgx.AttentionOp) for op in operations):
            return None
        return _program(kernel, target).of(mgx.AttentionOp.OPERATION_NAME)


def _program(kernel: mgx.KernelOp, target: Target) -> Generated[GpuProgram] | Refusal:
    _, (inputs, results) = signature(kernel)
    attention = match_attention(kernel, placed=True)
    if attention is None:
        return Refusal("operands or an epilogue that are no views of inputs")
    if isinstance(attention.D, Size) or isinstance(attention.E, Size):
        return Refusal("the size of a head is an argument")
    sources = (*attention.sources, *attention.result.sources)
    read = [attention.q, attention.k, attention.v, *(x for x in sources if isinstance(x, Matrix))]
    if not forwards(*(axis for x in read for axis in (x.row, x.column))):
        return Refusal("rows or columns that are read backwards")  # offsets count from a head
    schedules = _schedules(attention, named_symbols([*inputs, *results]), target)
    if isinstance(schedules, Refusal):
        return schedules
    elements = [math.prod(sizes_of(type_)) for type_ in inputs]
    moves = _Moves(elements)
    one = moves.one_head(attention)
    launches, words = Launches(kernel), []
    for share, schedule, unit in schedules:
        generator = _Heads(Plan(one, schedule, unit, target))
        with launches.when(share):
            generator.add(launches, moves, attention.batch)
        words.append(schedule.describe(unit))
    if refusal := launches.refusal():
        return refusal
    return Generated(launches.program(), f"any sizes, {', or '.join(words)}")


def _schedules(
    attention: Attention, known: Mapping[str, Symbol], target: Target
) -> list[tuple[Number, AttentionSchedule, Unit]] | Refusal:
    """The schedules, each with its number of launches: 1 or 0 when the sizes are met.

    One for few queries or few heads, which would leave compute units without work, one for others.
    """
    batch, M, N = (usual_size(size, known) for size in (attention.batch, attention.M, attention.N))
    few = FEW * 2 * target.compute_units
    many = is_more(attention.M, FEW) * is_more(attention.batch * attention.M, few)
    most = many * is_more(attention.batch * attention.M, MANY)
    long = [min(value_of(size, known, SOME), SOME) for size in (attention.M, attention.N)]
    sizes = (few // FEW, min(M, FEW), N), (USUAL_HEADS, *long), (batch, M, N)

    def best(number: int) -> tuple[AttentionSchedule, Unit] | Refusal:
        heads, queries, keys = sizes[number]
        usual = replace(attention, batch=min(batch, heads), M=queries, N=keys)
        if refusal := problem_refusal(usual, 0, target):
            return refusal
        base = base_unit(usual, target)
        assert base is not None  # or the problem would have been refused
        schedule = choose(usual, base, target)
        if schedule is None:
            return Refusal(f"no schedule fits {target.name}")
        return replace(schedule, parts=1), shaped(base, schedule.rows)

    shares = enumerate((1 - many, many - most, most))
    ways = scheduled((Regime(share, n) for n, share in shares if share != 0), best)
    if isinstance(ways, Refusal):
        return ways
    found = [(regime.share, *way) for way, regime in ways]
    sharing = _sharing(attention, known, target)
    if sharing is None:
        return found
    (share, schedule, unit), *others = found
    return [(share - sharing[0], schedule, unit), sharing, *others]


def _sharing(
    attention: Attention, known: Mapping[str, Symbol], target: Target
) -> tuple[Number, AttentionSchedule, Unit] | None:
    """The schedule of work-groups that share a query's keys, for many keys of few queries.

    None where no run gains by it.
    """
    batch, M = (usual_size(size, known) for size in (attention.batch, attention.M))
    most = value_of(attention.N, known, CUT_KEYS[-1])
    usual = replace(attention, batch=min(batch, USUAL_HEADS), M=min(M, FEW), N=most)
    if (base := base_unit(usual, target)) is None:
        return None
    found = (choose(replace(usual, N=keys), base, target) for keys in CUT_KEYS if keys <= most)
    schedule = next((one for one in found if one is not None and one.is_cut), None)
    if schedule is None:
        return None
    units, groups = target.compute_units, attention.batch * ceil_div(attention.M, FEW)
    keys = schedule.parts * schedule.keys * 3 // 4
    # Queries or heads are few then: they leave compute units without work.
    share = is_more(attention.N, keys - 1) * (1 - is_more(groups, units))
    # As many work-groups as fill the compute units twice: 2, 4, 8 or 16 for a tile of queries.
    parts: Number = 2
    for more in (2, 4, 8):
        parts = parts + more * (1 - is_more(groups, units // more))
    cut = replace(schedule, parts=parts)  # type: ignore[arg-type]
    return None if share == 0 else (share, cut, shaped(base, schedule.rows))


@dataclass
class _Moves:
    """The tensors of a function, one for each matrix. elements: the kernel's inputs' sizes."""

    elements: Sequence[Number]
    found: list[Move] = field(default_factory=list)
    results: list[Move] = field(default_factory=list)

    def one_head(self, attention: Attention) -> Attention:
        """The attention of one head; its arguments are the numbers of the moved tensors."""
        place = place_of_results(attention.result)
        size = attention.batch * attention.M * attention.E
        for number, element in enumerate(attention.result.result_elements):
            tensor = Tensor(1, element_named(element), written=True)
            span = reach(place.row, place.column)
            move = Move(Argument("output", number), tensor, 0, place.batch, size, span)
            self.results.append(move)
        q, k, v = (self._moved(x) for x in (attention.q, attention.k, attention.v))
        result = attention.result
        product = replace(result.problem, batch=1, b=v)
        return replace(
            attention,
            batch=1,
            q=q,
            k=k,
            v=v,
            sources=mapped(attention.sources, self._moved),
            result=replace(
                result,
                problem=product,
                sources=mapped(result.sources, self._moved),
                place=_one_matrix(place),
            ),
        )

    def _moved(self, x: Matrix) -> Matrix:
        number, size = len(self.found), self.elements[x.argument]
        argument, tensor = Argument("input", x.argument), Tensor(1, element_named(x.element))
        span = reach(x.row, x.column)
        self.found.append(Move(argument, tensor, x.offset, x.batch, size, span))
        return replace(_one_matrix(x), argument=number)


def _one_matrix(x: Matrix) -> Matrix:
    """A matrix of its own; the strides of the heads limit the length of vectors."""
    return replace(x, offset=0, batch=one_part(x.offset, x.batch))


class _Heads(Generator):
    """Builds the function of one head at a time."""

    def add(self, launches: Launches, moves: _Moves, heads: int) -> None:
        """Adds the functions to those of `launches`."""
        results, partial = moves.results, list[Move]()
        if self.schedule.is_cut:
            self.partial = replace(self.partial, queries=heads * self.attention.M)
            results = partial = self._partial_moves(launches, heads)
        both, given = [*moves.found, *results], len(moves.found)
        low, high, number = lines_of(heads)
        if partial:  # heads are few
            high, number = self.schedule.parts, lambda: block_number("y", MAX_THREADS)
        grid = self.grid[0], low, high
        with launches.moved(both, self.threads, grid, self.local(), number) as (frame, head):
            self.pointers = dict(enumerate(frame.pointers[:given]))
            self.inputs = dict(enumerate(frame.buffers[:given]))
            inside = bool(partial) or high == 1 or emit.compare("slt", head, heads)
            body = frame.lds[0], frame.buffers[given:]
            emit.when(inside, lambda: self._body(*body))
        if partial:
            self._combination(launches, moves, partial, heads)

    def _partial_moves(self, launches: Launches, heads: int) -> list[Move]:
        """The scratch memory between the two functions: rows of a head in each part.

        It has room for all work-groups that a query may have, and for no more tiles of queries than
        share keys.
        """
        queries, found = self.attention.M, []
        rows = PARTS[-1] * minimum(heads * queries, FEW * self.target.compute_units)
        room = rows * self.attention.E, rows * 2
        steps = queries * self.partial.columns, queries * 2
        for space, size, step in zip(room, self.partial.sizes, steps, strict=True):
            argument, tensor = launches.scratch(space, F32), Tensor(1, F32, written=True)
            found.append(Move(argument, tensor, 0, Axis(((heads, step),)), size, size))
        return found

    def _combination(
        self, launches: Launches, moves: _Moves, partial: Sequence[Move], heads: int
    ) -> None:
        """Adds the function that combines the parts of the keys, of one head at a time."""
        attention, scale = self.attention, self.work.factor or 1.0
        used = sorted({x.argument for x in attention.result.reads})
        read = [replace(x, tensor=replace(x.tensor, written=False)) for x in partial]
        every = [*read, *(moves.found[number] for number in used), *moves.results]
        vectors = attention.M * attention.E // self.partial.width
        grid = ceil_div(vectors, THREADS), lines_of(heads)[0], 1
        with launches.moved(every, THREADS, grid, along="y") as (frame, _):
            values, ends, *rest = frame.buffers
            place = place_of_results(attention.result)
            inputs = dict(zip(used, rest, strict=False))
            epilogue = Epilogue(attention.result, place, inputs, rest[len(used) :])
            block = emit.mul(block_number("x", MAX_THREADS), THREADS)
            here = emit.add(block, thread_number(THREADS)), vectors
            combine((values, ends), epilogue, attention, self.partial, scale, here)


FAMILY = Family("attention_heads", 30, heads_program, symbolic=True, given=False)
