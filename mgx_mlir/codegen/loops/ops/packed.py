"""Numbers of a few bits, several to a byte."""

from __future__ import annotations

from collections.abc import Sequence

from mlir import ir
from mlir.dialects import arith

from mgx_mlir.codegen.loops.body import Body, Indices, Lazy
from mgx_mlir.codegen.loops.kernel import Kernel, lowers
from mgx_mlir.codegen.meaning.element import element_of
from mgx_mlir.codegen.meaning.index import delinear, index_constant
from mgx_mlir.dialects import mgx


@lowers(mgx.UnpackOp)
def unpack(kernel: Kernel, op: mgx.UnpackOp, operands: Sequence[Lazy]) -> Lazy:
    """The byte of a number, shifted so that the number is its low bits."""
    x, bits = operands[0], element_of(op.result.type).bits
    per_byte = 8 // bits
    i8 = ir.IntegerType.get_signless(8)

    def element(body: Body, indices: Indices) -> ir.Value:
        byte, part = delinear(indices[-1], [x.shape[-1], per_byte])
        value = body.at(x, (*indices[:-1], byte))
        places = arith.muli(body.scalar(part), index_constant(bits))
        value = arith.shrui(value, arith.index_cast(i8, places))
        return arith.andi(value, arith.constant(i8, (1 << bits) - 1))

    return kernel.result_of(op, element, x.cost + 3)
