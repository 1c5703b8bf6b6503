#include "profiler.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cmath>
#include <mutex>
#include <sys/syscall.h>
#include <unistd.h>

namespace mgx_ep {

namespace {

using Clock = std::chrono::steady_clock;

constexpr int KERNEL = 2;                // onnxruntime's category
constexpr size_t MOST_EVENTS = 1 << 20; // later ones are left out, as onnxruntime does with its own

struct Event {
  std::string name, nodes, parent;
  int32_t thread;
  Clock::time_point start;
  int64_t microseconds;
  uint64_t bytes, operations;
};

// What one profile has so far.
struct Trace {
  std::atomic<bool> is_on{false};
  Clock::time_point start; // of the profile
  std::mutex mutex;
  std::vector<Event> events;
};

// The profiles of what this thread runs now. onnxruntime ends events of a profile that has ended
// meanwhile without a word: such entries go away with the next.
thread_local std::vector<std::weak_ptr<Trace>> running;

std::shared_ptr<Trace> current(const std::weak_ptr<Trace> &entry) {
  auto trace = entry.lock();
  return trace != nullptr && trace->is_on ? trace : nullptr;
}

class Profiler : public OrtEpProfilerImpl {
public:
  Profiler() : OrtEpProfilerImpl{} {
    version = api.version();
    Release = [](OrtEpProfilerImpl *self) { delete static_cast<Profiler *>(self); };
    StartProfiling = [](OrtEpProfilerImpl *self, int64_t elapsed) {
      return guarded([&] { static_cast<Profiler *>(self)->start(elapsed); });
    };
    // Both are called on the thread that runs the event's nodes.
    StartEvent = [](OrtEpProfilerImpl *self, uint64_t) {
      return guarded([&] {
        std::erase_if(running, [](const auto &entry) { return current(entry) == nullptr; });
        running.push_back(static_cast<Profiler *>(self)->trace_);
      });
    };
    StopEvent = [](OrtEpProfilerImpl *self, uint64_t, const OrtProfilingEvent *) {
      const auto &own = static_cast<Profiler *>(self)->trace_;
      auto at = std::find_if(running.rbegin(), running.rend(),
                             [&](const auto &entry) { return entry.lock() == own; });
      if (at != running.rend())
        running.erase(std::next(at).base());
      return static_cast<OrtStatus *>(nullptr);
    };
    EndProfiling = [](OrtEpProfilerImpl *self, OrtProfilingEventsContainer *found) {
      return guarded([&] { static_cast<Profiler *>(self)->end(found); });
    };
  }

private:
  void start(int64_t elapsed) {
    std::lock_guard lock(trace_->mutex);
    trace_->start = Clock::now() - std::chrono::nanoseconds(elapsed);
    trace_->events.clear();
    trace_->is_on = true;
  }

  void end(OrtProfilingEventsContainer *found) {
    std::lock_guard lock(trace_->mutex);
    trace_->is_on = false;
    for (const Event &event : trace_->events)
      add(event, found);
    trace_->events.clear();
  }

  void add(const Event &event, OrtProfilingEventsContainer *found) const {
    std::string bytes = std::to_string(event.bytes), operations = std::to_string(event.operations);
    constexpr std::array keys{"provider", "parent_name", "op_name", "bytes", "operations"};
    std::array values{EP_NAME, event.parent.c_str(), event.nodes.c_str(), bytes.c_str(),
                      operations.c_str()};
    auto since = std::chrono::duration_cast<std::chrono::microseconds>(event.start - trace_->start);
    OrtProfilingEvent *made = nullptr;
    api.check_ep(ort_ep::CreateProfilingEvent, KERNEL, getpid(), event.thread, event.name.c_str(),
                 since.count(), event.microseconds, keys.data(), values.data(), keys.size(), &made);
    OrtStatus *status = Api::of(api.ep(), ort_ep::AddProfilingEvents, found, &made, size_t{1});
    Api::of(api.ep(), ort_ep::ReleaseProfilingEvent, made);
    api.expect(status);
  }

  std::shared_ptr<Trace> trace_ = std::make_shared<Trace>();
};

} // namespace

bool is_profiled() {
  return std::any_of(running.begin(), running.end(),
                     [](const auto &entry) { return current(entry) != nullptr; });
}

void add_launch(const std::string &node, const mgx_profile_row &row) {
  auto taken = std::chrono::duration<double>(row.seconds);
  Event event{*row.function != 0 ? row.function : "copy",
              row.nodes,
              node,
              static_cast<int32_t>(syscall(SYS_gettid)),
              Clock::now() - std::chrono::duration_cast<Clock::duration>(taken),
              std::llround(row.seconds * 1e6),
              row.bytes,
              row.operations};
  std::vector<std::shared_ptr<Trace>> added;
  for (const auto &entry : running) {
    auto trace = current(entry);
    if (trace == nullptr || std::find(added.begin(), added.end(), trace) != added.end())
      continue;
    added.push_back(trace);
    std::lock_guard lock(trace->mutex);
    if (trace->events.size() < MOST_EVENTS)
      trace->events.push_back(event);
  }
}

OrtEpProfilerImpl *make_profiler() { return new Profiler(); }

} // namespace mgx_ep
