"""The functions of convolutions: register tiles over windows, or Winograd's transformation.

Of a convolution of images of any size, runs of few pixels take the first and those of many the
second, whose schedule is that of a usual image.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from mlir import ir

from mgx_mlir.codegen.builders import emit
from mgx_mlir.codegen.cpu.contraction import emit_contraction, emit_packing
from mgx_mlir.codegen.cpu.epilogue import Epilogue
from mgx_mlir.codegen.cpu.frame import Frame, Memory, with_computed
from mgx_mlir.codegen.cpu.nests import Functions
from mgx_mlir.codegen.cpu.padded import Windows
from mgx_mlir.codegen.cpu.schedule import PACK_DEPTH, CpuSchedule, Machine
from mgx_mlir.codegen.cpu.windows import WindowProduct
from mgx_mlir.codegen.cpu.winograd import emit_filters, emit_winograd
from mgx_mlir.codegen.cpu.winograd_schedule import ELEMENT, Squares, WinogradSchedule
from mgx_mlir.codegen.loops.body import Body, Held, Indices
from mgx_mlir.codegen.loops.nest import Nest
from mgx_mlir.codegen.loops.place import Place
from mgx_mlir.codegen.meaning.element import element_of
from mgx_mlir.codegen.meaning.index import index_constant
from mgx_mlir.sizes.arithmetic import Number, ceil_div, exact, is_more

# The cost of a vector that is copied, in multiply-adds of a vector.
COPY = 4.0
# The pixels of a run from which Winograd's transformation pays.
MANY = 256


def windows_work(found: WindowProduct, schedule: CpuSchedule, machine: Machine) -> float:
    """The estimated work of a convolution, in multiply-adds of vectors: tiles, and copies."""
    problem = found.match.problem
    pixels = problem.M * problem.batch
    elements = pixels * problem.N if found.pixels is not None else 0
    elements += sum(copy.channels * pixels for copy in found.copies)
    return schedule.work(problem) + COPY * elements / machine.lanes("f32")


def add_windows(frame: Frame, found: WindowProduct, schedule: CpuSchedule) -> None:
    """Adds the functions of a convolution."""
    if found.pixels is not None:
        made = [Place(output.type, output.size) for output in frame.outputs]
        add_windows(replace(frame, outputs=made), replace(found, pixels=None), schedule)
        channels = found.match.problem.batch * found.match.problem.N
        back = exact(found.rows, found.pixels), found.pixels, channels
        for place, output in zip(made, frame.outputs, strict=True):
            add_transpose(frame.functions, place, output, back)
        return
    frame = with_computed(frame, found.made)
    copies = {copy.argument: copy.add(frame) for copy in found.copies}
    frame = replace(frame, inputs={**frame.inputs, **copies})
    match, problem = found.match, found.match.problem
    packed = _add_packing(frame, found, schedule)
    a = problem.a
    images = a.parts if isinstance(a, Windows) else (a,)
    used = sorted({x.argument for x in (*images, *match.reads)})
    blocks = problem.batch * schedule.column_blocks(problem)
    items = blocks * ceil_div(found.rows, schedule.item_rows)

    def work(
        read: Memory, others: Sequence[ir.Value], store: Epilogue, begin: ir.Value, end: ir.Value
    ) -> None:
        own = replace(problem, a=replace(a, memory=read)) if isinstance(a, Windows) else problem
        rows = None if isinstance(found.rows, int) else index_constant(found.rows)
        emit_contraction(own, schedule, read[a.argument], others[0], store, begin, end, rows)

    frame.add(match, used, items, work, [packed])


def _add_packing(frame: Frame, found: WindowProduct, schedule: CpuSchedule) -> Place:
    """Adds the function that packs all filters, which runs once for weights."""
    problem, element = found.match.problem, schedule.held_element(found.match.problem)
    size = schedule.packed_size(problem)
    packed = Place(emit.memory_type(element), size)
    blocks = problem.batch * schedule.column_blocks(problem)
    parts = [ceil_div(filters.row.size, PACK_DEPTH) for filters in found.filters]

    def body(pointers: Sequence[ir.Value], begin: ir.Value, end: ir.Value) -> None:
        *sources, target = pointers
        first, before = 0, 0
        for filters, count, source in zip(found.filters, parts, sources, strict=True):
            low, high = emit.maximum(begin, first), emit.minimum(end, first + count * blocks)
            own, rows = replace(problem, b=filters), (before, filters.row.size)
            pieces = emit.sub(low, first), emit.sub(high, first)
            emit_packing(own, schedule, source, target, *pieces, rows)
            first, before = first + count * blocks, before + filters.row.size

    places = [*(frame.inputs[filters.argument] for filters in found.filters), packed]
    kept = size * emit.element_bytes(element)
    frame.functions.add_on(places, sum(parts) * blocks, body, kept)
    return packed


def add_transpose(
    functions: Functions, source: Place, target: Place, sizes: tuple[Number | None, Number, Number]
) -> None:
    """Adds the function that swaps rows and columns of matrices. sizes: matrices, rows, columns."""
    matrices, rows, columns = sizes
    assert matrices is not None
    element = element_of(source.type)
    read = Held(source, (matrices, rows, columns), element)
    written = Held(target, (matrices, columns, rows), element)

    def moved(body: Body, dims: Indices) -> list[ir.Value]:
        matrix, column, row = dims
        return [body.element(read, (matrix, row, column))]

    functions.add(Nest(tuple(written.shape), 3, moved, (written,)))


def add_winograd(
    frame: Frame,
    found: WindowProduct,
    squares: Squares,
    plan: WinogradSchedule,
    schedule: CpuSchedule,
) -> None:
    """Adds the functions of a convolution, and those of its product for few pixels."""
    many: Number = 1
    if not isinstance(found.rows, int):
        many = is_more(found.rows, MANY - 1)
        add_windows(replace(frame, share=1 - many), found, schedule)
    size = plan.filter_size(squares)
    made = Place(emit.element_type(ELEMENT), size)

    def transform(pointers: Sequence[ir.Value], begin: ir.Value, end: ir.Value) -> None:
        source, target = pointers
        emit_filters(squares, plan, source, target, begin, end)

    kept = size * emit.element_bytes(ELEMENT)
    weights = frame.inputs[squares.filters.argument]
    frame.functions.add_on([weights, made], plan.filter_items(squares), transform, kept)
    match, image = found.match, squares.image
    used = sorted({image.argument, *(x.argument for x in match.reads)})

    def work(
        read: Memory, others: Sequence[ir.Value], store: Epilogue, begin: ir.Value, end: ir.Value
    ) -> None:
        emit_winograd(squares, plan, others[0], read[image.argument], store, begin, end)

    replace(frame, share=many).add(match, used, plan.items(squares), work, [made])
