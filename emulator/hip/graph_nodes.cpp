// Nodes of graphs at the C ABI: adding them, reading and changing their parameters.
#include "event.h"
#include "graph.h"
#include "launch.h"

using namespace mgx::hip;

namespace mgx::hip {

KernelWork kernel_work(const hipKernelNodeParams& params, Device& device) {
  Launch launch;
  launch.function = find_function(params.func, device);
  launch.handle = params.func;
  launch.grid = params.gridDim;
  launch.block = params.blockDim;
  launch.dynamic_lds = params.sharedMemBytes;
  launch.params = params.kernelParams;
  launch.extra = params.extra;
  launch.bad_shape = hipErrorInvalidConfiguration;
  return prepare(launch);
}

hipKernelNodeParams kernel_params(GraphNode& node) {
  auto& work = std::get<KernelWork>(node.work);
  node.argument_pointers.clear();
  for (const emu::KernelArg& arg : work.dispatch.kernel->args)
    if (!arg.hidden()) node.argument_pointers.push_back(work.dispatch.kernarg.data() + arg.offset);
  hipKernelNodeParams params = {};
  params.func = work.handle;
  params.gridDim = {work.dispatch.grid[0], work.dispatch.grid[1], work.dispatch.grid[2]};
  params.blockDim = {work.dispatch.block[0], work.dispatch.block[1], work.dispatch.block[2]};
  params.sharedMemBytes = work.dispatch.dynamic_lds;
  params.kernelParams = node.argument_pointers.empty() ? nullptr : node.argument_pointers.data();
  return params;
}

CopyWork node_copy(void* dst, const void* src, size_t bytes, hipMemcpyKind kind) {
  CopyWork copy = linear_copy(dst, src, bytes, kind);
  check_copy(copy);
  return copy;
}

hipMemcpy3DParms copy_params(const CopyWork& copy) {
  hipMemcpy3DParms params = {};
  params.extent = {copy.width, copy.height, copy.depth};
  params.kind = copy.kind;
  params.dstPtr = {copy.dst, copy.dst_pitch, copy.width,
                   copy.dst_pitch ? std::max<size_t>(copy.dst_slice / copy.dst_pitch, 1) : 1};
  params.srcPtr = {const_cast<uint8_t*>(copy.src), copy.src_pitch, copy.width,
                   copy.src_pitch ? std::max<size_t>(copy.src_slice / copy.src_pitch, 1) : 1};
  return params;
}

hipMemsetParams fill_params(const FillWork& fill) {
  hipMemsetParams params = {};
  params.dst = fill.dst;
  params.elementSize = fill.element;
  params.height = fill.height;
  params.pitch = fill.pitch;
  params.value = fill.value;
  params.width = fill.width;
  return params;
}

HostWork host_work(const hipHostNodeParams* params) {
  require(params && params->fn, hipErrorInvalidValue);
  return {params->fn, params->userData};
}

}  // namespace mgx::hip

