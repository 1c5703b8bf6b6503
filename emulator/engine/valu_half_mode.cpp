// 16-bit floats under a mode of the kernel's own: rounding other than nearest
// even, denormals flushed, overflow kept finite (MODE.FP16_OVFL, bit 23). Plain
// handlers know none of these; a wave in such a mode takes this way instead.
#include "numeric.h"
#include "valu.h"

namespace mgx::emu {
inline namespace MGX_ISA {

MGX_INLINE bool is_half(const Operand &o) {
  return o.kind != O_NONE && (o.ty == Ty::f16 || o.ty == Ty::pk_f16);
}
MGX_INLINE u32 flush_halves(u32 x) { return flush16(u16(x)) | u32(flush16(u16(x >> 16))) << 16; }
MGX_INLINE bool finite_half(u32 h) { return (h & 0x7c00) != 0x7c00; }
MGX_INLINE bool finite_single(u32 x) { return (x & 0x7f800000) != 0x7f800000; }

//===-- Arithmetic under other rounding modes -----------------------------===//

#define HALF_OP(name, expr)                                                                        \
  struct name {                                                                                    \
    static inline __attribute__((always_inline)) u16 f(u16 a, [[maybe_unused]] u16 b,              \
                                                       [[maybe_unused]] u16 c,                     \
                                                       const FloatMode &m) {                       \
      return expr;                                                                                 \
    }                                                                                              \
  };
HALF_OP(HalfAdd, add_f16(a, b, m))
HALF_OP(HalfSub, sub_f16(a, b, m))
HALF_OP(HalfSubrev, sub_f16(b, a, m))
HALF_OP(HalfMul, mul_f16(a, b, m))
HALF_OP(HalfFma, fma_f16(a, b, c, m))
HALF_OP(HalfMad, add_f16(mul_f16(a, b, m), c, m))
HALF_OP(HalfFromUnsigned, u16_to_f16(a, m.round64))
HALF_OP(HalfFromSigned, i16_to_f16(i16(a), m.round64))
HALF_OP(HalfSqrt, f64_to_f16(__builtin_sqrt(f64(f16_to_f32(a))), m.round64))
#undef HALF_OP

template <class Op> static void rounded(Wave &w, const Inst &in) {
  Buffer t[3], td;
  const u32 *p[3];
  MGX_LANES(w)
  for (u32 s = 0; s < 3; ++s)
    p[s] = in.src[s].kind == O_NONE ? p[0] : fetch(w, in, in.src[s], t[s].x);
  FloatMode mode = FloatMode::from_register(w.mode, w.chip->is_gfx12());
  for (u32 i = 0; i < n; ++i) td.x[i] = Op::f(u16(p[0][i]), u16(p[1][i]), u16(p[2][i]), mode);
  commit<h16>(w, in, td.x);
}

// kWhole: v_pk_fmac_f16, whose halves keep their places.
template <class Op, bool kWhole = false> static void rounded_pair(Wave &w, const Inst &in) {
  Buffer t[3], td;
  const u32 *p[3];
  MGX_LANES(w)
  for (u32 s = 0; s < 3; ++s)
    p[s] = in.src[s].kind == O_NONE ? p[0] : fetch(w, in, in.src[s], t[s].x);
  FloatMode mode = FloatMode::from_register(w.mode, w.chip->is_gfx12());
  auto half = [&](u32 s, u32 i, u32 k) {
    if (kWhole) return u16(p[s][i] >> (16 * k));
    u32 select = k ? in.op_sel_hi : in.op_sel, negate = k ? in.neg_hi : in.neg_lo;
    return u16(p[s][i] >> ((select >> s & 1) * 16) ^ (negate >> s & 1) << 15);
  };
  for (u32 i = 0; i < n; ++i) {
    u16 r[2];
    for (u32 k = 0; k < 2; ++k) {
      r[k] = Op::f(half(0, i, k), half(1, i, k), half(2, i, k), mode);
      if (!kWhole && in.flags & F_CLAMP) r[k] = clamp_f16(r[k], true);
    }
    td.x[i] = pack16(r[0], r[1]);
  }
  commit_bits(w, in, td.x, 1);
}

//===-- Denormals and overflow, around any handler ------------------------===//

// Which halves of its destination an instruction writes.
static u32 written_halves(const Inst &in) {
  if (in.dst.kind != O_VGPR || in.dst.words != 1) return 0;
  if (in.dst.ty != Ty::f16)
    return is_half(in.src[0]) && in.src[0].ty == Ty::pk_f16 && in.flags & F_F64 ? 3 : 0;
  if (in.flags & F_SDWA) {
    u32 sel = in.dpp >> 8 & 7;
    return sel == 5 ? 2 : sel == 4 || sel == 6 ? 1 : 0;
  }
  return in.flags & F_OPSEL_HI ? 2 : 1;
}

static void half_mode(Wave &w, const Inst &in) {
  FloatMode mode = FloatMode::from_register(w.mode, w.chip->is_gfx12());
  Handler fn = mode.round64 != Round::kNearestEven && in.rounded ? in.rounded : in.fn;
  bool keep_finite =
      w.mode >> 23 & 1 && in.cls != Class::trans; // of 1 / 0 the infinity is the value
  u32 halves = written_halves(in);
  if (!mode.flush_in64 && !(halves && (mode.flush_out64 || keep_finite))) return fn(w, in);
  MGX_LANES(w)
  Buffer source[3];
  Inst flushed = in;
  u64 finite[2] = {~u64(0), ~u64(0)}; // lanes whose sources are finite
  for (u32 s = 0; s < 3; ++s) {
    Operand &o = flushed.src[s];
    if (!is_half(o) && !(o.kind != O_NONE && o.ty == Ty::f32)) continue;
    const u32 *p = fetch(w, in, o, source[s].x);
    bool half = is_half(o);
    for (u32 i = 0; i < n; ++i) {
      u32 x = p[i];
      bool lo = half ? finite_half(x) : finite_single(x),
           hi = o.ty == Ty::pk_f16 ? finite_half(x >> 16) : lo;
      if (o.ty == Ty::pk_f16) lo &= hi, hi = lo; // either half may feed either result
      if (!lo) finite[0] &= ~(u64(1) << i);
      if (!hi) finite[1] &= ~(u64(1) << i);
      source[s].x[i] =
          half && mode.flush_in64 ? (o.ty == Ty::pk_f16 ? flush_halves(x) : flush16(u16(x))) : x;
    }
    o = Operand{source[s].x, 0, O_CONST, o.words, 0, 6, o.ty, false};
  }
  u64 exec = in.flags & (F_DPP8 | F_DPP16) ? w.wmask : exec_of(w);
  fn(w, flushed);
  if (!halves || w.stop == Stop::fault) return;
  u32 *d = w.vgpr(in.dst.reg);
  for (u32 i = 0; i < n; ++i) {
    if (!(exec >> i & 1)) continue;
    for (u32 k = 0; k < 2; ++k) {
      if (!(halves >> k & 1)) continue;
      u32 h = d[i] >> (16 * k) & 0xffff;
      if (mode.flush_out64) h = flush16(u16(h));
      if (keep_finite && (h & 0x7fff) == 0x7c00 && finite[k] >> i & 1) h = (h & 0x8000) | 0x7bff;
      d[i] = (d[i] & ~(0xffffu << 16 * k)) | h << 16 * k;
    }
  }
}

void register_half_mode(OpTable &t) {
  auto set = [&](Handler fn, std::initializer_list<const char *> names) {
    for (const char *name : names) find_op(t, name)->rounded = fn;
  };
  set(rounded<HalfAdd>, {"v_add_f16"});
  set(rounded<HalfSub>, {"v_sub_f16"});
  set(rounded<HalfSubrev>, {"v_subrev_f16"});
  set(rounded<HalfMul>, {"v_mul_f16"});
  set(rounded<HalfFma>,
      {"v_fma_f16", "v_fmac_f16", "v_fmaak_f16", "v_fmamk_f16", "v_fma_legacy_f16"});
  set(rounded<HalfMad>,
      {"v_mad_f16", "v_mac_f16", "v_madak_f16", "v_madmk_f16", "v_mad_legacy_f16"});
  set(rounded<HalfFromUnsigned>, {"v_cvt_f16_u16"});
  set(rounded<HalfFromSigned>, {"v_cvt_f16_i16"});
  set(rounded<HalfSqrt>, {"v_sqrt_f16"});
  set(rounded_pair<HalfAdd>, {"v_pk_add_f16"});
  set(rounded_pair<HalfMul>, {"v_pk_mul_f16"});
  set(rounded_pair<HalfFma>, {"v_pk_fma_f16"});
  set(rounded_pair<HalfFma, true>, {"v_pk_fmac_f16"});
  OpInfo o;
  o.fn = half_mode;
  add_op(t, ".half_mode", o);
}

} // namespace MGX_ISA
} // namespace mgx::emu
