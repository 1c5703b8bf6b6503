// Number formats and the conversions between them.
#pragma once

#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>

namespace mgx::emu {

// MODE.FP_ROUND's encoding.
enum class Round : uint8_t { kNearestEven = 0, kUp = 1, kDown = 2, kZero = 3 };

// The part of the MODE register that arithmetic depends on. "64" stands for f64 and f16, which
// share their fields.
struct FloatMode {
  Round round32 = Round::kNearestEven, round64 = Round::kNearestEven;
  bool flush_in32 = false, flush_out32 = false, flush_in64 = false, flush_out64 = false;
  bool dx10_clamp = true;  // clamp turns NaN into 0
  bool ieee = true;        // min and max quiet signalling NaNs; always so on gfx12

  // FP_DENORM is two bits each: bit 0 keeps input denormals, bit 1 keeps output denormals
  // ("0 = flush input and output, 1 = allow input, 2 = allow output, 3 = allow both").
  static constexpr FloatMode from_register(uint32_t mode, bool gfx12 = false) {
    FloatMode result;
    result.round32 = Round(mode & 3);
    result.round64 = Round(mode >> 2 & 3);
    result.flush_in32 = !(mode >> 4 & 1);
    result.flush_out32 = !(mode >> 5 & 1);
    result.flush_in64 = !(mode >> 6 & 1);
    result.flush_out64 = !(mode >> 7 & 1);
    result.dx10_clamp = gfx12 || (mode >> 8 & 1);
    result.ieee = gfx12 || (mode >> 9 & 1);
    return result;
  }
  // True where the host's own f32 operators give the right answer.
  constexpr bool plain32() const {
    return round32 == Round::kNearestEven && !flush_in32 && !flush_out32;
  }
  constexpr bool plain64() const {
    return round64 == Round::kNearestEven && !flush_in64 && !flush_out64;
  }
};

static inline uint32_t bits(float x) {
  uint32_t u;
  std::memcpy(&u, &x, 4);
  return u;
}
static inline uint64_t bits(double x) {
  uint64_t u;
  std::memcpy(&u, &x, 8);
  return u;
}
static inline float as_f32(uint32_t u) {
  float x;
  std::memcpy(&x, &u, 4);
  return x;
}
static inline double as_f64(uint64_t u) {
  double x;
  std::memcpy(&x, &u, 8);
  return x;
}

constexpr uint32_t kNan32 = 0x7fc00000u;
constexpr uint16_t kNan16 = 0x7e00u;

static inline bool is_nan32(uint32_t u) { return (u & 0x7fffffffu) > 0x7f800000u; }
static inline bool is_nan16(uint16_t u) { return (u & 0x7fffu) > 0x7c00u; }
static inline bool is_nan64(uint64_t u) { return (u & ~(1ull << 63)) > 0x7ff0000000000000ull; }
static inline bool is_signaling32(uint32_t u) { return is_nan32(u) && !(u & 0x400000u); }
static inline bool is_signaling16(uint16_t u) { return is_nan16(u) && !(u & 0x200u); }
static inline bool is_signaling64(uint64_t u) { return is_nan64(u) && !(u >> 51 & 1); }
static inline uint32_t quiet32(uint32_t u) { return is_nan32(u) ? u | 0x400000u : u; }
static inline uint16_t quiet16(uint16_t u) { return is_nan16(u) ? uint16_t(u | 0x200u) : u; }
static inline uint64_t quiet64(uint64_t u) { return is_nan64(u) ? u | 1ull << 51 : u; }

// A denormal becomes a zero of its sign.
static inline uint32_t flush32(uint32_t u) { return u & 0x7f800000u ? u : u & 0x80000000u; }
static inline uint16_t flush16(uint16_t u) { return u & 0x7c00u ? u : uint16_t(u & 0x8000u); }
static inline uint16_t flush_bf16(uint16_t u) { return u & 0x7f80u ? u : uint16_t(u & 0x8000u); }
static inline uint64_t flush64(uint64_t u) { return u >> 52 & 0x7ff ? u : u & 1ull << 63; }
static inline float flush(float x, bool on) { return on ? as_f32(flush32(bits(x))) : x; }
static inline double flush(double x, bool on) { return on ? as_f64(flush64(bits(x))) : x; }

// A binary floating-point format of up to 16 bits.
struct FloatFormat {
  uint8_t exponent_bits, fraction_bits;
  int16_t bias;
  enum Special : uint8_t {
    kIeee,       // all-ones exponent: infinity and NaN (f16, bf16, OCP e5m2)
    kOnlyNan,    // all ones is NaN, no infinity (OCP e4m3)
    kFnuz,       // the code of -0 is the one NaN, no infinity
    kFinite,     // neither (fp6, fp4)
  } special;

