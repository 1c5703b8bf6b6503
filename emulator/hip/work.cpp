// Running work: what each kind of operation does when its turn comes.
#include "work.h"

#include <algorithm>
#include <cstring>
#include <optional>
#include <thread>

#include "event.h"
#include "graph.h"
#include "memory.h"
#include "module.h"
#include "settings.h"

namespace mgx::hip {
namespace {

// How long a wait for a value in memory may last where streams have no threads of their own.
constexpr double kSynchronousWaitMs = 2000;
// A modelled copy: latency of a launch, and the bandwidth of the device or of the bus.
constexpr double kCopyLatencyMs = 0.002;
constexpr double kBusBytesPerMs = 50e6;  // PCIe 5 x16, what a real part reaches

hipError_t code_of(emu::Fault::Kind kind) {
  switch (kind) {
    case emu::Fault::out_of_bounds:
    case emu::Fault::misaligned:
    case emu::Fault::lds_out_of_bounds: return hipErrorIllegalAddress;
    case emu::Fault::barrier:
    case emu::Fault::hang: return hipErrorLaunchTimeOut;
    default: return hipErrorLaunchFailure;
  }
}

double device_bytes_per_ms(const emu::Chip& chip) {
  return double(chip.memory_clock_khz) * 2 * chip.memory_bus_bits / 8;
}

void note_profile(Device& device, const emu::Dispatch& dispatch, const emu::Profile& profile) {
  std::lock_guard lock(device.state_mutex);
  KernelProfile& entry = device.profiles[dispatch.kernel->name];
  entry.launches++;
  entry.total_ms += profile.modelled_ms;
  entry.last = profile;
  for (int i = 0; i < 3; ++i) {
    entry.grid[i] = dispatch.grid[i];
    entry.block[i] = dispatch.block[i];
  }
}

// Appends what rows of bytes, in slices, cover.
void add_rows(std::vector<emu::Touched>& touched, const uint8_t* base, size_t width, size_t height,
              size_t depth, size_t pitch, size_t slice, emu::Touch how) {
  for (size_t z = 0; z < depth; ++z)
    for (size_t y = 0; y < height; ++y) {
      uint64_t begin = uint64_t(base) + z * slice + y * pitch;
      touched.push_back({begin, begin + width, how});
    }
}

// Pageable memory is read, or written, before the call of the host returns.
std::vector<emu::Touched> touched_by(const CopyWork& copy) {
  std::vector<emu::Touched> touched;
  if (copy.staged.empty() && !is_pageable(copy.src))
    add_rows(touched, copy.src, copy.width, copy.height, copy.depth, copy.src_pitch, copy.src_slice,
             emu::kRead);
  if (!is_pageable(copy.dst))
    add_rows(touched, copy.dst, copy.width, copy.height, copy.depth, copy.dst_pitch, copy.dst_slice,
             emu::kWrite);
  return touched;
}

std::vector<emu::Touched> touched_by(const FillWork& fill) {
  std::vector<emu::Touched> touched;
  add_rows(touched, fill.dst, fill.width * fill.element, fill.height, fill.depth, fill.pitch,
           fill.slice, emu::kWrite);
  return touched;
}

std::vector<emu::Touched> whole(const Allocation& memory) {
  return {{memory.base, memory.base + memory.size, emu::kWrite}};
}

std::vector<emu::Touched> value_at(const void* address, unsigned bytes) {
  return {{uint64_t(address), uint64_t(address) + bytes, emu::kAtomic}};
}

struct Performer {
  Device& device;
  double& clock;
  Strictly& strictly;

  // In strict mode; raises a race on the device.
  hipError_t touch(const std::string& what, const std::vector<emu::Touched>& touched) {
    std::string race = note_touched(strictly.task, what, touched);
    if (race.empty()) return hipSuccess;
    device.raise(hipErrorLaunchFailure, race);
    return hipErrorLaunchFailure;
  }

  hipError_t operator()(const EmptyWork&) { return hipSuccess; }

  hipError_t operator()(const KernelWork& work) {
    emu::Options options;
    options.strict = settings().strict;
    options.order = settings().order;
    options.profile = settings().profile;
    options.sample = settings().sample;
    options.instruction_budget = settings().budget;
    emu::Footprint footprint;
    if (options.strict) options.footprint = &footprint;
    emu::Profile profile;
    auto fault = emu::execute(work.dispatch, device.memory(), runtime().workers(), options,
                              options.profile ? &profile : nullptr);
    if (fault) {
      hipError_t code = code_of(fault->kind);
      std::string text = fault->text.empty() ? std::string(emu::fault_name(fault->kind)) +
                                                   " in kernel " + work.dispatch.kernel->name
                                             : fault->text;
      device.raise(code, text);
      return code;
    }
    if (options.profile) {
      note_profile(device, work.dispatch, profile);
      clock += profile.modelled_ms;
    }
    if (options.strict) return touch("kernel " + work.dispatch.kernel->name, footprint.ranges());
    return hipSuccess;
  }

  hipError_t operator()(const CopyWork& work) {
    // Checked again: a graph keeps addresses that may have been freed since.
    try {
      check_copy(work);
    } catch (const Failure&) {
      device.raise(hipErrorIllegalAddress,
                   "a copy of " + std::to_string(work.width) +
                       " bytes a row reaches outside every allocation (freed memory?)");
      return hipErrorIllegalAddress;
    }
    do_copy(work);
    double bytes = double(work.width) * double(work.height) * double(work.depth);
    bool on_device = is_device_address(work.dst) && is_device_address(work.src);
    clock += kCopyLatencyMs +
             (on_device ? 2 * bytes / device_bytes_per_ms(device.chip) : bytes / kBusBytesPerMs);
    if (settings().strict) return touch("a copy", touched_by(work));
    return hipSuccess;
  }

