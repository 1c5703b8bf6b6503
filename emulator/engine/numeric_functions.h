// Transcendental functions, and the helpers of division, scaling and argument reduction.
//
// The hardware's tables are good to one unit in the last place and undocumented; here results are
// the exact value rounded once (in f64 first, which differs from one rounding of the exact value
// for about one f32 argument in 2^28).
#pragma once

#include "numeric_arithmetic.h"

namespace mgx::emu {

// The f32 functions flush denormal inputs and results whatever the mode says: LLVM and the ROCm
// device library scale the argument of each where denormals matter (AMDGPU SIISelLowering,
// "v_log_f32 ... doesn't handle denormals"; ocml sqrtF.cl). The f16 ones follow the mode.
static inline float rcp_f32(float x) { return flush(1.0f / flush(x, true), true); }
static inline float sqrt_f32(float x) { return std::sqrt(flush(x, true)); }
static inline float rsq_f32(float x) {
  x = flush(x, true);
  return x == 0 ? std::copysign(INFINITY, x) : float(1.0 / std::sqrt(double(x)));
}
static inline float exp2_f32(float x) {
  return flush(float(std::exp2(double(flush(x, true)))), true);
}
static inline float log2_f32(float x) { return float(std::log2(double(flush(x, true)))); }

namespace detail {
// sin(2 pi x), cos(2 pi x) for x in turns. The distance to the nearest integer is exact.
constexpr double kTwoPi = 6.283185307179586476925286766559;
static inline double sin_turns(double x) {
  if (!std::isfinite(x)) return std::numeric_limits<double>::quiet_NaN();
  const double t = x - std::nearbyint(x), a = std::fabs(t);
  if (a == 0 || a == 0.5) return std::copysign(0.0, x);
  const double folded = a > 0.25 ? 0.5 - a : a;  // sin(pi - a) = sin(a)
  return std::copysign(
      folded <= 0.125 ? std::sin(kTwoPi * folded) : std::cos(kTwoPi * (0.25 - folded)), t);
}
static inline double cos_turns(double x) {
  if (!std::isfinite(x)) return std::numeric_limits<double>::quiet_NaN();
  const double a = std::fabs(x - std::nearbyint(x));
  if (a == 0.25) return 0.0;
  const double folded = a > 0.25 ? 0.5 - a : a;
  const double value =
      folded <= 0.125 ? std::cos(kTwoPi * folded) : std::sin(kTwoPi * (0.25 - folded));
  return a > 0.25 ? -value : value;
}
}  // namespace detail

static inline float sin_f32(float x) { return std::isnan(x) ? x : float(detail::sin_turns(x)); }
static inline float cos_f32(float x) { return std::isnan(x) ? x : float(detail::cos_turns(x)); }

#define MGX_F16_FUNCTION(NAME, EXPRESSION)                                                         \
  static inline uint16_t NAME##_f16(uint16_t h, const FloatMode &mode) {                           \
    const double x = f16_to_f32(detail::in16(h, mode));                                            \
    return detail::out16(f64_to_f16(EXPRESSION), mode);                                            \
  }
MGX_F16_FUNCTION(rcp, 1.0 / x)
MGX_F16_FUNCTION(sqrt, std::sqrt(x))
MGX_F16_FUNCTION(rsq, x == 0 ? std::copysign(double(INFINITY), x) : 1.0 / std::sqrt(x))
MGX_F16_FUNCTION(exp2, std::exp2(x))
MGX_F16_FUNCTION(log2, std::log2(x))
MGX_F16_FUNCTION(sin, detail::sin_turns(x))
MGX_F16_FUNCTION(cos, detail::cos_turns(x))
#undef MGX_F16_FUNCTION

static inline double rcp_f64(double x) { return 1.0 / x; }
static inline double sqrt_f64(double x) { return std::sqrt(x); }
static inline double rsq_f64(double x) {
  if (x == 0) return std::copysign(double(INFINITY), x);
  return double(1.0L / std::sqrt(static_cast<long double>(x)));
}