  constexpr int width() const { return 1 + exponent_bits + fraction_bits; }
  constexpr uint32_t sign_bit() const { return 1u << (exponent_bits + fraction_bits); }
  // The code of the largest finite magnitude.
  constexpr uint32_t max_code() const {
    uint32_t all = sign_bit() - 1;
    if (special == kIeee) return all - (1u << fraction_bits);
    return special == kOnlyNan ? all - 1 : all;
  }
  constexpr uint32_t inf_code() const { return max_code() + 1; }  // kIeee only
  constexpr uint32_t nan_code() const {
    if (special == kIeee) return inf_code() + (1u << (fraction_bits - 1));
    return special == kFnuz ? sign_bit() : sign_bit() - 1;
  }
};

constexpr FloatFormat kFormatF16{5, 10, 15, FloatFormat::kIeee};
constexpr FloatFormat kFormatBf16{8, 7, 127, FloatFormat::kIeee};
constexpr FloatFormat kFormatFp8{4, 3, 7, FloatFormat::kOnlyNan};     // OCP e4m3fn
constexpr FloatFormat kFormatBf8{5, 2, 15, FloatFormat::kIeee};       // OCP e5m2
constexpr FloatFormat kFormatFp8Fnuz{4, 3, 8, FloatFormat::kFnuz};    // gfx942
constexpr FloatFormat kFormatBf8Fnuz{5, 2, 16, FloatFormat::kFnuz};   // gfx942
constexpr FloatFormat kFormatFp6{2, 3, 1, FloatFormat::kFinite};      // e2m3
constexpr FloatFormat kFormatBf6{3, 2, 3, FloatFormat::kFinite};      // e3m2
constexpr FloatFormat kFormatFp4{2, 1, 1, FloatFormat::kFinite};      // e2m1

// The conversion of a finite magnitude, or of an infinity, beyond the largest finite number.
enum class Overflow : uint8_t {
  kIeee,      // as the format has it: infinity, or NaN where there is none, or the maximum where
              // there is neither; directed rounding keeps the maximum for finite values
  kSaturate,  // the maximum, for infinities too
};

// x is exact in f64, so every f32 (and every f16, ...) converts with one rounding.
static inline uint32_t encode(double x, const FloatFormat &format,
                              Round round = Round::kNearestEven,
                              Overflow overflow = Overflow::kIeee) {
  const uint64_t u = bits(x);
  const bool negative = u >> 63;
  const uint32_t sign = negative ? format.sign_bit() : 0;
  const uint64_t magnitude = u & ~(1ull << 63);
  if (magnitude > 0x7ff0000000000000ull) {
    if (format.special == FloatFormat::kFinite) return sign | format.max_code();
    if (format.special == FloatFormat::kIeee) {
      const uint32_t payload =
          uint32_t(magnitude >> (52 - format.fraction_bits)) & ((1u << format.fraction_bits) - 1);
      return sign | format.nan_code() | payload;
    }
    return format.special == FloatFormat::kFnuz ? format.nan_code() : sign | format.nan_code();
  }
  const uint32_t signed_zero = format.special == FloatFormat::kFnuz ? 0 : sign;
  if (magnitude == 0) return signed_zero;

  bool infinite = magnitude == 0x7ff0000000000000ull;
  uint64_t code = ~0ull;
  const int exponent = int(magnitude >> 52) - 1023;
  if (!infinite && exponent <= 1100 - 0 && exponent <= 1023) {
    const int minimum = 1 - format.bias;
    const int clipped = exponent < minimum ? minimum : exponent;
    // Bits of the 53-bit significand below the format's last place. A denormal f64 is below half
    // of every format's smallest number and so behaves as any other tiny value.
    int drop = 52 - format.fraction_bits + (clipped - exponent);
    uint64_t significand = (magnitude & ((1ull << 52) - 1)) | (magnitude >> 52 ? 1ull << 52 : 0);
    if (drop > 62) {
      significand = 1;
      drop = 62;
    }
    uint64_t kept = significand >> drop;
    const uint64_t rest = significand & ((1ull << drop) - 1), half = 1ull << (drop - 1);
    switch (round) {
    case Round::kNearestEven: kept += rest > half || (rest == half && (kept & 1)); break;
    case Round::kUp: kept += rest && !negative; break;
    case Round::kDown: kept += rest && negative; break;
    case Round::kZero: break;
    }
    code = (uint64_t(clipped - minimum) << format.fraction_bits) + kept;
    if (code == 0) return signed_zero;
  }
  if (code <= format.max_code()) return sign | uint32_t(code);
  if (overflow == Overflow::kSaturate || format.special == FloatFormat::kFinite)
    return sign | format.max_code();
  if (!infinite && (round == Round::kZero || (round == Round::kUp && negative) ||
                    (round == Round::kDown && !negative)))
    return sign | format.max_code();
  if (format.special == FloatFormat::kIeee) return sign | format.inf_code();
  return format.special == FloatFormat::kFnuz ? format.nan_code() : sign | format.nan_code();
}

static inline float decode(uint32_t code, const FloatFormat &format) {
  const bool negative = code & format.sign_bit();
  const uint32_t magnitude = code & (format.sign_bit() - 1);
  if (format.special == FloatFormat::kFnuz && negative && magnitude == 0) return as_f32(kNan32);
  if (format.special != FloatFormat::kFnuz && magnitude > format.max_code()) {
    if (format.special == FloatFormat::kIeee && magnitude == format.inf_code())
      return negative ? -INFINITY : INFINITY;
    const uint32_t payload = format.special == FloatFormat::kIeee
                                 ? (magnitude & ((1u << format.fraction_bits) - 1))
                                       << (23 - format.fraction_bits)
                                 : 0;
    return as_f32((negative ? 0x80000000u : 0) | kNan32 | payload);
  }
  const uint32_t exponent = magnitude >> format.fraction_bits;
  const uint32_t fraction = magnitude & ((1u << format.fraction_bits) - 1);
  if (exponent && format.bias <= 127)
    return as_f32((negative ? 0x80000000u : 0) | (exponent - format.bias + 127) << 23 |
                  fraction << (23 - format.fraction_bits));
  const float value = std::ldexp(float(fraction), 1 - format.bias - format.fraction_bits);
  return negative ? -value : value;
}

// f16 to f32 without a branch, so that loops over lanes vectorise. NaNs are quieted.
static inline float f16_to_f32(uint16_t h) {
  const uint32_t magnitude = uint32_t(h & 0x7fffu) << 13;
  // Multiplying by 2^112 moves the bias and normalises denormals.
  uint32_t u = bits(as_f32(magnitude) * as_f32(0x77800000u));
  u = magnitude >= 0x0f800000u ? magnitude | 0x7f800000u : u;
  u = magnitude > 0x0f800000u ? u | 0x400000u : u;
  return as_f32(u | uint32_t(h & 0x8000u) << 16);
}

// f32 to f16, nearest even, without a branch on the value. NaNs are quieted, payload kept.
static inline uint16_t f32_to_f16_rne(float x) {
  const uint32_t u = bits(x), magnitude = u & 0x7fffffffu, sign = u >> 16 & 0x8000u;
  // Denormal result: adding 0.5 aligns the last place of f16 with the last place of the sum.
  const uint32_t small = bits(as_f32(magnitude) + 0.5f) - 0x3f000000u;
  const uint32_t normal = (magnitude + 0xc8000fffu + (magnitude >> 13 & 1)) >> 13;
  uint32_t h = magnitude < 0x38800000u ? small : normal;
  h = magnitude >= 0x477ff000u ? 0x7c00u : h;
  h = magnitude > 0x7f800000u ? 0x7e00u | (magnitude >> 13 & 0x3ffu) : h;
  return uint16_t(sign | h);
}
static inline uint16_t f32_to_f16(float x, Round round = Round::kNearestEven) {
  return round == Round::kNearestEven ? f32_to_f16_rne(x) : uint16_t(encode(x, kFormatF16, round));
}
static inline uint16_t f64_to_f16(double x, Round round = Round::kNearestEven) {
  return uint16_t(encode(x, kFormatF16, round));
}

static inline float bf16_to_f32(uint16_t h) { return as_f32(uint32_t(h) << 16); }
static inline uint16_t f32_to_bf16(float x, Round round = Round::kNearestEven) {
  const uint32_t u = bits(x);
  if (is_nan32(u)) return uint16_t(quiet32(u) >> 16);
  if (round == Round::kNearestEven) return uint16_t((u + 0x7fffu + (u >> 16 & 1)) >> 16);
  return uint16_t(encode(x, kFormatBf16, round));
}
static inline uint16_t f64_to_bf16(double x, Round round = Round::kNearestEven) {
  return uint16_t(encode(x, kFormatBf16, round));
}

// The f32 neighbour above (below) a number that is neither NaN nor the infinity of that side.
static inline float next_up(float x) {
  const uint32_t u = bits(x);
  if (u == 0x80000000u) return as_f32(1);
  return as_f32(u >> 31 ? u - 1 : u + 1);
}
static inline float next_down(float x) { return -next_up(-x); }

static inline float f64_to_f32(double x, Round round = Round::kNearestEven) {
  const float nearest = float(x);
  if (round == Round::kNearestEven || std::isnan(x) || std::isinf(x) || double(nearest) == x)
    return nearest;
  const bool above = double(nearest) > x;
  const bool want_up = round == Round::kUp || (round == Round::kZero && x < 0);
  if (want_up) return above ? nearest : next_up(nearest);
  return above ? next_down(nearest) : nearest;
}

// 8-bit floats. The conversion instructions overflow as FP16_OVFL says: 0 gives NaN (e4m3) or
// infinity (OCP e5m2), 1 saturates (CDNA3 ISA, V_CVT_PK_FP8_F32; MODE bit 23).
static inline float fp8_to_f32(uint8_t x, bool fnuz) {
  return decode(x, fnuz ? kFormatFp8Fnuz : kFormatFp8);
}
static inline float bf8_to_f32(uint8_t x, bool fnuz) {
  return decode(x, fnuz ? kFormatBf8Fnuz : kFormatBf8);
}
static inline uint8_t f32_to_fp8(float x, bool fnuz, bool saturate = false,
                                 Round round = Round::kNearestEven) {
  return uint8_t(encode(x, fnuz ? kFormatFp8Fnuz : kFormatFp8, round,
                        saturate ? Overflow::kSaturate : Overflow::kIeee));
}
static inline uint8_t f32_to_bf8(float x, bool fnuz, bool saturate = false,
                                 Round round = Round::kNearestEven) {
  return uint8_t(encode(x, fnuz ? kFormatBf8Fnuz : kFormatBf8, round,
                        saturate ? Overflow::kSaturate : Overflow::kIeee));
}

// Stochastic rounding: `random` is added, aligned to its top, to the bits of the significand that
// the format has no room for, and the sum is cut off.
static inline uint32_t encode_stochastic(double x, uint32_t random, const FloatFormat &format,
                                         Overflow overflow = Overflow::kIeee) {
  if (std::isnan(x) || std::isinf(x) || x == 0) return encode(x, format, Round::kZero, overflow);
  const uint64_t u = bits(x);
  const int exponent = int(u >> 52 & 0x7ff) - 1023, minimum = 1 - format.bias;
  const int drop = 52 - format.fraction_bits + (exponent < minimum ? minimum - exponent : 0);
  // One unit in the last place of the format is 2^(drop - 52 + exponent); random / 2^32 of it.
  const double step = std::ldexp(double(random), drop - 52 + exponent - 32);
  // Both terms and their sum fit f64 unless x is far below the last place, where only the
  // comparison with one unit counts.
  const double sum = std::fabs(x) + step;
  // Truncation keeps the maximum where rounding up has passed it; that is an overflow here.
  const double largest = decode(format.max_code(), format),
               place = std::ldexp(1.0, std::ilogb(largest) - format.fraction_bits);
  if (sum >= largest + place)
    return encode(std::copysign(double(INFINITY), x), format, Round::kZero, overflow);
  return encode(std::copysign(sum, x), format, Round::kZero, overflow);
}

// e8m0: a power of two, 255 is NaN.
static inline float e8m0_to_f32(uint8_t e) {
  if (e == 255) return as_f32(kNan32);
  return e ? as_f32(uint32_t(e) << 23) : as_f32(0x400000u);
}

} // namespace mgx::emu
