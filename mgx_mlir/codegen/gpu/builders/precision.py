"""Cheaper functions where a kernel's results have 16 bits or fewer.

Inside of a kernel numbers are f32, and functions are as exact as LLVM's expansions: within 1 or
2 units in the last place, at a dozen instructions. A result that is rounded to f16 or bf16 in
the end keeps 11 or 8 bits of these 24. There

- exp(x) is exp2(x * log2(e)) by the hardware's exp2, whose relative error is below
  (1.5 |x| + 2) * 2^-24: at most 2^-16.9, where the result does not underflow. A result below
  2^-126 is 0. Infinities and NaN are kept.

The functions stay deterministic: the same kernel gives the same bits.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from mlir import ir
from mlir.dialects import arith, rocdl

from mgx_mlir.codegen.generic.lowering.arithmetic import Arithmetic
from mgx_mlir.codegen.generic.lowering.element import element_of
from mgx_mlir.codegen.gpu.builders import memory


def narrow(results: Sequence[ir.Type]) -> bool:
    """Whether results of these types keep few bits of an f32. Integers keep all."""
    elements = [element_of(type_) for type_ in results]
    return any(e.is_float for e in elements) and all(
        e.bits == 1 or (e.is_float and e.bits <= 16) for e in elements
    )


def relax(module: ir.Module) -> None:
    """Replaces exponentials of f32 in a kernel's module by the hardware's exp2."""
    found: list[ir.Operation] = []

    def visit(op: ir.Operation) -> ir.WalkResult:
        if op.name == "math.exp" and isinstance(_element(op.results[0]), ir.F32Type):
            found.append(op)
        return ir.WalkResult.ADVANCE

    module.operation.walk(visit)
    for op in found:
        with ir.InsertionPoint(op), op.location:
            a = Arithmetic.like(op.operands)
            x = op.operands[0]
            new = exp2(a.mul(x, a.float(math.log2(math.e), x)))
        op.results[0].replace_all_uses_with(new)
        op.erase()


def exp2(x: ir.Value) -> ir.Value:
    """v_exp_f32 of a scalar, or of each element of a vector."""
    f32 = ir.F32Type.get()
    if not isinstance(x.type, ir.VectorType):
        return rocdl.exp2(f32, x)
    (lanes,) = x.type.shape
    return memory.joined([rocdl.exp2(f32, memory.element(x, i)) for i in range(lanes)])


def halves(x: ir.Value) -> ir.Value:
    """Two f32 as f16, rounded toward 0."""
    pair = ir.VectorType.get([2], ir.F16Type.get())
    return rocdl.cvt_pkrtz(pair, memory.element(x, 0), memory.element(x, 1))


def no_clamp() -> ir.Value:
    """The `clamp` operand of `dot`: it does not clamp."""
    return arith.constant(ir.IntegerType.get_signless(1), 0)


def dot(a: ir.Value, b: ir.Value, total: ir.Value, clamp: ir.Value) -> ir.Value:
    """total + a[0] * b[0] + a[1] * b[1], in f32 for pairs of f16. clamp: `no_clamp`."""
    # A kernel has a thousand of them, and the op's class takes longer to build one.
    attributes = {
        "intrin": ir.StringAttr.get("llvm.amdgcn.fdot2"),
        "op_bundle_sizes": ir.DenseI32ArrayAttr.get([]),
        "operandSegmentSizes": ir.DenseI32ArrayAttr.get([4, 0]),
    }
    operands = [a, b, total, clamp]
    call = ir.Operation.create(
        "llvm.call_intrinsic", results=[total.type], operands=operands, attributes=attributes
    )
    return call.results[0]


def _element(x: ir.Value) -> ir.Type:
    return x.type.element_type if isinstance(x.type, ir.VectorType) else x.type
