// Strict mode. In-order execution hides what a GPU would show only sometimes:
//  - a result used before the s_waitcnt that guarantees it,
//  - values of registers or LDS nobody wrote, once they reach an address or
//    global memory,
//  - accesses of two waves to the same place that nothing orders.
#include "strict.h"

#include "decode_fields.h"
#include "hooks.h"

#include <algorithm>
#include <unordered_map>

namespace mgx::emu {

namespace {

enum Counter : u8 { kNone, kVm, kLds, kSmem, kCounters };

struct Pending {
  u32 sequence = 0;
  Counter counter = kNone;
};

struct WaveShadow {
  Pending v[kVgprs], s[kScalars];
  u64 defined[kVgprs] = {};   // lanes
  bool sdefined[kScalars] = {};
  u32 issued[kCounters] = {}, done[kCounters] = {};
  u64 undefined_load = 0;     // lanes whose LDS bytes nobody wrote
  u64 last_atomic = 0;        // time of the wave's last global atomic
};

struct LdsWord {
  u32 epoch = ~0u;
  i16 writer = -1;
  bool atomic = false;
  u32 readers = 0; // waves
};

struct GlobalWord {
  u32 group = ~0u, epoch = 0;
  i16 wave = -1;
  u8 kind = 0; // 1 read, 2 write, 4 atomic
  u64 time = 0;
};

} // namespace

// Belongs to one dispatch; shared by its threads.
struct GlobalShadow {
  static constexpr u32 kShards = 64;
  struct Shard {
    std::mutex mutex;
    std::unordered_map<u64, GlobalWord> reads, writes;
  } shards[kShards];
  std::atomic<u64> time{1};
};

struct Strict {
  std::vector<std::unique_ptr<WaveShadow>> waves;
  std::vector<LdsWord> words;
  std::vector<bool> lds_defined;
  GlobalShadow *global = nullptr;
  u32 group = 0;
  Footprint *footprint = nullptr;
  Footprint::Line *line = nullptr; // last touched
  u64 line_number = ~u64(0);
  u64 own = 0, own_bytes = 0; // the dispatch's arguments: no memory of the program

