// The rules of stream capture.
#include "capture.h"

#include <algorithm>
#include <unordered_set>

#include "event.h"
#include "graph.h"
#include "stream.h"

namespace mgx::hip {
namespace {

// Captures that have begun and not ended: under graph_mutex(), the count is for fast paths.
std::atomic<int> open_captures{0};
std::vector<std::shared_ptr<Capture>>& captures() {
  static auto* list = new std::vector<std::shared_ptr<Capture>>;
  return *list;
}
uint64_t next_capture_id = 1;

void invalidate(Capture& capture) { capture.status = hipStreamCaptureStatusInvalidated; }

// The capture is over: its streams work normally again.
void release_streams(const std::shared_ptr<Capture>& capture) {
  for (auto& member : capture->streams) {
    auto stream = member.lock();
    if (!stream || stream->capture != capture) continue;
    stream->capture = nullptr;
    stream->capture_tail.clear();
    stream->capturing = false;
  }
  auto& all = captures();
  all.erase(std::remove(all.begin(), all.end(), capture), all.end());
  open_captures = int(all.size());
}

void join(Stream& stream, const std::shared_ptr<Capture>& capture, std::vector<NodePtr> tail) {
  stream.capture = capture;
  stream.capture_tail = std::move(tail);
  stream.capturing = true;
  capture->streams.push_back(stream.weak_from_this());
}

void merge(std::vector<NodePtr>& tail, const std::vector<NodePtr>& more) {
  for (const NodePtr& node : more)
    if (std::find(tail.begin(), tail.end(), node) == tail.end()) tail.push_back(node);
}

void add_to_capture(Stream& stream, hipGraphNodeType type, Work work) {
  std::vector<GraphNode*> before;
  for (const NodePtr& node : stream.capture_tail)
    if (node->graph == stream.capture->graph.get()) before.push_back(node.get());
  stream.capture_tail = {stream.capture->graph->add(type, std::move(work), before)};
}

void check_active(Stream& stream) {
  require(stream.capture->status == hipStreamCaptureStatusActive, hipErrorStreamCaptureInvalidated);
}

struct NodeType {
  int operator()(const KernelWork&) { return hipGraphNodeTypeKernel; }
  int operator()(const CopyWork&) { return hipGraphNodeTypeMemcpy; }
  int operator()(const FillWork&) { return hipGraphNodeTypeMemset; }
  int operator()(const HostWork&) { return hipGraphNodeTypeHost; }
  int operator()(const EmptyWork&) { return hipGraphNodeTypeEmpty; }
  int operator()(const GraphWork&) { return hipGraphNodeTypeGraph; }
  int operator()(const AllocWork&) { return hipGraphNodeTypeMemAlloc; }
  int operator()(const FreeWork&) { return hipGraphNodeTypeMemFree; }
  template <class T>
  int operator()(const T&) {
    return -1;
  }
};

std::unordered_set<const GraphNode*> ancestors(const std::vector<NodePtr>& from) {
  std::unordered_set<const GraphNode*> found;
  std::vector<const GraphNode*> open;
  for (const NodePtr& node : from) open.push_back(node.get());
  while (!open.empty()) {
    const GraphNode* node = open.back();
    open.pop_back();
    if (!found.insert(node).second) continue;
    for (GraphNode* before : node->dependencies) open.push_back(before);
  }
  return found;
}

bool all_joined(const Capture& capture, const Stream& origin) {
  auto reached = ancestors(origin.capture_tail);
  for (const auto& member : capture.streams) {
    auto stream = member.lock();
    if (!stream || stream.get() == &origin || stream->capture.get() != &capture) continue;
    for (const NodePtr& node : stream->capture_tail)
      if (!reached.count(node.get())) return false;
  }
  return true;
}

void begin(hipStream_t handle, hipStreamCaptureMode mode, GraphPtr into,
           std::vector<NodePtr> tail) {
  auto stream = find_stream(handle);
  require(mode >= hipStreamCaptureModeGlobal && mode <= hipStreamCaptureModeRelaxed,
          hipErrorInvalidValue);
  require(!stream->is_null(), hipErrorStreamCaptureUnsupported);
  stream->device.check_fault();
  require(!stream->capture, hipErrorIllegalState);
  auto capture = std::make_shared<Capture>();
  capture->id = next_capture_id++;
  capture->mode = mode;
  capture->callers_graph = into != nullptr;
  capture->graph = into ? std::move(into) : new_graph();
  capture->origin = stream;
  capture->thread = std::this_thread::get_id();
  join(*stream, capture, std::move(tail));
  captures().push_back(capture);
  open_captures = int(captures().size());
}

hipError_t end(hipStream_t handle, hipGraph_t* out) {
  require(out != nullptr, hipErrorInvalidValue);
  *out = nullptr;
  auto stream = find_stream(handle);
  std::shared_ptr<Capture> capture = stream->capture;
  require(capture != nullptr, hipErrorIllegalState);
  require(
      capture->mode == hipStreamCaptureModeRelaxed || capture->thread == std::this_thread::get_id(),
      hipErrorStreamCaptureWrongThread);
  hipError_t code = hipSuccess;
  if (capture->origin.lock() != stream) {
    invalidate(*capture);
    return hipErrorStreamCaptureUnmatched;
  }
  if (capture->status != hipStreamCaptureStatusActive) code = hipErrorStreamCaptureInvalidated;
  else if (!all_joined(*capture, *stream)) code = hipErrorStreamCaptureUnjoined;
  capture->status = hipStreamCaptureStatusNone;
  release_streams(capture);
  if (code == hipSuccess) *out = capture->graph->handle;
  else if (!capture->callers_graph) capture->graph->retire();
  return code;
}

void get_info(hipStream_t handle, hipStreamCaptureStatus* status, unsigned long long* id,
              hipGraph_t* graph, const hipGraphNode_t** dependencies, size_t* count) {
  require(status != nullptr, hipErrorInvalidValue);
  *status = hipStreamCaptureStatusNone;
  auto stream = find_stream(handle);
  refuse_implicit(*stream);
  // The list is read after the call returned, and belongs to the calling thread.
  thread_local std::vector<hipGraphNode_t> list;
  list.clear();
  const Capture* capture = stream->capture.get();
  if (capture) *status = capture->status;
  bool active = capture && capture->status == hipStreamCaptureStatusActive;
  if (active)
    for (const NodePtr& node : stream->capture_tail) list.push_back(node->handle);
  if (id) *id = active ? capture->id : 0;
  if (graph) *graph = active ? capture->graph->handle : nullptr;
  if (dependencies) *dependencies = list.empty() ? nullptr : list.data();
  if (count) *count = list.size();
}

}  // namespace

void refuse_in_capture() {
  if (open_captures.load() == 0) return;
  hipStreamCaptureMode mine = thread_state().capture_mode;
  if (mine == hipStreamCaptureModeRelaxed) return;
  GraphLock lock(graph_mutex());
  bool refused = false;
  for (const auto& capture : captures()) {
    if (capture->mode == hipStreamCaptureModeRelaxed) continue;
    bool own = capture->thread == std::this_thread::get_id();
    bool concerns =
        own || (mine == hipStreamCaptureModeGlobal && capture->mode == hipStreamCaptureModeGlobal);
    if (!concerns) continue;
    invalidate(*capture);
    refused = true;
  }
  require(!refused, hipErrorStreamCaptureUnsupported);
}

void refuse_capturing(Stream& stream) {
  GraphLock lock(graph_mutex());
  if (!stream.capture) return;
  bool was_active = stream.capture->status == hipStreamCaptureStatusActive;
  invalidate(*stream.capture);
  fail(was_active ? hipErrorStreamCaptureUnsupported : hipErrorStreamCaptureInvalidated);
}

void refuse_implicit(Stream& stream) {
  if (open_captures.load() == 0 || !stream.is_null()) return;
  GraphLock lock(graph_mutex());
  bool refused = false;
  for (const auto& capture : captures())
    for (const auto& member : capture->streams) {
      auto other = member.lock();
      if (!other || other->capture != capture || other->non_blocking() ||
          &other->device != &stream.device)
        continue;
      invalidate(*capture);
      refused = true;
    }
  require(!refused, hipErrorStreamCaptureImplicit);
}

bool capture_work(Stream& stream, const Work& work) {
  if (!stream.capturing.load()) {
    refuse_implicit(stream);
    return false;
  }
  GraphLock lock(graph_mutex());
  if (!stream.capture) return false;
  check_active(stream);
  int type = std::visit(NodeType{}, work);
  if (type < 0) {
    invalidate(*stream.capture);
    fail(hipErrorStreamCaptureUnsupported);
  }
  add_to_capture(stream, hipGraphNodeType(type), work);
  return true;
}

bool capture_record(Stream& stream, const std::shared_ptr<Event>& event, bool external) {
  if (!stream.capturing.load()) return false;
  GraphLock lock(graph_mutex());
  if (!stream.capture) return false;
  check_active(stream);
  if (external) {
    add_to_capture(stream, hipGraphNodeTypeEventRecord, RecordWork{event});
    return true;
  }
  event->capture = stream.capture;
  event->capture_tail = stream.capture_tail;
  event->mark_captured();
  return true;
}

bool capture_wait(Stream& stream, const std::shared_ptr<Event>& event, bool external) {
  bool captured = event->was_captured();
  if (!captured && !stream.capturing.load()) return false;
  GraphLock lock(graph_mutex());
  if (stream.capture && external) {
    check_active(stream);
    add_to_capture(stream, hipGraphNodeTypeWaitEvent, WaitWork{event});
    return true;
  }
  if (!captured) {
    if (!stream.capture) return false;
    check_active(stream);
    if (!event->recorded()) return true;  // waiting for nothing
    invalidate(*stream.capture);
    fail(hipErrorStreamCaptureIsolation);
  }
  auto capture = event->capture.lock();
  require(capture && capture->status != hipStreamCaptureStatusNone, hipErrorCapturedEvent);
  require(capture->status == hipStreamCaptureStatusActive, hipErrorStreamCaptureInvalidated);
  if (!stream.capture) {
    if (stream.is_null()) {
      invalidate(*capture);
      fail(hipErrorStreamCaptureImplicit);
    }
    join(stream, capture, event->capture_tail);
    return true;
  }
  check_active(stream);
  if (stream.capture != capture) {
    invalidate(*stream.capture);
    invalidate(*capture);
    fail(hipErrorStreamCaptureMerge);
  }
  merge(stream.capture_tail, event->capture_tail);
  return true;
}

void refuse_captured(Event& event) {
  if (!event.was_captured()) return;
  GraphLock lock(graph_mutex());
  if (auto capture = event.capture.lock())
    if (capture->status == hipStreamCaptureStatusActive) invalidate(*capture);
  fail(hipErrorCapturedEvent);
}

void abandon_capture(Stream& stream) {
  if (!stream.capturing.load()) return;
  GraphLock lock(graph_mutex());
  std::shared_ptr<Capture> capture = stream.capture;
  if (!capture) return;
  invalidate(*capture);
  // Only the origin could have ended it.
  if (capture->origin.lock().get() != &stream) return;
  release_streams(capture);
  if (!capture->callers_graph) capture->graph->retire();
}

}  // namespace mgx::hip

