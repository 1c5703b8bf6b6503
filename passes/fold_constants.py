"""mgx-fold-constants: values that depend on constants alone are computed at compile time."""

from __future__ import annotations

import math
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from mlir import ir

from mgx_mlir.artifact.weights import key_of
from mgx_mlir.dialects import mgx
from mgx_mlir.elements import BYTE_FLOATS
from mgx_mlir.reference import evaluate_op
from mgx_mlir.rewriting.flops import flops_of_op
from mgx_mlir.rewriting.graph import main_function, node_name
from mgx_mlir.rewriting.pass_base import Pass, PassContext
from mgx_mlir.rewriting.prologues import prologue_values
from mgx_mlir.rewriting.queries import (
    blocks,
    element_bits,
    element_type,
    erase_dead,
    identity,
    shape,
    users,
)

# Constants of at most this many elements stay in the program; larger ones become weights.
INLINE_ELEMENTS = 64
# Elements that a compilation may read and write to compute constants: this many, and this many
# for each element of the model's weights.
_WORK, _WORK_OF_EACH = 1 << 28, 64
# The most elements of a weight that are compared with each other.
_MOST_EQUAL = 1 << 16
# Operations of a product that numpy does in the time in which it writes an element.
_FLOPS_AN_ELEMENT = 16
# Constants that are computed at once, of more elements than these.
_THREADS = 4
_MOST_ALONE = 1 << 14


@dataclass(frozen=True)
class FoldConstants(Pass):
    """Evaluates ops whose operands are constants, weights, or have no elements.

    Before:  %w = mgx.literal "w" : tensor<3x2xf32>
             %t = mgx.transpose %w permutation = [1, 0] : tensor<3x2xf32> -> tensor<2x3xf32>
    After:   %t = mgx.literal "folded.5feceb66ffc86f38" : tensor<2x3xf32>

    Broadcasts of constants stay: they cost nothing and their results can be large. An op
    whose result has more than `max_elements` elements stays too, as does one that would take
    more work than a model with so many weights may cost. Ops that expand weights of few bits
    stay where the product's kernel reads fewer bytes so (see `prologues`). With
    `keep_quantized`, quantized constants are not expanded to floats or wider integers. A weight
    of integers or 8-bit floats that are all equal, such as zero points, becomes a constant.
    """

    max_elements: int = 1 << 28
    keep_quantized: bool = False

    symbolic: ClassVar[bool] = True
    name: ClassVar[str] = "mgx-fold-constants"

    def apply(self, module: ir.Module, context: PassContext) -> None:
        folder = _Folder(context, self)
        found = list(blocks(main_function(module)))
        for block in found:
            folder.run(block)
        for block in reversed(found):
            erase_dead(block)


