// Conversions between number formats.
#include "numeric.h"
#include "valu.h"

namespace mgx::emu {
inline namespace MGX_ISA {

MGX_INLINE Round round32(const Wave &w) { return Round(w.mode & 3); }
MGX_INLINE Round round16(const Wave &w) { return Round(w.mode >> 2 & 3); }

static void register_plain(OpTable &t) {
  OP1("v_cvt_f32_i32", f32, i32, f32(a))
  OP1("v_cvt_f32_u32", f32, u32, f32(a))
  OP1("v_cvt_i32_f32", i32, f32, f32_to_i32(a))
  OP1("v_cvt_u32_f32", u32, f32, f32_to_u32(a))
  OP1("v_cvt_nearest_i32_f32", i32, f32, f32_to_i32_nearest(a))
  OP1("v_cvt_floor_i32_f32", i32, f32, f32_to_i32_floor(a))
  OP1("v_cvt_f64_f32", f64, f32, f64(a))
  OP1("v_cvt_f32_f64", f32, f64, f32(a))
  OP1("v_cvt_f64_i32", f64, i32, f64(a))
  OP1("v_cvt_f64_u32", f64, u32, f64(a))
  OP1("v_cvt_i32_f64", i32, f64, f64_to_i32(a))
  OP1("v_cvt_u32_f64", u32, f64, f64_to_u32(a))
  OP1("v_cvt_f32_f16", f32, h16, a.v)
  OP1("v_cvt_f32_bf16", f32, u16, f32_of(u32(a) << 16))
  OP1("v_cvt_f16_u16", h16, u16, f32(a))
  OP1("v_cvt_f16_i16", h16, i16, f32(a))
  OP1("v_cvt_u16_f16", u16, h16, f16_to_u16(u16(float_to_half(a.v))))
  OP1("v_cvt_i16_f16", i16, h16, f16_to_i16(u16(float_to_half(a.v))))
  OP1("v_cvt_norm_i16_f16", i16, h16, f32_to_snorm16(a.v))
  OP1("v_cvt_norm_u16_f16", u16, h16, f32_to_unorm16(a.v))
  OP1("v_cvt_f32_ubyte0", f32, u32, f32(a & 0xff))
  OP1("v_cvt_f32_ubyte1", f32, u32, f32(a >> 8 & 0xff))
  OP1("v_cvt_f32_ubyte2", f32, u32, f32(a >> 16 & 0xff))
  OP1("v_cvt_f32_ubyte3", f32, u32, f32(a >> 24))
  OP1("v_cvt_off_f32_i4", f32, u32, f32(i32(a << 28) >> 28) / 16)
  OP2("v_cvt_pkrtz_f16_f32", u32, f32, f32, cvt_pkrtz_f16_f32(a, b))
  OP2("v_cvt_pknorm_i16_f32", u32, f32, f32, pack16(u16(f32_to_snorm16(a)), u16(f32_to_snorm16(b))))
  OP2("v_cvt_pknorm_u16_f32", u32, f32, f32, pack16(f32_to_unorm16(a), f32_to_unorm16(b)))
  OP2("v_cvt_pknorm_i16_f16", u32, h16, h16,
      pack16(u16(f32_to_snorm16(a.v)), u16(f32_to_snorm16(b.v))))
  OP2("v_cvt_pknorm_u16_f16", u32, h16, h16, pack16(f32_to_unorm16(a.v), f32_to_unorm16(b.v)))
  OP2("v_cvt_pk_i16_f32", u32, f32, f32, pack16(u16(saturate_to<i16>(a)), u16(saturate_to<i16>(b))))
  OP2("v_cvt_pk_u16_f32", u32, f32, f32, pack16(saturate_to<u16>(a), saturate_to<u16>(b)))
  find_op(t, "v_cvt_f32_bf16")->src[0] = Ty::bf16;
  find_op(t, "v_cvt_f32_f16")->flags = F_F64; // exact, under the mode of its source
}

//===-- Conversions that look at the mode or at op_sel --------------------===//

static void cvt_f16_f32(Wave &w, const Inst &in) {
  Buffer t0, td;
  MGX_LANES(w)
  const u32 *a = fetch(w, in, in.src[0], t0.x);
  bool whole = direct(w, in);
  u32 *d = whole ? w.vgpr(in.dst.reg) : td.x;
  if (round16(w) == Round::kNearestEven) {
    MGX_IVDEP
    for (u32 i = 0; i < n; ++i) d[i] = float_to_half(f32_of(a[i]));
  } else {
    for (u32 i = 0; i < n; ++i) d[i] = f32_to_f16(f32_of(a[i]), round16(w));
  }
  if (!whole) commit<h16>(w, in, d);
}

static void cvt_pk_f16_f32(Wave &w, const Inst &in) {
  Buffer t0, t1, td;
  MGX_LANES(w)
  const u32 *a = fetch(w, in, in.src[0], t0.x), *b = fetch(w, in, in.src[1], t1.x);
  Round r = round16(w);
  for (u32 i = 0; i < n; ++i)
    td.x[i] = pack16(f32_to_f16(f32_of(a[i]), r), f32_to_f16(f32_of(b[i]), r));
  commit_bits(w, in, td.x, 1);
}
static void cvt_pk_bf16_f32(Wave &w, const Inst &in) {
  Buffer t0, t1, td;
  MGX_LANES(w)
  const u32 *a = fetch(w, in, in.src[0], t0.x), *b = fetch(w, in, in.src[1], t1.x);
  for (u32 i = 0; i < n; ++i)
    td.x[i] = pack16(f32_to_bf16(f32_of(a[i]), round16(w)), f32_to_bf16(f32_of(b[i]), round16(w)));
  commit_bits(w, in, td.x, 1);
}
static void cvt_pk_u8_f32(Wave &w, const Inst &in) {
  Buffer t0, t1, t2, td;
  MGX_LANES(w)
  const u32 *a = fetch(w, in, in.src[0], t0.x), *b = fetch(w, in, in.src[1], t1.x),
            *c = fetch(w, in, in.src[2], t2.x);
  for (u32 i = 0; i < n; ++i) {
    u32 shift = (b[i] & 3) * 8;
    td.x[i] = (c[i] & ~(0xffu << shift)) | u32(f32_to_u8(f32_of(a[i]), round32(w))) << shift;
  }
  commit_bits(w, in, td.x, 1);
}

// gfx942 has the "fnuz" formats, gfx950 and gfx12 the OCP ones.
MGX_INLINE bool fnuz(const Wave &w) { return w.chip->generation == Generation::cdna3; }
MGX_INLINE const FloatFormat &fp8_format(const Wave &w, bool bf8) {
  return bf8 ? (fnuz(w) ? kFormatBf8Fnuz : kFormatBf8) : (fnuz(w) ? kFormatFp8Fnuz : kFormatFp8);
}
// Which byte: SDWA or op_sel. In VOP3 the byte index is op_sel[0] + 2 * op_sel[1]
// on gfx942; gfx12 swaps the two bits (RDNA4 ISA, V_CVT_F32_FP8).
template <bool kBf8> static void cvt_f32_fp8(Wave &w, const Inst &in) {
  Buffer t0, td;
  MGX_LANES(w)
  const u32 *a = fetch(w, in, in.src[0], t0.x);
  u32 byte = in.flags & F_SDWA ? 0 : in.op_sel & 3;
  if (w.chip->is_gfx12()) byte = (byte & 1) << 1 | byte >> 1;
  const FloatFormat &f = fp8_format(w, kBf8);
  for (u32 i = 0; i < n; ++i) td.x[i] = as_bits(decode(a[i] >> (8 * byte) & 0xff, f));
  commit<f32>(w, in, td.x);
}
template <bool kBf8> static void cvt_pk_f32_fp8(Wave &w, const Inst &in) {
  Buffer t0, td;
  MGX_LANES(w)
  const u32 *a = fetch(w, in, in.src[0], t0.x);
  u32 shift = in.flags & F_SDWA ? 0 : (in.op_sel & 1) * 16;
  const FloatFormat &f = fp8_format(w, kBf8);
  for (u32 i = 0; i < n; ++i) {
    u32 x = a[i] >> shift;
    u32 lo = as_bits(decode(x & 0xff, f)), hi = as_bits(decode(x >> 8 & 0xff, f));
    td.x[i] = lo;
    td.x[kLanes + i] = hi;
  }
  commit_bits(w, in, td.x, 2);
}
// Two results into one half of the destination (op_sel[3]), the other kept.
// Values beyond the range saturate where MODE.FP16_OVFL (bit 23) asks for it.
template <bool kBf8> static void cvt_pk_fp8_f32(Wave &w, const Inst &in) {
  Buffer t0, t1, td;
  MGX_LANES(w)
  const u32 *a = fetch(w, in, in.src[0], t0.x), *b = fetch(w, in, in.src[1], t1.x);
  const u32 *old = w.vgpr(in.dst.reg);
  bool saturate = (w.mode >> 23 & 1) || (in.flags & F_CLAMP), high = in.op_sel >> 3 & 1;
  for (u32 i = 0; i < n; ++i) {
    u32 x, y;
    if constexpr (kBf8) {
      x = f32_to_bf8(f32_of(a[i]), fnuz(w), saturate);
      y = f32_to_bf8(f32_of(b[i]), fnuz(w), saturate);
    } else {
      x = f32_to_fp8(f32_of(a[i]), fnuz(w), saturate);
      y = f32_to_fp8(f32_of(b[i]), fnuz(w), saturate);
    }
    u32 r = x | y << 8;
    td.x[i] = high ? (old[i] & 0xffff) | r << 16 : (old[i] & 0xffff0000) | r;
  }
  commit_bits(w, in, td.x, 1);
}
// Stochastic rounding: src1 holds random bits; op_sel[3:2] names the byte.
template <bool kBf8> static void cvt_sr_fp8_f32(Wave &w, const Inst &in) {
  Buffer t0, t1, td;
  MGX_LANES(w)
  const u32 *a = fetch(w, in, in.src[0], t0.x), *b = fetch(w, in, in.src[1], t1.x);
  const u32 *old = w.vgpr(in.dst.reg);
  bool saturate = (w.mode >> 23 & 1) || (in.flags & F_CLAMP);
  u32 shift = (in.op_sel >> 2 & 3) * 8;
  const FloatFormat &f = fp8_format(w, kBf8);
  for (u32 i = 0; i < n; ++i) {
    u32 r =
        encode_stochastic(f32_of(a[i]), b[i], f, saturate ? Overflow::kSaturate : Overflow::kIeee);
    td.x[i] = (old[i] & ~(0xffu << shift)) | (r & 0xff) << shift;
  }
  commit_bits(w, in, td.x, 1);
}

static void register_modal(OpTable &t) {
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
  add("v_cvt_f16_f32", cvt_f16_f32, Ty::f16, Ty::f32);
  find_op(t, "v_cvt_f16_f32")->flags = F_F64;
  add("v_cvt_pk_f16_f32", cvt_pk_f16_f32, Ty::b32, Ty::f32, Ty::f32);
  add("v_cvt_pk_bf16_f32", cvt_pk_bf16_f32, Ty::b32, Ty::f32, Ty::f32);
  add("v_cvt_pk_u8_f32", cvt_pk_u8_f32, Ty::b32, Ty::f32, Ty::b32, Ty::b32);
  add("v_cvt_pkaccum_u8_f32", cvt_pk_u8_f32, Ty::b32, Ty::f32, Ty::b32, Ty::b32);
  find_op(t, "v_cvt_pkaccum_u8_f32")->reads_dst = true;
  add("v_cvt_f32_fp8", cvt_f32_fp8<false>, Ty::f32, Ty::b32);
  add("v_cvt_f32_bf8", cvt_f32_fp8<true>, Ty::f32, Ty::b32);
  add("v_cvt_pk_f32_fp8", cvt_pk_f32_fp8<false>, Ty::b64, Ty::b32);
  add("v_cvt_pk_f32_bf8", cvt_pk_f32_fp8<true>, Ty::b64, Ty::b32);
  add("v_cvt_pk_fp8_f32", cvt_pk_fp8_f32<false>, Ty::b32, Ty::f32, Ty::f32);
  add("v_cvt_pk_bf8_f32", cvt_pk_fp8_f32<true>, Ty::b32, Ty::f32, Ty::f32);
  add("v_cvt_sr_fp8_f32", cvt_sr_fp8_f32<false>, Ty::b32, Ty::f32, Ty::b32);
  add("v_cvt_sr_bf8_f32", cvt_sr_fp8_f32<true>, Ty::b32, Ty::f32, Ty::b32);
}

void register_valu_convert(OpTable &t) {
  register_plain(t);
  register_modal(t);
}

} // namespace MGX_ISA
} // namespace mgx::emu
