"""Pooling over rows of output: the windows of a direct convolution, with another reduction.

Padding is the neutral element: minus infinity of a maximum, zero of an
average, which counts the elements inside.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from mlir import ir
from mlir.dialects import arith

from mgx_mlir.codegen.builders import emit
from mgx_mlir.codegen.builders.emit import Index
from mgx_mlir.codegen.cpu.direct import Direct, RowBlocks, choose_direct, tap_offsets
from mgx_mlir.codegen.cpu.epilogue import Epilogue
from mgx_mlir.codegen.cpu.schedule import Machine
from mgx_mlir.codegen.meaning.ops.movement import word
from mgx_mlir.codegen.problem.match import Match, with_epilogue
from mgx_mlir.codegen.problem.problem import Axis, Contraction, Image, Matrix
from mgx_mlir.codegen.problem.views import View, element_name, resolve
from mgx_mlir.dialects import mgx

SUMMED_AS = {"bf16": "f32", "f16": "f32", "f32": "f32", "f64": "f64"}


@dataclass(frozen=True)
class Pooling:
    """The windows as those of a convolution; `mode` is 'max' or 'average'.

    `match`: the epilogue and the results.
    """

    match: Match
    image: Image
    cut: Direct
    mode: str
    counts_padding: bool

    @property
    def problem(self) -> Contraction:
        """The sizes, as a contraction."""
        return self.match.problem


def pooling_of(kernel: mgx.KernelOp) -> tuple[mgx.PoolingOp, View, str, str] | None:
    """The one pooling of a kernel that generators take, its input, mode and element type."""
    pools = [op for op in kernel.body.blocks[0].operations if isinstance(op, mgx.PoolingOp)]
    if len(pools) != 1:
        return None
    (op,) = pools
    view, mode, element = resolve(op.x), word(op.mode), element_name(op.y.type)
    if view is None or mode not in ("max", "average") or element not in SUMMED_AS:
        return None
    if mode == "average" and (op.ceil_mode.value or any(d != 1 for d in op.dilations)):
        return None
    return op, view, mode, element


def match_pooling(kernel: mgx.KernelOp, machine: Machine) -> Pooling | None:
    """The kernel as pooling that this generator takes; None for any other."""
    found = pooling_of(kernel)
    if found is None:
        return None
    op, view, mode, element = found
    if any(len(dim) != 1 for dim in view.dims[2:]):
        return None
    image = Image(
        view.argument,
        element,
        view.offset,
        view.axis(0, 2),
        Axis(()),
        tuple(view.shape[2:]),
        tuple(dim[0][1] for dim in view.dims[2:]),
        tuple(op.y.type.shape[2:]),
        tuple(op.lengths),
        tuple(op.strides),
        tuple(op.dilations),
        tuple(op.pads)[: len(view.dims) - 2],
    )
    nothing = Matrix(0, element, 0, Axis(()), Axis(()), Axis(()))
    problem = Contraction(
        image.batch.size,
        1,
        math.prod(image.outputs),
        math.prod(image.window),
        nothing,
        image,
        SUMMED_AS[element],
    )
    cut = choose_direct(problem, machine)
    # Few outputs in a row leave most lanes idle: a reduction is faster.
    if cut is None or image.width < cut.lanes // 2:
        return None
    match = with_epilogue(kernel.body.blocks[0], [op], problem)
    if match is None:
        return None
    return Pooling(match, image, cut, mode, op.count_include_pad.value)


def emit_pooling(
    pooling: Pooling,
    inputs: Mapping[int, ir.Value],
    outputs: Sequence[ir.Value],
    begin: ir.Value,
    end: ir.Value,
) -> None:
    """Builds the work of items begin .. end at the insertion point."""
    problem, image, cut = pooling.problem, pooling.image, pooling.cut
    lanes = cut.lanes
    epilogue = Epilogue(pooling.match, inputs, outputs)
    rows = RowBlocks(problem, image, cut, inputs[image.argument])
    offsets = tap_offsets(problem, image, cut)
    row_size = cut.planes * cut.width * (image.steps[0] if len(image.sizes) == 2 else 1)

    def block(batch: Index, first: Index, count: Index) -> None:
        def row(r: Index) -> None:
            out = emit.add(first, r)

            def part(column: Index) -> None:
                base = emit.linear(column, (r, row_size))
                taps = [emit.load_vector(rows.memory, emit.add(base, at), lanes) for at in offsets]
                total = taps[0]
                for x in taps[1:]:
                    if pooling.mode == "max":
                        total = arith.maximumf(total, x)
                    else:
                        total = arith.addf(total, x)
                if pooling.mode == "average":
                    total = arith.divf(total, _count(pooling, out, column))
                mask = None
                if image.width % lanes:
                    mask = emit.lane_mask(emit.sub(image.width, column), lanes)
                epilogue(total, batch, 0, emit.linear(column, (out, image.width)), mask)

            emit.loop(0, image.width, lanes, part)

        emit.loop(0, count, 1, row)

    rows.each(begin, end, block, -math.inf if pooling.mode == "max" else 0)


def _count(pooling: Pooling, row: Index, column: Index) -> ir.Value:
    """The divisors of the averages: elements in the windows at `column` and the next lanes."""
    image, lanes = pooling.image, pooling.cut.lanes
    accumulator = pooling.problem.accumulator
    if pooling.counts_padding or not (any(image.pads) or _reaches(image)):
        return emit.constant(math.prod(image.window), accumulator, lanes)
    rows: Index = 1
    if len(image.sizes) == 2:
        rows = _inside(image, 0, row)
    i64 = ir.IntegerType.get_signless(64)
    wide = ir.VectorType.get([lanes], i64)
    lane = arith.constant(
        wide, ir.DenseElementsAttr.get(np.arange(lanes, dtype=np.int64), type=wide)
    )

    def number(n: int) -> ir.Value:
        return emit.constant(n, "i64", lanes)

    columns = arith.addi(emit.splat(arith.index_cast(i64, emit.value(column)), lanes), lane)
    start = arith.subi(arith.muli(columns, number(image.steps[-1])), number(image.pads[-1]))
    stop = arith.minsi(arith.addi(start, number(image.window[-1])), number(image.sizes[-1]))
    inside = arith.subi(stop, arith.maxsi(start, number(0)))
    both = arith.muli(inside, emit.splat(arith.index_cast(i64, emit.value(rows)), lanes))
    return arith.sitofp(ir.VectorType.get([lanes], emit.element_type(accumulator)), both)


def _inside(image: Image, axis: int, out: Index) -> Index:
    """The number of elements of the window at `out` that lie in the image, along an axis."""
    start = emit.add(emit.mul(out, image.steps[axis]), -image.pads[axis])
    stop = emit.minimum(emit.add(start, image.window[axis]), image.sizes[axis])
    return emit.sub(stop, emit.maximum(start, 0))


def _reaches(image: Image) -> bool:
    """Whether the last window reaches beyond the image."""
    return any(
        (out - 1) * step - pad + window > size
        for out, step, pad, window, size in zip(
            image.outputs, image.steps, image.pads, image.window, image.sizes, strict=True
        )
    )
