// Events: a point in a stream's work, or in a capture.
#pragma once

#include <memory>
#include <mutex>
#include <vector>

#include "stream.h"

namespace mgx::hip {

class Event {
 public:
  Event(Device& device, unsigned flags) : device(device), flags(flags) {}

  Device& device;
  const unsigned flags;
  hipEvent_t handle = nullptr;

  // The latest record; null if there was none.
  Completed recorded() const {
    std::lock_guard lock(mutex_);
    return recorded_;
  }
  void record(Completed completion) {
    std::lock_guard lock(mutex_);
    recorded_ = std::move(completion);
    was_captured_ = false;
  }

  // A record in a capturing stream: under graph_mutex() as well.
  std::weak_ptr<Capture> capture;
  std::vector<std::shared_ptr<GraphNode>> capture_tail;
  void mark_captured() {
    std::lock_guard lock(mutex_);
    was_captured_ = true;
  }
  bool was_captured() const {
    std::lock_guard lock(mutex_);
    return was_captured_;
  }

 private:
  mutable std::mutex mutex_;
  Completed recorded_;
  bool was_captured_ = false;
};

std::shared_ptr<Event> find_event(hipEvent_t handle);

}  // namespace mgx::hip
