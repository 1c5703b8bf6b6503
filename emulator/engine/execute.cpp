// Runs a dispatch: work-groups over threads, waves of a group in turn.
#include "decode.h"
#include "probe.h"
#include "run.h"
#include "strict.h"

#include <algorithm>
#include <deque>
#include <numeric>
#include <xmmintrin.h>

namespace mgx::emu {

namespace {

constexpr u64 kSlice = 2000000;          // instructions of a wave before others get a turn
constexpr u64 kRandomSlice = 256;        // at most, in random order
constexpr u64 kDefaultBudget = u64(1) << 34;
constexpr u32 kResidentPerThread = 16;   // work-groups in flight while some only spin
constexpr size_t kKeptPerThread = 2;     // for the next dispatch

// MXCSR of the host: all exceptions masked, nearest even, denormals kept.
constexpr u32 kPlainMxcsr = 0x1f80;

u32 mxcsr_of(u32 round, u32 denorm) {
  // MODE.FP_ROUND counts nearest, up, down, zero; MXCSR nearest, down, up, zero.
  static const u32 control[4] = {0, 0x4000, 0x2000, 0x6000};
  u32 x = kPlainMxcsr | control[round];
  if (!(denorm & 1)) x |= 0x0040; // inputs
  if (!(denorm & 2)) x |= 0x8000; // results
  return x;
}

// Arithmetic under a rounding or denormal mode of the kernel's own.
inline void step_special(Wave &w, const Inst &in) {
  bool f32 = in.flags & F_F32,
       f64 = in.flags & F_F64 && (in.dst.ty == Ty::f64 || in.src[0].ty == Ty::f64);
  if (in.flags & F_F64 && !f64 && is_special_half_mode(w.mode)) {
    static const Handler half_mode = op_table().at(".half_mode").fn;
    half_mode(w, in);
    return;
  }
  if (!w.special_mode || !(f32 || f64)) {
    in.fn(w, in);
    return;
  }
  _mm_setcsr(f32 ? mxcsr_of(w.mode & 3, w.mode >> 4 & 3)
                 : mxcsr_of(w.mode >> 2 & 3, w.mode >> 6 & 3));
  in.fn(w, in);
  _mm_setcsr(kPlainMxcsr);
}

void run_wave(Wave &w, u64 slice) {
  u64 limit = w.count + slice;
  w.stop = Stop::none;
  if (w.strict || w.probe || w.special_mode) {
    while (w.count < limit && w.stop == Stop::none) {
      const Inst *in = w.pc;
      if (w.strict && !strict_before(w, *in)) break;
      if (w.probe) probe_instruction(w, *in);
      w.pc = in + 1;
      ++w.count;
      step_special(w, *in);
      if (w.strict && w.stop != Stop::fault) strict_after(w, *in);
      if (w.stop == Stop::fault) w.pc = in;
    }
    return;
  }
  while (w.count < limit) {
    const Inst *in = w.pc;
    w.pc = in + 1;
    ++w.count;
    in->fn(w, *in);
    if (__builtin_expect(w.stop != Stop::none, 0)) {
      if (w.stop == Stop::fault) w.pc = in;
      return;
    }
    if (__builtin_expect(w.special_mode, 0)) return; // s_setreg: continue above
  }
}

// Gives the waves new turns (Fisher and Yates).
void shuffle(GroupState &s) {
  for (u32 left = s.live_waves; left > 1; --left)
    std::swap(s.turns[left - 1], s.turns[next_random(s.random) % left]);
}

// Takes a finished wave off the barrier's count.
void leave(GroupState &s, Wave &w) {
  Group &g = s.group;
  w.ended = true;
  --g.live;
  Barrier &b = g.barriers[0];
  if (b.signals && b.signals >= g.live) {
    b.signals = 0;
    ++b.phase;
    ++g.epoch;
  }
}

} // namespace

Progress run_group(const Launch &l, GroupState &s) {
  u64 budget = l.options.instruction_budget ? l.options.instruction_budget : kDefaultBudget;
  const bool random = l.options.order.kind == Order::random;
  for (;;) {
    bool ran = false, spinning = false, left = false;
    if (random) shuffle(s);
    for (u32 i : s.turns) {
      Wave &w = *s.waves[i];
      if (w.ended) continue;
      left = true;
      if (w.at_barrier) {
        u32 phase = s.group.barriers[w.waits_for].phase;
        if (phase == w.wait_phase) continue;
        w.at_barrier = false;
        if (w.waits_for) w.joined_phase = phase;
      }
      ran = true;
      u64 before = w.count, slice = random ? next_random(s.random) % kRandomSlice + 1 : kSlice;
      run_wave(w, std::min(slice, budget - w.count));
      switch (w.stop) {
      case Stop::end: leave(s, w); break;
      case Stop::barrier: break;
      case Stop::fault: return Progress::fault;
      case Stop::yield: spinning = true; break;
      case Stop::none:
        if (w.count >= budget) {
          raise_fault(w, Fault::hang, -1, 0,
                      "the wave ran out of its instruction budget: it hangs");
          return Progress::fault;
        }
        spinning |= w.count / kSlice != before / kSlice;
        break;
      }
    }
    if (!left) return Progress::done;
    if (!ran) {
      for (u32 i = 0; i < s.live_waves; ++i)
        if (Wave &w = *s.waves[i]; !w.ended) {
          raise_fault(w, Fault::barrier, -1, 0,
                      "the work-group hangs: not all of its waves reach this barrier");
          if (w.pc > &w.program->code[0]) --w.pc;
          return Progress::fault;
        }
    }
    if (spinning || l.mixed) return Progress::waiting;
  }
}

const char *fault_name(Fault::Kind k) {
  switch (k) {
  case Fault::out_of_bounds: return "out-of-bounds access";
  case Fault::misaligned: return "misaligned access";
  case Fault::lds_out_of_bounds: return "LDS overrun";
  case Fault::invalid_instruction: return "invalid instruction";
  case Fault::barrier: return "barrier hang";
  case Fault::hang: return "hang";
  case Fault::trap: return "trap";
  case Fault::uninitialized: return "uninitialized value";
  case Fault::missing_wait: return "missing wait";
  case Fault::race: return "race";
  case Fault::launch: return "invalid launch";
  }
  return "fault";
}

// A kernel that was given null for the service's buffer.
static bool wants_host_service(const Kernel &k) {
  return std::any_of(k.args.begin(), k.args.end(), [](const KernelArg &a) {
    return a.kind == ArgKind::hidden_hostcall_buffer || a.kind == ArgKind::hidden_printf_buffer ||
           a.kind == ArgKind::hidden_heap_v1;
  });
}
constexpr u64 kNullPages = 65536; // addresses that come of null pointers

Fault make_fault(const Launch &l, const Wave &w) {
  Fault f;
  f.kind = w.fault_kind;
  f.kernel = l.kernel->name;
  std::copy_n(w.group->id, 3, f.group);
  f.wave = w.id;
  f.lane = w.fault_lane;
  f.address = w.fault_address;
  u64 at = l.program->base + w.pc->pc;
  f.pc = at - l.kernel->entry;
  f.instruction = w.pc->pc + 4 <= l.program->bytes
                      ? disassemble(*l.chip, reinterpret_cast<const u8 *>(at),
                                    l.program->bytes - w.pc->pc, w.lanes == 32)
                      : "end of code";
  char head[160];
  char lane[24] = "";
  if (f.lane >= 0) std::snprintf(lane, sizeof lane, " lane %d", f.lane);
  bool before = i64(f.pc) < 0; // in a function that lies before the kernel
  std::snprintf(head, sizeof head, ", work-group (%u, %u, %u) wave %u%s, pc %s0x%llx", f.group[0],
                f.group[1], f.group[2], f.wave, lane, before ? "-" : "",
                (unsigned long long)(before ? -f.pc : f.pc));
  f.text = std::string(fault_name(f.kind)) + " in kernel " + f.kernel + head + " (" +
           f.instruction + ")";
  if (f.address) {
    char address[32];
    std::snprintf(address, sizeof address, ", address 0x%llx", (unsigned long long)f.address);
    f.text += address;
  }
  f.text += std::string(": ") + w.fault_text;
  if (f.kind == Fault::out_of_bounds && f.address < kNullPages && wants_host_service(*l.kernel))
    f.text +=
        "; printf, assert and malloc in kernels need a host service, which emulated devices lack";
  return f;
}

//===-- Dispatch ----------------------------------------------------------===//

namespace {

std::optional<Fault> launch_fault(const Kernel &k, std::string text) {
  Fault f;
  f.kind = Fault::launch;
  f.kernel = k.name;
  f.text = "kernel " + k.name + ": " + std::move(text);
  return f;
}

std::optional<Fault> check(const Dispatch &d, const Chip &chip) {
  const Kernel &k = *d.kernel;
  u64 threads = u64(d.block[0]) * d.block[1] * d.block[2];
  if (!threads || threads > 1024 || threads > std::max(k.max_workgroup, 1u))
    return launch_fault(k, "a work-group of " + std::to_string(threads) +
                               " work-items; the kernel allows 1 to " +
                               std::to_string(k.max_workgroup));
  for (int i = 0; i < 3; ++i)
    if (k.required_workgroup[i] && k.required_workgroup[i] != d.block[i])
      return launch_fault(k,
                          "the work-group size differs from the one the kernel was compiled for");
  if (u64(k.group_bytes) + d.dynamic_lds > chip.lds_bytes)
    return launch_fault(k, std::to_string(u64(k.group_bytes) + d.dynamic_lds) + " bytes of LDS; " +
                               chip.name + " has " + std::to_string(chip.lds_bytes));
  if (d.kernarg.size() < k.kernarg_size)
    return launch_fault(k, "the argument segment is too short");
  return std::nullopt;
}

void write_packet(const Launch &l, u8 *p) {
  const Dispatch &d = *l.dispatch;
  auto put = [&](u32 at, auto x) { std::memcpy(p + at, &x, sizeof x); };
  put(0, u16(2)); // kernel dispatch
  put(2, u16(3)); // dimensions
  for (int i = 0; i < 3; ++i) {
    put(4 + 2 * i, u16(d.block[i]));
    u32 grid = d.grid[i] * d.block[i];
    if (d.remainder[i]) grid -= d.block[i] - d.remainder[i];
    put(12 + 4 * i, grid);
  }
  put(24, l.scratch_bytes);
  put(28, l.lds_bytes);
  put(40, l.kernarg);
}

void set_registers(Launch &l) {
  u32 granules = (l.descriptor->rsrc1 & 63) + 1;
  u32 total = granules * 8;
  if (l.chip->is_gfx9()) {
    u32 arch = std::min(total, ((l.descriptor->rsrc3 & 63) + 1) * 4);
    l.vgprs = std::min(256u, arch);
    l.agprs = l.program->uses_agprs ? std::min(256u, total - arch) : 0;
  } else {
    l.vgprs = std::min(256u, total);
  }
}

class Runner {
public:
  Runner(const Launch &l, Profile *profile) : l_(l), profile_(profile) {}

