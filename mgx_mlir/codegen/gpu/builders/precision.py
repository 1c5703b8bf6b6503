"""Cheaper functions where a kernel's results have 16 bits or fewer.

Inside of a kernel numbers are f32, and functions are as exact as LLVM's expansions: within 1 or
2 units in the last place, at a dozen instructions. A result that is rounded to f16 or bf16 in
the end keeps 11 or 8 bits of these 24. There

- exp(x) is exp2(x * log2(e)) by the hardware's exp2, whose relative error is below
  (1.5 |x| + 2) * 2^-24: at most 2^-16.9, where the result does not underflow. A result below
  2^-126 is 0. Infinities and NaN are kept.
- 1 / (1 + exp(x)), the sigmoid, is by the hardware's reciprocal, which is off by a unit in the last
  place. Other divisors may be larger than 2^126, whose reciprocals the hardware takes for 0. The
  error of exp counts where it is near 1: the sigmoid is off by 2^-22 at most, and kernels of 8-bit
  integers compute it so too.
- erf(x) is 1 from 3.42 on, and a polynomial of 12 terms below, which is 1 there and never more: off
  by 2^-19.3 of itself at most. gelu, x / 2 (1 + erf(x / sqrt(2))), so is within a unit of f16 down
  to x = -3, and off by 2^-18 at most beyond.

The functions stay deterministic: the same kernel gives the same bits.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import partial

from mlir import ir
from mlir.dialects import arith, rocdl
from mlir.dialects import math as math_dialect

from mgx_mlir.codegen.gpu.builders import memory
from mgx_mlir.codegen.gpu.builders.function import signature
from mgx_mlir.codegen.gpu.builders.passes import erf
from mgx_mlir.codegen.meaning.arithmetic import Arithmetic, constant_number, scalar_type
from mgx_mlir.codegen.meaning.element import element_of
from mgx_mlir.dialects import mgx
from mgx_mlir.rewriting.queries import definition, has_one_use, ops_inside

# erf(x) / x up to `_ERF_LIMIT`, as `passes.ERF`: a fit of the least largest relative error.
_ERF_LIMIT = 3.42
_ERF = (
    0.413253278, -0.205001384, 0.149027273, -0.11484018, 0.0865083337, -0.062549457,
    0.0436271764, -0.0257482342, 0.0111900168, -0.00728994003, 0.00678157806, -0.0025608046,
)  # fmt: skip


def quantized(results: Sequence[ir.Type]) -> bool:
    """Whether all results of these types are integers of 8 bits or keep few bits of an f32."""
    elements = [element_of(type_) for type_ in results]
    return all(e.bits <= 8 or (e.is_float and e.bits <= 16) for e in elements)


def narrow(results: Sequence[ir.Type]) -> bool:
    """Whether results of these types keep few bits of an f32. Integers keep all."""
    elements = [element_of(type_) for type_ in results]
    return any(e.is_float for e in elements) and all(
        e.bits == 1 or (e.is_float and e.bits <= 16) for e in elements
    )


def relax(kernel: mgx.KernelOp, module: ir.Module) -> None:
    """Replaces functions of f32 in the module of a kernel of narrow results by cheaper ones."""
    with kernel.context, kernel.location:
        results = signature(kernel)[1][1]
        is_narrow = narrow(results)
        if not is_narrow and not quantized(results):
            return
        kernel.context.get_dialect_descriptor("rocdl")  # loads it
        for quotient in ops_inside(module.operation, arith.DivFOp):
            power = _sigmoid_power(quotient)
            if power is None:
                continue
            _replace(quotient, partial(by_element, rocdl.rcp), quotient.rhs)
            if not is_narrow and has_one_use(power.result):
                _replace(power, _exp, power.operand)
        for power in ops_inside(module.operation, math_dialect.ExpOp) if is_narrow else ():
            _replace(power, _exp, power.operand)
        for op in ops_inside(module.operation, math_dialect.ErfOp) if is_narrow else ():
            _replace(op, _erf, op.operand)


def _replace(op: ir.OpView, function: Callable[[ir.Value], ir.Value], x: ir.Value) -> None:
    """Replaces an op by a function of one of its operands, where these are f32."""
    if not isinstance(scalar_type(x), ir.F32Type):
        return
    with ir.InsertionPoint(op), op.location:
        op.operation.results[0].replace_all_uses_with(function(x))
    op.operation.erase()


def _sigmoid_power(op: arith.DivFOp) -> math_dialect.ExpOp | None:
    """The exp(x) of 1 / (1 + exp(x)); None for other quotients."""
    below = definition(op.rhs)
    if constant_number(op.lhs) != 1 or not isinstance(below, arith.AddFOp):
        return None
    terms = (below.lhs, below.rhs)
    if 1 not in map(constant_number, terms):
        return None
    powers = (definition(x) for x in terms)
    return next((power for power in powers if isinstance(power, math_dialect.ExpOp)), None)


def _exp(x: ir.Value) -> ir.Value:
    a = Arithmetic.like([x])
    return exp2(a.mul(x, a.float(math.log2(math.e), x)))


def _erf(x: ir.Value) -> ir.Value:
    return erf(Arithmetic.like([x]), x, _ERF_LIMIT, _ERF)


def exp2(x: ir.Value) -> ir.Value:
    """v_exp_f32 of a scalar, or of each element of a vector."""
    return by_element(rocdl.exp2, x)


def by_element(function: Callable[[ir.Type, ir.Value], ir.Value], x: ir.Value) -> ir.Value:
    """An instruction on f32: of a scalar, or of each element of a vector."""
    f32 = ir.F32Type.get()
    if not isinstance(x.type, ir.VectorType):
        return function(f32, x)
    (lanes,) = x.type.shape
    return memory.joined([function(f32, memory.element(x, i)) for i in range(lanes)])


def halves(x: ir.Value) -> ir.Value:
    """Two f32 as f16, rounded toward 0."""
    pair = ir.VectorType.get([2], ir.F16Type.get())
    return rocdl.cvt_pkrtz(pair, memory.element(x, 0), memory.element(x, 1))
