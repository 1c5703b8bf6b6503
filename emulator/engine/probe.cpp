// Profile mode. Costs are those of MI300X's compute unit and of RDNA's as listed
// in the project's notes on kernel quality: a model, never measured.
#include "probe.h"

#include "hooks.h"
#include "matrix.h"
#include "strict.h"

#include <algorithm>
#include <cstdio>
#include <map>
#include <mutex>

namespace mgx::emu {

namespace {

// The demands of one instruction of a traced wave on the machine.
struct Event {
  u16 port = 0;    // clocks its unit is busy
  u8 unit = 0;     // 0 issue only, 1 VALU, 2 matrix, 3 LDS, 4 global
  u8 wait = 0;     // 1: waits for memory, 2: barrier
  u8 vm = 255, lgkm = 255; // how many may stay outstanding
  u8 kind = 0;     // of latency: 0 none, 1 LDS, stores too, 2 global, 3 scalar
  u16 wave = 0;
  u32 sharing = 1; // one of so many groups does it: the one that counted last
};

constexpr size_t kTraceLimit = 400000; // events of the traced work-group

} // namespace

struct Probe {
  const Launch *launch = nullptr;
  Profile p;
  bool rdna = false;
  // The first work-group this thread runs is replayed for U_sim; of those that share work and count
  // themselves, the first whose waves count last each time, or else the one with most of these.
  bool tracing = true;
  u32 last = 0, others = 0; // of the work-group that runs: how often its waves counted last, or not
  u32 sharing[64]; // of each of its waves: the groups that its last count was for
  u32 told = 1, epoch = 0; // those of the last count of any, which all know after a barrier
  u32 traced_group[3] = {0, 0, 0};
  bool trace_started = false;
  std::vector<Event> trace, best;
  u32 best_last = 0;
  bool best_first = false;
  const Inst *last_lds = nullptr; // the instruction of the trace's last event, if it is one of LDS
  // The page that was touched last, and its lines: neighbours follow each other.
  u64 page = ~u64(0);
  Profile::Lines *lines = nullptr;
};

std::unique_ptr<Probe, void (*)(Probe *)> make_probe(const Launch &l) {
  if (!l.options.profile) return {nullptr, [](Probe *p) { delete p; }};
  auto *p = new Probe;
  p->launch = &l;
  std::fill_n(p->sharing, 64, 1);
  p->rdna = !l.chip->is_gfx9();
  return {p, [](Probe *x) { delete x; }};
}

//===-- Counting ----------------------------------------------------------===//

namespace {

// Multiplications and additions of a matrix instruction that a SIMD does in a clock, sparse ones
// counted whole: AMD's white papers (CDNA 2, 3, 4, RDNA 3, 4), and LLVM's SISchedule.td for the
// instructions of one chip that differ.
u32 matrix_rate(const Chip &chip, const MatrixOp &op, const Inst &in) {
  using F = MatrixFormat;
  if (!chip.is_gfx9()) {
    bool sparse = op.kind == MatrixKind::kSwmmac, byte = op.a != F::kF16 && op.a != F::kBf16;
    u32 rate = op.a == F::kIu4 ? 512 : 256;
    if (chip.is_gfx12()) rate = op.a == F::kIu4 ? 2048 : byte ? 1024 : 512;
    return sparse ? 2 * rate : rate;
  }
  bool cdna2 = chip.generation == Generation::cdna2, cdna4 = chip.generation == Generation::cdna4;
  u32 rate = cdna2 ? 256 : 512;
  switch (op.a) {
  case F::kF64: return cdna4 ? 32 : 64;
  case F::kF32: return 64;
  case F::kXf32: return 256;
  case F::kF8f6f4: // a float of 8 bits in either operand halves the rate
    return in.cbsz <= 1 || in.blgp <= 1 ? 2048 : 4096;
  case F::kF16: break;
  case F::kBf16:
    if (cdna2 && op.a_registers == 1) return 128; // without _1k
    break;
  default:
    if (!cdna2) rate = 1024;
  }
  // gfx950's own, which take 16 bytes of a lane; those that it has of gfx942 take their time there.
  if (cdna4 && op.a_registers >= 4) rate *= 2;
  return op.kind == MatrixKind::kSmfmac ? 2 * rate : rate;
}

u32 matrix_clocks(const Wave &w, const Inst &in) {
  auto *pair = static_cast<const MatrixPair *>(in.aux);
  const MatrixOp *op = w.lanes == 64 && pair->w64 ? pair->w64 : pair->w32;
  if (!op) return 16;
  u64 flop = u64(op->m) * op->n * op->k * std::max<u32>(op->blocks, 1) * 2;
  return u32(std::max<u64>(flop / matrix_rate(*w.chip, *op, in), 4));
}

// `lds`: the instruction, if it is one of LDS.
void record(Probe &p, Wave &w, Event e, const Inst *lds = nullptr) {
  if (!p.tracing || p.trace.size() >= kTraceLimit) return;
  const u32 *id = w.group->id;
  if (!p.trace_started) {
    p.trace_started = true;
    std::copy_n(id, 3, p.traced_group);
  }
  if (!std::equal(id, id + 3, p.traced_group)) return;
  e.wave = u16(w.id);
  if (e.wait != 2) // all groups wait
    e.sharing = std::max(p.sharing[w.id % 64], w.group->epoch == p.epoch ? 1 : p.told);
  // The second address of an instruction keeps the port busy, and is no access to wait for.
  if (lds && lds == p.last_lds && p.trace.back().wave == e.wave) {
    p.trace.back().port = u16(std::min(p.trace.back().port + e.port, 65535));
    return;
  }
  p.last_lds = lds;
  p.trace.push_back(e);
}

Event event_of(u8 unit, u32 port) {
  Event e;
  e.unit = unit;
  e.port = u16(std::min<u32>(port, 65535));
  return e;
}

} // namespace

void probe_instruction(Wave &w, const Inst &in) {
  Probe &p = *w.probe;
  Profile &c = p.p;
  ++c.instructions;
  u32 valu = p.rdna ? 1 : 4, trans = p.rdna ? 4 : 16;
  switch (in.cls) {
  case Class::salu: ++c.salu; break;
  case Class::valu:
    ++c.valu;
    c.valu_cycles += valu;
    record(p, w, event_of(1, valu));
    return;
  case Class::trans:
  case Class::mul32:
    ++(in.cls == Class::trans ? c.transcendental : c.valu);
    c.valu_cycles += trans;
    record(p, w, event_of(1, trans));
    return;
  case Class::matrix: {
    ++c.matrix;
    u32 clocks = matrix_clocks(w, in);
    c.matrix_cycles += clocks;
    c.valu_cycles += valu; // it holds the port for its issue
    record(p, w, event_of(2, clocks));
    return;
  }
  case Class::smem: ++c.smem; break;
  case Class::global_load: ++c.global_loads; return; // recorded with its addresses
  case Class::global_store: ++c.global_stores; return;
  case Class::global_atomic: ++c.global_atomics; return;
  case Class::flat: ++c.flat; return;
  case Class::scratch: ++c.scratch; break;
  case Class::lds_read: ++c.lds_reads; return;
  case Class::lds_write: ++c.lds_writes; return;
  case Class::lds_atomic: ++c.lds_atomics; return;
  case Class::branch: ++c.branches; break;
  case Class::barrier: ++c.barriers; break;
  case Class::wait: ++c.waits; break;
  default: break;
  }
  Event e = event_of(0, 0);
  if (in.cls == Class::wait) {
    e.wait = 1;
    Outstanding left = outstanding_after(w, in);
    e.vm = u8(std::min(left.vm, 255u));
    e.lgkm = u8(std::min({left.lds, left.smem, 255u}));
  }
  if (in.cls == Class::barrier) e.wait = 2;
  if (in.cls == Class::smem) e.kind = 3;
  record(p, w, e);
}

//===-- Memory ------------------------------------------------------------===//

// Notes a line of 64 bytes: what a dispatch touches has to come from memory once.
static void note_line(Probe &p, u64 line, bool load, bool store) {
  u64 page = line / 64, bit = u64(1) << line % 64;
  if (page != p.page) {
    p.page = page;
    p.lines = &p.p.touched[page];
  }
  Profile::Lines &lines = *p.lines;
  if (load) lines.read |= bit;
  if (store) lines.written |= bit;
  u64 group = p.p.workgroups + 1; // those before it have ended
  if (lines.group != group) {
    lines.group = group;
    lines.of_group = 0;
  }
  if (!(lines.of_group & bit)) p.p.l2_bytes += 64;
  lines.of_group |= bit;
}

// The largest of lanes / 16, bytes / 64 and distinct 64-byte segments.
void probe_global(Wave &w, const Inst &in, const u64 *address, u64 mask, u32 bytes, bool load,
                  bool store) {
  if (w.strict) strict_global(w, in, address, mask, bytes, load, store);
  if (!w.probe) return;
  Probe &p = *w.probe;
  u64 segments[4 * kLanes];
  u32 n = 0, lanes = u32(__builtin_popcountll(mask));
  for (u32 i = 0; i < w.lanes; ++i)
    if (mask >> i & 1)
      for (u64 s = address[i] >> 6; s <= (address[i] + bytes - 1) >> 6; ++s)
        if (n < 4 * kLanes && (!n || segments[n - 1] != s)) segments[n++] = s;
  std::sort(segments, segments + n);
  n = u32(std::unique(segments, segments + n) - segments);
  u32 clocks = std::max({(lanes + 15) / 16, (lanes * bytes + 63) / 64, n});
  for (u32 i = 0; i < n; ++i) note_line(p, segments[i], load, store);
  p.p.global_segments += n;
  p.p.global_cycles += clocks;
  if (load) p.p.global_bytes_read += u64(lanes) * bytes;
  if (store) p.p.global_bytes_written += u64(lanes) * bytes;
  Event e = event_of(4, clocks);
  e.kind = load ? 2 : 0;
  record(p, w, e);
}

// A sample runs some of the groups, none of which would be the last: each is, and does all that the
// last one does.
void probe_count(Wave &w, u32 *old, const u32 *limit, u32 words) {
  Probe &p = *w.probe;
  for (u32 i = 0; i < words * kLanes; ++i) {
    if (!(exec_of(w) >> i % kLanes & 1)) continue;
    if (p.launch->options.sample) old[i] = limit[i];
    bool last = old[i] == limit[i];
    ++(last ? p.last : p.others);
    if (!last) continue;
    p.told = p.sharing[w.id % 64] = limit[i] + 1;
    p.epoch = w.group->epoch;
  }
}

// Lanes that share a phase, by access size. gfx9's LDS serves 128-bit reads in odd groups of
// lanes: of eight, or of gfx950's 64 banks of 16; writes in groups of eight neighbours.
static u32 lds_phase(u32 lane, u32 bytes, bool load, bool wide) {
  if (bytes <= 4) return wide ? 0 : lane / 32;
  if (bytes <= 8) return wide ? lane / 32 : lane / 16;
  if (!load) return lane / 8;
  static constexpr u8 kGroups[] = {0, 1, 2, 3, 1, 0, 3, 2},
                      kWideGroups[] = {0, 1, 1, 0, 1, 0, 0, 1};
  u32 half = lane / 32, four = lane % 32 / 4;
  return wide ? 2 * half + kWideGroups[four] : 4 * half + kGroups[four];
}

void probe_lds(Wave &w, const Inst &in, const u32 *address, u64 mask, u32 bytes, bool load,
               bool store) {
  if (w.strict) strict_lds(w, in, address, mask, bytes, load, store);
  if (!w.probe) return;
  Probe &p = *w.probe;
  // gfx950 reads 256 bytes a clock and writes 128.
  bool reads = load && !store, wide = reads && w.chip->generation == Generation::cdna4;
  u32 banks = w.chip->generation == Generation::cdna4 ? 64 : 32;
  u32 clocks = 0, ideal = 0;
  for (u32 phase = 0; phase < 8; ++phase) {
    u32 words[4 * kLanes], n = 0;
    for (u32 i = 0; i < w.lanes; ++i) {
      if (!(mask >> i & 1) || lds_phase(i, bytes, reads, wide) != phase) continue;
      for (u32 b = address[i] / 4; b <= (address[i] + bytes - 1) / 4 && n < 4 * kLanes; ++b)
        words[n++] = b;
    }
    if (!n) continue;
    // Lanes that read the same word share the access; a bank serves one word a clock.
    std::sort(words, words + n);
    n = u32(std::unique(words, words + n) - words);
    u32 bank[64] = {}, busiest = 0;
    for (u32 k = 0; k < n; ++k) busiest = std::max(busiest, ++bank[words[k] % banks]);
    clocks += busiest;
    ideal += (n + banks - 1) / banks;
  }
  p.p.lds_cycles += clocks;
  p.p.lds_conflict_cycles += clocks - std::min(ideal, clocks);
  Event e = event_of(3, clocks);
  // Copies between global memory and LDS are counted as accesses of the former.
  e.kind = in.cls == Class::global_load || in.cls == Class::global_store ? 0 : 1;
  record(p, w, e, &in);
}

//===-- Occupancy ---------------------------------------------------------===//

static u32 waves_by_registers(const Chip &c, u32 wave_size, u32 vgprs, u32 agprs) {
  if (c.is_gfx9()) {
    u32 used = std::max<u32>(((vgprs + 7) & ~7u) + ((agprs + 7) & ~7u), 8);
    return std::min<u32>(c.max_waves_per_simd, c.total_vgprs / used);
  }
  u32 file = wave_size == 32 ? c.total_vgprs : c.total_vgprs / 2;
  u32 granule = c.is_gfx10() ? 8 : c.total_vgprs == 1536 ? 24 : 16;
  if (wave_size == 64) granule /= 2;
  u32 used = std::max((vgprs + granule - 1) / granule * granule, granule);
  return std::min<u32>(c.max_waves_per_simd, file / used);
}

uint32_t occupancy(const Kernel &k, const Chip &c, uint32_t threads, uint32_t dynamic_lds) {
  if (!threads || !k.descriptor) return 0;
  u32 waves = (threads + k.wave_size - 1) / k.wave_size;
  u32 vgprs = k.vgprs, agprs = 0;
  if (c.is_gfx9() && k.agprs) { // the note's count holds both files
    agprs = k.agprs;
    vgprs = k.vgprs > k.agprs ? k.vgprs - k.agprs : k.vgprs;
  }
  u32 by_registers = waves_by_registers(c, k.wave_size, vgprs, agprs) * c.simds_per_cu / waves;
  u32 lds = k.group_bytes + dynamic_lds;
  u32 by_lds = lds ? c.lds_per_cu / lds : ~0u;
  // A compute unit holds at most 16 work-groups of more than one wave, 32 on RDNA.
  u32 by_slots = waves > 1 ? (c.is_gfx9() ? 16 : 32) : c.max_waves_per_simd * c.simds_per_cu;
  return std::min({by_registers, by_lds, by_slots});
}

//===-- Replay ------------------------------------------------------------===//

namespace {

// In-order replay of the traced group at its real occupancy on one compute unit:
// a wave issues its next event when the unit is free; a wait stalls it until its
// outstanding memory has returned, a barrier until its group has arrived.
// The probe runs an event that several groups share for one of `sharing` groups.
double replay(const std::vector<Event> &trace, u32 waves, u32 groups, u32 simds, bool rdna,
              const double latency[4]) {
  struct Lane { // a wave
    std::vector<const Event *> events;
    size_t at = 0;
    double ready = 0;
    std::vector<double> vm, lgkm; // when outstanding accesses return, in order
    u32 simd = 0, group = 0;
  };
  std::vector<Lane> all(size_t(waves) * groups);
  for (u32 g = 0; g < groups; ++g)
    for (const Event &e : trace)
      if (g % e.sharing == 0) all[g * waves + e.wave].events.push_back(&e);
  for (size_t i = 0; i < all.size(); ++i) {
    all[i].simd = u32(i % simds);
    all[i].group = u32(i / waves);
  }
  std::vector<double> issue(simds, 0), valu(simds, 0), matrix(simds, 0);
  double lds = 0, global = 0, end = 0;
  for (;;) {
    Lane *next = nullptr;
    double best = 0;
    for (Lane &l : all) {
      if (l.at >= l.events.size()) continue;
      const Event &e = *l.events[l.at];
      double t = std::max(l.ready, issue[l.simd]);
      if (e.wait == 1) {
        if (e.vm < l.vm.size()) t = std::max(t, l.vm[l.vm.size() - e.vm - 1]);
        if (e.lgkm < l.lgkm.size()) t = std::max(t, l.lgkm[l.lgkm.size() - e.lgkm - 1]);
      }
      if (e.wait == 2) {
        // Waits for the slowest wave of the group to reach its barrier too.
        bool all_here = true;
        for (u32 k = 0; k < waves; ++k) {
          const Lane &o = all[l.group * waves + k];
          if (o.at < o.events.size() && o.events[o.at]->wait != 2) all_here = false;
          else if (o.at < o.events.size()) t = std::max(t, o.ready);
        }
        if (!all_here) continue;
      }
      if (e.unit == 1) t = std::max(t, valu[l.simd]);
      if (e.unit == 2) t = std::max({t, valu[l.simd], matrix[l.simd]});
      if (!next || t < best) {
        next = &l;
        best = t;
      }
    }
    if (!next) break;
    Lane &l = *next;
    const Event &e = *l.events[l.at];
    if (e.wait == 2) { // release the whole group
      for (u32 k = 0; k < waves; ++k) {
        Lane &o = all[l.group * waves + k];
        if (o.at >= o.events.size()) continue;
        o.ready = best + 4;
        ++o.at;
      }
      continue;
    }
    double t = best;
    issue[l.simd] = t + 1; // one instruction a clock and SIMD
    l.ready = t + 4; // a slot of the wave
    if (e.unit == 1) valu[l.simd] = t + e.port, l.ready = t + e.port;
    if (e.unit == 2) {
      valu[l.simd] = t + 4;
      matrix[l.simd] = t + e.port;
      end = std::max(end, t + e.port);
    }
    if (e.unit == 3) {
      lds = std::max(lds, t) + e.port;
      if (e.kind) l.lgkm.push_back(lds + latency[1]);
    }
    if (e.unit == 4) {
      global = std::max(global, t) + e.port;
      if (e.kind) l.vm.push_back(global + latency[2]);
      else if (!rdna) l.vm.push_back(global); // RDNA counts stores apart
    }
    if (e.kind == 3) l.lgkm.push_back(t + latency[3]);
    if (e.wait == 1) {
      if (e.vm < l.vm.size()) l.vm.erase(l.vm.begin(), l.vm.end() - e.vm);
      if (e.lgkm < l.lgkm.size()) l.lgkm.erase(l.lgkm.begin(), l.lgkm.end() - e.lgkm);
    }
    ++l.at;
    end = std::max(end, l.ready);
  }
  return end;
}

} // namespace

// Work-groups of the compute unit that gets most of them: a group is not divided.
static u32 rounds_of(const Launch &l) {
  return (l.total_groups + l.chip->compute_units - 1) / l.chip->compute_units;
}

u32 held_groups(const Launch &l) {
  return std::clamp(occupancy(*l.kernel, *l.chip, l.threads, l.dispatch->dynamic_lds), 1u,
                    rounds_of(l));
}

void finish_probe(Probe *p, const GroupState &s) {
  if (!p) return;
  ++p->p.workgroups;
  p->p.waves += s.live_waves;
  if (p->trace_started && std::equal(s.group.id, s.group.id + 3, p->traced_group)) {
    p->tracing = p->others; // other groups do the rest of its work
    if (p->best.empty() || p->last > p->best_last || !p->others) {
      p->best.swap(p->trace);
      p->best_last = p->last;
      p->best_first = std::all_of(p->traced_group, p->traced_group + 3, [](u32 x) { return !x; });
    }
    p->trace.clear();
    p->trace_started = false;
  }
  p->last = p->others = p->epoch = 0;
  p->told = 1;
  std::fill_n(p->sharing, 64, 1);
}

void collect_probe(Probe *p, Profile &out) {
  if (!p) return;
  const Profile &c = p->p;
  static constexpr u64 Profile::*counts[] = {&Profile::waves,
                                             &Profile::workgroups,
                                             &Profile::instructions,
                                             &Profile::salu,
                                             &Profile::valu,
                                             &Profile::transcendental,
                                             &Profile::matrix,
                                             &Profile::smem,
                                             &Profile::global_loads,
                                             &Profile::global_stores,
                                             &Profile::global_atomics,
                                             &Profile::flat,
                                             &Profile::scratch,
                                             &Profile::lds_reads,
                                             &Profile::lds_writes,
                                             &Profile::lds_atomics,
                                             &Profile::branches,
                                             &Profile::barriers,
                                             &Profile::waits,
                                             &Profile::matrix_cycles,
                                             &Profile::valu_cycles,
                                             &Profile::lds_cycles,
                                             &Profile::lds_conflict_cycles,
                                             &Profile::global_cycles,
                                             &Profile::global_segments,
                                             &Profile::global_bytes_read,
                                             &Profile::global_bytes_written,
                                             &Profile::l2_bytes};
  for (auto m : counts) out.*m += c.*m;
  for (const auto &[page, lines] : c.touched) {
    out.touched[page].read |= lines.read;
    out.touched[page].written |= lines.written;
  }
  const Launch &l = *p->launch;
  const std::vector<Event> &trace = p->best;
  if (!(p->best_first || p->best_last) || trace.empty() || trace.size() >= kTraceLimit) return;
  u32 groups = held_groups(l);
  if (trace.size() * groups > 4 * kTraceLimit)
    groups = std::max<u32>(1, u32(4 * kTraceLimit / trace.size()));
  double matrix = 0;
  for (const Event &e : trace)
    if (e.unit == 2) matrix += e.port;
  static const double latencies[3][4] = {{0, 32, 250, 100}, {0, 64, 500, 200}, {0, 128, 1000, 400}};
  for (int i = 0; i < 3; ++i) {
    double clocks = replay(trace, l.waves, groups, l.chip->simds_per_cu, p->rdna, latencies[i]);
    if (matrix > 0 && clocks > 0) out.u_sim[i] = matrix * groups / l.chip->simds_per_cu / clocks;
    if (i == 1) out.modelled_clocks = clocks / groups; // of one group while the unit is full
  }
}

// Bits a pin and memory clock: 2 of HBM2e, 4 of HBM3, 16 of GDDR6, 8 of the APU's LPDDR5X.
static double transfers(const Chip &c) {
  if (c.generation == Generation::cdna2) return 2;
  if (c.is_gfx9()) return 4;
  return std::string_view(c.name) == "gfx1151" ? 8 : 16;
}

// The last cache, which all compute units share: bytes, and bytes a clock of the chip. AMD's
// figures of the Infinity Cache (MI300X 17.2 TB/s, RX 7900 XTX 5.3 TB/s), or by the memory's
// channels; else L2.
struct Cache {
  u64 bytes;
  double rate;
};

static Cache last_cache(const Chip &c) {
  static const std::map<std::string_view, Cache> caches = {
      {"gfx90a", {8u << 20, 4096}},   {"gfx942", {256u << 20, 8192}},
      {"gfx950", {256u << 20, 7168}}, {"gfx1030", {128u << 20, 883}},
      {"gfx1100", {96u << 20, 2120}}, {"gfx1151", {32u << 20, 345}},
      {"gfx1200", {32u << 20, 400}},  {"gfx1201", {64u << 20, 860}},
  };
  auto found = caches.find(c.name);
  return found == caches.end() ? Cache{0, 1} : found->second;
}

// The clocks of the memory for the lines of 64 bytes that a kernel touches. Each that is read comes
// once and each that is written goes once. What a kernel writes stays in the last cache if it takes
// at most half of it, until the next kernel has read it: both pass at the cache's rate.
static double clocks_of_memory(const Launch &l, Profile &p, double rate) {
  using Touched = decltype(p.touched);
  static std::mutex mutex;
  static std::map<const void *, Touched> kept; // by device: lines that its last kernel wrote
  std::lock_guard lock(mutex);
  Touched &before = kept[l.memory];
  auto count = [](u64 lines) { return u64(__builtin_popcountll(lines)); };
  u64 hits = 0, reads = 0, writes = 0;
  for (const auto &[page, lines] : p.touched) {
    auto known = before.find(page);
    hits += known == before.end() ? 0 : count(lines.read & known->second.written);
    reads += count(lines.read);
    writes += count(lines.written);
  }
  Cache cache = last_cache(*l.chip);
  p.memory_bytes = 64 * (reads + writes);
  u64 cached = 64 * hits;
  bool stays = 2 * 64 * writes <= cache.bytes;
  if (stays) cached += 64 * writes;
  before.clear();
  if (stays) before.swap(p.touched);
  p.touched.clear();
  return double(p.memory_bytes - cached) / rate + double(cached) / cache.rate;
}

// Bytes a clock that L2 gives all compute units together: 2 KiB for 38 of them (CDNA 3), about
// 2.3 KiB for 96 (RDNA 3).
static double l2_rate(const Chip &c) { return (c.is_gfx9() ? 54.0 : 24.0) * c.compute_units; }

void finish_profile(const Launch &l, Profile &p) {
  const Chip &c = *l.chip;
  const Kernel &k = *l.kernel;
  p.vgprs = k.vgprs;
  p.lds_bytes = l.lds_bytes;
  p.waves_per_group = l.waves;
  p.workgroups_per_cu = std::max(1u, occupancy(k, c, l.threads, l.dispatch->dynamic_lds));
  p.waves_per_simd = (p.workgroups_per_cu * l.waves + c.simds_per_cu - 1) / c.simds_per_cu;
  // LDS and the global port are one for the unit, matrix and vector units one a SIMD.
  double simds = c.simds_per_cu, matrix = double(p.matrix_cycles) / simds;
  if (matrix > 0) {
    p.lambda = double(p.lds_cycles) / matrix;
    p.nu = double(p.valu_cycles) / double(p.matrix_cycles);
    p.mu = double(p.global_cycles) / matrix;
  }
  // Without a replay: the busiest unit bounds a group.
  double bound = std::max({matrix, double(p.valu_cycles) / simds, double(p.lds_cycles),
                           double(p.global_cycles), double(p.instructions) / simds});
  double group = p.workgroups ? bound / double(p.workgroups) : 0;
  double clocks = std::max(p.modelled_clocks, group);
  p.rounds = rounds_of(l);
  p.unit_clocks = clocks * p.rounds;
  // The memory roof: bus width times what a pin transfers in one memory clock.
  if (l.options.sample) {
    p.touched.clear();
    p.l2_bytes = 0;
  }
  double per_clock =
      double(c.memory_bus_bits) / 8 * transfers(c) * c.memory_clock_khz / c.clock_khz;
  p.memory_clocks = clocks_of_memory(l, p, per_clock);
  p.l2_clocks = double(p.l2_bytes) / l2_rate(c);
  p.modelled_clocks = std::max({p.unit_clocks, p.memory_clocks, p.l2_clocks}) + 2000; // a launch
  p.modelled_ms = p.modelled_clocks / c.clock_khz;
  if (p.rdna_bound == 0 && !c.is_gfx9() && matrix > 0 && group > 0) p.rdna_bound = matrix / bound;
}

std::string Profile::json() const {
  std::string s = "{";
  char line[96];
  auto integer = [&](const char *name, u64 x) {
    std::snprintf(line, sizeof line, "%s\"%s\": %llu", s.size() > 1 ? ", " : "", name,
                  (unsigned long long)x);
    s += line;
  };
  auto real = [&](const char *name, double x) {
    std::snprintf(line, sizeof line, ", \"%s\": %.6g", name, x);
    s += line;
  };
#define INT(x) integer(#x, x)
  INT(waves);
  INT(workgroups);
  INT(instructions);
  INT(salu);
  INT(valu);
  INT(transcendental);
  INT(matrix);
  INT(smem);
  INT(global_loads);
  INT(global_stores);
  INT(global_atomics);
  INT(flat);
  INT(scratch);
  INT(lds_reads);
  INT(lds_writes);
  INT(lds_atomics);
  INT(branches);
  INT(barriers);
  INT(waits);
  INT(matrix_cycles);
  INT(valu_cycles);
  INT(lds_cycles);
  INT(lds_conflict_cycles);
  INT(global_cycles);
  INT(global_segments);
  INT(global_bytes_read);
  INT(global_bytes_written);
  INT(memory_bytes);
  INT(l2_bytes);
  INT(rounds);
  INT(vgprs);
  INT(lds_bytes);
  INT(waves_per_group);
  INT(workgroups_per_cu);
  INT(waves_per_simd);
#undef INT
  real("lambda", lambda);
  real("nu", nu);
  real("mu", mu);
  real("u_sim_fast", u_sim[0]);
  real("u_sim_mid", u_sim[1]);
  real("u_sim_slow", u_sim[2]);
  real("rdna_bound", rdna_bound);
  real("unit_clocks", unit_clocks);
  real("memory_clocks", memory_clocks);
  real("l2_clocks", l2_clocks);
  real("modelled_clocks", modelled_clocks);
  real("modelled_ms", modelled_ms);
  return s + "}";
}

} // namespace mgx::emu
