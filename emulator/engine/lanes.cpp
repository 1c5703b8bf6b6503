// The slow ways in and out of a vector instruction: DPP, SDWA, half registers,
// input and output modifiers.
#include "valu.h"

namespace mgx::emu {
inline namespace MGX_ISA {

static void apply_dpp(Wave &w, const Inst &in, const u32 *p, u32 *out, u32 words) {
  const DppTable &t = *static_cast<const DppTable *>(in.aux);
  MGX_LANES(w)
  const u32 size = n == 64;
  const u8 *from = t.from[size];
  u64 exec = exec_of(w), ok = t.valid[size];
  if (!(in.flags & F_FI) && exec != w.all) {
    u64 active = 0;
    for (u32 i = 0; i < n; ++i) active |= (exec >> from[i] & 1) << i;
    ok &= active;
  }
  alignas(64) u32 result[2 * kLanes];
  for (u32 k = 0; k < words; ++k)
    for (u32 i = 0; i < n; ++i) result[k * kLanes + i] = p[k * kLanes + from[i]];
  if (ok != w.all) { // lanes without source read 0; who may not write is left out below
    alignas(64) u32 m[kLanes];
    spread(m, ok, n);
    for (u32 k = 0; k < words; ++k) MGX_EACH result[k * kLanes + i] &= m[i];
  }
  std::memcpy(out, result, words * kLanes * 4);
  bool all_write = in.flags & (F_BOUND | F_DPP8);
  w.wmask = exec & t.enabled[size] & (all_write ? ~u64(0) : ok);
}

const u32 *fetch_slow(Wave &w, const Inst &in, const Operand &o, u32 *buffer) {
  MGX_LANES(w)
  const u32 *p;
  if (o.kind == O_VGPR) {
    p = w.vgpr(o.reg);
  } else if (o.kind == O_CONST) {
    p = o.k;
  } else {
    u64 x = o.words == 2 ? rs64(w, o) : rs(w, o);
    for (u32 i = 0; i < n; ++i) {
      buffer[i] = u32(x);
      buffer[kLanes + i] = u32(x >> 32);
    }
    p = buffer;
  }
  if (!o.slow) return p;
  u32 words = o.words == 2 ? 2 : 1;
  if (o.mods & M_DPP) {
    apply_dpp(w, in, p, buffer, words);
    p = buffer;
  }
  if (o.sel < 4) {
    u32 shift = o.sel * 8;
    for (u32 i = 0; i < n; ++i) {
      u32 x = p[i] >> shift & 0xff;
      buffer[i] = o.mods & M_SEXT ? u32(i32(i8(x))) : x;
    }
    p = buffer;
  } else if (o.sel < 6) {
    u32 shift = (o.sel - 4) * 16;
    for (u32 i = 0; i < n; ++i) {
      u32 x = p[i] >> shift & 0xffff;
      buffer[i] = o.mods & M_SEXT ? u32(i32(i16(x))) : x;
    }
    p = buffer;
  }
  if (o.mods & (M_ABS | M_NEG)) {
    u32 sign = o.ty == Ty::f16 || o.ty == Ty::bf16 ? 0x8000 : 0x80000000;
    u32 keep = o.mods & M_ABS ? ~sign : ~0u, flip = o.mods & M_NEG ? sign : 0;
    u32 high = words == 2 ? kLanes : 0;
    if (words == 2)
      for (u32 i = 0; i < n; ++i) buffer[i] = p[i];
    for (u32 i = 0; i < n; ++i) buffer[high + i] = (p[high + i] & keep) ^ flip;
    p = buffer;
  }
  return p;
}

void commit_bits(Wave &w, const Inst &in, const u32 *x, u32 words) {
  MGX_LANES(w)
  u64 mask = in.flags & (F_DPP8 | F_DPP16) ? w.wmask : exec_of(w);
  const u32 *m = mask_lanes(w, mask);
  u32 *d = w.vgpr(in.dst.reg);
  if (in.flags & F_SDWA && words == 1) {
    u32 sel = in.dpp >> 8 & 7, unused = in.dpp >> 11 & 3;
    u32 shift = sel < 4 ? sel * 8 : sel < 6 ? (sel - 4) * 16 : 0;
    u32 field = sel < 4 ? 0xff : sel < 6 ? 0xffff : ~0u;
    u32 top = field == 0xff ? 0x80 : 0x8000;
    for (u32 i = 0; i < n; ++i) {
      u32 v = (x[i] & field) << shift;
      if (sel != 6) {
        if (unused == 2) v |= d[i] & ~(field << shift);
        else if (unused == 1 && (x[i] & top)) v |= ~((field << shift) | ((1u << shift) - 1));
      }
      if (m[i]) d[i] = v;
    }
    return;
  }
  if (in.flags & (F_OPSEL_HI | F_MERGE16) && words == 1) {
    if (in.flags & F_OPSEL_HI)
      for (u32 i = 0; i < n; ++i) d[i] = m[i] ? (d[i] & 0xffff) | x[i] << 16 : d[i];
    else
      for (u32 i = 0; i < n; ++i) d[i] = m[i] ? (d[i] & 0xffff0000) | (x[i] & 0xffff) : d[i];
    return;
  }
  for (u32 k = 0; k < words; ++k) {
    u32 *r = d + k * kLanes;
    const u32 *y = x + k * kLanes;
    MGX_EACH r[i] = (r[i] & ~m[i]) | (y[i] & m[i]);
  }
}

// MODE.DX10_CLAMP (bit 8): a clamped NaN becomes 0. gfx12 always does so.
static bool dx10_clamp(const Wave &w) { return (w.mode >> 8 & 1) || w.chip->is_gfx12(); }

template <class T> static T modified(T x, u32 omod, bool clamp, bool nan_to_zero) {
  if (omod) x = x * (omod == 1 ? T(2) : omod == 2 ? T(4) : T(0.5));
  if (clamp) {
    if (x != x) return nan_to_zero ? T(0) : x;
    x = x > T(1) ? T(1) : x > T(0) ? x : T(0);
  }
  return x;
}

void modify_f32(const Wave &w, const Inst &in, u32 *x) {
  bool z = dx10_clamp(w);
  for (u32 i = 0; i < w.lanes; ++i)
    x[i] = as_bits(modified(f32_of(x[i]), in.omod, in.flags & F_CLAMP, z));
}
void modify_f64(const Wave &w, const Inst &in, u32 *x) {
  bool z = dx10_clamp(w);
  for (u32 i = 0; i < w.lanes; ++i)
    st<f64>(x, i, modified(ld<f64>(x, i), in.omod, in.flags & F_CLAMP, z));
}
void modify_f16(const Wave &w, const Inst &in, u32 *x) {
  bool z = dx10_clamp(w);
  for (u32 i = 0; i < w.lanes; ++i) {
    u32 high = x[i] & 0xffff0000;
    x[i] = high |
           float_to_half(modified(half_to_float(x[i] & 0xffff), in.omod, in.flags & F_CLAMP, z));
  }
}

} // namespace MGX_ISA
} // namespace mgx::emu
