"""Attention with dynamic numbers of heads, queries and keys: the function for one head.

    %y = mgx.attention(%q, %k, %v) : tensor<?x?x64xf16, #mgx.dims<[heads, seq, _]>>, ...

The sizes of a head are static, and so are the schedules: one for few queries, one for many, each
a function. The grid of the other one is 0 when the sizes are met. Pointers advance to the
work-group's head in 64 bits, because the tensors may have any size. Within a head offsets have 32
bits. The launch passes the numbers of queries and keys, and the strides that depend on them. A head
that is too large for 32-bit offsets is refused when a run's sizes are known. Results may
be transposed, so that a product reads rows of all heads: they have strides, as operands do.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from mlir import ir
from mlir.dialects import arith

from mgx_mlir.artifact.code_object import Argument, Launch
from mgx_mlir.artifact.formulas import Formulas
from mgx_mlir.artifact.target import Target
from mgx_mlir.capabilities import MAX_BYTES
from mgx_mlir.codegen.builders import emit
from mgx_mlir.codegen.generic.dynamic.kernel import kernel_symbols
from mgx_mlir.codegen.generic.lowering.element import sizes_of
from mgx_mlir.codegen.generic.lowering.index import symbol_values
from mgx_mlir.codegen.gpu.builders import memory
from mgx_mlir.codegen.gpu.builders.function import block_number, function, gpu_module, signature
from mgx_mlir.codegen.gpu.builders.program import Generated, GpuProgram
from mgx_mlir.codegen.gpu.builders.units import Unit
from mgx_mlir.codegen.gpu.dynamic.program import DynamicProgram
from mgx_mlir.codegen.gpu.families.attention.combine import result_tensors, tensor_of
from mgx_mlir.codegen.gpu.families.attention.constraints import (
    base_unit,
    lds_bytes,
    problem_refusal,
)
from mgx_mlir.codegen.gpu.families.attention.cost import choose
from mgx_mlir.codegen.gpu.families.attention.generator import Generator, tile_shapes
from mgx_mlir.codegen.gpu.families.attention.layout import shaped
from mgx_mlir.codegen.gpu.families.attention.space import AttentionSchedule
from mgx_mlir.codegen.gpu.families.contraction.constraints import MAX_BATCH
from mgx_mlir.codegen.gpu.families.contraction.convolution import row_major
from mgx_mlir.codegen.gpu.families.family import Family
from mgx_mlir.codegen.problem.attention import Attention, match_attention
from mgx_mlir.codegen.problem.match import mapped
from mgx_mlir.codegen.problem.problem import Axis, Matrix
from mgx_mlir.codegen.refusal import Refusal
from mgx_mlir.dialects import mgx
from mgx_mlir.rewriting.symbolic import named_symbols
from mgx_mlir.sizes.arithmetic import (
    Number,
    Size,
    Symbol,
    bounds,
    common_factor,
    evaluate,
    is_more,
    symbols,
)

# The numbers of queries, keys and heads that a schedule is chosen for: no block of them is whole.
USUAL = 509
# Few queries of a head: they are one tile.
FEW = 16


def dynamic_attention_program(
    kernel: mgx.KernelOp, target: Target
) -> Generated[DynamicProgram] | Refusal | None:
    """The program of an `mgx.kernel` with symbolic sizes, and the schedule in words.

    None where the kernel holds no attention.
    """
    with kernel.context, kernel.location:
        operations = kernel.regions[0].blocks[0].operations
        if not any(isinstance(op, mgx.AttentionOp) for op in operations):
            return None
        return _program(kernel, target).of(mgx.AttentionOp.OPERATION_NAME)


def _program(kernel: mgx.KernelOp, target: Target) -> Generated[DynamicProgram] | Refusal:
    name, (inputs, results) = signature(kernel)
    attention = match_attention(kernel, placed=True)
    if attention is None:
        return Refusal("operands or an epilogue that are no views of inputs")
    if isinstance(attention.D, Size) or isinstance(attention.E, Size):
        return Refusal("the size of a head is an argument")
    sources = (*attention.sources, *attention.result.sources)
    read = [attention.q, attention.k, attention.v, *(x for x in sources if isinstance(x, Matrix))]
    strides = [s for x in read for axis in (x.row, x.column) for _, s in axis.factors]
    if not all(stride >= 0 for stride in strides):
        return Refusal("rows or columns that are read backwards")  # offsets count from a head
    schedules = _schedules(attention, named_symbols([*inputs, *results]), target)
    if isinstance(schedules, Refusal):
        return schedules
    elements = [math.prod(sizes_of(type_)) for type_ in inputs]
    moves = _Moves(elements)
    one = moves.one_head(attention)
    limits = list(_limits(attention, moves))
    if any(not bounds(limit)[1] >= 0 for limit in limits):
        return Refusal("places in a head that 31 bits do not reach")
    formulas = Formulas()
    counts = _Counts(formulas, limits, attention.batch, kernel_symbols(kernel))
    module, block = gpu_module()
    launches, words = [], []
    for number, (share, schedule, unit) in enumerate(schedules):
        function_name = f"{name}_{number}"
        generator = _DynamicSizes(one, ([], []), schedule, unit, target, function_name)
        launches.append(generator.add(block, moves, counts, share, len(results)))
        words.append(schedule.describe(unit))
    program = GpuProgram(module, tuple(launches), 0, 32)
    found = DynamicProgram.of(program, kernel, formulas)
    return Generated(found, f"any sizes, {', or '.join(words)}")


def _schedules(
    attention: Attention, known: Mapping[str, Symbol], target: Target
) -> list[tuple[Number, AttentionSchedule, Unit]] | Refusal:
    """The schedules, each with its number of launches: 1 or 0 when the sizes are met.

    One for few queries or few heads, which would leave compute units without work, one for others.
    """
    batch, M, N = (_usual(size, known) for size in (attention.batch, attention.M, attention.N))
    few = FEW * 2 * target.compute_units
    many = is_more(attention.M, FEW) * is_more(attention.batch * attention.M, few)
    found = []
    for share, heads, queries in ((1 - many, few // FEW, min(M, FEW)), (many, batch, M)):
        if share == 0:
            continue
        usual = replace(attention, batch=min(batch, heads), M=queries, N=N)
        if refusal := problem_refusal(usual, 0, target):
            return refusal
        base = base_unit(usual, target)
        assert base is not None  # or the problem would have been refused
        schedule = choose(usual, base, target)
        if schedule is None:
            return Refusal(f"no schedule fits {target.name}")
        schedule = replace(schedule, parts=1)
        found.append((share, schedule, shaped(base, schedule.rows)))
    if len({schedule for _, schedule, _ in found}) == 1:
        return [(1, *found[0][1:])]
    return found


def _usual(size: Number, known: Mapping[str, Symbol]) -> int:
    """The size that a schedule is chosen for: the upper bound of `size`, `USUAL` at most."""
    if isinstance(size, int):
        return size
    most = {s.name: known.get(s.name, s).high or USUAL for s in symbols(size)}
    return max(1, min(USUAL, evaluate(size, most)))


@dataclass(frozen=True)
class _Move:
    """The offset of a head's matrix in a tensor of `size` elements: `offset` + `batch`."""

    argument: Argument
    element: str
    offset: Number
    batch: Axis
    size: Number
    # The span in elements, gaps included, that 32-bit offsets within a head have to reach.
    reach: Number


