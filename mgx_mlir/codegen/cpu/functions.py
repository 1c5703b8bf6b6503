"""Functions that MLIR's lowering for CPUs gets wrong somewhere.

It computes log1p(x) of f64 as log(1 + x) and expm1(x) as exp(x) - 1, which lose the digits of a
small x; the other functions of f64 are libm's. Its log of f32 takes subnormal numbers for the
smallest normal one.
"""

from __future__ import annotations

from math import log as log_of

from mlir import ir
from mlir.dialects import arith, math

from mgx_mlir.codegen.meaning.arithmetic import Arithmetic
from mgx_mlir.codegen.meaning.expand import Function


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


F32: dict[str, Function] = {"math.log": _log}
F64: dict[str, Function] = {"math.expm1": _expm1, "math.log1p": _log1p}
