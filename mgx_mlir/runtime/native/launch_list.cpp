//===- launch_list.cpp - gives a list of launches and copies to HIP -------------===//
//
// One call from Python for a whole list. The functions of HIP are hip-python's: their
// addresses are given by the caller, who has them of hip-python's C interface.
//
//===----------------------------------------------------------------------===//
#include <cstddef>
#include <cstdint>

#define MGX_EXPORT extern "C" __attribute__((visibility("default")))

extern "C" {
// hipModuleLaunchKernel, hipMemcpyAsync, hipEventRecord and hipStreamWaitEvent.
struct mgx_hip {
  int (*launch)(void *function, unsigned grid_x, unsigned grid_y, unsigned grid_z, unsigned block_x,
                unsigned block_y, unsigned block_z, unsigned lds_bytes, void *stream,
                void **parameters, void **extra);
  int (*copy)(void *target, const void *source, size_t bytes, int kind, void *stream);
  int (*record)(void *event, void *stream);
  int (*wait)(void *stream, void *event, unsigned flags);
};

// The kinds of steps. A step's stream is a number in the caller's list of streams.
enum mgx_kind { MGX_LAUNCH, MGX_COPY, MGX_RECORD, MGX_WAIT };

struct mgx_step {
  int32_t kind;
  int32_t stream;
  uint64_t handle; // The function of a launch; of an event the number in the caller's list.
  uint64_t bytes;  // Bytes of a copy.
  int64_t first;   // Number of the first argument in the table.
  uint32_t grid[3];
  uint32_t block[3];
};
}

namespace {
constexpr int kDeviceToDevice = 3;
}

// Gives HIP the steps in order. `arguments` is the table of addresses, `parameters` points
// to each entry of it. Returns HIP's status; at a failure `*failed` is the step's number.
MGX_EXPORT int mgx_hip_submit(const mgx_hip *hip, const mgx_step *steps, int64_t count,
                              uint64_t *arguments, void **parameters, void **streams, void **events,
                              int64_t *failed) {
  for (int64_t i = 0; i < count; ++i) {
    const mgx_step &step = steps[i];
    void *stream = streams[step.stream];
    int status = 0;
    switch (step.kind) {
    case MGX_LAUNCH:
      status = hip->launch(reinterpret_cast<void *>(step.handle), step.grid[0], step.grid[1],
                           step.grid[2], step.block[0], step.block[1], step.block[2], 0, stream,
                           parameters + step.first, nullptr);
      break;
    case MGX_COPY:
      status = hip->copy(reinterpret_cast<void *>(arguments[step.first + 1]),
                         reinterpret_cast<const void *>(arguments[step.first]), step.bytes,
                         kDeviceToDevice, stream);
      break;
    case MGX_RECORD:
      status = hip->record(events[step.handle], stream);
      break;
    case MGX_WAIT:
      status = hip->wait(stream, events[step.handle], 0);
      break;
    }
    if (status != 0) {
      *failed = i;
      return status;
    }
  }
  return 0;
}

// The version of this interface.
MGX_EXPORT int mgx_launch_interface() { return 1; }
