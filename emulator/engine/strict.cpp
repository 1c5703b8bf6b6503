// Strict mode. In-order execution hides what a GPU would show only sometimes:
//  - a result used before the s_waitcnt that guarantees it,
//  - values of registers or LDS nobody wrote, once they reach an address, global memory,
//    EXEC or a branch,
//  - accesses of two waves to the same place that nothing orders.
// This file looks at an instruction before it is executed; strict_results.cpp keeps account of
// the values that somebody wrote, strict_races.cpp of who touched which memory.
#include "strict_state.h"

#include "run.h"

namespace mgx::emu {

std::shared_ptr<GlobalShadow> make_global_shadow(const Program &program) {
  auto shadow = std::make_shared<GlobalShadow>();
  for (const std::string &name : program.names) shadow->facts.emplace_back(name);
  return shadow;
}

void strict_start(const Launch &l, GroupState &g) {
  auto *s = new Strict;
  g.strict = {s, [](Strict *p) { delete p; }};
  s->global = l.shadow.get();
  s->group =
      g.group.id[0] + l.dispatch->grid[0] * (g.group.id[1] + l.dispatch->grid[1] * g.group.id[2]);
  s->footprint = l.options.footprint;
  s->own = l.packet;
  s->own_bytes = l.kernarg - l.packet + l.kernel->kernarg_size;
  s->words.resize(l.lds_bytes / 4 + 2);
  s->lds.resize(l.lds_bytes + 64, 0xff);
  const u32 given = given_sgprs(l), ids = l.descriptor->rsrc2 >> 11 & 3;
  for (u32 i = 0; i < g.live_waves; ++i) {
    auto w = std::make_unique<WaveShadow>();
    for (u32 r = 0; r < kScalars; ++r) w->sdefined[r] = r < given || !tracked(r) ? ~0u : 0;
    for (u32 r = 0; r <= (l.chip->is_gfx10() ? ids : 0); ++r) w->defined[r] = ~u64(0);
    w->scratch.resize(size_t(l.scratch_bytes) * g.waves[i]->lanes, 0xff);
    s->waves.push_back(std::move(w));
    g.waves[i]->strict = s;
    s->waves[i]->order.self = u64(s->group) << 8 | i;
  }
}

//===-- Waits -------------------------------------------------------------===//

// Field layouts: LLVM AMDGPUBaseInfo "Waitcnt" and the ISA documents.
Outstanding outstanding_after(const Wave &w, const Inst &in) {
  const std::string &name = w.program->names[in.name];
  u32 x = u32(in.imm) & 0xffff;
  Outstanding left;
  if (name == "s_waitcnt") {
    if (w.chip->is_gfx11()) {
      left.vm = x >> 10 & 63;
      left.lds = x >> 4 & 63;
    } else {
      left.vm = (x & 15) | (x >> 14 & 3) << 4;
      left.lds = x >> 8 & (w.chip->is_gfx9() ? 15 : 63);
    }
    // A field of all ones waits for nothing.
    if (left.vm == 63) left.vm = ~0u;
    if (left.lds == (w.chip->is_gfx9() ? 15u : 63u)) left.lds = ~0u;
    left.smem = left.lds == 0 ? 0 : ~0u; // scalar loads return out of order
  } else if (name == "s_wait_loadcnt" || name == "s_waitcnt_vmcnt") left.vm = x;
  else if (name == "s_wait_dscnt") left.lds = x;
  else if (name == "s_wait_kmcnt") left.smem = x == 0 ? 0 : ~0u;
  else if (name == "s_wait_loadcnt_dscnt") left.vm = x >> 8 & 63, left.lds = x & 63;
  else if (name == "s_wait_storecnt_dscnt") left.lds = x & 63;
  else if (name == "s_waitcnt_lgkmcnt") left.lds = x, left.smem = x == 0 ? 0 : ~0u;
  else if (name == "s_wait_idle") left.vm = left.lds = left.smem = 0;
  return left;
}

void complete(WaveShadow &s, Counter c, u32 outstanding) {
  if (s.issued[c] > outstanding) s.done[c] = std::max(s.done[c], s.issued[c] - outstanding);
}

namespace {

void wait(const Wave &w, WaveShadow &s, const Inst &in) {
  Outstanding left = outstanding_after(w, in);
  if (left.vm != ~0u) complete(s, kVm, left.vm);
  if (left.lds != ~0u) complete(s, kLds, left.lds);
  if (left.smem != ~0u) complete(s, kSmem, 0);
}

bool is_load(Class c) {
  return c == Class::global_load || c == Class::global_atomic || c == Class::flat ||
         c == Class::scratch || c == Class::lds_read || c == Class::lds_atomic;
}

bool pending(const WaveShadow &s, const Pending &p) {
  return p.counter != kNone && p.sequence > s.done[p.counter];
}

bool any_pending(const WaveShadow &s, const Operand &o, u32 registers = ~0u) {
  if (o.kind == O_VGPR)
    for (u32 k = 0; k < o.words; ++k)
      if (registers >> k & 1 && pending(s, s.v[o.reg + k])) return true;
  if (tracked(o))
    for (u32 k = 0; k < o.words; ++k)
      if (pending(s, s.s[o.reg + k])) return true;
  return false;
}

bool any_pending(const Wave &w, const WaveShadow &s, const Inst &in) {
  if (in.cls == Class::matrix)
    return any_pending(s, of_wave(w, in, in.src[0], &MatrixOp::a_registers)) ||
           any_pending(s, of_wave(w, in, in.src[1], &MatrixOp::b_registers)) ||
           any_pending(s, of_wave(w, in, in.src[2], &MatrixOp::acc_registers)) ||
           any_pending(s, in.src[3]) || any_pending(s, in.sdst) ||
           any_pending(s, of_wave(w, in, in.dst, &MatrixOp::acc_registers));
  for (const Operand &o : in.src)
    if (any_pending(s, o, chosen(w, in, o))) return true;
  return !is_load(in.cls) && in.cls != Class::smem && any_pending(s, in.dst);
}

bool undefined_fault(Wave &w, u64 lanes, const char *text) {
  if (!lanes) return true;
  raise_fault(w, Fault::uninitialized, __builtin_ctzll(lanes), 0, text);
  return false;
}

bool check_addresses(Wave &w, const WaveShadow &s, const Inst &in) {
  u64 exec = exec_of(w);
  if (is_vmem(in.cls)) {
    for (u32 i : {0u, 2u, 3u})
      if (!undefined_fault(w, exec & ~defined(w, s, in.src[i]),
                           "an address is computed from a value nobody wrote"))
        return false;
    bool memory = in.cls == Class::global_store || in.cls == Class::global_atomic;
    // Private memory by way of a buffer: callee-saved registers are stored unread.
    if (is_private_buffer(w, in)) memory = false;
    return !memory || undefined_fault(w, exec & ~defined(w, s, in.src[1], chosen(w, in, in.src[1])),
                                      "a value nobody wrote is stored to global memory");
  }
  if ((in.cls == Class::lds_read || in.cls == Class::lds_write || in.cls == Class::lds_atomic) &&
      in.src[0].kind == O_VGPR && facts_of(w, in).rule != Rule::first)
    return undefined_fault(w, exec & ~defined(w, s, in.src[0]),
                           "an LDS address is computed from a value nobody wrote");
  if (in.cls == Class::smem && exec)
    for (u32 i : {0u, 1u})
      if (!defined(w, s, in.src[i]))
        return undefined_fault(w, 1, "a scalar address is computed from a value nobody wrote");
  return true;
}

// A branch asks SCC, or whether any lane of VCC is set.
bool check_branch(Wave &w, const WaveShadow &s, const Inst &in) {
  bool known = !facts_of(w, in).asks_scc || s.scc_defined;
  if (facts_of(w, in).asks_vcc) {
    u64 bits =
        w.lanes == 64 ? u64(s.sdefined[kVcc + 1]) << 32 | s.sdefined[kVcc] : u64(s.sdefined[kVcc]);
    known = (bits & w.all) == w.all || get_mask(w, kVcc) & bits;
  }
  if (known) return true;
  raise_fault(w, Fault::uninitialized, -1, 0, "a branch is decided by a value nobody wrote");
  return false;
}

} // namespace

bool strict_before(Wave &w, const Inst &in) {
  WaveShadow &s = *w.strict->waves[w.id];
  s.undefined_load = 0;
  s.exec = exec_of(w);
  s.moved = false;
  strict_order(w, in);
  if (in.cls == Class::wait) {
    wait(w, s, in);
    return true;
  }
  if (any_pending(w, s, in)) {
    raise_fault(
        w, Fault::missing_wait, -1, 0,
        "a register is used while a memory instruction may still write it: an s_waitcnt is missing");
    return false;
  }
  if (in.cls == Class::branch) return check_branch(w, s, in);
  return check_addresses(w, s, in) && mirror(w, in);
}

void strict_after(Wave &w, const Inst &in) { define_results(w, in); }

} // namespace mgx::emu
