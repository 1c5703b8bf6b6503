// Fields of each encoding family.
#pragma once

#include "core.h"
#include "matrix.h"

namespace mgx::emu {

// Bits of an instruction word.
static inline u32 bits(u32 word, unsigned hi, unsigned lo) {
  return word >> lo & ((u64(1) << (hi - lo + 1)) - 1);
}
static inline bool bit(u32 word, unsigned n) { return word >> n & 1; }
static inline i32 sext(u32 value, unsigned width) {
  return i32(value << (32 - width)) >> (32 - width);
}

enum class Encoding : u8 {
  none,
  sop1,
  sop2,
  sopk,
  sopc,
  sopp,
  smem,
  vop1,
  vop2,
  vopc,
  vop3,
  vop3p,
  ds,
  flat,
  mubuf,
  mtbuf,
  vopd
};

Encoding classify(const Chip &chip, u32 d0);
// The family of graphics instructions that a word begins, null if it begins none.
const char *graphics_family(const Chip &chip, u32 d0);
// The bits that make the mnemonic: instructions with equal `bits` have the same.
struct Opcode {
  u32 mask[3] = {0, 0, 0}, bits[3] = {0, 0, 0};
  u64 key(Encoding enc) const { return u64(bits[0]) << 32 | bits[1] | bits[2] >> 8 | u32(enc); }
};
Opcode opcode_of(const Chip &chip, Encoding enc, const u32 *d);

u32 words_of(Ty ty);
static inline bool is16(Ty t) { return t == Ty::b16 || t == Ty::f16 || t == Ty::bf16; }

// Values of a source field that are no operand but say what follows the instruction.
constexpr u32 kLiteral = 255, kDpp16 = 250, kSdwa = 249, kDpp8 = 233, kDpp8Fi = 234;

// How a memory instruction addresses, in Inst::cbsz.
enum Space : u8 { S_GLOBAL, S_FLAT, S_SCRATCH, S_BUFFER };

class Fields {
public:
  explicit Fields(Program &p) : p_(p), chip_(*p.chip) {}
  // Each returns the size in bytes.
  u32 fill(Encoding enc, const OpInfo &info, const u32 *d, Inst &in, const std::string &name);
  u32 fill_matrix(const MatrixPair &pair, const u32 *d, Inst &in);
  u32 fill_vopd(const u32 *d, Inst &in, std::string *names);
  // Whether a field of the last instruction held a reserved value.
  bool bad_operand() const { return bad_operand_; }

private:
  const u32 *constant(u64 value);
  Operand constant_operand(u64 value, Ty ty);
  Operand vector(u32 reg, Ty ty, bool acc = false);
  Operand vector16(u32 field, Ty ty);     // 8-bit field of a 32-bit encoding
  Operand scalar(u32 field, Ty ty, bool dst = false);
  Operand source(u32 field, Ty ty, u32 literal);
  u64 inline_float(u32 field, Ty ty);
  void modifiers(Inst &in, u32 i, bool abs, bool neg);
  void result16(Inst &in, bool high, const std::string &name, bool vop3);
  void finish(Inst &in, const OpInfo &info);
  u32 vop12c(Encoding enc, const OpInfo &info, const u32 *d, Inst &in, const std::string &name);
  u32 vop3(const OpInfo &info, const u32 *d, Inst &in, const std::string &name);
  u32 vop3p(const OpInfo &info, const u32 *d, Inst &in, const std::string &name);
  void dpp(Inst &in, u32 marker, u32 word, bool vop3);
  const DppTable *dpp_table(bool eight, u32 word);
  void sdwa(Inst &in, const OpInfo &info, u32 word, bool compare);
  u32 smem(const OpInfo &info, const u32 *d, Inst &in);
  u32 flat(const OpInfo &info, const u32 *d, Inst &in);
  u32 buffer(const OpInfo &info, const u32 *d, Inst &in, bool typed);
  u32 ds(const OpInfo &info, const u32 *d, Inst &in);
  bool true16() const { return chip_.is_gfx11() || chip_.is_gfx12(); }

  Program &p_;
  const Chip &chip_;
  bool bad_operand_ = false, literal_allowed_ = true;
};

} // namespace mgx::emu