using namespace mgx::hip;

MGX_EXPORT hipError_t hipStreamBeginCapture(hipStream_t stream, hipStreamCaptureMode mode) {
  MGX_API(kPlain, {
    GraphLock lock(graph_mutex());
    begin(stream, mode, nullptr, {});
  });
}

MGX_EXPORT hipError_t hipStreamBeginCaptureToGraph(hipStream_t stream, hipGraph_t handle,
                                                   const hipGraphNode_t* dependencies,
                                                   const hipGraphEdgeData* data, size_t count,
                                                   hipStreamCaptureMode mode) {
  MGX_API(kPlain, {
    require(data == nullptr, hipErrorNotSupported);
    GraphLock lock(graph_mutex());
    GraphPtr graph = find_graph(handle);
    std::vector<NodePtr> tail;
    for (GraphNode* node : find_nodes(*graph, dependencies, count))
      tail.push_back(find_node(node->handle));
    begin(stream, mode, graph, std::move(tail));
  });
}

MGX_EXPORT hipError_t hipStreamEndCapture(hipStream_t stream, hipGraph_t* graph) {
  MGX_API(kPlain, {
    GraphLock lock(graph_mutex());
    return end(stream, graph);
  });
}

MGX_EXPORT hipError_t hipStreamIsCapturing(hipStream_t handle, hipStreamCaptureStatus* status) {
  MGX_API(kPlain, {
    require(status != nullptr, hipErrorInvalidValue);
    *status = hipStreamCaptureStatusNone;
    GraphLock lock(graph_mutex());
    auto stream = find_stream(handle);
    refuse_implicit(*stream);
    *status = stream->capture ? stream->capture->status : hipStreamCaptureStatusNone;
  });
}

