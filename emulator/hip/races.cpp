#include "races.h"

#include <algorithm>
#include <cstdio>
#include <map>
#include <mutex>

#include "graph.h"
#include "memory.h"
#include "settings.h"

namespace mgx::hip {
namespace {

struct Author {
  uint32_t chain, number;
  ClockPtr clock;
  std::string text;  // "kernel f (stream 3)"
};

struct Access {
  std::shared_ptr<const Author> author;
  emu::Touch how;
};

// Bytes with equal accesses, from the key of the map: the last write, and what came since.
struct Segment {
  uint64_t end = 0;
  std::vector<Access> accesses;
};

struct State {
  std::mutex mutex;
  std::vector<uint32_t> used;  // by chain: the number of its last task
  std::vector<uint32_t> idle;  // chains of streams that are gone
  ClockPtr host;
  std::map<uint64_t, Segment> segments;
};

State& state() {
  static State* instance = new State;
  return *instance;
}

uint32_t known(const ClockPtr& clock, uint32_t chain) {
  return clock && chain < clock->size() ? (*clock)[chain] : 0;
}

ClockPtr join(const ClockPtr& a, const ClockPtr& b) {
  if (!a || !b || a == b) return a ? a : b;
  auto made = std::make_shared<Clock>(*a);
  if (made->size() < b->size()) made->resize(b->size());
  for (size_t i = 0; i < b->size(); ++i) (*made)[i] = std::max((*made)[i], (*b)[i]);
  return made;
}

// Under the lock. A chain of a stream that is gone serves again once the host knows its end, as
// all that is submitted from now on comes after that.
uint32_t new_chain(State& all) {
  for (uint32_t& chain : all.idle)
    if (known(all.host, chain) >= all.used[chain]) {
      std::swap(chain, all.idle.back());
      uint32_t found = all.idle.back();
      all.idle.pop_back();
      return found;
    }
  all.used.push_back(0);
  return uint32_t(all.used.size() - 1);
}

// Under the lock: the next task of a chain.
Task new_task(State& all, uint32_t chain, const ClockPtr& before) {
  auto clock = std::make_shared<Clock>(before ? *before : Clock());
  if (clock->size() <= chain) clock->resize(chain + 1);
  uint32_t number = (*clock)[chain] = ++all.used[chain];
  return {chain, number, clock, {}};
}

std::map<uint64_t, Segment>::iterator split(std::map<uint64_t, Segment>& segments, uint64_t at) {
  auto it = segments.lower_bound(at);
  if (it != segments.end() && it->first == at) return it;
  if (it == segments.begin()) return it;
  auto before = std::prev(it);
  if (before->second.end <= at) return it;
  Segment rest = before->second;
  before->second.end = at;
  return segments.emplace_hint(it, at, std::move(rest));
}

bool same(const std::vector<Access>& a, const std::vector<Access>& b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(), [](const Access& x, const Access& y) {
    return x.author == y.author && x.how == y.how;
  });
}

const char* verb(emu::Touch how) {
  return how == emu::kRead ? "reads" : how == emu::kWrite ? "writes" : "changes by atomics";
}

std::string place(uint64_t begin, uint64_t end) {
  char text[64];
  std::snprintf(text, sizeof text, "%#llx", static_cast<unsigned long long>(begin));
  auto allocation = find_allocation(reinterpret_cast<const void*>(begin));
  if (!allocation) return std::string("at ") + text;
  uint64_t offset = begin - allocation->base;
  return "in bytes " + std::to_string(offset) + " to " + std::to_string(offset + end - begin) +
         " of the allocation of " + std::to_string(allocation->size) + " bytes, at " + text;
}

// Two may read, and two may change by atomics.
bool conflict(emu::Touch a, emu::Touch b) { return a == emu::kWrite || a != b; }

// Under the lock. Adds an access to one segment; the one it races with, or null.
const Access* note(Segment& segment, const Access& own) {
  auto earlier = [&](const Access& other) {
    return known(own.author->clock, other.author->chain) >= other.author->number;
  };
  for (const Access& other : segment.accesses)
    if (conflict(own.how, other.how) && !earlier(other)) return &other;
  auto& list = segment.accesses;
  // Work that comes after this access comes after those that it replaces.
  list.erase(std::remove_if(list.begin(), list.end(),
                            [&](const Access& other) {
                              return own.how == emu::kWrite ||
                                     (own.how == other.how && earlier(other));
                            }),
             list.end());
  list.push_back(own);
  return nullptr;
}

// Under the lock: the segments that make up the range, with new ones for what nobody touched.
template <class F>
bool for_each_segment(std::map<uint64_t, Segment>& segments, uint64_t begin, uint64_t end, F&& f) {
  auto it = split(segments, begin);
  split(segments, end);
  it = segments.lower_bound(begin);
  for (uint64_t at = begin; at < end; ++it) {
    if (it == segments.end() || it->first != at) {
      uint64_t until = it == segments.end() ? end : std::min(end, it->first);
      it = segments.emplace_hint(it, at, Segment{until, {}});
    }
    if (!f(it->first, it->second)) return false;
    at = it->second.end;
    if (it == segments.begin()) continue;
    auto before = std::prev(it);
    if (before->second.end != it->first || !same(before->second.accesses, it->second.accesses))
      continue;
    before->second.end = at;
    segments.erase(it);
    it = before;
  }
  return true;
}

}  // namespace

