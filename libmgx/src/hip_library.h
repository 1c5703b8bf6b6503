//===- hip_library.h - the functions of a HIP library, opened when a GPU is asked for
//--------------===//
//
// The C ABI of HIP 6 and later, in the types that are needed. Sources: hip_runtime_api.h of ROCm;
// docs/emulator.md for the library that is tested.
//
//===--------------------------------------------------------------------------------------------===//
#pragma once

#include "error.h"

#include <cstddef>
#include <cstdint>
#include <cstring>

namespace mgx {

struct HipDim {
  uint32_t x, y, z;
};

struct HipKernelNode {
  HipDim block;
  void **extra;
  void *function;
  HipDim grid;
  void **parameters;
  unsigned shared_bytes;
};

struct HipPointer {
  int type;
  int device;
  void *device_pointer;
  void *host_pointer;
  int is_managed;
  unsigned flags;
};

// The numbers of hipMemcpyKind.
enum HipCopy {
  hip_host_to_device = 1,
  hip_device_to_host = 2,
  hip_device_to_device = 3,
  hip_default = 4
};
constexpr int hip_memory_device = 2, hip_memory_managed = 3;
constexpr unsigned hip_non_blocking = 1, hip_disable_timing = 2;
constexpr int hip_out_of_memory = 2, hip_not_found = 500, hip_not_ready = 600;

// hipDeviceProp_tR0600, of which the fields at these offsets are read.
struct HipProperties {
  char bytes[2048];
  std::string text(size_t offset) const { return bytes + offset; }
  template <class Number> Number number(size_t offset) const {
    Number value;
    std::memcpy(&value, bytes + offset, sizeof value);
    return value;
  }
};
constexpr size_t hip_name = 0, hip_total_memory = 288, hip_clock = 348, hip_compute_units = 388,
                 hip_memory_clock = 608, hip_memory_bits = 612, hip_architecture = 1160;

// Name, parameters. All give a status.
#define MGX_HIP_FUNCTIONS(F)                                                                       \
  F(hipGetDeviceCount, int *)                                                                      \
  F(hipSetDevice, int)                                                                             \
  F(hipGetDevice, int *)                                                                           \
  F(hipGetDevicePropertiesR0600, HipProperties *, int)                                             \
  F(hipGetLastError)                                                                               \
  F(hipMalloc, void **, size_t)                                                                    \
  F(hipFree, void *)                                                                               \
  F(hipHostMalloc, void **, size_t, unsigned)                                                      \
  F(hipHostFree, void *)                                                                           \
  F(hipMemcpy, void *, const void *, size_t, int)                                                  \
  F(hipMemcpyAsync, void *, const void *, size_t, int, void *)                                     \
  F(hipMemsetAsync, void *, int, size_t, void *)                                                   \
  F(hipMemsetD8, void *, unsigned char, size_t)                                                    \
  F(hipMemsetD16, void *, unsigned short, size_t)                                                  \
  F(hipMemsetD32, void *, int, size_t)                                                             \
  F(hipMemGetInfo, size_t *, size_t *)                                                             \
  F(hipPointerGetAttributes, HipPointer *, const void *)                                           \
  F(hipStreamCreateWithFlags, void **, unsigned)                                                   \
  F(hipStreamDestroy, void *)                                                                      \
  F(hipStreamSynchronize, void *)                                                                  \
  F(hipStreamQuery, void *)                                                                        \
  F(hipStreamWaitEvent, void *, void *, unsigned)                                                  \
  F(hipEventCreateWithFlags, void **, unsigned)                                                    \
  F(hipEventRecord, void *, void *)                                                                \
  F(hipEventSynchronize, void *)                                                                   \
  F(hipEventQuery, void *)                                                                         \
  F(hipEventElapsedTime, float *, void *, void *)                                                  \
  F(hipEventDestroy, void *)                                                                       \
  F(hipModuleLoadData, void **, const void *)                                                      \
  F(hipModuleUnload, void *)                                                                       \
  F(hipModuleGetFunction, void **, void *, const char *)                                           \
  F(hipModuleLaunchKernel, void *, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned,     \
    unsigned, void *, void **, void **)                                                            \
  F(hipModuleOccupancyMaxActiveBlocksPerMultiprocessor, int *, void *, int, size_t)                \
  F(hipModuleLaunchCooperativeKernel, void *, unsigned, unsigned, unsigned, unsigned, unsigned,    \
    unsigned, unsigned, void *, void **)                                                           \
  F(hipGraphCreate, void **, unsigned)                                                             \
  F(hipGraphDestroy, void *)                                                                       \
  F(hipGraphAddKernelNode, void **, void *, void *const *, size_t, const HipKernelNode *)          \
  F(hipGraphAddMemcpyNode1D, void **, void *, void *const *, size_t, void *, const void *, size_t, \
    int)                                                                                           \
  F(hipGraphInstantiateWithFlags, void **, void *, unsigned long long)                             \
  F(hipGraphLaunch, void *, void *)                                                                \
  F(hipGraphExecDestroy, void *)                                                                   \
  F(hipGraphExecKernelNodeSetParams, void *, void *, const HipKernelNode *)                        \
  F(hipGraphExecMemcpyNodeSetParams1D, void *, void *, void *, const void *, size_t, int)

struct HipLibrary {
#define MGX_HIP_FIELD(name, ...) int (*name)(__VA_ARGS__);
  MGX_HIP_FUNCTIONS(MGX_HIP_FIELD)
#undef MGX_HIP_FIELD
  const char *(*hipGetErrorName)(int);
  const char *(*hipGetErrorString)(int);
  const char *(*fault)(); // Of the emulated library; nullptr for others.
  void *handle;
};

// The process's library; the first call chooses it. `path` is "" for the usual places. A device
// error where there is none, a usage error for another one than the process has.
const HipLibrary &hip_library(const std::string &path);
// The library that was chosen.
const HipLibrary &hip();
// Whether the process may call it: a child of the one that opened it may not.
bool hip_survives();

// Throws a device error for a status other than success. `purpose` ends the message, `kernel` is
// that of a launch.
[[noreturn]] void hip_failed(int status, const char *function, const std::string &purpose,
                             const std::string &kernel = {});
inline void hip_check(int status, const char *function, const std::string &purpose = {}) {
  if (status != 0) [[unlikely]]
    hip_failed(status, function, purpose);
}
// Whether the work that hipEventQuery or hipStreamQuery was asked about is over, well or not.
bool hip_done(int status);

// Calls a function of the library, which must succeed.
#define HIP(name, ...) hip_check(hip().name(__VA_ARGS__), #name)

// An object of HIP, destroyed with this one. HIP needs no current device for that; what fails,
// fails.
template <auto Destroy> class HipOwned {
public:
  HipOwned() = default;
  HipOwned(const HipOwned &) = delete;
  ~HipOwned() { reset(); }

  void **made() { return &handle; }
  void *get() const { return handle; }
  void reset() {
    if (handle && hip_survives() && (hip().*Destroy)(handle) != 0)
      hip().hipGetLastError();
    handle = nullptr;
  }

private:
  void *handle = nullptr;
};
using HipStream = HipOwned<&HipLibrary::hipStreamDestroy>;
using HipEvent = HipOwned<&HipLibrary::hipEventDestroy>;

// Makes a device the thread's current one for a while.
class CurrentDevice {
public:
  explicit CurrentDevice(int number);
  ~CurrentDevice();
  CurrentDevice(const CurrentDevice &) = delete;

private:
  int number, before = 0;
};

} // namespace mgx
