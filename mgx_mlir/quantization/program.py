"""Products of a program of mgx ops, quantized, as `rewrite` does with those of an ONNX model.

    x -> quantizelinear -> dequantizelinear -> dot or convolution <- dequantizelinear <- codes

The ranges of x are those of a program of the CPU, whose outputs are all x. In bodies of if, loop
and scan, whose values no output shows, each row of x has a scale that follows from its elements.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import prod
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from mlir import ir
from mlir.dialects import func

from mgx_mlir.compiler import CompileOptions
from mgx_mlir.dialects import mgx
from mgx_mlir.dialects.types import dims_of
from mgx_mlir.errors import Edge, UsageError
from mgx_mlir.importer import element_types, emit, tensors
from mgx_mlir.importer.structure import fresh
from mgx_mlir.loader import compile as compiled
from mgx_mlir.passes.fold_constants import FoldConstants
from mgx_mlir.pipelines.runner import run_pipeline
from mgx_mlir.quantization import channels
from mgx_mlir.quantization import samples as data
from mgx_mlir.quantization.calibration import METHOD_OF, calibrate, group_range
from mgx_mlir.quantization.channels import LARGEST, TYPES, Parameters
from mgx_mlir.quantization.groups import Group, groups_of, is_moved, least_gain
from mgx_mlir.quantization.ranges import Ranges
from mgx_mlir.quantization.samples import Samples
from mgx_mlir.reference.meanings import enum
from mgx_mlir.rewriting.graph import Graph, node_name, set_signature, set_value_names, value_names
from mgx_mlir.rewriting.pass_base import PassContext
from mgx_mlir.rewriting.queries import (
    blocks,
    broadcast_source,
    definition,
    element_type,
    erase_dead,
    is_constant,
    is_static,
    new_literal,
    op_name,
    replace,
    shape,
    stored_array,
    users,
)

OPERATORS = ("convolution", "dot")
_PRODUCTS = (mgx.ConvolutionOp, mgx.DotOp)
# Ops that need all bits of their operand: a scale does not fold over their neighbours.
_STATISTICS = (
    mgx.LogsoftmaxOp, mgx.ReduceMeanOp, mgx.ReduceSumOp, mgx.SoftmaxOp,
)  # fmt: skip
_FLOATS = ("f32", "f16", "bf16")


@dataclass(frozen=True)
class _Product:
    """An op that multiplies x with a constant `weight`, without its broadcasts.

    `axis` is that of the output channels in the weight, `channel` that of the summed ones in x.
    """

    op: ir.OpView
    x: ir.Value
    weight: ir.Value
    axis: int
    channel: int


@Edge("quantizing")
def quantize_program(
    graph: Graph,
    kind: str,
    samples: str | Path | Iterable[Mapping[str, Any]] | None = None,
    operators: Collection[str] = OPERATORS,
    count: int | None = None,
) -> int:
    """Quantizes, in place, a program's products of floats with constants; returns their number.

    `kind` is 'int8' or 'fp8', `operators` are those to quantize. Ranges come from `samples` as of
    `Calibration`, at most `count`; from random inputs without. Products of two activations, and
    of a tensor with NaN or Inf, stay as they are. Raises UsageError for samples that do not fit,
    and for another kind.
    """
    if kind not in METHOD_OF:
        raise UsageError(f"there are no products of '{kind}'; there are: {', '.join(METHOD_OF)}")
    with graph.module.context, ir.Location.unknown():
        folded = FoldConstants(keep_quantized=True)
        run_pipeline(graph.module, [folded], PassContext(weights=graph.weights))
        quantizer = _Quantizer(graph, kind)
        return quantizer.run(quantizer.samples(samples, count), operators)


class _Quantizer:
    def __init__(self, graph: Graph, kind: str) -> None:
        self.graph, self.kind = graph, kind
        self.block = graph.main.regions[0].blocks[0]
        # The quantized tensors, in f32 again, and their scales.
        self.rounded: dict[ir.Value, ir.Value] = {}
        self.weights: dict[tuple[ir.Value, int], ir.Value] = {}

    def samples(
        self, given: str | Path | Iterable[Mapping[str, Any]] | None, count: int | None
    ) -> Samples:
        """The samples of the program's inputs."""
        arguments = self.block.arguments
        names = value_names(self.graph.main, "arg_attrs", len(arguments))
        types = {n: value.type for n, value in zip(names, arguments, strict=True)}
        if given is None:
            return data.random_samples(_onnx_types(types, least=True), count)
        return data.read(given, _onnx_types(types), count)

    def run(self, samples: Samples, operators: Collection[str]) -> int:
        outer: list[_Product] = []
        inner: list[_Product] = []
        for block in blocks(self.graph.main):
            found = (self._product(op, operators) for op in block.operations)
            (outer if block == self.block else inner).extend(p for p in found if p)
        if set(operators) == set(OPERATORS):
            outer = self._gaining(outer)
        groups = groups_of([product.x for product in outer], self._folded)
        names = _named([*(v for g in groups for v in g.roots), *(p.x for p in outer)])
        ranges = self._ranges(names, outer, samples) if outer else Ranges({})
        for group in groups:
            self._quantize_group(group, names, ranges)
        outer = [product for product in outer if product.x in self.rounded]
        for product in outer:
            self._quantize(product, self.rounded[product.x], ranges.means.get(names[product.x]))
        # Recurrent layers have an axis of directions; their loops stay as they are.
        inner = [p for p in inner if isinstance(p.op, mgx.DotOp) and len(shape(p.weight)) == 2]
        for product in inner:
            with ir.InsertionPoint(product.op), product.op.location:
                x = self._rounded_rows(product.x)
            self._quantize(product, x, None)
        erase_dead(self.block)
        return len(outer) + len(inner)

    def _product(self, op: ir.OpView, operators: Collection[str]) -> _Product | None:
        if not isinstance(op, _PRODUCTS) or op_name(op).removeprefix("mgx.") not in operators:
            return None
        x, weight = op.operands
        is_dot = isinstance(op, mgx.DotOp)
        base = broadcast_source(weight) if is_dot else weight
        array = stored_array(base, self.graph.weights)
        if array is None or array.ndim < 2 or not array.size or is_constant(x):
            return None
        if str(element_type(x)) not in _FLOATS or isinstance(definition(x), mgx.DequantizelinearOp):
            return None
        if is_dot and (prod(array.shape[:-2]) != 1 or array.shape[-2:] != shape(weight)[-2:]):
            return None
        return _Product(op, x, base, array.ndim - 1 if is_dot else 0, -1 if is_dot else 1)

    def _gaining(self, products: Sequence[_Product]) -> list[_Product]:
        """The products but those of the program's inputs that have a small part of all weights."""
        sizes = [prod(shape(p.weight)) for p in products]
        least, given = least_gain(sizes), set(self.block.arguments)
        return [
            p for p, size in zip(products, sizes, strict=True)
            if size > least or not is_moved(p.x, _carried, given.__contains__)
        ]  # fmt: skip

    def _folded(self, value: ir.Value) -> list[ir.Value] | None:
        """The tensors that share a scale with one, because their elements only move to it."""
        sources = _carried(value)
        return sources if sources is not None and all(map(self._may_round, sources)) else None

    def _may_round(self, value: ir.Value) -> bool:
        return not any(isinstance(u, (*_STATISTICS, func.ReturnOp)) for u in users(value))

    def _ranges(
        self,
        names: Mapping[ir.Value, str],
        products: Sequence[_Product],
        samples: Samples,
    ) -> Ranges:
        axes: dict[str, int | None] = dict.fromkeys(names.values())
        axes |= {names[product.x]: product.channel for product in products}
        run = _runner(self._tapped(names))
        return calibrate(run, axes, samples, method=METHOD_OF[self.kind])

    def _tapped(self, names: Mapping[ir.Value, str]) -> Graph:
        """A copy of the program whose outputs are these values."""
        main, old = self.graph.main, list(self.block.operations)[-1]
        outputs = list(old.operands)
        own = value_names(main, "res_attrs", len(outputs))
        try:
            self._return(list(names), list(names.values()))
            text = self.graph.module.operation.get_asm(enable_debug_info=True)
        finally:
            self._return(outputs, own)
        return Graph(ir.Module.parse(text), self.graph.weights, self.graph.name)

    def _return(self, values: Sequence[ir.Value], names: Sequence[str]) -> None:
        list(self.block.operations)[-1].erase()
        with ir.InsertionPoint(self.block):
            func.ReturnOp(values)
        set_signature(self.graph.main)
        set_value_names(self.graph.main, "res_attrs", names)

    def _quantize_group(
        self, group: Group[ir.Value], names: Mapping[ir.Value, str], ranges: Ranges
    ) -> None:
        """Quantizes the tensors of one scale for all their readers but the program's outputs."""
        ends = group_range(ranges, [names[root] for root in group.roots])
        if ends is None:
            return
        numbers = Parameters.of(self.kind, ends, asymmetric=True)
        for value in group.members:
            uses = list(value.uses)
            maker = definition(value)
            point = (
                ir.InsertionPoint.at_block_begin(self.block) if maker is None
                else ir.InsertionPoint.after(maker.operation)
            )  # fmt: skip
            with point, maker.location if maker is not None else ir.Location.unknown():
                wide = emit.convert(value, "f32")
                found = self._quantized(wide, emit.like(wide, numbers.scale), numbers.zero)
                narrow = emit.convert(found, element_type(value))
            self.rounded[value] = found
            for use in uses:
                if not isinstance(use.owner.opview, func.ReturnOp):
                    use.owner.operands[use.operand_number] = narrow

    def _quantized(self, x: ir.Value, scale: ir.Value, zero: int = 0) -> ir.Value:
        """x rounded: quantized and dequantized."""
        stored = mgx.element_type(TYPES[self.kind])
        point = mgx.splat(zero, mgx.tensor_type(dims_of(x.type), stored))
        codes = mgx.quantizelinear(x, scale, point, to=TYPES[self.kind])
        return mgx.dequantizelinear(codes, scale, point, to=np.float32)

    def _rounded_rows(self, x: ir.Value) -> ir.Value:
        """x, each row of its last dimension rounded by a scale from its largest number."""
        wide = emit.convert(x, "f32")
        most = mgx.reduce_max(mgx.abs(wide), [-1])
        scale = emit.mul(most, 1 / LARGEST[self.kind])
        scale = mgx.max(scale, emit.like(scale, np.finfo(np.float32).tiny))
        return self._quantized(wide, emit.broadcast_together(wide, scale)[1])

    def _quantize(self, product: _Product, x: ir.Value, means: np.ndarray | None) -> None:
        """Replaces a product by that of x and the rounded weight, less its mean error."""
        op, axis, kind = product.op, product.axis, self.kind
        old = op.results[0]
        array = stored_array(product.weight, self.graph.weights)
        assert array is not None
        array = array.astype(np.float32, copy=False)
        scales = channels.scales_of(array, axis, kind)
        weight = self._weight(product, array, scales)
        with ir.InsertionPoint(op), op.location:
            weight = emit.broadcast(weight, tensors.dims(op.operands[1]))
            made: ir.Value = ir.Operation.create(
                op.operation.name,
                [mgx.tensor_type(dims_of(old.type), mgx.element_type(np.float32))],
                [x, weight],
                {name: op.attributes[name] for name in op.attributes},
            ).results[0]
            error = None
            if means is not None:
                error = channels.mean_error(array, scales, axis, kind, means)
            if error is not None and error.any():
                vector = mgx.constant(error.astype(np.float32))
                at = 1 if axis == 0 else len(dims_of(made.type)) - 1
                made = mgx.sub(made, emit.along(made, vector, at))
            replace(op, [emit.convert(made, element_type(old))])

    def _weight(self, product: _Product, array: np.ndarray, scales: np.ndarray) -> ir.Value:
        """The rounded weight, which products share."""
        key = (product.weight, product.axis)
        known = self.weights.get(key)
        if known is not None:
            return known
        maker = definition(product.weight)
        assert maker is not None
        codes = channels.quantized(array, scales, product.axis, self.kind)
        with ir.InsertionPoint(maker), maker.location:
            stored = new_literal(codes, mgx.element_type(codes.dtype), self.graph.weights)
            scale = emit.along(stored, mgx.constant(scales), product.axis)
            found = mgx.dequantizelinear(stored, scale, to=np.float32)
        self.weights[key] = found
        return found


