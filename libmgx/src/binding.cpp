//===- binding.cpp - a plan and its code as one list of launches and copies -------------===//
#include "binding.h"

#include <algorithm>
#include <set>

namespace mgx {

bool BoundStep::writes(size_t place) const {
  if (resident())
    return written[place];
  if (!launch)
    return place == 1;
  ArgumentKind kind = launch->arguments[place].kind;
  return kind != ArgumentKind::input && kind != ArgumentKind::size;
}

uint64_t BoundStep::traffic() const {
  if (!launch)
    return 2 * static_cast<uint64_t>(bytes);
  uint64_t total = 0;
  std::set<Place> seen;
  for (const Place &place : places)
    if (place.kind != Place::Kind::scratch && place.kind != Place::Kind::size &&
        seen.insert(place).second)
      total += static_cast<uint64_t>(place.bytes);
  return total;
}

namespace {

class Binder {
public:
  Binder(const Artifact &artifact, BoundPlan &bound, bool keeps)
      : artifact(artifact), bound(bound), keeps(keeps) {
    int64_t counters = 0;
    for (const CodeObject &code : bound.code) {
      counters_at = std::max(counters_at, round_up(std::min(code.scratch_bytes, most), 256));
      for (const Launch &launch : code.launches)
        for (const Argument &argument : launch.arguments)
          if (argument.kind == ArgumentKind::counters)
            counters = std::max(counters, std::min(argument.index, most));
    }
    barrier_at = counters_at + round_up(counter_bytes * counters, 256);
  }

  // The plan's own steps, with those of a resident kernel as one.
  std::vector<BoundPart> all() {
    for (size_t i = 0; i < bound.code.size(); ++i)
      if (const auto &resident = bound.code[i].resident) {
        auto size = static_cast<int64_t>(bound.plan.steps.size());
        if (resident->steps > size || resident->first > size - resident->steps ||
            !residents.emplace(resident->first, i).second)
          bad_artifact("plan: a resident kernel of ", resident->steps, " steps from number ",
                       resident->first, " on is out of range");
      }
    std::vector<BoundPart> found = parts(bound.plan.steps);
    if (!residents.empty())
      bad_artifact("plan: resident kernels share steps");
    return found;
  }

  std::vector<BoundPart> parts(const std::vector<Step> &steps) {
    std::vector<BoundPart> found;
    size_t first = bound.steps.size();
    auto close = [&] {
      if (first != bound.steps.size()) {
        BoundPart section;
        section.first = first;
        section.end = bound.steps.size();
        found.push_back(std::move(section));
      }
    };
    bool own = &steps == &bound.plan.steps;
    for (size_t i = 0; i < steps.size(); ++i) {
      const Step &step = steps[i];
      if (auto found = residents.find(static_cast<int64_t>(i)); own && found != residents.end()) {
        i += static_cast<size_t>(resident(found->second)) - 1;
        residents.erase(found);
        continue;
      }
      if (!step.control()) {
        work(step);
        ++number;
        continue;
      }
      close();
      found.push_back(step.kind == Step::Kind::branch ? choice(step) : repeat(step));
      first = bound.steps.size();
    }
    close();
    return found;
  }

private:
  const Buffer &buffer(int64_t number) const {
    return bound.plan.buffers[static_cast<size_t>(number)];
  }

  BoundPart choice(const Step &step) {
    BoundPart part;
    part.kind = BoundPart::Kind::choice;
    part.condition = place(step.numbers[0]);
    part.then = parts(step.then);
    part.otherwise = parts(step.otherwise);
    part.node = &step.node;
    return part;
  }

  BoundPart repeat(const Step &step) {
    BoundPart part;
    part.kind = BoundPart::Kind::repeat;
    part.trips = place(step.numbers[0]);
    part.condition = place(step.numbers[1]);
    part.again = place(step.numbers[2]);
    part.node = &step.node;
    part.most = step.most;
    part.then = parts(step.then);
    // Rows that an inner loop fills belong to the inner loop.
    for (const BoundPart &inner : part.then)
      for (size_t number = inner.first; number < inner.end; ++number)
        if (bound.steps[number].is_row)
          part.rows.push_back(number);
    for (const Step &inner : step.then) {
      if (inner.kind != Step::Kind::row || !buffer(inner.numbers[0]).bytes)
        continue;
      int64_t count = buffer(inner.numbers[1]).bytes / buffer(inner.numbers[0]).bytes;
      if (part.limit && part.limit != count)
        bad_artifact("plan: the loop of '", step.node, "' fills rows of two numbers");
      part.limit = count;
    }
    return part;
  }