  hipError_t operator()(const FillWork& work) {
    try {
      check_fill(work);
    } catch (const Failure&) {
      device.raise(hipErrorIllegalAddress,
                   "a fill reaches outside every allocation (freed memory?)");
      return hipErrorIllegalAddress;
    }
    do_fill(work);
    double bytes = double(work.width) * work.element * double(work.height) * double(work.depth);
    clock += kCopyLatencyMs + bytes / device_bytes_per_ms(device.chip);
    if (settings().strict) return touch("a fill", touched_by(work));
    return hipSuccess;
  }

  // Whoever waits for what a host function does comes after all before it.
  hipError_t operator()(const HostWork& work) {
    host_knows(strictly.task.clock);
    thread_state().in_callback = true;
    work.fn(work.data);
    thread_state().in_callback = false;
    return hipSuccess;
  }

  hipError_t operator()(const CallbackWork& work) {
    host_knows(strictly.task.clock);
    thread_state().in_callback = true;
    work.fn(work.stream, device.fault(), work.data);
    thread_state().in_callback = false;
    return hipSuccess;
  }

  hipError_t operator()(const RecordWork& work) {
    auto now = std::make_shared<Completion>();
    now->finish(hipSuccess, settings().profile ? clock : now_ms(), strictly.task.clock);
    work.event->record(std::move(now));
    return hipSuccess;
  }

  // In a graph only. Records before the launch were waited for by the launch, those of the graph
  // itself are done; one made after the launch must not be waited for.
  hipError_t operator()(const WaitWork& work) {
    Completed recorded = work.event->recorded();
    if (!recorded || !recorded->done()) return hipSuccess;
    clock = std::max(clock, recorded->end());
    order_after(strictly.task, recorded->order());
    return hipSuccess;
  }

  // A child graph is inlined into its parent's plan.
  hipError_t operator()(const GraphWork&) { return hipSuccess; }

  // One step after another: on a real part, parallel branches share its compute units.
  hipError_t operator()(const PlanWork& work) {
    for (const Completed& event : work.events) {
      event->wait();
      clock = std::max(clock, event->end());
    }
    std::optional<GraphOrder> order;
    if (settings().strict) order.emplace(strictly.timeline, strictly.task, *work.plan);
    for (size_t i = 0; i < work.plan->steps.size(); ++i) {
      const PlanStep& step = work.plan->steps[i];
      Strictly own{strictly.timeline, {}};
      if (order) own.task = order->begin(i);
      hipError_t code =
          step.enabled ? std::visit(Performer{device, clock, own}, step.work) : hipSuccess;
      if (code != hipSuccess) return code;
      if (order) order->finish(i, std::move(own.task));
    }
    if (order) strictly.task.clock = order->end();
    return hipSuccess;
  }

  hipError_t operator()(const AllocWork& work) {
    work.allocation->freed = false;
    if (settings().strict) return touch("an allocation", whole(*work.allocation));
    return hipSuccess;
  }

  hipError_t operator()(const FreeWork& work) {
    hipError_t code = settings().strict ? touch("a free", whole(*work.allocation)) : hipSuccess;
    give_back_now(work);
    return code;
  }

  hipError_t operator()(const WriteValueWork& work) {
    if (settings().strict) {
      hipError_t code = touch("a write of a value", value_at(work.address, work.bytes));
      if (code != hipSuccess) return code;
    }
    if (work.bytes == 4)
      __atomic_store_n(static_cast<uint32_t*>(work.address), uint32_t(work.value),
                       __ATOMIC_RELEASE);
    else __atomic_store_n(static_cast<uint64_t*>(work.address), work.value, __ATOMIC_RELEASE);
    return hipSuccess;
  }

  static bool met(const WaitValueWork& work) {
    uint64_t now =
        work.bytes == 4
            ? __atomic_load_n(static_cast<const uint32_t*>(work.address), __ATOMIC_ACQUIRE)
            : __atomic_load_n(static_cast<const uint64_t*>(work.address), __ATOMIC_ACQUIRE);
    uint64_t masked = now & work.mask;
    uint64_t width = work.bytes == 4 ? ~uint32_t(0) : ~uint64_t(0);
    switch (work.condition) {
      case hipStreamWaitValueGte:
        // Cyclic, as the header says: the difference as a signed number.
        return work.bytes == 4 ? int32_t(masked - work.value) >= 0
                               : int64_t(masked - work.value) >= 0;
      case hipStreamWaitValueEq: return masked == work.value;
      case hipStreamWaitValueAnd: return (masked & work.value) != 0;
      default: return (~(masked | work.value) & width) != 0;
    }
  }

  hipError_t operator()(const WaitValueWork& work) {
    const double start = now_ms();
    while (!met(work)) {
      if (device.fault() != hipSuccess) return device.fault();
      if (!settings().async && now_ms() - start > kSynchronousWaitMs) return hipErrorNotReady;
      std::this_thread::sleep_for(std::chrono::microseconds(50));
    }
    if (settings().strict) {
      order_after_writers(strictly.task, work.address, work.bytes);
      return touch("a wait for a value", value_at(work.address, work.bytes));
    }
    return hipSuccess;
  }
};

}  // namespace

hipError_t perform(const Work& work, Device& device, double& clock, Strictly& strictly) {
  // After a fault nothing runs any more, except that a callback learns of it.
  if (device.fault() != hipSuccess && !std::holds_alternative<CallbackWork>(work))
    return device.fault();
  return std::visit(Performer{device, clock, strictly}, work);
}

}  // namespace mgx::hip