def _carried(value: ir.Value) -> list[ir.Value] | None:
    """The tensors whose elements an op moves or chooses; None where it computes."""
    op = definition(value)
    if op is None or not is_static(op):
        return None
    match op:
        case mgx.ConcatOp():
            found = list(op.operands)
        case mgx.PoolingOp() if enum(op.mode) == "max":
            found = [op.x]
        case mgx.GatherOp():
            found = [op.x]
        case _ if mgx.is_view(op) and not isinstance(op, mgx.BROADCASTS):
            found = [op.operands[0]]
        case _:
            return None
    return None if any(map(is_constant, found)) else found


def _named(values: Sequence[ir.Value]) -> dict[ir.Value, str]:
    """A name for each value, that of its node where it has one."""
    taken: set[str] = set()
    found: dict[ir.Value, str] = {}
    for value in values:
        if value not in found:
            op = definition(value)
            found[value] = fresh((op and (node_name(op) or op_name(op))) or "input", taken)
    return found


def _onnx_types(inputs: Mapping[str, ir.Type], *, least: bool = False) -> dict[str, onnx.TypeProto]:
    """The inputs' types by name. `least`: open dimensions have the smallest size that they take."""
    found = {}
    for name, kind in inputs.items():
        dims = [
            d if isinstance(d, int) else max(d.min, 1) if least and isinstance(d, mgx.DimAttr)
            else None for d in dims_of(kind)
        ]  # fmt: skip
        element = element_types.of_numpy(mgx.numpy_dtype(kind)).onnx
        found[name] = onnx.helper.make_tensor_type_proto(element, dims)
    return found


def _runner(graph: Graph) -> Callable[[Mapping[str, Any]], Mapping[str, Any]]:
    mode = "full-dynamic" if graph.open_dims() else "default"
    return compiled(graph, "cpu", CompileOptions(mode=mode)).run
