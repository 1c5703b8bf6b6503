// Typed buffer loads and stores: elements are converted from and to the format
// that the descriptor (BUFFER_*_FORMAT) or the instruction (TBUFFER_*) names.
#include "access.h"
#include "buffer_format.h"
#include "numeric.h"

namespace mgx::emu {
inline namespace MGX_ISA {

// Unsigned floats of packed formats.
static constexpr FloatFormat kFloat11{5, 6, 15, FloatFormat::kIeee},
    kFloat10{5, 5, 15, FloatFormat::kIeee};

MGX_INLINE bool is_integer(Number n) { return n == Number::uint || n == Number::sint; }
MGX_INLINE i32 signed_of(u32 raw, u32 bits) { return i32(raw << (32 - bits)) >> (32 - bits); }

// The register value of a component: an integer or the bits of an f32.
static u32 load_component(u32 raw, u32 bits, Number number) {
  u32 top = u32((u64(1) << bits) - 1), positive = top >> 1;
  switch (number) {
  case Number::unorm: return as_bits(f32(f64(raw) / top));
  case Number::snorm: {
    f64 x = f64(signed_of(raw, bits)) / positive;
    return as_bits(f32(x < -1 ? -1 : x));
  }
  case Number::uscaled: return as_bits(f32(raw));
  case Number::sscaled: return as_bits(f32(signed_of(raw, bits)));
  case Number::sint: return u32(signed_of(raw, bits));
  case Number::floating:
    if (bits == 16) return as_bits(half_to_float(raw));
    if (bits == 11) return as_bits(decode(raw, kFloat11));
    if (bits == 10) return as_bits(decode(raw, kFloat10));
    return raw;
  default: return raw;
  }
}

static u32 unsigned_float(f32 x, const FloatFormat &f) {
  return std::signbit(x) && x == x ? 0 : encode(x, f) & (f.sign_bit() - 1);
}
static u32 store_component(u32 value, u32 bits, Number number) {
  u32 top = u32((u64(1) << bits) - 1), positive = top >> 1;
  f64 x = f32_of(value);
  auto rounded = [](f64 v, f64 low, f64 high) {
    return v != v ? i64(0) : i64(__builtin_roundeven(v < low ? low : v > high ? high : v));
  };
  switch (number) {
  case Number::unorm: return u32(rounded(x * top, 0, top));
  case Number::snorm: return u32(rounded(x * positive, -f64(positive), positive)) & top;
  case Number::uscaled: return u32(rounded(x, 0, top));
  case Number::sscaled: return u32(rounded(x, -f64(positive) - 1, positive)) & top;
  case Number::uint: return value > top ? top : value;
  case Number::sint: {
    i64 v = i32(value), low = -i64(positive) - 1;
    return u32(v < low ? low : v > i64(positive) ? i64(positive) : v) & top;
  }
  default:
    if (bits == 16) return f32_to_f16(f32(x));
    if (bits == 11) return unsigned_float(f32(x), kFloat11);
    if (bits == 10) return unsigned_float(f32(x), kFloat10);
    return value;
  }
}

// Components of an element at `p`, lowest bits first.
template <class F> MGX_INLINE void each_component(const BufferFormat &f, F visit) {
  u32 at = 0;
  for (u32 c = 0; c < 4 && f.bits[c]; at += f.bits[c++]) visit(c, at);
}
// The bytes that hold the component at bit `at`: up to 4 from a multiple of 4 on.
MGX_INLINE u32 window_bytes(const BufferFormat &f, u32 at) {
  u32 rest = f.bytes - at / 32 * 4u;
  return rest < 4 ? rest : 4;
}
MGX_INLINE u64 window(const BufferFormat &f, const u8 *p, u32 at) {
  u64 x = 0;
  std::memcpy(&x, p + at / 32 * 4, window_bytes(f, at));
  return x;
}

template <bool kTyped> static bool format_of(Wave &w, const Inst &in, BufferFormat &f) {
  u32 word = w.s[in.src[2].reg + 3], code = in.dpp;
  if (!kTyped)
    code = w.chip->is_gfx9() ? (word >> 15 & 15) | (word >> 12 & 7) << 4
                             : word >> 12 & (w.chip->is_gfx10() ? 127 : 63);
  f = buffer_format(*w.chip, code);
  if (!f.bytes)
    raise_fault(w, Fault::invalid_instruction, -1, 0, "the buffer's format is none of this chip");
  return f.bytes;
}

// kHalf: results are 16 bits, two to a register, kHigh: in the upper half.
template <u32 kCount, bool kHalf, bool kHigh, bool kTyped>
static void load_format(Wave &w, const Inst &in) {
  BufferFormat f;
  Access a;
  if (!format_of<kTyped>(w, in, f) || !resolve(w, in, f.bytes, true, false, a)) return;
  u32 select = kTyped ? 4 | 5 << 3 | 6 << 6 | 7 << 9 : w.s[in.src[2].reg + 3] & 0xfff;
  u32 one = is_integer(f.number) ? 1 : as_bits(1.0f);
  u32 *d = w.vgpr(in.dst.reg);
  each_lane(a.mask, [&](u32 i) {
    u32 component[4] = {0, 0, 0, one};
    each_component(f, [&](u32 c, u32 at) {
      u32 raw = u32(window(f, a.p[i], at) >> at % 32) & u32((u64(1) << f.bits[c]) - 1);
      component[c] = load_component(raw, f.bits[c], f.number);
    });
    for (u32 k = 0; k < kCount; ++k) {
      u32 s = select >> 3 * k & 7, x = s >= 4 ? component[s - 4] : s == 1 ? one : 0;
      if (!kHalf) {
        d[k * kLanes + i] = x;
        continue;
      }
      u32 h = is_integer(f.number) ? x & 0xffff : float_to_half(f32_of(x));
      u32 &r = d[k / 2 * kLanes + i];
      r = kHigh || k & 1 ? (r & 0xffff) | h << 16 : (r & 0xffff0000) | h;
    }
  });
}

template <u32 kCount, bool kHalf, bool kHigh, bool kTyped>
static void store_format(Wave &w, const Inst &in) {
  BufferFormat f;
  Access a;
  if (!format_of<kTyped>(w, in, f) || !resolve(w, in, f.bytes, false, true, a)) return;
  const u32 *s = w.vgpr(in.src[1].reg);
  each_lane(a.mask, [&](u32 i) {
    each_component(f,
                   [&](u32 c, u32 at) { // components the instruction does not name keep their value
                     if (c >= kCount) return;
                     u32 x = s[(kHalf ? c / 2 : c) * kLanes + i];
                     if (kHalf) {
                       x = x >> (kHigh || c & 1 ? 16 : 0) & 0xffff;
                       x = f.number == Number::sint   ? u32(i32(i16(x)))
                           : f.number == Number::uint ? x
                                                      : as_bits(half_to_float(x));
                     }
                     u64 mask = ((u64(1) << f.bits[c]) - 1) << at % 32,
                         value = u64(store_component(x, f.bits[c], f.number)) << at % 32;
                     u64 word = (window(f, a.p[i], at) & ~mask) | (value & mask);
                     std::memcpy(a.p[i] + at / 32 * 4, &word, window_bytes(f, at));
                   });
  });
  if (a.staged) finish_store(w, a);
}

template <u32 kCount, bool kHalf>
static void add_count(OpTable &t, const char *const (&middles)[2]) {
  static const char *const suffixes[] = {"x", "xy", "xyz", "xyzw"};
  static const Ty types[] = {Ty::b32, Ty::b64, Ty::b96, Ty::b128};
  const Ty ty = types[(kHalf ? (kCount + 1) / 2 : kCount) - 1];
  for (bool typed : {false, true})
    for (bool store : {false, true})
      for (const char *middle : middles) {
        OpInfo o;
        if (typed)
          o.fn = store ? store_format<kCount, kHalf, false, true>
                       : load_format<kCount, kHalf, false, true>;
        else
          o.fn = store ? store_format<kCount, kHalf, false, false>
                       : load_format<kCount, kHalf, false, false>;
        (store ? o.src[1] : o.dst) = ty;
        o.nsrc = 2;
        o.cls = store ? Class::global_store : Class::global_load;
        char name[64];
        __builtin_snprintf(name, sizeof name, "%sbuffer_%s_%s%s", typed ? "t" : "",
                           store ? "store" : "load", middle, suffixes[kCount - 1]);
        add_op(t, name, o);
      }
}

void register_vmem_format(OpTable &t) {
  const char *const whole[2] = {"format_", "format_"}, *const half[2] = {"format_d16_",
                                                                         "d16_format_"};
  add_count<1, false>(t, whole);
  add_count<2, false>(t, whole);
  add_count<3, false>(t, whole);
  add_count<4, false>(t, whole);
  add_count<1, true>(t, half);
  add_count<2, true>(t, half);
  add_count<3, true>(t, half);
  add_count<4, true>(t, half);
  OpInfo o;
  o.nsrc = 2;
  o.fn = load_format<1, true, true, false>;
  o.dst = Ty::b32;
  o.cls = Class::global_load;
  for (const char *name : {"buffer_load_format_d16_hi_x", "buffer_load_d16_hi_format_x"})
    add_op(t, name, o);
  o.fn = store_format<1, true, true, false>;
  o.dst = Ty::none;
  o.src[1] = Ty::b32;
  o.cls = Class::global_store;
  for (const char *name : {"buffer_store_format_d16_hi_x", "buffer_store_d16_hi_format_x"})
    add_op(t, name, o);
}

} // namespace MGX_ISA
} // namespace mgx::emu
