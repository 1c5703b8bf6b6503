//===- hip_context.h - the state of one run on a GPU
//--------------------------------------------------------===//
#pragma once

#include "hip_prepared.h"
#include "program.h"

#include <deque>

namespace mgx {

// The steps of a section as one HIP graph, replayed with one call. It is built node by node, so no
// stream is left in a state that it could not be used in; addresses are parameters of its nodes.
struct HipGraph {
  HipOwned<&HipLibrary::hipGraphDestroy> graph;
  HipOwned<&HipLibrary::hipGraphExecDestroy> executable;
  std::vector<void *> nodes;
  std::vector<size_t> stale; // Steps whose arguments changed since the last update.
};

// A stream, an arena, arguments and graphs. One run at a time uses it; runs may follow each other
// on different streams without a wait on the host, by the event that the one before left.
class HipContext {
public:
  // Allocates everything of a fixed size. The device is current.
  HipContext(const HipPrepared &prepared, bool graph);
  ~HipContext();
  HipContext(const HipContext &) = delete;

  void run(Tensors inputs, Tensors outputs, const mgx_run_options &options);
  void profile(Tensors inputs, Tensors outputs, mgx_profile_function function, void *user);

  // The parts of a run. `begin` points the context to the tensors, and gives the stream the copies
  // of inputs of the host; it tells whether a tensor lies there.
  bool begin(Tensors inputs, Tensors outputs, const mgx_run_options &options);
  // Whether the run that has begun waits for a decision of the device.
  bool decides() const;
  // Gives the stream the rest. `mark`: an event follows it, for a stream of the caller.
  void enqueue(Tensors outputs, bool mark);
  bool done() const;
  void wait();

  // The machine of run_parts.
  void section(const BoundPart &part);
  int64_t number(const Place &place, int64_t bytes);
  void row(const BoundPart &loop, int64_t trip);
  void trip() { patience.check(); }

private:
  void copy_back(Tensors outputs);
  void point(int way, size_t tensor, uint64_t address);
  uint64_t staging_address(int way, size_t tensor);
  void submit(size_t number, void *on);
  // Gives the steps to several streams, which the run's stream waits for.
  void submit_parallel(const BoundPart &part, const StreamSchedule &plan);
  void time_step(size_t step);
  // Reports the steps that were timed; the stream is idle.
  void report();
  bool pays(const BoundPart &part) const;
  HipGraph *current_graph(const BoundPart &part);
  void build(HipGraph &graph, const BoundPart &part);
  void update(HipGraph &graph, const BoundPart &part);
  HipKernelNode node_of(const HipStep &step);
  void outdate(size_t step);

  const HipPrepared &prepared;
  bool graph_wanted; // Until one fails.
  std::unique_ptr<DeviceMemory> memory, staging;
  std::vector<uint64_t> arguments;
  std::vector<void *> parameters; // HIP takes the address of each argument's value.
  std::vector<uint64_t> addresses[2];
  std::vector<const void *> known; // The values of inputs on the host.
  std::vector<char> on_host; // Of each output.
  std::map<const BoundPart *, HipGraph> graphs;
  std::vector<char> is_stale; // Of each step.
  Patience patience;
  HipStream own_stream;
  void *stream = nullptr; // Of the run.
  HipEvent last; // The end of the last run, where the host did not wait for it.
  bool running = false;
  bool graphs_now = false;
  HipOwned<&HipLibrary::hipHostFree> decision; // Pinned memory for a count or a condition.
  // The streams beside the run's own, events between them, and the events of steps.
  std::deque<HipStream> lanes;
  std::deque<HipEvent> events;
  std::vector<void *> recorded;
  // Of a profile: the steps since the last report, with events before and after each.
  std::deque<HipEvent> timings;
  std::vector<size_t> timed;
  mgx_profile_function reporting = nullptr;
  void *user = nullptr;
};

} // namespace mgx
