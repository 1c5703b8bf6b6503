"""Products of dynamic rows by matrix cores: a function for the rows of one work-group.

    %c = mgx.dot %a, %b : tensor<?x64xf16, #mgx.dims<[batch, _]>>, tensor<64x32xf16>

The function is that of a product with the rows of one tile. Its pointers advance to the
work-group's rows. Its raw buffers end with the last row: rows beyond read 0 and are not stored.
The grid is a formula. Only the arguments are known to have rows, so M has no bound but memory.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace

from mlir import ir

from mgx_mlir.artifact.code_object import Argument
from mgx_mlir.artifact.formulas import Formulas
from mgx_mlir.artifact.target import Target
from mgx_mlir.codegen.builders import emit
from mgx_mlir.codegen.generic.lowering.element import sizes_of
from mgx_mlir.codegen.gpu.builders.function import signature
from mgx_mlir.codegen.gpu.builders.program import Generated
from mgx_mlir.codegen.gpu.dynamic.program import DynamicProgram
from mgx_mlir.codegen.gpu.families.contraction.constraints import problem_refusal
from mgx_mlir.codegen.gpu.families.contraction.convolution import Product, row_major
from mgx_mlir.codegen.gpu.families.contraction.cost import choose
from mgx_mlir.codegen.gpu.families.contraction.expanding import expanding_refusal
from mgx_mlir.codegen.gpu.families.contraction.function import DynamicRows
from mgx_mlir.codegen.gpu.families.contraction.generator import generate
from mgx_mlir.codegen.gpu.families.contraction.space import ProductSchedule, Tiling
from mgx_mlir.codegen.gpu.families.contraction.specs import Unit, unit_for
from mgx_mlir.codegen.gpu.families.family import Family
from mgx_mlir.codegen.problem.match import Match, mapped, match_contraction, used_arguments
from mgx_mlir.codegen.problem.problem import Axis, Computed, Matrix, in_memory
from mgx_mlir.codegen.refusal import Refusal
from mgx_mlir.dialects import mgx
from mgx_mlir.rewriting import symbolic as symbolic
from mgx_mlir.sizes.arithmetic import Number, Size, bounds, ceil_div

# The rows that a schedule is chosen for, where the bounds of the symbols allow as many.
USUAL_ROWS = 512


def dynamic_product_program(
    kernel: mgx.KernelOp, target: Target
) -> Generated[DynamicProgram] | Refusal | None:
    """The program of an `mgx.kernel` with symbolic sizes, and the schedule in words.

    A Refusal of products whose rows are not all that is symbolic; None where the kernel holds no
    contraction.
    """
    with kernel.context, kernel.location:
        anchors = [op for op in kernel.regions[0].blocks[0].operations if _is_anchor(op)]
        if not anchors:
            return None
        anchor = anchors[0].operation
        if len(anchors) > 1 or not anchor.name.endswith("dot"):
            return Refusal(f"{anchor.name}: its sizes are arguments")
        return _program(kernel, anchor, target).of(anchor.name)


def _is_anchor(op: ir.OpView) -> bool:
    return isinstance(op, (*mgx.CONVOLUTIONS, *mgx.DOTS))


def _program(
    kernel: mgx.KernelOp, anchor: ir.Operation, target: Target
) -> Generated[DynamicProgram] | Refusal:
    *outer, columns = sizes_of(anchor.results[0].type)
    depth = sizes_of(anchor.operands[0].type)[-1]
    rows = math.prod(outer)
    if isinstance(columns, Size) or isinstance(depth, Size):
        return Refusal("a size that is an argument other than its rows")
    whole = match_contraction(kernel)
    if whole is None:
        return Refusal("types, views or an epilogue that the generator does not match")
    tile = _tile(whole, rows)
    if isinstance(tile, Refusal):
        return tile
    match, strides = tile
    if any(isinstance(number, Size) for number in _numbers(match)):
        return Refusal("strides that are arguments")
    name, (inputs, results) = signature(kernel)
    elements = [math.prod(sizes_of(type_)) for type_ in inputs]
    for number, _ in used_arguments(match):
        wanted = rows * strides[number] if number in strides else None
        size = elements[number]
        if str(size) != str(wanted) if wanted is not None else isinstance(size, Size):
            return Refusal(f"input {number} is not of whole rows, or has no size without arguments")
    if any(str(math.prod(sizes_of(type_))) != str(rows * columns) for type_ in results):
        return Refusal("results of other sizes")
    chosen = _schedule(match, strides, _estimate(anchor, inputs), target)
    if isinstance(chosen, Refusal):
        return chosen
    schedule, unit = chosen
    own = schedule.rows(unit)
    match = _with_rows(match, own)
    sizes = [own * strides[n] if n in strides else size for n, size in enumerate(elements)]
    counts = [size if isinstance(size, int) else 0 for size in sizes]
    given = {number: counts[number] * emit.element_bytes(e) for number, e in used_arguments(match)}
    if refusal := problem_refusal(match, given, target):
        return refusal
    formulas = Formulas()
    steps = {Argument("input", number): stride for number, stride in strides.items()}
    steps |= {Argument("output", number): columns for number in range(len(results))}
    dynamic_rows = DynamicRows(
        Argument("size", formulas.number(rows)), formulas.number(ceil_div(rows, own)), own, steps
    )
    product = Product(match, row_major(match.problem), {})
    tiles = [own * columns] * len(results)
    tiling = Tiling(schedule, unit, target)
    program = generate(product, (counts, tiles), tiling, name, rows=dynamic_rows)
    found = DynamicProgram.of(program, kernel, formulas)
    return Generated(found, f"any number of rows, {schedule.describe(unit)}")


def _tile(match: Match, rows: Number) -> tuple[Match, dict[int, int]] | Refusal:
    """The match of one row, and the stride of rows in each input that has them."""
    problem = match.problem
    a, b = problem.a, problem.b
    if type(a) is not Matrix or not isinstance(b, Matrix) or match.added:
        return Refusal("operands that are not plain matrices")
    if match.place is not None or match.causal is not None or problem.batch * problem.M != rows:
        return Refusal("rows that are not those of the result")
    if not a.column.grows:
        return Refusal("rows along which places do not grow")
    if any(stride for _, stride in b.batch.factors) or any(
        stride
        for read in (b.tensors if isinstance(b, Computed) else ())
        for _, stride in read.matrix.batch.factors
    ):
        return Refusal("a right operand for each of a number of matrices that is an argument")
    strides: dict[int, int] = {}

    def joined(argument: int, batch: Axis, row: Axis) -> Axis | None:
        """Both axes as one row; None where the rows have no common stride."""
        axis = Axis.of(*batch.factors, *row.factors)
        stride = axis.stride
        if isinstance(stride, Size) or stride is None or stride < 0:
            return None
        if stride != strides.setdefault(argument, stride):
            return None
        return Axis(((1, stride),))

    refusal = Refusal("rows that are not evenly apart in memory")
    row = joined(a.argument, a.batch, a.row)
    if row is None or not strides[a.argument]:
        return refusal
    sources = []
    for source in match.sources:
        if isinstance(source, Matrix):
            axis = joined(source.argument, source.batch, source.row)
            if axis is None:
                return refusal
            source = replace(source, batch=Axis(()), row=axis)
        sources.append(source)
    if isinstance(b, Computed):
        reads = tuple(
            x
            if isinstance(x, ir.Attribute)
            else replace(x, matrix=replace(x.matrix, batch=Axis(())))
            for x in b.reads
        )
        b = replace(b, reads=reads)
    problem = replace(
        problem, batch=1, M=1, a=replace(a, batch=Axis(()), row=row), b=replace(b, batch=Axis(()))
    )
    strides = {number: stride for number, stride in strides.items() if stride}
    return replace(match, problem=problem, sources=tuple(sources)), strides


def _with_rows(match: Match, rows: int) -> Match:
    """A match of one row as a match of `rows` rows."""

    def several(x: Matrix) -> Matrix:
        ((_, stride),) = x.row.factors
        return replace(x, row=Axis.of((rows, stride)))

    problem = match.problem
    sources = mapped(match.sources, several)
    return replace(match, problem=replace(problem, M=rows, a=several(problem.a)), sources=sources)


def _numbers(match: Match) -> Iterator[Number]:
    """The sizes, offsets and strides of a match, which must not depend on symbols."""
    problem = match.problem
    yield from (problem.N, problem.K)
    for x in (problem.a, problem.b, *in_memory(problem.b), *match.reads):
        assert isinstance(x, Matrix)
        yield x.offset
        for axis in (x.batch, x.row, x.column):
            yield from (number for factor in axis.factors for number in factor)


def _estimate(anchor: ir.Operation, inputs: list[ir.Type]) -> int:
    """The number of rows that a schedule is chosen for."""
    known = symbolic.named_symbols(inputs)
    sizes = symbolic.sizes_of(anchor.results[0].type, known)[:-1]
    most = bounds(math.prod(size for size in sizes if size is not None))[1]
    return int(min(USUAL_ROWS, most))


def _schedule(
    match: Match, strides: dict[int, int], rows: int, target: Target
) -> tuple[ProductSchedule, Unit] | Refusal:
    """The schedule without split-K, and its unit, for about `rows` rows; or why there is none."""
    match = _with_rows(match, rows)
    problem = match.problem
    if refusal := problem_refusal(
        match, dict.fromkeys([n for n, _ in used_arguments(match)], 0), target
    ):
        return refusal
    unit = unit_for(target, problem.a.element, problem.accumulator, problem.b.element)
    assert unit is not None  # or the problem would have been refused
    if refusal := expanding_refusal(match.terms, unit.tile_depth):
        return refusal
    schedule = choose(match.terms, unit, target, lambda _: True)
    return (schedule, unit) if schedule else Refusal(f"no schedule fits {target.name}")


FAMILY = Family("product_rows", 20, dynamic_product_program)
