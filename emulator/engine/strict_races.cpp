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

void strict_lds(Wave &w, const Inst &in, const u32 *address, u64 mask, u32 bytes, bool load,
                bool store) {
  Strict &t = *w.strict;
  if (!define_lds(w, in, address, mask, bytes, load, store)) return;
  u32 epoch = w.group->epoch;
  bool atomic = load && store;
  for (u32 i = 0; i < w.lanes; ++i) {
    if (!(mask >> i & 1)) continue;
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