// ---- ldexp, frexp, fract, rounding to integers ----
static inline float ldexp_f32(float x, int32_t e, const FloatMode &mode) {
  e = e > 600 ? 600 : e < -600 ? -600 : e;  // f64 holds every such result exactly
  const double exact = std::ldexp(double(flush(x, mode.flush_in32)), e);
  return flush(f64_to_f32(exact, mode.round32), mode.flush_out32);
}
static inline uint16_t ldexp_f16(uint16_t x, int32_t e, const FloatMode &mode) {
  e = e > 600 ? 600 : e < -600 ? -600 : e;
  const double exact = std::ldexp(double(f16_to_f32(detail::in16(x, mode))), e);
  return detail::out16(f64_to_f16(exact, mode.round64), mode);
}
static inline double ldexp_f64(double x, int32_t e, const FloatMode &mode) {
  volatile double in = flush(x, mode.flush_in64);
  volatile int exponent = e > 5000 ? 5000 : e < -5000 ? -5000 : e;
  return flush(
      detail::rounded64(mode.round64, [&] { return std::ldexp(double(in), int(exponent)); }),
      mode.flush_out64);
}
// Mantissa in [0.5, 1) of the sign of x; infinities and NaNs pass. Denormals are normalised.
static inline double frexp_mant(double x) {
  int e = 0;
  return std::isfinite(x) ? std::frexp(x, &e) : x;
}
static inline int32_t frexp_exp(double x) {
  int e = 0;
  if (std::isfinite(x)) std::frexp(x, &e);
  return e;
}
// Less than one even for tiny negative x (LLVM AMDGPUCodeGenPrepare, matchFractPat).
static inline float fract_f32(float x) {
  return std::isnan(x)   ? x
         : std::isinf(x) ? fix_nan(NAN, false)
                         : std::fmin(x - std::floor(x), 0x1.fffffep-1f);
}
static inline double fract_f64(double x) {
  return std::isnan(x)   ? x
         : std::isinf(x) ? fix_nan(double(NAN), false)
                         : std::fmin(x - std::floor(x), 0x1.fffffffffffffp-1);
}
static inline uint16_t fract_f16(uint16_t h, const FloatMode &mode) {
  const float x = f16_to_f32(detail::in16(h, mode));
  const float r = std::isnan(x)   ? x
                  : std::isinf(x) ? fix_nan(NAN, false)
                                  : std::fmin(x - std::floor(x), 0x1.ffcp-1f);
  return detail::out16(f32_to_f16(r), mode);
}

// The bit of v_cmp_class that a value belongs to: sNaN, qNaN, -inf, -normal, -denormal, -0, +0,
// +denormal, +normal, +inf.
static inline uint32_t class_bit(bool negative, bool signaling, bool nan, bool infinite,
                                 bool normal, bool zero) {
  if (nan) return signaling ? 1u : 2u;
  const int kind = infinite ? 0 : normal ? 1 : zero ? 3 : 2;
  return negative ? 4u << kind : 512u >> kind;
}
static inline uint32_t class_f32(uint32_t u) {
  const uint32_t m = u & 0x7fffffffu;
  return class_bit(u >> 31, is_signaling32(u), is_nan32(u), m == 0x7f800000u, m >= 0x800000u,
                   m == 0);
}
static inline uint32_t class_f16(uint16_t u) {
  const uint32_t m = u & 0x7fffu;
  return class_bit(u >> 15, is_signaling16(u), is_nan16(u), m == 0x7c00u, m >= 0x400u, m == 0);
}
static inline uint32_t class_f64(uint64_t u) {
  const uint64_t m = u & ~(1ull << 63);
  return class_bit(u >> 63, is_signaling64(u), is_nan64(u), m == 0x7ff0000000000000ull, m >> 52,
                   m == 0);
}

