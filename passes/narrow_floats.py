"""mgx-narrow-floats: f32 tensors become f16 or bf16 where their range and precision allow it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import ClassVar

import ml_dtypes
import numpy as np
from mlir import ir

from mgx_mlir.dialects import mgx
from mgx_mlir.dialects.types import dims_of
from mgx_mlir.errors import UsageError
from mgx_mlir.rewriting.graph import main_function, node_name
from mgx_mlir.rewriting.pass_base import Pass, PassContext
from mgx_mlir.rewriting.queries import (
    blocks,
    definition,
    element_type,
    erase_dead,
    users,
    with_operand,
)

_NARROW = {"f16": np.dtype(np.float16), "bf16": np.dtype(ml_dtypes.bfloat16)}
# The types that the floats of a model may get.
FLOATS = ("f32", *_NARROW)
# Ops whose results lose too much in few bits: sums and statistics, functions whose results grow
# or shrink with the exponent of their operand, and the ends of quantized parts.
_SENSITIVE = (
    mgx.CosOp,
    mgx.CoshOp,
    mgx.DequantizelinearOp,
    mgx.DivOp,
    mgx.ExpOp,
    mgx.FmodOp,
    mgx.LogOp,
    mgx.Log1pOp,
    mgx.Log2Op,
    mgx.LogsoftmaxOp,
    mgx.LrnOp,
    mgx.ModOp,
    mgx.PowOp,
    mgx.PrefixScanProdOp,
    mgx.PrefixScanSumOp,
    mgx.QuantizelinearOp,
    mgx.RecipOp,
    mgx.ReduceMeanOp,
    mgx.ReduceProdOp,
    mgx.ReduceSumOp,
    mgx.ResizeOp,
    mgx.RsqrtOp,
    mgx.SinOp,
    mgx.SinhOp,
    mgx.SoftmaxOp,
    mgx.SqrtOp,
    mgx.SuppressOp,
    mgx.TanOp,
)
# Ops that stay as they are: constants, conversions, and bodies of their own.
_ENDS = (*mgx.SOURCES, *mgx.CONTROL_FLOW, *mgx.FUSED, mgx.BitCastOp, mgx.ConvertOp, mgx.YieldOp)


@dataclass(frozen=True)
class NarrowFloats(Pass):
    """Computes in f16 or bf16, with f32 for sums, statistics and what depends on exponents.

    Before:  %h = mgx.dot %x, %w : tensor<2x3xf32>, tensor<3x4xf32> -> tensor<2x4xf32>
             %y = mgx.softmax %h axis = 1 : tensor<2x4xf32>
    After:   %a = mgx.convert %x : tensor<2x3xf32> -> tensor<2x3xf16>      // %b of %w alike
             %h = mgx.dot %a, %b : tensor<2x3xf16>, tensor<3x4xf16> -> tensor<2x4xf16>
             %f = mgx.convert %h : tensor<2x4xf16> -> tensor<2x4xf32>
             %y = mgx.softmax %f axis = 1 : tensor<2x4xf32>

    An op stays in f32 when it is sensitive, when all its users stay, when an operand is the result
    of a sensitive op, when it reads a constant that `to` cannot hold, when `keep` (patterns such as
    `*/head/*`) names its node, and when `only` (ops such as `dot`) leaves it out. Inputs and
    outputs of the program keep their types. Products sum in f32 as ever. The sums of products of
    8-bit numbers, and what is computed of them, are rounded once, where they are stored.
    """

    to: str = "f16"
    keep: tuple[str, ...] = ()
    only: tuple[str, ...] = ()

    cleanup: ClassVar[bool] = True
    rounds: ClassVar[bool] = True
    symbolic: ClassVar[bool] = True
    name: ClassVar[str] = "mgx-narrow-floats"

    def apply(self, module: ir.Module, context: PassContext) -> None:
        if self.to not in _NARROW:
            raise UsageError(f"{self.name}: to is '{self.to}'; use one of {', '.join(_NARROW)}")
        for name in self.only:
            if not module.context.is_registered_operation(f"mgx.{name}"):
                raise UsageError(f"{self.name}: only has '{name}', which is no op of mgx's dialect")
        narrowing = _Narrowing(self, context)
        for block in blocks(main_function(module)):
            narrowing.apply(block)
            erase_dead(block)


class _Narrowing:
    """Changes the ops of blocks, the outermost first. `narrowed` are the results that were f32."""

    def __init__(self, options: NarrowFloats, context: PassContext) -> None:
        dtype = _NARROW[options.to]
        self.context = context
        self.keep = options.keep
        self.only = {f"mgx.{name}" for name in options.only}
        self.f32 = ir.F32Type.get()
        self.narrow = mgx.element_type(dtype)
        self.largest = float(ml_dtypes.finfo(dtype).max)
        self.narrowed: set[ir.Value] = set()
        # Results of wide ops that memory holds.
        self.rounded: set[ir.Value] = set()
        self.ranges: dict[str, float] = {}

    def apply(self, block: ir.Block) -> None:
        wide = self._wide(block)
        # Values of the block in their other type.
        other: dict[ir.Value, ir.Value] = {}
        for op in list(block.operations):
            narrows = self._narrows(op, wide)
            with ir.InsertionPoint(op), op.location:
                for number, value in enumerate(list(op.operands)):
                    if not self._was_f32(value):
                        continue
                    if narrows != (value in self.narrowed):
                        if value not in other:
                            other[value] = _converted(value, self.narrow if narrows else self.f32)
                        op.operation.operands[number] = other[value]
            if narrows:
                self.context.note(op.operation.name, node_name(op))
                self._narrow_results(op)
            elif not self.rounded.isdisjoint(op.results):
                self._round_results(op)

    def _was_f32(self, value: ir.Value) -> bool:
        is_tensor = isinstance(value.type, ir.RankedTensorType)
        return value in self.narrowed or (is_tensor and element_type(value) == self.f32)

    def _narrows(self, op: ir.OpView, wide: set[ir.Value]) -> bool:
        """Whether an op reads, and where it gives floats gives, the narrow type."""
        if not op.operation.name.startswith("mgx.") or isinstance(op, _ENDS):
            return False
        floats = [value for value in op.operands if self._was_f32(value)]
        results = [value for value in op.results if self._was_f32(value)]
        if not floats or any(result in wide for result in op.results):
            return False
        # Comparisons read their operands as they are.
        return bool(results) or all(value in self.narrowed for value in floats)

    def _narrow_results(self, op: ir.OpView) -> None:
        for result in op.results:
            if self._was_f32(result):
                result.set_type(mgx.tensor_type(dims_of(result.type), self.narrow))
                self.narrowed.add(result)

    def _round_results(self, op: ir.OpView) -> None:
        with ir.InsertionPoint.after(op), op.location:
            for result in op.results:
                rounded = mgx.convert(result, self.narrow)
                result.replace_all_uses_except(rounded, rounded.owner.operation)
                self.narrowed.add(rounded)

    def _wide(self, block: ir.Block) -> set[ir.Value]:
        """The results of the ops of a block that stay in f32."""
        ops = [op for op in block.operations if len(op.results)]
        sensitive = {result for op in ops if isinstance(op, _SENSITIVE) for result in op.results}
        stored = set[ir.Value]() if self.only else _stored(ops)
        summed = _sums(ops, stored)
        found: set[ir.Value] = sensitive | summed
        kept: set[ir.Value] = set()
        for op in ops:
            names = node_name(op).split("+")
            if any(fnmatchcase(name, p) for name in names for p in self.keep):
                kept.update(op.results)
            left_out = bool(self.only and op.operation.name not in self.only)
            if left_out or _is_quantized(op) or self._overflows(op):
                found.update(op.results)
        found |= kept
        # Work whose results only such ops read: it is in their kernel. What is stored is narrow,
        # and multiplied as it is.
        for op in () if self.only else reversed(ops):
            if not mgx.is_pointwise(op) and not isinstance(op, mgx.BROADCASTS):
                continue
            if not stored.isdisjoint(op.results):
                continue
            if not stored.isdisjoint(op.operands) and _is_only_quantized(op):
                continue
            if all(not len(user.results) or user.results[0] in found for user in _readers(op)):
                found.update(op.results)
        read = {_source(value) for op in ops if op.results[0] not in found for value in op.operands}
        self.rounded |= (summed & (stored | read)) - kept
        # The first step after a sensitive op scales its result to the size of the others.
        for op in ops:
            follows = mgx.is_pointwise(op) and any(_source(v) in sensitive for v in op.operands)
            source = _source(op.x) if isinstance(op, mgx.BROADCASTS) else None
            if follows or (source in found and source not in self.rounded):
                found.update(op.results)
        return found

    def _overflows(self, op: ir.OpView) -> bool:
        """Whether an op reads a finite constant that the narrow type cannot hold."""
        sources = map(definition, map(_source, op.operands))
        return any(self._largest(op) > self.largest for op in sources if op is not None)

    def _largest(self, op: ir.OpView) -> float:
        """The largest finite number of a constant; 0 of other ops."""
        if isinstance(op, mgx.ConstantOp):
            return _largest(mgx.constant_array(op))
        if not isinstance(op, mgx.LiteralOp):
            return 0
        key = op.key.value
        if key not in self.ranges:
            self.ranges[key] = _largest(self.context.weights[key].array())
        return self.ranges[key]


def _converted(value: ir.Value, element: ir.Type) -> ir.Value:
    """A value of another type; what is repeated is converted once."""
    op = definition(value)
    if not isinstance(op, mgx.BROADCASTS):
        return mgx.convert(value, element)
    repeated = with_operand(op, 0, _converted(op.operands[0], element))
    repeated.set_type(mgx.tensor_type(dims_of(value.type), element))
    return repeated


def _readers(op: ir.OpView) -> list[ir.OpView]:
    """The ops that read an op's results."""
    return [user for result in op.results for user in users(result)]


