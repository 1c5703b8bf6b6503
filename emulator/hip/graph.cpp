// The structure of graphs: nodes, edges, order, clones.
#include "graph.h"

#include <algorithm>
#include <queue>

namespace mgx::hip {
namespace {

void erase_one(std::vector<GraphNode*>& list, GraphNode* node) {
  auto it = std::find(list.begin(), list.end(), node);
  if (it != list.end()) list.erase(it);
}

bool contains(const std::vector<GraphNode*>& list, const GraphNode* node) {
  return std::find(list.begin(), list.end(), node) != list.end();
}

// A child graph belongs to its node: each node has its own.
Work copy_of(const Work& work) {
  const auto* child = std::get_if<GraphWork>(&work);
  if (!child) return work;
  GraphPtr cloned = child->graph->clone();
  cloned->owned_by_node = true;
  return GraphWork{cloned};
}

}  // namespace

std::recursive_mutex& graph_mutex() {
  static auto* mutex = new std::recursive_mutex;
  return *mutex;
}

GraphPtr new_graph() {
  auto graph = std::make_shared<Graph>();
  graph->handle = static_cast<hipGraph_t>(runtime().graphs.add(graph));
  return graph;
}

GraphPtr find_graph(hipGraph_t handle) {
  auto graph = runtime().graphs.find(handle);
  require(graph != nullptr, hipErrorInvalidValue);
  return graph;
}

NodePtr find_node(hipGraphNode_t handle) {
  auto node = runtime().nodes.find(handle);
  require(node && node->graph, hipErrorInvalidValue);
  return node;
}

NodePtr find_node(hipGraphNode_t handle, hipGraphNodeType type) {
  NodePtr node = find_node(handle);
  require(node->type == type, hipErrorInvalidValue);
  return node;
}

std::vector<GraphNode*> find_nodes(const Graph& graph, const hipGraphNode_t* nodes, size_t count) {
  require(nodes || count == 0, hipErrorInvalidValue);
  std::vector<GraphNode*> found;
  for (size_t i = 0; i < count; ++i) {
    NodePtr node = find_node(nodes[i]);
    require(node->graph == &graph, hipErrorInvalidValue);
    require(!contains(found, node.get()), hipErrorInvalidValue);
    found.push_back(node.get());
  }
  return found;
}

Graph::~Graph() {
  for (const NodePtr& node : nodes) node->graph = nullptr;
}

NodePtr Graph::add(hipGraphNodeType type, Work work, const std::vector<GraphNode*>& dependencies) {
  auto node = std::make_shared<GraphNode>();
  node->graph = this;
  node->type = type;
  node->work = std::move(work);
  node->handle = static_cast<hipGraphNode_t>(runtime().nodes.add(node));
  nodes.push_back(node);
  for (GraphNode* before : dependencies) connect(*before, *node);
  return node;
}

void Graph::remove(GraphNode& node) {
  for (GraphNode* before : node.dependencies) erase_one(before->dependents, &node);
  for (GraphNode* after : node.dependents) erase_one(after->dependencies, &node);
  runtime().nodes.take(node.handle);
  if (auto* child = std::get_if<GraphWork>(&node.work)) child->graph->retire();
  node.graph = nullptr;
  auto it = std::find_if(nodes.begin(), nodes.end(),
                         [&](const NodePtr& known) { return known.get() == &node; });
  if (it != nodes.end()) nodes.erase(it);
}

void Graph::connect(GraphNode& from, GraphNode& to) {
  if (contains(to.dependencies, &from)) return;
  to.dependencies.push_back(&from);
  from.dependents.push_back(&to);
}

bool Graph::disconnect(GraphNode& from, GraphNode& to) {
  if (!contains(to.dependencies, &from)) return false;
  erase_one(to.dependencies, &from);
  erase_one(from.dependents, &to);
  return true;
}

GraphPtr Graph::clone() const {
  GraphPtr copy = new_graph();
  copy->original = handle;
  copy->user_objects = user_objects;
  for (const auto& [object, count] : user_objects)
    if (auto known = runtime().user_objects.find(object)) known->references += count;
  std::unordered_map<const GraphNode*, GraphNode*> twin;
  for (const NodePtr& node : nodes) {
    NodePtr made = copy->add(node->type, copy_of(node->work), {});
    made->original = node->handle;
    made->priority = node->priority;
    twin[node.get()] = made.get();
  }
  for (const NodePtr& node : nodes)
    for (GraphNode* before : node->dependencies) copy->connect(*twin[before], *twin[node.get()]);
  return copy;
}

std::vector<GraphNode*> Graph::in_order() const {
  std::unordered_map<const GraphNode*, std::pair<size_t, size_t>> place;  // index, open edges
  std::priority_queue<size_t, std::vector<size_t>, std::greater<>> ready;
  for (size_t i = 0; i < nodes.size(); ++i) {
    place[nodes[i].get()] = {i, nodes[i]->dependencies.size()};
    if (nodes[i]->dependencies.empty()) ready.push(i);
  }
  std::vector<GraphNode*> order;
  order.reserve(nodes.size());
  while (!ready.empty()) {
    GraphNode* node = nodes[ready.top()].get();
    ready.pop();
    order.push_back(node);
    for (GraphNode* after : node->dependents) {
      auto& [index, open] = place[after];
      if (--open == 0) ready.push(index);
    }
  }
  require(order.size() == nodes.size(), hipErrorInvalidValue);
  return order;
}

void Graph::retire() {
  runtime().graphs.take(handle);
  for (const NodePtr& node : nodes) {
    runtime().nodes.take(node->handle);
    if (auto* child = std::get_if<GraphWork>(&node->work)) child->graph->retire();
  }
  for (const auto& [object, count] : user_objects) {
    auto known = runtime().user_objects.find(object);
    if (!known) continue;
    known->references -= std::min(known->references, count);
    if (known->references) continue;
    runtime().user_objects.take(object);
    known->destroy(known->data);
  }
  user_objects.clear();
}

namespace {

bool refers_to(const Graph& graph, const Device& device) {
  for (const NodePtr& node : graph.nodes) {
    const auto* kernel = std::get_if<KernelWork>(&node->work);
    if (kernel && &kernel->function->module->device == &device) return true;
    const auto* memory = std::get_if<AllocWork>(&node->work);
    if (memory && memory->allocation->device == &device) return true;
    const auto* child = std::get_if<GraphWork>(&node->work);
    if (child && refers_to(*child->graph, device)) return true;
  }
  return false;
}

}  // namespace

void retire_graphs(Device& device) {
  GraphLock lock(graph_mutex());
  for (const GraphPtr& graph : runtime().graphs.all())
    if (!graph->owned_by_node && refers_to(*graph, device)) graph->retire();
}

const char* node_type_name(hipGraphNodeType type) {
  switch (int(type)) {
    case hipGraphNodeTypeKernel: return "KERNEL";
    case hipGraphNodeTypeMemcpy: return "MEMCPY";
    case hipGraphNodeTypeMemset: return "MEMSET";
    case hipGraphNodeTypeHost: return "HOST";
    case hipGraphNodeTypeGraph: return "GRAPH";
    case hipGraphNodeTypeEmpty: return "EMPTY";
    case hipGraphNodeTypeWaitEvent: return "WAIT_EVENT";
    case hipGraphNodeTypeEventRecord: return "EVENT_RECORD";
    case hipGraphNodeTypeMemAlloc: return "MEM_ALLOC";
    case hipGraphNodeTypeMemFree: return "MEM_FREE";
    default: return "UNKNOWN";
  }
}

}  // namespace mgx::hip
