// Streams: ordered queues of work, and the completions that order them among each other.
#pragma once

#include <atomic>
#include <condition_variable>
#include <deque>
#include <memory>
#include <mutex>
#include <vector>

#include "abi.h"
#include "races.h"
#include "runtime.h"
#include "work.h"

namespace mgx::hip {

struct Capture;

// The end of one piece of submitted work.
class Completion {
 public:
  bool done() const { return done_.load(std::memory_order_acquire); }
  void wait() const;
  // `order`: what whoever waits for this comes after, in strict mode.
  void finish(hipError_t code, double end, ClockPtr order);

  // Valid once done. Milliseconds of the steady clock, or of the model in profile mode.
  double end() const { return end_; }
  hipError_t code() const { return code_; }
  const ClockPtr& order() const { return order_; }

 private:
  std::atomic<bool> done_{false};
  hipError_t code_ = hipSuccess;
  double end_ = 0;
  ClockPtr order_;
  mutable std::mutex mutex_;
  mutable std::condition_variable ready_;
};
// The host waits, or finds that the work has ended: what it submits later comes after it.
void host_waits(const Completed& work);
bool host_finds_done(const Completed& work);

class Stream : public std::enable_shared_from_this<Stream> {
 public:
  Stream(Device& device, unsigned flags, int priority);

  Device& device;
  const unsigned flags;
  const int priority;
  const uint64_t id;
  hipStream_t handle = nullptr;

  bool is_null() const { return handle == nullptr; }
  bool non_blocking() const { return flags & hipStreamNonBlocking; }

  // Executes the work, or queues it with MGX_EMULATOR_ASYNC=1. Where it ran at once and
  // failed, the failure is thrown. `event` is set to the completion of this work; `after` is
  // waited for beside what the stream's order demands.
  Completed submit(Work work, Event* event = nullptr, std::vector<Completed> after = {});

  // True when all submitted work has ended, as the host finds.
  bool idle() const;
  void synchronize();  // throws the device's fault
  void drain();        // waits only
  // Lets the worker end once its queue is empty.
  void close();

  // Capture state: under graph_mutex(). The flag is for the fast path only.
  std::atomic<bool> capturing{false};
  std::shared_ptr<Capture> capture;
  std::vector<std::shared_ptr<GraphNode>> capture_tail;

 private:
  struct Operation {
    Work work;
    std::vector<Completed> waits;
    Completed done;
    ClockPtr host;  // what the host knew
  };
  void execute(Operation& operation);
  void work_loop();
  static void collect_waits(Stream& stream, std::vector<Completed>& waits);

  mutable std::mutex mutex_;
  std::condition_variable filled_;
  std::deque<Operation> queue_;
  Completed tail_;
  Timeline timeline_;
  bool has_worker_ = false, closed_ = false;
};

// The stream of a handle, the constants 0, 1 and 2 included. Throws hipErrorInvalidHandle
// (hipErrorContextIsDestroyed is never used: a handle is known or it is not).
std::shared_ptr<Stream> find_stream(hipStream_t handle);

// Stores the work in the graph that the stream captures into; false if it captures nothing.
bool capture_work(Stream& stream, const Work& work);

// Captures or submits.
void enqueue(Stream& stream, Work work);

// Throws where the caller is a host function: it must not call the runtime.
void require_outside_callback();

}  // namespace mgx::hip