@dataclass
class _Moves:
    """The tensors of a function, one for each matrix. elements: the kernel's inputs' sizes."""

    elements: Sequence[Number]
    found: list[_Move] = field(default_factory=list)
    results: list[_Move] = field(default_factory=list)

    def one_head(self, attention: Attention) -> Attention:
        """The attention of one head; its arguments are the numbers of the moved tensors."""
        place = attention.result.place or row_major(attention.result.problem)
        size = attention.batch * attention.M * attention.E
        for number, element in enumerate(attention.result.result_elements):
            argument = Argument("output", number)
            self.results.append(_Move(argument, element, 0, place.batch, size, _reach(place)))
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
        argument = Argument("input", x.argument)
        self.found.append(_Move(argument, x.element, x.offset, x.batch, size, _reach(x)))
        return replace(_one_matrix(x), argument=number)


def _reach(x: Matrix) -> Number:
    reach: Number = 0
    for axis in (x.row, x.column):
        for count, stride in axis.factors:
            reach = reach + count * stride
    return reach


def _one_matrix(x: Matrix) -> Matrix:
    """A matrix of its own; the strides of the heads limit the length of vectors."""
    step = math.gcd(*map(common_factor, (x.offset, *(n for _, n in x.batch.factors))))
    return replace(x, offset=0, batch=Axis(((2, step),)) if step else Axis(()))


