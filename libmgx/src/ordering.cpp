//===- ordering.cpp - which launches wait for which, and whether some pay side by side
//------------------------===//
#include "ordering.h"

#include <algorithm>
#include <set>

namespace mgx {

namespace {

// Seconds from the end of a launch to the start of the next one: in the same stream, and by an
// event in another stream. Orders of magnitude; only large gains are taken.
constexpr double launch_seconds = 3e-6, event_seconds = 6e-6;
constexpr size_t most_streams = 4;
// Several streams have to take less than this share of the time of one, by the estimate.
constexpr double gain = 0.85;
constexpr double busy_threads = 1024; // They keep a compute unit busy.

using Before = std::vector<std::set<size_t>>;

struct Access {
  int64_t first, end;
  size_t step;
  bool writes;
};

// How long a step takes alone, and the share of the device that it keeps busy.
std::pair<double, double> seconds(const BoundStep &step, const Rates &rates) {
  double threads = static_cast<double>(step.bytes / 16);
  if (step.launch) {
    threads = 1;
    for (size_t i = 0; i < 3; ++i)
      threads *= static_cast<double>(step.launch->grid[i] * step.launch->block[i]);
  }
  double share = std::min(1.0, std::max(1.0, threads / busy_threads) / rates.compute_units);
  double work = std::max(static_cast<double>(step.traffic()) / rates.bytes_per_second,
                         static_cast<double>(step.flops) / rates.flops_per_second);
  return {work / share, share};
}

// The memory of a place that somebody writes; nothing for others.
std::optional<std::pair<int, int64_t>> memory_of(const Place &place, const BoundStep &step) {
  if (!place.bytes)
    return {};
  auto kind = static_cast<int>(place.kind);
  switch (place.kind) {
  case Place::Kind::arena:
    return std::pair{kind, int64_t(0)};
  case Place::Kind::scratch:
    return std::pair{kind, static_cast<int64_t>(step.step)};
  case Place::Kind::output:
    return std::pair{kind, place.index};
  default:
    return {};
  }
}

// For each step the earlier steps that it must not overtake, some of them redundant.
Before predecessors(std::span<const BoundStep> steps) {
  Before found(steps.size());
  std::map<std::pair<int, int64_t>, std::vector<Access>> known;
  for (size_t number = 0; number < steps.size(); ++number) {
    const BoundStep &step = steps[number];
    std::vector<std::pair<std::vector<Access> *, Access>> touched;
    for (size_t i = 0; i < step.places.size(); ++i) {
      const Place &place = step.places[i];
      auto memory = memory_of(place, step);
      if (!memory)
        continue;
      int64_t start = place.kind == Place::Kind::output ? 0 : place.index;
      touched.emplace_back(&known[*memory],
                           Access{start, start + place.bytes, number, step.writes(i)});
    }
    for (const auto &[entries, own] : touched)
      for (const Access &other : *entries)
        if (other.first < own.end && own.first < other.end && (own.writes || other.writes))
          found[number].insert(other.step);
    for (auto &[entries, own] : touched) {
      if (own.writes) // A later step is ordered after this one, and so after all it overwrites.
        std::erase_if(*entries, [own = own](const Access &other) {
          return own.first <= other.first && other.end <= own.end;
        });
      entries->push_back(own);
    }
    found[number].erase(number);
  }
  return found;
}

// The same order with the fewest waits: its transitive reduction.
std::vector<std::vector<size_t>> reduced(const Before &before) {
  std::vector<std::vector<bool>> after; // All steps that each step comes after.
  std::vector<std::vector<size_t>> result;
  for (const auto &own : before) {
    std::vector<bool> covered(before.size());
    std::vector<size_t> kept;
    for (auto other = own.rbegin(); other != own.rend(); ++other) {
      if (covered[*other])
        continue;
      kept.push_back(*other);
      covered[*other] = true;
      for (size_t i = 0; i < *other; ++i)
        covered[i] = covered[i] || after[*other][i];
    }
    after.push_back(std::move(covered));
    std::reverse(kept.begin(), kept.end());
    result.push_back(std::move(kept));
  }
  return result;
}

// Assigns steps to streams, in order, by the earliest start; one kernel has one stream.
struct Placed {
  void add(const BoundStep &step, const std::vector<size_t> &before, double taken) {
    auto start = [&](size_t stream) {
      double at = std::max(free[stream], 0.0);
      for (size_t other : before)
        at = std::max(at, ends[other] + (streams[other] != stream ? event_seconds : 0));
      return at;
    };
    size_t last = before.empty() ? 0 : streams[before.back()];
    size_t best = last;
    if (!streams.empty() && step.step == kernel) {
      best = streams.back();
    } else {
      for (size_t stream = 0; stream < most_streams; ++stream)
        if (std::tuple(start(stream), stream != last, stream) <
            std::tuple(start(best), best != last, best))
          best = stream;
    }
    kernel = step.step;
    ends.push_back(start(best) + taken);
    free[best] = ends.back();
    streams.push_back(best);
  }

  size_t kernel = SIZE_MAX;
  std::vector<size_t> streams;
  std::vector<double> ends;
  // The time at which each stream is free. The others begin with an event of the first.
  double free[most_streams] = {0, event_seconds, event_seconds, event_seconds};
};

// The order, with the launches that share the scratch memory of a stream in sequence.
Before scratch_in_turn(std::span<const BoundStep> steps, const Placed &placed,
                       const std::vector<std::vector<size_t>> &before) {
  std::map<size_t, size_t> last;
  Before result;
  for (size_t number = 0; number < steps.size(); ++number) {
    result.emplace_back(before[number].begin(), before[number].end());
    const auto &places = steps[number].places;
    if (std::none_of(places.begin(), places.end(),
                     [](const Place &place) { return place.kind == Place::Kind::scratch; }))
      continue;
    size_t stream = placed.streams[number];
    if (auto found = last.find(stream); found != last.end())
      result.back().insert(found->second);
    last[stream] = number;
  }
  return result;
}

} // namespace

std::optional<StreamSchedule> schedule(std::span<const BoundStep> steps, const Rates &rates) {
  // All of a resident kernel's work-groups have to run at a time.
  if (std::any_of(steps.begin(), steps.end(),
                  [](const BoundStep &step) { return step.resident(); }))
    return {};
  auto before = reduced(predecessors(steps));
  bool chain = true;
  for (size_t number = 1; number < steps.size(); ++number)
    chain = chain && before[number] == std::vector<size_t>{number - 1};
  if (chain)
    return {};
  Placed placed;
  double alone = 0, least = 0;
  for (size_t number = 0; number < steps.size(); ++number) {
    auto [taken, share] = seconds(steps[number], rates);
    alone += taken + launch_seconds;
    least += taken * share; // No order is faster than the whole device.
    placed.add(steps[number], before[number], taken + launch_seconds);
  }
  size_t used = *std::max_element(placed.streams.begin(), placed.streams.end());
  double together = std::max(*std::max_element(placed.ends.begin(), placed.ends.end()), least) +
                    (used ? event_seconds : 0);
  if (used == 0 || together > gain * alone)
    return {};
  StreamSchedule found{reduced(scratch_in_turn(steps, placed, before)), placed.streams, used + 1,
                       std::vector<char>(steps.size())};
  for (size_t number = 0; number < steps.size(); ++number)
    for (size_t other : found.before[number])
      if (found.streams[other] != found.streams[number])
        found.crossing[other] = 1;
  return found;
}

} // namespace mgx
