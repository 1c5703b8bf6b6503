// Graphs, their nodes, and executable graphs.
#pragma once

#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <unordered_map>
#include <vector>

#include "memory.h"
#include "module.h"
#include "runtime.h"
#include "stream.h"
#include "work.h"

namespace mgx::hip {

// One lock for the structure of all graphs and captures: they refer to each other, and
// building is not the path that has to be fast.
std::recursive_mutex& graph_mutex();
using GraphLock = std::lock_guard<std::recursive_mutex>;

struct GraphNode {
  hipGraphNode_t handle = nullptr;
  Graph* graph = nullptr;  // null once the node left it
  hipGraphNodeType type = hipGraphNodeTypeEmpty;
  Work work;
  std::vector<GraphNode*> dependencies, dependents;
  hipGraphNode_t original = nullptr;  // of a clone
  int priority = 0;
  std::vector<void*> argument_pointers;  // what hipGraphKernelNodeGetParams points to
};
using NodePtr = std::shared_ptr<GraphNode>;

struct UserObject {
  void* data = nullptr;
  hipHostFn_t destroy = nullptr;
  uint64_t references = 0;
};

class Graph : public std::enable_shared_from_this<Graph> {
 public:
  ~Graph();
  hipGraph_t handle = nullptr;
  hipGraph_t original = nullptr;  // of a clone
  bool owned_by_node = false;     // a child graph: not the caller's to destroy
  std::vector<NodePtr> nodes;     // in the order they were added
  std::map<hipUserObject_t, uint64_t> user_objects;

  NodePtr add(hipGraphNodeType type, Work work, const std::vector<GraphNode*>& dependencies);
  void remove(GraphNode& node);
  void connect(GraphNode& from, GraphNode& to);
  bool disconnect(GraphNode& from, GraphNode& to);
  std::shared_ptr<Graph> clone() const;
  // By dependencies, then by insertion. Throws hipErrorInvalidValue where there is a cycle.
  std::vector<GraphNode*> in_order() const;
  // Takes the handles of the graph, its nodes and its child graphs out of the registries.
  void retire();
};
using GraphPtr = std::shared_ptr<Graph>;

GraphPtr new_graph();
// Destroys the graphs that hold code or memory of a device that is reset.
void retire_graphs(Device& device);
GraphPtr find_graph(hipGraph_t handle);
NodePtr find_node(hipGraphNode_t handle);
NodePtr find_node(hipGraphNode_t handle, hipGraphNodeType type);
std::vector<GraphNode*> find_nodes(const Graph& graph, const hipGraphNode_t* nodes, size_t count);

// A step of an executable graph: child graphs are inlined, each node after those it needs.
struct PlanStep {
  hipGraphNode_t node = nullptr;
  hipGraphNodeType type = hipGraphNodeTypeEmpty;
  Work work;
  std::vector<uint32_t> dependencies;  // indices of steps
  bool enabled = true;
};
struct Plan {
  std::vector<PlanStep> steps;
};
Plan make_plan(const Graph& graph);
// The way back, for a launch that is captured: its steps as a child graph.
GraphPtr graph_of(const Plan& plan);

class GraphExec {
 public:
  GraphExec(Device& device, Plan plan, unsigned long long flags);
  Device& device;
  const unsigned long long flags;
  hipGraphExec_t handle = nullptr;

  std::shared_ptr<const Plan> plan() const;
  // Changes one step; a plan that a stream is running is copied first. Throws
  // hipErrorInvalidValue where the node is not in the graph.
  void change(hipGraphNode_t node, const std::function<void(PlanStep&)>& edit);
  void replace(Plan plan);
  // Runs of one executable take turns, and wait for the events its wait nodes name.
  void launch(Stream& stream);
  const PlanStep& step(hipGraphNode_t node) const;

 private:
  Plan& writable();
  mutable std::mutex mutex_;
  std::mutex launch_mutex_;
  Completed last_run_;
  std::shared_ptr<Plan> plan_;
  std::unordered_map<hipGraphNode_t, uint32_t> index_;
};
std::shared_ptr<GraphExec> find_executable(hipGraphExec_t handle);

// Parameters of nodes, checked; they throw.
KernelWork kernel_work(const hipKernelNodeParams& params, Device& device);
hipKernelNodeParams kernel_params(GraphNode& node);
CopyWork node_copy(void* dst, const void* src, size_t bytes, hipMemcpyKind kind);
hipMemcpy3DParms copy_params(const CopyWork& copy);
hipMemsetParams fill_params(const FillWork& fill);
HostWork host_work(const hipHostNodeParams* params);
Work generic_work(const hipGraphNodeParams& params, Device& device);
const char* node_type_name(hipGraphNodeType type);

}  // namespace mgx::hip