class _Folder:
    """Blocks come outermost first: values known in a block are known in the blocks inside it."""

    def __init__(self, context: PassContext, options: FoldConstants) -> None:
        self.context, self.options = context, options
        # Values that kernels compute from weights as they read them.
        self.kept: set[ir.Value] = set()
        # Results of ops that depend on constants alone, and the arrays computed of them.
        self.foldable: set[ir.Value] = set()
        # The foldable results whose elements are all equal, which take no work.
        self.splats: set[ir.Value] = set()
        if context.folding.left is None:
            elements = sum(math.prod(weight.shape) for weight in context.weights.values())
            context.folding.left = _WORK + _WORK_OF_EACH * elements
        self.arrays: dict[ir.Value, np.ndarray] = {}

    def run(self, block: ir.Block) -> None:
        for literal in [op for op in block.operations if isinstance(op, mgx.LiteralOp)]:
            self._shrink(literal)
        self.kept = prologue_values(block)
        ops = [op for op in block.operations if self._is_foldable(op)]
        stay = (*mgx.SOURCES, *mgx.BROADCASTS)
        needed = [op for op in ops if not isinstance(op, stay) and self._is_needed(op)]
        # numpy and the hash let go of Python's lock where arrays are large.
        large = [op.result for op in needed if math.prod(shape(op.result)) > _MOST_ALONE]
        with ThreadPoolExecutor(_THREADS) as threads:
            made = dict(zip(large, threads.map(self._made, large), strict=True))
        for op in needed:
            self._materialize(op, *(made.get(op.result) or self._made(op.result)))

    def _shrink(self, op: mgx.LiteralOp) -> None:
        """Replaces a weight of few numbers, all equal, by a constant. The op is dead then."""
        weight, type_ = self.context.weights.get(op.key.value), op.result.type
        element = element_type(op.result)
        may_shift = isinstance(element, ir.IntegerType) or str(element) in BYTE_FLOATS
        if weight is None or not may_shift or not 0 < math.prod(weight.shape) <= _MOST_EQUAL:
            return
        array = weight.array()
        if array.dtype == object or not np.all(array == array.flat[0]):
            return
        with ir.InsertionPoint(op), op.location:
            op.result.replace_all_uses_with(mgx.splat(array.flat[0], type_))

    def _is_foldable(self, op: ir.OpView) -> bool:
        if isinstance(op, mgx.LiteralOp):
            known = op.key.value in self.context.weights
        elif isinstance(op, mgx.ConstantOp):
            known = True
            if ir.DenseElementsAttr(op.value).is_splat:
                self.splats.add(op.result)
        else:
            known = self._depends_on_foldable(op) and self._is_affordable(op)
        if known:
            self.foldable.add(op.result)
        return known

    def _depends_on_foldable(self, op: ir.OpView) -> bool:
        if not op.operation.name.startswith("mgx.") or len(op.regions):
            return False
        if self.options.keep_quantized and _expands(op):
            return False
        if len(op.results) != 1 or not len(op.operands) or op.result in self.kept:
            return False
        type_ = ir.RankedTensorType(op.result.type)
        if not type_.has_static_shape:
            return False
        if np.prod(type_.shape, dtype=np.float64) > self.options.max_elements:
            return False
        made = 0 not in type_.shape
        return all(v in self.foldable or (made and _is_empty(v)) for v in op.operands)

    def _is_affordable(self, op: ir.OpView) -> bool:
        """Whether the budget covers the work of an op; subtracts it."""
        if (mgx.is_pointwise(op) or mgx.is_view(op)) and self.splats.issuperset(op.operands):
            self.splats.add(op.result)
            return True
        if isinstance(op, mgx.BROADCASTS):
            return True
        work = sum(math.prod(shape(value)) for value in (*op.operands, op.result))
        work += flops_of_op(op) // _FLOPS_AN_ELEMENT
        if not self.context.folding.spend(work):
            self.context.note("left: more work than folding may cost", node_name(op))
            return False
        return True

    def _is_needed(self, op: ir.OpView) -> bool:
        """Whether an op that stays uses the result: one that is not folded, or a broadcast."""
        return any(
            identity(user) not in self.foldable or isinstance(user, mgx.BROADCASTS)
            for user in users(op.result)
        )

    def _made(self, value: ir.Value) -> tuple[np.ndarray, str]:
        """The elements of a foldable value, and its key where it becomes a weight."""
        array = self._array(value)
        small = array.size <= INLINE_ELEMENTS or not any(array.strides)
        return array, "" if small else key_of(array)

    def _materialize(self, op: ir.OpView, array: np.ndarray, key: str) -> None:
        """Replaces the op's result by a constant, or by the weight that `key` names. The driver
        removes the dead op."""
        type_ = op.result.type
        with ir.InsertionPoint(op), op.location:
            if key:
                constant = mgx.literal(self.context.weights.add_array(array, key), type_)
            else:
                constant = mgx.constant(array, type=type_)
        self.context.note("fold", node_name(op))
        self.foldable.add(constant)
        self.arrays[constant] = array
        op.result.replace_all_uses_with(constant)

    def _array(self, value: ir.Value) -> np.ndarray:
        """The elements of a foldable value; a splat has stride 0 in every dimension."""
        waiting = [value]
        while waiting:
            if (last := waiting[-1]) not in self.foldable:
                self.arrays[last] = np.empty(shape(last), mgx.numpy_dtype(last.type))
            operands = [] if last in self.arrays else last.owner.operands
            missing = [operand for operand in operands if operand not in self.arrays]
            if missing:
                waiting += missing
            elif (made := waiting.pop()) not in self.arrays:
                self.arrays[made] = self._evaluate(made.owner)
        return self.arrays[value]

    def _evaluate(self, op: ir.OpView) -> np.ndarray:
        if isinstance(op, mgx.ConstantOp):
            return mgx.constant_array(op)
        if isinstance(op, mgx.LiteralOp):
            return self.context.weights[op.key.value].array()
        operands = [self.arrays[value] for value in op.operands]
        dims = shape(op.result)
        splats = not any(s for a in operands for s in a.strides)
        if mgx.is_pointwise(op) and splats and 0 not in dims:
            # All operands are splats: one element is enough.
            one = evaluate_op(op, [a.reshape(-1)[:1].reshape(()) for a in operands])
            return np.broadcast_to(np.asarray(one[0]).reshape(()), dims)
        return np.asarray(evaluate_op(op, operands)[0])


def _is_empty(value: ir.Value) -> bool:
    type_ = value.type
    if not isinstance(type_, ir.RankedTensorType) or not type_.has_static_shape:
        return False
    return 0 in type_.shape


def _expands(op: ir.OpView) -> bool:
    """Whether an op makes floats or integers of 32 bits of quantized numbers."""
    if isinstance(op, mgx.ConvertOp):
        return element_bits(op.x) == 8 and str(element_type(op.result)) == "i32"
    return isinstance(op, mgx.DequantizelinearOp)
