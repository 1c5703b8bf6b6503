// Strict mode: accesses of two pieces of work to the same bytes that nothing orders.
//
// The order is the one that HIP promises, not the one that happened: work of a stream, events, the
// null stream's rules, edges of graphs, and what the host waited for before it submitted more.
// Work that follows each other in any case forms a chain: a stream, a path through a graph. A
// clock says of each chain how much of it came before.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "../engine/footprint.h"

namespace mgx::hip {

struct Plan;

using Clock = std::vector<uint32_t>;            // by chain: how many of its tasks came before
using ClockPtr = std::shared_ptr<const Clock>;  // null: nothing did

// A piece of work in the order of all.
struct Task {
  uint32_t chain = 0, number = 0;
  ClockPtr clock;     // includes the task
  std::string where;  // "stream 3", "node 2 of a graph in stream 3"
};

// The chains of one stream. One thread at a time.
class Timeline {
 public:
  explicit Timeline(uint64_t stream) : stream_(stream) {}
  ~Timeline();
  // The stream's next task, which comes after all of `before` and what the stream had so far.
  Task next(const std::vector<ClockPtr>& before);

 private:
  friend class GraphOrder;
  const uint64_t stream_;
  std::vector<uint32_t> chains_;  // the stream's, then those of paths through graphs
};

// The steps of one launch of a graph, in the order of its edges.
class GraphOrder {
 public:
  GraphOrder(Timeline& timeline, const Task& launch, const Plan& plan);
  // The task of a step, after those that it depends on; `finish` takes it back.
  Task begin(size_t step);
  void finish(size_t step, Task task) { tasks_[step] = std::move(task); }
  // Work after the whole launch knows all steps.
  ClockPtr end() const;

 private:
  Timeline& timeline_;
  const Plan& plan_;
  const ClockPtr launch_;
  std::vector<Task> tasks_;
  std::vector<bool> continued_;  // the step's chain has another step behind it
  size_t paths_ = 1;             // chains of the timeline in use
};

// A task that comes after `clock` too.
void order_after(Task& task, const ClockPtr& clock);

// Work that the host has waited for comes before all that is submitted later, by any thread: how
// threads of the host order each other cannot be seen here.
ClockPtr host_clock();
void host_knows(const ClockPtr& clock);
bool is_known_to_host(const ClockPtr& clock);

// Notes what a task touches; `what` names it. Returns the report of a race, "" if there is none.
std::string note_touched(const Task& task, const std::string& what,
                         const std::vector<emu::Touched>& touched);
// The task comes after those that wrote the bytes: it saw their value.
void order_after_writers(Task& task, const void* address, uint64_t bytes);
// Somebody else has the memory from now on, and nothing to do with those before. Until then,
// what still runs may touch what was freed.
void forget_touched(uint64_t base, uint64_t bytes);

}  // namespace mgx::hip
