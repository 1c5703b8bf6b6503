"""Functions that MLIR's lowering for CPUs gets wrong somewhere, and conversions that LLVM calls.

MLIR computes log1p(x) of f64 as log(1 + x) and expm1(x) as exp(x) - 1, which lose the digits of a
small x; the other functions of f64 are libm's. Its log of f32 takes subnormal numbers for the
smallest normal one; its exp of f32 takes half as long again as the one here.

Where a processor has no instruction for a conversion, LLVM would call functions of its run-time
library, which a program may not have loaded. Those here, in LLVM IR, round to the nearest, ties to
even, and keep a NaN quiet.
"""

from __future__ import annotations

from collections.abc import Set
from functools import partial
from math import log as log_of

from mlir import ir
from mlir.dialects import arith, llvm, math

from mgx_mlir.artifact.target import Target
from mgx_mlir.codegen.meaning.arithmetic import Arithmetic
from mgx_mlir.codegen.meaning.expand import Function

# LLVM calls this function even where MLIR has expanded every rounding (it goes through
# f32 to select between two bf16).
_F32_TO_BF16 = """
define hidden bfloat @__truncsfbf2(float %x) nounwind noinline optnone {
  %nan = fcmp uno float %x, %x
  %bits = bitcast float %x to i32
  %high = lshr i32 %bits, 16
  %odd = and i32 %high, 1
  %half = add i32 %odd, 32767
  %rounded = add i32 %bits, %half
  %number = lshr i32 %rounded, 16
  %quiet = or i32 %high, 64
  %chosen = select i1 %nan, i32 %quiet, i32 %number
  %short = trunc i32 %chosen to i16
  %result = bitcast i16 %short to bfloat
  ret bfloat %result
}
"""

_F16_TO_F32 = """
define hidden float @__extendhfsf2(half %x) nounwind noinline {
  %short = bitcast half %x to i16
  %bits = zext i16 %short to i32
  %rest = and i32 %bits, 32767
  %sign = sub i32 %bits, %rest
  %high = shl i32 %sign, 16
  %moved = shl i32 %rest, 13
  %normal = add i32 %moved, u0x38000000
  %special = or i32 %moved, u0x7F800000
  %quiet = or i32 %special, u0x00400000
  %count = uitofp i32 %rest to float
  %scaled = fmul float %count, 0x3E70000000000000
  %small = bitcast float %scaled to i32
  %is_nan = icmp ugt i32 %rest, u0x7C00
  %is_special = icmp uge i32 %rest, u0x7C00
  %is_small = icmp ult i32 %rest, u0x0400
  %a = select i1 %is_special, i32 %special, i32 %normal
  %b = select i1 %is_nan, i32 %quiet, i32 %a
  %c = select i1 %is_small, i32 %small, i32 %b
  %d = or i32 %c, %high
  %result = bitcast i32 %d to float
  ret float %result
}
"""

_F32_TO_F16 = """
define hidden half @__truncsfhf2(float %x) nounwind noinline {
  %bits = bitcast float %x to i32
  %high = lshr i32 %bits, 16
  %sign = and i32 %high, 32768
  %rest = and i32 %bits, u0x7FFFFFFF
  %moved = lshr i32 %rest, 13
  %odd = and i32 %moved, 1
  %half = add i32 %odd, u0xFFF
  %rounded = add i32 %rest, %half
  %biased = sub i32 %rounded, u0x38000000
  %normal = lshr i32 %biased, 13
  %positive = bitcast i32 %rest to float
  %added = fadd float %positive, 0.5
  %added_bits = bitcast float %added to i32
  %small = sub i32 %added_bits, u0x3F000000
  %payload = and i32 %moved, u0x3FF
  %quiet = or i32 %payload, u0x7E00
  %is_nan = icmp ugt i32 %rest, u0x7F800000
  %is_large = icmp uge i32 %rest, u0x477FF000
  %is_small = icmp ult i32 %rest, u0x38800000
  %a = select i1 %is_large, i32 u0x7C00, i32 %normal
  %b = select i1 %is_nan, i32 %quiet, i32 %a
  %c = select i1 %is_small, i32 %small, i32 %b
  %d = or i32 %c, %sign
  %short = trunc i32 %d to i16
  %result = bitcast i16 %short to half
  ret half %result
}
"""

# Through f32, rounded to odd: the second rounding then sees what the first one lost.
_F64_TO_F16 = """
declare double @llvm.fabs.f64(double)
define hidden half @__truncdfhf2(double %x) nounwind noinline {
  %near = fptrunc double %x to float
  %back = fpext float %near to double
  %exact = fcmp ueq double %back, %x
  %have = call double @llvm.fabs.f64(double %back)
  %want = call double @llvm.fabs.f64(double %x)
  %beyond = fcmp ogt double %have, %want
  %step = zext i1 %beyond to i32
  %bits = bitcast float %near to i32
  %lower = sub i32 %bits, %step
  %odd = or i32 %lower, 1
  %chosen = select i1 %exact, i32 %bits, i32 %odd
  %float = bitcast i32 %chosen to float
  %result = TO_F16
  ret half %result
}
"""
_TO_F16 = ("call half @__truncsfhf2(float %float)", "fptrunc float %float to half")


