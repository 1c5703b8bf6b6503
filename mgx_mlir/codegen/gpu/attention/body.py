"""From sums of products to the scores of a softmax: the body of the attention, on vectors."""

from __future__ import annotations

from collections.abc import Mapping

from mlir import ir

from mgx_mlir.codegen.contraction import emit
from mgx_mlir.codegen.contraction.attention import Attention
from mgx_mlir.codegen.contraction.emit import Index
from mgx_mlir.codegen.contraction.match import Operand
from mgx_mlir.codegen.gpu.contraction.epilogue import operand_vector
from mgx_mlir.codegen.lowering import emit_pointwise


class Body:
    """Applies the body to vectors of scores of one query and neighbouring keys.

    `inputs` (by number) are raw buffers: reads past their end give 0.
    """

    def __init__(self, attention: Attention, inputs: Mapping[int, ir.Value]) -> None:
        self._attention, self._inputs = attention, inputs
        self._loaded: dict[tuple[int, int], ir.Value] = {}

    def begin_block(self) -> None:
        """Extras that were read for a block of keys serve no other."""
        self._loaded = {}

    def __call__(
        self, x: ir.Value, batch: Index, query: Index, key: Index, number: int
    ) -> ir.Value:
        """The scores of keys from `key` on; `number` counts the vectors of keys in the block."""
        attention = self._attention
        lanes = ir.VectorType(x.type).shape[0]
        operands = [
            x if source is None else self._extra(at, source, batch, query, key, number, lanes)
            for at, source in enumerate(attention.sources)
        ]
        with attention.op.location:
            (result,) = emit_pointwise(attention.op, operands)
        return result

    def _extra(
        self,
        at: int,
        source: Operand | ir.Attribute,
        batch: Index,
        query: Index,
        key: Index,
        number: int,
        lanes: int,
    ) -> ir.Value:
        if isinstance(source, ir.Attribute):
            return emit.attribute_constant(source, lanes)
        buffer = self._inputs[source.argument]
        if source.row.stride != 0:
            return operand_vector(buffer, source, batch, query, key, lanes)
        if (at, number) not in self._loaded:
            self._loaded[at, number] = operand_vector(buffer, source, batch, 0, key, lanes)
        return self._loaded[at, number]


def plain_scale(attention: Attention) -> float | None:
    """The number that the body multiplies a score with, where that is all it does, or 1."""
    block = attention.op.regions[0].blocks[0]
    score = block.arguments[0]
    constants: dict[ir.Value, float] = {}
    scale = 1.0
    for op in block.operations:
        name = op.operation.name
        if name == "mgx.constant" and isinstance(op.operation.attributes["value"], ir.FloatAttr):
            constants[op.results[0]] = ir.FloatAttr(op.operation.attributes["value"]).value
            continue
        values = list(op.operands)
        if name == "mgx.yield":
            return scale if values[0] == score and scale > 0 else None
        factors = [constants[x] for x in values if x in constants]
        if name != "mgx.mul" or len(factors) != 1 or score not in values:
            return None
        scale *= factors[0]
        score = op.results[0]
    return None