namespace {

CopyWork checked_copy(const hipMemcpy3DParms* params) {
  require(params != nullptr, hipErrorInvalidValue);
  CopyWork copy = copy_3d(*params);
  check_copy(copy);
  return copy;
}

FillWork checked_fill(const hipMemsetParams* params) {
  require(params && params->width && params->height, hipErrorInvalidValue);
  FillWork fill = fill_2d(*params);
  check_fill(fill);
  return fill;
}

KernelWork checked_kernel(const hipKernelNodeParams* params) {
  require(params && params->func, hipErrorInvalidValue);
  return kernel_work(*params, current_device());
}

AllocWork make_allocation(hipMemAllocNodeParams* params) {
  require(params && params->bytesize, hipErrorInvalidValue);
  require(params->poolProps.location.type == hipMemLocationTypeDevice, hipErrorInvalidValue);
  Device& device = runtime().device(params->poolProps.location.id);
  AllocWork work;
  work.allocation = own_by_graph(allocate_device(device, params->bytesize, hipDeviceMallocDefault));
  params->dptr = reinterpret_cast<void*>(work.allocation->base);
  work.params = *params;
  return work;
}

FreeWork make_free(void* pointer) {
  auto allocation = find_allocation(pointer);
  require(allocation && allocation->of_graph && allocation->base == uint64_t(pointer),
          hipErrorInvalidValue);
  return {allocation, true};
}

GraphWork make_child(hipGraph_t handle, const Graph& parent) {
  GraphPtr child = find_graph(handle);
  require(child.get() != &parent, hipErrorInvalidValue);
  GraphPtr owned = child->clone();
  owned->owned_by_node = true;
  return {owned};
}

// `make` is called with everything else checked, and may throw as well.
template <class Make>
void add_node(hipGraphNode_t* out, hipGraph_t handle, const hipGraphNode_t* dependencies,
              size_t count, hipGraphNodeType type, Make&& make) {
  require(out != nullptr, hipErrorInvalidValue);
  GraphLock lock(graph_mutex());
  GraphPtr graph = find_graph(handle);
  std::vector<GraphNode*> before = find_nodes(*graph, dependencies, count);
  *out = graph->add(type, make(*graph), before)->handle;
}

void set_node(hipGraphNode_t handle, hipGraphNodeType type, Work work) {
  find_node(handle, type)->work = std::move(work);
}

hipGraphNodeType type_of(const hipGraphNodeParams* params) {
  require(params != nullptr, hipErrorInvalidValue);
  return params->type;
}

Work any_work(hipGraphNodeParams& params, const Graph& graph) {
  switch (int(params.type)) {
    case hipGraphNodeTypeKernel: return checked_kernel(&params.kernel);
    case hipGraphNodeTypeMemcpy: return checked_copy(&params.memcpy.copyParams);
    case hipGraphNodeTypeMemset: return checked_fill(&params.memset);
    case hipGraphNodeTypeHost: return host_work(&params.host);
    case hipGraphNodeTypeGraph: return make_child(params.graph.graph, graph);
    case hipGraphNodeTypeEmpty: return EmptyWork{};
    case hipGraphNodeTypeWaitEvent: return WaitWork{find_event(params.eventWait.event)};
    case hipGraphNodeTypeEventRecord: return RecordWork{find_event(params.eventRecord.event)};
    case hipGraphNodeTypeMemAlloc: return make_allocation(&params.alloc);
    case hipGraphNodeTypeMemFree: return make_free(params.free.dptr);
    default: fail(hipErrorNotSupported);
  }
}

}  // namespace

namespace mgx::hip {

Work generic_work(const hipGraphNodeParams& params, Device& device) {
  switch (int(params.type)) {
    case hipGraphNodeTypeKernel: return kernel_work(params.kernel, device);
    case hipGraphNodeTypeMemcpy: return checked_copy(&params.memcpy.copyParams);
    case hipGraphNodeTypeMemset: return checked_fill(&params.memset);
    case hipGraphNodeTypeHost: return host_work(&params.host);
    case hipGraphNodeTypeEmpty: return EmptyWork{};
    case hipGraphNodeTypeWaitEvent: return WaitWork{find_event(params.eventWait.event)};
    case hipGraphNodeTypeEventRecord: return RecordWork{find_event(params.eventRecord.event)};
    default: fail(hipErrorNotSupported);
  }
}

}  // namespace mgx::hip

#define MGX_NODE_ARGS \
  hipGraphNode_t *out, hipGraph_t graph, const hipGraphNode_t *dependencies, size_t count

MGX_EXPORT hipError_t hipGraphAddNode(MGX_NODE_ARGS, hipGraphNodeParams* params) {
  MGX_API(kPlain, {
    add_node(out, graph, dependencies, count, type_of(params),
             [&](const Graph& owner) { return any_work(*params, owner); });
  });
}

MGX_EXPORT hipError_t hipGraphNodeSetParams(hipGraphNode_t node, hipGraphNodeParams* params) {
  MGX_API(kPlain, {
    GraphLock lock(graph_mutex());
    hipGraphNodeType type = type_of(params);
    NodePtr found = find_node(node, type);
    require(int(type) != hipGraphNodeTypeMemAlloc && int(type) != hipGraphNodeTypeMemFree,
            hipErrorNotSupported);
    found->work = any_work(*params, *found->graph);
  });
}