def called_functions(scalars: Set[str], target: Target) -> str:
    """The functions that code for the target may call without naming them, as LLVM IR.

    scalars: the names of the types that the code works on, such as "f16". Empty where LLVM calls
    no function.
    """
    converts = "f16-convert" in target.features
    found = {}
    if "bf16" in scalars and "bf16-round" not in target.features:
        found["__truncsfbf2"] = _F32_TO_BF16
    if "f16" in scalars and not converts:
        found["__extendhfsf2"], found["__truncsfhf2"] = _F16_TO_F32, _F32_TO_F16
    if {"f16", "f64"} <= scalars and not target.name.startswith("aarch64"):
        found["__truncdfhf2"] = _F64_TO_F16.replace("TO_F16", _TO_F16[converts])
    if not found:
        return ""
    names = ", ".join(f"ptr @{name}" for name in found)
    kind = f"appending global [{len(found)} x ptr]"
    # Nothing calls them before LLVM has chosen instructions.
    used = f'@llvm.compiler.used = {kind} [{names}], section "llvm.metadata"'
    return f"{used}\n{''.join(found.values())}"


def _log1p(a: Arithmetic, x: ir.Value) -> ir.Value:
    """log(u) x / (u - 1) with u = 1 + x: both factors have u's rounding (Kahan)."""
    one = a.float(1.0, x)
    u = arith.addf(one, x)
    log, less = math.log(u), arith.subf(u, one)
    found: ir.Value = arith.mulf(log, arith.divf(x, less))
    found = a.select(a.compare("oeq", u, log), log, found)  # both infinite
    return a.select(a.compare("oeq", less, a.float(0.0, x)), x, found)


def _expm1(a: Arithmetic, x: ir.Value) -> ir.Value:
    """(u - 1) x / log(u) with u = exp(x), likewise."""
    one, zero = a.float(1.0, x), a.float(0.0, x)
    u = math.exp(x)
    less, log = arith.subf(u, one), math.log(u)
    found: ir.Value = arith.mulf(less, arith.divf(x, log))
    large = a.compare("ogt", math.absf(x), one)
    found = a.select(large, less, found)
    return a.select(a.compare("oeq", less, zero), x, found)


def _log(a: Arithmetic, x: ir.Value) -> ir.Value:
    """log(x), by log(2^24 x) where x is subnormal."""
    tiny = a.compare("olt", x, a.float(2.0**-126, x))
    log = math.log(a.select(tiny, a.mul(x, a.float(2.0**24, x)), x))
    return a.select(tiny, a.sub(log, a.float(24 * log_of(2), x)), log)


def _exp(a: Arithmetic, x: ir.Value, scales: bool = False) -> ir.Value:
    """exp(x) as 2^n exp(r), with n the integer nearest to x / log(2).

    2^n is two factors, of about half of n each: infinities come of themselves, and a subnormal
    result is rounded once. scales: one instruction of AVX-512 does that, of a whole vector.
    """
    i32, low, high = ir.IntegerType.get_signless(32), a.float(-104.0, x), a.float(89.0, x)
    bounded = a.select(a.compare("olt", x, low), low, x)
    bounded = a.select(a.compare("ogt", bounded, high), high, bounded)
    scales = scales and a.vector == [_WIDE]
    if scales:
        whole = math.roundeven(arith.mulf(bounded, a.float(1 / log_of(2), x)))
    else:
        rounded = math.fma(bounded, a.float(1 / log_of(2), x), a.float(_ROUND, x))
        whole = arith.subf(rounded, a.float(_ROUND, x))
    rest = math.fma(whole, a.float(-_LOG2[0], x), bounded)
    rest = math.fma(whole, a.float(-_LOG2[1], x), rest)
    found: ir.Value = a.float(_EXP[-1], x)
    for number in (*reversed(_EXP[:-1]), 1.0, 1.0):
        found = math.fma(found, rest, a.float(number, x))
    if scales:
        i16 = ir.IntegerType.get_signless(16)
        all_, nearest = (llvm.mlir_constant(ir.IntegerAttr.get(*x)) for x in ((i16, -1), (i32, 4)))
        name, operands = "llvm.x86.avx512.mask.scalef.ps.512", [found, whole, found, all_, nearest]
        return llvm.CallIntrinsicOp(x.type, name, operands, [], []).results[0]
    bits = arith.bitcast(a.type(i32), rounded)
    half = arith.shli(arith.shrui(bits, a.constant(1, i32)), a.constant(23, i32))
    for power in (half, arith.subi(arith.shli(bits, a.constant(23, i32)), half)):
        found = arith.mulf(found, arith.bitcast(x.type, power))
    return found


def f32(target: Target) -> dict[str, Function]:
    return {"math.exp": partial(_exp, scales=target.vector_bytes == 4 * _WIDE), "math.log": _log}


# Lanes of a vector of AVX-512.
_WIDE = 16
# Adding it to a small number leaves the nearest integer in the low bits of the sum, with the bias
# of two exponents.
_ROUND = 12582912.0 + 2 * 127
# log(2) as a sum: the first has so few bits that its product with an integer is exact.
_LOG2 = (0.693359375, -0.00021219444)
# (exp(r) - 1 - r) / r^2 up to log(2) / 2, a fit of least relative error of exp(r).
_EXP = (0.49999994, 0.16666521, 0.041668389, 0.0083687454, 0.0013814537)

F64: dict[str, Function] = {"math.expm1": _expm1, "math.log1p": _log1p}
