// Graphs at the C ABI: creation, dependencies, queries, clones, user objects.
#include <algorithm>
#include <cstring>

#include "graph.h"

using namespace mgx::hip;

namespace {

// The way of all queries: null `out` asks for the number; a larger array is padded with null
// and the true number is returned.
template <class T>
void put_list(const std::vector<T>& found, T* out, size_t* count) {
  require(count != nullptr, hipErrorInvalidValue);
  if (out) {
    size_t room = *count;
    // hip-python 10 passes an uninitialised count here. A count that no array can
    // hold is refused before the array is written to.
    require(room <= UINT32_MAX, hipErrorInvalidValue);
    for (size_t i = 0; i < room; ++i) out[i] = i < found.size() ? found[i] : nullptr;
    *count = std::min(room, found.size());
    return;
  }
  *count = found.size();
}

std::vector<hipGraphNode_t> handles(const std::vector<GraphNode*>& nodes) {
  std::vector<hipGraphNode_t> found;
  for (GraphNode* node : nodes) found.push_back(node->handle);
  return found;
}

struct Edge {
  GraphNode *from, *to;
};

std::vector<Edge> find_edges(const Graph& graph, const hipGraphNode_t* from,
                             const hipGraphNode_t* to, size_t count) {
  require(count == 0 || (from && to), hipErrorInvalidValue);
  std::vector<Edge> edges;
  for (size_t i = 0; i < count; ++i) {
    NodePtr first = find_node(from[i]), second = find_node(to[i]);
    require(first->graph == &graph && second->graph == &graph && first != second,
            hipErrorInvalidValue);
    edges.push_back({first.get(), second.get()});
  }
  return edges;
}

std::shared_ptr<UserObject> find_object(hipUserObject_t handle) {
  auto object = runtime().user_objects.find(handle);
  require(object != nullptr, hipErrorInvalidValue);
  return object;
}

void drop_references(hipUserObject_t handle, UserObject& object, uint64_t count) {
  require(count && count <= object.references, hipErrorInvalidValue);
  object.references -= count;
  if (object.references) return;
  runtime().user_objects.take(handle);
  object.destroy(object.data);
}

}  // namespace

MGX_EXPORT hipError_t hipGraphCreate(hipGraph_t* graph, unsigned int flags) {
  MGX_API(kPlain, {
    require(graph && flags == 0, hipErrorInvalidValue);
    GraphLock lock(graph_mutex());
    *graph = new_graph()->handle;
  });
}

MGX_EXPORT hipError_t hipGraphDestroy(hipGraph_t handle) {
  MGX_API(kRelease, {
    GraphLock lock(graph_mutex());
    GraphPtr graph = find_graph(handle);
    require(!graph->owned_by_node, hipErrorInvalidValue);
    graph->retire();
  });
}

MGX_EXPORT hipError_t hipGraphClone(hipGraph_t* out, hipGraph_t original) {
  MGX_API(kPlain, {
    require(out != nullptr, hipErrorInvalidValue);
    GraphLock lock(graph_mutex());
    *out = find_graph(original)->clone()->handle;
  });
}

MGX_EXPORT hipError_t hipGraphNodeFindInClone(hipGraphNode_t* out, hipGraphNode_t original,
                                              hipGraph_t clone) {
  MGX_API(kPlain, {
    require(out != nullptr, hipErrorInvalidValue);
    GraphLock lock(graph_mutex());
    NodePtr node = find_node(original);
    GraphPtr graph = find_graph(clone);
    require(graph->original == node->graph->handle, hipErrorInvalidValue);
    *out = nullptr;
    for (const NodePtr& twin : graph->nodes)
      if (twin->original == original) *out = twin->handle;
    require(*out != nullptr, hipErrorInvalidValue);
  });
}

MGX_EXPORT hipError_t hipGraphAddDependencies(hipGraph_t handle, const hipGraphNode_t* from,
                                              const hipGraphNode_t* to, size_t count) {
  MGX_API(kPlain, {
    GraphLock lock(graph_mutex());
    GraphPtr graph = find_graph(handle);
    std::vector<Edge> edges = find_edges(*graph, from, to, count);
    for (const Edge& edge : edges) {
      auto& before = edge.to->dependencies;
      require(std::find(before.begin(), before.end(), edge.from) == before.end(),
              hipErrorInvalidValue);
    }
    for (const Edge& edge : edges) graph->connect(*edge.from, *edge.to);
  });
}

MGX_EXPORT hipError_t hipGraphRemoveDependencies(hipGraph_t handle, const hipGraphNode_t* from,
                                                 const hipGraphNode_t* to, size_t count) {
  MGX_API(kPlain, {
    GraphLock lock(graph_mutex());
    GraphPtr graph = find_graph(handle);
    for (const Edge& edge : find_edges(*graph, from, to, count))
      require(graph->disconnect(*edge.from, *edge.to), hipErrorInvalidValue);
  });
}

MGX_EXPORT hipError_t hipGraphGetNodes(hipGraph_t handle, hipGraphNode_t* nodes, size_t* count) {
  MGX_API(kPlain, {
    GraphLock lock(graph_mutex());
    std::vector<hipGraphNode_t> found;
    for (const NodePtr& node : find_graph(handle)->nodes) found.push_back(node->handle);
    put_list(found, nodes, count);
  });
}