  void work() {
    // Registers, LDS and scratch: mapping and faulting them in costs more than a small kernel.
    static thread_local std::vector<std::unique_ptr<GroupState>> idle;
    u32 saved = _mm_getcsr();
    _mm_setcsr(kPlainMxcsr);
    std::unique_ptr<Probe, void (*)(Probe *)> probe = make_probe(l_);
    std::deque<std::unique_ptr<GroupState>> active;
    u32 resident = l_.dispatch->cooperative ? ~0u : kResidentPerThread;
    u64 random = l_.options.order.seed;
    if (l_.mixed) wants_more_ = true;
    while (!stop_.load(std::memory_order_relaxed)) {
      bool fresh = active.empty() || wants_more_;
      if (fresh && active.size() < resident) {
        u64 index = next_.fetch_add(1);
        if (index < l_.executed_groups) {
          std::unique_ptr<GroupState> s;
          if (idle.empty()) s = std::make_unique<GroupState>();
          else {
            s = std::move(idle.back());
            idle.pop_back();
          }
          if (!s->start(l_, place(index), probe.get())) {
            report(*launch_fault(*l_.kernel, "out of host memory"));
            break;
          }
          if (l_.options.strict) strict_start(l_, *s);
          active.push_front(std::move(s));
        }
      }
      if (active.empty()) break;
      if (l_.mixed) std::swap(active.front(), active[next_random(random) % active.size()]);
      std::unique_ptr<GroupState> s = std::move(active.front());
      active.pop_front();
      Progress p = run_group(l_, *s);
      if (p == Progress::fault) {
        for (u32 i = 0; i < s->live_waves; ++i)
          if (s->waves[i]->stop == Stop::fault) report(make_fault(l_, *s->waves[i]));
        break;
      }
      if (p == Progress::done) {
        l_.grid.ended.fetch_add(1);
        finish_probe(probe.get(), *s);
        idle.push_back(std::move(s));
      } else {
        active.push_back(std::move(s));
        wants_more_ = true; // it waits for something: let others run beside it
      }
    }
    keep_some(idle);
    if (profile_) {
      std::lock_guard lock(mutex_);
      collect_probe(probe.get(), *profile_);
    }
    _mm_setcsr(saved);
  }

