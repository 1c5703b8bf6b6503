// The environment of the emulated device, read once.
#pragma once

#include <cstdint>
#include <string>

#include "engine/engine.h"

namespace mgx::hip {

struct Settings {
  std::string devices;   // MGX_EMULATED_DEVICES: chips by name, comma-separated; default gfx942
  bool async = false;    // MGX_EMULATOR_ASYNC=1: a worker thread for each stream
  bool strict = false;   // MGX_EMULATOR_STRICT=1: poison, missing waits and races are faults
  bool profile = false;  // MGX_EMULATOR_PROFILE=1: counts, and modelled time in events
  bool sample = false;   // MGX_EMULATOR_PROFILE=sample: of one compute unit's work-groups alone
  emu::Order order;      // MGX_EMULATOR_ORDER: forward, reversed or random[:seed]
  unsigned threads = 0;  // MGX_EMULATOR_THREADS: workers of a kernel; 0: one a processor
  uint64_t budget = 0;   // MGX_EMULATOR_BUDGET: instructions of one wave before it hangs
  std::string fail;      // MGX_EMULATOR_FAIL: "hipMalloc:3" or "any:17[:code]", comma-separated
};

const Settings& settings();

}  // namespace mgx::hip
