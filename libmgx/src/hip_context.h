//===- hip_context.h - the state of one run on a GPU
//--------------------------------------------------------===//
#pragma once

#include "hip_prepared.h"
#include "program.h"

namespace mgx {

// The steps of a section as one HIP graph, replayed with one call. It is built node by node, so no
// stream is left in a state that it could not be used in; addresses are parameters of its nodes.
struct HipGraph {
  HipGraph() = default;
  HipGraph(const HipGraph &) = delete;
  ~HipGraph();

  void *graph = nullptr, *executable = nullptr;
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
  uint64_t bytes() const;

  // The machine of run_parts.
  void section(const BoundPart &part);
  int64_t number(const Place &place, int64_t bytes);
  void row(const BoundPart &loop, int64_t trip);
  void trip() { patience.check(); }

private:
  // Points the context to the tensors, with copies of inputs of the host; whether one is there.
  bool begin(Tensors inputs, Tensors outputs);
  void copy_back(Tensors outputs);
  void point(int way, size_t tensor, uint64_t address);
  uint64_t staging_address(int way, size_t tensor);
  void submit(size_t first, size_t end);
  void time_step(size_t step);
  bool pays(const BoundPart &part) const;
  HipGraph *current_graph(const BoundPart &part);
  void build(HipGraph &graph, const BoundPart &part);
  void update(HipGraph &graph, const BoundPart &part);
  HipKernelNode node_of(const HipStep &step);
  void outdate(size_t step);

  const HipPrepared &prepared;
  bool graph_wanted;
  std::unique_ptr<DeviceMemory> memory, staging;
  std::vector<uint64_t> arguments;
  std::vector<void *> parameters; // HIP takes the address of each argument's value.
  std::vector<uint64_t> addresses[2];
  std::vector<const void *> known;  // The values of inputs on the host.
  std::vector<char> on_host;        // Of each output.
  std::map<const BoundPart *, HipGraph> graphs;
  std::vector<char> is_stale; // Of each step.
  Patience patience;
  void *own_stream = nullptr, *stream = nullptr;
  void *last = nullptr; // The event of the last run, where the host did not wait for it.
  bool running = false;
  void *decision = nullptr; // Pinned memory of the host for a count or a condition.
  void *events[2] = {};     // Of a profile.
  mgx_profile_function reporting = nullptr;
  void *user = nullptr;
};

} // namespace mgx
