//===- hip_device.cpp - a GPU
//-------------------------------------------------------------------------===//
#include "hip_device.h"
#include "cpu_memory.h"
#include "targets.h"

#include <algorithm>

#include <dlfcn.h>

namespace mgx {

namespace {
std::string chip(const HipProperties &properties) {
  std::string name = properties.text(hip_architecture); // gfx942:sramecc+:xnack-
  return name.substr(0, name.find(':'));
}

// Two memory transfers, and 256 FMAs of a compute unit, each clock.
Rates rates_of(const HipProperties &properties) {
  double units = properties.number<int>(hip_compute_units);
  double transfers =
      2e3 * properties.number<int>(hip_memory_clock) * properties.number<int>(hip_memory_bits) / 8;
  double flops = 512e3 * properties.number<int>(hip_clock) * units;
  return {std::max(transfers, 1e9), std::max(flops, 1e9), std::max(units, 1.0)};
}
} // namespace

HipDevice::HipDevice(int ordinal, const HipProperties &properties)
    : Device(properties.text(hip_name), chip(properties)), rates(rates_of(properties)),
      ordinal(ordinal), total(properties.number<uint64_t>(hip_total_memory)) {}

std::vector<std::string> HipDevice::identities() const { return gpu_identities(target()); }

void *HipDevice::allocate(mgx_memory memory, uint64_t bytes) {
  void *data = nullptr;
  CurrentDevice current(ordinal);
  bytes = std::max<uint64_t>(bytes, 1);
  if (memory == MGX_MEMORY_HOST)
    return aligned_memory(bytes);
  if (memory == MGX_MEMORY_PINNED)
    HIP(hipHostMalloc, &data, bytes, 0);
  else
    HIP(hipMalloc, &data, bytes);
  return data;
}

void HipDevice::free(mgx_memory memory, void *data) {
  if (memory == MGX_MEMORY_HOST)
    return free_aligned(data);
  if (memory == MGX_MEMORY_PINNED)
    HIP(hipHostFree, data);
  else
    HIP(hipFree, data);
}

void HipDevice::copy(void *target, const void *source, uint64_t bytes, void *stream,
                     bool is_async) {
  CurrentDevice current(ordinal);
  HIP(hipMemcpyAsync, target, source, bytes, hip_default, stream);
  if (!is_async)
    HIP(hipStreamSynchronize, stream);
}

void *HipDevice::create_stream() {
  void *stream = nullptr;
  CurrentDevice current(ordinal);
  HIP(hipStreamCreateWithFlags, &stream, hip_non_blocking);
  return stream;
}

void HipDevice::synchronize(void *stream) {
  CurrentDevice current(ordinal);
  HIP(hipStreamSynchronize, stream);
}

void HipDevice::release_stream(void *stream) { HIP(hipStreamDestroy, stream); }

void *HipDevice::symbol(const char *function) const { return dlsym(hip().handle, function); }

bool HipDevice::owns(const mgx_tensor &tensor) const {
  if (tensor.memory != MGX_MEMORY_ANY)
    return tensor.memory == MGX_MEMORY_DEVICE;
  HipPointer found{};
  if (!tensor.data || hip().hipPointerGetAttributes(&found, tensor.data) != 0) {
    hip().hipGetLastError(); // Memory that HIP does not know is the process's.
    return false;
  }
  if (found.type != hip_memory_device && found.type != hip_memory_managed)
    return false;
  if (found.type == hip_memory_device && found.device != ordinal)
    fail(MGX_ERROR_USAGE, "a tensor lies on device ", found.device, "; the program is on device ",
         ordinal);
  return true;
}

size_t gpu_count(const mgx_device_options &options) {
  int count = 0;
  const HipLibrary &library = hip_library(options.hip_library ? options.hip_library : "");
  int status = library.hipGetDeviceCount(&count);
  if (status == 100) { // hipErrorNoDevice
    library.hipGetLastError();
    return 0;
  }
  hip_check(status, "hipGetDeviceCount");
  return static_cast<size_t>(count);
}

std::shared_ptr<Device> open_gpu(int number, const mgx_device_options &options) {
  size_t count = gpu_count(options);
  if (static_cast<size_t>(number) >= count)
    fail(MGX_ERROR_TARGET, "there is no device hip:", number, "; HIP has ", count, " devices");
  HipProperties properties{};
  HIP(hipGetDevicePropertiesR0600, &properties, number);
  return std::make_shared<HipDevice>(number, properties);
}

} // namespace mgx
