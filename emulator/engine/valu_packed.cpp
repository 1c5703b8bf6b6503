// VOP3P: packed 16-bit and 32-bit math, mixed-precision multiply-adds, dot products.
#include "numeric.h"
#include "valu.h"

namespace mgx::emu {
inline namespace MGX_ISA {

// One source of a packed instruction: which half feeds which result, and signs.
struct Halves {
  const u32 *p;
  u32 shift[2], flip[2];
};
MGX_INLINE Halves halves(Wave &w, const Inst &in, u32 i, u32 *buffer, bool is_float) {
  Halves h;
  h.p = fetch(w, in, in.src[i], buffer);
  h.shift[0] = (in.op_sel >> i & 1) * 16;
  h.shift[1] = (in.op_sel_hi >> i & 1) * 16;
  h.flip[0] = is_float ? (in.neg_lo >> i & 1) << 15 : 0;
  h.flip[1] = is_float ? (in.neg_hi >> i & 1) << 15 : 0;
  return h;
}
MGX_INLINE u32 clamp_half(u32 h) {
  u32 a = h & 0x7fff;
  return a > 0x7c00 || h & 0x8000 ? 0 : h > 0x3c00 ? 0x3c00 : h;
}

// The values of both halves of a source. Loops this small vectorise.
template <class T> struct Values {
  alignas(64) std::conditional_t<std::is_same_v<T, h16>, f32, T> x[2][kLanes];
};
template <class T> MGX_INLINE void unpack(const Halves &h, u32 n, Values<T> &v) {
  for (u32 k = 0; k < 2; ++k) {
    u32 shift = h.shift[k], flip = h.flip[k];
    const u32 *p = h.p;
    auto *x = v.x[k];
    if constexpr (std::is_same_v<T, h16>)
      MGX_EACH x[i] = half_to_float((p[i] >> shift & 0xffff) ^ flip);
    else MGX_EACH x[i] = T((p[i] >> shift & 0xffff) ^ flip);
  }
}
template <class T>
MGX_INLINE void pack(Wave &w, const Inst &in, u32 n, const Values<T> &v, bool is_float) {
  Buffer td;
  bool whole = direct(w, in);
  u32 *d = whole ? w.vgpr(in.dst.reg) : td.x;
  const auto *lo = v.x[0], *hi = v.x[1];
  if constexpr (std::is_same_v<T, h16>)
    MGX_EACH d[i] = float_to_half(lo[i]) | float_to_half(hi[i]) << 16;
  else MGX_EACH d[i] = u16(lo[i]) | u32(u16(hi[i])) << 16;
  if (whole) return;
  if (is_float && in.flags & F_CLAMP)
    for (u32 i = 0; i < n; ++i) d[i] = clamp_half(d[i] & 0xffff) | clamp_half(d[i] >> 16) << 16;
  commit_bits(w, in, d, 1);
}
template <class T> struct Result {
  using type = T;
};
template <> struct Result<h16> {
  using type = f32;
};

template <class Op, class T, bool kF> static void pk2(Wave &w, const Inst &in) {
  Buffer t0, t1;
  Values<T> a, b, d;
  MGX_LANES(w)
  unpack<T>(halves(w, in, 0, t0.x, kF), n, a);
  unpack<T>(halves(w, in, 1, t1.x, kF), n, b);
  for (u32 k = 0; k < 2; ++k) {
    auto *x = a.x[k], *y = b.x[k], *r = d.x[k];
    MGX_EACH r[i] = typename Result<T>::type(Op::f(x[i], y[i]));
  }
  pack<T>(w, in, n, d, kF);
}
template <class Op, class T, bool kF> static void pk3(Wave &w, const Inst &in) {
  Buffer t0, t1, t2;
  Values<T> a, b, c, d;
  MGX_LANES(w)
  unpack<T>(halves(w, in, 0, t0.x, kF), n, a);
  unpack<T>(halves(w, in, 1, t1.x, kF), n, b);
  unpack<T>(halves(w, in, 2, t2.x, kF), n, c);
  for (u32 k = 0; k < 2; ++k) {
    auto *x = a.x[k], *y = b.x[k], *z = c.x[k], *r = d.x[k];
    MGX_EACH r[i] = typename Result<T>::type(Op::f(x[i], y[i], z[i]));
  }
  pack<T>(w, in, n, d, kF);
}

#define PK(name, T, expr) PK_AS(name, T, T, expr)
#define PK_AS(name, T, R, expr)                                                                    \
  {                                                                                                \
    struct Op {                                                                                    \
      static inline __attribute__((always_inline)) R f(T a, T b) { return expr; }                  \
    };                                                                                             \
    OpInfo o;                                                                                      \
    o.fn = pk2<Op, T, std::is_same_v<T, h16>>;                                                     \
    o.dst = Ty::b32;                                                                               \
    o.src[0] = o.src[1] = std::is_same_v<T, h16> ? Ty::pk_f16 : Ty::pk_b16;                        \
    o.nsrc = 2;                                                                                    \
    o.flags = std::is_same_v<T, h16> ? u32(F_F64) : 0;                                             \
    add_op(t, name, o);                                                                            \
  }
// A float operation on the bits.
#define PKF(name, function)                                                                        \
  {                                                                                                \
    struct Op {                                                                                    \
      static inline __attribute__((always_inline)) u16 f(u16 a, u16 b) { return function(a, b); }  \
    };                                                                                             \
    OpInfo o;                                                                                      \
    o.fn = pk2<Op, u16, true>;                                                                     \
    o.dst = Ty::b32;                                                                               \
    o.src[0] = o.src[1] = Ty::pk_f16;                                                              \
    o.nsrc = 2;                                                                                    \
    o.flags = F_F64;                                                                               \
    add_op(t, name, o);                                                                            \
  }
// MODE.IEEE chooses between two rules for signalling NaNs.
#define PKM(name, ieee, num)                                                                       \
  {                                                                                                \
    struct Run {                                                                                   \
      struct I {                                                                                   \
        static inline __attribute__((always_inline)) u16 f(u16 a, u16 b) { return ieee; }          \
      };                                                                                           \
      struct N {                                                                                   \
        static inline __attribute__((always_inline)) u16 f(u16 a, u16 b) { return num; }           \
      };                                                                                           \
      static void run(Wave &w, const Inst &in) {                                                   \
        if ((w.mode >> 9 & 1) && !w.chip->is_gfx12()) pk2<I, u16, true>(w, in);                    \
        else pk2<N, u16, true>(w, in);                                                             \
      }                                                                                            \
    };                                                                                             \
    OpInfo o;                                                                                      \
    o.fn = Run::run;                                                                               \
    o.dst = Ty::b32;                                                                               \
    o.src[0] = o.src[1] = Ty::pk_f16;                                                              \
    o.nsrc = 2;                                                                                    \
    o.flags = F_F64;                                                                               \
    add_op(t, name, o);                                                                            \
  }
#define PK3(name, T, tied, expr)                                                                   \
  {                                                                                                \
    struct Op {                                                                                    \
      static inline __attribute__((always_inline)) T f(T a, T b, T c) { return expr; }             \
    };                                                                                             \
    OpInfo o;                                                                                      \
    o.fn = pk3<Op, T, std::is_same_v<T, h16>>;                                                     \
    o.dst = Ty::b32;                                                                               \
    o.src[0] = o.src[1] = o.src[2] = std::is_same_v<T, h16> ? Ty::pk_f16 : Ty::pk_b16;             \
    o.nsrc = 3;                                                                                    \
    o.reads_dst = tied;                                                                            \
    o.flags = std::is_same_v<T, h16> ? u32(F_F64) : 0;                                             \
    add_op(t, name, o);                                                                            \
  }

MGX_INLINE h16 fma_half(h16 a, h16 b, h16 c) { return h16(fma_to_odd(a.v, b.v, c.v)); }
MGX_INLINE h16 on_bits(u32 x) { return h16(half_to_float(x)); }
MGX_INLINE u16 bits_of(h16 x) { return u16(float_to_half(x.v)); }
MGX_INLINE i32 pick(bool c, i32 a, i32 b) { return c ? a : b; }

static void register_pk16(OpTable &t) {
  PK("v_pk_add_f16", h16, a.v + b.v)
  PK("v_pk_mul_f16", h16, a.v * b.v)
  PKM("v_pk_min_f16", min_f16(a, b, true), min_num_f16(a, b))
  PKM("v_pk_max_f16", max_f16(a, b, true), max_num_f16(a, b))
  PKF("v_pk_minimum_f16", minimum_f16)
  PKF("v_pk_maximum_f16", maximum_f16)
  PK3("v_pk_fma_f16", h16, false, fma_half(a, b, c))
  PK3("v_pk_minimum3_f16", h16, false,
      on_bits(minimum_f16(minimum_f16(bits_of(a), bits_of(b)), bits_of(c))))
  PK3("v_pk_maximum3_f16", h16, false,
      on_bits(maximum_f16(maximum_f16(bits_of(a), bits_of(b)), bits_of(c))))
  PK("v_pk_add_u16", u16, u16(a + b))
  PK("v_pk_sub_u16", u16, u16(a - b))
  PK("v_pk_add_i16", u16, u16(a + b))
  PK("v_pk_sub_i16", u16, u16(a - b))
  PK("v_pk_add_u16.clamp", u16, u16(a + b > 0xffff ? 0xffff : a + b))
  PK("v_pk_sub_u16.clamp", u16, u16(a < b ? 0 : a - b))
  PK("v_pk_add_i16.clamp", i16,
     i16(pick(a + b > 32767, 32767, pick(a + b < -32768, -32768, a + b))))
  PK("v_pk_sub_i16.clamp", i16,
     i16(pick(a - b > 32767, 32767, pick(a - b < -32768, -32768, a - b))))
  PK("v_pk_mul_lo_u16", u16, u16(u32(a) * b))
  PK("v_pk_min_u16", u16, a < b ? a : b)
  PK("v_pk_max_u16", u16, a > b ? a : b)
  PK("v_pk_min_i16", i16, a < b ? a : b)
  PK("v_pk_max_i16", i16, a > b ? a : b)
  PK("v_pk_lshlrev_b16", u16, u16(b << (a & 15)))
  PK("v_pk_lshrrev_b16", u16, u16(b >> (a & 15)))
  PK("v_pk_ashrrev_i16", i16, i16(b >> (a & 15)))
  PK3("v_pk_mad_u16", u16, false, u16(u32(a) * b + c))
  PK3("v_pk_mad_i16", u16, false, u16(u32(a) * b + c))
}

// v_pk_fmac_f16 is VOP2: no op_sel, the third source is the destination.
static void pk_fmac(Wave &w, const Inst &in) {
  Buffer t0, t1, t2, td;
  MGX_LANES(w)
  const u32 *a = fetch(w, in, in.src[0], t0.x), *b = fetch(w, in, in.src[1], t1.x),
            *c = fetch(w, in, in.src[2], t2.x);
  for (u32 i = 0; i < n; ++i) {
    h16 lo = fma_half(on_bits(a[i] & 0xffff), on_bits(b[i] & 0xffff), on_bits(c[i] & 0xffff));
    h16 hi = fma_half(on_bits(a[i] >> 16), on_bits(b[i] >> 16), on_bits(c[i] >> 16));
    td.x[i] = bits_of(lo) | u32(bits_of(hi)) << 16;
  }
  commit_bits(w, in, td.x, 1);
}

//===-- Packed 32-bit -----------------------------------------------------===//

// op_sel chooses the register of a pair that feeds the low result, op_sel_hi the
// one that feeds the high result.
template <class F> MGX_INLINE void pk32(Wave &w, const Inst &in, u32 sources, F f) {
  Buffer t[3], td;
  const u32 *p[3][2] = {};
  u32 flip[3][2] = {};
  MGX_LANES(w)
  for (u32 s = 0; s < sources; ++s) {
    const u32 *x = fetch(w, in, in.src[s], t[s].x);
    p[s][0] = x + (in.op_sel >> s & 1) * kLanes;
    p[s][1] = x + (in.op_sel_hi >> s & 1) * kLanes;
    flip[s][0] = (in.neg_lo >> s & 1) << 31;
    flip[s][1] = (in.neg_hi >> s & 1) << 31;
  }
  for (u32 s = sources; s < 3; ++s) p[s][0] = p[s][1] = p[0][0];
  for (u32 k = 0; k < 2; ++k) {
    u32 *d = td.x + k * kLanes;
    const u32 *a = p[0][k], *b = p[1][k], *c = p[2][k];
    u32 fa = flip[0][k], fb = flip[1][k], fc = flip[2][k];
    MGX_EACH d[i] = f(a[i] ^ fa, b[i] ^ fb, c[i] ^ fc);
  }
  if (in.flags & F_CLAMP) {
    Inst one = in;
    modify_f32(w, one, td.x);
    modify_f32(w, one, td.x + kLanes);
  }
  commit_bits(w, in, td.x, 2);
}
static void pk_fma_f32(Wave &w, const Inst &in) {
  pk32(w, in, 3, [](u32 a, u32 b, u32 c) {
    return as_bits(__builtin_fmaf(f32_of(a), f32_of(b), f32_of(c)));
  });
}
static void pk_mul_f32(Wave &w, const Inst &in) {
  pk32(w, in, 2, [](u32 a, u32 b, u32) { return as_bits(f32_of(a) * f32_of(b)); });
}
static void pk_add_f32(Wave &w, const Inst &in) {
  pk32(w, in, 2, [](u32 a, u32 b, u32) { return as_bits(f32_of(a) + f32_of(b)); });
}
// v_pk_mov_b32: the low result comes from src0, the high one from src1.
static void pk_mov_b32(Wave &w, const Inst &in) {
  Buffer t0, t1, td;
  MGX_LANES(w)
  const u32 *a = fetch(w, in, in.src[0], t0.x) + (in.op_sel & 1) * kLanes;
  const u32 *b = fetch(w, in, in.src[1], t1.x) + (in.op_sel >> 1 & 1) * kLanes;
  for (u32 i = 0; i < n; ++i) {
    td.x[i] = a[i];
    td.x[kLanes + i] = b[i];
  }
  commit_bits(w, in, td.x, 2);
}

//===-- Mixed precision ---------------------------------------------------===//

// Each source is f32, or an f16 half where op_sel_hi is set; neg_hi means abs.
template <int kResult>
static void fma_mix(Wave &w, const Inst &in) { // 0 f32, 1 low half, 2 high half
  Buffer t[3], td;
  f32 x[3][kLanes];
  MGX_LANES(w)
  for (u32 s = 0; s < 3; ++s) {
    const u32 *p = fetch(w, in, in.src[s], t[s].x);
    u32 keep = in.neg_hi >> s & 1 ? 0x7fffffff : ~0u, flip = (in.neg_lo >> s & 1) << 31;
    if (in.op_sel_hi >> s & 1) {
      u32 shift = (in.op_sel >> s & 1) * 16;
      for (u32 i = 0; i < n; ++i)
        x[s][i] = f32_of((as_bits(half_to_float_always(p[i] >> shift & 0xffff)) & keep) ^ flip);
    } else {
      for (u32 i = 0; i < n; ++i) x[s][i] = f32_of((p[i] & keep) ^ flip);
    }
  }
  if constexpr (kResult == 0) {
    for (u32 i = 0; i < n; ++i) td.x[i] = as_bits(__builtin_fmaf(x[0][i], x[1][i], x[2][i]));
    commit<f32>(w, in, td.x);
    return;
  }
  FloatMode mode = FloatMode::from_register(w.mode, w.chip->is_gfx12());
  const u32 *old = w.vgpr(in.dst.reg);
  for (u32 i = 0; i < n; ++i) {
    u32 h = fma_mix_f16(x[0][i], x[1][i], x[2][i], mode);
    if (mode.flush_out64) h = flush16(u16(h));
    bool finite = std::isfinite(x[0][i]) && std::isfinite(x[1][i]) && std::isfinite(x[2][i]);
    if (w.mode >> 23 & 1 && (h & 0x7fff) == 0x7c00 && finite)
      h = (h & 0x8000) | 0x7bff; // FP16_OVFL
    if (in.flags & F_CLAMP) h = clamp_half(h);
    td.x[i] = kResult == 1 ? (old[i] & 0xffff0000) | h : (old[i] & 0xffff) | h << 16;
  }
  commit_bits(w, in, td.x, 1);
}

//===-- Dot products ------------------------------------------------------===//

template <class F> MGX_INLINE void dot(Wave &w, const Inst &in, F f) {
  Buffer t0, t1, t2, td;
  MGX_LANES(w)
  const u32 *a = fetch(w, in, in.src[0], t0.x), *b = fetch(w, in, in.src[1], t1.x),
            *c = fetch(w, in, in.src[2], t2.x);
  for (u32 i = 0; i < n; ++i) td.x[i] = f(a[i], b[i], c[i]);
  commit_bits(w, in, td.x, 1);
}
// The half of source s that feeds product k of a two-element dot product.
MGX_INLINE u32 dot_half(const Inst &in, u32 x, u32 s, u32 k) {
  u32 sel = k ? in.op_sel_hi : in.op_sel, neg = k ? in.neg_hi : in.neg_lo;
  return (x >> ((sel >> s & 1) * 16) & 0xffff) ^ ((neg >> s & 1) << 15);
}
// kPacked: VOP3P with op_sel; otherwise the VOP2 form takes both halves in order.
template <bool kPacked, bool kBf16> static void dot2_f32(Wave &w, const Inst &in) {
  dot(w, in, [&](u32 a, u32 b, u32 c) {
    u32 h[2][2];
    for (u32 k = 0; k < 2; ++k) {
      h[0][k] = kPacked ? dot_half(in, a, 0, k) : a >> (16 * k) & 0xffff;
      h[1][k] = kPacked ? dot_half(in, b, 1, k) : b >> (16 * k) & 0xffff;
    }
    auto value = [](u32 x) { return kBf16 ? f32_of(x << 16) : half_to_float(x); };
    if (kPacked) c ^= (in.neg_lo >> 2 & 1) << 31;
    // One product after the other, as the documents write it; the products are exact.
    f32 r = f32_of(c) + value(h[0][0]) * value(h[1][0]);
    r = r + value(h[0][1]) * value(h[1][1]);
    if (kPacked && in.flags & F_CLAMP) r = clamp_f32(r, true);
    return as_bits(r);
  });
}
// v_dot2_f16_f16, v_dot2_bf16_bf16: VOP3 with a 16-bit addend and result.
template <bool kBf16> static void dot2_16(Wave &w, const Inst &in) {
  Buffer t0, t1, t2, td;
  MGX_LANES(w)
  const u32 *a = fetch(w, in, in.src[0], t0.x), *b = fetch(w, in, in.src[1], t1.x),
            *c = fetch(w, in, in.src[2], t2.x);
  for (u32 i = 0; i < n; ++i) {
    auto value = [](u32 x) {
      return f64(kBf16 ? f32_of((x & 0xffff) << 16) : half_to_float(x & 0xffff));
    };
    f64 sum = value(a[i]) * value(b[i]) + value(a[i] >> 16) * value(b[i] >> 16) + value(c[i]);
    td.x[i] = kBf16 ? f64_to_bf16(sum) : f64_to_f16(sum);
  }
  commit_bits(w, in, td.x, 1);
}
MGX_INLINE i32 element(u32 x, u32 i, u32 bits, bool is_signed) {
  u32 v = x >> (i * bits) & ((1u << bits) - 1);
  return is_signed ? i32(v << (32 - bits)) >> (32 - bits) : i32(v);
}
MGX_INLINE u32 saturate(i64 sum, bool clamp, bool is_signed) {
  if (clamp && is_signed)
    sum = sum > 0x7fffffff ? 0x7fffffff : sum < -i64(0x80000000) ? -i64(0x80000000) : sum;
  if (clamp && !is_signed) sum = sum > i64(0xffffffff) ? i64(0xffffffff) : sum < 0 ? 0 : sum;
  return u32(sum);
}
// kSign: 0 unsigned, 1 signed, 2 neg_lo says so for each source.
template <u32 kBits, int kSign> static void dot_int(Wave &w, const Inst &in) {
  bool sa = kSign == 2 ? in.neg_lo & 1 : kSign == 1,
       sb = kSign == 2 ? in.neg_lo >> 1 & 1 : kSign == 1;
  dot(w, in, [&](u32 a, u32 b, u32 c) {
    i64 sum = kSign != 0 ? i64(i32(c)) : i64(c);
    for (u32 i = 0; i < 32 / kBits; ++i)
      sum += i64(element(a, i, kBits, sa)) * element(b, i, kBits, sb);
    return saturate(sum, in.flags & F_CLAMP, kSign != 0);
  });
}
template <bool kSigned> static void dot2_int(Wave &w, const Inst &in) {
  dot(w, in, [&](u32 a, u32 b, u32 c) {
    i64 sum = kSigned ? i64(i32(c)) : i64(c);
    for (u32 k = 0; k < 2; ++k) {
      u32 sel = k ? in.op_sel_hi : in.op_sel;
      sum += i64(element(a, sel & 1, 16, kSigned)) * element(b, sel >> 1 & 1, 16, kSigned);
    }
    return saturate(sum, in.flags & F_CLAMP, kSigned);
  });
}
template <bool kBfA, bool kBfB>
static void dot4_fp8(Wave &w, const Inst &in) { // gfx12: OCP formats
  dot(w, in, [&](u32 a, u32 b, u32 c) {
    f64 sum = 0;
    for (u32 i = 0; i < 4; ++i)
      sum += f64(decode(a >> (8 * i) & 0xff, kBfA ? kFormatBf8 : kFormatFp8)) *
             decode(b >> (8 * i) & 0xff, kBfB ? kFormatBf8 : kFormatFp8);
    if (in.neg_hi >> 2 & 1) c &= 0x7fffffff;
    c ^= (in.neg_lo >> 2 & 1) << 31;
    return as_bits(f32(sum + f64(f32_of(c))));
  });
}

void register_valu_packed(OpTable &t) {
  register_pk16(t);
  auto add = [&](const char *name, Handler fn, Ty dst, Ty a, Ty b, Ty c, bool tied = false,
                 u32 flags = 0) {
    OpInfo o;
    o.fn = fn;
    o.dst = dst;
    o.src[0] = a;
    o.src[1] = b;
    o.src[2] = c;
    o.nsrc = c == Ty::none ? 2 : 3;
    o.reads_dst = tied;
    o.flags = flags;
    add_op(t, name, o);
  };
  add("v_pk_fmac_f16", pk_fmac, Ty::b32, Ty::pk_f16, Ty::pk_f16, Ty::pk_f16, true, F_F64);
  add("v_pk_fma_f32", pk_fma_f32, Ty::b64, Ty::pk_f32, Ty::pk_f32, Ty::pk_f32, false, F_F32);
  add("v_pk_mul_f32", pk_mul_f32, Ty::b64, Ty::pk_f32, Ty::pk_f32, Ty::none, false, F_F32);
  add("v_pk_add_f32", pk_add_f32, Ty::b64, Ty::pk_f32, Ty::pk_f32, Ty::none, false, F_F32);
  add("v_pk_mov_b32", pk_mov_b32, Ty::b64, Ty::pk_f32, Ty::pk_f32, Ty::none);
  for (const char *stem : {"v_fma_mix", "v_mad_mix"}) {
    std::string s = stem;
    add((s + "_f32").c_str(), fma_mix<0>, Ty::f32, Ty::f32, Ty::f32, Ty::f32, false, F_F32);
    add((s + "lo_f16").c_str(), fma_mix<1>, Ty::f16, Ty::f32, Ty::f32, Ty::f32);
    add((s + "hi_f16").c_str(), fma_mix<2>, Ty::f16, Ty::f32, Ty::f32, Ty::f32);
  }
  add("v_dot2_f32_f16", dot2_f32<true, false>, Ty::b32, Ty::pk_f16, Ty::pk_f16, Ty::f32);
  add("v_dot2_f32_bf16", dot2_f32<true, true>, Ty::b32, Ty::pk_bf16, Ty::pk_bf16, Ty::f32);
  add("v_dot2acc_f32_f16", dot2_f32<false, false>, Ty::b32, Ty::pk_f16, Ty::pk_f16, Ty::b32, true);
  add("v_dot2acc_f32_bf16", dot2_f32<false, true>, Ty::b32, Ty::pk_bf16, Ty::pk_bf16, Ty::b32,
      true);
  add("v_dot2_f16_f16", dot2_16<false>, Ty::f16, Ty::pk_f16, Ty::pk_f16, Ty::f16);
  add("v_dot2_bf16_bf16", dot2_16<true>, Ty::bf16, Ty::pk_bf16, Ty::pk_bf16, Ty::bf16);
  add("v_dot4_i32_i8", dot_int<8, 1>, Ty::b32, Ty::b32, Ty::b32, Ty::b32);
  add("v_dot4_u32_u8", dot_int<8, 0>, Ty::b32, Ty::b32, Ty::b32, Ty::b32);
  add("v_dot4_i32_iu8", dot_int<8, 2>, Ty::b32, Ty::b32, Ty::b32, Ty::b32);
  add("v_dot8_i32_i4", dot_int<4, 1>, Ty::b32, Ty::b32, Ty::b32, Ty::b32);
  add("v_dot8_u32_u4", dot_int<4, 0>, Ty::b32, Ty::b32, Ty::b32, Ty::b32);
  add("v_dot8_i32_iu4", dot_int<4, 2>, Ty::b32, Ty::b32, Ty::b32, Ty::b32);
  add("v_dot4c_i32_i8", dot_int<8, 1>, Ty::b32, Ty::b32, Ty::b32, Ty::b32, true);
  add("v_dot8c_i32_i4", dot_int<4, 1>, Ty::b32, Ty::b32, Ty::b32, Ty::b32, true);
  add("v_dot2_i32_i16", dot2_int<true>, Ty::b32, Ty::b32, Ty::b32, Ty::b32);
  add("v_dot2_u32_u16", dot2_int<false>, Ty::b32, Ty::b32, Ty::b32, Ty::b32);
  add("v_dot4_f32_fp8_fp8", dot4_fp8<false, false>, Ty::b32, Ty::b32, Ty::b32, Ty::f32);
  add("v_dot4_f32_fp8_bf8", dot4_fp8<false, true>, Ty::b32, Ty::b32, Ty::b32, Ty::f32);
  add("v_dot4_f32_bf8_fp8", dot4_fp8<true, false>, Ty::b32, Ty::b32, Ty::b32, Ty::f32);
  add("v_dot4_f32_bf8_bf8", dot4_fp8<true, true>, Ty::b32, Ty::b32, Ty::b32, Ty::f32);
}

} // namespace MGX_ISA
} // namespace mgx::emu