def _limits(attention: Attention, moves: _Moves) -> Iterator[Number]:
    """Numbers of which one is below 0 where the function cannot be launched."""
    yield MAX_BATCH - attention.batch
    for move in (*moves.found, *moves.results):
        yield MAX_BYTES - move.reach * emit.element_bytes(move.element)


class _Counts:
    """The numbers that a launch passes: symbols first, then the numbers that need 64 bits.

    Limits are numbers that no function reads: if one is below 0, the launch is refused (see
    formulas).
    """

    def __init__(
        self,
        formulas: Formulas,
        limits: Sequence[Number],
        batch: Number,
        symbols: Sequence[str],
    ) -> None:
        self.formulas, self.batch, self.symbols = formulas, batch, tuple(symbols)
        self.numbers: list[Number] = [Size.of(Symbol(name)) for name in symbols]
        self._limits = [x for x in limits if isinstance(x, Size) and not x >= 0]

    def add(self, number: Number) -> None:
        """Adds a number to those that a launch passes."""
        if isinstance(number, Size) and number not in self.numbers:
            self.numbers.append(number)

    def arguments(self) -> list[Argument]:
        """The arguments that a launch passes after the tensors."""
        wanted = [*self.numbers, *self._limits]
        return [Argument("size", self.formulas.number(number)) for number in wanted]


class _DynamicSizes(Generator):
    """Builds the function of one head at a time."""

    def add(
        self, functions: ir.Block, moves: _Moves, counts: _Counts, share: Number, results: int
    ) -> Launch:
        """Adds the function, whose grid and sizes are numbers of formulas.

        share: 1 where the function is launched, 0 where another one is.
        """
        outputs, written = result_tensors(self.attention, [1] * results)
        tensors = [tensor_of(1, move.element) for move in moves.found]
        shapes = tile_shapes(self.attention, self.schedule, self.unit, self.threads)
        size = lds_bytes(self.attention, self.schedule, shapes, self.unit, self.target)
        element = self.unit.element
        lds = [(size // emit.element_bytes(element), emit.element_type(element))]
        both = [*moves.found, *moves.results]
        for move in both:
            for number in (move.size, move.offset, *(n for f in move.batch.factors for n in f)):
                counts.add(number)
        numbers = counts.arguments()
        every = [*tensors, *outputs]
        with function(
            functions, self.name, every, self.threads, (1, 1, 1), lds, len(numbers)
        ) as frame:
            values = _Values(dict(zip(counts.numbers, frame.sizes, strict=False)))
            index = ir.IndexType.get()
            short = [arith.index_cast(index, x) for x in frame.sizes[: len(counts.symbols)]]
            with symbol_values(dict(zip(counts.symbols, short, strict=True))):
                head = arith.index_castui(values.type, emit.value(block_number("y", MAX_BATCH)))
                moved = [
                    values.moved(pointer, move, head)
                    for pointer, move in zip(frame.pointers, both, strict=True)
                ]
                read, stored = moved[: len(tensors)], moved[len(tensors) :]
                self.pointers = dict(enumerate(read))
                self.inputs = {number: memory.buffer(x) for number, x in enumerate(read)}
                self._body(shapes, frame.lds[0], [memory.buffer(x) for x in stored])
        formulas = counts.formulas
        grid = (formulas.number(self.grid[0] * share), formulas.number(counts.batch), 1)
        arguments = (*(move.argument for move in moves.found), *written, *numbers)
        return Launch(self.name, grid, (self.threads, 1, 1), arguments)


class _Values:
    """Numbers of a launch as i64."""

    def __init__(self, given: Mapping[Number, ir.Value]) -> None:
        self.type = ir.IntegerType.get_signless(64)
        self._given = given

    def __call__(self, number: Number) -> ir.Value:
        if isinstance(number, int):
            return arith.constant(self.type, number)
        return self._given[number]

    def moved(self, pointer: ir.Value, move: _Move, head: ir.Value) -> ir.Value:
        """The tensor from the first element of a head's matrix on."""
        start, index = self(move.offset), head
        for number, (size, stride) in reversed(list(enumerate(move.batch.factors))):
            here = index if number == 0 else arith.remui(index, self(size))
            start = arith.addi(start, arith.muli(here, self(stride)))
            index = arith.divui(index, self(size)) if number else index
        most = self(MAX_BYTES // emit.element_bytes(move.element))
        rest = arith.minui(arith.subi(self(move.size), start), most)
        return memory.moved(pointer, start, rest)


FAMILY = Family("attention", 30, dynamic_attention_program)
