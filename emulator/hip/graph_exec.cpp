// Executable graphs: plans, launches, updates.
#include <algorithm>
#include <cstdio>

#include "capture.h"
#include "event.h"
#include "graph.h"
#include "launch.h"

using namespace mgx::hip;

namespace mgx::hip {
namespace {

// Appends the steps of a graph. `before`: what its first nodes wait for. Returns its last steps.
std::vector<uint32_t> append(const Graph& graph, const std::vector<uint32_t>& before, Plan& plan) {
  std::unordered_map<const GraphNode*, uint32_t> place;
  std::vector<uint32_t> last;
  for (GraphNode* node : graph.in_order()) {
    PlanStep step;
    step.node = node->handle;
    step.type = node->type;
    if (node->dependencies.empty()) step.dependencies = before;
    for (GraphNode* needed : node->dependencies) step.dependencies.push_back(place.at(needed));
    std::sort(step.dependencies.begin(), step.dependencies.end());
    if (const auto* child = std::get_if<GraphWork>(&node->work)) {
      // The child's steps, and one that stands for its end.
      std::vector<uint32_t> ends = append(*child->graph, step.dependencies, plan);
      if (!ends.empty()) step.dependencies = ends;
      step.work = EmptyWork{};
    } else {
      step.work = node->work;
    }
    place[node] = uint32_t(plan.steps.size());
    if (node->dependents.empty()) last.push_back(uint32_t(plan.steps.size()));
    plan.steps.push_back(std::move(step));
  }
  return last;
}

}  // namespace

Plan make_plan(const Graph& graph) {
  Plan plan;
  append(graph, {}, plan);
  return plan;
}

GraphPtr graph_of(const Plan& plan) {
  GraphPtr graph = new_graph();
  graph->owned_by_node = true;
  std::vector<GraphNode*> made;
  for (const PlanStep& step : plan.steps) {
    std::vector<GraphNode*> before;
    for (uint32_t index : step.dependencies) before.push_back(made[index]);
    bool empty = !step.enabled || step.type == hipGraphNodeTypeGraph;
    NodePtr node = empty ? graph->add(hipGraphNodeTypeEmpty, EmptyWork{}, before)
                         : graph->add(step.type, step.work, before);
    made.push_back(node.get());
  }
  return graph;
}

GraphExec::GraphExec(Device& device, Plan plan, unsigned long long flags)
    : device(device), flags(flags), plan_(std::make_shared<Plan>(std::move(plan))) {
  for (size_t i = 0; i < plan_->steps.size(); ++i) index_[plan_->steps[i].node] = uint32_t(i);
}

std::shared_ptr<const Plan> GraphExec::plan() const {
  std::lock_guard lock(mutex_);
  return plan_;
}

Plan& GraphExec::writable() {
  if (plan_.use_count() > 1) plan_ = std::make_shared<Plan>(*plan_);
  return *plan_;
}

void GraphExec::change(hipGraphNode_t node, const std::function<void(PlanStep&)>& edit) {
  std::lock_guard lock(mutex_);
  auto it = index_.find(node);
  require(it != index_.end(), hipErrorInvalidValue);
  edit(writable().steps[it->second]);
}

void GraphExec::replace(Plan plan) {
  std::lock_guard lock(mutex_);
  // The executable keeps answering to the nodes it was made from.
  for (size_t i = 0; i < plan.steps.size(); ++i) {
    plan.steps[i].node = plan_->steps[i].node;
    plan.steps[i].enabled = plan_->steps[i].enabled;
  }
  plan_ = std::make_shared<Plan>(std::move(plan));
}

void GraphExec::launch(Stream& stream) {
  std::shared_ptr<const Plan> current = plan();
  std::vector<Completed> events, after;
  for (const PlanStep& step : current->steps)
    if (const auto* wait = std::get_if<WaitWork>(&step.work))
      if (Completed recorded = wait->event->recorded()) events.push_back(std::move(recorded));
  std::lock_guard lock(launch_mutex_);
  if (last_run_) after.push_back(last_run_);
  last_run_ =
      stream.submit(PlanWork{std::move(current), std::move(events)}, nullptr, std::move(after));
}

const PlanStep& GraphExec::step(hipGraphNode_t node) const {
  std::lock_guard lock(mutex_);
  auto it = index_.find(node);
  require(it != index_.end(), hipErrorInvalidValue);
  return plan_->steps[it->second];
}

std::shared_ptr<GraphExec> find_executable(hipGraphExec_t handle) {
  auto exec = runtime().executables.find(handle);
  require(exec != nullptr, hipErrorInvalidValue);
  return exec;
}

}  // namespace mgx::hip

