"""Products of blocks that have a scale each (OCP MX), by instructions that take the scales.

    %a = mgx.pointwise(%codes, %scales) { dequantizelinear }    a scale for 32 neighbours along k
    %b = mgx.pointwise(%codes, %scales) { dequantizelinear }
    %c = mgx.dot %a, %b

The codes go to LDS as bytes. A lane reads the scale of its block of each row and column from
memory, with a prefetch distance of one tile. Scales are powers of two (f8E8M0FNU), so that
products are exact.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from mlir import ir
from mlir.dialects import arith

from mgx_mlir.artifact.target import Target
from mgx_mlir.codegen.builders import emit
from mgx_mlir.codegen.builders.emit import Index
from mgx_mlir.codegen.gpu.builders import memory
from mgx_mlir.codegen.gpu.builders.units import Unit
from mgx_mlir.codegen.problem.match import Match
from mgx_mlir.codegen.problem.problem import Axis, Computed, Contraction, Matrix, Read
from mgx_mlir.dialects import mgx

# Elements that share a scale (OCP Microscaling Formats 1.0, table 1), and elements of a step.
BLOCK, STEP = 32, 128
_KINDS = frozenset(("f8E4M3FN", "f8E5M2", "f4E2M1FN"))


@dataclass(frozen=True)
class Scaled(Computed):
    """Codes as bytes, and the scales of their blocks.

    Offsets and sizes count bytes, each of `per_byte` codes; the offsets and sizes of `scales`
    count blocks along k. `element`: the codes' kind.
    """

    scales: Matrix
    per_byte: int

    def transposed(self) -> Scaled:
        transposed = super().transposed()
        assert isinstance(transposed, Scaled)
        return replace(transposed, scales=self.scales.transposed())


def scaled_match(match: Match, target: Target) -> Match:
    """The match with its operands as codes and scales, where the chip multiplies them so."""
    problem = match.problem
    if "mx" not in target.features or match.added or problem.K % STEP:
        return match
    if not (isinstance(problem.a, Computed) and isinstance(problem.b, Computed)):
        return match
    transposed_b = _scaled(problem.b.transposed())
    a, b = _scaled(problem.a), transposed_b and transposed_b.transposed()
    if a is None or b is None or a.element != b.element or problem.accumulator != "f32":
        return match
    return replace(match, problem=replace(problem, a=a, b=b, K=problem.K // a.per_byte))


def exact_match(match: Match) -> Match:
    """The match with bf16 for f32 operands that are codes times powers of two: bf16 is exact.

    Numbers below 2^-126 are the exception: bf16 rounds them, and matrix cores may take them for
    zero.
    """
    problem = match.problem
    operands = (problem.a, problem.b)
    if match.added or problem.accumulator != "f32":
        return match
    if any(not isinstance(x, Computed) or x.element != "f32" for x in operands):
        return match
    if any(isinstance(x, Computed) and not _is_blocks(x) for x in operands):
        return match
    a, b = (replace(x, element="bf16") for x in operands if isinstance(x, Computed))
    return replace(match, problem=replace(problem, a=a, b=b))


def _is_blocks(matrix: Computed) -> bool:
    """Whether a matrix' elements are small floats times powers of two."""
    block = matrix.op.regions[0].blocks[0]
    operations = list(block.operations)
    if [type(op) for op in operations] != [mgx.DequantizelinearOp, mgx.YieldOp]:
        return False
    kinds = [str(x.type) for x in operations[0].operands]
    return len(kinds) == 2 and kinds[0] in _KINDS and kinds[1] == "f8E8M0FNU"


def is_scaled(problem: Contraction) -> bool:
    """Whether `scaled_match` changed its operands."""
    return isinstance(problem.a, Scaled)


def _scaled(matrix: Computed) -> Scaled | None:
    """A matrix whose columns run along k; None where it is something else."""
    operations = list(matrix.op.regions[0].blocks[0].operations)
    arguments: list[ir.Value] = list(matrix.op.regions[0].blocks[0].arguments)
    if [type(op) for op in operations] != [mgx.DequantizelinearOp, mgx.YieldOp]:
        return None
    operands = list(operations[0].operands)
    if len(operands) != 2 or any(x not in arguments for x in operands):
        return None
    codes, scales = (matrix.reads[arguments.index(x)] for x in operands)
    if not isinstance(codes, Read) or not isinstance(scales, Read):
        return None
    if codes.element not in _KINDS or scales.element != "f8E8M0FNU" or scales.per_byte != 1:
        return None
    if codes.element == "f4E2M1FN" and codes.per_byte == 1:
        return None  # instructions take two codes of a byte
    *outer, block = scales.matrix.column.factors or ((1, 1),)
    places = _bytes(codes)
    if block != (BLOCK, 0) or places is None:
        return None
    return Scaled(
        places.argument, codes.element, places.offset, places.batch, places.row, places.column,
        matrix.op, matrix.reads, replace(scales.matrix, column=Axis.of(*outer)), codes.per_byte,
    )  # fmt: skip


def _bytes(codes: Read) -> Matrix | None:
    """The matrix of the codes' bytes; None where a byte's codes are no neighbours along k."""
    matrix, per_byte = codes.matrix, codes.per_byte
    if per_byte == 1:
        return matrix
    *outer, inner = matrix.column.factors or ((1, 0),)
    others = [*matrix.batch.factors, *matrix.row.factors, *outer]
    if inner[1] != 1 or any(x % per_byte for x in (inner[0], matrix.offset)):
        return None
    if any(stride % per_byte for _, stride in others):
        return None
    batch, row, along = (
        Axis(tuple((size, stride // per_byte) for size, stride in factors))
        for factors in (matrix.batch.factors, matrix.row.factors, outer)
    )
    column = Axis((*along.factors, (inner[0] // per_byte, 1)))
    return replace(matrix, offset=matrix.offset // per_byte, batch=batch, row=row, column=column)


class Scales:
    """The scales of a lane's blocks: for rows `first` + start of `starts`, block `group` of a step.

    `matrix`: rows along k.
    """

    def __init__(
        self,
        matrix: Scaled,
        unit: Unit,
        buffers: Mapping[int, ir.Value],
        batch: Index,
        first: Index,
        starts: Sequence[int],
        group: Index,
    ) -> None:
        scales = matrix.scales
        self.buffer, self.blocks = buffers[scales.argument], scales.column
        self.block_bytes = BLOCK // matrix.per_byte
        start = emit.add(scales.start(batch), self.blocks.offset(group))
        self.places = [
            memory.opaque(emit.add(start, scales.row.offset(emit.add(first, x)))) for x in starts
        ]

    def read(self, k: Index) -> list[ir.Value]:
        """The scales of the step from byte k on, each as an i32."""
        i32 = ir.IntegerType.get_signless(32)
        step = self.blocks.offset(emit.div(k, self.block_bytes))
        found = (memory.load_far(self.buffer, place, step, 1) for place in self.places)
        return [arith.extui(i32, memory.element(x, 0)) for x in found]
