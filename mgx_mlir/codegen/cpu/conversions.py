"""Conversions that a processor has no instruction for, as functions of LLVM IR.

LLVM would call functions of its run-time library, which a program may not have loaded.
They round to the nearest, ties to even, and keep a NaN quiet.
"""

from __future__ import annotations

from collections.abc import Set

from mgx_mlir.artifact.target import Target

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
_TO_F16 = {
    True: "fptrunc float %float to half",
    False: "call half @__truncsfhf2(float %float)",
}


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
