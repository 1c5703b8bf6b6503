//===- ordering.h - which launches wait for which, and whether some pay side by side
//-------------------------===//
//
// Two steps of a section are ordered where both touch
// the same bytes and one of them writes. Each stream has scratch memory of its own: only launches
// of the same kernel read what a launch leaves there.
//
//===----------------------------------------------------------------------------------------------------===//
#pragma once

#include "binding.h"

namespace mgx {

// The figures of a device for the estimate of time.
struct Rates {
  double bytes_per_second, flops_per_second, compute_units;
};

// Steps of a section on several streams; numbers count from the section's first step.
struct StreamSchedule {
  // The steps that each waits for, without those that others of them wait for.
  std::vector<std::vector<size_t>> before;
  std::vector<size_t> streams; // 0 is the run's own.
  size_t count = 0; // Of the streams.
  std::vector<char> crossing; // Whether a step of another stream waits for it, of each.
};

// Nothing where one stream is as good, by the estimate.
std::optional<StreamSchedule> schedule(std::span<const BoundStep> steps, const Rates &rates);

} // namespace mgx
