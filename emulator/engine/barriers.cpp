// Barriers of a work-group: whole, split, and the named ones of gfx12.
#include "valu.h"

namespace mgx::emu {
inline namespace MGX_ISA {

static void complete(Group &g, Barrier &b) {
  b.signals = 0;
  ++b.phase;
  ++g.epoch;
}
// A wave that has ended counts as arrived: the hardware takes it off the count.
static void arrive(Wave &w) {
  Group &g = *w.group;
  Barrier &b = g.barriers[0];
  w.seen_phase = b.phase;
  if (++b.signals >= g.live) complete(g, b);
}
static void wait_for(Wave &w, u32 id, u32 seen) {
  if (w.group->barriers[id].phase != seen) return;
  w.at_barrier = true;
  w.waits_for = id;
  w.wait_phase = seen;
  w.stop = Stop::barrier;
}

static void barrier(Wave &w, const Inst &) {
  arrive(w);
  wait_for(w, 0, w.seen_phase);
}

// The number of a barrier: -1 is the work-group's, 1 to 16 are named ones (LLVM,
// SIDefines.h "Barrier"). In M0 it is in bits 5:0, a member count in 22:16.
static i32 barrier_id(Wave &w, const Inst &in) {
  bool in_m0 = in.src[0].kind == O_SGPR;
  i32 id = in_m0 ? i32(w.s[kM0] & 63) : i32(rs(w, in.src[0]));
  if (id >= i32(kBarriers) || id < -2)
    raise_fault(w, Fault::invalid_instruction, -1, 0, "there is no barrier of this number");
  return id;
}
// Counts a signal; true if it is the first of its round. Barrier 0 does nothing,
// -2 is for trap handlers only.
static bool signal(Wave &w, const Inst &in) {
  i32 id = barrier_id(w, in);
  if (w.stop == Stop::fault || id == 0 || id == -2) return false;
  Barrier &b = w.group->barriers[id < 0 ? 0 : id];
  bool first = b.signals == 0;
  if (id < 0) {
    arrive(w);
    return first;
  }
  u32 members = in.src[0].kind == O_SGPR ? w.s[kM0] >> 16 & 127 : 0;
  if (members) b.members = members;
  if (++b.signals >= b.members) complete(*w.group, b);
  return first;
}
static void barrier_signal(Wave &w, const Inst &in) { signal(w, in); }
static void barrier_signal_isfirst(Wave &w, const Inst &in) { w.scc = signal(w, in); }
static void barrier_wait(Wave &w, const Inst &in) {
  if (in.imm < -1) return;
  if (in.imm == -1) return wait_for(w, 0, w.seen_phase);
  if (!w.joined) return; // of no named barrier: nothing to wait for
  u32 phase = w.group->barriers[w.joined].phase, seen = w.joined_phase;
  w.joined_phase = phase;
  wait_for(w, w.joined, seen);
}
static void barrier_init(Wave &w, const Inst &in) {
  i32 id = barrier_id(w, in);
  if (w.stop == Stop::fault || id <= 0) return;
  Barrier &b = w.group->barriers[id];
  b.members = w.s[kM0] >> 16 & 127;
  b.signals = 0;
}
static void barrier_join(Wave &w, const Inst &in) {
  i32 id = barrier_id(w, in);
  if (w.stop == Stop::fault || id < 0) return;
  w.joined = u32(id);
  w.joined_phase = w.group->barriers[id].phase;
}
// Leaves the joined barrier, which goes on with a member less.
static void barrier_leave(Wave &w, const Inst &) {
  w.scc = w.joined != 0;
  if (!w.joined) return;
  Barrier &b = w.group->barriers[w.joined];
  w.joined = 0;
  if (b.members) --b.members;
  if (b.signals && b.signals >= b.members) complete(*w.group, b);
}
static void get_barrier_state(Wave &w, const Inst &in) {
  i32 id = barrier_id(w, in);
  if (w.stop == Stop::fault) return;
  const Barrier &b = w.group->barriers[id < 0 ? 0 : id];
  u32 members = id < 0 ? w.group->live : b.members;
  w.s[in.dst.reg] = b.signals << 16 | members << 4 | (members != 0);
}

// DS_GWS_BARRIER, which HIP's grid synchronisation executes once a work-group:
// the register says how many others come. The wave tries again until all have.
static void grid_barrier(Wave &w, const Inst &in) {
  GridBarrier *g = w.group->grid;
  u64 exec = exec_of(w);
  if (!g || !g->cooperative)
    return raise_fault(w, Fault::barrier, -1, 0,
                       "work-groups wait for each other in a launch that is not cooperative");
  if (!w.in_grid_barrier) {
    u32 expected = w.vgpr(in.src[0].reg)[exec ? __builtin_ctzll(exec) : 0] + 1;
    w.grid_phase = g->phase.load();
    if (g->arrived.fetch_add(1) + 1 >= expected) {
      g->arrived.store(0);
      g->phase.fetch_add(1);
      return;
    }
    w.in_grid_barrier = true;
  }
  if (g->phase.load() != w.grid_phase) {
    w.in_grid_barrier = false;
    return;
  }
  if (g->ended.load() > 0 && g->phase.load() == w.grid_phase)
    return raise_fault(w, Fault::barrier, -1, 0,
                       "the grid hangs: not all of its work-groups reach this barrier");
  w.pc = &in;
  w.stop = Stop::yield;
}
static void nothing(Wave &, const Inst &) {}

} // namespace MGX_ISA

void register_barriers(OpTable &t) {
  auto add = [&](const char *name, Handler fn, Class cls, Ty dst = Ty::none, Ty src = Ty::none) {
    OpInfo o;
    o.fn = fn;
    o.cls = cls;
    o.dst = dst;
    o.src[0] = src;
    o.nsrc = src != Ty::none;
    add_op(t, name, o);
  };
  add("s_barrier", barrier, Class::barrier);
  add("s_barrier_signal", barrier_signal, Class::barrier, Ty::none, Ty::b32);
  add("s_barrier_signal_isfirst", barrier_signal_isfirst, Class::barrier, Ty::none, Ty::b32);
  add("s_barrier_wait", barrier_wait, Class::barrier);
  add("s_barrier_init", barrier_init, Class::barrier, Ty::none, Ty::b32);
  add("s_barrier_join", barrier_join, Class::barrier, Ty::none, Ty::b32);
  add("s_barrier_leave", barrier_leave, Class::barrier);
  add("s_get_barrier_state", get_barrier_state, Class::salu, Ty::b32, Ty::b32);
  add("ds_gws_barrier", grid_barrier, Class::barrier, Ty::none, Ty::b32);
  add("ds_gws_init", nothing, Class::barrier, Ty::none,
      Ty::b32); // the barrier says its count itself
}

} // namespace mgx::emu
