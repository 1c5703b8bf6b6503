//===- hip_prepared.h - a bound plan on a GPU: functions and weights loaded, arguments laid out
//--------===//
#pragma once

#include "binding.h"
#include "hip_device.h"
#include "hip_memory.h"

namespace mgx {

// A launch, or a copy on the device where there is no function: its arguments begin with number
// `first` in the table of all.
struct HipStep {
  void *function;
  HipDim grid, block;
  uint64_t bytes;
  size_t first;
  const BoundStep *bound;

  // Throws where a call for it failed.
  void check(int status, const char *call) const {
    if (status != 0) [[unlikely]]
      failed(status, call);
  }

private:
  [[noreturn]] void failed(int status, const char *call) const;
};

// All execution contexts of a program share it; each has its own copy of the arguments.
class HipPrepared {
public:
  HipPrepared(const BoundPlan &bound, const Artifact &artifact, const HipDevice &device);

  const BoundPlan &bound;
  const HipDevice &device;
  std::vector<HipStep> steps;
  std::vector<uint64_t> arguments; // Addresses, and offsets in the arena at `in_arena`.
  std::vector<size_t> in_arena;
  // The arguments that point to each input and output, and the steps that have such.
  std::vector<std::vector<size_t>> entries[2], touching[2];
  std::vector<uint64_t> staging[2]; // The offset of each host tensor in the memory for copies.
  uint64_t staging_bytes = 0, memory_bytes = 0;
  std::map<Place, size_t> decisions;         // The arguments that point to counts and conditions,
  std::map<int64_t, WeightBytes> known;      // and those of them that are weights, by number.
  // The sections, by their first step, for which several streams pay.
  std::map<size_t, StreamSchedule> schedules;
  std::map<size_t, size_t> wholes; // The argument of the tensor whose rows a copy fills.

private:
  // Adds a pointer to a place; `lane` is the stream that has its scratch memory.
  size_t point(const Place &place, size_t lane = 0);
  void plan_streams(const std::vector<BoundPart> &parts);
  void touch(const Place &place);

  const Artifact &artifact;
  std::vector<size_t> lanes; // Of each step.
  std::vector<std::shared_ptr<HipModule>> modules;
  std::map<int64_t, std::shared_ptr<DeviceMemory>> weights;
};

} // namespace mgx
