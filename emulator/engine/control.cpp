// Program flow, barriers, hardware registers, clocks and scalar memory.
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
  if (!to) return raise_fault(w, Fault::invalid_instruction, -1, address, "jump to an address without code");
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
  if ((in.imm & 0xff) == 2) raise_fault(w, Fault::trap, -1, 0, "the kernel trapped (abort or a failed assertion)");
}

//===-- Barriers ----------------------------------------------------------===//

// A wave that has ended counts as arrived: the hardware takes it off the count.
static void arrive(Wave &w) {
  Group &g = *w.group;
  w.signalled = g.barrier_phase;
  if (++g.signals >= g.live) {
    g.signals = 0;
    ++g.barrier_phase;
  }
}
static void barrier(Wave &w, const Inst &) {
  arrive(w);
  if (w.group->barrier_phase != w.signalled) return;
  w.at_barrier = true;
  w.stop = Stop::barrier;
}
static void barrier_signal(Wave &w, const Inst &) { arrive(w); }
static void barrier_signal_isfirst(Wave &w, const Inst &) {
  w.scc = w.group->signals == 0;
  arrive(w);
}
static void barrier_wait(Wave &w, const Inst &) {
  if (w.group->barrier_phase != w.signalled) return;
  w.at_barrier = true;
  w.stop = Stop::barrier;
}
static void get_barrier_state(Wave &w, const Inst &in) {
  w.s[in.dst.reg] = w.group->signals << 4 | w.group->live << 16;
}

//===-- Hardware registers ------------------------------------------------===//

static void mode_changed(Wave &w) {
  // Nearest even and all denormals kept is what plain arithmetic does.
  w.special_mode = (w.mode & 0xff) != 0xf0;
}
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
static void gpr_idx_idx(Wave &w, const Inst &in) { w.s[kM0] = (w.s[kM0] & ~0xffu) | (rs(w, in.src[0]) & 0xff); }
static void gpr_idx_mode(Wave &w, const Inst &in) { w.s[kM0] = (w.s[kM0] & ~0xf000u) | (u32(in.imm) & 15) << 12; }

