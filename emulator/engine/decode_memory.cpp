// Fields of DS, FLAT and MUBUF instructions.
#include "decode_fields.h"

#include <array>

namespace mgx::emu {

// 4 i for lane i, then the high halves.
static const std::array<u32, 2 * kLanes> kLaneBytes = [] {
  std::array<u32, 2 * kLanes> x{};
  for (u32 i = 0; i < kLanes; ++i) x[i] = 4 * i;
  return x;
}();

u32 Fields::ds(const OpInfo &info, const u32 *d, Inst &in) {
  bool acc = chip_.is_gfx9() && bit(d[0], 25);
  in.imm = i32(bits(d[0], 15, 0));
  if (!chip_.is_gfx12() && bit(d[0], chip_.is_gfx9() ? 16 : 17)) in.flags |= F_GDS;
  if (info.dst != Ty::none) in.dst = vector(bits(d[1], 31, 24), info.dst, acc);
  if (info.src[0] != Ty::none) in.src[0] = vector(bits(d[1], 7, 0), info.src[0]);
  if (info.src[1] != Ty::none) in.src[1] = vector(bits(d[1], 15, 8), info.src[1], acc);
  if (info.src[2] != Ty::none) in.src[2] = vector(bits(d[1], 23, 16), info.src[2], acc);
  return 8;
}

u32 Fields::flat(const OpInfo &info, const u32 *d, Inst &in) {
  u32 w = d[0], saddr, vaddr, data, vdst, segment, size = 8;
  bool sve = false, acc = false, glc, device;
  if (chip_.is_gfx12()) {
    segment = bits(w, 25, 24);
    in.imm = sext(bits(d[2], 31, 8), 24);
    saddr = bits(w, 6, 0);
    vdst = bits(d[1], 7, 0);
    sve = bit(d[1], 17);
    glc = bit(d[1], 20);
    device = bit(d[1], 19); // the scope is the device or the system
    data = bits(d[1], 30, 23);
    vaddr = bits(d[2], 7, 0);
    size = 12;
  } else {
    bool gfx11 = chip_.is_gfx11();
    segment = gfx11 ? bits(w, 17, 16) : bits(w, 15, 14);
    unsigned width = chip_.is_gfx10() ? 12 : 13;
    in.imm = segment ? sext(bits(w, width - 1, 0), width) : i32(bits(w, width - 2, 0));
    glc = gfx11 ? bit(w, 14) : bit(w, 16);
    device = chip_.gfx940_up() ? bit(w, 25) : glc;
    saddr = bits(d[1], 22, 16);
    vaddr = bits(d[1], 7, 0);
    data = bits(d[1], 15, 8);
    vdst = bits(d[1], 31, 24);
    if (gfx11) sve = bit(d[1], 23);
    else if (chip_.gfx940_up()) sve = bit(w, 13);
    else if (chip_.is_gfx10()) sve = saddr == 125; // null: vector address, 127: none
    else sve = saddr == 127;                        // gfx90a: one of the two
    acc = chip_.is_gfx9() && bit(d[1], 23);
  }
  bool no_saddr = saddr == 127 || (chip_.is_gfx10() && saddr == 125) ||
                  ((chip_.is_gfx11() || chip_.is_gfx12()) && saddr == 124);
  in.cbsz = segment == 0 ? S_FLAT : segment == 1 ? S_SCRATCH : S_GLOBAL;
  in.flags |= (glc ? u32(F_GLC) : 0) | (device ? u32(F_DEVICE) : 0);
  if (!no_saddr && segment) {
    in.flags |= F_SADDR;
    in.src[2] = scalar(saddr, segment == 1 ? Ty::b32 : Ty::b64);
  }
  if (segment == 1) {
    if (sve) {
      in.flags |= F_VADDR;
      in.src[0] = vector(vaddr, Ty::b32);
    }
  } else if (info.flags & F_TID) {
    in.src[0].kind = O_CONST;
    in.src[0].k = kLaneBytes.data();
  } else {
    in.src[0] = vector(vaddr, in.flags & F_SADDR ? Ty::b32 : Ty::b64);
  }
  if (info.dst != Ty::none && (!(info.flags & F_GLC) || glc)) in.dst = vector(vdst, info.dst, acc);
  if (info.src[1] != Ty::none) in.src[1] = vector(data, info.src[1], acc);
  return size;
}

// `typed`: MTBUF, whose instruction names the format. gfx12 has one encoding for both.
u32 Fields::buffer(const OpInfo &info, const u32 *d, Inst &in, bool typed) {
  u32 w = d[0], vaddr, data, rsrc, soffset, size = 8;
  bool offen, idxen, glc, tfe, device, acc = false;
  if (chip_.is_gfx12()) {
    soffset = bits(w, 6, 0);
    tfe = bit(w, 22);
    data = bits(d[1], 7, 0);
    rsrc = bits(d[1], 17, 9);
    glc = bit(d[1], 20);
    device = bit(d[1], 19);
    in.dpp = bits(d[1], 29, 23);
    offen = bit(d[1], 30);
    idxen = bit(d[1], 31);
    vaddr = bits(d[2], 7, 0);
    in.imm = i32(bits(d[2], 31, 8));
    size = 12;
  } else {
    bool gfx11 = chip_.is_gfx11();
    in.imm = i32(bits(w, 11, 0));
    glc = bit(w, 14);
    device = chip_.gfx940_up() ? bit(w, 15) : glc;
    vaddr = bits(d[1], 7, 0);
    data = bits(d[1], 15, 8);
    rsrc = bits(d[1], 20, 16) * 4;
    soffset = bits(d[1], 31, 24);
    offen = gfx11 ? bit(d[1], 22) : bit(w, 12);
    idxen = gfx11 ? bit(d[1], 23) : bit(w, 13);
    tfe = gfx11 ? bit(d[1], 21) : chip_.is_gfx10() && bit(d[1], 23);
    acc = chip_.is_gfx9() && bit(d[1], 23);
    if (typed) in.dpp = bits(w, 25, 19);
    else if (!gfx11 && bit(w, 16)) in.flags |= F_LDS;
  }
  in.cbsz = S_BUFFER;
  in.flags |= (offen ? u32(F_OFFEN) : 0) | (idxen ? u32(F_IDXEN) : 0) | (glc ? u32(F_GLC) : 0) |
              (tfe ? u32(F_TFE) : 0) | (device ? u32(F_DEVICE) : 0);
  if (offen || idxen) in.src[0] = vector(vaddr, offen && idxen ? Ty::b64 : Ty::b32);
  in.src[2] = scalar(rsrc, Ty::b128);
  in.src[3] = source(soffset, Ty::b32, 0);
  if (info.dst != Ty::none && (!(info.flags & F_GLC) || glc)) in.dst = vector(data, info.dst, acc);
  if (info.src[1] != Ty::none) in.src[1] = vector(data, info.src[1], acc);
  return size;
}

} // namespace mgx::emu
