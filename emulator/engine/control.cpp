// Program flow, hardware registers and clocks.
#include "valu.h"

namespace mgx::emu {
inline namespace MGX_ISA {

static void nop(Wave &, const Inst &) {}
static void invalid(Wave &w, const Inst &) {
  raise_fault(w, Fault::invalid_instruction, -1, 0, "no instruction here");
}

//===-- Branches ----------------------------------------------------------===//

static void go(Wave &w, const Inst &in) { w.pc = &w.program->code[in.target]; }
static void jump(Wave &w, u64 address) {
  const Inst *to = w.program->at(address);
  if (!to)
    return raise_fault(w, Fault::invalid_instruction, -1, address,
                       "jump to an address without code");
  w.pc = to;
}
static u64 next_address(const Wave &w, const Inst &in) { return w.program->base + in.pc + in.size; }

#define BRANCH(name, condition)                                                                    \
  {                                                                                                \
    struct H {                                                                                     \
      static void run(Wave &w, const Inst &in) {                                                   \
        if (condition) go(w, in);                                                                  \
      }                                                                                            \
    };                                                                                             \
    OpInfo o;                                                                                      \
    o.fn = H::run;                                                                                 \
    o.cls = Class::branch;                                                                         \
    add_op(t, name, o);                                                                            \
  }

static void getpc(Wave &w, const Inst &in) { set_s64(w, in.dst.reg, next_address(w, in)); }
static void setpc(Wave &w, const Inst &in) { jump(w, rs64(w, in.src[0])); }
static void swappc(Wave &w, const Inst &in) {
  u64 to = rs64(w, in.src[0]);
  set_s64(w, in.dst.reg, next_address(w, in));
  jump(w, to);
}
static void call(Wave &w, const Inst &in) {
  set_s64(w, in.dst.reg, next_address(w, in));
  go(w, in);
}
static void endpgm(Wave &w, const Inst &in) {
  w.pc = &in;
  w.stop = Stop::end;
}
static void sleep(Wave &w, const Inst &) { w.stop = Stop::yield; }
// s_trap 2 is what abort() and failed assertions become (AMDGPUUsage, "Trap
// Handler ABI"); 3 is the debugger's breakpoint and does nothing without one.
static void trap(Wave &w, const Inst &in) {
  if ((in.imm & 0xff) == 2)
    raise_fault(w, Fault::trap, -1, 0, "the kernel trapped (abort or a failed assertion)");
}

//===-- Hardware registers ------------------------------------------------===//

static void mode_changed(Wave &w) { w.special_mode = is_special_mode(w.mode); }
static u32 read_hwreg(const Wave &w, u32 id) {
  switch (id) {
  case 1: return w.mode;
  case 2: return w.scc << 0;
  case 4: return w.id;
  case 6: return w.lds_bytes / 256 << 12;
  case 15: return u32(kSharedBase >> 48) << 16 | u32(kPrivateBase >> 48);
  case 23: return w.id;
  case 29: return u32(w.count) & (w.chip->is_gfx12() ? ~0u : 0xfffffu);
  case 30: return u32(w.count >> 32);
  }
  return 0;
}
static void getreg(Wave &w, const Inst &in) {
  u32 id = in.imm & 63, offset = in.imm >> 6 & 31, width = (in.imm >> 11 & 31) + 1;
  u32 x = read_hwreg(w, id) >> offset;
  w.s[in.dst.reg] = width == 32 ? x : x & ((1u << width) - 1);
}
static void setreg(Wave &w, const Inst &in) {
  u32 id = in.imm & 63, offset = in.imm >> 6 & 31, width = (in.imm >> 11 & 31) + 1;
  if (id != 1) return;
  u32 mask = (width == 32 ? ~0u : (1u << width) - 1) << offset;
  w.mode = (w.mode & ~mask) | (rs(w, in.src[0]) << offset & mask);
  mode_changed(w);
}
static void round_mode(Wave &w, const Inst &in) {
  w.mode = (w.mode & ~15u) | (in.imm & 15);
  mode_changed(w);
}
static void denorm_mode(Wave &w, const Inst &in) {
  w.mode = (w.mode & ~0xf0u) | (in.imm & 15) << 4;
  mode_changed(w);
}
// Sources and destination are relative until s_set_gpr_idx_off; what is in
// between is decoded as such (decode.cpp).
static void gpr_idx_on(Wave &w, const Inst &in) {
  w.s[kM0] = (rs(w, in.src[0]) & 0xff) | (w.s[kM0] & 0xffff0f00) | (u32(in.imm) & 15) << 12;
}
static void gpr_idx_idx(Wave &w, const Inst &in) {
  w.s[kM0] = (w.s[kM0] & ~0xffu) | (rs(w, in.src[0]) & 0xff);
}
static void gpr_idx_mode(Wave &w, const Inst &in) {
  w.s[kM0] = (w.s[kM0] & ~0xf000u) | (u32(in.imm) & 15) << 12;
}

static u32 relative_sgpr(Wave &w, u32 reg, u32 words) {
  u64 r = u64(reg) + w.s[kM0];
  if (r + words <= 106) return u32(r);
  raise_fault(w, Fault::invalid_instruction, -1, 0,
              "scalar register index beyond the register file");
  return 0;
}
static void movrelsd_2(Wave &w, const Inst &in) { // two offsets in M0
  u64 from = u64(in.src[0].reg) + (w.s[kM0] & 0x3ff),
      to = u64(in.dst.reg) + (w.s[kM0] >> 16 & 0x3ff);
  if (from >= 106 || to >= 106)
    return raise_fault(w, Fault::invalid_instruction, -1, 0,
                       "scalar register index beyond the register file");
  w.s[to] = w.s[from];
}
template <u32 kWords, bool kSource> static void movrel(Wave &w, const Inst &in) {
  u32 r = relative_sgpr(w, kSource ? in.src[0].reg : in.dst.reg, kWords);
  if (w.stop == Stop::fault) return;
  if (kSource && in.src[0].kind != O_SGPR) return;
  if constexpr (kWords == 2) {
    if (kSource) set_s64(w, in.dst.reg, s64(w, r));
    else set_s64(w, r, rs64(w, in.src[0]));
  } else {
    if (kSource) w.s[in.dst.reg] = w.s[r];
    else w.s[r] = rs(w, in.src[0]);
  }
}

static void sendmsg_rtn32(Wave &w, const Inst &in) { w.s[in.dst.reg] = 0; }
static void sendmsg_rtn64(Wave &w, const Inst &in) {
  set_s64(w, in.dst.reg, w.group->clock_base + w.count);
}

static void register_flow(OpTable &t) {
  BRANCH("s_branch", (void(w), true))
  BRANCH("s_cbranch_scc0", !w.scc)
  BRANCH("s_cbranch_scc1", w.scc)
  BRANCH("s_cbranch_vccz", get_mask(w, kVcc) == 0)
  BRANCH("s_cbranch_vccnz", get_mask(w, kVcc) != 0)
  BRANCH("s_cbranch_execz", exec_of(w) == 0)
  BRANCH("s_cbranch_execnz", exec_of(w) != 0)
  BRANCH("s_cbranch_cdbgsys", false)
  BRANCH("s_cbranch_cdbguser", false)
  auto add = [&](const char *name, Handler fn, Class cls, Ty dst = Ty::none, Ty src = Ty::none,
                 u32 flags = 0) {
    OpInfo o;
    o.fn = fn;
    o.cls = cls;
    o.dst = dst;
    o.src[0] = src;
    o.nsrc = src != Ty::none;
    o.flags = flags;
    add_op(t, name, o);
  };
  add("s_set_gpr_idx_on", gpr_idx_on, Class::salu, Ty::none, Ty::b32);
  add("s_set_gpr_idx_idx", gpr_idx_idx, Class::salu, Ty::none, Ty::b32);
  add("s_set_gpr_idx_mode", gpr_idx_mode, Class::salu);
  add("s_movrels_b32", movrel<1, true>, Class::salu, Ty::b32, Ty::b32);
  add("s_movrels_b64", movrel<2, true>, Class::salu, Ty::b64, Ty::b64);
  add("s_movreld_b32", movrel<1, false>, Class::salu, Ty::b32, Ty::b32);
  add("s_movreld_b64", movrel<2, false>, Class::salu, Ty::b64, Ty::b64);
  add("s_movrelsd_2_b32", movrelsd_2, Class::salu, Ty::b32, Ty::b32);
  add("s_getpc_b64", getpc, Class::salu, Ty::b64);
  add("s_setpc_b64", setpc, Class::salu, Ty::none, Ty::b64);
  add("s_swappc_b64", swappc, Class::salu, Ty::b64, Ty::b64);
  add("s_call_b64", call, Class::branch, Ty::b64, Ty::none, F_VADDR);
  add("s_endpgm", endpgm, Class::other);
  add("s_endpgm_saved", endpgm, Class::other);
  add("s_sleep", sleep, Class::other);
  add("s_sleep_var", sleep, Class::other, Ty::none, Ty::b32);
  add("s_trap", trap, Class::other);
  add("s_getreg_b32", getreg, Class::salu, Ty::b32);
  add("s_setreg_b32", setreg, Class::salu, Ty::b32);
  add("s_setreg_imm32_b32", setreg, Class::salu, Ty::b32, Ty::none, F_LDS);
  add("s_round_mode", round_mode, Class::salu);
  add("s_denorm_mode", denorm_mode, Class::salu);
  add("s_sendmsg_rtn_b32", sendmsg_rtn32, Class::other, Ty::b32);
  add("s_sendmsg_rtn_b64", sendmsg_rtn64, Class::other, Ty::b64);
  for (const char *name :
       {"s_waitcnt", "s_waitcnt_vscnt", "s_waitcnt_vmcnt", "s_waitcnt_expcnt", "s_waitcnt_lgkmcnt",
        "s_waitcnt_depctr", "s_wait_alu", "s_wait_idle", "s_wait_event", "s_wait_loadcnt",
        "s_wait_storecnt", "s_wait_samplecnt", "s_wait_bvhcnt", "s_wait_expcnt", "s_wait_dscnt",
        "s_wait_kmcnt", "s_wait_loadcnt_dscnt", "s_wait_storecnt_dscnt"})
    add(name, nop, Class::wait);
  for (const char *name : {"s_nop",
                           "s_setprio",
                           "s_setprio_inc_wg",
                           "s_sethalt",
                           "s_sendmsg",
                           "s_sendmsghalt",
                           "s_icache_inv",
                           "s_incperflevel",
                           "s_decperflevel",
                           "s_ttracedata",
                           "s_ttracedata_imm",
                           "s_delay_alu",
                           "s_clause",
                           "s_inst_prefetch",
                           "s_set_inst_prefetch_distance",
                           "s_code_end",
                           "s_singleuse_vdst",
                           "s_version",
                           "s_setkill",
                           "s_set_gpr_idx_off",
                           "s_wakeup",
                           "s_cbranch_cdbgsys_and_user",
                           "s_cbranch_cdbgsys_or_user",
                           "s_dcache_inv",
                           "s_dcache_inv_vol",
                           "s_dcache_wb",
                           "s_dcache_wb_vol",
                           "s_gl1_inv",
                           "s_dcache_discard",
                           "s_dcache_discard_x2",
                           "s_atc_probe",
                           "s_atc_probe_buffer",
                           "s_prefetch_inst",
                           "s_prefetch_inst_pc_rel",
                           "s_prefetch_data",
                           "s_prefetch_data_pc_rel",
                           "s_buffer_prefetch_data"})
    add(name, nop, Class::other);
  add(".invalid", invalid, Class::other);
}

} // namespace MGX_ISA

void register_control(OpTable &t) { register_flow(t); }

} // namespace mgx::emu