  void note(u64 address, u64 bytes, Touch how) {
    if (!footprint || address - own < own_bytes) return;
    while (bytes) {
      u64 first = address % Footprint::kLine, count = std::min(bytes, Footprint::kLine - first);
      if (address / Footprint::kLine != line_number) {
        line = &footprint->line(address);
        line_number = address / Footprint::kLine;
      }
      line->note(~u64(0) >> (64 - count) << first, how);
      address += count;
      bytes -= count;
    }
  }
};

std::shared_ptr<GlobalShadow> make_global_shadow() { return std::make_shared<GlobalShadow>(); }

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
  s->lds_defined.resize(l.lds_bytes + 8);
  u32 user = (l.descriptor->rsrc2 >> 1 & 31) + 8;
  for (u32 i = 0; i < g.live_waves; ++i) {
    auto w = std::make_unique<WaveShadow>();
    for (u32 r = 0; r < kScalars; ++r) w->sdefined[r] = r < user || r >= 102;
    for (u32 r = 0; r < (l.chip->is_gfx10() ? 3u : 1u); ++r) w->defined[r] = ~u64(0);
    s->waves.push_back(std::move(w));
    g.waves[i]->strict = s;
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
  else if (name == "s_waitcnt_lgkmcnt") left.lds = x, left.smem = x == 0 ? 0 : ~0u;
  else if (name == "s_wait_idle") left.vm = left.lds = left.smem = 0;
  return left;
}

namespace {

// Counters of vector memory have 6 bits.
constexpr u32 kMostInFlight = 63;

void complete(WaveShadow &s, Counter c, u32 outstanding) {
  if (s.issued[c] > outstanding) s.done[c] = std::max(s.done[c], s.issued[c] - outstanding);
}

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
bool is_vmem(Class c) {
  return c == Class::global_load || c == Class::global_store || c == Class::global_atomic ||
         c == Class::flat || c == Class::scratch;
}

bool pending(const WaveShadow &s, const Pending &p) {
  return p.counter != kNone && p.sequence > s.done[p.counter];
}

// A general scalar register, whose state is tracked.
bool tracked(const Operand &o) { return o.kind == O_SGPR && o.ty != Ty::mask && o.reg < 102; }

// An operand of a matrix instruction in this wave: decoded are the registers of wave32.
Operand of_wave(const Wave &w, const Inst &in, Operand o, u8 MatrixOp::*registers) {
  auto *pair = static_cast<const MatrixPair *>(in.aux);
  if (o.kind == O_VGPR && w.lanes == 64 && pair->w32 && pair->w64 &&
      o.words == pair->w32->*registers)
    o.words = pair->w64->*registers;
  return o;
}

// Which registers of an operand take part: M0 says so for a block of them.
u32 chosen(const Wave &w, const Inst &in, const Operand &o) {
  return o.words == 32 && is_vmem(in.cls) ? w.s[kM0] : ~0u;
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

// Lanes in which all registers of the operand are defined.
u64 defined(const WaveShadow &s, const Operand &o, u32 registers = ~0u) {
  u64 m = ~u64(0);
  if (o.kind == O_VGPR)
    for (u32 k = 0; k < o.words; ++k)
      if (registers >> k & 1) m &= s.defined[o.reg + k];
  if (tracked(o))
    for (u32 k = 0; k < o.words; ++k)
      if (!s.sdefined[o.reg + k]) return 0;
  return m;
}

bool undefined_fault(Wave &w, u64 lanes, const char *text) {
  if (!lanes) return true;
  raise_fault(w, Fault::uninitialized, __builtin_ctzll(lanes), 0, text);
  return false;
}

} // namespace

bool strict_before(Wave &w, const Inst &in) {
  WaveShadow &s = *w.strict->waves[w.id];
  s.undefined_load = 0;
  if (in.cls == Class::wait) {
    wait(w, s, in);
    return true;
  }
  bool late = false;
  if (in.cls == Class::matrix)
    late = any_pending(s, of_wave(w, in, in.src[0], &MatrixOp::a_registers)) ||
           any_pending(s, of_wave(w, in, in.src[1], &MatrixOp::b_registers)) ||
           any_pending(s, of_wave(w, in, in.src[2], &MatrixOp::acc_registers)) ||
           any_pending(s, in.src[3]) || any_pending(s, in.sdst) ||
           any_pending(s, of_wave(w, in, in.dst, &MatrixOp::acc_registers));
  else
    for (const Operand &o : in.src) late |= any_pending(s, o, chosen(w, in, o));
  if (in.cls != Class::matrix && !is_load(in.cls) && in.cls != Class::smem)
    late |= any_pending(s, in.dst);
  if (late) {
    raise_fault(
        w, Fault::missing_wait, -1, 0,
        "a register is used while a memory instruction may still write it: an s_waitcnt is missing");
    return false;
  }
  u64 exec = exec_of(w);
  if (is_vmem(in.cls)) {
    for (u32 i : {0u, 2u})
      if (!undefined_fault(w, exec & ~defined(s, in.src[i]),
                           "an address is computed from a value nobody wrote"))
        return false;
    bool memory = in.cls == Class::global_store || in.cls == Class::global_atomic;
    // Private memory by way of a buffer: callee-saved registers are stored unread.
    if (in.cbsz == S_BUFFER && w.s[in.src[2].reg + 3] >> 23 & 1) memory = false;
    if (memory && !undefined_fault(w, exec & ~defined(s, in.src[1], chosen(w, in, in.src[1])),
                                   "a value nobody wrote is stored to global memory"))
      return false;
  }
  if ((in.cls == Class::lds_read || in.cls == Class::lds_write || in.cls == Class::lds_atomic) &&
      in.src[0].kind == O_VGPR &&
      !undefined_fault(w, exec & ~defined(s, in.src[0]),
                       "an LDS address is computed from a value nobody wrote"))
    return false;
  if (in.cls == Class::smem && exec && !defined(s, in.src[0]))
    return undefined_fault(w, 1, "a scalar address is computed from a value nobody wrote");
  return true;
}

//===-- Results -----------------------------------------------------------===//

namespace {

void set_defined(WaveShadow &s, const Operand &dst, u64 exec, u64 value, u32 registers = ~0u) {
  for (u32 k = 0; k < dst.words; ++k)
    if (registers >> k & 1)
      s.defined[dst.reg + k] = (s.defined[dst.reg + k] & ~exec) | (value & exec);
}

void loaded(WaveShadow &s, const Operand &dst, Counter c, u32 registers = ~0u) {
  for (u32 k = 0; k < dst.words; ++k)
    if (registers >> k & 1) (dst.kind == O_VGPR ? s.v : s.s)[dst.reg + k] = {s.issued[c], c};
}

// 64-bit operations whose low result depends on the low halves only; compilers
// leave the high half of such a source unset.
bool low_from_low(const std::string &name) {
  return name.compare(0, 5, "v_mad") == 0 || name == "v_lshl_add_u64" || name == "v_lshlrev_b64";
}

u64 sources(const WaveShadow &s, const Inst &in) {
  u64 m = ~u64(0);
  for (const Operand &o : in.src)
    if (!(o.mods & M_DPP)) m &= defined(s, o);
  return m;
}

} // namespace

void strict_after(Wave &w, const Inst &in) {
  WaveShadow &s = *w.strict->waves[w.id];
  u64 exec = exec_of(w);
  bool separate = w.chip->is_gfx12(); // LDS and scalar loads have counters of their own
  switch (in.cls) {
  case Class::smem:
    ++s.issued[kSmem];
    if (!separate) ++s.issued[kLds];
    if (in.dst.kind == O_SGPR) {
      for (u32 k = 0; k < in.dst.words; ++k) s.sdefined[in.dst.reg + k] = true;
      loaded(s, in.dst, kSmem);
    }
    return;
  case Class::global_load:
  case Class::global_atomic:
  case Class::flat:
  case Class::scratch:
  case Class::global_store: {
    bool returns = in.dst.kind == O_VGPR && !(in.flags & F_LDS);
    // From gfx10 on stores and atomics without result have a counter of their own.
    if (w.chip->is_gfx9() || returns || in.flags & F_LDS) ++s.issued[kVm];
    // An instruction waits where the counter is at its most: LLVM counts on it, too.
    complete(s, kVm, kMostInFlight);
    if (in.cls == Class::flat) ++s.issued[kLds];
    if (in.cls == Class::global_atomic) s.last_atomic = w.strict->global->time.fetch_add(1);
    if (!returns) return;
    set_defined(s, in.dst, exec, exec & ~s.undefined_load, chosen(w, in, in.dst));
    loaded(s, in.dst, kVm, chosen(w, in, in.dst));
    return;
  }
  case Class::lds_read:
  case Class::lds_write:
  case Class::lds_atomic:
    ++s.issued[kLds];
    if (in.dst.kind != O_VGPR) return;
    set_defined(s, in.dst, exec, exec & ~s.undefined_load);
    loaded(s, in.dst, kLds);
    return;
  case Class::barrier: // one between work-groups orders all waves of this one
    if (in.src[0].kind == O_VGPR)
      for (auto &wave : w.strict->waves) wave->last_atomic = w.strict->global->time.fetch_add(1);
    return;
  case Class::matrix: // ignores EXEC, mixes lanes
    set_defined(s, of_wave(w, in, in.dst, &MatrixOp::acc_registers), ~u64(0), ~u64(0));
    return;
  case Class::salu: {
    if (in.dst.kind != O_SGPR || in.dst.reg >= 102) return;
    u64 m = sources(s, in);
    for (u32 k = 0; k < in.dst.words; ++k) s.sdefined[in.dst.reg + k] = m != 0;
    return;
  }
  case Class::valu:
  case Class::trans:
  case Class::mul32: {
    if (in.sdst.kind == O_SGPR && in.sdst.reg < 102)
      for (u32 k = 0; k < 2; ++k) s.sdefined[in.sdst.reg + k] = true;
    if (in.dst.kind == O_SGPR && in.dst.reg < 102)
      for (u32 k = 0; k < in.dst.words; ++k) s.sdefined[in.dst.reg + k] = true;
    const std::string &name = w.program->names[in.name];
    if (name.compare(0, 7, "v_dual_") == 0) {
      auto *d = static_cast<const Dual *>(in.aux);
      u64 x = sources(s, d->x), y = sources(s, d->y);
      Operand first = d->x.dst;
      first.reg = u16(d->x_dst);
      set_defined(s, first, exec, x);
      set_defined(s, d->y.dst, exec, y);
      return;
    }
    if (in.dst.kind != O_VGPR) return;
    if (in.dst.words == 2) {
      if (low_from_low(name)) {
        u64 low = ~u64(0);
        for (Operand o : in.src) {
          if (o.words == 2) o.words = 1;
          low &= defined(s, o);
        }
        set_defined(s, in.dst, exec, sources(s, in));
        Operand half = in.dst;
        half.words = 1;
        set_defined(s, half, exec, low);
        return;
      }
      if (name.compare(0, 5, "v_pk_") == 0 || name == "v_mov_b64") {
        // op_sel pairs the halves anew: as good as the better half.
        u64 both = ~u64(0);
        for (Operand o : in.src) {
          u32 words = o.words;
          o.words = 1;
          u64 m = defined(s, o);
          if (words == 2) ++o.reg, m |= defined(s, o);
          both &= m;
        }
        set_defined(s, in.dst, exec, both);
        return;
      }
    }
    bool lanes = name.compare(0, 9, "v_permlan") == 0 || name.compare(0, 6, "v_swap") == 0;
    if (name == "v_writelane_b32") { // lanes one by one: the register counts as written
      exec = ~u64(0);
      lanes = true;
    }
    set_defined(s, in.dst, exec, lanes ? ~u64(0) : sources(s, in));
    if (name.compare(0, 6, "v_swap") == 0) set_defined(s, in.src[0], exec, ~u64(0));
    return;
  }
  default: return;
  }
}

//===-- Races -------------------------------------------------------------===//

void strict_lds(Wave &w, const Inst &in, const u32 *address, u64 mask, u32 bytes, bool load,
                bool store) {
  Strict &t = *w.strict;
  WaveShadow &s = *t.waves[w.id];
  u32 epoch = w.group->epoch;
  bool atomic = load && store;
  u64 data = in.cls == Class::lds_write || atomic ? defined(s, in.src[1]) : ~u64(0);
  for (u32 i = 0; i < w.lanes; ++i) {
    if (!(mask >> i & 1)) continue;
    for (u32 b = 0; b < bytes; ++b) {
      if (load && !t.lds_defined[address[i] + b]) s.undefined_load |= u64(1) << i;
      if (store) t.lds_defined[address[i] + b] = data >> i & 1;
    }
    for (u32 word = address[i] / 4; word <= (address[i] + bytes - 1) / 4; ++word) {
      LdsWord &r = t.words[word];
      if (r.epoch != epoch) {
        r = LdsWord();
        r.epoch = epoch;
      }
      bool other_wrote = r.writer >= 0 && r.writer != i16(w.id);
      bool other_read = r.readers & ~(1u << (w.id & 31));
      if ((other_wrote && !(atomic && r.atomic)) || (store && !atomic && other_read))
        return raise_fault(
            w, Fault::race, int(i), word * 4,
            "two waves access the same LDS word between barriers, one of them writes");
      if (store) {
        r.writer = i16(w.id);
        r.atomic = atomic;
      } else {
        r.readers |= 1u << (w.id & 31);
      }
    }
  }
}

void strict_scalar(Wave &w, u64 address, u64 bytes, Touch how) {
  w.strict->note(address, bytes, how);
}

void strict_global(Wave &w, const Inst &, const u64 *address, u64 mask, u32 bytes, bool load,
                   bool store) {
  Strict &t = *w.strict;
  WaveShadow &s = *t.waves[w.id];
  GlobalShadow &g = *t.global;
  bool atomic = load && store;
  GlobalWord own;
  own.group = t.group;
  own.epoch = w.group->epoch;
  own.wave = i16(w.id);
  own.kind = atomic ? 4 : store ? 2 : 1;
  own.time = g.time.load();
  // Unordered: another wave, no barrier of the own group between, and no atomic
  // of this wave since, by which it could have learnt of the other's access.
  auto conflict = [&](const GlobalWord &o) {
    if (o.group == own.group && (o.wave == own.wave || o.epoch != own.epoch)) return false;
    if (o.kind == 4 && atomic) return false;
    return s.last_atomic < o.time;
  };
  Touch how = atomic ? kAtomic : store ? kWrite : kRead;
  for (u32 i = 0; i < w.lanes; ++i) {
    if (!(mask >> i & 1)) continue;
    t.note(address[i], bytes, how);
    for (u64 word = address[i] / 4; word <= (address[i] + bytes - 1) / 4; ++word) {
      GlobalShadow::Shard &shard = g.shards[word % GlobalShadow::kShards];
      std::lock_guard lock(shard.mutex);
      // Sub-word stores of neighbours share a word without touching: only whole
      // words are compared.
      auto written = shard.writes.find(word);
      bool race = bytes >= 4 && written != shard.writes.end() && conflict(written->second);
      if (store && bytes >= 4 && !race) {
        auto read = shard.reads.find(word);
        race = read != shard.reads.end() && conflict(read->second);
      }
      if (race)
        return raise_fault(
            w, Fault::race, int(i), word * 4,
            "two waves access the same global memory, one of them writes, and nothing orders them");
      if (bytes >= 4) (store ? shard.writes : shard.reads)[word] = own;
    }
  }
}

} // namespace mgx::emu
