// Strict mode: accesses of two waves to the same memory that nothing orders.
#include "hooks.h"
#include "strict_state.h"

namespace mgx::emu {

void Strict::note(u64 address, u64 bytes, Touch how) {
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

namespace {

// Records an access to LDS by an instruction other than the plain ones, which are mirrored. False
// after a fault.
bool define_lds(Wave &w, const Inst &in, const u32 *address, u64 mask, u32 bytes, bool load,
                bool store) {
  Strict &t = *w.strict;
  WaveShadow &s = *t.waves[w.id];
  if (in.cls == Class::lds_read || in.cls == Class::lds_write) return true;
  bool exchange = facts_of(w, in).exchange;
  bool loaded = in.flags & F_LDS || in.cls == Class::global_load; // from global memory
  u64 data = loaded ? ~u64(0) : defined(w, s, in.src[1]);
  for (u32 i = 0; i < w.lanes; ++i) {
    if (!(mask >> i & 1)) continue;
    u8 *from = t.lds.data() + address[i], *to = from + bytes;
    bool known = std::all_of(from, to, [](u8 x) { return !x; });
    if (load && !known) s.undefined_load |= u64(1) << i;
    if (store) std::fill(from, to, data >> i & 1 && (known || !load || exchange) ? 0 : 0xff);
  }
  if (in.cls != Class::global_store || !s.undefined_load) return true;
  raise_fault(w, Fault::uninitialized, __builtin_ctzll(s.undefined_load), 0,
              "LDS that nobody wrote is stored to global memory");
  return false;
}

} // namespace

namespace {

// Whether another wave's last access to a word may still be under way, though a barrier came
// between: LDS serves the requests of two waves in any order.
bool lags(const Wave &w, const LdsWord &r, bool store) {
  auto lag = [&](i16 wave, u32 access) {
    return wave >= 0 && wave != i16(w.id) && access > w.strict->waves[wave]->told_lds;
  };
  return lag(r.writer, r.written) || (store && lag(r.reader, r.read));
}

} // namespace

void strict_lds(Wave &w, const Inst &in, const u32 *address, u64 mask, u32 bytes, bool load,
                bool store) {
  Strict &t = *w.strict;
  if (!define_lds(w, in, address, mask, bytes, load, store)) return;
  u32 epoch = w.group->epoch;
  bool atomic = load && store;
  // Loads from memory to LDS are of another counter.
  bool counted =
      in.cls == Class::lds_read || in.cls == Class::lds_write || in.cls == Class::lds_atomic;
  u32 access = counted ? t.waves[w.id]->issued[kLds] + 1 : 0;
  for (u32 i = 0; i < w.lanes; ++i) {
    if (!(mask >> i & 1)) continue;
    for (u32 word = address[i] / 4; word <= (address[i] + bytes - 1) / 4; ++word) {
      LdsWord &r = t.words[word];
      if (r.epoch != epoch) {
        if (lags(w, r, store))
          return raise_fault(w, Fault::race, int(i), word * 4,
                             "an access of another wave to the same LDS word may still be under "
                             "way: it came to the barrier without waiting for it");
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
        r.written = access;
        r.atomic = atomic;
      } else {
        r.readers |= 1u << (w.id & 31);
        r.reader = i16(w.id);
        r.read = access;
      }
    }
  }
}

//===-- Order -------------------------------------------------------------===//

namespace {

void join(Clocks &to, const Clocks &from) {
  for (auto [wave, clock] : from) {
    u32 &known = to[wave];
    known = std::max(known, clock);
  }
}

// Up to when a wave's accesses are visible to all work-groups.
u32 visible_clock(const Ordering &o) { return o.stored ? o.stored : o.clock; }

// Whether all stores before a wait have reached the device's memory: on chips of several dies only
// once they were written back, or where they went past the caches (sc1).
bool waits_for_stores(const Wave &w, const Inst &in) {
  if (w.chip->is_gfx9()) return outstanding_after(w, in).vm == 0;
  const std::string &name = w.program->names[in.name];
  if (name == "s_wait_storecnt_dscnt") return (in.imm >> 8 & 63) == 0;
  return (in.imm & 0xffff) == 0 && (name == "s_waitcnt_vscnt" || name == "s_wait_storecnt");
}

// Whether an instruction drops what caches hold of other work-groups' stores: RDNA 2 and 3 have a
// second one, of a shader array, that work-groups on other units share.
bool drops_for_device(const Wave &w, const Inst &in, const std::string &name) {
  if (w.chip->gfx940_up() || w.chip->is_gfx12()) return in.flags & F_DEVICE;
  return w.chip->is_gfx9() || name == "buffer_gl1_inv";
}

void arrive(Wave &w, Ordering &o) {
  u32 epoch = w.group->epoch;
  Arrived &a = w.strict->arrived[epoch & 1];
  if (a.epoch != epoch) {
    a.epoch = epoch;
    a.known.clear();
    a.visible.clear();
    a.seen.clear();
  }
  join(a.known, o.known);
  join(a.visible, o.visible);
  join(a.seen, o.seen);
  u32 &own = a.visible[o.self];
  own = std::max(own, visible_clock(o));
  ++o.clock;
}

// An atomic tells what lies before it.
void tell(Ordering &o, Clocks &told) {
  join(told, o.known);
  join(told, o.visible);
  u32 &own = told[o.self];
  own = std::max(own, visible_clock(o));
  ++o.clock;
}

void acquire(Ordering &o) {
  join(o.known, o.seen);
  o.seen.clear();
}

// Unordered: another wave's access that is not known to lie before this one, nor before a barrier
// of the own work-group.
bool unordered(const Wave &w, const Ordering &o, const GlobalWord &other, bool atomic) {
  u32 group = u32(o.self >> 8);
  if (other.group == group && (other.wave == i16(w.id) || other.epoch != w.group->epoch))
    return false;
  if (other.kind == 4 && atomic) return false;
  auto known = o.known.find(u64(other.group) << 8 | u32(other.wave));
  return known == o.known.end() || known->second < other.clock;
}

} // namespace

void strict_order(Wave &w, const Inst &in) {
  Ordering &o = w.strict->waves[w.id]->order;
  if (u32 epoch = w.group->epoch; o.epoch != epoch) {
    for (const Arrived &a : w.strict->arrived)
      if (a.epoch < epoch) {
        join(o.known, a.known);
        join(o.visible, a.visible);
        join(o.seen, a.seen);
      }
    o.epoch = epoch;
  }
  if (in.cls == Class::wait) {
    if (o.stored && (!o.cached || !w.chip->gfx940_up()) && waits_for_stores(w, in)) o.stored = 0;
  } else if (in.cls == Class::barrier) {
    const std::string &name = w.program->names[in.name];
    if (name == "s_barrier" || name.compare(0, 16, "s_barrier_signal") == 0) {
      arrive(w, o);
      w.strict->waves[w.id]->told_lds = w.strict->waves[w.id]->done[kLds];
    }
  } else if (in.cls == Class::cache) {
    const std::string &name = w.program->names[in.name];
    if (name == "buffer_wbl2") o.cached &= !(in.flags & F_DEVICE);
    else if (drops_for_device(w, in, name)) acquire(o);
  }
}

void strict_told(Wave &w) {
  Ordering &o = w.strict->waves[w.id]->order;
  for (u64 word : o.words) {
    GlobalShadow::Shard &shard = w.strict->global->shards[word % GlobalShadow::kShards];
    std::lock_guard lock(shard.mutex);
    auto told = shard.told.find(word);
    if (told != shard.told.end()) join(o.seen, told->second);
  }
  o.words.clear();
}

void strict_grid_barrier(Wave &w) {
  Strict &t = *w.strict;
  GlobalShadow::Shard &shard = t.global->shards[0];
  std::lock_guard lock(shard.mutex);
  Clocks &told = shard.told[~u64(0)];
  for (auto &wave : t.waves) {
    wave->order.stored = 0;
    tell(wave->order, told);
  }
  for (auto &wave : t.waves) {
    join(wave->order.seen, told);
    acquire(wave->order);
  }
}

// Scalar loads have a cache of their own, which no acquire drops: what they read must not be
// written by the kernel.
void strict_scalar(Wave &w, u64 address, u64 bytes, Touch how) {
  Strict &t = *w.strict;
  t.note(address, bytes, how);
  if (how != kRead || address - t.own < t.own_bytes) return;
  for (u64 word = (address + 3) / 4; word < (address + bytes) / 4; ++word) {
    GlobalShadow::Shard &shard = t.global->shards[word % GlobalShadow::kShards];
    std::lock_guard lock(shard.mutex);
    auto written = shard.writes.find(word);
    if (written != shard.writes.end() && written->second.group != t.group)
      return raise_fault(w, Fault::race, -1, word * 4,
                         "a scalar load reads what another work-group of the kernel wrote: its "
                         "cache may hold the old value");
  }
}

void strict_global(Wave &w, const Inst &in, const u64 *address, u64 mask, u32 bytes, bool load,
                   bool store) {
  Strict &t = *w.strict;
  Ordering &o = t.waves[w.id]->order;
  GlobalShadow &g = *t.global;
  // A load past the caches is one of a word that atomics change.
  bool atomic = load && (store || in.flags & F_DEVICE);
  if (store && !atomic && !o.stored) o.stored = o.clock++;
  if (store && !atomic && !(in.flags & F_DEVICE)) o.cached = true;
  GlobalWord own;
  own.group = t.group;
  own.epoch = w.group->epoch;
  own.wave = i16(w.id);
  own.kind = atomic ? 4 : store ? 2 : 1;
  own.clock = o.clock;
  Touch how = load && store ? kAtomic : store ? kWrite : kRead;
  for (u32 i = 0; i < w.lanes; ++i) {
    if (!(mask >> i & 1)) continue;
    t.note(address[i], bytes, how);
    for (u64 word = address[i] / 4; word <= (address[i] + bytes - 1) / 4; ++word) {
      GlobalShadow::Shard &shard = g.shards[word % GlobalShadow::kShards];
      std::lock_guard lock(shard.mutex);
      // Sub-word stores of neighbours share a word without touching: only whole
      // words are compared.
      auto written = shard.writes.find(word);
      bool race =
          bytes >= 4 && written != shard.writes.end() && unordered(w, o, written->second, atomic);
      if (store && bytes >= 4 && !race) {
        auto read = shard.reads.find(word);
        race = read != shard.reads.end() && unordered(w, o, read->second, atomic);
      }
      if (race)
        return raise_fault(
            w, Fault::race, int(i), word * 4,
            "two waves access the same global memory, one of them writes, and nothing orders them");
      if (bytes >= 4) (store ? shard.writes : shard.reads)[word] = own;
      if (!atomic) continue;
      if (store) tell(o, shard.told[word]);
      o.words.push_back(word);
    }
  }
}

} // namespace mgx::emu
