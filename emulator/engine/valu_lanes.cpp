// Instructions across lanes, matrix instructions, dual instructions.
#include "matrix.h"
#include "valu.h"

namespace mgx::emu {
inline namespace MGX_ISA {

MGX_INLINE u32 lane_value(const Wave &w, const Operand &o, u32 lane) {
  if (o.kind == O_VGPR) return w.v[size_t(o.reg) * kLanes + lane];
  return rs(w, o);
}
// v_readfirstlane reads the lowest active lane, lane 0 if there is none.
static void readfirstlane(Wave &w, const Inst &in) {
  u64 e = exec_of(w);
  w.s[in.dst.reg] = lane_value(w, in.src[0], e ? u32(__builtin_ctzll(e)) : 0);
}
static void readlane(Wave &w, const Inst &in) {
  w.s[in.dst.reg] = lane_value(w, in.src[0], rs(w, in.src[1]) & (w.lanes - 1));
}
static void writelane(Wave &w, const Inst &in) {
  w.vgpr(in.dst.reg)[rs(w, in.src[1]) & (w.lanes - 1)] = rs(w, in.src[0]);
}

// v_permlane16, v_permlanex16: a lane of the own (the other) row of 16, chosen by
// four bits of two scalars; op_sel[0] fetches inactive lanes, op_sel[1] gives 0
// for them. The _var forms of gfx12 take the choice from a VGPR.
template <bool kX, bool kVar> static void permlane16(Wave &w, const Inst &in) {
  Buffer td;
  MGX_LANES(w)
  const u32 *p = w.vgpr(in.src[0].reg), *old = w.vgpr(in.dst.reg);
  u64 exec = exec_of(w);
  const u32 *choice = kVar ? w.vgpr(in.src[1].reg) : nullptr;
  u64 select = kVar ? 0 : u64(rs(w, in.src[2])) << 32 | rs(w, in.src[1]);
  bool fi = in.op_sel & 1, bound = in.op_sel & 2;
  for (u32 i = 0; i < n; ++i) {
    u32 k = kVar ? choice[i] & 15 : u32(select >> (4 * (i & 15))) & 15;
    u32 from = (i & ~15u) + k;
    if (kX) from ^= 16;
    bool ok = fi || (exec >> from & 1);
    td.x[i] = ok ? p[from] : bound ? 0 : old[i];
  }
  commit_bits(w, in, td.x, 1);
}
// v_permlane64: swaps the halves of a wave64, and does nothing in a wave32.
static void permlane64(Wave &w, const Inst &in) {
  if (w.lanes == 32) return;
  Buffer td;
  MGX_LANES(w)
  const u32 *p = w.vgpr(in.src[0].reg);
  for (u32 i = 0; i < n; ++i) td.x[i] = p[i ^ 32];
  commit_bits(w, in, td.x, 1);
}
// gfx950 v_permlane16_swap, v_permlane32_swap: odd rows (halves) of the first
// register change places with the even ones of the second.
template <u32 kRow> static void permlane_swap(Wave &w, const Inst &in) {
  u32 *a = w.vgpr(in.dst.reg), *b = w.vgpr(in.src[0].reg);
  u64 exec = exec_of(w);
  bool fi = in.op_sel & 1;
  for (u32 i = 0; i < w.lanes; ++i) {
    if (!(i & kRow)) continue;
    u32 j = i - kRow;
    bool ei = exec >> i & 1, ej = exec >> j & 1;
    u32 x = a[i], y = b[j];
    if (ei && (ej || fi)) a[i] = y;
    if (ej && (ei || fi)) b[j] = x;
  }
}

//===-- Matrix ------------------------------------------------------------===//

static MatrixSource matrix_source(Wave &w, const Operand &o) {
  MatrixSource s;
  if (o.kind == O_VGPR) {
    s.words = w.vgpr(o.reg);
    s.stride = kLanes;
  } else {
    s.constant = o.words == 2 ? rs64(w, o) : rs(w, o);
  }
  return s;
}
static void matrix(Wave &w, const Inst &in) {
  auto *pair = static_cast<const MatrixPair *>(in.aux);
  const MatrixOp *op = w.lanes == 64 ? pair->w64 : pair->w32;
  if (!op)
    return raise_fault(w, Fault::invalid_instruction, -1, 0,
                       "no such matrix instruction in this wave size");
  MatrixOperands m;
  m.a = matrix_source(w, in.src[0]);
  m.b = matrix_source(w, in.src[1]);
  m.d = w.vgpr(in.dst.reg);
  m.d_stride = kLanes;
  bool sparse = op->kind == MatrixKind::kSmfmac || op->kind == MatrixKind::kSwmmac;
  if (sparse) {
    m.c.words = m.d;
    m.c.stride = kLanes;
    m.index = w.vgpr(in.src[2].reg);
  } else {
    m.c = matrix_source(w, in.src[2]);
  }
  m.cbsz = in.cbsz;
  m.abid = in.abid;
  m.blgp = in.blgp;
  m.neg_lo = in.neg_lo;
  m.neg_hi = in.neg_hi;
  m.op_sel = in.op_sel;
  m.op_sel_hi = in.op_sel_hi;
  m.clamp = in.flags & F_CLAMP;
  m.fp16_ovfl = w.mode >> 23 & 1;
  m.flush_input_denormals = !(w.mode >> 4 & 1);
  if (op->scaled) {
    m.scale_a = matrix_source(w, in.src[3]);
    m.scale_b = matrix_source(w, in.sdst);
  }
  execute_matrix(*op, m);
}

//===-- Dual --------------------------------------------------------------===//

static void vopd(Wave &w, const Inst &in) {
  auto *d = static_cast<const Dual *>(in.aux);
  d->x.fn(w, d->x);
  d->y.fn(w, d->y);
  if (!d->conflict) return;
  const u32 *m = mask_lanes(w, exec_of(w)), *x = w.vgpr(kTempVgpr);
  u32 *to = w.vgpr(d->x_dst);
  for (u32 i = 0; i < w.lanes; ++i) to[i] = m[i] ? x[i] : to[i];
}

// An instruction under s_set_gpr_idx_on: M0[7:0] is added to the registers that
// M0[15:12] names (sources 0 to 2, destination).
static void indexed(Wave &w, const Inst &in) {
  Inst moved = static_cast<const Dual *>(in.aux)->x;
  u32 index = w.s[kM0] & 0xff, which = w.s[kM0] >> 12 & 15;
  bool bad = false;
  auto move = [&](Operand &o) {
    if (o.kind != O_VGPR || o.reg >= kAccBase) return;
    bad |= o.reg + index > 255;
    o.reg = u16(o.reg + index);
  };
  for (u32 i = 0; i < 3; ++i)
    if (which >> i & 1) move(moved.src[i]);
  if (which >> 3 & 1) move(moved.dst);
  if (bad)
    return raise_fault(w, Fault::invalid_instruction, -1, 0,
                       "register index beyond the register file");
  moved.fn(w, moved);
}

static void nop(Wave &, const Inst &) {}

void register_valu_lanes(OpTable &t) {
  auto add = [&](const char *name, Handler fn, u8 nsrc, Ty ty, u8 kind) {
    OpInfo o;
    o.fn = fn;
    o.dst = nsrc ? Ty::b32 : Ty::none;
    for (u8 i = 0; i < nsrc; ++i) o.src[i] = ty;
    o.nsrc = nsrc;
    o.kind = kind;
    add_op(t, name, o);
  };
  add("v_nop", nop, 0, Ty::none, 0);
  add("v_readfirstlane_b32", readfirstlane, 1, Ty::b32, 1);
  add("v_readlane_b32", readlane, 2, Ty::b32, 1);
  add("v_writelane_b32", writelane, 2, Ty::b32, 0);
  add("v_permlane16_b32", permlane16<false, false>, 3, Ty::b32, 0);
  add("v_permlanex16_b32", permlane16<true, false>, 3, Ty::b32, 0);
  add("v_permlane16_var_b32", permlane16<false, true>, 2, Ty::b32, 0);
  add("v_permlanex16_var_b32", permlane16<true, true>, 2, Ty::b32, 0);
  add("v_permlane64_b32", permlane64, 1, Ty::b32, 0);
  add("v_permlane16_swap_b32", permlane_swap<16>, 1, Ty::b32, 0);
  add("v_permlane32_swap_b32", permlane_swap<32>, 1, Ty::b32, 0);
  add(".matrix", matrix, 0, Ty::none, 0);
  add(".vopd", vopd, 0, Ty::none, 0);
  add(".indexed", indexed, 0, Ty::none, 0);
}

} // namespace MGX_ISA
} // namespace mgx::emu