// ---- division ----
// v_div_scale: x is the numerator or the denominator; `vcc` says that v_div_fmas must scale back.
// The pseudocode's "1.0 / S1 == DENORM" reads as a test of the f32 (f64) quotient, and where the
// denominator alone is scaled its factor must be 2^-64: scaling 2^126 and above up overflows.
template <class T, int kScale, int kFar, int kTiny, int kBias>
static inline T div_scale(T x, T denominator, T numerator, bool &vcc) {
  vcc = false;
  const auto exponent = [](T v) {  // the biased field
    if (v == 0) return 0;
    if (!std::isfinite(v)) return 2 * kBias + 1;
    const int e = std::ilogb(v) + kBias;
    return e < 0 ? 0 : e;
  };
  const auto denormal = [](T v) { return v != 0 && std::fabs(v) < std::numeric_limits<T>::min(); };
  if (numerator == 0 || denominator == 0) return std::numeric_limits<T>::quiet_NaN();
  const T quotient = numerator / denominator;
  const bool reciprocal_denormal = denormal(T(1) / denominator);
  // Tiny quotients may round to zero here; they count as denormal.
  const bool quotient_denormal = std::isfinite(numerator) && std::isfinite(denominator) &&
                                 std::fabs(quotient) < std::numeric_limits<T>::min();
  if (exponent(numerator) - exponent(denominator) >= kFar) {
    vcc = true;
    return x == denominator ? std::ldexp(x, kScale) : x;
  }
  if (denormal(denominator)) return std::ldexp(x, kScale);
  if (reciprocal_denormal && quotient_denormal) {
    vcc = true;
    return x == denominator ? std::ldexp(x, -kScale) : x;
  }
  if (reciprocal_denormal) return std::ldexp(x, -kScale);
  if (quotient_denormal) {
    vcc = true;
    return x == numerator ? std::ldexp(x, kScale) : x;
  }
  if (exponent(numerator) <= kTiny) return std::ldexp(x, kScale);
  return x;
}
static inline float div_scale_f32(float x, float denominator, float numerator, bool &vcc) {
  return div_scale<float, 64, 96, 23, 127>(x, denominator, numerator, vcc);
}
static inline double div_scale_f64(double x, double denominator, double numerator, bool &vcc) {
  return div_scale<double, 128, 768, 53, 1023>(x, denominator, numerator, vcc);
}

// v_div_fmas: fma, scaled back where v_div_scale set VCC. The factor undoes the scaling: a large
// quotient was made of a scaled denominator, a small one of a scaled numerator. (The manual's
// "2.0 ** 32" fits neither scaling of V_DIV_SCALE.)
static inline float div_fmas_f32(float a, float b, float c, bool vcc, const FloatMode &mode) {
  if (!vcc) return fma_f32(a, b, c, mode);
  // One rounding: the product and sum are rounded after scaling, so that denormals come out right.
  const double scale = std::fabs(c) >= 2.0f ? 0x1p64 : 0x1p-64;
  const double sum =
      add_to_odd(double(flush(a, mode.flush_in32)) * double(flush(b, mode.flush_in32)),
                 flush(c, mode.flush_in32));
  return flush(f64_to_f32(sum * scale, mode.round32), mode.flush_out32);
}
static inline double div_fmas_f64(double a, double b, double c, bool vcc, const FloatMode &mode) {
  const double sum = fma_f64(a, b, c, mode);
  if (!vcc) return sum;
  const int exponent = std::fabs(c) >= 2.0 ? 128 : -128;
  if (!(std::fabs(sum) < 0x1p-894)) return ldexp_f64(sum, exponent, mode);
  // The result is denormal and must not be rounded twice: take the sum rounded towards zero, with
  // what was cut off as a sticky bit, and round that to a multiple of 2^-1074.
  FloatMode down = mode, up = mode;
  down.flush_out64 = up.flush_out64 = false;
  down.round64 = Round::kDown, up.round64 = Round::kUp;
  const double below = fma_f64(a, b, c, down), above = fma_f64(a, b, c, up);
  const uint64_t cut = bits(std::fabs(below) < std::fabs(above) ? below : above);
  const bool inexact = bits(below) != bits(above), negative = cut >> 63;
  const int field = int(cut >> 52 & 0x7ff), drop = 128 + 1 - (field ? field : 1);
  if (drop > 54) return negative ? -0.0 : 0.0;
  const uint64_t whole = (cut & ((1ull << 52) - 1)) | (field ? 1ull << 52 : 0);
  const uint64_t rest = drop > 0 ? whole & ((1ull << drop) - 1) : 0,
                 half = drop > 0 ? 1ull << (drop - 1) : 1;
  uint64_t kept = drop > 0 ? whole >> drop : whole << -drop;
  if (mode.round64 == Round::kNearestEven)
    kept += rest > half || (rest == half && (inexact || (kept & 1)));
  else kept += (rest || inexact) && mode.round64 == (negative ? Round::kDown : Round::kUp);
  return flush(as_f64(kept | (negative ? 1ull << 63 : 0)), mode.flush_out64);
}