  void work(const Step &step) {
    if (step.kind != Step::Kind::kernel)
      return copy(step);
    const CodeObject &code = bound.code[static_cast<size_t>(step.kernel)];
    int64_t inputs = static_cast<int64_t>(step.numbers.size()) - code.outputs();
    std::vector<BoundStep> launches;
    for (const Launch &launch : code.launches) {
      BoundStep one;
      one.step = number;
      one.kernel = step.kernel;
      one.launch = &launch;
      one.node = &step.node;
      one.flops = step.flops / static_cast<int64_t>(code.launches.size());
      for (const Argument &argument : launch.arguments)
        one.places.push_back(place(step, code, argument, inputs));
      launches.push_back(std::move(one));
    }
    without_kept(launches, code.scratch_bytes);
  }

  // Binds the steps of a resident kernel as one launch; gives how many there are.
  int64_t resident(size_t code) {
    const Resident &resident = *bound.code[code].resident;
    size_t begin = bound.steps.size(), first = number;
    for (int64_t i = 0; i < resident.steps; ++i, ++number) {
      const Step &step = bound.plan.steps[static_cast<size_t>(resident.first + i)];
      if (step.kind != Step::Kind::kernel)
        bad_artifact("plan: ", step.called(), " is no launch, and a step of a resident kernel");
      work(step);
    }
    std::vector<BoundStep> phases(
        std::make_move_iterator(bound.steps.begin() + static_cast<ptrdiff_t>(begin)),
        std::make_move_iterator(bound.steps.end()));
    bound.steps.resize(begin);
    check_resident(resident, phases);
    BoundStep one;
    one.step = first;
    one.kernel = static_cast<int64_t>(code);
    one.launch = &bound.code[code].launches[0];
    one.node = &bound.plan.steps[static_cast<size_t>(resident.first)].node;
    auto add = [&](const Place &place, bool writes) {
      one.places.push_back(place);
      one.written.push_back(writes);
    };
    int64_t barrier_bytes = round_up(counter_bytes * one.launch->grid[0], 256);
    add({Place::Kind::scratch, barrier_at, barrier_bytes}, true);
    add({Place::Kind::size, static_cast<int64_t>(phases.size()), 0}, false);
    add({Place::Kind::size, one.launch->grid[0], 0}, false); // At most: see groups_argument.
    for (size_t i = 0; i < phases.size(); ++i) {
      add({Place::Kind::size, resident.phases[i].body << 1 | resident.phases[i].waits, 0}, false);
      for (size_t place = 0; place < phases[i].places.size(); ++place)
        add(phases[i].places[place], phases[i].writes(place));
      one.flops += phases[i].flops;
    }
    for (int i = 0; i < 7; ++i) // The code reads so many words of any phase.
      add({Place::Kind::size, 0, 0}, false);
    bound.counts = true;
    barrier_at += barrier_bytes; // Each kernel has its own: the words of one stay equal.
    bound.scratch_bytes = std::max(bound.scratch_bytes, barrier_at);
    bound.steps.push_back(std::move(one));
    return resident.steps;
  }

  // Whether two places may share bytes.
  bool meet(const Place &a, const Place &b) const {
    if (a.kind == Place::Kind::size || !a.bytes || !b.bytes)
      return false;
    if (a.kind != b.kind) { // The caller may give an output the memory of an input.
      const Place &output = a.kind == Place::Kind::output ? a : b,
                  &input = a.kind == Place::Kind::output ? b : a;
      return output.kind == Place::Kind::output && input.kind == Place::Kind::input &&
             std::count(bound.plan.in_place.begin(), bound.plan.in_place.end(),
                        std::pair(output.index, input.index));
    }
    if (a.kind == Place::Kind::arena || a.kind == Place::Kind::scratch)
      return a.index < b.index + b.bytes && b.index < a.index + a.bytes;
    return a.index == b.index;
  }