MGX_EXPORT hipError_t hipGraphAddKernelNode(MGX_NODE_ARGS, const hipKernelNodeParams* params) {
  MGX_API(kPlain, {
    add_node(out, graph, dependencies, count, hipGraphNodeTypeKernel,
             [&](const Graph&) -> Work { return checked_kernel(params); });
  });
}

MGX_EXPORT hipError_t hipGraphKernelNodeGetParams(hipGraphNode_t node,
                                                  hipKernelNodeParams* params) {
  MGX_API(kPlain, {
    require(params != nullptr, hipErrorInvalidValue);
    GraphLock lock(graph_mutex());
    *params = kernel_params(*find_node(node, hipGraphNodeTypeKernel));
  });
}

MGX_EXPORT hipError_t hipGraphKernelNodeSetParams(hipGraphNode_t node,
                                                  const hipKernelNodeParams* params) {
  MGX_API(kPlain, {
    GraphLock lock(graph_mutex());
    find_node(node, hipGraphNodeTypeKernel);
    set_node(node, hipGraphNodeTypeKernel, checked_kernel(params));
  });
}

MGX_EXPORT hipError_t hipGraphKernelNodeSetAttribute(hipGraphNode_t node, hipLaunchAttributeID id,
                                                     const hipLaunchAttributeValue* value) {
  MGX_API(kPlain, {
    require(value != nullptr, hipErrorInvalidValue);
    GraphLock lock(graph_mutex());
    NodePtr found = find_node(node, hipGraphNodeTypeKernel);
    auto& work = std::get<KernelWork>(found->work);
    if (id == hipLaunchAttributeCooperative) work.dispatch.cooperative = value->cooperative != 0;
    else if (id == hipLaunchAttributePriority) found->priority = value->priority;
    else require(id == hipLaunchAttributeAccessPolicyWindow, hipErrorInvalidValue);
  });
}

MGX_EXPORT hipError_t hipGraphKernelNodeGetAttribute(hipGraphNode_t node, hipLaunchAttributeID id,
                                                     hipLaunchAttributeValue* value) {
  MGX_API(kPlain, {
    require(value != nullptr, hipErrorInvalidValue);
    GraphLock lock(graph_mutex());
    NodePtr found = find_node(node, hipGraphNodeTypeKernel);
    if (id == hipLaunchAttributeCooperative)
      value->cooperative = std::get<KernelWork>(found->work).dispatch.cooperative;
    else if (id == hipLaunchAttributePriority) value->priority = found->priority;
    else fail(hipErrorInvalidValue);
  });
}

MGX_EXPORT hipError_t hipGraphKernelNodeCopyAttributes(hipGraphNode_t from, hipGraphNode_t to) {
  MGX_API(kPlain, {
    GraphLock lock(graph_mutex());
    NodePtr source = find_node(from, hipGraphNodeTypeKernel);
    NodePtr target = find_node(to, hipGraphNodeTypeKernel);
    target->priority = source->priority;
    std::get<KernelWork>(target->work).dispatch.cooperative =
        std::get<KernelWork>(source->work).dispatch.cooperative;
  });
}

MGX_EXPORT hipError_t hipGraphAddMemcpyNode(MGX_NODE_ARGS, const hipMemcpy3DParms* params) {
  MGX_API(kPlain, {
    add_node(out, graph, dependencies, count, hipGraphNodeTypeMemcpy,
             [&](const Graph&) -> Work { return checked_copy(params); });
  });
}

MGX_EXPORT hipError_t hipGraphMemcpyNodeGetParams(hipGraphNode_t node, hipMemcpy3DParms* params) {
  MGX_API(kPlain, {
    require(params != nullptr, hipErrorInvalidValue);
    GraphLock lock(graph_mutex());
    *params = copy_params(std::get<CopyWork>(find_node(node, hipGraphNodeTypeMemcpy)->work));
  });
}