// v_div_fixup: the special cases. x is the quotient; `underflow` is a difference of biased
// exponents.
template <class T>
static inline T div_fixup(T x, T denominator, T numerator, int underflow, bool nan_is_overflow) {
  const bool negative = std::signbit(denominator) != std::signbit(numerator);
  const T inf = std::numeric_limits<T>::infinity();
  const auto with_sign = [&](T v) { return negative ? -v : v; };
  const auto exponent = [](T v) {
    return std::fabs(v) < std::numeric_limits<T>::min() ? 1 - std::numeric_limits<T>::max_exponent
                                                        : std::ilogb(v);
  };
  if (std::isnan(numerator)) return numerator + numerator; // quiets
  if (std::isnan(denominator)) return denominator + denominator;
  if ((denominator == 0 && numerator == 0) || (std::isinf(denominator) && std::isinf(numerator)))
    return fix_nan(std::numeric_limits<T>::quiet_NaN(), false);
  if (denominator == 0 || std::isinf(numerator)) return with_sign(inf);
  if (std::isinf(denominator) || numerator == 0) return with_sign(0);
  if (exponent(numerator) - exponent(denominator) < underflow) return with_sign(0);
  // f32, f64: a NaN here comes of an overflow on the way.
  return std::isnan(x) ? (nan_is_overflow ? with_sign(inf) : x) : with_sign(std::fabs(x));
}
static inline float div_fixup_f32(float x, float denominator, float numerator) {
  return div_fixup<float>(x, denominator, numerator, -150, true);
}
static inline double div_fixup_f64(double x, double denominator, double numerator) {
  return div_fixup<double>(x, denominator, numerator, -1075, true);
}
static inline uint16_t div_fixup_f16(uint16_t x, uint16_t denominator, uint16_t numerator) {
  return f32_to_f16_rne(div_fixup<float>(f16_to_f32(x), f16_to_f32(denominator),
                                         f16_to_f32(numerator), -1000, false));
}

// ---- argument reduction ----
// v_trig_preop: 53 bits of 2/pi from bit 53 * segment on (further for large x), scaled to their
// place, 2^-128 of it for huge x.
static inline double trig_preop_f64(double x, uint32_t segment) {
  static constexpr uint32_t two_over_pi[] = {
      0xa2f9836eu, 0x4e441529u, 0xfc2757d1u, 0xf534ddc0u, 0xdb629599u, 0x3c439041u, 0xfe5163abu,
      0xdebbc561u, 0xb7246e3au, 0x424dd2e0u, 0x06492eeau, 0x09d1921cu, 0xfe1deb1cu, 0xb129a73eu,
      0xe88235f5u, 0x2ebb4484u, 0xe99c7026u, 0xb45f7e41u, 0x3991d639u, 0x835339f4u, 0x9c845f8bu,
      0xbdf9283bu, 0x1ff897ffu, 0xde05980fu, 0xef2f118bu, 0x5a0a6d1fu, 0x6d367ecfu, 0x27cb09b7u,
      0x4f463f66u, 0x9e5fea2du, 0x7527bac7u, 0xebe5f17bu, 0x3d0739f7u, 0x8a5292eau, 0x6bfb5fb1u,
      0x1f8d5d08u, 0x56033046u, 0xfc7b0000u,
  };
  constexpr int words = int(sizeof two_over_pi / sizeof two_over_pi[0]);
  const int exponent = int(bits(x) >> 52 & 0x7ff);
  int shift = int(segment & 31) * 53;
  if (exponent > 1077) shift += exponent - 1077;
  uint64_t result = 0;
  for (int i = 0; i < 53; ++i) {
    const int at = shift + i;
    const uint32_t bit =
        at < 1201 && at / 32 < words ? two_over_pi[at / 32] >> (31 - at % 32) & 1 : 0;
    result = result << 1 | bit;
  }
  return std::ldexp(double(result), -53 - shift + (exponent >= 1968 ? 128 : 0));
}

} // namespace mgx::emu