namespace {

constexpr unsigned long long kInstantiateFlags =
    hipGraphInstantiateFlagAutoFreeOnLaunch | hipGraphInstantiateFlagUpload |
    hipGraphInstantiateFlagDeviceLaunch | hipGraphInstantiateFlagUseNodePriority;

Device& device_of(const Plan& plan) {
  for (const PlanStep& step : plan.steps)
    if (const auto* kernel = std::get_if<KernelWork>(&step.work))
      return kernel->function->module->device;
  return current_device();
}

void instantiate(hipGraphExec_t* out, hipGraph_t handle, unsigned long long flags) {
  require(out != nullptr, hipErrorInvalidValue);
  require((flags & ~kInstantiateFlags) == 0, hipErrorInvalidValue);
  require(!(flags & hipGraphInstantiateFlagDeviceLaunch), hipErrorNotSupported);
  GraphLock lock(graph_mutex());
  Plan plan = make_plan(*find_graph(handle));
  Device& device = device_of(plan);
  for (const PlanStep& step : plan.steps)
    if (const auto* kernel = std::get_if<KernelWork>(&step.work))
      require(&kernel->function->module->device == &device, hipErrorNotSupported);
  auto exec = std::make_shared<GraphExec>(device, std::move(plan), flags);
  exec->handle = static_cast<hipGraphExec_t>(runtime().executables.add(exec));
  *out = exec->handle;
}

void launch(hipGraphExec_t handle, hipStream_t stream_handle) {
  auto exec = find_executable(handle);
  auto stream = find_stream(stream_handle);
  require(&exec->device == &stream->device, hipErrorInvalidValue);
  if (stream->capturing) {
    GraphLock lock(graph_mutex());
    if (capture_work(*stream, GraphWork{graph_of(*exec->plan())})) return;
  }
  refuse_implicit(*stream);
  exec->launch(*stream);
}

// Replaces the parameters of one step of the wanted type.
void set_step(hipGraphExec_t handle, hipGraphNode_t node, hipGraphNodeType type, Work work) {
  find_executable(handle)->change(node, [&](PlanStep& step) {
    require(step.type == type, hipErrorInvalidValue);
    step.work = std::move(work);
  });
}

bool same_shape(const CopyWork& a, const CopyWork& b) {
  return (a.height == 1 && a.depth == 1) == (b.height == 1 && b.depth == 1);
}

// CUDA documents the limits of a copy node's update: its kind and dimensionality stay.
void check_copy_change(const PlanStep& step, const CopyWork& copy) {
  const auto* old = std::get_if<CopyWork>(&step.work);
  require(old && same_shape(*old, copy), hipErrorInvalidValue);
}

hipGraphExecUpdateResult compare(const Plan& old, const Plan& now, uint32_t& at) {
  for (at = 0; at < now.steps.size(); ++at) {
    if (at >= old.steps.size()) return hipGraphExecUpdateErrorTopologyChanged;
    const PlanStep &a = old.steps[at], &b = now.steps[at];
    if (a.type != b.type) return hipGraphExecUpdateErrorNodeTypeChanged;
    if (a.dependencies != b.dependencies) return hipGraphExecUpdateErrorTopologyChanged;
    if (const auto* copy = std::get_if<CopyWork>(&b.work))
      if (!same_shape(std::get<CopyWork>(a.work), *copy))
        return hipGraphExecUpdateErrorParametersChanged;
    if (const auto* kernel = std::get_if<KernelWork>(&b.work)) {
      const auto& before = std::get<KernelWork>(a.work);
      if (&before.function->module->device != &kernel->function->module->device)
        return hipGraphExecUpdateErrorUnsupportedFunctionChange;
    }
  }
  return old.steps.size() == now.steps.size() ? hipGraphExecUpdateSuccess
                                              : hipGraphExecUpdateErrorTopologyChanged;
}

}  // namespace

