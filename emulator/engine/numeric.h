// Number formats and float arithmetic as the hardware's: rounding and denormal modes, NaN rules.
// Header-only, no state. Compile with -ffp-contract=off; the host rounds to nearest even.
#pragma once

#include "numeric_formats.h" // bits, FloatMode, f16, bf16, fp8, bf8, fp6, fp4, e8m0, conversions
#include "numeric_arithmetic.h" // add, mul, fma, min, max, med3, clamp, omod, integer conversions
#include "numeric_functions.h" // exp2, log2, rcp, rsq, sqrt, sin, cos, ldexp, frexp, div_*, trig_preop