MGX_EXPORT hipError_t hipGraphGetRootNodes(hipGraph_t handle, hipGraphNode_t* nodes,
                                           size_t* count) {
  MGX_API(kPlain, {
    GraphLock lock(graph_mutex());
    std::vector<hipGraphNode_t> found;
    for (const NodePtr& node : find_graph(handle)->nodes)
      if (node->dependencies.empty()) found.push_back(node->handle);
    put_list(found, nodes, count);
  });
}

MGX_EXPORT hipError_t hipGraphGetEdges(hipGraph_t handle, hipGraphNode_t* from, hipGraphNode_t* to,
                                       size_t* count) {
  MGX_API(kPlain, {
    require(count && !from == !to, hipErrorInvalidValue);
    GraphLock lock(graph_mutex());
    std::vector<hipGraphNode_t> starts, ends;
    for (const NodePtr& node : find_graph(handle)->nodes)
      for (GraphNode* after : node->dependents) {
        starts.push_back(node->handle);
        ends.push_back(after->handle);
      }
    size_t room = *count;
    put_list(starts, from, &room);
    put_list(ends, to, count);
  });
}

MGX_EXPORT hipError_t hipGraphNodeGetDependencies(hipGraphNode_t node, hipGraphNode_t* out,
                                                  size_t* count) {
  MGX_API(kPlain, {
    GraphLock lock(graph_mutex());
    put_list(handles(find_node(node)->dependencies), out, count);
  });
}

MGX_EXPORT hipError_t hipGraphNodeGetDependentNodes(hipGraphNode_t node, hipGraphNode_t* out,
                                                    size_t* count) {
  MGX_API(kPlain, {
    GraphLock lock(graph_mutex());
    put_list(handles(find_node(node)->dependents), out, count);
  });
}

MGX_EXPORT hipError_t hipGraphNodeGetType(hipGraphNode_t node, hipGraphNodeType* type) {
  MGX_API(kPlain, {
    require(type != nullptr, hipErrorInvalidValue);
    // Defined after an error too: hip-python makes an enumerator of it whatever the code is.
    *type = hipGraphNodeTypeEmpty;
    GraphLock lock(graph_mutex());
    *type = find_node(node)->type;
  });
}

MGX_EXPORT hipError_t hipGraphDestroyNode(hipGraphNode_t handle) {
  MGX_API(kRelease, {
    GraphLock lock(graph_mutex());
    NodePtr node = find_node(handle);
    node->graph->remove(*node);
  });
}

MGX_EXPORT hipError_t hipUserObjectCreate(hipUserObject_t* out, void* data, hipHostFn_t destroy,
                                          unsigned int references, unsigned int flags) {
  MGX_API(kPlain, {
    // hipUserObjectNoDestructorSync is required: the destructor runs on the releasing thread.
    require(out && data && destroy && references && flags == 1, hipErrorInvalidValue);
    GraphLock lock(graph_mutex());
    auto object = std::make_shared<UserObject>(UserObject{data, destroy, references});
    *out = static_cast<hipUserObject_t>(runtime().user_objects.add(object));
  });
}

MGX_EXPORT hipError_t hipUserObjectRelease(hipUserObject_t handle, unsigned int count) {
  MGX_API(kRelease, {
    GraphLock lock(graph_mutex());
    drop_references(handle, *find_object(handle), count);
  });
}

MGX_EXPORT hipError_t hipUserObjectRetain(hipUserObject_t handle, unsigned int count) {
  MGX_API(kPlain, {
    GraphLock lock(graph_mutex());
    require(count != 0, hipErrorInvalidValue);
    find_object(handle)->references += count;
  });
}

MGX_EXPORT hipError_t hipGraphRetainUserObject(hipGraph_t graph_handle, hipUserObject_t handle,
                                               unsigned int count, unsigned int flags) {
  MGX_API(kPlain, {
    GraphLock lock(graph_mutex());
    GraphPtr graph = find_graph(graph_handle);
    auto object = find_object(handle);
    require(count && flags <= 1, hipErrorInvalidValue);  // 1: the caller's references move
    require(flags == 0 || count <= object->references, hipErrorInvalidValue);
    if (flags == 0) object->references += count;
    graph->user_objects[handle] += count;
  });
}

MGX_EXPORT hipError_t hipGraphReleaseUserObject(hipGraph_t graph_handle, hipUserObject_t handle,
                                                unsigned int count) {
  MGX_API(kRelease, {
    GraphLock lock(graph_mutex());
    GraphPtr graph = find_graph(graph_handle);
    auto held = graph->user_objects.find(handle);
    require(held != graph->user_objects.end() && count && count <= held->second,
            hipErrorInvalidValue);
    held->second -= count;
    if (!held->second) graph->user_objects.erase(held);
    drop_references(handle, *find_object(handle), count);
  });
}

MGX_EXPORT hipError_t hipDeviceGetGraphMemAttribute(int ordinal, hipGraphMemAttributeType which,
                                                    void* value) {
  MGX_API(kPlain, {
    require(value != nullptr, hipErrorInvalidValue);
    require(which >= hipGraphMemAttrUsedMemCurrent && which <= hipGraphMemAttrReservedMemHigh,
            hipErrorInvalidValue);
    // Graphs keep what they allocate, so the present is the highest.
    uint64_t bytes = 0;
    for (const auto& allocation : allocations_of(runtime().device(ordinal)))
      if (allocation->of_graph) bytes += allocation->size;
    *static_cast<uint64_t*>(value) = bytes;
  });
}

MGX_EXPORT hipError_t hipDeviceGraphMemTrim(int ordinal) {
  MGX_API(kPlain, { runtime().device(ordinal); });
}