Timeline::~Timeline() {
  if (chains_.empty()) return;
  State& all = state();
  std::lock_guard lock(all.mutex);
  all.idle.insert(all.idle.end(), chains_.begin(), chains_.end());
}

Task Timeline::next(const std::vector<ClockPtr>& before) {
  State& all = state();
  ClockPtr clock;
  for (const ClockPtr& one : before) clock = join(clock, one);
  std::lock_guard lock(all.mutex);
  if (chains_.empty()) chains_.push_back(new_chain(all));
  Task task = new_task(all, chains_[0], clock);
  task.where = "stream " + std::to_string(stream_);
  return task;
}

GraphOrder::GraphOrder(Timeline& timeline, const Task& launch, const Plan& plan)
    : timeline_(timeline),
      plan_(plan),
      launch_(launch.clock),
      tasks_(plan.steps.size()),
      continued_(plan.steps.size()) {}

Task GraphOrder::begin(size_t step) {
  State& all = state();
  std::lock_guard lock(all.mutex);
  ClockPtr clock = launch_;
  bool follows = false;
  uint32_t chain = 0;
  for (uint32_t before : plan_.steps[step].dependencies) {
    clock = join(clock, tasks_[before].clock);
    if (follows || continued_[before]) continue;
    follows = continued_[before] = true;
    chain = tasks_[before].chain;
  }
  if (!follows) {
    if (paths_ == timeline_.chains_.size()) timeline_.chains_.push_back(new_chain(all));
    chain = timeline_.chains_[paths_++];
  }
  Task task = new_task(all, chain, clock);
  task.where =
      "node " + std::to_string(step) + " of a graph in stream " + std::to_string(timeline_.stream_);
  return task;
}

ClockPtr GraphOrder::end() const {
  ClockPtr clock = launch_;
  for (const Task& task : tasks_) clock = join(clock, task.clock);
  return clock;
}

void order_after(Task& task, const ClockPtr& clock) { task.clock = join(task.clock, clock); }

ClockPtr host_clock() {
  State& all = state();
  std::lock_guard lock(all.mutex);
  return all.host;
}

void host_knows(const ClockPtr& clock) {
  if (!clock) return;
  State& all = state();
  std::lock_guard lock(all.mutex);
  all.host = join(all.host, clock);
}

bool is_known_to_host(const ClockPtr& clock) {
  State& all = state();
  std::lock_guard lock(all.mutex);
  for (uint32_t chain = 0; clock && chain < clock->size(); ++chain)
    if ((*clock)[chain] > known(all.host, chain)) return false;
  return true;
}

std::string note_touched(const Task& task, const std::string& what,
                         const std::vector<emu::Touched>& touched) {
  auto author = std::make_shared<const Author>(
      Author{task.chain, task.number, task.clock, what + " (" + task.where + ")"});
  State& all = state();
  std::lock_guard lock(all.mutex);
  std::string report;
  for (const emu::Touched& range : touched)
    for (emu::Touch how : {emu::kRead, emu::kWrite, emu::kAtomic}) {
      if (!(range.how & how)) continue;
      auto one = [&](uint64_t begin, Segment& segment) {
        const Access* other = note(segment, {author, how});
        if (!other) return true;
        report = "race between streams: " + author->text + " " + verb(how) + " what " +
                 other->author->text + " " + verb(other->how) +
                 ", and nothing orders them: " + place(begin, segment.end);
        return false;
      };
      if (!for_each_segment(all.segments, range.begin, range.end, one)) return report;
    }
  return report;
}

void order_after_writers(Task& task, const void* address, uint64_t bytes) {
  State& all = state();
  std::lock_guard lock(all.mutex);
  uint64_t begin = uint64_t(address);
  for_each_segment(all.segments, begin, begin + bytes, [&](uint64_t, Segment& segment) {
    for (const Access& access : segment.accesses)
      if (access.how != emu::kRead) order_after(task, access.author->clock);
    return true;
  });
}

void forget_touched(uint64_t base, uint64_t bytes) {
  if (!settings().strict) return;
  State& all = state();
  std::lock_guard lock(all.mutex);
  auto first = split(all.segments, base);
  auto last = split(all.segments, base + bytes);
  first = all.segments.lower_bound(base);
  all.segments.erase(first, last);
}

}  // namespace mgx::hip
