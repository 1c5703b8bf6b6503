// State of the work-groups in flight on one thread.
#pragma once

#include "core.h"

namespace mgx::emu {

struct GlobalShadow; // strict mode

// The state that all work-groups of a dispatch share.
struct Launch {
  const Dispatch *dispatch = nullptr;
  const Kernel *kernel = nullptr;
  const KernelDescriptor *descriptor = nullptr;
  const Program *program = nullptr;
  const Chip *chip = nullptr;
  Memory *memory = nullptr;
  Options options;
  const Inst *entry = nullptr;
  u64 packet = 0, queue = 0, kernarg = 0; // device addresses
  u32 lds_bytes = 0, scratch_bytes = 0;   // scratch of one work-item
  u32 threads = 0, waves = 0;             // of a full work-group
  u32 vgprs = 0, agprs = 0;               // that a wave may use
  u32 total_groups = 0, executed_groups = 0;
  bool mixed = false; // work-groups take turns, as the waves of each do
  std::shared_ptr<GlobalShadow> shadow;
  mutable GridBarrier grid;
};

// Lazily committed host memory.
class Pages {
public:
  Pages() = default;
  ~Pages();
  Pages(const Pages &) = delete;
  Pages &operator=(const Pages &) = delete;
  bool reserve(size_t bytes);
  u8 *data() const { return data_; }
  size_t bytes() const { return bytes_; }

private:
  u8 *data_ = nullptr;
  size_t bytes_ = 0;
};

// One work-group's registers, LDS and scratch; reused for the next.
struct GroupState {
  Group group;
  Pages registers, lds, scratch;
  std::vector<Wave *> waves;
  Pages wave_memory;
  u32 live_waves = 0; // in use for this group
  std::vector<u32> turns; // the waves in the order of their turns
  u64 random = 0;         // state of the generator for a random order
  std::unique_ptr<Strict, void (*)(Strict *)> strict{nullptr, nullptr};
  bool start(const Launch &launch, u64 index, Probe *probe);
  // Not so large that keeping it for the next dispatch would hold much memory.
  bool keepable() const { return registers.bytes() + lds.bytes() + scratch.bytes() <= kKeepBytes; }
  static constexpr size_t kKeepBytes = size_t(8) << 20;
};

void init_wave(const Launch &launch, GroupState &state, u32 wave, const u32 *size);

// The scalar registers that a wave finds filled: user SGPRs and those of the system.
u32 given_sgprs(const Launch &launch);
// SplitMix64 (Steele, Lea, Flood, 2014): the next number of a sequence.
inline u64 next_random(u64 &state) {
  u64 x = state += 0x9e3779b97f4a7c15;
  x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9;
  x = (x ^ x >> 27) * 0x94d049bb133111eb;
  return x ^ x >> 31;
}

enum class Progress { done, waiting, fault };
// Runs until the group ends, faults, or only waits or spins.
Progress run_group(const Launch &launch, GroupState &state);

Fault make_fault(const Launch &launch, const Wave &w);

} // namespace mgx::emu