MGX_EXPORT hipError_t hipStreamGetCaptureInfo(hipStream_t stream, hipStreamCaptureStatus* status,
                                              unsigned long long* id) {
  MGX_API(kPlain, {
    GraphLock lock(graph_mutex());
    get_info(stream, status, id, nullptr, nullptr, nullptr);
  });
}

MGX_EXPORT hipError_t hipStreamGetCaptureInfo_v2(hipStream_t stream, hipStreamCaptureStatus* status,
                                                 unsigned long long* id, hipGraph_t* graph,
                                                 const hipGraphNode_t** dependencies,
                                                 size_t* count) {
  MGX_API(kPlain, {
    GraphLock lock(graph_mutex());
    get_info(stream, status, id, graph, dependencies, count);
  });
}

MGX_EXPORT hipError_t hipStreamUpdateCaptureDependencies(hipStream_t handle,
                                                         hipGraphNode_t* dependencies, size_t count,
                                                         unsigned int flags) {
  MGX_API(kPlain, {
    require(flags <= hipStreamSetCaptureDependencies, hipErrorInvalidValue);
    GraphLock lock(graph_mutex());
    auto stream = find_stream(handle);
    require(stream->capture != nullptr, hipErrorIllegalState);
    check_active(*stream);
    std::vector<NodePtr> tail;
    for (GraphNode* node : find_nodes(*stream->capture->graph, dependencies, count))
      tail.push_back(find_node(node->handle));
    if (flags == hipStreamSetCaptureDependencies) stream->capture_tail = std::move(tail);
    else merge(stream->capture_tail, tail);
  });
}

MGX_EXPORT hipError_t hipThreadExchangeStreamCaptureMode(hipStreamCaptureMode* mode) {
  MGX_API(kPlain, {
    require(mode && *mode >= hipStreamCaptureModeGlobal && *mode <= hipStreamCaptureModeRelaxed,
            hipErrorInvalidValue);
    std::swap(*mode, thread_state().capture_mode);
  });
}