MGX_EXPORT hipError_t hipGraphMemcpyNodeSetParams(hipGraphNode_t node,
                                                  const hipMemcpy3DParms* params) {
  MGX_API(kPlain, {
    GraphLock lock(graph_mutex());
    set_node(node, hipGraphNodeTypeMemcpy, checked_copy(params));
  });
}

MGX_EXPORT hipError_t hipGraphAddMemcpyNode1D(MGX_NODE_ARGS, void* dst, const void* src,
                                              size_t bytes, hipMemcpyKind kind) {
  MGX_API(kPlain, {
    require(dst && src && bytes, hipErrorInvalidValue);
    add_node(out, graph, dependencies, count, hipGraphNodeTypeMemcpy,
             [&](const Graph&) -> Work { return node_copy(dst, src, bytes, kind); });
  });
}

MGX_EXPORT hipError_t hipGraphMemcpyNodeSetParams1D(hipGraphNode_t node, void* dst, const void* src,
                                                    size_t bytes, hipMemcpyKind kind) {
  MGX_API(kPlain, {
    require(dst && src && bytes, hipErrorInvalidValue);
    GraphLock lock(graph_mutex());
    set_node(node, hipGraphNodeTypeMemcpy, node_copy(dst, src, bytes, kind));
  });
}

MGX_EXPORT hipError_t hipGraphAddMemsetNode(MGX_NODE_ARGS, const hipMemsetParams* params) {
  MGX_API(kPlain, {
    add_node(out, graph, dependencies, count, hipGraphNodeTypeMemset,
             [&](const Graph&) -> Work { return checked_fill(params); });
  });
}

MGX_EXPORT hipError_t hipGraphMemsetNodeGetParams(hipGraphNode_t node, hipMemsetParams* params) {
  MGX_API(kPlain, {
    require(params != nullptr, hipErrorInvalidValue);
    GraphLock lock(graph_mutex());
    *params = fill_params(std::get<FillWork>(find_node(node, hipGraphNodeTypeMemset)->work));
  });
}

MGX_EXPORT hipError_t hipGraphMemsetNodeSetParams(hipGraphNode_t node,
                                                  const hipMemsetParams* params) {
  MGX_API(kPlain, {
    GraphLock lock(graph_mutex());
    set_node(node, hipGraphNodeTypeMemset, checked_fill(params));
  });
}

MGX_EXPORT hipError_t hipGraphAddHostNode(MGX_NODE_ARGS, const hipHostNodeParams* params) {
  MGX_API(kPlain, {
    add_node(out, graph, dependencies, count, hipGraphNodeTypeHost,
             [&](const Graph&) -> Work { return host_work(params); });
  });
}

MGX_EXPORT hipError_t hipGraphHostNodeGetParams(hipGraphNode_t node, hipHostNodeParams* params) {
  MGX_API(kPlain, {
    require(params != nullptr, hipErrorInvalidValue);
    GraphLock lock(graph_mutex());
    const auto& work = std::get<HostWork>(find_node(node, hipGraphNodeTypeHost)->work);
    *params = {work.fn, work.data};
  });
}

MGX_EXPORT hipError_t hipGraphHostNodeSetParams(hipGraphNode_t node,
                                                const hipHostNodeParams* params) {
  MGX_API(kPlain, {
    GraphLock lock(graph_mutex());
    set_node(node, hipGraphNodeTypeHost, host_work(params));
  });
}

MGX_EXPORT hipError_t hipGraphAddEmptyNode(MGX_NODE_ARGS) {
  MGX_API(kPlain, {
    add_node(out, graph, dependencies, count, hipGraphNodeTypeEmpty,
             [](const Graph&) -> Work { return EmptyWork{}; });
  });
}

MGX_EXPORT hipError_t hipGraphAddChildGraphNode(MGX_NODE_ARGS, hipGraph_t child) {
  MGX_API(kPlain, {
    add_node(out, graph, dependencies, count, hipGraphNodeTypeGraph,
             [&](const Graph& owner) -> Work { return make_child(child, owner); });
  });
}