  // A resident kernel's phases are its steps' launches, and each waits for all that it must not
  // overtake. All work-groups make the same waits, and run at a time: so none waits for ever.
  void check_resident(const Resident &resident, const std::vector<BoundStep> &phases) const {
    if (phases.size() != resident.phases.size())
      bad_artifact("plan: a resident kernel has ", resident.phases.size(), " phases for ",
                   phases.size(), " launches");
    size_t since = 0; // The first phase after the last wait.
    for (size_t i = 0; i < phases.size(); ++i) {
      const BoundStep &own = phases[i];
      const Resident::Body &body = resident.bodies[static_cast<size_t>(resident.phases[i].body)];
      const auto &launches = bound.code[static_cast<size_t>(own.kernel)].launches;
      if (!std::count(body.kernels.begin(), body.kernels.end(), own.kernel) ||
          body.launch != own.launch - launches.data())
        bad_artifact("plan: phase ", i,
                     " of a resident kernel has the code of another launch than that of '",
                     *own.node, "'");
      if (resident.phases[i].waits)
        since = i;
      for (size_t before = since; before < i; ++before)
        for (size_t a = 0; a < own.places.size(); ++a)
          for (size_t b = 0; b < phases[before].places.size(); ++b)
            if ((own.writes(a) || phases[before].writes(b)) &&
                meet(own.places[a], phases[before].places[b]))
              bad_artifact("plan: phase ", i, " of a resident kernel, '", *own.node,
                           "', does not wait for '", *phases[before].node,
                           "', whose memory it touches");
    }
  }

  void copy(const Step &step) {
    BoundStep one;
    one.step = number;
    one.bytes = buffer(step.numbers[0]).bytes;
    if (!one.bytes)
      return;
    one.places = {place(step.numbers[0]), place(step.numbers[1])};
    one.node = &step.node;
    one.is_row = step.kind == Step::Kind::row;
    bound.steps.push_back(std::move(one));
  }

  // A step's launches in each run: those that make something of weights alone run once.
  void without_kept(std::vector<BoundStep> &launches, int64_t scratch) {
    std::map<Place, Place> moved;
    std::vector<BoundStep> left;
    for (BoundStep &launch : launches)
      if (!moves(launch, moved))
        left.push_back(std::move(launch));
    for (BoundStep &launch : left) {
      for (Place &one : launch.places) {
        if (auto found = moved.find(one); found != moved.end())
          one = found->second;
        if (one.kind == Place::Kind::scratch)
          bound.scratch_bytes = std::max(bound.scratch_bytes, scratch);
      }
      bound.steps.push_back(std::move(launch));
    }
  }

  bool moves(const BoundStep &launch, std::map<Place, Place> &moved) {
    if (!keeps || !launch.launch->kept)
      return false;
    std::vector<Place> made, given;
    for (const Place &one : launch.places)
      (one.kind == Place::Kind::scratch ? made : given).push_back(one);
    bool weights = std::all_of(given.begin(), given.end(),
                               [](const Place &one) { return one.kind == Place::Kind::weight; });
    if (made.size() != 1 || !weights)
      return false;
    auto key = std::tuple(launch.kernel, launch.launch->function, given);
    auto found = kept.find(key);
    if (found == kept.end())
      found = kept.emplace(key, keep(launch, made[0])).first;
    moved[made[0]] = found->second;
    return true;
  }

  // Has a launch run once; gives the memory that it fills.
  Place keep(BoundStep launch, const Place &made) {
    if (launch.launch->kept > made.bytes)
      bad_artifact("plan: a launch of '", *launch.node, "' keeps more than its scratch");
    Place result{Place::Kind::kept, bound.kept_bytes, launch.launch->kept};
    bound.kept_bytes += round_up(result.bytes, 256);
    for (Place &one : launch.places)
      if (one == made)
        one = result;
    bound.once.push_back(std::move(launch));
    return result;
  }

