// Arithmetic with the float mode applied: flush the inputs, one rounding, flush the result.
#pragma once

#include <cfenv>

#include "numeric_formats.h"

namespace mgx::emu {

// a + b rounded to odd: the nearest f64 towards zero, with its last bit set when inexact. A second
// rounding to f32 or f16, in any mode, then gives what one rounding of the exact sum gives.
static inline double add_to_odd(double a, double b) {
  const double sum = a + b;
  if (!std::isfinite(sum)) return sum;
  const double t = sum - a, error = (a - (sum - t)) + (b - t);
  if (error == 0 || (bits(sum) & 1)) return sum;
  return as_f64((error > 0) == (sum > 0) ? bits(sum) + 1 : bits(sum) - 1);
}

// The NaN of an invalid operation is negative (RDNA4 ISA 13.3, "Float Add rules": 0xFFC00000;
// V_DIV_FIXUP_F32, 0/0). x86 agrees, other hosts may not.
static inline float fix_nan(float result, bool operand_nan) {
  return std::isnan(result) && !operand_nan ? as_f32(0xffc00000u) : result;
}
static inline double fix_nan(double result, bool operand_nan) {
  return std::isnan(result) && !operand_nan ? as_f64(0xfff8000000000000ull) : result;
}

namespace detail {
// A zero sum of opposite numbers is -0 when rounding down.
static inline double zero_sign(double sum, double a, double b, Round round) {
  return sum == 0 && round == Round::kDown && a != 0 && b != 0 ? -0.0
         : sum == 0 && round == Round::kDown && a == 0 && b == 0 &&
                 (std::signbit(a) || std::signbit(b))
             ? -0.0
             : sum;
}
static inline int host_rounding(Round round) {
  switch (round) {
  case Round::kUp: return FE_UPWARD;
  case Round::kDown: return FE_DOWNWARD;
  case Round::kZero: return FE_TOWARDZERO;
  default: return FE_TONEAREST;
  }
}
// Directed f64 operations use the host's rounding mode; `volatile` keeps them between the calls.
template <class F> static inline double rounded64(Round round, F operation) {
  if (round == Round::kNearestEven) return operation();
  const int saved = std::fegetround();
  std::fesetround(host_rounding(round));
  volatile double result = operation();
  std::fesetround(saved);
  return result;
}
}  // namespace detail

// ---- f32 ----
static inline float add_f32(float a, float b, const FloatMode &mode) {
  a = flush(a, mode.flush_in32), b = flush(b, mode.flush_in32);
  float r = mode.round32 == Round::kNearestEven
                ? a + b
                : f64_to_f32(detail::zero_sign(add_to_odd(a, b), a, b, mode.round32), mode.round32);
  return flush(fix_nan(r, std::isnan(a) || std::isnan(b)), mode.flush_out32);
}
static inline float sub_f32(float a, float b, const FloatMode &mode) {
  return add_f32(a, -b, mode);
}
static inline float mul_f32(float a, float b, const FloatMode &mode) {
  a = flush(a, mode.flush_in32), b = flush(b, mode.flush_in32);
  float r =
      mode.round32 == Round::kNearestEven ? a * b : f64_to_f32(double(a) * double(b), mode.round32);
  return flush(fix_nan(r, std::isnan(a) || std::isnan(b)), mode.flush_out32);
}
static inline float fma_f32(float a, float b, float c, const FloatMode &mode) {
  a = flush(a, mode.flush_in32), b = flush(b, mode.flush_in32), c = flush(c, mode.flush_in32);
  float r;
  if (mode.round32 == Round::kNearestEven) {
    r = std::fma(a, b, c);
  } else {
    const double product = double(a) * double(b);
    r = f64_to_f32(detail::zero_sign(add_to_odd(product, c), product, c, mode.round32),
                   mode.round32);
  }
  return flush(fix_nan(r, std::isnan(a) || std::isnan(b) || std::isnan(c)), mode.flush_out32);
}
// v_mul_legacy, v_fma_legacy, v_mul_dx9_zero: zero times anything is +0.
static inline float mul_legacy_f32(float a, float b, const FloatMode &mode) {
  a = flush(a, mode.flush_in32), b = flush(b, mode.flush_in32);
  return a == 0 || b == 0 ? 0.0f : mul_f32(a, b, mode);
}
static inline float fma_legacy_f32(float a, float b, float c, const FloatMode &mode) {
  a = flush(a, mode.flush_in32), b = flush(b, mode.flush_in32);
  return a == 0 || b == 0 ? flush(c, mode.flush_in32) : fma_f32(a, b, c, mode);
}
// v_mad_f32, v_mac_f32: the product is rounded, and denormals are flushed whatever the mode says
// (GCN3 ISA, V_MAD_F32).
static inline float mad_f32(float a, float b, float c, FloatMode mode) {
  mode.flush_in32 = mode.flush_out32 = true;
  return add_f32(mul_f32(a, b, mode), c, mode);
}

// ---- f64 ----
static inline double add_f64(double a, double b, const FloatMode &mode) {
  volatile double x = flush(a, mode.flush_in64), y = flush(b, mode.flush_in64);
  const double r = detail::rounded64(mode.round64, [&] { return x + y; });
  return flush(fix_nan(r, std::isnan(a) || std::isnan(b)), mode.flush_out64);
}
static inline double mul_f64(double a, double b, const FloatMode &mode) {
  volatile double x = flush(a, mode.flush_in64), y = flush(b, mode.flush_in64);
  const double r = detail::rounded64(mode.round64, [&] { return x * y; });
  return flush(fix_nan(r, std::isnan(a) || std::isnan(b)), mode.flush_out64);
}
static inline double fma_f64(double a, double b, double c, const FloatMode &mode) {
  volatile double x = flush(a, mode.flush_in64), y = flush(b, mode.flush_in64),
                  z = flush(c, mode.flush_in64);
  const double r =
      detail::rounded64(mode.round64, [&] { return std::fma(double(x), double(y), double(z)); });
  return flush(fix_nan(r, std::isnan(a) || std::isnan(b) || std::isnan(c)), mode.flush_out64);
}

// ---- f16, bits in and out ----
namespace detail {
static inline uint16_t in16(uint16_t h, const FloatMode &m) {
  return m.flush_in64 ? flush16(h) : h;
}
static inline uint16_t out16(uint16_t h, const FloatMode &m) {
  return m.flush_out64 ? flush16(h) : h;
}
static inline uint16_t fix_nan16(uint16_t h, bool operand_nan) {
  return is_nan16(h) && !operand_nan ? uint16_t(0xfe00u) : h;
}
}  // namespace detail

static inline uint16_t add_f16(uint16_t a, uint16_t b, const FloatMode &mode) {
  // The exact sum of two f16 has at most 41 bits.
  const double x = f16_to_f32(detail::in16(a, mode)), y = f16_to_f32(detail::in16(b, mode));
  const uint16_t r = f64_to_f16(detail::zero_sign(x + y, x, y, mode.round64), mode.round64);
  return detail::out16(detail::fix_nan16(r, is_nan16(a) || is_nan16(b)), mode);
}
static inline uint16_t sub_f16(uint16_t a, uint16_t b, const FloatMode &mode) {
  return add_f16(a, b ^ 0x8000u, mode);
}
static inline uint16_t mul_f16(uint16_t a, uint16_t b, const FloatMode &mode) {
  const float product =
      f16_to_f32(detail::in16(a, mode)) * f16_to_f32(detail::in16(b, mode));  // exact
  return detail::out16(
      detail::fix_nan16(f32_to_f16(product, mode.round64), is_nan16(a) || is_nan16(b)), mode);
}
static inline uint16_t fma_f16(uint16_t a, uint16_t b, uint16_t c, const FloatMode &mode) {
  const double product =
      double(f16_to_f32(detail::in16(a, mode))) * f16_to_f32(detail::in16(b, mode));
  const double z = f16_to_f32(detail::in16(c, mode));
  const double sum = detail::zero_sign(add_to_odd(product, z), product, z, mode.round64);
  const uint16_t r = f64_to_f16(sum, mode.round64);
  return detail::out16(detail::fix_nan16(r, is_nan16(a) || is_nan16(b) || is_nan16(c)), mode);
}
// v_mad_mix, v_fma_mix: f32 arithmetic, the result rounded to f16 once.
static inline uint16_t fma_mix_f16(float a, float b, float c, const FloatMode &mode) {
  const double product = double(flush(a, mode.flush_in32)) * double(flush(b, mode.flush_in32));
  const double z = flush(c, mode.flush_in32);
  const double sum = detail::zero_sign(add_to_odd(product, z), product, z, mode.round64);
  const uint16_t r = f64_to_f16(sum, mode.round64);
  return detail::out16(detail::fix_nan16(r, std::isnan(a) || std::isnan(b) || std::isnan(c)), mode);
}

// ---- minimum and maximum ----
// Two families. `ieee` selects how the older instructions treat signalling NaNs; the gfx12 *_num
// forms behave as ieee = false with the NaN of two NaNs quieted, and min_num(sNaN, x) = x.
// gfx12 v_minimum/v_maximum return any NaN.
#define MGX_MIN_MAX(T, U, S, IS_NAN, IS_SIGNALING, QUIET, LESS)                                    \
  static inline U min_##S(U a, U b, bool ieee) {                                                   \
    if (ieee && IS_SIGNALING(a)) return QUIET(a);                                                  \
    if (ieee && IS_SIGNALING(b)) return QUIET(b);                                                  \
    if (IS_NAN(a)) return QUIET(b);                                                                \
    if (IS_NAN(b)) return a;                                                                       \
    return LESS(a, b) ? a : b;                                                                     \
  }                                                                                                \
  static inline U max_##S(U a, U b, bool ieee) {                                                   \
    if (ieee && IS_SIGNALING(a)) return QUIET(a);                                                  \
    if (ieee && IS_SIGNALING(b)) return QUIET(b);                                                  \
    if (IS_NAN(a)) return QUIET(b);                                                                \
    if (IS_NAN(b)) return a;                                                                       \
    return LESS(a, b) ? b : a;                                                                     \
  }                                                                                                \
  static inline U min_num_##S(U a, U b) {                                                          \
    if (IS_NAN(a)) return IS_NAN(b) ? QUIET(a) : b;                                                \
    return IS_NAN(b) || LESS(a, b) ? a : b;                                                        \
  }                                                                                                \
  static inline U max_num_##S(U a, U b) {                                                          \
    if (IS_NAN(a)) return IS_NAN(b) ? QUIET(a) : b;                                                \
    return IS_NAN(b) || LESS(b, a) ? a : b;                                                        \
  }                                                                                                \
  static inline U minimum_##S(U a, U b) {                                                          \
    if (IS_SIGNALING(a)) return QUIET(a);                                                          \
    if (IS_SIGNALING(b)) return QUIET(b);                                                          \
    if (IS_NAN(a)) return a;                                                                       \
    if (IS_NAN(b)) return b;                                                                       \
    return LESS(a, b) ? a : b;                                                                     \
  }                                                                                                \
  static inline U maximum_##S(U a, U b) {                                                          \
    if (IS_SIGNALING(a)) return QUIET(a);                                                          \
    if (IS_SIGNALING(b)) return QUIET(b);                                                          \
    if (IS_NAN(a)) return a;                                                                       \
    if (IS_NAN(b)) return b;                                                                       \
    return LESS(b, a) ? a : b;                                                                     \
  }                                                                                                \
  static inline U med3_##S(U a, U b, U c, bool ieee) {                                             \
    if (IS_NAN(a) || IS_NAN(b) || IS_NAN(c)) return min_##S(min_##S(a, b, ieee), c, ieee);         \
    const U top = max_##S(max_##S(a, b, ieee), c, ieee);                                           \
    if (detail::equal_##S(top, a)) return max_##S(b, c, ieee);                                     \
    if (detail::equal_##S(top, b)) return max_##S(a, c, ieee);                                     \
    return max_##S(a, b, ieee);                                                                    \
  }

namespace detail {
// Order of non-NaN codes with -0 below +0.
template <class S> static inline S order(S x) {
  return x < 0 ? S(x ^ std::numeric_limits<S>::max()) : x;
}
static inline bool less32(uint32_t a, uint32_t b) { return order(int32_t(a)) < order(int32_t(b)); }
static inline bool less16(uint16_t a, uint16_t b) { return order(int16_t(a)) < order(int16_t(b)); }
static inline bool less64(uint64_t a, uint64_t b) { return order(int64_t(a)) < order(int64_t(b)); }
static inline bool equal_f32(uint32_t a, uint32_t b) { return a == b || !((a | b) << 1); }
static inline bool equal_f16(uint16_t a, uint16_t b) { return a == b || !uint16_t((a | b) << 1); }
static inline bool equal_f64(uint64_t a, uint64_t b) { return a == b || !((a | b) << 1); }
}  // namespace detail

MGX_MIN_MAX(float, uint32_t, f32, is_nan32, is_signaling32, quiet32, detail::less32)
MGX_MIN_MAX(uint16_t, uint16_t, f16, is_nan16, is_signaling16, quiet16, detail::less16)
MGX_MIN_MAX(double, uint64_t, f64, is_nan64, is_signaling64, quiet64, detail::less64)
#undef MGX_MIN_MAX

// ---- output modifiers ----
// omod: 0 none, 1 times 2, 2 times 4, 3 half. The caller ignores it where the mode keeps output
// denormals (LLVM AMDGPU, "omod is ignored by hardware if output denormals are enabled").
static inline float apply_omod(float x, uint32_t omod) {
  return omod == 0 ? x : x * (omod == 1 ? 2.0f : omod == 2 ? 4.0f : 0.5f);
}
static inline double apply_omod(double x, uint32_t omod) {
  return omod == 0 ? x : x * (omod == 1 ? 2.0 : omod == 2 ? 4.0 : 0.5);
}
static inline float clamp_f32(float x, bool dx10_clamp) {
  if (std::isnan(x)) return dx10_clamp ? 0.0f : x;
  return x <= 0 ? 0.0f : x > 1 ? 1.0f : x;
}
static inline double clamp_f64(double x, bool dx10_clamp) {
  if (std::isnan(x)) return dx10_clamp ? 0.0 : x;
  return x <= 0 ? 0.0 : x > 1 ? 1.0 : x;
}
static inline uint16_t clamp_f16(uint16_t h, bool dx10_clamp) {
  if (is_nan16(h)) return dx10_clamp ? 0 : h;
  return h & 0x8000u ? 0 : h > 0x3c00u ? 0x3c00u : h;
}

// ---- float to integer ----
// NaN gives 0, values beyond the range its end; the fraction is cut off first.
template <class I> static inline I saturate_to(double x) {
  constexpr double low = double(std::numeric_limits<I>::min()),
                   high = double(std::numeric_limits<I>::max());
  if (std::isnan(x)) return 0;
  const double whole = std::trunc(x);
  return whole <= low    ? std::numeric_limits<I>::min()
         : whole >= high ? std::numeric_limits<I>::max()
                         : I(whole);
}
static inline double round_to_integer(double x, Round round) {
  switch (round) {
  case Round::kUp: return std::ceil(x);
  case Round::kDown: return std::floor(x);
  case Round::kZero: return std::trunc(x);
  default: return std::nearbyint(x);
  }
}
static inline int32_t f32_to_i32(float x) { return saturate_to<int32_t>(x); }
static inline uint32_t f32_to_u32(float x) { return saturate_to<uint32_t>(x); }
static inline int32_t f64_to_i32(double x) { return saturate_to<int32_t>(x); }
static inline uint32_t f64_to_u32(double x) { return saturate_to<uint32_t>(x); }
static inline int16_t f16_to_i16(uint16_t x) { return saturate_to<int16_t>(f16_to_f32(x)); }
static inline uint16_t f16_to_u16(uint16_t x) { return saturate_to<uint16_t>(f16_to_f32(x)); }
static inline int32_t f32_to_i32_floor(float x) {
  return saturate_to<int32_t>(std::floor(double(x)));
}
// v_cvt_rpi_i32_f32, v_cvt_nearest_i32_f32: floor(x + 0.5).
static inline int32_t f32_to_i32_nearest(float x) {
  return saturate_to<int32_t>(std::floor(double(x) + 0.5));
}
// v_cvt_pk_u8_f32 rounds as the mode says.
static inline uint8_t f32_to_u8(float x, Round round) {
  return saturate_to<uint8_t>(round_to_integer(x, round));
}

// ---- integer to float ----
static inline float i32_to_f32(int32_t x, Round round) { return f64_to_f32(x, round); }
static inline float u32_to_f32(uint32_t x, Round round) { return f64_to_f32(x, round); }
static inline uint16_t i16_to_f16(int16_t x, Round round) { return f64_to_f16(x, round); }
static inline uint16_t u16_to_f16(uint16_t x, Round round) { return f64_to_f16(x, round); }

// ---- packed conversions ----
static inline uint32_t pack16(uint16_t low, uint16_t high) {
  return uint32_t(low) | uint32_t(high) << 16;
}
static inline uint32_t cvt_pkrtz_f16_f32(float a, float b) {
  return pack16(f32_to_f16(a, Round::kZero), f32_to_f16(b, Round::kZero));
}
// Normalised integers: x in [-1, 1] (snorm) or [0, 1] (unorm), rounded to nearest even.
static inline int16_t f32_to_snorm16(float x) {
  if (std::isnan(x)) return 0;
  return int16_t(std::nearbyint(std::fmin(1.0, std::fmax(-1.0, double(x))) * 32767.0));
}
static inline uint16_t f32_to_unorm16(float x) {
  if (std::isnan(x)) return 0;
  return uint16_t(std::nearbyint(std::fmin(1.0, std::fmax(0.0, double(x))) * 65535.0));
}

}  // namespace mgx::emu