def _stored(ops: Sequence[ir.OpView]) -> set[ir.Value]:
    """The results that a product depends on, and that are scaled by what follows from it before
    they are quantized: a squeeze and excitation."""
    products: dict[ir.Value, int] = {}
    found: set[ir.Value] = set()
    for op in ops:
        count = max((products.get(value, 0) for value in op.operands), default=0)
        products.update(dict.fromkeys(op.results, count + isinstance(op, mgx.CONTRACTIONS)))
    for op in ops:
        if isinstance(op, mgx.MulOp) and _is_only_quantized(op):
            scaled = (x for x in op.operands if products.get(x, 0) < products[op.c])
            found.update(x for x in scaled if mgx.is_pointwise(definition(x)))
    return found


def _is_only_quantized(op: ir.OpView) -> bool:
    readers = _readers(op)
    return bool(readers) and all(isinstance(user, mgx.QuantizelinearOp) for user in readers)


def _largest(array: np.ndarray) -> float:
    if array.dtype != np.float32 or not array.size:
        return 0
    # A splat is one element.
    sample = array if any(array.strides) else array[(0,) * array.ndim]
    return float(np.max(np.abs(sample), initial=0, where=np.isfinite(sample)))


def _source(value: ir.Value) -> ir.Value:
    """The value that broadcasts and reshapes lead back to."""
    op = definition(value)
    while isinstance(op, (*mgx.BROADCASTS, *mgx.RESHAPES)):
        value = op.operands[0]
        op = definition(value)
    return value


def _is_quantized(op: ir.OpView) -> bool:
    """Whether an op multiplies dequantized tensors, which another pass multiplies as they are."""
    return isinstance(op, mgx.CONTRACTIONS) and all(
        isinstance(definition(_source(value)), mgx.DequantizelinearOp) for value in op.operands
    )


def _sums(ops: Sequence[ir.OpView], stored: set[ir.Value]) -> set[ir.Value]:
    """The sums of products of 8-bit numbers, and what is computed of them before it is stored."""
    found: set[ir.Value] = set()
    for op in ops:
        follows = mgx.is_pointwise(op) and any(x in found and x not in stored for x in op.operands)
        if follows or _sums_quantized(op):
            found.update(x for x in op.results if isinstance(element_type(x), ir.FloatType))
    return found


def _sums_quantized(op: ir.OpView) -> bool:
    """Whether an op gives the sums of a product of 8-bit numbers as floats."""
    if isinstance(op, mgx.ConvertOp):
        return str(element_type(op.x)) == "i32"
    return isinstance(op, mgx.QuantDotOp | mgx.QuantConvolutionOp)
