#include "decode_fields.h"

namespace mgx::emu {

namespace {

bool is16(Ty t) { return t == Ty::b16 || t == Ty::f16 || t == Ty::bf16; }

constexpr u32 kLiteral = 255, kDpp16 = 250, kSdwa = 249, kDpp8 = 233, kDpp8Fi = 234;

} // namespace

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
  case 0x3b: return gfx12 ? Encoding::flat : Encoding::none;
  case 0x3d: return gfx9 ? Encoding::none : Encoding::smem;
  }
  return Encoding::none;
}

u32 opcode_key(const Chip &chip, Encoding enc, const u32 *d) {
  u32 w = d[0], op = 0;
  bool gfx12 = chip.is_gfx12();
  switch (enc) {
  case Encoding::sop1: op = bits(w, 15, 8); break;
  case Encoding::sop2: op = bits(w, 29, 23); break;
  case Encoding::sopk: op = bits(w, 27, 23); break;
  case Encoding::sopc: case Encoding::sopp: op = bits(w, 22, 16); break;
  case Encoding::smem: op = gfx12 ? bits(w, 18, 13) : bits(w, 25, 18); break;
  case Encoding::vop1: op = bits(w, 16, 9); break;
  case Encoding::vop2: op = bits(w, 30, 25); break;
  case Encoding::vopc: op = bits(w, 24, 17); break;
  case Encoding::vop3: op = bits(w, 25, 16); break;
  case Encoding::vop3p:
    op = bits(w, 22, 16);
    if (chip.is_gfx9() && op == 0x2c) op |= bits(d[2], 22, 16) << 8; // scale prefix of the matrix instruction behind it
    break;
  case Encoding::ds: op = chip.is_gfx9() ? bits(w, 24, 17) : bits(w, 25, 18); break;
  case Encoding::flat:
    if (gfx12) op = bits(w, 21, 14) | bits(w, 25, 24) << 8;
    else if (chip.is_gfx11()) op = bits(w, 24, 18) | bits(w, 17, 16) << 8;
    else op = bits(w, 24, 18) | bits(w, 15, 14) << 8 | (chip.gfx940_up() ? 0 : bits(w, 13, 13)) << 10;
    break;
  case Encoding::mubuf:
    if (gfx12) op = bits(w, 21, 14);
    else if (chip.is_gfx11()) op = bits(w, 25, 18);
    else op = bits(w, 25, 18) | bits(w, 16, 16) << 8;
    break;
  default: break;
  }
  return u32(enc) << 20 | op;
}

u32 words_of(Ty ty) {
  switch (ty) {
  case Ty::none: return 0;
  case Ty::b64: case Ty::i64: case Ty::f64: case Ty::pk_f32: return 2;
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
  case Ty::f16: case Ty::pk_f16: return h[i];
  case Ty::bf16: case Ty::pk_bf16: return b[i];
  case Ty::f64: case Ty::b64: case Ty::i64: {
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
    return constant_operand(words_of(ty) == 2 && ty != Ty::pk_f32 ? u64(v) : ty == Ty::pk_f32 ? u64(u32(v)) << 32 | u32(v) : u32(v), ty);
  }
  if (field >= 240 && field <= 248) return constant_operand(inline_float(field, ty), ty);
  switch (field) {
  case 235: return constant_operand(ty == Ty::b64 ? kSharedBase : u32(kSharedBase), ty);
  case 236: return constant_operand(ty == Ty::b64 ? kSharedBase + kApertureSize - 1 : ~0u, ty);
  case 237: return constant_operand(ty == Ty::b64 ? kPrivateBase : u32(kPrivateBase), ty);
  case 238: return constant_operand(ty == Ty::b64 ? kPrivateBase + kApertureSize - 1 : ~0u, ty);
  case 251: case 252: case 253: {
    Operand o;
    o.kind = field == 251 ? O_VCCZ : field == 252 ? O_EXECZ : O_SCC;
    o.ty = ty;
    o.words = u8(words_of(ty));
    return o;
  }
  case kLiteral:
    if (ty == Ty::f64) return constant_operand(u64(literal) << 32, ty);
    if (ty == Ty::i64) return constant_operand(u64(i64(i32(literal))), ty);
    if (ty == Ty::pk_f32) return constant_operand(u64(literal) << 32 | literal, ty);
    return constant_operand(literal, ty);
  }
  return constant_operand(0, ty); // reserved
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
  in.flags |= info.flags;
  in.cls = info.cls;
  for (Operand &o : in.src)
    if (o.kind != O_NONE) o.slow = o.mods || (o.sel != 6 && !(o.sel == 4 && is16(o.ty)));
  if (!(in.flags & (F_CLAMP | F_DPP8 | F_DPP16 | F_SDWA | F_OPSEL_HI | F_MERGE16)) && !in.omod) in.flags |= F_SIMPLE;
}

//===-- Scalar families ---------------------------------------------------===//

u32 Fields::fill(Encoding enc, const OpInfo &info, const u32 *d, Inst &in, const std::string &name) {
  u32 w = d[0], size = 4;
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
  case Encoding::vop1: case Encoding::vop2: case Encoding::vopc: size = vop12c(enc, info, d, in, name); break;
  case Encoding::vop3: size = vop3(info, d, in, name); break;
  case Encoding::vop3p: size = vop3p(info, d, in, name); break;
  case Encoding::ds: size = ds(info, d, in); break;
  case Encoding::flat: size = flat(info, d, in); break;
  case Encoding::mubuf: size = buffer(info, d, in); break;
  default: return 0;
  }
  finish(in, info);
  if (info.cls == Class::branch && (enc == Encoding::sopp || info.flags & F_VADDR)) in.flags |= F_VADDR;
  return size;
}