MGX_EXPORT hipError_t hipGraphInstantiate(hipGraphExec_t* exec, hipGraph_t graph,
                                          hipGraphNode_t* error_node, char* log, size_t size) {
  MGX_API(kPlain, {
    if (error_node) *error_node = nullptr;
    if (log && size) log[0] = 0;
    try {
      instantiate(exec, graph, 0);
    } catch (const Failure& failure) {
      if (log && size) std::snprintf(log, size, "%s", error_text(failure.code));
      throw;
    }
  });
}

MGX_EXPORT hipError_t hipGraphInstantiateWithFlags(hipGraphExec_t* exec, hipGraph_t graph,
                                                   unsigned long long flags) {
  MGX_API(kPlain, { instantiate(exec, graph, flags); });
}

MGX_EXPORT hipError_t hipGraphInstantiateWithParams(hipGraphExec_t* exec, hipGraph_t graph,
                                                    hipGraphInstantiateParams* params) {
  MGX_API(kPlain, {
    require(params != nullptr, hipErrorInvalidValue);
    params->errNode_out = nullptr;
    params->result_out = hipGraphInstantiateError;
    instantiate(exec, graph, params->flags);
    params->result_out = hipGraphInstantiateSuccess;
  });
}

MGX_EXPORT hipError_t hipGraphExecDestroy(hipGraphExec_t exec) {
  MGX_API(kRelease,
          { require(runtime().executables.take(exec) != nullptr, hipErrorInvalidValue); });
}

MGX_EXPORT hipError_t hipGraphExecGetFlags(hipGraphExec_t exec, unsigned long long* flags) {
  MGX_API(kPlain, {
    require(flags != nullptr, hipErrorInvalidValue);
    *flags = find_executable(exec)->flags;
  });
}

MGX_EXPORT hipError_t hipGraphUpload(hipGraphExec_t exec, hipStream_t stream) {
  MGX_API(kPlain, {
    // The plan is where it runs already.
    find_executable(exec);
    find_stream(stream);
  });
}

MGX_EXPORT hipError_t hipGraphLaunch(hipGraphExec_t exec, hipStream_t stream) {
  MGX_API(kPlain, { launch(exec, stream); });
}

MGX_EXPORT hipError_t hipGraphExecUpdate(hipGraphExec_t handle, hipGraph_t graph,
                                         hipGraphNode_t* error_node,
                                         hipGraphExecUpdateResult* result) {
  MGX_API(kPlain, {
    require(result != nullptr, hipErrorInvalidValue);
    if (error_node) *error_node = nullptr;
    *result = hipGraphExecUpdateError;
    GraphLock lock(graph_mutex());
    auto exec = find_executable(handle);
    Plan plan = make_plan(*find_graph(graph));
    uint32_t at = 0;
    *result = compare(*exec->plan(), plan, at);
    if (*result != hipGraphExecUpdateSuccess) {
      if (error_node && at < plan.steps.size()) *error_node = plan.steps[at].node;
      fail(hipErrorGraphExecUpdateFailure);
    }
    exec->replace(std::move(plan));
  });
}

MGX_EXPORT hipError_t hipGraphExecKernelNodeSetParams(hipGraphExec_t handle, hipGraphNode_t node,
                                                      const hipKernelNodeParams* params) {
  MGX_API(kPlain, {
    require(params != nullptr, hipErrorInvalidValue);
    auto exec = find_executable(handle);
    KernelWork made = kernel_work(*params, exec->device);
    set_step(handle, node, hipGraphNodeTypeKernel, std::move(made));
  });
}

MGX_EXPORT hipError_t hipGraphExecMemcpyNodeSetParams(hipGraphExec_t handle, hipGraphNode_t node,
                                                      hipMemcpy3DParms* params) {
  MGX_API(kPlain, {
    require(params != nullptr, hipErrorInvalidValue);
    CopyWork copy = copy_3d(*params);
    check_copy(copy);
    find_executable(handle)->change(node, [&](PlanStep& step) {
      check_copy_change(step, copy);
      step.work = std::move(copy);
    });
  });
}

