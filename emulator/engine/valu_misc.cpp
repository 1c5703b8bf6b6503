// Vector instructions that fit no other family.
#include "numeric.h"
#include "valu.h"

namespace mgx::emu {
inline namespace MGX_ISA {

// v_bitop3: `imm` is a truth table indexed by the bits of a, b and c.
static void bitop3(Wave &w, const Inst &in) {
  Buffer t0, t1, t2, td;
  MGX_LANES(w)
  const u32 *a = fetch(w, in, in.src[0], t0.x), *b = fetch(w, in, in.src[1], t1.x),
            *c = fetch(w, in, in.src[2], t2.x);
  for (u32 i = 0; i < n; ++i) {
    u32 r = 0;
    for (u32 k = 0; k < 8; ++k)
      if (in.imm >> k & 1)
        r |= (k & 4 ? a[i] : ~a[i]) & (k & 2 ? b[i] : ~b[i]) & (k & 1 ? c[i] : ~c[i]);
    td.x[i] = r;
  }
  commit_bits(w, in, td.x, 1);
}

//===-- Registers chosen by M0 --------------------------------------------===//

// Relative registers beyond the file are those of a broken kernel.
static u32 relative(Wave &w, u32 reg, i32 offset) {
  i64 r = i64(reg) + offset;
  if (r < 0 || r > 255) {
    raise_fault(w, Fault::invalid_instruction, -1, 0, "register index beyond the register file");
    return 0;
  }
  return u32(r);
}
template <bool kSource, bool kDest, bool kTwo> static void movrel(Wave &w, const Inst &in) {
  u32 m0 = w.s[kM0];
  i32 source = kTwo ? i32(m0 & 0x3ff) : i32(m0), dest = kTwo ? i32(m0 >> 16 & 0x3ff) : i32(m0);
  Inst moved = in;
  if (kSource && in.src[0].kind == O_VGPR)
    moved.src[0].reg = u16(relative(w, in.src[0].reg, source));
  if (kDest) moved.dst.reg = u16(relative(w, in.dst.reg, dest));
  if (w.stop == Stop::fault) return;
  Buffer t;
  const u32 *p = fetch(w, moved, moved.src[0], t.x);
  commit_bits(w, moved, p, 1);
}

static void swaprel(Wave &w, const Inst &in) { // two offsets in M0
  u32 m0 = w.s[kM0], from = relative(w, in.src[0].reg, i32(m0 & 0x3ff)),
      to = relative(w, in.dst.reg, i32(m0 >> 16 & 0x3ff));
  if (w.stop == Stop::fault) return;
  u64 exec = exec_of(w);
  for (u32 i = 0; i < w.lanes; ++i) {
    if (!(exec >> i & 1)) continue;
    u32 x = w.vgpr(from)[i];
    w.vgpr(from)[i] = w.vgpr(to)[i];
    w.vgpr(to)[i] = x;
  }
}

//===-- Scalar transcendentals of gfx12 -----------------------------------===//

MGX_INLINE u32 with_mods(const Operand &o, u32 x, u32 sign) {
  if (o.mods & M_ABS) x &= ~sign;
  return o.mods & M_NEG ? x ^ sign : x;
}
#define S_TRANS(name, expr32, expr16)                                                              \
  {                                                                                                \
    struct H {                                                                                     \
      static void run32(Wave &w, const Inst &in) {                                                 \
        f32 x = f32_of(with_mods(in.src[0], rs(w, in.src[0]), 0x80000000));                        \
        u32 r = as_bits(f32(expr32));                                                              \
        if (in.omod || in.flags & F_CLAMP) modify_one(w, in, r);                                   \
        w.s[in.dst.reg] = r;                                                                       \
      }                                                                                            \
      static void run16(Wave &w, const Inst &in) {                                                 \
        u32 bits = rs(w, in.src[0]) >> (in.src[0].sel == 5 ? 16 : 0) & 0xffff;                     \
        f64 x = half_to_float(with_mods(in.src[0], bits, 0x8000));                                 \
        w.s[in.dst.reg] = float_to_half(to_odd(expr16));                                           \
      }                                                                                            \
    };                                                                                             \
    add_scalar(t, "v_s_" name "_f32", H::run32, Ty::f32);                                          \
    add_scalar(t, "v_s_" name "_f16", H::run16, Ty::f16);                                          \
  }
static void modify_one(Wave &w, const Inst &in, u32 &r) {
  Buffer b;
  for (u32 i = 0; i < w.lanes; ++i) b.x[i] = r;
  modify_f32(w, in, b.x);
  r = b.x[0];
}
static void add_scalar(OpTable &t, const char *name, Handler fn, Ty ty) {
  OpInfo o;
  o.fn = fn;
  o.dst = Ty::b32;
  o.src[0] = ty;
  o.nsrc = 1;
  o.kind = 1;
  o.cls = Class::trans;
  add_op(t, name, o);
}

//===-- Graphics and video ------------------------------------------------===//

struct Cube {
  f32 id, s, t, m;
};
MGX_INLINE Cube cube(f32 x, f32 y, f32 z) {
  f32 ax = __builtin_fabsf(x), ay = __builtin_fabsf(y), az = __builtin_fabsf(z);
  if (az >= ax && az >= ay) return {z < 0 ? 5.0f : 4.0f, z < 0 ? -x : x, -y, 2 * z};
  if (ay >= ax) return {y < 0 ? 3.0f : 2.0f, x, y < 0 ? -z : z, 2 * y};
  return {x < 0 ? 1.0f : 0.0f, x < 0 ? z : -z, -y, 2 * x};
}
// Sum of absolute differences; `masked` skips zero bytes of the reference.
MGX_INLINE u32 sad4(u32 a, u32 b, bool masked) {
  u32 sum = 0;
  for (u32 i = 0; i < 32; i += 8) {
    u32 x = a >> i & 0xff, y = b >> i & 0xff;
    if (!masked || y) sum += x > y ? x - y : y - x;
  }
  return sum;
}
template <bool kMasked> static void qsad_pk(Wave &w, const Inst &in) {
  Buffer t0, t1, t2, td;
  MGX_LANES(w)
  const u32 *a = fetch(w, in, in.src[0], t0.x), *b = fetch(w, in, in.src[1], t1.x),
            *c = fetch(w, in, in.src[2], t2.x);
  for (u32 i = 0; i < n; ++i) {
    u64 x = ld<u64>(a, i), addend = ld<u64>(c, i), r = 0;
    for (u32 k = 0; k < 4; ++k) {
      u32 sum = u32(addend >> (16 * k) & 0xffff) + sad4(u32(x >> (8 * k)), b[i], kMasked);
      if (in.flags & F_CLAMP && sum > 0xffff) sum = 0xffff;
      r |= u64(sum & 0xffff) << (16 * k);
    }
    st<u64>(td.x, i, r);
  }
  commit_bits(w, in, td.x, 2);
}
static void mqsad_u32(Wave &w, const Inst &in) {
  Buffer t0, t1;
  u32 r[4][kLanes];
  MGX_LANES(w)
  const u32 *a = fetch(w, in, in.src[0], t0.x), *b = fetch(w, in, in.src[1], t1.x);
  if (in.src[2].kind != O_VGPR)
    return raise_fault(w, Fault::invalid_instruction, -1, 0,
                       "v_mqsad_u32_u8 without register addend");
  const u32 *c = w.vgpr(in.src[2].reg);
  for (u32 i = 0; i < n; ++i)
    for (u32 k = 0; k < 4; ++k)
      r[k][i] = c[k * kLanes + i] + sad4(u32(ld<u64>(a, i) >> (8 * k)), b[i], true);
  const u32 *m = mask_lanes(w, exec_of(w));
  u32 *d = w.vgpr(in.dst.reg);
  for (u32 k = 0; k < 4; ++k)
    for (u32 i = 0; i < n; ++i)
      if (m[i]) d[k * kLanes + i] = r[k][i];
}

// gfx950: f32 to f16 or bf16 with stochastic rounding, into the half op_sel[3] names.
template <bool kBf16> static void cvt_sr_16(Wave &w, const Inst &in) {
  Buffer t0, t1, td;
  MGX_LANES(w)
  const u32 *a = fetch(w, in, in.src[0], t0.x), *b = fetch(w, in, in.src[1], t1.x),
            *old = w.vgpr(in.dst.reg);
  bool high = in.op_sel >> 3 & 1;
  for (u32 i = 0; i < n; ++i) {
    u32 h = encode_stochastic(f32_of(a[i]), b[i], kBf16 ? kFormatBf16 : kFormatF16);
    td.x[i] = high ? (old[i] & 0xffff) | h << 16 : (old[i] & 0xffff0000) | (h & 0xffff);
  }
  commit_bits(w, in, td.x, 1);
}

static void swap_b16(Wave &w, const Inst &in) {
  u64 exec = exec_of(w);
  u32 *a = w.vgpr(in.dst.reg), *b = w.vgpr(in.src[0].reg);
  u32 sa = in.flags & F_OPSEL_HI ? 16 : 0, sb = in.src[0].sel == 5 ? 16 : 0;
  for (u32 i = 0; i < w.lanes; ++i) {
    if (!(exec >> i & 1)) continue;
    u32 x = a[i] >> sa & 0xffff, y = b[i] >> sb & 0xffff;
    a[i] = (a[i] & ~(0xffffu << sa)) | y << sa;
    b[i] = (b[i] & ~(0xffffu << sb)) | x << sb;
  }
}

MGX_INLINE u32 clip(i32 x, i32 lo, i32 hi) { return u32(x < lo ? lo : x > hi ? hi : x); }

void register_valu_misc(OpTable &t) {
  auto add = [&](const char *name, Handler fn, Ty dst, Ty a, Ty b = Ty::none, Ty c = Ty::none) {
    OpInfo o;
    o.fn = fn;
    o.dst = dst;
    o.src[0] = a;
    o.src[1] = b;
    o.src[2] = c;
    o.nsrc = u8(1 + (b != Ty::none) + (c != Ty::none));
    add_op(t, name, o);
  };
  add("v_bitop3_b32", bitop3, Ty::b32, Ty::b32, Ty::b32, Ty::b32);
  add("v_bitop3_b16", bitop3, Ty::b16, Ty::b16, Ty::b16, Ty::b16);
  add("v_movrels_b32", movrel<true, false, false>, Ty::b32, Ty::b32);
  add("v_movreld_b32", movrel<false, true, false>, Ty::b32, Ty::b32);
  add("v_movrelsd_b32", movrel<true, true, false>, Ty::b32, Ty::b32);
  add("v_movrelsd_2_b32", movrel<true, true, true>, Ty::b32, Ty::b32);
  add("v_swaprel_b32", swaprel, Ty::b32, Ty::b32);
  add("v_swap_b16", swap_b16, Ty::b16, Ty::b16);
  add("v_qsad_pk_u16_u8", qsad_pk<false>, Ty::b64, Ty::b64, Ty::b32, Ty::b64);
  add("v_mqsad_pk_u16_u8", qsad_pk<true>, Ty::b64, Ty::b64, Ty::b32, Ty::b64);
  add("v_mqsad_u32_u8", mqsad_u32, Ty::b128, Ty::b64, Ty::b32, Ty::b128);
  add("v_cvt_sr_f16_f32", cvt_sr_16<false>, Ty::b32, Ty::f32, Ty::b32);
  add("v_cvt_sr_bf16_f32", cvt_sr_16<true>, Ty::b32, Ty::f32, Ty::b32);
  S_TRANS("exp", exp2_f32(x), __builtin_exp2(x))
  S_TRANS("log", log2_f32(x), __builtin_log2(x))
  S_TRANS("rcp", rcp_f32(x), 1.0 / x)
  S_TRANS("rsq", rsq_f32(x), 1.0 / __builtin_sqrt(x))
  S_TRANS("sqrt", sqrt_f32(x), __builtin_sqrt(x))
  OP3("v_cubeid_f32", f32, f32, f32, f32, cube(a, b, c).id)
  OP3("v_cubesc_f32", f32, f32, f32, f32, cube(a, b, c).s)
  OP3("v_cubetc_f32", f32, f32, f32, f32, cube(a, b, c).t)
  OP3("v_cubema_f32", f32, f32, f32, f32, cube(a, b, c).m)
  OP3("v_mullit_f32", f32, f32, f32, f32,
      b == -3.402823466e38f || !(b >= -3.402823466e38f) || !(c > 0)
          ? -3.402823466e38f
          : (a == 0 || b == 0 ? 0.0f : a * b))
  OP3("v_msad_u8", u32, u32, u32, u32, sad4(a, b, true) + c)
  OP3("v_ashr_pk_i8_i32", u16, i32, i32, u32,
      (clip(a >> (c & 31), -128, 127) & 0xff) | (clip(b >> (c & 31), -128, 127) & 0xff) << 8)
  OP3("v_ashr_pk_u8_i32", u16, i32, i32, u32,
      clip(a >> (c & 31), 0, 255) | clip(b >> (c & 31), 0, 255) << 8)
  OPACC("v_dot2c_i32_i16", u32, u32, u32, u32,
        u32(i32(i16(a)) * i16(b) + i32(i16(a >> 16)) * i16(b >> 16)) + c)
  // Older forms of gfx9, whose 16-bit results clear the high half.
  auto same = [&](const char *name, const char *as) { add_op(t, name, *find_op(t, as)); };
  same("v_fma_legacy_f16", "v_fma_f16");
  same("v_mad_legacy_f16", "v_mad_f16");
  same("v_mad_legacy_u16", "v_mad_u16");
  same("v_mad_legacy_i16", "v_mad_i16");
  same("v_div_fixup_legacy_f16", "v_div_fixup_f16");
  same("v_exp_legacy_f32", "v_exp_f32");
  same("v_log_legacy_f32", "v_log_f32");
  same("v_madak_f16", "v_mad_f16");
  same("v_madmk_f16", "v_mad_f16");
  same("v_madak_f32", "v_mad_f32");
  same("v_madmk_f32", "v_mad_f32");
  same("v_clrexcp", "v_nop");
  same("v_pipeflush", "v_nop");
  OPACC("v_mac_f16", h16, h16, h16, h16, half_to_float(float_to_half(a.v * b.v)) + c.v)
  OP3("v_mad_legacy_f32", f32, f32, f32, f32, (a == 0 || b == 0 ? 0.0f : a * b) + c)
}

} // namespace MGX_ISA
} // namespace mgx::emu
