"""mgx-fold-constants: what depends on constants alone is computed once, at compile time."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from mlir import ir

from mgx_mlir.dialects import mgx
from mgx_mlir.graph import main_function, node_name
from mgx_mlir.pass_manager import Pass, PassContext
from mgx_mlir.reference import evaluate_op
from mgx_mlir.rewriting import BROADCASTS, blocks, erase_dead, replace, users

# Constants of at most this many elements stand in the program; larger ones are weights.
INLINE_ELEMENTS = 64
SOURCES = frozenset({"mgx.constant", "mgx.literal"})


@dataclass(frozen=True)
class FoldConstants(Pass):
    """Evaluates ops whose operands are constants or weights.

    Before:  %w = mgx.literal "w" : tensor<3x2xf32>
             %t = mgx.transpose %w permutation = [1, 0] : tensor<3x2xf32> -> tensor<2x3xf32>
    After:   %t = mgx.literal "folded.5feceb66ffc86f38" : tensor<2x3xf32>

    Broadcasts of constants stay: they cost nothing and their results can be large. An op
    whose result has more than `max_elements` elements stays too.
    """

    max_elements: int = 1 << 28

    name: ClassVar[str] = "mgx-fold-constants"

    def apply(self, module: ir.Module, context: PassContext) -> None:
        for block in blocks(main_function(module)):
            _Folder(block, context, self.max_elements).run()
            erase_dead(block)


class _Folder:
    def __init__(self, block: ir.Block, context: PassContext, max_elements: int) -> None:
        self.block = block
        self.context = context
        self.max_elements = max_elements
        self.foldable: set[ir.Operation] = set()
        self.arrays: dict[ir.Operation, np.ndarray] = {}

    def run(self) -> None:
        ops = [op for op in self.block.operations if self._is_foldable(op)]
        for op in ops:
            if op.operation.name not in SOURCES | BROADCASTS and self._is_needed(op):
                self._materialize(op)

    def _is_foldable(self, op: ir.OpView) -> bool:
        operation = op.operation
        if operation.name == "mgx.literal":
            known = ir.StringAttr(operation.attributes["key"]).value in self.context.weights
        elif operation.name == "mgx.constant":
            known = True
        else:
            known = self._depends_on_foldable(operation)
        if known:
            self.foldable.add(operation)
        return known

    def _depends_on_foldable(self, operation: ir.Operation) -> bool:
        if not operation.name.startswith("mgx.") or operation.regions:
            return False
        if len(operation.results) != 1 or not operation.operands:
            return False
        result = ir.RankedTensorType(operation.results[0].type)
        if not result.has_static_shape:
            return False
        if np.prod(result.shape, dtype=np.float64) > self.max_elements:
            return False
        owners = (value.owner for value in operation.operands)
        return all(isinstance(o, ir.Operation | ir.OpView) and o.operation in self.foldable for o in owners)

    def _is_needed(self, op: ir.OpView) -> bool:
        """Whether something that stays uses the op: one that is not folded, or a broadcast."""
        return any(
            user.operation not in self.foldable or user.operation.name in BROADCASTS
            for user in users(op.operation.results[0])
        )

    def _materialize(self, op: ir.OpView) -> None:
        array = self._array(op.operation)
        result = ir.RankedTensorType(op.operation.results[0].type)
        with ir.InsertionPoint(op), op.operation.location:
            if array.size <= INLINE_ELEMENTS or not any(array.strides):
                constant = mgx.constant(array, type=result)
            else:
                constant = mgx.literal(self.context.weights.add_array(array), result)
        self.context.note("fold", node_name(op))
        defining = constant.owner
        self.foldable.add(defining.operation)
        self.arrays[defining.operation] = array
        self.foldable.discard(op.operation)
        self.arrays.pop(op.operation, None)
        replace(op, [constant])

    def _array(self, operation: ir.Operation) -> np.ndarray:
        """The value of a foldable op; a splat has stride 0 in every dimension."""
        if operation not in self.arrays:
            self.arrays[operation] = self._evaluate(operation)
        return self.arrays[operation]

    def _evaluate(self, operation: ir.Operation) -> np.ndarray:
        if operation.name == "mgx.constant":
            return mgx.constant_array(operation.opview)
        if operation.name == "mgx.literal":
            return self.context.weights[ir.StringAttr(operation.attributes["key"]).value].array()
        operands = [self._array(value.owner.operation) for value in operation.operands]
        shape = tuple(ir.RankedTensorType(operation.results[0].type).shape)
        if operation.name in mgx.POINTWISE and not any(s for a in operands for s in a.strides):
            # All operands are splats: one element says it all.
            one = evaluate_op(operation.opview, [a.reshape(-1)[:1].reshape(()) for a in operands])
            return np.broadcast_to(np.asarray(one[0]).reshape(()), shape)
        return np.asarray(evaluate_op(operation.opview, operands)[0])
