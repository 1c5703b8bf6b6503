// The process-wide state: devices, registries, and what belongs to a thread.
#pragma once

#include <array>
#include <atomic>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <vector>

#include "../engine/engine.h"
#include "abi.h"
#include "api.h"
#include "registry.h"

namespace mgx::hip {

class Completion;
class Stream;
class Event;
class Module;
class Graph;
class GraphExec;
struct Function;
struct GraphNode;
struct Pool;
struct UserObject;

using Completed = std::shared_ptr<Completion>;

struct Limits {
  size_t stack = 1024;
  size_t printf_fifo = size_t(4) << 20;
  size_t malloc_heap = size_t(8) << 20;
};

// Sums over the launches of one kernel, kept in profile mode.
struct KernelProfile {
  uint64_t launches = 0;
  double total_ms = 0;
  emu::Profile last;
  uint32_t grid[3] = {0, 0, 0};
  uint32_t block[3] = {0, 0, 0};
};

class Device {
 public:
  Device(int ordinal, const emu::Chip& chip) : ordinal(ordinal), chip(chip) {}

  const int ordinal;
  const emu::Chip& chip;

  // Made on first use: the arena is a large reservation of address space.
  emu::Memory& memory();
  emu::Memory* memory_if_made() { return memory_ready_.load(std::memory_order_acquire); }

  Stream& null_stream();
  std::shared_ptr<Pool> default_pool();
  std::shared_ptr<Pool> current_pool();
  void set_current_pool(std::shared_ptr<Pool> pool);

  // All streams of the device with work that may be unfinished, the null stream among them.
  std::vector<std::shared_ptr<Stream>> streams();
  void add_stream(const std::shared_ptr<Stream>& stream);
  // A stream is gone; what it was given is still waited for. Under order_mutex.
  void keep_last(Completed work, bool blocking);
  // Waits for all work; `synchronize` also throws the device's fault.
  void drain();
  void synchronize();

  // A kernel's fault makes every later use of the device fail, until the device is reset.
  void raise(hipError_t code, const std::string& text);
  hipError_t fault() const { return hipError_t(fault_.load(std::memory_order_acquire)); }
  void check_fault() const { require(fault() == hipSuccess, fault()); }
  std::string fault_text() const;
  void reset();

  // Bytes of live allocations and modules: what hipMemGetInfo counts. Not the arena's own count,
  // which includes what a running kernel needs for itself.
  std::atomic<uint64_t> live_bytes{0};

  // Orders submissions, so that the rules of the null stream are decided at one point.
  std::mutex order_mutex;
  // Under order_mutex, in strict mode: the last work of streams that are gone, as far as the host
  // has not waited for it, and whether they blocked.
  std::vector<std::pair<Completed, bool>> gone;

  // Everything below: under state_mutex.
  mutable std::mutex state_mutex;
  unsigned flags = 0;
  Limits limits;
  std::set<int> peers;  // devices whose memory this one's kernels may address
  std::map<std::string, KernelProfile> profiles;
  int primary_references = 0;

 private:
  std::mutex make_mutex_;
  std::unique_ptr<emu::Memory> memory_;
  std::atomic<emu::Memory*> memory_ready_{nullptr};
  std::shared_ptr<Stream> null_stream_;
  std::atomic<Stream*> null_ready_{nullptr};
  std::shared_ptr<Pool> default_pool_, current_pool_;
  std::vector<std::weak_ptr<Stream>> streams_;
  std::atomic<int> fault_{0};
  std::string fault_text_;
};

// The devices by ordinal. They are only added, never taken away, and read without a lock.
class Devices {
 public:
  static constexpr size_t kMost = 64;

  // Null where there are as many as can be.
  Device* add(const emu::Chip& chip);
  size_t size() const { return count_.load(std::memory_order_acquire); }
  bool empty() const { return size() == 0; }
  Device& operator[](size_t ordinal) const { return *devices_[ordinal]; }
  const std::unique_ptr<Device>* begin() const { return devices_.data(); }
  const std::unique_ptr<Device>* end() const { return begin() + size(); }

 private:
  std::mutex mutex_;
  std::array<std::unique_ptr<Device>, kMost> devices_;
  std::atomic<size_t> count_{0};
};

struct Runtime {
  Runtime();

  Devices devices;
  emu::ThreadPool& workers();

  Registry<Stream> streams{1};
  Registry<Event> events{2};
  Registry<Module> modules{3};
  Registry<Function> functions{4};
  Registry<Graph> graphs{5};
  Registry<GraphNode> nodes{6};
  Registry<GraphExec> executables{7};
  Registry<Pool> pools{8};
  Registry<UserObject> user_objects{9};

  Device& device(int ordinal) {
    require(ordinal >= 0 && size_t(ordinal) < devices.size(), hipErrorInvalidDevice);
    return devices[size_t(ordinal)];
  }

 private:
  std::once_flag workers_once_;
  std::unique_ptr<emu::ThreadPool> workers_;
};

// Made at first use and never destroyed: calls arrive from static destructors of programs.
Runtime& runtime();

struct ThreadState {
  int device = 0;
  bool in_callback = false;  // inside a host function or a stream callback
  hipStreamCaptureMode capture_mode = hipStreamCaptureModeGlobal;
  std::vector<hipCtx_t> contexts;
  std::map<int, std::shared_ptr<Stream>> streams;  // hipStreamPerThread, by device
};
ThreadState& thread_state();

inline Device& current_device() { return runtime().device(thread_state().device); }
hipError_t sticky_error_of_current_device();

// Text of the last fault of any device, "" if there was none.
std::string last_fault_text();

// Milliseconds of a steady clock.
double now_ms();

}  // namespace mgx::hip
