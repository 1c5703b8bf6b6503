//===- hip_graph.cpp - the sections of a program as HIP graphs
//------------------------------------------------===//
#include "hip_context.h"

namespace mgx {

namespace {
// A copy that fills a row has another target at each trip: to change its node takes the host as
// long as this many launches (measured on the emulated device, whose calls cost next to nothing).
constexpr size_t row_launches = 4;
} // namespace

// Whether a graph takes less time of the host than the section's launches.
bool HipContext::pays(const BoundPart &part) const {
  size_t rows = 0;
  for (const auto &[step, whole] : prepared.wholes)
    rows += part.first <= step && step < part.end;
  for (size_t step = part.first; step < part.end; ++step)
    if (prepared.steps[step].bound->resident())
      return false; // A node of a graph is no promise that all of its work-groups run at a time.
  return part.end - part.first > 1 + row_launches * rows;
}

void HipContext::outdate(size_t step) {
  if (is_stale[step])
    return;
  for (auto &[part, graph] : graphs)
    if (part->first <= step && step < part->end) {
      graph.stale.push_back(step);
      is_stale[step] = 1;
    }
}

// The section's graph, built or brought up to date; nullptr where that fails.
HipGraph *HipContext::current_graph(const BoundPart &part) {
  try {
    auto [found, made] = graphs.try_emplace(&part);
    if (made)
      build(found->second, part);
    else if (!found->second.stale.empty())
      update(found->second, part);
    return &found->second;
  } catch (const Error &error) {
    graphs.clear();
    graph_wanted = false;
    say(MGX_LEVEL_WARNING, cat("no HIP graph, kernels are launched one by one: ", error.text));
    return nullptr;
  }
}

HipKernelNode HipContext::node_of(const HipStep &step) {
  return {step.block, nullptr, step.function, step.grid, parameters.data() + step.first, 0};
}

void HipContext::build(HipGraph &graph, const BoundPart &part) {
  HIP(hipGraphCreate, graph.graph.made(), 0);
  graph.stale.reserve(part.end - part.first); // So that runs allocate nothing.
  auto planned = prepared.schedules.find(part.first);
  std::vector<void *> waits; // The nodes before a node: the last one, or those of the schedule.
  for (size_t number = part.first; number < part.end; ++number) {
    const HipStep &step = prepared.steps[number];
    if (planned != prepared.schedules.end()) {
      waits.clear();
      for (size_t other : planned->second.before[number - part.first])
        waits.push_back(graph.nodes[other]);
    } else if (!graph.nodes.empty()) {
      waits = {graph.nodes.back()};
    }
    void *node = nullptr, *const *before = waits.empty() ? nullptr : waits.data();
    size_t count = waits.size();
    if (step.function) {
      HipKernelNode facts = node_of(step);
      step.check(hip().hipGraphAddKernelNode(&node, graph.graph.get(), before, count, &facts),
                 "hipGraphAddKernelNode");
    } else {
      step.check(hip().hipGraphAddMemcpyNode1D(&node, graph.graph.get(), before, count,
                                               reinterpret_cast<void *>(arguments[step.first + 1]),
                                               reinterpret_cast<void *>(arguments[step.first]),
                                               step.bytes, hip_device_to_device),
                 "hipGraphAddMemcpyNode1D");
    }
    graph.nodes.push_back(node);
    is_stale[number] = 0;
  }
  HIP(hipGraphInstantiateWithFlags, graph.executable.made(), graph.graph.get(), 0);
}

// Gives the stale nodes their new arguments; runs under way keep the old ones.
void HipContext::update(HipGraph &graph, const BoundPart &part) {
  for (size_t number : graph.stale) {
    const HipStep &step = prepared.steps[number];
    void *node = graph.nodes[number - part.first];
    is_stale[number] = 0;
    if (step.function) {
      HipKernelNode facts = node_of(step);
      step.check(hip().hipGraphExecKernelNodeSetParams(graph.executable.get(), node, &facts),
                 "hipGraphExecKernelNodeSetParams");
    } else {
      step.check(
          hip().hipGraphExecMemcpyNodeSetParams1D(
              graph.executable.get(), node, reinterpret_cast<void *>(arguments[step.first + 1]),
              reinterpret_cast<void *>(arguments[step.first]), step.bytes, hip_device_to_device),
          "hipGraphExecMemcpyNodeSetParams1D");
    }
  }
  graph.stale.clear();
}

} // namespace mgx
