// The order of work: streams, completions and the rules of the null stream.
#include "stream.h"

#include <algorithm>
#include <thread>

#include "event.h"
#include "settings.h"

namespace mgx::hip {
namespace {

std::atomic<uint64_t> next_stream_id{1};

}  // namespace

void Completion::wait() const {
  if (done()) return;
  std::unique_lock lock(mutex_);
  ready_.wait(lock, [this] { return done(); });
}

void Completion::finish(hipError_t code, double end, ClockPtr order) {
  std::lock_guard lock(mutex_);
  code_ = code;
  end_ = end;
  order_ = std::move(order);
  done_.store(true, std::memory_order_release);
  ready_.notify_all();
}

void host_waits(const Completed& work) {
  work->wait();
  host_knows(work->order());
}

bool host_finds_done(const Completed& work) {
  if (!work->done()) return false;
  host_knows(work->order());
  return true;
}

Stream::Stream(Device& device, unsigned flags, int priority)
    : device(device), flags(flags), priority(priority), id(next_stream_id++), timeline_(id) {}

// The null stream waits for all blocking streams of its device, and they wait for it.
void Stream::collect_waits(Stream& stream, std::vector<Completed>& waits) {
  if (stream.tail_) waits.push_back(stream.tail_);
  if (stream.non_blocking()) return;
  if (!stream.is_null()) {
    Stream& null = stream.device.null_stream();
    if (null.tail_) waits.push_back(null.tail_);
    return;
  }
  for (const auto& other : stream.device.streams())
    if (other.get() != &stream && !other->non_blocking() && other->tail_)
      waits.push_back(other->tail_);
  for (const auto& [work, blocking] : stream.device.gone)
    if (blocking) waits.push_back(work);
}

Completed Stream::submit(Work work, Event* event, std::vector<Completed> after) {
  require_outside_callback();
  device.check_fault();
  Operation operation{std::move(work), std::move(after), std::make_shared<Completion>(), {}};
  if (settings().strict) operation.host = host_clock();
  Completed done = operation.done;
  const bool async = settings().async;
  {
    std::lock_guard order(device.order_mutex);
    collect_waits(*this, operation.waits);
    if (event) event->record(done);
    tail_ = done;
    if (async) {
      std::lock_guard lock(mutex_);
      queue_.push_back(std::move(operation));
      if (!has_worker_) {
        has_worker_ = true;
        std::thread([self = shared_from_this()] { self->work_loop(); }).detach();
      }
      filled_.notify_one();
    }
  }
  if (async) return done;
  execute(operation);
  if (done->code() != hipSuccess) fail(done->code());
  return done;
}

void Stream::execute(Operation& operation) {
  double clock = 0;
  const bool strict = settings().strict;
  std::vector<ClockPtr> order;
  if (strict) order.push_back(operation.host);
  for (const Completed& before : operation.waits) {
    before->wait();
    clock = std::max(clock, before->end());
    if (strict) order.push_back(before->order());
  }
  operation.waits.clear();
  Strictly strictly{timeline_, {}};
  if (strict) strictly.task = timeline_.next(order);
  hipError_t code = hipErrorUnknown;
  try {
    code = perform(operation.work, device, clock, strictly);
  } catch (const Failure& failure) {
    code = failure.code;
  } catch (const std::bad_alloc&) {
    code = hipErrorOutOfMemory;
  } catch (...) {
  }
  // An error that no caller is left to receive stays with the device.
  if (code != hipSuccess && settings().async && device.fault() == hipSuccess)
    device.raise(code, "an operation failed in a stream");
  operation.work = EmptyWork{};
  operation.done->finish(code, settings().profile ? clock : now_ms(), strictly.task.clock);
}

void Stream::work_loop() {
  for (;;) {
    Operation operation;
    {
      std::unique_lock lock(mutex_);
      filled_.wait(lock, [this] { return closed_ || !queue_.empty(); });
      if (queue_.empty()) return;
      operation = std::move(queue_.front());
      queue_.pop_front();
    }
    execute(operation);
  }
}

bool Stream::idle() const {
  std::lock_guard order(device.order_mutex);
  return !tail_ || host_finds_done(tail_);
}

void Stream::drain() {
  require_outside_callback();
  std::vector<Completed> waits;
  {
    std::lock_guard order(device.order_mutex);
    if (tail_) waits.push_back(tail_);
    // Waiting for the null stream is waiting for the blocking streams as well.
    if (is_null()) collect_waits(*this, waits);
  }
  for (const Completed& before : waits) host_waits(before);
}

void Stream::synchronize() {
  drain();
  device.check_fault();
}

void Stream::close() {
  {
    std::lock_guard order(device.order_mutex);
    if (settings().strict && tail_) device.keep_last(tail_, !non_blocking());
  }
  std::lock_guard lock(mutex_);
  closed_ = true;
  filled_.notify_all();
}

std::shared_ptr<Stream> find_stream(hipStream_t handle) {
  if (handle == nullptr || handle == hipStreamLegacy)
    return current_device().null_stream().shared_from_this();
  if (handle == hipStreamPerThread) {
    Device& device = current_device();
    auto& mine = thread_state().streams[device.ordinal];
    if (!mine) {
      mine = std::make_shared<Stream>(device, hipStreamDefault, 0);
      mine->handle = hipStreamPerThread;
      device.add_stream(mine);
    }
    return mine;
  }
  auto stream = runtime().streams.find(handle);
  require(stream != nullptr, hipErrorInvalidHandle);
  return stream;
}

void enqueue(Stream& stream, Work work) {
  if (capture_work(stream, work)) return;
  stream.submit(std::move(work));
}

void require_outside_callback() { require(!thread_state().in_callback, hipErrorNotSupported); }

}  // namespace mgx::hip
