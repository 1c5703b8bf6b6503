// hipGraphDebugDotPrint: a graph as Graphviz text.
#include <cinttypes>
#include <cstdio>

#include "event.h"
#include "graph.h"

using namespace mgx::hip;
namespace emu = mgx::emu;

namespace {

std::string format(const char* pattern, uint64_t a, uint64_t b = 0, uint64_t c = 0) {
  char text[160];
  std::snprintf(text, sizeof text, pattern, a, b, c);
  return text;
}

struct Describe {
  unsigned flags;
  bool wants(unsigned flag) const { return flags & (flag | hipGraphDebugDotFlagsVerbose); }

  std::string operator()(const KernelWork& work) const {
    const emu::Dispatch& d = work.dispatch;
    std::string text = "\\n" + d.kernel->name;
    if (!wants(hipGraphDebugDotFlagsKernelNodeParams)) return text;
    text += format("\\ngrid %" PRIu64 " %" PRIu64 " %" PRIu64, d.grid[0], d.grid[1], d.grid[2]);
    text += format("\\nblock %" PRIu64 " %" PRIu64 " %" PRIu64, d.block[0], d.block[1], d.block[2]);
    return text + format("\\nshared %" PRIu64, d.dynamic_lds);
  }
  std::string operator()(const CopyWork& work) const {
    if (!wants(hipGraphDebugDotFlagsMemcpyNodeParams)) return "";
    return format("\\n%#" PRIx64 " -> %#" PRIx64 "\\n%" PRIu64 " bytes a row", uint64_t(work.src),
                  uint64_t(work.dst), work.width);
  }
  std::string operator()(const FillWork& work) const {
    if (!wants(hipGraphDebugDotFlagsMemsetNodeParams)) return "";
    return format("\\n%#" PRIx64 "\\n%" PRIu64 " x %#" PRIx64, uint64_t(work.dst), work.width,
                  work.value);
  }
  std::string operator()(const HostWork& work) const {
    if (!wants(hipGraphDebugDotFlagsHostNodeParams)) return "";
    return format("\\nfn %#" PRIx64, reinterpret_cast<uint64_t>(work.fn));
  }
  std::string operator()(const RecordWork& work) const { return event(*work.event); }
  std::string operator()(const WaitWork& work) const { return event(*work.event); }
  template <class T>
  std::string operator()(const T&) const {
    return "";
  }
  std::string event(const Event& e) const {
    if (!wants(hipGraphDebugDotFlagsEventNodeParams)) return "";
    return format("\\nevent %#" PRIx64, reinterpret_cast<uint64_t>(e.handle));
  }
};

// Names are positions, so that equal graphs give equal text.
void print(std::FILE* file, const Graph& graph, unsigned flags, const std::string& prefix) {
  std::unordered_map<const GraphNode*, std::string> names;
  for (const NodePtr& node : graph.nodes) {
    std::string name = prefix + std::to_string(names.size());
    names[node.get()] = name;
    std::string label = node_type_name(node->type) + std::visit(Describe{flags}, node->work);
    if (flags & (hipGraphDebugDotFlagsHandles | hipGraphDebugDotFlagsVerbose))
      label += format("\\nhandle %#" PRIx64, reinterpret_cast<uint64_t>(node->handle));
    std::fprintf(file, "  \"%s\" [shape=box, label=\"%s\"];\n", name.c_str(), label.c_str());
    const auto* child = std::get_if<GraphWork>(&node->work);
    if (!child) continue;
    std::fprintf(file, "  subgraph \"cluster_%s\" {\n  label=\"%s\";\n", name.c_str(),
                 name.c_str());
    print(file, *child->graph, flags, name + "_");
    std::fprintf(file, "  }\n");
  }
  for (const NodePtr& node : graph.nodes)
    for (GraphNode* after : node->dependents)
      std::fprintf(file, "  \"%s\" -> \"%s\";\n", names[node.get()].c_str(), names[after].c_str());
}

}  // namespace

MGX_EXPORT hipError_t hipGraphDebugDotPrint(hipGraph_t handle, const char* path,
                                            unsigned int flags) {
  MGX_API(kPlain, {
    require(path != nullptr, hipErrorInvalidValue);
    GraphLock lock(graph_mutex());
    GraphPtr graph = find_graph(handle);
    std::FILE* file = std::fopen(path, "w");
    require(file != nullptr, hipErrorOperatingSystem);
    std::fprintf(file, "digraph graph_hip {\n");
    print(file, *graph, flags, "n");
    std::fprintf(file, "}\n");
    require(std::fclose(file) == 0, hipErrorOperatingSystem);
  });
}
