// The operations that a stream executes: a type for each kind.
//
// The same values are the parameters of graph nodes: submitting to a capturing stream stores
// the work in a graph, and launching a graph runs the stored work.
#pragma once

#include <cstdint>
#include <memory>
#include <variant>
#include <vector>

#include "../engine/engine.h"
#include "abi.h"
#include "races.h"

namespace mgx::hip {

class Completion;
class Device;
class Event;
class Graph;
class Module;
class Stream;
struct Allocation;
struct Function;
struct Plan;
struct Pool;

struct EmptyWork {};

struct KernelWork {
  std::shared_ptr<Function> function;  // keeps the module's code alive
  emu::Dispatch dispatch;
  void* handle = nullptr;  // as the caller named the function
};

// A copy of `depth` slices of `height` rows of `width` bytes.
struct CopyWork {
  uint8_t* dst = nullptr;
  const uint8_t* src = nullptr;
  size_t width = 0, height = 1, depth = 1;
  size_t dst_pitch = 0, src_pitch = 0;
  size_t dst_slice = 0, src_slice = 0;
  hipMemcpyKind kind = hipMemcpyDefault;
  std::vector<uint8_t> staged;  // the source, where the caller may reuse his buffer at once
};

// A fill of `depth` slices of `height` rows of `width` elements.
struct FillWork {
  uint8_t* dst = nullptr;
  unsigned value = 0, element = 1;
  size_t width = 0, height = 1, depth = 1;
  size_t pitch = 0, slice = 0;
};

struct HostWork {
  hipHostFn_t fn = nullptr;
  void* data = nullptr;
};

struct CallbackWork {
  hipStreamCallback_t fn = nullptr;
  hipStream_t stream = nullptr;
  void* data = nullptr;
};

struct RecordWork {
  std::shared_ptr<Event> event;
};

struct WaitWork {
  std::shared_ptr<Event> event;
};

struct GraphWork {
  std::shared_ptr<Graph> graph;  // of a child graph node, owned by it
};

struct PlanWork {
  std::shared_ptr<const Plan> plan;                 // of a graph launch
  std::vector<std::shared_ptr<Completion>> events;  // that its nodes wait for
};

struct AllocWork {
  std::shared_ptr<Allocation> allocation;
  hipMemAllocNodeParams params = {};
};

struct FreeWork {
  std::shared_ptr<Allocation> allocation;
  bool keep = false;  // the memory belongs to a graph and stays with it
};

struct WriteValueWork {
  void* address = nullptr;
  uint64_t value = 0;
  unsigned bytes = 4;
};

struct WaitValueWork {
  const void* address = nullptr;
  uint64_t value = 0, mask = ~uint64_t(0);
  unsigned bytes = 4, condition = 0;
};

using Work =
    std::variant<EmptyWork, KernelWork, CopyWork, FillWork, HostWork, CallbackWork, RecordWork,
                 WaitWork, GraphWork, PlanWork, AllocWork, FreeWork, WriteValueWork, WaitValueWork>;

// Strict mode's notes on a work.
struct Strictly {
  Timeline& timeline;  // of the stream
  Task task;           // its clock includes all of the work once that has ended
};

// Runs one work to its end. `clock` is the modelled time of the stream in milliseconds; the
// work moves it forward. A kernel's fault, or a race, is raised on the device and returned.
hipError_t perform(const Work& work, Device& device, double& clock, Strictly& strictly);

}  // namespace mgx::hip