MGX_EXPORT hipError_t hipGraphExecMemcpyNodeSetParams1D(hipGraphExec_t handle, hipGraphNode_t node,
                                                        void* dst, const void* src, size_t bytes,
                                                        hipMemcpyKind kind) {
  MGX_API(kPlain, {
    require(dst && src && bytes, hipErrorInvalidValue);
    CopyWork copy = node_copy(dst, src, bytes, kind);
    find_executable(handle)->change(node, [&](PlanStep& step) {
      check_copy_change(step, copy);
      step.work = std::move(copy);
    });
  });
}

MGX_EXPORT hipError_t hipGraphExecMemsetNodeSetParams(hipGraphExec_t handle, hipGraphNode_t node,
                                                      const hipMemsetParams* params) {
  MGX_API(kPlain, {
    require(params && params->width && params->height, hipErrorInvalidValue);
    FillWork fill = fill_2d(*params);
    check_fill(fill);
    set_step(handle, node, hipGraphNodeTypeMemset, fill);
  });
}

MGX_EXPORT hipError_t hipGraphExecHostNodeSetParams(hipGraphExec_t handle, hipGraphNode_t node,
                                                    const hipHostNodeParams* params) {
  MGX_API(kPlain, { set_step(handle, node, hipGraphNodeTypeHost, host_work(params)); });
}

MGX_EXPORT hipError_t hipGraphExecEventRecordNodeSetEvent(hipGraphExec_t handle,
                                                          hipGraphNode_t node, hipEvent_t event) {
  MGX_API(kPlain,
          { set_step(handle, node, hipGraphNodeTypeEventRecord, RecordWork{find_event(event)}); });
}

MGX_EXPORT hipError_t hipGraphExecEventWaitNodeSetEvent(hipGraphExec_t handle, hipGraphNode_t node,
                                                        hipEvent_t event) {
  MGX_API(kPlain,
          { set_step(handle, node, hipGraphNodeTypeWaitEvent, WaitWork{find_event(event)}); });
}

MGX_EXPORT hipError_t hipGraphExecChildGraphNodeSetParams(hipGraphExec_t handle,
                                                          hipGraphNode_t node,
                                                          hipGraph_t child_handle) {
  MGX_API(kPlain, {
    GraphLock lock(graph_mutex());
    auto exec = find_executable(handle);
    NodePtr parent = find_node(node, hipGraphNodeTypeGraph);
    exec->step(node);
    GraphPtr mine = std::get<GraphWork>(parent->work).graph;
    Plan old = make_plan(*mine), now = make_plan(*find_graph(child_handle));
    uint32_t at = 0;
    require(compare(old, now, at) == hipGraphExecUpdateSuccess, hipErrorInvalidValue);
    for (size_t i = 0; i < now.steps.size(); ++i)
      exec->change(old.steps[i].node, [&](PlanStep& step) { step.work = now.steps[i].work; });
  });
}

MGX_EXPORT hipError_t hipGraphExecNodeSetParams(hipGraphExec_t handle, hipGraphNode_t node,
                                                hipGraphNodeParams* params) {
  MGX_API(kPlain, {
    require(params != nullptr, hipErrorInvalidValue);
    auto exec = find_executable(handle);
    set_step(handle, node, params->type, generic_work(*params, exec->device));
  });
}

MGX_EXPORT hipError_t hipGraphNodeSetEnabled(hipGraphExec_t handle, hipGraphNode_t node,
                                             unsigned int enabled) {
  MGX_API(kPlain, {
    find_executable(handle)->change(node, [&](PlanStep& step) {
      bool may = step.type == hipGraphNodeTypeKernel || step.type == hipGraphNodeTypeMemcpy ||
                 step.type == hipGraphNodeTypeMemset;
      require(may, hipErrorInvalidValue);
      step.enabled = enabled != 0;
    });
  });
}

MGX_EXPORT hipError_t hipGraphNodeGetEnabled(hipGraphExec_t handle, hipGraphNode_t node,
                                             unsigned int* enabled) {
  MGX_API(kPlain, {
    require(enabled != nullptr, hipErrorInvalidValue);
    *enabled = find_executable(handle)->step(node).enabled;
  });
}