static u32 relative_sgpr(Wave &w, u32 reg, u32 words) {
  u64 r = u64(reg) + w.s[kM0];
  if (r + words <= 106) return u32(r);
  raise_fault(w, Fault::invalid_instruction, -1, 0, "scalar register index beyond the register file");
  return 0;
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

static void memtime(Wave &w, const Inst &in) { set_s64(w, in.dst.reg, w.group->clock_base + w.count); }
static void sendmsg_rtn32(Wave &w, const Inst &in) { w.s[in.dst.reg] = 0; }
static void sendmsg_rtn64(Wave &w, const Inst &in) { set_s64(w, in.dst.reg, w.group->clock_base + w.count); }

//===-- Scalar memory -----------------------------------------------------===//

static bool readable(Wave &w, u64 address, u64 bytes) {
  CachedRange &c = w.cache[7];
  if (address - c.base < c.size && bytes <= c.size - (address - c.base)) return true;
  Range r = w.memory->find(address);
  if (!r || bytes > r.size - (address - r.base)) return false;
  c = {r.base, r.size};
  return true;
}
// The hardware ignores the two lowest address bits.
template <u32 kWords> static void s_load(Wave &w, const Inst &in) {
  u64 address = rs64(w, in.src[0]) + u64(i64(in.imm));
  if (in.src[1].kind != O_NONE) address += rs(w, in.src[1]);
  address &= ~u64(3);
  if (!readable(w, address, kWords * 4))
    return raise_fault(w, Fault::out_of_bounds, -1, address, "scalar load outside every allocation");
  std::memcpy(&w.s[in.dst.reg], reinterpret_cast<const void *>(address), kWords * 4);
}
template <class T> static void s_load_small(Wave &w, const Inst &in) {
  u64 address = rs64(w, in.src[0]) + u64(i64(in.imm));
  if (in.src[1].kind != O_NONE) address += rs(w, in.src[1]);
  if (!readable(w, address, sizeof(T)))
    return raise_fault(w, Fault::out_of_bounds, -1, address, "scalar load outside every allocation");
  T x;
  std::memcpy(&x, reinterpret_cast<const void *>(address), sizeof x);
  w.s[in.dst.reg] = u32(i32(x));
}
// Scalar buffer loads: words beyond the size of the buffer read 0.
template <class T> static void s_buffer_load_small(Wave &w, const Inst &in) {
  const u32 *r = &w.s[in.src[0].reg];
  u64 base = u64(r[1] & 0xffff) << 32 | r[0], stride = r[1] >> 16 & 0x3fff;
  u64 size = stride ? stride * r[2] : r[2], offset = u64(i64(in.imm));
  if (in.src[1].kind != O_NONE) offset += rs(w, in.src[1]);
  T x = 0;
  if (offset + sizeof(T) <= size) {
    if (!readable(w, base + offset, sizeof(T)))
      return raise_fault(w, Fault::out_of_bounds, -1, base + offset, "scalar buffer load outside every allocation");
    std::memcpy(&x, reinterpret_cast<const void *>(base + offset), sizeof x);
  }
  w.s[in.dst.reg] = u32(i32(x));
}
template <u32 kWords> static void s_buffer_load(Wave &w, const Inst &in) {
  const u32 *r = &w.s[in.src[0].reg];
  u64 base = (u64(r[1] & 0xffff) << 32 | r[0]) & ~u64(3);
  u32 stride = r[1] >> 16 & 0x3fff;
  u64 size = stride ? u64(stride) * r[2] : r[2];
  u64 offset = u64(i64(in.imm));
  if (in.src[1].kind != O_NONE) offset += rs(w, in.src[1]);
  offset &= ~u64(3);
  u32 out[kWords];
  for (u32 i = 0; i < kWords; ++i) {
    u64 at = offset + 4 * i;
    out[i] = 0;
    if (at + 4 > size) continue;
    if (!readable(w, base + at, 4))
      return raise_fault(w, Fault::out_of_bounds, -1, base + at, "scalar buffer load outside every allocation");
    std::memcpy(&out[i], reinterpret_cast<const void *>(base + at), 4);
  }
  std::memcpy(&w.s[in.dst.reg], out, sizeof out);
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
  auto add = [&](const char *name, Handler fn, Class cls, Ty dst = Ty::none, Ty src = Ty::none, u32 flags = 0) {
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
  add("s_getpc_b64", getpc, Class::salu, Ty::b64);
  add("s_setpc_b64", setpc, Class::salu, Ty::none, Ty::b64);
  add("s_swappc_b64", swappc, Class::salu, Ty::b64, Ty::b64);
  add("s_call_b64", call, Class::branch, Ty::b64, Ty::none, F_VADDR);
  add("s_endpgm", endpgm, Class::other);
  add("s_endpgm_saved", endpgm, Class::other);
  add("s_sleep", sleep, Class::other);
  add("s_sleep_var", sleep, Class::other, Ty::none, Ty::b32);
  add("s_trap", trap, Class::other);
  add("s_barrier", barrier, Class::barrier);
  add("s_barrier_signal", barrier_signal, Class::barrier, Ty::none, Ty::b32);
  add("s_barrier_signal_isfirst", barrier_signal_isfirst, Class::barrier, Ty::none, Ty::b32);
  add("s_barrier_wait", barrier_wait, Class::barrier);
  add("s_barrier_leave", nop, Class::barrier);
  add("s_get_barrier_state", get_barrier_state, Class::salu, Ty::b32, Ty::b32);
  add("s_getreg_b32", getreg, Class::salu, Ty::b32);
  add("s_setreg_b32", setreg, Class::salu, Ty::b32);
  add("s_setreg_imm32_b32", setreg, Class::salu, Ty::b32, Ty::none, F_LDS);
  add("s_round_mode", round_mode, Class::salu);
  add("s_denorm_mode", denorm_mode, Class::salu);
  add("s_sendmsg_rtn_b32", sendmsg_rtn32, Class::other, Ty::b32);
  add("s_sendmsg_rtn_b64", sendmsg_rtn64, Class::other, Ty::b64);
  for (const char *name :
       {"s_waitcnt", "s_waitcnt_vscnt", "s_waitcnt_vmcnt", "s_waitcnt_expcnt", "s_waitcnt_lgkmcnt", "s_waitcnt_depctr",
        "s_wait_alu", "s_wait_idle", "s_wait_event", "s_wait_loadcnt", "s_wait_storecnt", "s_wait_samplecnt",
        "s_wait_bvhcnt", "s_wait_expcnt", "s_wait_dscnt", "s_wait_kmcnt", "s_wait_loadcnt_dscnt",
        "s_wait_storecnt_dscnt"})
    add(name, nop, Class::wait);
  for (const char *name :
       {"s_nop", "s_setprio", "s_setprio_inc_wg", "s_sethalt", "s_sendmsg", "s_sendmsghalt", "s_icache_inv", "s_incperflevel",
        "s_decperflevel", "s_ttracedata", "s_ttracedata_imm", "s_delay_alu", "s_clause", "s_inst_prefetch",
        "s_set_inst_prefetch_distance", "s_code_end", "s_singleuse_vdst", "s_version", "s_setkill",
        "s_set_gpr_idx_off", "s_wakeup", "s_cbranch_cdbgsys_and_user", "s_cbranch_cdbgsys_or_user", "s_dcache_inv", "s_dcache_inv_vol", "s_dcache_wb", "s_dcache_wb_vol", "s_gl1_inv",
        "s_prefetch_inst", "s_prefetch_inst_pc_rel", "s_prefetch_data", "s_prefetch_data_pc_rel",
        "s_buffer_prefetch_data"})
    add(name, nop, Class::other);
  add(".invalid", invalid, Class::other);
}

static void register_memory(OpTable &t) {
  auto add = [&](const char *name, Handler fn, Ty dst, Ty base) {
    OpInfo o;
    o.fn = fn;
    o.cls = Class::smem;
    o.dst = dst;
    o.src[0] = base;
    o.nsrc = base != Ty::none;
    add_op(t, name, o);
  };
  add("s_load_b32", s_load<1>, Ty::b32, Ty::b64);
  add("s_load_b64", s_load<2>, Ty::b64, Ty::b64);
  add("s_load_b96", s_load<3>, Ty::b96, Ty::b64);
  add("s_load_b128", s_load<4>, Ty::b128, Ty::b64);
  add("s_load_b256", s_load<8>, Ty::b256, Ty::b64);
  add("s_load_b512", s_load<16>, Ty::b512, Ty::b64);
  add("s_load_i8", s_load_small<i8>, Ty::b32, Ty::b64);
  add("s_load_u8", s_load_small<u8>, Ty::b32, Ty::b64);
  add("s_load_i16", s_load_small<i16>, Ty::b32, Ty::b64);
  add("s_load_u16", s_load_small<u16>, Ty::b32, Ty::b64);
  add("s_buffer_load_b32", s_buffer_load<1>, Ty::b32, Ty::b128);
  add("s_buffer_load_b64", s_buffer_load<2>, Ty::b64, Ty::b128);
  add("s_buffer_load_b96", s_buffer_load<3>, Ty::b96, Ty::b128);
  add("s_buffer_load_b128", s_buffer_load<4>, Ty::b128, Ty::b128);
  add("s_buffer_load_b256", s_buffer_load<8>, Ty::b256, Ty::b128);
  add("s_buffer_load_b512", s_buffer_load<16>, Ty::b512, Ty::b128);
  add("s_buffer_load_i8", s_buffer_load_small<i8>, Ty::b32, Ty::b128);
  add("s_buffer_load_u8", s_buffer_load_small<u8>, Ty::b32, Ty::b128);
  add("s_buffer_load_i16", s_buffer_load_small<i16>, Ty::b32, Ty::b128);
  add("s_buffer_load_u16", s_buffer_load_small<u16>, Ty::b32, Ty::b128);
  add("s_memtime", memtime, Ty::b64, Ty::none);
  add("s_memrealtime", memtime, Ty::b64, Ty::none);
}

} // namespace MGX_ISA

void register_control(OpTable &t) {
  register_flow(t);
  register_memory(t);
}

} // namespace mgx::emu
