// Stream capture: work submitted to a capturing stream becomes nodes of a graph.
#pragma once

#include <memory>
#include <thread>
#include <vector>

#include "abi.h"

namespace mgx::hip {

class Event;
class Graph;
class Stream;
struct GraphNode;

struct Capture {
  uint64_t id = 0;
  hipStreamCaptureMode mode = hipStreamCaptureModeGlobal;
  hipStreamCaptureStatus status = hipStreamCaptureStatusActive;
  std::shared_ptr<Graph> graph;
  bool callers_graph = false;  // hipStreamBeginCaptureToGraph
  std::weak_ptr<Stream> origin;
  std::thread::id thread;
  std::vector<std::weak_ptr<Stream>> streams;  // all that take part, the origin among them
};

// Throws hipErrorStreamCaptureUnsupported, and invalidates the captures concerned, where the
// thread's capture mode forbids an unsafe call now.
void refuse_in_capture();
// Throws and invalidates where the stream captures: for calls that wait for a stream.
void refuse_capturing(Stream& stream);
// Throws and invalidates where a capture of a blocking stream would depend on the null stream.
void refuse_implicit(Stream& stream);

// False where the stream does not capture.
bool capture_record(Stream& stream, const std::shared_ptr<Event>& event, bool external);
// False where neither stream nor event take part in a capture.
bool capture_wait(Stream& stream, const std::shared_ptr<Event>& event, bool external);
// Throws hipErrorCapturedEvent for an event last recorded in a capture.
void refuse_captured(Event& event);
// The stream is about to be destroyed.
void abandon_capture(Stream& stream);

}  // namespace mgx::hip