  Place place(const Step &step, const CodeObject &code, const Argument &argument, int64_t inputs) {
    if (argument.kind == ArgumentKind::scratch) {
      if (argument.index > code.scratch_bytes)
        bad_artifact("plan: a launch of '", step.node, "' has scratch memory beyond its kernel's");
      return {Place::Kind::scratch, argument.index, code.scratch_bytes - argument.index};
    }
    if (argument.kind == ArgumentKind::counters) {
      Place result{Place::Kind::scratch, counters_at,
                   counter_bytes * std::min(argument.index, most)};
      bound.counts = true;
      bound.scratch_bytes = std::max(bound.scratch_bytes, counters_at + result.bytes);
      return result;
    }
    if (argument.kind == ArgumentKind::size)
      return {Place::Kind::size, argument.index, 0};
    bool output = argument.kind == ArgumentKind::output;
    auto limit = output ? static_cast<int64_t>(step.numbers.size()) : inputs;
    int64_t number = output ? argument.index + inputs : argument.index;
    if (inputs < 0 || number >= limit)
      bad_artifact("plan: the step of '", step.node, "' has ", step.numbers.size(),
                   " arguments, too few for its kernel, which wants ",
                   output ? "output " : "input ", argument.index);
    return place(step.numbers[static_cast<size_t>(number)]);
  }

  Place place(int64_t number) const {
    const Buffer &one = buffer(number);
    if (one.kind == Memory::weight)
      return {Place::Kind::weight, artifact.weight(one.key) - artifact.weights.data(), one.bytes};
    auto kind = one.kind == Memory::arena   ? Place::Kind::arena
                : one.kind == Memory::input ? Place::Kind::input
                                            : Place::Kind::output;
    return {kind, one.place, one.bytes};
  }

  static constexpr int64_t counter_bytes = 4;
  static constexpr int64_t most = int64_t(1) << 56; // More than any device has; sums stay in range.
  const Artifact &artifact;
  BoundPlan &bound;
  int64_t counters_at = 0, barrier_at = 0;
  std::map<int64_t, size_t> residents; // By the first step, those that are not bound yet.
  const bool keeps;
  size_t number = 0; // Of the step that is bound.
  std::map<std::tuple<int64_t, std::string, std::vector<Place>>, Place> kept;
};

void add_decisions(const std::vector<BoundPart> &parts, std::vector<Place> &found) {
  for (const BoundPart &part : parts) {
    if (part.kind == BoundPart::Kind::choice)
      found.push_back(part.condition);
    if (part.kind == BoundPart::Kind::repeat)
      found.insert(found.end(), {part.trips, part.condition, part.again});
    add_decisions(part.then, found);
    add_decisions(part.otherwise, found);
  }
}

} // namespace

BoundPlan::BoundPlan(const Artifact &artifact, Plan given, Code objects, bool keeps)
    : plan(std::move(given)), code(std::move(objects)) {
  check_fit(plan, code);
  arena_bytes = round_up(plan.arena_bytes, 256);
  parts = Binder(artifact, *this, keeps).all();
}

std::vector<Place> BoundPlan::decisions() const {
  std::vector<Place> found;
  add_decisions(parts, found);
  std::sort(found.begin(), found.end());
  found.erase(std::unique(found.begin(), found.end()), found.end());
  return found;
}

bool BoundPlan::decides() const {
  return std::ranges::any_of(decisions(),
                             [](const Place &place) { return place.kind != Place::Kind::weight; });
}

void Patience::ask() {
  next = std::chrono::steady_clock::now() + std::chrono::milliseconds(50);
  if (interrupted(user))
    fail(MGX_ERROR_USAGE, "the run was interrupted");
}

void wrong_trips(const BoundPart &loop, const std::string &trips) {
  bad_artifact("the loop of '", *loop.node, "' makes ", trips, " trips; its results are for ",
               loop.limit);
}

void never_ends(const BoundPart &loop, int64_t trips) {
  fail(MGX_ERROR_MODEL, "node '", *loop.node,
       "' is a loop that states no number of trips, and has not ended after ", trips,
       "; if it should end, raise that (max_loop_iterations=)");
}

} // namespace mgx
