// Which encoding an instruction has, its operands, and the fields of the scalar families.
#include "decode_fields.h"

namespace mgx::emu {

Encoding classify(const Chip &chip, u32 d0) {
  if (!(d0 >> 31)) {
    u32 t = d0 >> 25;
    return t == 0x3f ? Encoding::vop1 : t == 0x3e ? Encoding::vopc : Encoding::vop2;
  }
  if (d0 >> 30 == 2) {
    u32 t = d0 >> 23;
    if (t == 0x17d) return Encoding::sop1;
    if (t == 0x17e) return Encoding::sopc;
    if (t == 0x17f) return Encoding::sopp;
    return d0 >> 28 == 0xb ? Encoding::sopk : Encoding::sop2;
  }
  bool gfx9 = chip.is_gfx9(), gfx12 = chip.is_gfx12();
  switch (d0 >> 26) {
  case 0x30: return gfx9 ? Encoding::smem : Encoding::none;
  case 0x31: return gfx12 ? Encoding::mubuf : Encoding::none;
  case 0x32: return chip.is_gfx11() || gfx12 ? Encoding::vopd : Encoding::none;
  case 0x33: return !gfx9 && d0 >> 24 == 0xcc ? Encoding::vop3p : Encoding::none;
  case 0x34: return !gfx9 ? Encoding::none : d0 >> 23 == 0x1a7 ? Encoding::vop3p : Encoding::vop3;
  case 0x35: return gfx9 ? Encoding::none : Encoding::vop3;
  case 0x36: return Encoding::ds;
  case 0x37: return gfx12 ? Encoding::none : Encoding::flat;
  case 0x38: return gfx12 ? Encoding::none : Encoding::mubuf;
  case 0x3a: return gfx12 ? Encoding::none : Encoding::mtbuf;
  case 0x3b: return gfx12 ? Encoding::flat : Encoding::none;
  case 0x3d: return gfx9 ? Encoding::none : Encoding::smem;
  }
  return Encoding::none;
}

const char *graphics_family(const Chip &chip, u32 d0) {
  u32 top = d0 >> 26;
  if (chip.is_gfx12() && (top == 0x34 || top == 0x39)) return "image";
  if (!chip.is_gfx12() && top == 0x3c) return "image";
  if (top == (chip.is_gfx9() ? 0x31u : 0x3eu)) return "export";
  if (chip.is_gfx9() ? top == 0x35 : chip.is_gfx10() ? top == 0x32 : top == 0x33)
    return "interpolation";
  return nullptr;
}

Opcode opcode_of(const Chip &chip, Encoding enc, const u32 *d) {
  bool gfx9 = chip.is_gfx9(), gfx10 = chip.is_gfx10(), gfx11 = chip.is_gfx11(),
       gfx12 = chip.is_gfx12();
  Opcode o;
  u32 &m = o.mask[0];
  switch (enc) {
  case Encoding::sop1: m = 0xff80ff00; break;
  case Encoding::sop2:
  case Encoding::sopk: m = 0xff800000; break;
  case Encoding::sopc:
  case Encoding::sopp: m = 0xffff0000; break;
  case Encoding::smem: m = gfx12 ? 0xfc07e000 : 0xfffc0000; break;
  case Encoding::vop1: m = 0xfe01fe00; break;
  case Encoding::vop2: m = 0xfe000000; break;
  case Encoding::vopc: m = 0xfffe0000; break;
  case Encoding::vop3: m = 0xffff0000; break;
  case Encoding::vop3p:
    m = 0xffff0000;
    // The scale prefix is named with the matrix instruction behind it.
    if (gfx9 && bits(d[0], 22, 16) == 0x2c) o.mask[2] = m;
    break;
  case Encoding::ds: m = gfx9 ? 0xfdfe0000 : 0xfffc0000; break;
  case Encoding::flat:
    m = gfx12 ? 0xff3fc000 : gfx11 ? 0xfdff0000 : 0xfdfcc000;
    if (!gfx12 && !gfx11 && !chip.gfx940_up()) m |= 1u << 13; // to LDS
    break;
  case Encoding::mubuf: m = gfx12 ? 0xfc3fc000 : gfx11 ? 0xfffc0000 : 0xfffd0000; break;
  case Encoding::mtbuf:
    m = gfx10 ? 0xfc070000 : 0xfc078000;
    if (gfx10) o.mask[1] = 1u << 21;
    break;
  default: break;
  }
  for (u32 i = 0; i < 3; ++i) o.bits[i] = d[i] & o.mask[i];
  return o;
}

u32 words_of(Ty ty) {
  switch (ty) {
  case Ty::none: return 0;
  case Ty::b64:
  case Ty::i64:
  case Ty::f64:
  case Ty::pk_f32: return 2;
  case Ty::b96: return 3;
  case Ty::b128: return 4;
  case Ty::b192: return 6;
  case Ty::b256: return 8;
  case Ty::b512: return 16;
  case Ty::b1024: return 32;
  default: return 1;
  }
}

//===-- Operands ----------------------------------------------------------===//

const u32 *Fields::constant(u64 value) {
  auto &c = p_.constants[value];
  if (!c) {
    c.reset(new u32[2 * kLanes]);
    for (u32 i = 0; i < kLanes; ++i) {
      c[i] = u32(value);
      c[kLanes + i] = u32(value >> 32);
    }
  }
  return c.get();
}

Operand Fields::constant_operand(u64 value, Ty ty) {
  Operand o;
  o.kind = O_CONST;
  o.ty = ty;
  o.words = u8(words_of(ty));
  o.k = constant(value);
  return o;
}

Operand Fields::vector(u32 reg, Ty ty, bool acc) {
  Operand o;
  o.kind = O_VGPR;
  o.ty = ty;
  o.words = u8(words_of(ty));
  o.reg = u16(reg + (acc ? kAccBase : 0));
  if (acc) p_.uses_agprs = true;
  return o;
}

// gfx11 and later name the halves of v0-v127 in the 8-bit fields of the 32-bit
// encodings: bit 7 is the half (RDNA3 ISA, "16-bit VGPRs").
Operand Fields::vector16(u32 field, Ty ty) {
  if (!true16() || !is16(ty)) return vector(field, ty);
  Operand o = vector(field & 127, ty);
  o.sel = field & 128 ? 5 : 4;
  o.slow = field & 128;
  return o;
}

Operand Fields::scalar(u32 field, Ty ty, bool dst) {
  Operand o;
  o.kind = O_SGPR;
  o.ty = ty;
  o.words = u8(words_of(ty));
  bool swapped = chip_.is_gfx11() || chip_.is_gfx12();
  u32 null = chip_.is_gfx9() ? ~0u : swapped ? 124 : 125, m0 = swapped ? 125 : 124;
  if (field == m0) o.reg = kM0;
  else if (field == null) {
    if (!dst) return constant_operand(0, ty);
    o.reg = kSink;
  } else if (field >= 128) {
    bad_operand_ = true;
    o.reg = kSink;
  } else {
    o.reg = u16(field);
  }
  return o;
}

u64 Fields::inline_float(u32 field, Ty ty) {
  static const f32 f[] = {0.5f, -0.5f, 1, -1, 2, -2, 4, -4};
  static const f64 d[] = {0.5, -0.5, 1, -1, 2, -2, 4, -4};
  static const u16 h[] = {0x3800, 0xb800, 0x3c00, 0xbc00, 0x4000, 0xc000, 0x4400, 0xc400, 0x3118};
  static const u16 b[] = {0x3f00, 0xbf00, 0x3f80, 0xbf80, 0x4000, 0xc000, 0x4080, 0xc080, 0x3e22};
  u32 i = field - 240;
  switch (ty) {
  case Ty::f16:
  case Ty::pk_f16: return h[i];
  case Ty::bf16:
  case Ty::pk_bf16: return b[i];
  case Ty::f64:
  case Ty::b64:
  case Ty::i64: {
    u64 x = 0x3fc45f306dc9c882; // 1 / (2 pi)
    if (i < 8) std::memcpy(&x, &d[i], 8);
    return x;
  }
  default: {
    u32 x = 0x3e22f983;
    if (i < 8) std::memcpy(&x, &f[i], 4);
    return ty == Ty::pk_f32 ? u64(x) << 32 | x : x;
  }
  }
}

Operand Fields::source(u32 field, Ty ty, u32 literal) {
  if (field >= 256) return vector(field - 256, ty);
  if (field < 128) return scalar(field, ty);
  if (field <= 208) {
    i64 v = field <= 192 ? i64(field) - 128 : 192 - i64(field);
    return constant_operand(words_of(ty) == 2 && ty != Ty::pk_f32 ? u64(v)
                            : ty == Ty::pk_f32                    ? u64(u32(v)) << 32 | u32(v)
                                                                  : u32(v),
                            ty);
  }
  if (field >= 240 && field <= 248) return constant_operand(inline_float(field, ty), ty);
  switch (field) {
  case 235: return constant_operand(ty == Ty::b64 ? kSharedBase : u32(kSharedBase), ty);
  case 236: return constant_operand(ty == Ty::b64 ? kSharedBase + kApertureSize - 1 : ~0u, ty);
  case 237: return constant_operand(ty == Ty::b64 ? kPrivateBase : u32(kPrivateBase), ty);
  case 238: return constant_operand(ty == Ty::b64 ? kPrivateBase + kApertureSize - 1 : ~0u, ty);
  case 251:
  case 252:
  case 253: {
    Operand o;
    o.kind = field == 251 ? O_VCCZ : field == 252 ? O_EXECZ : O_SCC;
    o.ty = ty;
    o.words = u8(words_of(ty));
    return o;
  }
  case kLiteral:
    bad_operand_ |= !literal_allowed_;
    if (ty == Ty::f64) return constant_operand(u64(literal) << 32, ty);
    if (ty == Ty::i64) return constant_operand(u64(i64(i32(literal))), ty);
    if (ty == Ty::pk_f32) return constant_operand(u64(literal) << 32 | literal, ty);
    return constant_operand(literal, ty);
  }
  bad_operand_ = true; // reserved
  return constant_operand(0, ty);
}

void Fields::modifiers(Inst &in, u32 i, bool abs, bool neg) {
  Operand &o = in.src[i];
  if (abs) o.mods |= M_ABS;
  if (neg) o.mods |= M_NEG;
}

// Which half of the destination a 16-bit result goes to and what becomes of the
// other: gfx9 clears it (the multiply-adds keep it), later chips keep it.
void Fields::result16(Inst &in, bool high, const std::string &name, bool vop3) {
  if (!is16(in.dst.ty)) return;
  bool keeps = !chip_.is_gfx9();
  if (!keeps)
    for (const char *n : {"v_mad_f16", "v_mad_u16", "v_mad_i16", "v_fma_f16", "v_div_fixup_f16"})
      if (vop3 && name == n) keeps = true;
  if (name.compare(0, 9, "v_mad_mix") == 0 || name.compare(0, 9, "v_fma_mix") == 0) return;
  if (high) in.flags |= F_OPSEL_HI;
  if (keeps || high) in.flags |= F_MERGE16;
}

void Fields::finish(Inst &in, const OpInfo &info) {
  in.fn = info.fn;
  in.rounded = info.rounded;
  in.flags |= info.flags;
  in.cls = info.cls;
  for (Operand &o : in.src)
    if (o.kind != O_NONE) o.slow = o.mods || (o.sel != 6 && !(o.sel == 4 && is16(o.ty)));
  if (!(in.flags & (F_CLAMP | F_DPP8 | F_DPP16 | F_SDWA | F_OPSEL_HI | F_MERGE16)) && !in.omod)
    in.flags |= F_SIMPLE;
}

//===-- Scalar families ---------------------------------------------------===//

u32 Fields::fill(Encoding enc, const OpInfo &info, const u32 *d, Inst &in,
                 const std::string &name) {
  u32 w = d[0], size = 4;
  bad_operand_ = false;
  bool memory = enc == Encoding::smem || enc == Encoding::ds || enc == Encoding::flat ||
                enc == Encoding::mubuf || enc == Encoding::mtbuf;
  bool wide = enc == Encoding::vop3 || enc == Encoding::vop3p;
  literal_allowed_ = !memory && !(wide && chip_.is_gfx9());
  auto src = [&](unsigned i, u32 field) {
    if (info.nsrc <= i) return;
    in.src[i] = source(field, info.src[i], d[1]);
    if (field == kLiteral) size = 8;
  };
  switch (enc) {
  case Encoding::sop2:
    in.dst = scalar(bits(w, 22, 16), info.dst, true);
    src(0, bits(w, 7, 0));
    src(1, bits(w, 15, 8));
    if (info.flags & F_LDS) { // s_fmaak, s_fmamk: a literal beyond the two sources
      in.src[2] = constant_operand(d[1], Ty::f32);
      size = 8;
    }
    break;
  case Encoding::sop1:
    if (info.dst != Ty::none) in.dst = scalar(bits(w, 22, 16), info.dst, true);
    src(0, bits(w, 7, 0));
    break;
  case Encoding::sopc:
    src(0, bits(w, 7, 0));
    src(1, bits(w, 15, 8));
    in.imm = i32(bits(w, 15, 8)); // s_set_gpr_idx_on
    break;
  case Encoding::sopk:
    in.imm = sext(bits(w, 15, 0), 16);
    in.dst = scalar(bits(w, 22, 16), info.dst == Ty::none ? Ty::b32 : info.dst, true);
    // All but s_movk_i32 may read their destination.
    if (name != "s_movk_i32") in.src[0] = scalar(bits(w, 22, 16), Ty::b32);
    if (info.flags & F_LDS) { // s_setreg_imm32_b32
      in.src[0] = constant_operand(d[1], Ty::b32);
      size = 8;
    }
    break;
  case Encoding::sopp: in.imm = sext(bits(w, 15, 0), 16); break;
  case Encoding::smem: size = smem(info, d, in); break;
  case Encoding::vop1:
  case Encoding::vop2:
  case Encoding::vopc: size = vop12c(enc, info, d, in, name); break;
  case Encoding::vop3: size = vop3(info, d, in, name); break;
  case Encoding::vop3p: size = vop3p(info, d, in, name); break;
  case Encoding::ds: size = ds(info, d, in); break;
  case Encoding::flat: size = flat(info, d, in); break;
  case Encoding::mubuf:
  case Encoding::mtbuf: size = buffer(info, d, in, enc == Encoding::mtbuf); break;
  default: return 0;
  }
  finish(in, info);
  if (info.cls == Class::branch && (enc == Encoding::sopp || info.flags & F_VADDR))
    in.flags |= F_VADDR;
  return size;
}

u32 Fields::smem(const OpInfo &info, const u32 *d, Inst &in) {
  u32 w = d[0];
  if (info.dst != Ty::none) in.dst = scalar(bits(w, 12, 6), info.dst, true);
  if (info.nsrc) in.src[0] = scalar(bits(w, 5, 0) * 2, info.src[0]);
  if (info.nsrc < 1) return 8;
  if (info.src[2] != Ty::none)
    in.src[2] = scalar(bits(w, 12, 6), info.src[2]); // stores and atomics
  if (info.flags & F_GLC && !bit(w, 16)) in.dst = Operand(); // an atomic that returns nothing
  if (chip_.is_gfx9()) {
    if (bit(w, 17)) in.imm = sext(bits(d[1], 20, 0), 21);
    if (bit(w, 14)) in.src[1] = scalar(bits(d[1], 31, 25), Ty::b32);
    else if (!bit(w, 17)) in.src[1] = scalar(bits(d[1], 6, 0), Ty::b32);
  } else {
    in.imm = chip_.is_gfx12() ? sext(bits(d[1], 23, 0), 24) : sext(bits(d[1], 20, 0), 21);
    in.src[1] = scalar(bits(d[1], 31, 25), Ty::b32);
  }
  return 8;
}

} // namespace mgx::emu
