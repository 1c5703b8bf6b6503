// gfx950: conversions between f32, f16 or bf16 and the small formats with a scale
// (CDNA4 ISA 7.3 "Converts with Scale" and the pseudocode of V_CVT_SCALEF32_*).
//
// The scale is the exponent of a float, whatever its other bits are. A value is
// divided by 2^(exponent - 127) before it is narrowed, multiplied after it is widened.
#include "numeric.h"
#include "valu.h"

#include <utility>

namespace mgx::emu {
inline namespace MGX_ISA {

namespace {

enum class Wide : u8 { f32, f16, bf16 };
enum class Small : u8 { fp8, bf8, fp6, bf6, fp4 };
// narrow: count values of one source; join: 16 of each of two, in turn; random: a
// word of random bits before the scale; widen: the other way.
enum class Way : u8 { narrow, join, random, widen };

struct Conversion {
  const char *name;
  Way way;
  Small small;
  Wide wide;
  u8 count;
};

#define MGX_BOTH_WAYS(SMALL, WIDE, COUNT, PREFIX)                                                  \
  {"v_cvt_scalef32_" PREFIX #WIDE "_" #SMALL, Way::widen, Small::SMALL, Wide::WIDE, COUNT}, {      \
    "v_cvt_scalef32_" PREFIX #SMALL "_" #WIDE, Way::narrow, Small::SMALL, Wide::WIDE, COUNT        \
  }
#define MGX_RANDOM(SMALL, WIDE, COUNT, PREFIX)                                                     \
  {"v_cvt_scalef32_sr_" PREFIX #SMALL "_" #WIDE, Way::random, Small::SMALL, Wide::WIDE, COUNT}
#define MGX_ALL_OF(WIDE)                                                                           \
  MGX_BOTH_WAYS(fp8, WIDE, 2, "pk_"), MGX_BOTH_WAYS(bf8, WIDE, 2, "pk_"),                          \
      MGX_BOTH_WAYS(fp4, WIDE, 2, "pk_"), MGX_BOTH_WAYS(fp6, WIDE, 32, "pk32_"),                   \
      MGX_BOTH_WAYS(bf6, WIDE, 32, "pk32_"), MGX_RANDOM(fp8, WIDE, 1, ""),                         \
      MGX_RANDOM(bf8, WIDE, 1, ""), MGX_RANDOM(fp4, WIDE, 2, "pk_"),                               \
      MGX_RANDOM(fp6, WIDE, 32, "pk32_"), MGX_RANDOM(bf6, WIDE, 32, "pk32_")

// f32 has no pk32 narrowing, its sources would not fit: the 2xpk16 forms stand for it.
constexpr Conversion kConversions[] = {
    MGX_ALL_OF(f32),
    MGX_ALL_OF(f16),
    MGX_ALL_OF(bf16),
    {"v_cvt_scalef32_f32_fp8", Way::widen, Small::fp8, Wide::f32, 1},
    {"v_cvt_scalef32_f32_bf8", Way::widen, Small::bf8, Wide::f32, 1},
    {"v_cvt_scalef32_f16_fp8", Way::widen, Small::fp8, Wide::f16, 1},
    {"v_cvt_scalef32_f16_bf8", Way::widen, Small::bf8, Wide::f16, 1},
    {"v_cvt_scalef32_2xpk16_fp6_f32", Way::join, Small::fp6, Wide::f32, 32},
    {"v_cvt_scalef32_2xpk16_bf6_f32", Way::join, Small::bf6, Wide::f32, 32},
};
constexpr size_t kCount = sizeof kConversions / sizeof kConversions[0];

MGX_INLINE const FloatFormat &format(Small s) {
  switch (s) {
  case Small::fp8: return kFormatFp8;
  case Small::bf8: return kFormatBf8;
  case Small::fp6: return kFormatFp6;
  case Small::bf6: return kFormatBf6;
  default: return kFormatFp4;
  }
}

// Bits [at, at + width) of a lane's registers; fields of 6 bits may straddle two.
MGX_INLINE u32 get_bits(const u32 *lane, u32 at, u32 width) {
  u64 pair = lane[at / 32 * kLanes];
  if (at % 32 + width > 32) pair |= u64(lane[(at / 32 + 1) * kLanes]) << 32;
  return u32(pair >> at % 32 & ((u64(1) << width) - 1));
}
MGX_INLINE void put_bits(u32 *words, u32 at, u32 width, u32 value) {
  u64 field = ((u64(1) << width) - 1) << at % 32, bits = u64(value) << at % 32 & field;
  words[at / 32] = (words[at / 32] & ~u32(field)) | u32(bits);
  if (field >> 32) words[at / 32 + 1] = (words[at / 32 + 1] & ~u32(field >> 32)) | u32(bits >> 32);
}

MGX_INLINE f64 read_wide(Wide w, u32 bits) {
  return w == Wide::f32   ? f32_of(bits)
         : w == Wide::f16 ? f16_to_f32(u16(bits))
                          : bf16_to_f32(u16(bits));
}
MGX_INLINE u32 write_wide(Wide w, f64 x) {
  return w == Wide::f32 ? as_bits(f64_to_f32(x)) : w == Wide::f16 ? f64_to_f16(x) : f64_to_bf16(x);
}

template <size_t kIndex> void convert(Wave &w, const Inst &in) {
  constexpr Conversion c = kConversions[kIndex];
  constexpr bool widen = c.way == Way::widen;
  constexpr u32 wide_bits = c.wide == Wide::f32 ? 32 : 16, small_bits = c.small == Small::fp4   ? 4
                                                                        : c.small >= Small::fp6 ? 6
                                                                                                : 8;
  constexpr u32 from_bits = widen ? small_bits : wide_bits,
                to_bits = widen ? wide_bits : small_bits;
  // Two f32 come from two sources; all else that is packed from one.
  constexpr bool pair = c.way == Way::narrow && c.wide == Wide::f32 && c.count == 2;
  constexpr u32 scale_source = c.way == Way::narrow || widen ? (pair ? 2 : 1) : 2;
  constexpr u32 words = (c.count * to_bits + 31) / 32;
  const FloatFormat &small = format(c.small);
  const Overflow overflow = w.mode >> 23 & 1 ? Overflow::kSaturate : Overflow::kIeee;

  Buffer t0, t1, t2;
  const bool long_source = c.count == 32;
  const u32 *a = long_source ? w.vgpr(in.src[0].reg) : fetch(w, in, in.src[0], t0.x);
  const u32 *b = c.way == Way::join             ? w.vgpr(in.src[1].reg)
                 : pair || c.way == Way::random ? fetch(w, in, in.src[1], t1.x)
                                                : nullptr;
  const u32 *scales = fetch(w, in, in.src[scale_source], t2.x);
  // Where in the register a short source or result is: a byte or a half.
  u32 from = 0, to = 0;
  if (c.count < 32 && widen) {
    if (c.count * small_bits == 16) from = (in.op_sel & 1) * 16;
    else from = (in.op_sel & 3) * 8;
    if (c.count * wide_bits == 16) to = (in.op_sel >> 3 & 1) * 16;
  } else if (c.count < 32) {
    to = c.count * small_bits == 16 ? (in.op_sel >> 3 & 1) * 16 : (in.op_sel >> 2 & 3) * 8;
  }

  const u64 exec = exec_of(w);
  alignas(64) static thread_local u32 result[words][kLanes];
  for (u32 i = 0; i < w.lanes; ++i) {
    if (!(exec >> i & 1)) continue;
    const i32 exponent = i32(scales[i] >> 23 & 0xff);
    const f64 scale = exponent == 255
                          ? f64(NAN)
                          : f64_of(u64(1023 + (widen ? exponent - 127 : 127 - exponent)) << 52);
    u32 random = c.way == Way::random ? b[i] : 0, out[words];
    for (u32 k = 0; k < words; ++k) out[k] = w.vgpr(in.dst.reg + k)[i];
    for (u32 e = 0; e < c.count; ++e) {
      u32 bits;
      if constexpr (pair) bits = e ? b[i] : a[i];
      else if constexpr (c.way == Way::join)
        bits = get_bits((e & 1 ? b : a) + i, e / 2 * from_bits, from_bits);
      else bits = get_bits(a + i, from + e * from_bits, from_bits);
      u32 r;
      if constexpr (widen) {
        r = write_wide(c.wide, decode(bits, small) * scale);
      } else {
        const f64 x = read_wide(c.wide, bits) * scale;
        r = c.way == Way::random ? encode_stochastic(x, random, small, overflow)
                                 : encode(x, small, Round::kNearestEven, overflow);
        random = random << 1 ^ (random >> 31 ? 197u : 0u); // v_prng_b32
      }
      put_bits(out, to + e * to_bits, to_bits, r);
    }
    for (u32 k = 0; k < words; ++k) result[k][i] = out[k];
  }
  for (u32 k = 0; k < words; ++k) {
    u32 *d = w.vgpr(in.dst.reg + k);
    for (u32 i = 0; i < w.lanes; ++i)
      if (exec >> i & 1) d[i] = result[k][i];
  }
}

Ty of_words(u32 words) {
  switch (words) {
  case 2: return Ty::b64;
  case 6: return Ty::b192;
  case 16: return Ty::b512;
  case 32: return Ty::b1024;
  default: return Ty::b32;
  }
}

template <size_t kIndex> void add(OpTable &t) {
  constexpr Conversion c = kConversions[kIndex];
  const u32 wide_bits = c.wide == Wide::f32 ? 32 : 16, small_bits = c.small == Small::fp4   ? 4
                                                                    : c.small >= Small::fp6 ? 6
                                                                                            : 8;
  const bool pair = c.way == Way::narrow && c.wide == Wide::f32 && c.count == 2;
  const u32 wide_words = (c.count * wide_bits + 31) / 32,
            small_words = (c.count * small_bits + 31) / 32;
  OpInfo o;
  o.fn = convert<kIndex>;
  o.dst = of_words(c.way == Way::widen ? wide_words : small_words);
  if (pair) {
    o.src[0] = o.src[1] = Ty::f32;
    o.nsrc = 2;
  } else if (c.way == Way::join) {
    o.src[0] = o.src[1] = of_words(wide_words / 2);
    o.nsrc = 2;
  } else {
    o.src[0] = of_words(c.way == Way::widen ? small_words : wide_words);
    o.nsrc = 1;
    if (c.way == Way::random) o.src[o.nsrc++] = Ty::b32;
  }
  o.src[o.nsrc++] = Ty::f32; // the scale: constants are floats
  o.reads_dst = false;
  add_op(t, c.name, o);
}

template <size_t... kIndices> void add_all(OpTable &t, std::index_sequence<kIndices...>) {
  (add<kIndices>(t), ...);
}

} // namespace

void register_valu_scale(OpTable &t) { add_all(t, std::make_index_sequence<kCount>()); }

} // namespace MGX_ISA
} // namespace mgx::emu
