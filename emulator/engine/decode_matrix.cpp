// Fields of matrix instructions (MFMA, WMMA) and of dual ones (VOPD).
#include "decode_fields.h"

namespace mgx::emu {

u32 Fields::fill_matrix(const MatrixPair &pair, const u32 *d, Inst &in) {
  const MatrixOp &op = pair.w32 ? *pair.w32 : *pair.w64; // wave32 has the wider operands
  u32 size = 8;
  bad_operand_ = literal_allowed_ = false;
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
  bad_operand_ |= field[0] < 256 || field[1] < 256 || (indexed && field[2] < 256);
  using F = MatrixFormat;
  Ty c = op.acc == F::kF64    ? Ty::f64
         : op.acc == F::kF16  ? Ty::f16
         : op.acc == F::kBf16 ? Ty::bf16
                              : Ty::f32;
  auto narrow = [&](u32 words, u32 format) {
    return op.a == F::kF8f6f4 ? format < 2 ? 8u : format < 4 ? 6u : 4u : words;
  };
  in.cbsz = u8(bits(d[0], 10, 8));
  in.abid = u8(bits(d[0], 14, 11));
  in.blgp = u8(bits(d[1], 31, 29));
  // Broadcasting (CBSZ, ABID) names one of 2^CBSZ groups of lanes; f8f6f4 has five formats.
  if (op.a == F::kF8f6f4) bad_operand_ |= in.cbsz > 4 || in.blgp > 4;
  else if (op.kind == MatrixKind::kMfma && op.acc != F::kF64 && in.cbsz)
    bad_operand_ |= in.cbsz > 6 || in.abid >> in.cbsz;
  in.dst = reg(256 + bits(d[0], 7, 0), op.acc_registers, acc_cd, c);
  in.src[0] = reg(field[0], mai ? narrow(op.a_registers, in.cbsz) : op.a_registers,
                  mai && bit(d[1], 27), Ty::b32);
  in.src[1] = reg(field[1], mai ? narrow(op.b_registers, in.blgp) : op.b_registers,
                  mai && bit(d[1], 28), Ty::b32);
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
    "fmac_f32", "fmaak_f32",  "fmamk_f32",       "mul_f32",          "add_f32",
    "sub_f32",  "subrev_f32", "mul_legacy_f32",  "mov_b32",          "cndmask_b32",
    "max_f32",  "min_f32",    "dot2acc_f32_f16", "dot2acc_f32_bf16", "",
    "",         "add_u32",    "lshlrev_b32",     "and_b32"};

u32 Fields::fill_vopd(const u32 *d, Inst &in, std::string *names) {
  auto dual = std::make_unique<Dual>();
  bad_operand_ = false;
  literal_allowed_ = true;
  u32 op[2] = {bits(d[0], 25, 22), bits(d[0], 21, 17)};
  u32 src0[2] = {bits(d[0], 8, 0), bits(d[1], 8, 0)},
      vsrc1[2] = {bits(d[0], 16, 9), bits(d[1], 16, 9)};
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
    // The profile and the strict mode look at the operands of both halves.
    for (const Operand &o : h.src)
      for (Operand &slot : in.src)
        if (o.kind == O_VGPR && slot.kind == O_NONE) {
          slot = o;
          break;
        }
  }
  for (const Operand &o : dual->y.src)
    dual->conflict |= o.kind == O_VGPR && o.reg == dual->x.dst.reg;
  in.dst = dual->y.dst;
  dual->x_dst = dual->x.dst.reg;
  if (dual->conflict) dual->x.dst.reg = kTempVgpr;
  in.aux = dual.get();
  p_.duals.push_back(std::move(dual));
  return size;
}

} // namespace mgx::emu
