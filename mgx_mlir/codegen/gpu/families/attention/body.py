"""From sums of products to the scores of a softmax: the body of the attention, on vectors."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from mlir import ir

from mgx_mlir.codegen.builders import emit
from mgx_mlir.codegen.builders.emit import Index
from mgx_mlir.codegen.gpu.families.contraction.epilogue import stored_vector
from mgx_mlir.codegen.meaning.pointwise import emit_pointwise
from mgx_mlir.codegen.problem.attention import Attention
from mgx_mlir.codegen.problem.problem import Matrix
from mgx_mlir.dialects import mgx


class ScoreBody:
    """Applies the body to vectors of scores of one query and neighbouring keys.

    `inputs` (by number) are raw buffers: reads past their end give 0. A lane has `tiles`
    queries, and `steps` vectors of keys in a block.
    """

    def __init__(
        self, attention: Attention, inputs: Mapping[int, ir.Value], tiles: int, steps: int
    ) -> None:
        self._attention, self._inputs = attention, inputs
        # Source, tile and step of each vector that a block needs. All queries share the vectors
        # of a source with row stride 0.
        self._reads = [
            (at, tile, step)
            for at, source in enumerate(attention.sources)
            if isinstance(source, Matrix)
            for tile in range(1 if source.row.stride == 0 else tiles)
            for step in range(steps)
        ]

    def load(
        self, batch: Index, queries: Sequence[Index], keys: Sequence[Index], lanes: int
    ) -> list[ir.Value]:
        """The lane's vectors of other inputs for a block: `lanes` keys from each of `keys` on."""
        found = []
        for at, tile, step in self._reads:
            source = self._attention.sources[at]
            assert isinstance(source, Matrix)
            query = 0 if source.row.stride == 0 else queries[tile]
            buffer = self._inputs[source.argument]
            found.append(stored_vector(buffer, source, batch, query, keys[step], lanes))
        return found

    def __call__(self, x: ir.Value, tile: int, step: int, loaded: Sequence[ir.Value]) -> ir.Value:
        """The scores of a vector; `loaded` is the result of `load` for its block."""
        attention = self._attention
        lanes = ir.VectorType(x.type).shape[0]
        operands = []
        for at, source in enumerate(attention.sources):
            if source is None:
                operands.append(x)
            elif isinstance(source, Matrix):
                row = 0 if source.row.stride == 0 else tile
                value = loaded[self._reads.index((at, row, step))]
                operands.append(emit.from_memory(value, source.element))
            else:
                assert isinstance(source, ir.Attribute)
                operands.append(emit.attribute_constant(source, lanes))
        with attention.op.location:
            (result,) = emit_pointwise(attention.op, operands)
        return result


def plain_scale(attention: Attention) -> float | None:
    """The factor of a body that only multiplies a score, 1 for an empty body; else None."""
    block = attention.op.regions[0].blocks[0]
    score: ir.Value = block.arguments[0]
    constants: dict[ir.Value, float] = {}
    scale = 1.0
    for op in block.operations:
        if isinstance(op, mgx.ConstantOp) and isinstance(op.value, ir.FloatAttr):
            constants[op.results[0]] = op.value.value
            continue
        values = list(op.operands)
        if isinstance(op, mgx.YieldOp):
            return scale if values[0] == score and 0 < scale < float("inf") else None
        factors = [constants[x] for x in values if x in constants]
        if not isinstance(op, mgx.MulOp) or len(factors) != 1 or score not in values:
            return None
        scale *= factors[0]
        score = op.results[0]
    return None
