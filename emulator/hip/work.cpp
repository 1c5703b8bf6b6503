// Running work: what each kind of operation does when its turn comes.
#include "work.h"

#include <cstring>
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
    case emu::Fault::lds_out_of_bounds:
      return hipErrorIllegalAddress;
    case emu::Fault::barrier:
    case emu::Fault::hang:
      return hipErrorLaunchTimeOut;
    default:
      return hipErrorLaunchFailure;
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

struct Performer {
  Device& device;
  double& clock;

  hipError_t operator()(const EmptyWork&) { return hipSuccess; }

  hipError_t operator()(const KernelWork& work) {
    emu::Options options;
    options.strict = settings().strict;
    options.profile = settings().profile;
    options.instruction_budget = settings().budget;
    emu::Profile profile;
    auto fault = emu::execute(work.dispatch, device.memory(), runtime().workers(), options,
                              options.profile ? &profile : nullptr);
    if (fault) {
      hipError_t code = code_of(fault->kind);
      std::string text = fault->text.empty()
          ? std::string(emu::fault_name(fault->kind)) + " in kernel " + work.dispatch.kernel->name
          : fault->text;
      device.raise(code, text);
      return code;
    }
    if (options.profile) {
      note_profile(device, work.dispatch, profile);
      clock += profile.modelled_ms;
    }
    return hipSuccess;
  }

  hipError_t operator()(const CopyWork& work) {
    // Checked again: a graph keeps addresses that may have been freed since.
    try {
      check_copy(work);
    } catch (const Failure&) {
      device.raise(hipErrorIllegalAddress, "a copy of " + std::to_string(work.width) +
                   " bytes a row reaches outside every allocation (freed memory?)");
      return hipErrorIllegalAddress;
    }
    do_copy(work);
    double bytes = double(work.width) * double(work.height) * double(work.depth);
    bool on_device = is_device_address(work.dst) && is_device_address(work.src);
    clock += kCopyLatencyMs +
             (on_device ? 2 * bytes / device_bytes_per_ms(device.chip) : bytes / kBusBytesPerMs);
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
    return hipSuccess;
  }

  hipError_t operator()(const HostWork& work) {
    thread_state().in_callback = true;
    work.fn(work.data);
    thread_state().in_callback = false;
    return hipSuccess;
  }

  hipError_t operator()(const CallbackWork& work) {
    thread_state().in_callback = true;
    work.fn(work.stream, device.fault(), work.data);
    thread_state().in_callback = false;
    return hipSuccess;
  }

  hipError_t operator()(const RecordWork& work) {
    auto now = std::make_shared<Completion>();
    now->finish(hipSuccess, settings().profile ? clock : now_ms());
    work.event->record(std::move(now));
    return hipSuccess;
  }

  // In a graph only. Records before the launch were waited for by the launch, those of the graph
  // itself are done; one made after the launch must not be waited for.
  hipError_t operator()(const WaitWork& work) {
    Completed recorded = work.event->recorded();
    if (recorded && recorded->done()) clock = std::max(clock, recorded->end());
    return hipSuccess;
  }

  // A child graph is inlined into its parent's plan.
  hipError_t operator()(const GraphWork&) { return hipSuccess; }

  // One step after another: on a real part, parallel branches share its compute units.
  hipError_t operator()(const PlanWork& work) {
    for (const PlanStep& step : work.plan->steps) {
      if (!step.enabled) continue;
      hipError_t code = std::visit(*this, step.work);
      if (code != hipSuccess) return code;
    }
    return hipSuccess;
  }

  hipError_t operator()(const AllocWork& work) {
    work.allocation->freed = false;
    return hipSuccess;
  }

  hipError_t operator()(const FreeWork& work) {
    give_back_now(work);
    return hipSuccess;
  }

  hipError_t operator()(const WriteValueWork& work) {
    if (work.bytes == 4)
      __atomic_store_n(static_cast<uint32_t*>(work.address), uint32_t(work.value), __ATOMIC_RELEASE);
    else
      __atomic_store_n(static_cast<uint64_t*>(work.address), work.value, __ATOMIC_RELEASE);
    return hipSuccess;
  }

  static bool met(const WaitValueWork& work) {
    uint64_t now = work.bytes == 4
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
    return hipSuccess;
  }
};

}  // namespace

hipError_t perform(const Work& work, Device& device, double& clock) {
  // After a fault nothing runs any more, except that a callback learns of it.
  if (device.fault() != hipSuccess && !std::holds_alternative<CallbackWork>(work))
    return device.fault();
  return std::visit(Performer{device, clock}, work);
}

}  // namespace mgx::hip