u32 Fields::smem(const OpInfo &info, const u32 *d, Inst &in) {
  u32 w = d[0];
  if (info.dst != Ty::none) in.dst = scalar(bits(w, 12, 6), info.dst, true);
  if (info.nsrc) in.src[0] = scalar(bits(w, 5, 0) * 2, info.src[0]);
  if (info.nsrc < 1) return 8;
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

//===-- Vector ALU --------------------------------------------------------===//

// The lane that lane `i` reads under a DPP control word, -1 if there is none
// (Vega ISA "DPP", RDNA2 ISA "DPP16").
static int dpp_source(u32 control, int i, int n, bool gfx9) {
  int row = i & ~15, at = i & 15, amount = int(control & 15);
  switch (control >> 4) {
  case 0x10: return at + amount < 16 ? i + amount : -1;  // row_shl
  case 0x11: return at >= amount ? i - amount : -1;      // row_shr
  case 0x12: return row | ((at - amount) & 15);          // row_ror
  case 0x13:
    switch (amount) {
    case 0: return i + 1 < n ? i + 1 : -1; // wave_shl:1
    case 4: return (i + 1) % n;            // wave_rol:1
    case 8: return i - 1;                  // wave_shr:1
    case 12: return (i + n - 1) % n;       // wave_ror:1
    }
    return -1;
  case 0x14:
    switch (amount) {
    case 0: return row | (15 - at);                     // row_mirror
    case 1: return (i & ~7) | (7 - (i & 7));            // row_half_mirror
    case 2: return row ? row - 1 : -1;                  // row_bcast:15
    case 3: return i >= 32 ? 31 : -1;                   // row_bcast:31
    }
    return -1;
  case 0x15: return row | amount;                         // row_newbcast, row_share
  case 0x16: return gfx9 ? -1 : row | (at ^ amount);      // row_xmask
  }
  if (control < 0x100) return (i & ~3) | int(control >> (2 * (i & 3)) & 3); // quad_perm
  return -1;
}

const DppTable *Fields::dpp_table(bool eight, u32 word) {
  auto &t = p_.dpp[u64(eight) << 32 | (word & (eight ? ~0xffu : 0xff01ff00u))];
  if (t) return t.get();
  t = std::make_unique<DppTable>();
  for (u32 size = 0; size < 2; ++size) {
    int n = size ? 64 : 32;
    for (int i = 0; i < n; ++i) {
      int from = eight ? (i & ~7) | int(word >> (8 + 3 * (i & 7)) & 7) : dpp_source(word >> 8 & 0x1ff, i, n, chip_.is_gfx9());
      bool enabled = eight || ((word >> 28 >> (i >> 4) & 1) && (word >> 24 >> (i >> 2 & 3) & 1));
      t->from[size][i] = u8(from < 0 ? i : from);
      t->valid[size] |= u64(from >= 0) << i;
      t->enabled[size] |= u64(enabled) << i;
    }
  }
  return t.get();
}

void Fields::dpp(Inst &in, u32 marker, u32 word, bool vop3) {
  in.src[0] = vop3 ? vector(bits(word, 7, 0), in.src[0].ty) : vector16(bits(word, 7, 0), in.src[0].ty);
  in.src[0].mods |= M_DPP;
  in.aux = dpp_table(marker != kDpp16, word);
  if (marker == kDpp16) {
    in.flags |= F_DPP16 | (bit(word, 18) ? u32(F_FI) : 0) | (bit(word, 19) ? u32(F_BOUND) : 0);
    in.dpp = word;
    if (!vop3) {
      modifiers(in, 0, bit(word, 21), bit(word, 20));
      if (in.src[1].kind != O_NONE) modifiers(in, 1, bit(word, 23), bit(word, 22));
    }
  } else {
    in.flags |= F_DPP8 | (marker == kDpp8Fi ? u32(F_FI) : 0);
    in.dpp = word >> 8;
  }
}

void Fields::sdwa(Inst &in, const OpInfo &info, u32 word, bool compare) {
  in.flags |= F_SDWA;
  in.dpp = word;
  Ty t0 = in.src[0].ty;
  in.src[0] = bit(word, 23) ? source(bits(word, 7, 0), t0, 0) : vector(bits(word, 7, 0), t0);
  if (info.nsrc > 1 && bit(word, 31)) in.src[1] = source(in.src[1].reg, info.src[1], 0);
  for (unsigned i = 0; i < 2 && i < info.nsrc; ++i) {
    unsigned at = 16 + 8 * i;
    Operand &o = in.src[i];
    if (o.kind == O_NONE || (i == 1 && info.reads_vcc && info.nsrc < 2)) continue;
    o.sel = u8(bits(word, at + 2, at));
    if (bit(word, at + 3)) o.mods |= M_SEXT;
    modifiers(in, i, bit(word, at + 5), bit(word, at + 4));
  }
  if (compare) {
    if (bit(word, 15)) in.sdst = scalar(bits(word, 14, 8), Ty::mask, true);
    return;
  }
  if (bit(word, 13)) in.flags |= F_CLAMP;
  in.omod = u8(bits(word, 15, 14));
}

u32 Fields::vop12c(Encoding enc, const OpInfo &info, const u32 *d, Inst &in, const std::string &name) {
  u32 w = d[0], size = 4, s0 = bits(w, 8, 0);
  u32 vdst = bits(w, 24, 17), vsrc1 = bits(w, 16, 9);
  bool compare = enc == Encoding::vopc;
  u32 n = info.nsrc - (info.reads_vcc ? 1 : 0) - (info.reads_dst ? 1 : 0);
  if (n > 0) in.src[0] = s0 >= 256 ? vector16(s0 - 256, info.src[0]) : source(s0, info.src[0], d[1]);
  if (s0 == kLiteral && n > 0) size = 8;
  if (compare) {
    in.src[1] = vector16(vsrc1, info.src[1]);
    // From gfx10 on a v_cmpx writes EXEC alone (RDNA2 ISA, "Vector Compare").
    bool x = name.compare(0, 6, "v_cmpx") == 0;
    in.sdst = scalar(x && !chip_.is_gfx9() ? u32(kExec) : u32(kVcc), Ty::mask, true);
  } else {
    if (info.kind == 1) in.dst = scalar(vdst, info.dst, true); // v_readfirstlane
    else if (info.dst != Ty::none) in.dst = vector16(vdst, info.dst);
    bool high = in.dst.sel == 5;
    in.dst.sel = 6;
    in.dst.slow = false;
    result16(in, high, name, false);
    if (enc == Encoding::vop2) {
      bool k_last = name.find("aak_") != std::string::npos || name.find("adak_") != std::string::npos;
      bool k_middle = name.find("amk_") != std::string::npos || name.find("admk_") != std::string::npos;
      if (k_last || k_middle) {
        Operand k = constant_operand(d[1], info.src[1]), v = vector16(vsrc1, info.src[1]);
        in.src[1] = k_last ? v : k;
        in.src[2] = k_last ? k : v;
        size = 8;
      } else {
        if (n > 1) in.src[1] = vector16(vsrc1, info.src[1]);
        if (info.reads_dst) {
          in.src[2] = in.dst;
          in.src[2].ty = info.src[2];
          in.src[2].sel = high ? 5 : 6;
        }
        if (info.reads_vcc) in.src[2] = scalar(kVcc, Ty::mask);
        if (info.sdst) in.sdst = scalar(kVcc, Ty::mask, true);
      }
    } else if (info.reads_dst) {
      in.src[n] = in.dst;
      in.src[n].ty = info.src[n];
    }
  }
  if (s0 == kSdwa && chip_.is_gfx9() + chip_.is_gfx10()) {
    sdwa(in, info, d[1], compare);
    size = 8;
  } else if (s0 == kDpp16 || (!chip_.is_gfx9() && (s0 == kDpp8 || s0 == kDpp8Fi))) {
    dpp(in, s0, d[1], false);
    size = 8;
  }
  if (name == "v_accvgpr_mov_b32") {
    in.dst = vector(vdst, Ty::b32, true);
    in.src[0] = vector(s0 & 255, Ty::b32, true);
  }
  return size;
}

u32 Fields::vop3(const OpInfo &info, const u32 *d, Inst &in, const std::string &name) {
  u32 w = d[0], size = 8, op_sel = bits(w, 14, 11);
  bool compare = name.compare(0, 5, "v_cmp") == 0;
  bool carry = info.sdst && !compare;
  u32 field[3] = {bits(d[1], 8, 0), bits(d[1], 17, 9), bits(d[1], 26, 18)};
  u32 n = info.nsrc - (info.reads_dst ? 1 : 0);
  u32 marker = 0;
  for (u32 i = 0; i < n && i < 3; ++i) {
    bool is_dpp = i == 0 && !chip_.is_gfx9() && (field[0] == kDpp16 || field[0] == kDpp8 || field[0] == kDpp8Fi);
    if (is_dpp) {
      marker = field[0];
      in.src[0].ty = info.src[0];
      in.src[0].kind = O_VGPR;
      continue;
    }
    in.src[i] = source(field[i], info.src[i], d[2]);
    if (field[i] == kLiteral) size = 12;
  }
  u32 vdst = bits(w, 7, 0);
  if (compare) {
    bool x = name.compare(0, 6, "v_cmpx") == 0;
    in.sdst = scalar(x && !chip_.is_gfx9() ? u32(kExec) : vdst, Ty::mask, true);
  } else if (info.kind == 1) {
    in.dst = scalar(vdst, info.dst, true); // v_readlane and its like
  } else if (info.dst != Ty::none) {
    in.dst = vector(vdst, info.dst);
  }
  if (info.reads_dst) {
    in.src[n] = in.dst;
    in.src[n].ty = info.src[n];
    in.src[n].words = u8(words_of(info.src[n]));
  }
  if (marker) {
    dpp(in, marker, d[2], true);
    size = 12;
  }
  if (carry) {
    in.sdst = scalar(bits(w, 14, 8), Ty::mask, true);
  } else {
    in.op_sel = u8(op_sel);
    for (u32 i = 0; i < 3; ++i)
      if (in.src[i].kind != O_NONE && is16(in.src[i].ty)) in.src[i].sel = op_sel >> i & 1 ? 5 : 4;
    if (info.reads_dst && is16(in.dst.ty)) in.src[n].sel = op_sel >> 3 & 1 ? 5 : 4;
    result16(in, op_sel >> 3 & 1, name, true);
    for (u32 i = 0; i < 3 && i < n; ++i) modifiers(in, i, bit(w, 8 + i), false);
  }
  for (u32 i = 0; i < 3 && i < n; ++i) modifiers(in, i, false, bit(d[1], 29 + i));
  for (u32 i = 0; i < 3; ++i) // the bits are op specific where operands are no floats
    if (in.src[i].ty == Ty::mask || in.src[i].ty == Ty::b32 || in.src[i].ty == Ty::b64 || in.src[i].ty == Ty::i64 || in.src[i].ty == Ty::b16)
      in.src[i].mods &= ~(M_ABS | M_NEG);
  if (bit(w, 15)) in.flags |= F_CLAMP;
  in.omod = u8(bits(d[1], 28, 27));
  if (compare) in.flags &= ~F_CLAMP;
  if (name.compare(0, 8, "v_bitop3") == 0) { // the truth table lies in the modifier fields
    in.imm = i32(bits(d[1], 31, 29) | bits(w, 10, 8) << 3 | bits(d[1], 28, 27) << 6);
    in.omod = 0;
    for (Operand &o : in.src) o.mods = 0;
  }
  return size;
}

u32 Fields::vop3p(const OpInfo &info, const u32 *d, Inst &in, const std::string &name) {
  u32 w = d[0], size = 8;
  u32 field[3] = {bits(d[1], 8, 0), bits(d[1], 17, 9), bits(d[1], 26, 18)};
  u32 n = info.nsrc - (info.reads_dst ? 1 : 0);
  in.dst = vector(bits(w, 7, 0), info.dst, name == "v_accvgpr_write_b32");
  for (u32 i = 0; i < n && i < 3; ++i) {
    bool is_dpp = i == 0 && !chip_.is_gfx9() && (field[0] == kDpp16 || field[0] == kDpp8 || field[0] == kDpp8Fi);
    if (is_dpp) {
      in.src[0].ty = info.src[0];
      in.src[0].kind = O_VGPR;
      dpp(in, field[0], d[2], true);
      size = 12;
      continue;
    }
    in.src[i] = source(field[i], info.src[i], d[2]);
    if (field[i] == kLiteral) size = 12;
  }
  if (name == "v_accvgpr_read_b32" || name == "v_accvgpr_read") in.src[0] = vector(field[0] & 255, Ty::b32, true);
  if (name == "v_accvgpr_write") in.dst = vector(bits(w, 7, 0), info.dst, true);
  if (info.reads_dst) {
    in.src[n] = in.dst;
    in.src[n].ty = info.src[n];
  }
  in.neg_hi = u8(bits(w, 10, 8));
  in.op_sel = u8(bits(w, 13, 11));
  in.op_sel_hi = u8(bits(d[1], 28, 27) | bits(w, 14, 14) << 2);
  in.neg_lo = u8(bits(d[1], 31, 29));
  if (bit(w, 15)) in.flags |= F_CLAMP;
  return size;
}

//===-- Matrix and dual instructions --------------------------------------===//

u32 Fields::fill_matrix(const MatrixPair &pair, const u32 *d, Inst &in) {
  const MatrixOp &op = pair.w32 ? *pair.w32 : *pair.w64; // wave32 has the wider operands
  u32 size = 8;
  if (op.scaled) { // 16 bytes: the scales come first
    in.src[3] = source(bits(d[1], 8, 0), Ty::b32, 0);
    in.sdst = source(bits(d[1], 17, 9), Ty::b32, 0); // the fifth source
    in.op_sel = u8(bits(d[0], 12, 11));
    in.op_sel_hi = u8(bits(d[1], 28, 27));
    d += 2;
    size = 16;
  }
  u32 field[3] = {bits(d[1], 8, 0), bits(d[1], 17, 9), bits(d[1], 26, 18)};
  bool mai = op.kind == MatrixKind::kMfma || op.kind == MatrixKind::kSmfmac;
  bool indexed = op.kind == MatrixKind::kSmfmac || op.kind == MatrixKind::kSwmmac;
  bool acc_cd = mai && bit(d[0], 15);
  auto reg = [&](u32 f, u32 words, bool acc, Ty ty) {
    Operand o = f >= 256 ? vector(f - 256, Ty::b32, acc) : source(f, ty, 0);
    if (f >= 256) o.words = u8(words);
    return o;
  };
  using F = MatrixFormat;
  Ty c = op.acc == F::kF64 ? Ty::f64 : op.acc == F::kF16 ? Ty::f16 : op.acc == F::kBf16 ? Ty::bf16 : Ty::f32;
  auto narrow = [&](u32 words, u32 format) { return op.a == F::kF8f6f4 ? format < 2 ? 8u : format < 4 ? 6u : 4u : words; };
  in.cbsz = u8(bits(d[0], 10, 8));
  in.abid = u8(bits(d[0], 14, 11));
  in.blgp = u8(bits(d[1], 31, 29));
  in.dst = reg(256 + bits(d[0], 7, 0), op.acc_registers, acc_cd, c);
  in.src[0] = reg(field[0], mai ? narrow(op.a_registers, in.cbsz) : op.a_registers, mai && bit(d[1], 27), Ty::b32);
  in.src[1] = reg(field[1], mai ? narrow(op.b_registers, in.blgp) : op.b_registers, mai && bit(d[1], 28), Ty::b32);
  in.src[2] = reg(field[2], indexed ? 1 : op.acc_registers, acc_cd && !indexed, c);
  if (!mai) {
    in.neg_hi = in.cbsz;
    in.op_sel = u8(bits(d[0], 13, 11));
    in.op_sel_hi = u8(bits(d[1], 28, 27) | bits(d[0], 14, 14) << 2);
    in.neg_lo = in.blgp;
    in.cbsz = in.abid = in.blgp = 0;
    if (bit(d[0], 15)) in.flags |= F_CLAMP;
  }
  p_.matrices.push_back(std::make_unique<MatrixPair>(pair));
  in.aux = p_.matrices.back().get();
  return size;
}

// The operations of VOPD (RDNA3 ISA, "VOPD"); RDNA4 keeps the numbers.
static const char *const kDual[32] = {
    "fmac_f32", "fmaak_f32", "fmamk_f32", "mul_f32", "add_f32", "sub_f32", "subrev_f32", "mul_legacy_f32",
    "mov_b32", "cndmask_b32", "max_f32", "min_f32", "dot2acc_f32_f16", "dot2acc_f32_bf16", "", "",
    "add_u32", "lshlrev_b32", "and_b32"};

u32 Fields::fill_vopd(const u32 *d, Inst &in, std::string *names) {
  auto dual = std::make_unique<Dual>();
  u32 op[2] = {bits(d[0], 25, 22), bits(d[0], 21, 17)};
  u32 src0[2] = {bits(d[0], 8, 0), bits(d[1], 8, 0)}, vsrc1[2] = {bits(d[0], 16, 9), bits(d[1], 16, 9)};
  u32 vdst_x = bits(d[1], 31, 24);
  u32 vdst[2] = {vdst_x, bits(d[1], 23, 17) << 1 | (~vdst_x & 1)};
  Inst *half[2] = {&dual->x, &dual->y};
  u32 size = 8;
  for (int i = 0; i < 2; ++i) {
    names[i] = kDual[op[i]] ? kDual[op[i]] : "";
    auto it = op_table().find("v_" + names[i]);
    if (names[i].empty() || it == op_table().end()) return 0;
    const OpInfo &info = it->second;
    Inst &h = *half[i];
    h.dst = vector(vdst[i], info.dst);
    h.src[0] = source(src0[i], info.src[0], d[2]);
    if (src0[i] == kLiteral) size = 12;
    Operand v = vector(vsrc1[i], Ty::b32);
    Operand k = constant_operand(d[2], Ty::f32);
    if (names[i] == "fmaak_f32" || names[i] == "fmamk_f32") {
      bool last = names[i] == "fmaak_f32";
      h.src[1] = last ? v : k;
      h.src[2] = last ? k : v;
      size = 12;
    } else {
      if (names[i] != "mov_b32") h.src[1] = v;
      if (info.reads_dst) {
        h.src[2] = h.dst;
        h.src[2].ty = info.src[2];
      }
      if (names[i] == "cndmask_b32") h.src[2] = scalar(kVcc, Ty::mask);
    }
    finish(h, info);
    // What the profile and the strict mode look at: the operands of both halves.
    for (const Operand &o : h.src)
      for (Operand &slot : in.src)
        if (o.kind == O_VGPR && slot.kind == O_NONE) {
          slot = o;
          break;
        }
  }
  for (const Operand &o : dual->y.src) dual->conflict |= o.kind == O_VGPR && o.reg == dual->x.dst.reg;
  in.dst = dual->y.dst;
  dual->x_dst = dual->x.dst.reg;
  if (dual->conflict) dual->x.dst.reg = kTempVgpr;
  in.aux = dual.get();
  p_.duals.push_back(std::move(dual));
  return size;
}

} // namespace mgx::emu
