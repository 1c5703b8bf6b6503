// Fields of vector ALU instructions (VOP1, VOP2, VOPC, VOP3, VOP3P) with DPP and SDWA.
#include "decode_fields.h"

namespace mgx::emu {

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
      int from = eight ? (i & ~7) | int(word >> (8 + 3 * (i & 7)) & 7)
                       : dpp_source(word >> 8 & 0x1ff, i, n, chip_.is_gfx9());
      bool enabled = eight || ((word >> 28 >> (i >> 4) & 1) && (word >> 24 >> (i >> 2 & 3) & 1));
      t->from[size][i] = u8(from < 0 ? i : from);
      t->valid[size] |= u64(from >= 0) << i;
      t->enabled[size] |= u64(enabled) << i;
    }
  }
  return t.get();
}

void Fields::dpp(Inst &in, u32 marker, u32 word, bool vop3) {
  in.src[0] =
      vop3 ? vector(bits(word, 7, 0), in.src[0].ty) : vector16(bits(word, 7, 0), in.src[0].ty);
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
  literal_allowed_ = false;
  auto reserved = [&](unsigned at) { return bits(word, at + 2, at) == 7; };
  bad_operand_ |= (!compare && (reserved(8) || bits(word, 12, 11) == 3)) || reserved(16) ||
                  (info.nsrc > 1 && reserved(24));
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

u32 Fields::vop12c(Encoding enc, const OpInfo &info, const u32 *d, Inst &in,
                   const std::string &name) {
  u32 w = d[0], size = 4, s0 = bits(w, 8, 0);
  u32 vdst = bits(w, 24, 17), vsrc1 = bits(w, 16, 9);
  bool compare = enc == Encoding::vopc;
  u32 n = info.nsrc - (info.reads_vcc ? 1 : 0) - (info.reads_dst ? 1 : 0);
  bool is_sdwa = s0 == kSdwa && (chip_.is_gfx9() || chip_.is_gfx10());
  bool is_dpp = s0 == kDpp16 || (!chip_.is_gfx9() && (s0 == kDpp8 || s0 == kDpp8Fi));
  if (n > 0)
    in.src[0] = is_sdwa || is_dpp ? vector(0, info.src[0])
                : s0 >= 256       ? vector16(s0 - 256, info.src[0])
                                  : source(s0, info.src[0], d[1]);
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
      bool k_last =
          name.find("aak_") != std::string::npos || name.find("adak_") != std::string::npos;
      bool k_middle =
          name.find("amk_") != std::string::npos || name.find("admk_") != std::string::npos;
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
  if (is_sdwa) {
    sdwa(in, info, d[1], compare);
    size = 8;
  } else if (is_dpp) {
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
    bool is_dpp = i == 0 && !chip_.is_gfx9() &&
                  (field[0] == kDpp16 || field[0] == kDpp8 || field[0] == kDpp8Fi);
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
    if (in.src[i].ty == Ty::mask || in.src[i].ty == Ty::b32 || in.src[i].ty == Ty::b64 ||
        in.src[i].ty == Ty::i64 || in.src[i].ty == Ty::b16)
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
    bool is_dpp = i == 0 && !chip_.is_gfx9() &&
                  (field[0] == kDpp16 || field[0] == kDpp8 || field[0] == kDpp8Fi);
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
  if (name == "v_accvgpr_read_b32" || name == "v_accvgpr_read")
    in.src[0] = vector(field[0] & 255, Ty::b32, true);
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

} // namespace mgx::emu
