// Scalar arithmetic (SOP1, SOP2, SOPC, SOPK).
#include "numeric.h"
#include "valu.h"

namespace mgx::emu {
inline namespace MGX_ISA {

static OpInfo scalar_op(Handler fn, Ty dst, Ty a, Ty b) {
  OpInfo o;
  o.fn = fn;
  o.dst = dst;
  o.src[0] = a;
  o.src[1] = b;
  o.nsrc = u8((a != Ty::none) + (b != Ty::none));
  o.cls = Class::salu;
  return o;
}

// `expr` computes the result from a, b (and old SCC c); `status` assigns SCC.
#define S2(name, D, A, B, expr, status)                                                            \
  {                                                                                                \
    struct H {                                                                                     \
      static void run(Wave &w, const Inst &in) {                                                   \
        A a = sizeof(A) == 8 ? A(rs64(w, in.src[0])) : A(rs(w, in.src[0]));                        \
        B b = sizeof(B) == 8 ? B(rs64(w, in.src[1])) : B(rs(w, in.src[1]));                        \
        [[maybe_unused]] u32 c = w.scc;                                                            \
        D d = D(expr);                                                                             \
        status;                                                                                    \
        if constexpr (sizeof(D) == 8) set_s64(w, in.dst.reg, u64(d));                              \
        else w.s[in.dst.reg] = u32(d);                                                             \
      }                                                                                            \
    };                                                                                             \
    add_op(t, name, scalar_op(H::run, ty_of<D>(), ty_of<A>(), ty_of<B>()));                        \
  }
#define S1(name, D, A, expr, status)                                                               \
  {                                                                                                \
    struct H {                                                                                     \
      static void run(Wave &w, const Inst &in) {                                                   \
        A a = sizeof(A) == 8 ? A(rs64(w, in.src[0])) : A(rs(w, in.src[0]));                        \
        D d = D(expr);                                                                             \
        status;                                                                                    \
        if constexpr (sizeof(D) == 8) set_s64(w, in.dst.reg, u64(d));                              \
        else w.s[in.dst.reg] = u32(d);                                                             \
      }                                                                                            \
    };                                                                                             \
    add_op(t, name, scalar_op(H::run, ty_of<D>(), ty_of<A>(), Ty::none));                          \
  }
#define SC(name, A, expr)                                                                          \
  {                                                                                                \
    struct H {                                                                                     \
      static void run(Wave &w, const Inst &in) {                                                   \
        A a = sizeof(A) == 8 ? A(rs64(w, in.src[0])) : A(rs(w, in.src[0]));                        \
        A b = sizeof(A) == 8 ? A(rs64(w, in.src[1])) : A(rs(w, in.src[1]));                        \
        w.scc = (expr);                                                                            \
      }                                                                                            \
    };                                                                                             \
    add_op(t, name, scalar_op(H::run, Ty::none, ty_of<A>(), ty_of<A>()));                          \
  }
#define NONZERO w.scc = d != 0

MGX_INLINE u32 sbfe32(u32 a, u32 b) {
  u32 offset = b & 31, width = b >> 16 & 0x7f;
  if (!width) return 0;
  if (width > 32) width = 32;
  u32 x = u32(i32(a) >> offset);
  return width >= 32 ? x : u32(i32(x << (32 - width)) >> (32 - width));
}
MGX_INLINE u32 ubfe32(u32 a, u32 b) {
  u32 width = b >> 16 & 0x7f;
  return u32(u64(a) >> (b & 31)) & u32((u64(1) << (width > 32 ? 32 : width)) - 1);
}
MGX_INLINE u64 ubfe64(u64 a, u32 b) {
  u32 width = b >> 16 & 0x7f;
  u64 x = a >> (b & 63);
  return width >= 64 ? x : x & ((u64(1) << width) - 1);
}
MGX_INLINE u64 sbfe64(u64 a, u32 b) {
  u32 width = b >> 16 & 0x7f;
  i64 x = i64(a) >> (b & 63);
  if (!width) return 0;
  return width >= 64 ? u64(x) : u64(i64(u64(x) << (64 - width)) >> (64 - width));
}

static void register_integers(OpTable &t) {
  S2("s_add_co_u32", u32, u32, u32, a + b, w.scc = d < a)
  S2("s_sub_co_u32", u32, u32, u32, a - b, w.scc = a < b)
  S2("s_add_co_i32", u32, u32, u32, a + b, w.scc = (~(a ^ b) & (a ^ d)) >> 31)
  S2("s_sub_co_i32", u32, u32, u32, a - b, w.scc = ((a ^ b) & (a ^ d)) >> 31)
  S2("s_add_co_ci_u32", u32, u32, u32, a + b + c, w.scc = (u64(a) + b + c) >> 32 != 0)
  S2("s_sub_co_ci_u32", u32, u32, u32, a - b - c, w.scc = u64(b) + c > a)
  S2("s_min_i32", i32, i32, i32, a < b ? a : b, w.scc = a < b)
  S2("s_min_u32", u32, u32, u32, a < b ? a : b, w.scc = a < b)
  S2("s_max_i32", i32, i32, i32, a > b ? a : b,
     w.scc = w.chip->is_gfx9() || w.chip->is_gfx10() ? a > b : a >= b)
  S2("s_max_u32", u32, u32, u32, a > b ? a : b,
     w.scc = w.chip->is_gfx9() || w.chip->is_gfx10() ? a > b : a >= b)
  S2("s_cselect_b32", u32, u32, u32, c ? a : b, )
  S2("s_cselect_b64", u64, u64, u64, c ? a : b, )
  S2("s_and_b32", u32, u32, u32, a & b, NONZERO)
  S2("s_and_b64", u64, u64, u64, a & b, NONZERO)
  S2("s_or_b32", u32, u32, u32, a | b, NONZERO)
  S2("s_or_b64", u64, u64, u64, a | b, NONZERO)
  S2("s_xor_b32", u32, u32, u32, a ^ b, NONZERO)
  S2("s_xor_b64", u64, u64, u64, a ^ b, NONZERO)
  S2("s_and_not1_b32", u32, u32, u32, a & ~b, NONZERO)
  S2("s_and_not1_b64", u64, u64, u64, a & ~b, NONZERO)
  S2("s_or_not1_b32", u32, u32, u32, a | ~b, NONZERO)
  S2("s_or_not1_b64", u64, u64, u64, a | ~b, NONZERO)
  S2("s_nand_b32", u32, u32, u32, ~(a & b), NONZERO)
  S2("s_nand_b64", u64, u64, u64, ~(a & b), NONZERO)
  S2("s_nor_b32", u32, u32, u32, ~(a | b), NONZERO)
  S2("s_nor_b64", u64, u64, u64, ~(a | b), NONZERO)
  S2("s_xnor_b32", u32, u32, u32, ~(a ^ b), NONZERO)
  S2("s_xnor_b64", u64, u64, u64, ~(a ^ b), NONZERO)
  S2("s_lshl_b32", u32, u32, u32, a << (b & 31), NONZERO)
  S2("s_lshl_b64", u64, u64, u32, a << (b & 63), NONZERO)
  S2("s_lshr_b32", u32, u32, u32, a >> (b & 31), NONZERO)
  S2("s_lshr_b64", u64, u64, u32, a >> (b & 63), NONZERO)
  S2("s_ashr_i32", i32, i32, u32, a >> (b & 31), NONZERO)
  S2("s_ashr_i64", i64, i64, u32, a >> (b & 63), NONZERO)
  S2("s_bfm_b32", u32, u32, u32, ((1u << (a & 31)) - 1) << (b & 31), )
  S2("s_bfm_b64", u64, u32, u32, ((u64(1) << (a & 63)) - 1) << (b & 63), )
  S2("s_mul_i32", u32, u32, u32, a * b, )
  S2("s_mul_hi_u32", u32, u32, u32, u64(a) * b >> 32, )
  S2("s_mul_hi_i32", i32, i32, i32, i64(a) * b >> 32, )
  S2("s_mul_u64", u64, u64, u64, a * b, )
  S2("s_add_nc_u64", u64, u64, u64, a + b, )
  S2("s_sub_nc_u64", u64, u64, u64, a - b, )
  S2("s_bfe_u32", u32, u32, u32, ubfe32(a, b), NONZERO)
  S2("s_bfe_i32", u32, u32, u32, sbfe32(a, b), NONZERO)
  S2("s_bfe_u64", u64, u64, u32, ubfe64(a, b), NONZERO)
  S2("s_bfe_i64", u64, u64, u32, sbfe64(a, b), NONZERO)
  S2("s_absdiff_i32", u32, u32, u32, i32(a - b) < 0 ? b - a : a - b, NONZERO)
  S2("s_lshl1_add_u32", u32, u32, u32, (a << 1) + b, w.scc = ((u64(a) << 1) + b) >> 32 != 0)
  S2("s_lshl2_add_u32", u32, u32, u32, (a << 2) + b, w.scc = ((u64(a) << 2) + b) >> 32 != 0)
  S2("s_lshl3_add_u32", u32, u32, u32, (a << 3) + b, w.scc = ((u64(a) << 3) + b) >> 32 != 0)
  S2("s_lshl4_add_u32", u32, u32, u32, (a << 4) + b, w.scc = ((u64(a) << 4) + b) >> 32 != 0)
  S2("s_pack_ll_b32_b16", u32, u32, u32, (a & 0xffff) | b << 16, )
  S2("s_pack_lh_b32_b16", u32, u32, u32, (a & 0xffff) | (b & 0xffff0000), )
  S2("s_pack_hh_b32_b16", u32, u32, u32, a >> 16 | (b & 0xffff0000), )
  S2("s_pack_hl_b32_b16", u32, u32, u32, a >> 16 | b << 16, )

  S1("s_mov_b32", u32, u32, a, )
  S1("s_mov_b64", u64, u64, a, )
  S1("s_not_b32", u32, u32, ~a, NONZERO)
  S1("s_not_b64", u64, u64, ~a, NONZERO)
  S1("s_brev_b32", u32, u32, __builtin_bswap32([](u32 x) {
       x = (x >> 1 & 0x55555555) | (x & 0x55555555) << 1;
       x = (x >> 2 & 0x33333333) | (x & 0x33333333) << 2;
       return (x >> 4 & 0x0f0f0f0f) | (x & 0x0f0f0f0f) << 4;
     }(a)), )
  S1("s_brev_b64", u64, u64, __builtin_bswap64([](u64 x) {
       x = (x >> 1 & 0x5555555555555555) | (x & 0x5555555555555555) << 1;
       x = (x >> 2 & 0x3333333333333333) | (x & 0x3333333333333333) << 2;
       return (x >> 4 & 0x0f0f0f0f0f0f0f0f) | (x & 0x0f0f0f0f0f0f0f0f) << 4;
     }(a)), )
  S1("s_bcnt0_i32_b32", u32, u32, 32 - __builtin_popcount(a), NONZERO)
  S1("s_bcnt0_i32_b64", u32, u64, 64 - __builtin_popcountll(a), NONZERO)
  S1("s_bcnt1_i32_b32", u32, u32, __builtin_popcount(a), NONZERO)
  S1("s_bcnt1_i32_b64", u32, u64, __builtin_popcountll(a), NONZERO)
  S1("s_ff0_i32_b32", u32, u32, ~a ? __builtin_ctz(~a) : -1, )
  S1("s_ff0_i32_b64", u32, u64, ~a ? __builtin_ctzll(~a) : -1, )
  S1("s_ctz_i32_b32", u32, u32, a ? __builtin_ctz(a) : -1, )
  S1("s_ctz_i32_b64", u32, u64, a ? __builtin_ctzll(a) : -1, )
  S1("s_clz_i32_u32", u32, u32, a ? __builtin_clz(a) : -1, )
  S1("s_clz_i32_u64", u32, u64, a ? __builtin_clzll(a) : -1, )
  S1("s_cls_i32", u32, i32, a == 0 || a == -1 ? -1 : __builtin_clrsb(a) + 1, )
  S1("s_cls_i32_i64", u32, i64, a == 0 || a == -1 ? -1 : __builtin_clrsbll(a) + 1, )
  S1("s_sext_i32_i8", u32, u32, i32(i8(a)), )
  S1("s_sext_i32_i16", u32, u32, i32(i16(a)), )
  S1("s_abs_i32", u32, u32, i32(a) < 0 ? 0 - a : a, NONZERO)
  S1("s_bitset0_b32", u32, u32, w.s[in.dst.reg] & ~(1u << (a & 31)), )
  S1("s_bitset1_b32", u32, u32, w.s[in.dst.reg] | 1u << (a & 31), )
  S1("s_bitset0_b64", u64, u32, s64(w, in.dst.reg) & ~(u64(1) << (a & 63)), )
  S1("s_bitset1_b64", u64, u32, s64(w, in.dst.reg) | u64(1) << (a & 63), )
  S1("s_cmov_b32", u32, u32, w.scc ? a : w.s[in.dst.reg], )
  S1("s_cmov_b64", u64, u64, w.scc ? a : s64(w, in.dst.reg), )
  S1(
      "s_quadmask_b32", u32, u32,
      [](u32 x) {
        u32 r = 0;
        for (u32 i = 0; i < 8; ++i) r |= u32((x >> (4 * i) & 15) != 0) << i;
        return r;
      }(a),
      NONZERO)
  S1(
      "s_quadmask_b64", u64, u64,
      [](u64 x) {
        u64 r = 0;
        for (u32 i = 0; i < 16; ++i) r |= u64((x >> (4 * i) & 15) != 0) << i;
        return r;
      }(a),
      NONZERO)
  S1(
      "s_wqm_b32", u32, u32,
      [](u32 x) {
        u32 r = 0;
        for (u32 i = 0; i < 32; i += 4)
          if (x >> i & 15) r |= 15u << i;
        return r;
      }(a),
      NONZERO)
  S1(
      "s_wqm_b64", u64, u64,
      [](u64 x) {
        u64 r = 0;
        for (u32 i = 0; i < 64; i += 4)
          if (x >> i & 15) r |= u64(15) << i;
        return r;
      }(a),
      NONZERO)
  S1(
      "s_bitreplicate_b64_b32", u64, u32, [](u32 x) {
        u64 r = 0;
        for (u32 i = 0; i < 32; ++i)
          if (x >> i & 1) r |= u64(3) << (2 * i);
        return r;
      }(a), )
}

static void register_compares(OpTable &t) {
  SC("s_cmp_eq_i32", i32, a == b)
  SC("s_cmp_lg_i32", i32, a != b)
  SC("s_cmp_gt_i32", i32, a > b)
  SC("s_cmp_ge_i32", i32, a >= b)
  SC("s_cmp_lt_i32", i32, a < b)
  SC("s_cmp_le_i32", i32, a <= b)
  SC("s_cmp_eq_u32", u32, a == b)
  SC("s_cmp_lg_u32", u32, a != b)
  SC("s_cmp_gt_u32", u32, a > b)
  SC("s_cmp_ge_u32", u32, a >= b)
  SC("s_cmp_lt_u32", u32, a < b)
  SC("s_cmp_le_u32", u32, a <= b)
  SC("s_cmp_eq_u64", u64, a == b)
  SC("s_cmp_lg_u64", u64, a != b)
  SC("s_bitcmp0_b32", u32, !(a >> (b & 31) & 1))
  SC("s_bitcmp1_b32", u32, a >> (b & 31) & 1)
  SC("s_bitcmp0_b64", u64, !(a >> (b & 63) & 1))
  SC("s_bitcmp1_b64", u64, a >> (b & 63) & 1)
  find_op(t, "s_bitcmp0_b64")->src[1] = find_op(t, "s_bitcmp1_b64")->src[1] = Ty::b32;
}

//===-- Lane masks saved and replaced -------------------------------------===//

// The result goes to EXEC; `kept`, the old EXEC or the result, to the destination.
#define REPLACE_EXEC(name, expr, kept)                                                             \
  {                                                                                                \
    struct H {                                                                                     \
      static void run64(Wave &w, const Inst &in) {                                                 \
        u64 s = rs64(w, in.src[0]), e = s64(w, kExec), r = (expr);                                 \
        set_s64(w, in.dst.reg, kept);                                                              \
        set_s64(w, kExec, r);                                                                      \
        w.scc = r != 0;                                                                            \
      }                                                                                            \
      static void run32(Wave &w, const Inst &in) {                                                 \
        u32 s = rs(w, in.src[0]), e = w.s[kExec], r = (expr);                                      \
        w.s[in.dst.reg] = kept;                                                                    \
        w.s[kExec] = r;                                                                            \
        w.scc = r != 0;                                                                            \
      }                                                                                            \
    };                                                                                             \
    add_op(t, name "_b64", scalar_op(H::run64, Ty::b64, Ty::b64, Ty::none));                       \
    add_op(t, name "_b32", scalar_op(H::run32, Ty::b32, Ty::b32, Ty::none));                       \
  }
#define SAVEEXEC(name, expr) REPLACE_EXEC(name "_saveexec", expr, e)
#define WREXEC(name, expr) REPLACE_EXEC(name "_wrexec", expr, r)

static void register_masks(OpTable &t){
    SAVEEXEC("s_and", s &e) SAVEEXEC("s_or", s | e) SAVEEXEC("s_xor", s ^ e)
        SAVEEXEC("s_and_not1", s & ~e) SAVEEXEC("s_or_not1", s | ~e) SAVEEXEC("s_and_not0", ~s &e)
            SAVEEXEC("s_or_not0", ~s | e) SAVEEXEC("s_nand", ~(s &e)) SAVEEXEC("s_nor", ~(s | e))
                SAVEEXEC("s_xnor", ~(s ^ e)) WREXEC("s_and_not1", s & ~e)
                    WREXEC("s_and_not0", ~s &e)}

//===-- Scalar floats (gfx11.5, gfx12) ------------------------------------===//

MGX_INLINE f32 F(u32 x) {
  return f32_of(x);
}
MGX_INLINE f32 Hf(u32 x) { return half_to_float(x & 0xffff); }
MGX_INLINE u32 B(f32 x) { return as_bits(x); }
MGX_INLINE u32 Hb(f32 x) { return float_to_half(x); }

static void register_floats(OpTable &t) {
  S2("s_add_f32", u32, u32, u32, B(F(a) + F(b)), )
  S2("s_sub_f32", u32, u32, u32, B(F(a) - F(b)), )
  S2("s_mul_f32", u32, u32, u32, B(F(a) * F(b)), )
  S2("s_min_f32", u32, u32, u32, min_num_f32(a, b), )
  S2("s_max_f32", u32, u32, u32, max_num_f32(a, b), )
  S2("s_minimum_f32", u32, u32, u32, minimum_f32(a, b), )
  S2("s_maximum_f32", u32, u32, u32, maximum_f32(a, b), )
  S2("s_fmac_f32", u32, u32, u32, B(__builtin_fmaf(F(a), F(b), F(w.s[in.dst.reg]))), )
  S2("s_fmaak_f32", u32, u32, u32, B(__builtin_fmaf(F(a), F(b), F(in.src[2].k[0]))), )
  S2("s_fmamk_f32", u32, u32, u32, B(__builtin_fmaf(F(a), F(in.src[2].k[0]), F(b))), )
  S2("s_cvt_pk_rtz_f16_f32", u32, u32, u32, cvt_pkrtz_f16_f32(F(a), F(b)), )
  S2("s_add_f16", u32, u32, u32, Hb(Hf(a) + Hf(b)), )
  S2("s_sub_f16", u32, u32, u32, Hb(Hf(a) - Hf(b)), )
  S2("s_mul_f16", u32, u32, u32, Hb(Hf(a) * Hf(b)), )
  S2("s_fmac_f16", u32, u32, u32, fma_f16(u16(a), u16(b), u16(w.s[in.dst.reg]), FloatMode()), )
  S2("s_min_f16", u32, u32, u32, min_num_f16(u16(a), u16(b)), )
  S2("s_max_f16", u32, u32, u32, max_num_f16(u16(a), u16(b)), )
  S2("s_minimum_f16", u32, u32, u32, minimum_f16(u16(a), u16(b)), )
  S2("s_maximum_f16", u32, u32, u32, maximum_f16(u16(a), u16(b)), )
  for (const char *n : {"s_fmaak_f32", "s_fmamk_f32"})
    find_op(t, n)->flags |= F_LDS; // a literal follows
  S1("s_ceil_f32", u32, u32, B(__builtin_ceilf(F(a))), )
  S1("s_floor_f32", u32, u32, B(__builtin_floorf(F(a))), )
  S1("s_trunc_f32", u32, u32, B(__builtin_truncf(F(a))), )
  S1("s_rndne_f32", u32, u32, B(__builtin_roundevenf(F(a))), )
  S1("s_ceil_f16", u32, u32, Hb(__builtin_ceilf(Hf(a))), )
  S1("s_floor_f16", u32, u32, Hb(__builtin_floorf(Hf(a))), )
  S1("s_trunc_f16", u32, u32, Hb(__builtin_truncf(Hf(a))), )
  S1("s_rndne_f16", u32, u32, Hb(__builtin_roundevenf(Hf(a))), )
  S1("s_cvt_f32_i32", u32, i32, B(f32(a)), )
  S1("s_cvt_f32_u32", u32, u32, B(f32(a)), )
  S1("s_cvt_i32_f32", u32, u32, f32_to_i32(F(a)), )
  S1("s_cvt_u32_f32", u32, u32, f32_to_u32(F(a)), )
  S1("s_cvt_f16_f32", u32, u32, Hb(F(a)), )
  S1("s_cvt_f32_f16", u32, u32, B(Hf(a)), )
  S1("s_cvt_hi_f32_f16", u32, u32, B(Hf(a >> 16)), )
#define SCF(type, V)                                                                               \
  SC("s_cmp_lt_" type, u32, V(a) < V(b))                                                           \
  SC("s_cmp_eq_" type, u32, V(a) == V(b))                                                          \
  SC("s_cmp_le_" type, u32, V(a) <= V(b))                                                          \
  SC("s_cmp_gt_" type, u32, V(a) > V(b))                                                           \
  SC("s_cmp_lg_" type, u32, V(a) < V(b) || V(a) > V(b))                                            \
  SC("s_cmp_ge_" type, u32, V(a) >= V(b))                                                          \
  SC("s_cmp_o_" type, u32, V(a) == V(a) && V(b) == V(b))                                           \
  SC("s_cmp_u_" type, u32, V(a) != V(a) || V(b) != V(b))                                           \
  SC("s_cmp_nge_" type, u32, !(V(a) >= V(b)))                                                      \
  SC("s_cmp_nlg_" type, u32, !(V(a) < V(b) || V(a) > V(b)))                                        \
  SC("s_cmp_ngt_" type, u32, !(V(a) > V(b)))                                                       \
  SC("s_cmp_nle_" type, u32, !(V(a) <= V(b)))                                                      \
  SC("s_cmp_neq_" type, u32, !(V(a) == V(b)))                                                      \
  SC("s_cmp_nlt_" type, u32, !(V(a) < V(b)))
  SCF("f32", F)
  SCF("f16", Hf)
}

//===-- SOPK --------------------------------------------------------------===//

#define SK(name, expr)                                                                             \
  {                                                                                                \
    struct H {                                                                                     \
      static void run(Wave &w, const Inst &in) {                                                   \
        [[maybe_unused]] u32 a = w.s[in.dst.reg], k = u32(in.imm);                                 \
        expr;                                                                                      \
      }                                                                                            \
    };                                                                                             \
    add_op(t, name, scalar_op(H::run, Ty::b32, Ty::none, Ty::none));                               \
  }

static void register_constants(OpTable &t) {
  SK("s_movk_i32", w.s[in.dst.reg] = k)
  SK("s_cmovk_i32", if (w.scc) w.s[in.dst.reg] = k)
  SK("s_addk_co_i32", u32 d = a + k; w.s[in.dst.reg] = d; w.scc = (~(a ^ k) & (a ^ d)) >> 31)
  SK("s_mulk_i32", w.s[in.dst.reg] = a * k)
  SK("s_cmpk_eq_i32", w.scc = i32(a) == i32(k))
  SK("s_cmpk_lg_i32", w.scc = i32(a) != i32(k))
  SK("s_cmpk_gt_i32", w.scc = i32(a) > i32(k))
  SK("s_cmpk_ge_i32", w.scc = i32(a) >= i32(k))
  SK("s_cmpk_lt_i32", w.scc = i32(a) < i32(k))
  SK("s_cmpk_le_i32", w.scc = i32(a) <= i32(k))
  SK("s_cmpk_eq_u32", w.scc = a == (k & 0xffff))
  SK("s_cmpk_lg_u32", w.scc = a != (k & 0xffff))
  SK("s_cmpk_gt_u32", w.scc = a > (k & 0xffff))
  SK("s_cmpk_ge_u32", w.scc = a >= (k & 0xffff))
  SK("s_cmpk_lt_u32", w.scc = a < (k & 0xffff))
  SK("s_cmpk_le_u32", w.scc = a <= (k & 0xffff))
}

} // namespace MGX_ISA

void register_salu(OpTable &t) {
  register_integers(t);
  register_compares(t);
  register_masks(t);
  register_floats(t);
  register_constants(t);
}

} // namespace mgx::emu