MGX_EXPORT hipError_t hipGraphChildGraphNodeGetGraph(hipGraphNode_t node, hipGraph_t* graph) {
  MGX_API(kPlain, {
    require(graph != nullptr, hipErrorInvalidValue);
    GraphLock lock(graph_mutex());
    *graph = std::get<GraphWork>(find_node(node, hipGraphNodeTypeGraph)->work).graph->handle;
  });
}

MGX_EXPORT hipError_t hipGraphAddEventRecordNode(MGX_NODE_ARGS, hipEvent_t event) {
  MGX_API(kPlain, {
    add_node(out, graph, dependencies, count, hipGraphNodeTypeEventRecord,
             [&](const Graph&) -> Work { return RecordWork{find_event(event)}; });
  });
}

MGX_EXPORT hipError_t hipGraphEventRecordNodeSetEvent(hipGraphNode_t node, hipEvent_t event) {
  MGX_API(kPlain, {
    GraphLock lock(graph_mutex());
    set_node(node, hipGraphNodeTypeEventRecord, RecordWork{find_event(event)});
  });
}

MGX_EXPORT hipError_t hipGraphAddEventWaitNode(MGX_NODE_ARGS, hipEvent_t event) {
  MGX_API(kPlain, {
    add_node(out, graph, dependencies, count, hipGraphNodeTypeWaitEvent,
             [&](const Graph&) -> Work { return WaitWork{find_event(event)}; });
  });
}

MGX_EXPORT hipError_t hipGraphEventWaitNodeSetEvent(hipGraphNode_t node, hipEvent_t event) {
  MGX_API(kPlain, {
    GraphLock lock(graph_mutex());
    set_node(node, hipGraphNodeTypeWaitEvent, WaitWork{find_event(event)});
  });
}

MGX_EXPORT hipError_t hipGraphEventRecordNodeGetEvent(hipGraphNode_t node, hipEvent_t* event) {
  MGX_API(kPlain, {
    require(event != nullptr, hipErrorInvalidValue);
    GraphLock lock(graph_mutex());
    *event = std::get<RecordWork>(find_node(node, hipGraphNodeTypeEventRecord)->work).event->handle;
  });
}

MGX_EXPORT hipError_t hipGraphEventWaitNodeGetEvent(hipGraphNode_t node, hipEvent_t* event) {
  MGX_API(kPlain, {
    require(event != nullptr, hipErrorInvalidValue);
    GraphLock lock(graph_mutex());
    *event = std::get<WaitWork>(find_node(node, hipGraphNodeTypeWaitEvent)->work).event->handle;
  });
}

MGX_EXPORT hipError_t hipGraphAddMemAllocNode(MGX_NODE_ARGS, hipMemAllocNodeParams* params) {
  MGX_API(kPlain, {
    add_node(out, graph, dependencies, count, hipGraphNodeTypeMemAlloc,
             [&](const Graph&) -> Work { return make_allocation(params); });
  });
}

MGX_EXPORT hipError_t hipGraphMemAllocNodeGetParams(hipGraphNode_t node,
                                                    hipMemAllocNodeParams* params) {
  MGX_API(kPlain, {
    require(params != nullptr, hipErrorInvalidValue);
    GraphLock lock(graph_mutex());
    *params = std::get<AllocWork>(find_node(node, hipGraphNodeTypeMemAlloc)->work).params;
  });
}

MGX_EXPORT hipError_t hipGraphAddMemFreeNode(MGX_NODE_ARGS, void* pointer) {
  MGX_API(kPlain, {
    add_node(out, graph, dependencies, count, hipGraphNodeTypeMemFree,
             [&](const Graph&) -> Work { return make_free(pointer); });
  });
}

MGX_EXPORT hipError_t hipGraphMemFreeNodeGetParams(hipGraphNode_t node, void* pointer) {
  MGX_API(kPlain, {
    require(pointer != nullptr, hipErrorInvalidValue);
    GraphLock lock(graph_mutex());
    const auto& work = std::get<FreeWork>(find_node(node, hipGraphNodeTypeMemFree)->work);
    *static_cast<void**>(pointer) = reinterpret_cast<void*>(work.allocation->base);
  });
}
