//===- binding.h - a plan and its code as one list of launches and copies --------------===//
//
// Every executor binds first, whatever the device; binding finds whether plan and code fit
// together. Control flow cuts the list into sections.
//
//===----------------------------------------------------------------------------------===//
#pragma once

#include "artifact.h"

#include <chrono>

namespace mgx {

// Where a pointer points. Arena, scratch and kept: `index` bytes into that memory. Input and
// output: the caller's tensor of that number; weight: the artifact's. Size: no pointer, the number
// itself.
struct Place {
  enum class Kind : uint8_t { arena, scratch, kept, input, output, weight, size };
  Kind kind = Kind::arena;
  int64_t index = 0;
  int64_t bytes = 0;

  auto operator<=>(const Place &other) const = default;
};

// A launch of code object `kernel`, or, where there is no launch, a copy of `bytes` bytes from the
// first place to the second; to the row of it whose number is the loop's trip where `is_row`.
struct BoundStep {
  size_t step = 0; // Its number among the plan's launches and copies.
  int64_t kernel = -1;
  const Launch *launch = nullptr;
  std::vector<Place> places;
  const std::string *node = nullptr;
  int64_t flops = 0, bytes = 0;
  bool is_row = false;
  // A resident kernel's launch says for each place whether it writes there.
  std::vector<bool> written;

  bool resident() const { return !written.empty(); }
  // Whether a launch writes to its argument of that number.
  bool writes(size_t place) const;
  uint64_t traffic() const;
};

// A list of steps without a decision between them, one of two lists, or a repeated one.
struct BoundPart {
  enum class Kind : uint8_t { section, choice, repeat };
  Kind kind = Kind::section;
  size_t first = 0, end = 0;               // The steps of a section.
  Place condition, trips, again;           // See plan.h.
  std::vector<BoundPart> then, otherwise;  // `then` is a loop's body.
  std::vector<size_t> rows;                // The copies that fill rows,
  int64_t limit = 0, most = 0;             // and how many there are.
  const std::string *node = nullptr;
};

// The argument of a resident launch that says how many work-groups there are.
constexpr size_t groups_argument = 2;

struct BoundPlan {
  // keeps: whether launches that make something of weights alone run once, before the first run.
  BoundPlan(const Artifact &artifact, Plan plan, Code code, bool keeps);
  BoundPlan(const BoundPlan &) = delete;

  Plan plan;
  Code code;
  std::vector<BoundStep> steps;
  std::vector<BoundPart> parts;
  std::vector<BoundStep> once; // Launches before the first run, and the memory that they fill.
  int64_t kept_bytes = 0, scratch_bytes = 0, arena_bytes = 0;
  bool counts = false; // Whether counters end the scratch memory: 0 before a launch, and after it.

  // The places of all counts and conditions.
  std::vector<Place> decisions() const;
  // Whether one of them is made in the run.
  bool decides() const;
};

// Asks the caller of a run, some times a second, whether to go on.
class Patience {
public:
  Patience() = default;
  explicit Patience(const mgx_run_options &options)
      : interrupted(options.interrupted), user(options.user) {}
  // Throws where the caller has enough.
  void check() {
    if (interrupted && std::chrono::steady_clock::now() > next)
      ask();
  }

private:
  void ask();

  int32_t (*interrupted)(void *) = nullptr;
  void *user = nullptr;
  std::chrono::steady_clock::time_point next{};
};

// Runs parts in order. `machine` has section(part), number(place, bytes), row(part, trip) and
// trip(), which is called after each.
template <class Machine> void run_parts(const std::vector<BoundPart> &parts, Machine &machine);

[[noreturn]] void wrong_trips(const BoundPart &loop, const std::string &trips);
[[noreturn]] void never_ends(const BoundPart &loop, int64_t trips);

template <class Machine> void repeat(const BoundPart &loop, Machine &machine) {
  int64_t trips = machine.number(loop.trips, trips_bytes);
  bool go = trips > 0 && machine.number(loop.condition, condition_bytes);
  // A constant is read once: on a GPU each decision waits for the device.
  bool settled = loop.again.kind == Place::Kind::weight;
  bool again = !settled || machine.number(loop.again, condition_bytes);
  int64_t trip = 0;
  while (go) {
    if (!loop.rows.empty()) {
      if (trip == loop.limit)
        wrong_trips(loop, "more");
      machine.row(loop, trip);
    }
    if (trip == loop.most && trips >= endless && loop.most)
      never_ends(loop, trip);
    run_parts(loop.then, machine);
    ++trip;
    machine.trip();
    if (!settled && trip < trips)
      again = machine.number(loop.again, condition_bytes);
    go = again && trip < trips;
  }
  if (!loop.rows.empty() && trip != loop.limit)
    wrong_trips(loop, std::to_string(trip));
}

template <class Machine> void run_parts(const std::vector<BoundPart> &parts, Machine &machine) {
  for (const BoundPart &part : parts) {
    if (part.kind == BoundPart::Kind::section)
      machine.section(part);
    else if (part.kind == BoundPart::Kind::choice)
      run_parts(machine.number(part.condition, condition_bytes) ? part.then : part.otherwise,
                machine);
    else
      repeat(part, machine);
  }
}

} // namespace mgx
