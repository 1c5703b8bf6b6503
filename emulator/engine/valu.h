// How vector instructions are run: operands become arrays of lanes, an operation
// is a function of one lane, and the loop over lanes is left to the compiler's
// vectoriser. Included by handler files only, which are built once for each x86
// instruction set (MGX_ISA names the namespace).
#pragma once

#include "core.h"
#include "table.h"

#include <cmath>
#include <immintrin.h>

#ifndef MGX_ISA
#define MGX_ISA isa_base
#endif

namespace mgx::emu {
inline namespace MGX_ISA {

template <class T> MGX_INLINE T bits_as(u32 x) {
  T t;
  std::memcpy(&t, &x, 4);
  return t;
}
MGX_INLINE u32 as_bits(f32 x) {
  u32 u;
  std::memcpy(&u, &x, 4);
  return u;
}
MGX_INLINE u64 as_bits(f64 x) {
  u64 u;
  std::memcpy(&u, &x, 8);
  return u;
}
MGX_INLINE f64 f64_of(u64 x) {
  f64 d;
  std::memcpy(&d, &x, 8);
  return d;
}
MGX_INLINE f32 f32_of(u32 x) { return bits_as<f32>(x); }

//===-- f16 as a 32-bit float, without branches ---------------------------===//

MGX_INLINE f32 half_to_float(u32 h) { // the compiler turns the choice into a blend
  u32 sign = (h & 0x8000) << 16, magnitude = (h & 0x7fff) << 13;
  // The product with 2^112 rebiases the exponent and normalises denormals.
  f32 f = f32_of(magnitude) * f32_of(0x77800000);
  u32 finite = as_bits(f), special = magnitude | 0x7f800000;
  return f32_of(((h & 0x7c00) == 0x7c00 ? special : finite) | sign);
}

// The same where MXCSR may flush f32 denormals.
MGX_INLINE f32 half_to_float_always(u32 h) {
  u32 exponent = h >> 10 & 31, bits = ((h & 0x7fff) << 13) + ((exponent == 31 ? 224u : 112u) << 23);
  f32 tiny = f32(i32(h & 0x3ff)) * 0x1p-24f;
  return f32_of((exponent ? bits : as_bits(tiny)) | (h & 0x8000) << 16);
}

// Round to nearest even.
MGX_INLINE u32 float_to_half(f32 x) {
  u32 b = as_bits(x), sign = b >> 16 & 0x8000, a = b & 0x7fffffff;
  u32 normal = (a + 0xfff + (a >> 13 & 1) - (112u << 23)) >> 13;
  // Adding 0.5 aligns the last bit of a half denormal with that of the sum.
  u32 tiny = as_bits(f32_of(a) + 0.5f) - 0x3f000000;
  u32 h = a < 0x38800000 ? tiny : normal;
  h = a >= 0x477ff000 ? 0x7c00 : h; // rounds beyond 65504
  h = a > 0x7f800000 ? (0x7e00 | (a >> 13 & 0x3ff)) : h;
  return h | sign;
}

// A 64-bit float as a 32-bit one rounded to odd: a later rounding to 16 bits is
// then the correct single rounding (Boldo and Melquiond, 2008).
MGX_INLINE f32 to_odd(f64 x) {
  f32 f = f32(x);
  u32 b = as_bits(f);
  bool finite = (b & 0x7f800000) != 0x7f800000;
  if (f64(f) != x && x == x) {
    if (!finite) return std::isinf(x) ? f : f32_of((b & 0x80000000) | 0x7f7fffff);
    bool away = std::fabs(f64(f)) > std::fabs(x);
    if (away) --b; // toward zero
    b |= 1;
  }
  return f32_of(b);
}

// a * b + c of f16 values, rounded to odd: the product is exact in f32, and the
// error of the sum says which way to set the last bit (2Sum, Knuth).
MGX_INLINE f32 fma_to_odd(f32 a, f32 b, f32 c) {
  f32 p = a * b, s = p + c, t = s - p;
  f32 e = (p - (s - t)) + (c - t);
  u32 bs = as_bits(s), be = as_bits(e);
  // All in integers: a comparison would become a branch in the loop over lanes.
  u32 magnitude = be << 1, exponent = (bs >> 23 & 255) ^ 255;
  u32 inexact = (magnitude | (0u - magnitude)) >> 31, finite = (exponent + 255) >> 8 & 1,
      even = ~bs & 1;
  u32 toward = 1u - 2 * ((be ^ bs) >> 31); // the exact sum is larger or smaller in magnitude
  return f32_of(bs + toward * (inexact & finite & even));
}

// Lane types that are no C++ numbers.
struct h16 { // f16: computed as f32, which is exact enough for one rounding
  f32 v;
  h16() = default;
  __attribute__((always_inline)) h16(f32 x) : v(x) {}
  __attribute__((always_inline)) operator f32() const { return v; }
};
struct u16x {
  u32 v;
}; // low half of a register, untouched

//===-- Lanes -------------------------------------------------------------===//

struct alignas(64) Buffer {
  u32 x[2 * kLanes];
};

template <class T> MGX_INLINE T ld(const u32 *p, u32 i) {
  if constexpr (std::is_same_v<T, h16>) return h16(half_to_float(p[i] & 0xffff));
  else if constexpr (std::is_same_v<T, f64>) return f64_of(u64(p[kLanes + i]) << 32 | p[i]);
  else if constexpr (sizeof(T) == 8) return T(u64(p[kLanes + i]) << 32 | p[i]);
  else if constexpr (sizeof(T) == 2) return T(p[i]);
  else if constexpr (std::is_same_v<T, f32>) return f32_of(p[i]);
  else return T(p[i]);
}
template <class T> MGX_INLINE void st(u32 *p, u32 i, T x) {
  if constexpr (std::is_same_v<T, h16>) p[i] = float_to_half(x.v);
  else if constexpr (std::is_same_v<T, f64>) {
    u64 b = as_bits(x);
    p[i] = u32(b);
    p[kLanes + i] = u32(b >> 32);
  } else if constexpr (sizeof(T) == 8) {
    p[i] = u32(u64(x));
    p[kLanes + i] = u32(u64(x) >> 32);
  } else if constexpr (sizeof(T) == 2) p[i] = u16(x);
  else if constexpr (std::is_same_v<T, f32>) p[i] = as_bits(x);
  else p[i] = u32(x);
}

template <class T> constexpr Ty ty_of() {
  if constexpr (std::is_same_v<T, f32>) return Ty::f32;
  else if constexpr (std::is_same_v<T, f64>) return Ty::f64;
  else if constexpr (std::is_same_v<T, h16>) return Ty::f16;
  else if constexpr (std::is_same_v<T, i64>) return Ty::i64;
  else if constexpr (sizeof(T) == 8) return Ty::b64;
  else if constexpr (sizeof(T) == 2) return Ty::b16;
  else return Ty::b32;
}
template <class T>
constexpr bool is_float =
    std::is_same_v<T, f32> || std::is_same_v<T, f64> || std::is_same_v<T, h16>;

#define MGX_LANES(w)                                                                               \
  const u32 n = (w).lanes;                                                                         \
  if (n & 31 || n == 0 || n > 64) __builtin_unreachable();

#ifdef __clang__
#define MGX_IVDEP _Pragma("clang loop vectorize(assume_safety)")
#else
#define MGX_IVDEP _Pragma("GCC ivdep")
#endif
// Lanes in blocks of 32: a constant count unrolls and needs no remainder loop.
#define MGX_EACH                                                                                   \
  for (u32 block = 0; block < n; block += 32) MGX_IVDEP                                            \
  for (u32 i = block; i < block + 32; ++i)

// EXEC spread over lanes: 0 or ~0 each.
MGX_INLINE void spread(u32 *m, u64 mask, u32 n) {
  for (u32 b = 0; b < n; b += 32) {
    u32 half = u32(mask >> b);
    for (u32 i = 0; i < 32; ++i) m[b + i] = 0u - (half >> i & 1);
  }
}
MGX_INLINE const u32 *mask_lanes(Wave &w, u64 mask) {
  if (w.mask_of != mask) {
    spread(w.lane_mask, mask, w.lanes);
    w.mask_of = mask;
  }
  return w.lane_mask;
}
// The sign bits of 32 or 64 lanes as a mask.
MGX_INLINE u64 gather_signs(const u32 *x, u32 n) {
  u64 m = 0;
#ifdef __AVX2__
  for (u32 i = 0; i < n; i += 8) {
    __m256 v = _mm256_castsi256_ps(_mm256_load_si256(reinterpret_cast<const __m256i *>(x + i)));
    m |= u64(u32(_mm256_movemask_ps(v))) << i;
  }
#else
  for (u32 i = 0; i < n; i += 4) {
    __m128 v = _mm_castsi128_ps(_mm_load_si128(reinterpret_cast<const __m128i *>(x + i)));
    m |= u64(u32(_mm_movemask_ps(v))) << i;
  }
#endif
  return m;
}

const u32 *fetch_slow(Wave &w, const Inst &in, const Operand &o, u32 *buffer);

MGX_INLINE const u32 *fetch(Wave &w, const Inst &in, const Operand &o, u32 *buffer) {
  if (__builtin_expect(!o.slow, 1)) {
    if (o.kind == O_VGPR) return w.vgpr(o.reg);
    if (o.kind == O_CONST) return o.k;
    if (o.kind == O_SGPR) {
      u32 x = w.s[o.reg];
      MGX_LANES(w)
      MGX_EACH buffer[i] = x;
      if (o.words > 1) {
        u32 y = w.s[o.reg + 1];
        MGX_EACH buffer[kLanes + i] = y;
      }
      return buffer;
    }
  }
  return fetch_slow(w, in, o, buffer);
}

MGX_INLINE bool direct(const Wave &w, const Inst &in) {
  return (in.flags & F_SIMPLE) && exec_of(w) == w.all;
}

// Writes `words` registers of results under the mask, with 16-bit halves and
// SDWA destinations merged. Clamp and output modifiers are applied before.
void commit_bits(Wave &w, const Inst &in, const u32 *x, u32 words);
void modify_f32(const Wave &w, const Inst &in, u32 *x);
void modify_f64(const Wave &w, const Inst &in, u32 *x);
void modify_f16(const Wave &w, const Inst &in, u32 *x);

template <class D> MGX_INLINE void commit(Wave &w, const Inst &in, u32 *x) {
  if constexpr (is_float<D>)
    if (in.omod || in.flags & F_CLAMP) {
      if constexpr (std::is_same_v<D, f32>) modify_f32(w, in, x);
      else if constexpr (std::is_same_v<D, f64>) modify_f64(w, in, x);
      else modify_f16(w, in, x);
    }
  commit_bits(w, in, x, sizeof(D) == 8 ? 2 : 1);
}

// Scalar operands.
MGX_INLINE u32 rs(const Wave &w, const Operand &o) {
  if (o.kind == O_SGPR) return w.s[o.reg];
  if (o.kind == O_CONST) return o.k[0];
  if (o.kind == O_SCC) return w.scc;
  if (o.kind == O_VCCZ) return get_mask(w, kVcc) == 0;
  if (o.kind == O_EXECZ) return exec_of(w) == 0;
  return 0;
}
MGX_INLINE u64 rs64(const Wave &w, const Operand &o) {
  if (o.kind == O_SGPR) return s64(w, o.reg);
  if (o.kind == O_CONST) return u64(o.k[kLanes]) << 32 | o.k[0];
  return rs(w, o);
}
MGX_INLINE u64 rmask(const Wave &w, const Operand &o) {
  return w.lanes == 64 ? rs64(w, o) : rs(w, o);
}

//===-- Runners -----------------------------------------------------------===//

// Results may go straight to the register file even where it overlaps sources:
// iteration i touches lane i of every register only, and reads before it writes.

template <class Op, class D, class A> void run1(Wave &w, const Inst &in) {
  Buffer t0, td;
  MGX_LANES(w)
  const u32 *a = fetch(w, in, in.src[0], t0.x);
  bool whole = direct(w, in);
  u32 *d = whole ? w.vgpr(in.dst.reg) : td.x;
  MGX_EACH st<D>(d, i, D(Op::f(ld<A>(a, i))));
  if (!whole) commit<D>(w, in, d);
}
template <class Op, class D, class A, class B> void run2(Wave &w, const Inst &in) {
  Buffer t0, t1, td;
  MGX_LANES(w)
  const u32 *a = fetch(w, in, in.src[0], t0.x), *b = fetch(w, in, in.src[1], t1.x);
  bool whole = direct(w, in);
  u32 *d = whole ? w.vgpr(in.dst.reg) : td.x;
  MGX_EACH st<D>(d, i, D(Op::f(ld<A>(a, i), ld<B>(b, i))));
  if (!whole) commit<D>(w, in, d);
}
template <class Op, class D, class A, class B, class C> void run3(Wave &w, const Inst &in) {
  Buffer t0, t1, t2, td;
  MGX_LANES(w)
  const u32 *a = fetch(w, in, in.src[0], t0.x), *b = fetch(w, in, in.src[1], t1.x),
            *c = fetch(w, in, in.src[2], t2.x);
  bool whole = direct(w, in);
  u32 *d = whole ? w.vgpr(in.dst.reg) : td.x;
  MGX_EACH st<D>(d, i, D(Op::f(ld<A>(a, i), ld<B>(b, i), ld<C>(c, i))));
  if (!whole) commit<D>(w, in, d);
}
template <class Op, class A, class B> void run_compare(Wave &w, const Inst &in) {
  Buffer t0, t1;
  alignas(64) u32 r[kLanes];
  MGX_LANES(w)
  const u32 *a = fetch(w, in, in.src[0], t0.x), *b = fetch(w, in, in.src[1], t1.x);
  MGX_EACH r[i] = Op::f(ld<A>(a, i), ld<B>(b, i)) ? ~0u : 0u;
  u64 exec = exec_of(w);
  if (in.flags & (F_DPP8 | F_DPP16)) exec &= w.wmask;
  u64 m = gather_signs(r, n) & exec;
  set_mask(w, in.sdst.reg, m);
  if (in.flags & F_WRITES_EXEC) set_mask(w, kExec, m);
}

//===-- Registration ------------------------------------------------------===//

#define MGX_FLAGS_OF(D, A)                                                                         \
  ((std::is_same_v<D, f32> || std::is_same_v<A, f32>) ? u32(F_F32)                                 \
   : (is_float<D> || is_float<A>)                     ? u32(F_F64)                                 \
                                                      : 0u)

#define OP1(name, D, A, expr)                                                                      \
  {                                                                                                \
    struct Op {                                                                                    \
      static inline __attribute__((always_inline)) D f(A a) { return expr; }                       \
    };                                                                                             \
    OpInfo o;                                                                                      \
    o.fn = run1<Op, D, A>;                                                                         \
    o.dst = ty_of<D>();                                                                            \
    o.src[0] = ty_of<A>();                                                                         \
    o.nsrc = 1;                                                                                    \
    o.flags = MGX_FLAGS_OF(D, A);                                                                  \
    add_op(t, name, o);                                                                            \
  }
#define OP2(name, D, A, B, expr)                                                                   \
  {                                                                                                \
    struct Op {                                                                                    \
      static inline __attribute__((always_inline)) D f(A a, B b) { return expr; }                  \
    };                                                                                             \
    OpInfo o;                                                                                      \
    o.fn = run2<Op, D, A, B>;                                                                      \
    o.dst = ty_of<D>();                                                                            \
    o.src[0] = ty_of<A>();                                                                         \
    o.src[1] = ty_of<B>();                                                                         \
    o.nsrc = 2;                                                                                    \
    o.flags = MGX_FLAGS_OF(D, A);                                                                  \
    add_op(t, name, o);                                                                            \
  }
#define OP3X(name, D, A, B, C, tied, expr)                                                         \
  {                                                                                                \
    struct Op {                                                                                    \
      static inline __attribute__((always_inline)) D f(A a, B b, C c) { return expr; }             \
    };                                                                                             \
    OpInfo o;                                                                                      \
    o.fn = run3<Op, D, A, B, C>;                                                                   \
    o.dst = ty_of<D>();                                                                            \
    o.src[0] = ty_of<A>();                                                                         \
    o.src[1] = ty_of<B>();                                                                         \
    o.src[2] = ty_of<C>();                                                                         \
    o.nsrc = 3;                                                                                    \
    o.reads_dst = tied;                                                                            \
    o.flags = MGX_FLAGS_OF(D, A);                                                                  \
    add_op(t, name, o);                                                                            \
  }
#define OP3(name, D, A, B, C, expr) OP3X(name, D, A, B, C, false, expr)
#define OPACC(name, D, A, B, C, expr) OP3X(name, D, A, B, C, true, expr)

} // namespace MGX_ISA
} // namespace mgx::emu
