// Vector integer arithmetic and bit operations.
#include "valu.h"

namespace mgx::emu {
inline namespace MGX_ISA {

MGX_INLINE u32 med3u(u32 a, u32 b, u32 c) {
  u32 lo = a < b ? a : b, hi = a < b ? b : a;
  return c < lo ? lo : c > hi ? hi : c;
}
MGX_INLINE i32 med3i(i32 a, i32 b, i32 c) {
  i32 lo = a < b ? a : b, hi = a < b ? b : a;
  return c < lo ? lo : c > hi ? hi : c;
}
MGX_INLINE u32 umin(u32 a, u32 b) { return a < b ? a : b; }
MGX_INLINE u32 umax(u32 a, u32 b) { return a > b ? a : b; }
MGX_INLINE i32 imin(i32 a, i32 b) { return a < b ? a : b; }
MGX_INLINE i32 imax(i32 a, i32 b) { return a > b ? a : b; }
MGX_INLINE i32 sat32(i64 x) {
  return x > 0x7fffffff ? 0x7fffffff : x < -i64(0x80000000) ? i32(0x80000000) : i32(x);
}
MGX_INLINE i16 sat16(i32 x) { return i16(imin(imax(x, -32768), 32767)); }
MGX_INLINE i32 s24(u32 x) { return i32(x << 8) >> 8; }
MGX_INLINE u32 byte_of(u32 x, u32 i) { return x >> (8 * i) & 0xff; }
MGX_INLINE u32 absdiff(u32 a, u32 b) { return a > b ? a - b : b - a; }
MGX_INLINE u32 sad8(u32 a, u32 b, u32 c) {
  for (u32 i = 0; i < 4; ++i) c += absdiff(byte_of(a, i), byte_of(b, i));
  return c;
}
// One byte of v_perm_b32: 0-7 a byte of {a, b}, 8-11 sign bits, 12 zero, above all ones.
MGX_INLINE u32 perm_byte(u64 data, u32 s) {
  s &= 0xff;
  if (s < 8) return u32(data >> (8 * s)) & 0xff;
  if (s < 12) return (data >> (16 * (s - 8) + 15) & 1) ? 0xff : 0;
  return s == 12 ? 0 : 0xff;
}
MGX_INLINE u32 perm(u32 a, u32 b, u32 s) {
  u64 data = u64(a) << 32 | b;
  return perm_byte(data, s) | perm_byte(data, s >> 8) << 8 | perm_byte(data, s >> 16) << 16 |
         perm_byte(data, s >> 24) << 24;
}
MGX_INLINE u32 popcount(u32 x) {
  x = x - (x >> 1 & 0x55555555);
  x = (x & 0x33333333) + (x >> 2 & 0x33333333);
  x = (x + (x >> 4)) & 0x0f0f0f0f;
  return x * 0x01010101 >> 24;
}
MGX_INLINE u32 reverse(u32 x) {
  x = (x >> 1 & 0x55555555) | (x & 0x55555555) << 1;
  x = (x >> 2 & 0x33333333) | (x & 0x33333333) << 2;
  x = (x >> 4 & 0x0f0f0f0f) | (x & 0x0f0f0f0f) << 4;
  return __builtin_bswap32(x);
}
MGX_INLINE u32 clz32(u32 x) { return x ? u32(__builtin_clz(x)) : ~0u; }
MGX_INLINE u32 ctz32(u32 x) { return x ? u32(__builtin_ctz(x)) : ~0u; }
MGX_INLINE u32 cls32(i32 x) { return x == 0 || x == -1 ? ~0u : u32(__builtin_clrsb(x)) + 1; }
MGX_INLINE u32 bfe(u32 a, u32 b, u32 c) { return a >> (b & 31) & ((1u << (c & 31)) - 1); }
MGX_INLINE u32 bfei(u32 a, u32 b, u32 c) {
  u32 width = c & 31, x = a >> (b & 31);
  x = (b & 31) && u32(i32(a) >> 31) ? u32(i32(a) >> (b & 31)) : x;
  return width ? u32(i32(x << (32 - width)) >> (32 - width)) : 0;
}

static void register_basic(OpTable &t) {
  OP1("v_mov_b32", u32, u32, a)
  OP1("v_mov_b64", u64, u64, a)
  OP1("v_mov_b16", u16, u16, a)
  OP1("v_accvgpr_read_b32", u32, u32, a)
  OP1("v_accvgpr_read", u32, u32, a)
  OP1("v_accvgpr_write_b32", u32, u32, a)
  OP1("v_accvgpr_write", u32, u32, a)
  OP1("v_accvgpr_mov_b32", u32, u32, a)
  OP1("v_not_b32", u32, u32, ~a)
  OP1("v_not_b16", u16, u16, ~a)
  OP1("v_bfrev_b32", u32, u32, reverse(a))
  OP1("v_clz_i32_u32", u32, u32, clz32(a))
  OP1("v_ctz_i32_b32", u32, u32, ctz32(a))
  OP1("v_cls_i32", u32, i32, cls32(a))
  OP1("v_sat_pk_u8_i16", u32, u32,
      u32(imin(imax(i16(a), 0), 255)) | u32(imin(imax(i16(a >> 16), 0), 255)) << 8)
  OP1("v_cvt_u32_u16", u32, u16, a)
  OP1("v_cvt_i32_i16", i32, i16, a)

  OP2("v_add_u32", u32, u32, u32, a + b)
  OP2("v_sub_u32", u32, u32, u32, a - b)
  OP2("v_subrev_u32", u32, u32, u32, b - a)
  OP2("v_add_i32", u32, u32, u32, a + b)
  OP2("v_sub_i32", u32, u32, u32, a - b)
  OP2("v_add_u32.clamp", u32, u32, u32, a + b < a ? ~0u : a + b)
  OP2("v_sub_u32.clamp", u32, u32, u32, a < b ? 0 : a - b)
  OP2("v_subrev_u32.clamp", u32, u32, u32, b < a ? 0 : b - a)
  OP2("v_add_i32.clamp", i32, i32, i32, sat32(i64(a) + b))
  OP2("v_sub_i32.clamp", i32, i32, i32, sat32(i64(a) - b))
  OP2("v_mul_lo_u32", u32, u32, u32, a * b)
  OP2("v_mul_hi_u32", u32, u32, u32, u32(u64(a) * b >> 32))
  OP2("v_mul_hi_i32", i32, i32, i32, i32(i64(a) * b >> 32))
  OP2("v_mul_u32_u24", u32, u32, u32, (a & 0xffffff) * (b & 0xffffff))
  OP2("v_mul_i32_i24", u32, u32, u32, u32(s24(a)) * u32(s24(b)))
  OP2("v_mul_hi_u32_u24", u32, u32, u32, u32(u64(a & 0xffffff) * (b & 0xffffff) >> 32))
  OP2("v_mul_hi_i32_i24", u32, u32, u32, u32(i64(s24(a)) * s24(b) >> 32))
  OP2("v_min_u32", u32, u32, u32, umin(a, b))
  OP2("v_max_u32", u32, u32, u32, umax(a, b))
  OP2("v_min_i32", i32, i32, i32, imin(a, b))
  OP2("v_max_i32", i32, i32, i32, imax(a, b))
  OP2("v_and_b32", u32, u32, u32, a & b)
  OP2("v_or_b32", u32, u32, u32, a | b)
  OP2("v_xor_b32", u32, u32, u32, a ^ b)
  OP2("v_xnor_b32", u32, u32, u32, ~(a ^ b))
  OP2("v_and_b16", u16, u16, u16, a & b)
  OP2("v_or_b16", u16, u16, u16, a | b)
  OP2("v_xor_b16", u16, u16, u16, a ^ b)
  OP2("v_lshlrev_b32", u32, u32, u32, b << (a & 31))
  OP2("v_lshrrev_b32", u32, u32, u32, b >> (a & 31))
  OP2("v_ashrrev_i32", i32, u32, i32, b >> (a & 31))
  OP2("v_lshlrev_b64", u64, u32, u64, b << (a & 63))
  OP2("v_lshrrev_b64", u64, u32, u64, b >> (a & 63))
  OP2("v_ashrrev_i64", i64, u32, i64, b >> (a & 63))
  OP2("v_bfm_b32", u32, u32, u32, ((1u << (a & 31)) - 1) << (b & 31))
  OP2("v_bcnt_u32_b32", u32, u32, u32, popcount(a) + b)
  OP2("v_cvt_pk_u16_u32", u32, u32, u32, umin(a, 0xffff) | umin(b, 0xffff) << 16)
  OP2("v_cvt_pk_i16_i32", u32, i32, i32, u16(sat16(a)) | u32(u16(sat16(b))) << 16)
  OP1("v_prng_b32", u32, u32, (a << 1) ^ (a >> 31 ? 0xc5u : 0))
  OP2("v_pack_b32_f16", u32, u16, u16, u32(a) | u32(b) << 16)
  find_op(t, "v_pack_b32_f16")->src[0] = find_op(t, "v_pack_b32_f16")->src[1] =
      Ty::f16; // takes neg and abs
  for (const char *name : {"v_mul_lo_u32", "v_mul_hi_u32", "v_mul_hi_i32"})
    find_op(t, name)->cls = Class::mul32;
}

static void register_three(OpTable &t) {
  OP3("v_add3_u32", u32, u32, u32, u32, a + b + c)
  OP3("v_lshl_add_u32", u32, u32, u32, u32, (a << (b & 31)) + c)
  OP3("v_add_lshl_u32", u32, u32, u32, u32, (a + b) << (c & 31))
  OP3("v_lshl_or_b32", u32, u32, u32, u32, (a << (b & 31)) | c)
  OP3("v_and_or_b32", u32, u32, u32, u32, (a & b) | c)
  OP3("v_or3_b32", u32, u32, u32, u32, a | b | c)
  OP3("v_xor3_b32", u32, u32, u32, u32, a ^ b ^ c)
  OP3("v_xad_u32", u32, u32, u32, u32, (a ^ b) + c)
  OP3("v_lshl_add_u64", u64, u64, u32, u64, (a << (b & 7)) + c)
  OP3("v_mad_u32_u24", u32, u32, u32, u32, (a & 0xffffff) * (b & 0xffffff) + c)
  OP3("v_mad_i32_i24", u32, u32, u32, u32, u32(s24(a)) * u32(s24(b)) + c)
  OP3("v_mad_u32_u16", u32, u16, u16, u32, u32(a) * b + c)
  OP3("v_mad_i32_i16", u32, i16, i16, u32, u32(i32(a) * b) + c)
  OP3("v_mad_u16", u16, u16, u16, u16, u32(a) * b + c)
  OP3("v_mad_i16", u16, u16, u16, u16, u32(a) * b + c)
  OP3("v_bfe_u32", u32, u32, u32, u32, bfe(a, b, c))
  OP3("v_bfe_i32", u32, u32, u32, u32, bfei(a, b, c))
  OP3("v_bfi_b32", u32, u32, u32, u32, (a & b) | (~a & c))
  OP3("v_alignbit_b32", u32, u32, u32, u32, u32((u64(a) << 32 | b) >> (c & 31)))
  OP3("v_alignbyte_b32", u32, u32, u32, u32, u32((u64(a) << 32 | b) >> (8 * (c & 3))))
  OP3("v_perm_b32", u32, u32, u32, u32, perm(a, b, c))
  OP3("v_min3_u32", u32, u32, u32, u32, umin(umin(a, b), c))
  OP3("v_max3_u32", u32, u32, u32, u32, umax(umax(a, b), c))
  OP3("v_med3_u32", u32, u32, u32, u32, med3u(a, b, c))
  OP3("v_min3_i32", i32, i32, i32, i32, imin(imin(a, b), c))
  OP3("v_max3_i32", i32, i32, i32, i32, imax(imax(a, b), c))
  OP3("v_med3_i32", i32, i32, i32, i32, med3i(a, b, c))
  OP3("v_minmax_u32", u32, u32, u32, u32, umax(umin(a, b), c))
  OP3("v_maxmin_u32", u32, u32, u32, u32, umin(umax(a, b), c))
  OP3("v_minmax_i32", i32, i32, i32, i32, imax(imin(a, b), c))
  OP3("v_maxmin_i32", i32, i32, i32, i32, imin(imax(a, b), c))
  OP3("v_min3_u16", u16, u16, u16, u16, umin(umin(a, b), c))
  OP3("v_max3_u16", u16, u16, u16, u16, umax(umax(a, b), c))
  OP3("v_med3_u16", u16, u16, u16, u16, med3u(a, b, c))
  OP3("v_min3_i16", i16, i16, i16, i16, imin(imin(a, b), c))
  OP3("v_max3_i16", i16, i16, i16, i16, imax(imax(a, b), c))
  OP3("v_med3_i16", i16, i16, i16, i16, med3i(a, b, c))
  OP3("v_sad_u8", u32, u32, u32, u32, sad8(a, b, c))
  OP3("v_sad_hi_u8", u32, u32, u32, u32, (sad8(a, b, 0) << 16) + c)
  OP3("v_sad_u16", u32, u32, u32, u32,
      absdiff(a & 0xffff, b & 0xffff) + absdiff(a >> 16, b >> 16) + c)
  OP3("v_sad_u32", u32, u32, u32, u32, absdiff(a, b) + c)
  OP3("v_lerp_u8", u32, u32, u32, u32,
      ((byte_of(a, 0) + byte_of(b, 0) + (c & 1)) >> 1) |
          ((byte_of(a, 1) + byte_of(b, 1) + (c >> 8 & 1)) >> 1) << 8 |
          ((byte_of(a, 2) + byte_of(b, 2) + (c >> 16 & 1)) >> 1) << 16 |
          ((byte_of(a, 3) + byte_of(b, 3) + (c >> 24 & 1)) >> 1) << 24)
}

static void register_short(OpTable &t) {
  OP2("v_add_u16", u16, u16, u16, a + b)
  OP2("v_sub_u16", u16, u16, u16, a - b)
  OP2("v_subrev_u16", u16, u16, u16, b - a)
  OP2("v_add_i16", u16, u16, u16, a + b)
  OP2("v_sub_i16", u16, u16, u16, a - b)
  OP2("v_add_u16.clamp", u16, u16, u16, umin(u32(a) + b, 0xffff))
  OP2("v_sub_u16.clamp", u16, u16, u16, a < b ? 0 : a - b)
  OP2("v_add_i16.clamp", i16, i16, i16, sat16(a + b))
  OP2("v_sub_i16.clamp", i16, i16, i16, sat16(a - b))
  OP2("v_mul_lo_u16", u16, u16, u16, u32(a) * b)
  OP2("v_min_u16", u16, u16, u16, umin(a, b))
  OP2("v_max_u16", u16, u16, u16, umax(a, b))
  OP2("v_min_i16", i16, i16, i16, imin(a, b))
  OP2("v_max_i16", i16, i16, i16, imax(a, b))
  OP2("v_lshlrev_b16", u16, u16, u16, b << (a & 15))
  OP2("v_lshrrev_b16", u16, u16, u16, b >> (a & 15))
  OP2("v_ashrrev_i16", i16, u16, i16, b >> (a & 15))
}

//===-- Carries -----------------------------------------------------------===//

// kind: 0 a + b, 1 a - b, 2 b - a; with `In` the carry comes from src[2].
template <int kKind, bool kIn> static void carry(Wave &w, const Inst &in) {
  Buffer t0, t1, td;
  alignas(64) u32 out[kLanes], c[kLanes];
  MGX_LANES(w)
  const u32 *a = fetch(w, in, in.src[0], t0.x), *b = fetch(w, in, in.src[1], t1.x);
  if constexpr (kIn) spread(c, rmask(w, in.src[2]), n);
  for (u32 i = 0; i < n; ++i) {
    u32 x = kKind == 2 ? b[i] : a[i], y = kKind == 2 ? a[i] : b[i];
    u32 ci = kIn ? c[i] & 1 : 0;
    if constexpr (kKind == 0) {
      u32 s = x + y, r = s + ci;
      td.x[i] = r;
      out[i] = ((s < x) | (r < s)) ? ~0u : 0;
    } else {
      u32 s = x - y, r = s - ci;
      td.x[i] = r;
      out[i] = ((x < y) | (s < ci)) ? ~0u : 0;
    }
  }
  if (in.flags & F_CLAMP)
    for (u32 i = 0; i < n; ++i)
      if (out[i]) td.x[i] = kKind == 0 ? ~0u : 0;
  u64 exec = in.flags & (F_DPP8 | F_DPP16) ? w.wmask : exec_of(w);
  u64 m = gather_signs(out, n) & exec;
  commit_bits(w, in, td.x, 1);
  set_mask(w, in.sdst.reg, m);
}

template <class T, class W> static void mad64(Wave &w, const Inst &in) {
  Buffer t0, t1, t2, td;
  alignas(64) u32 out[kLanes];
  MGX_LANES(w)
  const u32 *a = fetch(w, in, in.src[0], t0.x), *b = fetch(w, in, in.src[1], t1.x),
            *c = fetch(w, in, in.src[2], t2.x);
  for (u32 i = 0; i < n; ++i) {
    u64 product = u64(W(T(a[i])) * W(T(b[i]))), addend = ld<u64>(c, i), r = product + addend;
    st<u64>(td.x, i, r);
    // The 65th bit of the sum; for the signed form both terms are sign-extended.
    bool carry = r < product;
    if constexpr (std::is_signed_v<T>) carry = carry ^ (product >> 63) ^ (addend >> 63);
    out[i] = carry ? ~0u : 0;
  }
  u64 m = gather_signs(out, n) & exec_of(w);
  commit_bits(w, in, td.x, 2);
  set_mask(w, in.sdst.reg, m);
}

static void cndmask(Wave &w, const Inst &in) {
  Buffer t0, t1, td;
  alignas(64) u32 c[kLanes];
  MGX_LANES(w)
  const u32 *a = fetch(w, in, in.src[0], t0.x), *b = fetch(w, in, in.src[1], t1.x);
  spread(c, rmask(w, in.src[2]), n);
  bool whole = direct(w, in);
  u32 *d = whole ? w.vgpr(in.dst.reg) : td.x;
  MGX_IVDEP
  for (u32 i = 0; i < n; ++i) d[i] = (b[i] & c[i]) | (a[i] & ~c[i]);
  if (!whole) commit_bits(w, in, d, 1);
}

// v_mbcnt: bits of a mask below the own lane.
template <bool kHigh> static void mbcnt(Wave &w, const Inst &in) {
  Buffer t0, t1, td;
  MGX_LANES(w)
  const u32 *a = fetch(w, in, in.src[0], t0.x), *b = fetch(w, in, in.src[1], t1.x);
  for (u32 i = 0; i < n; ++i) {
    u32 below = kHigh ? (i < 32 ? 0 : (1u << (i - 32)) - 1) : i < 32 ? (1u << i) - 1 : ~0u;
    td.x[i] = popcount(a[i] & below) + b[i];
  }
  commit_bits(w, in, td.x, 1);
}

static void swap(Wave &w, const Inst &in) {
  MGX_LANES(w)
  const u32 *m = mask_lanes(w, exec_of(w));
  u32 *a = w.vgpr(in.dst.reg), *b = w.vgpr(in.src[0].reg);
  for (u32 i = 0; i < n; ++i) {
    u32 x = a[i], y = b[i];
    a[i] = m[i] ? y : x;
    b[i] = m[i] ? x : y;
  }
}

static void register_carries(OpTable &t) {
  auto add = [&](const char *name, Handler fn, bool in) {
    OpInfo o;
    o.fn = fn;
    o.dst = o.src[0] = o.src[1] = Ty::b32;
    o.nsrc = in ? 3 : 2;
    if (in) o.src[2] = Ty::mask;
    o.reads_vcc = in;
    o.sdst = true;
    add_op(t, name, o);
  };
  add("v_add_co_u32", carry<0, false>, false);
  add("v_sub_co_u32", carry<1, false>, false);
  add("v_subrev_co_u32", carry<2, false>, false);
  add("v_add_co_ci_u32", carry<0, true>, true);
  add("v_sub_co_ci_u32", carry<1, true>, true);
  add("v_subrev_co_ci_u32", carry<2, true>, true);

  OpInfo o;
  o.fn = mad64<u32, u64>;
  o.dst = Ty::b64;
  o.src[0] = o.src[1] = Ty::b32;
  o.src[2] = Ty::b64;
  o.nsrc = 3;
  o.sdst = true;
  o.cls = Class::mul32;
  add_op(t, "v_mad_u64_u32", o);
  add_op(t, "v_mad_co_u64_u32", o);
  o.fn = mad64<i32, i64>;
  o.src[2] = Ty::i64;
  add_op(t, "v_mad_i64_i32", o);
  add_op(t, "v_mad_co_i64_i32", o);

  o = OpInfo();
  o.fn = cndmask;
  o.dst = Ty::b32;
  o.src[0] = o.src[1] = Ty::f32; // neg and abs apply
  o.src[2] = Ty::mask;
  o.nsrc = 3;
  o.reads_vcc = true;
  add_op(t, "v_cndmask_b32", o);
  o.dst = Ty::b16;
  o.src[0] = o.src[1] = Ty::f16;
  add_op(t, "v_cndmask_b16", o);

  o = OpInfo();
  o.fn = mbcnt<false>;
  o.dst = o.src[0] = o.src[1] = Ty::b32;
  o.nsrc = 2;
  add_op(t, "v_mbcnt_lo_u32_b32", o);
  o.fn = mbcnt<true>;
  add_op(t, "v_mbcnt_hi_u32_b32", o);

  o = OpInfo();
  o.fn = swap;
  o.dst = o.src[0] = Ty::b32;
  o.nsrc = 1;
  add_op(t, "v_swap_b32", o);
}

void register_valu_int(OpTable &t) {
  register_basic(t);
  register_three(t);
  register_short(t);
  register_carries(t);
}

} // namespace MGX_ISA
} // namespace mgx::emu