  std::optional<Fault> fault;

private:
  // The work-group of a turn. At random: multiples of a step that has no factor of their number.
  u64 place(u64 turn) const {
    u64 groups = l_.executed_groups;
    if (l_.options.order.kind == Order::forward) return turn;
    if (l_.options.order.kind == Order::reversed) return groups - 1 - turn;
    u64 state = l_.options.order.seed, first = next_random(state) % groups, step;
    do step = next_random(state) % groups + 1;
    while (std::gcd(step, groups) != 1);
    return (first + turn * step) % groups;
  }

  // Keeps what the next dispatch may start from: a few groups of ordinary size.
  static void keep_some(std::vector<std::unique_ptr<GroupState>> &idle) {
    size_t kept = 0;
    for (std::unique_ptr<GroupState> &s : idle) {
      s->strict.reset();
      if (kept < kKeptPerThread && s->keepable()) std::swap(idle[kept++], s);
    }
    idle.resize(kept);
  }

  void report(const Fault &f) {
    std::lock_guard lock(mutex_);
    if (!fault) fault = f;
    stop_ = true;
  }

  const Launch &l_;
  Profile *profile_;
  std::mutex mutex_;
  std::atomic<u64> next_{0};
  std::atomic<bool> stop_{false}, wants_more_{false};
};

} // namespace

std::optional<Fault> execute(const Dispatch &d, Memory &memory, ThreadPool &pool,
                             const Options &options, Profile *profile) {
  const Kernel &k = *d.kernel;
  const Chip &chip = k.object->chip();
  if (profile) *profile = Profile();
  if (auto f = check(d, chip)) return f;
  Launch l;
  l.dispatch = &d;
  l.kernel = &k;
  l.descriptor = k.descriptor.get();
  l.program = &k.object->program();
  l.chip = &chip;
  l.memory = &memory;
  l.options = options;
  l.options.profile = options.profile && profile;
  // Code that expects arguments in registers begins with 256 bytes that read them, for firmware
  // that does not (AMDGPUUsage, "Preloaded Kernel Arguments").
  l.entry = l.program->at(k.entry + (l.descriptor->preload & 127 ? 256 : 0));
  if (!l.entry) return launch_fault(k, "its entry holds no instruction");
  u64 groups = u64(d.grid[0]) * d.grid[1] * d.grid[2];
  if (!groups) return std::nullopt;
  if (groups > 0xffffffff) return launch_fault(k, "more than 2^32 work-groups");
  l.total_groups = l.grid.groups = u32(groups);
  l.grid.cooperative = d.cooperative;
  l.mixed = d.cooperative && options.order.kind == Order::random;
  l.threads = d.block[0] * d.block[1] * d.block[2];
  l.waves = (l.threads + k.wave_size - 1) / k.wave_size;
  l.lds_bytes = k.group_bytes + d.dynamic_lds;
  // A dynamic stack grows beyond the fixed size; 64 KB is far above HIP's default limit.
  l.scratch_bytes = (std::max(k.private_bytes, l.descriptor->private_bytes) + 15) & ~15u;
  if (k.dynamic_stack) l.scratch_bytes += 65536;
  l.executed_groups = l.options.profile && l.options.sample ? held_groups(l) : l.total_groups;
  set_registers(l);
  if (options.strict) l.shadow = make_global_shadow(*l.program);

  constexpr u32 kKernargAt = 512;
  // A runtime takes arguments from larger blocks: LLVM widens scalar loads past the last argument.
  u32 block_bytes = kKernargAt + ((k.kernarg_size + 63) & ~63u);
  auto *block = static_cast<u8 *>(memory.allocate(block_bytes));
  if (!block) return launch_fault(k, "out of device memory");
  std::memset(block, 0, block_bytes);
  l.packet = reinterpret_cast<u64>(block);
  l.queue = l.packet + 64;
  l.kernarg = l.packet + kKernargAt;
  // amd_queue_t: the high halves of the apertures (AMDGPUUsage, "amd_queue_t").
  u32 apertures[2] = {u32(kSharedBase >> 32), u32(kPrivateBase >> 32)};
  std::memcpy(block + 64 + 0x40, apertures, sizeof apertures);
  if (k.kernarg_size) std::memcpy(block + kKernargAt, d.kernarg.data(), k.kernarg_size);
  write_packet(l, block);

  Runner runner(l, l.options.profile ? profile : nullptr);
  pool.run([&](unsigned) { runner.work(); }, unsigned(std::min<u64>(groups, ~0u)));
  memory.free(block);
  if (l.options.profile && !runner.fault) finish_profile(l, *profile);
  return runner.fault;
}

} // namespace mgx::emu
