"""Functions as arithmetic that suits a GPU: no branches, no table, few selections."""

from __future__ import annotations

from mlir import ir
from mlir.dialects import arith, math, vector

from mgx_mlir.codegen.meaning.arithmetic import Arithmetic

# erf is 1 in f32 from this number on.
ERF_LIMIT = 3.875
# erf(x) / x as a polynomial in w = 2 (x / ERF_LIMIT)^2 - 1, from the constant term on: a fit
# of least relative error at 4000 Chebyshev nodes, rounded to f32. In f32 with fused
# multiply-adds, erf is off by at most 3.4 units in the last place, and by 1.7e-7.
ERF = (
    3.6491942e-01,
    -1.8215013e-01,
    1.3545124e-01,
    -1.0996591e-01,
    9.0740986e-02,
    -7.3491015e-02,
    5.727093e-02,
    -4.203047e-02,
    2.8416708e-02,
    -1.8739495e-02,
    1.2827277e-02,
    -6.8370984e-03,
    1.875105e-03,
    -1.2643039e-03,
    1.7201626e-03,
    -6.789071e-04,
)


def erf(a: Arithmetic, x: ir.Value) -> ir.Value:
    """erf of an f32, or of each element of a vector of them. NaN stays NaN."""
    limit = a.float(ERF_LIMIT, x)
    beyond = a.compare("ogt", math.absf(x), limit)
    inside = a.select(beyond, math.copysign(limit, x), x)
    scale = a.float(2 / ERF_LIMIT**2, x)
    w = math.fma(arith.mulf(inside, inside), scale, a.float(-1.0, x))
    result = a.float(ERF[-1], x)
    for coefficient in reversed(ERF[:-1]):
        result = math.fma(result, w, a.float(coefficient, x))
    return arith.mulf(result, inside)


def copysign(a: Arithmetic, size: ir.Value, sign: ir.Value) -> ir.Value:
    """copysign of f64, element by element: LLVM 22 crashes on vectors of one f64."""
    if a.vector is None:
        return math.copysign(size, sign)
    elements = (vector.ToElementsOp(x).results for x in (size, sign))
    joined = [math.copysign(*pair) for pair in zip(*elements, strict=True)]
    return vector.from_elements(size.type, joined)
