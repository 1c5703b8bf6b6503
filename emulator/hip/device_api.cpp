// Devices, their properties and limits at the C ABI.
#include <algorithm>
#include <cstdio>
#include <cstring>

#include "memory.h"
#include "stream.h"

using namespace mgx::hip;
namespace emu = mgx::emu;

namespace {

// HIP 7.15 as HIP counts: major * 10^7 + minor * 10^5 + patch.
constexpr int kVersion = 71500000;
constexpr int kMaxThreads = 1024;
constexpr unsigned kDeviceFlags =
    hipDeviceScheduleMask | hipDeviceMapHost | hipDeviceLmemResizeToMax;

int clamp_int(uint64_t value) { return value > INT32_MAX ? INT32_MAX : int(value); }

int registers_per_block(const emu::Chip& chip) {
  // Real parts report the vector registers of one SIMD's lanes, all waves together.
  return int(chip.total_vgprs) * 128;
}

void copy_text(char* out, size_t size, const char* text) { std::snprintf(out, size, "%s", text); }

// Stable for a place and a chip, so that programs can recognise a device.
void fill_uuid(hipUUID& uuid, const Device& device) {
  std::memset(uuid.bytes, 0, sizeof uuid.bytes);
  char text[17];
  std::snprintf(text, sizeof text, "MGX%02d%s", device.ordinal % 100, device.chip.name);
  std::memcpy(uuid.bytes, text, std::min(std::strlen(text), sizeof uuid.bytes));
}

void fill_architecture(hipDeviceArch_t& arch) {
  arch.hasGlobalInt32Atomics = arch.hasGlobalFloatAtomicExch = 1;
  arch.hasSharedInt32Atomics = arch.hasSharedFloatAtomicExch = 1;
  arch.hasFloatAtomicAdd = arch.hasGlobalInt64Atomics = arch.hasSharedInt64Atomics = 1;
  arch.hasDoubles = arch.hasWarpVote = arch.hasWarpBallot = arch.hasWarpShuffle = 1;
  arch.hasThreadFenceSystem = arch.has3dGrid = 1;
}

void fill_properties(hipDeviceProp_tR0600& p, const Device& device) {
  const emu::Chip& chip = device.chip;
  p = {};
  copy_text(p.name, sizeof p.name, chip.product);
  copy_text(p.gcnArchName, sizeof p.gcnArchName, chip.target_id);
  fill_uuid(p.uuid, device);
  fill_architecture(p.arch);
  p.totalGlobalMem = chip.memory_bytes;
  p.totalConstMem = chip.memory_bytes < INT32_MAX ? chip.memory_bytes : INT32_MAX;
  p.sharedMemPerBlock = p.sharedMemPerBlockOptin = chip.lds_bytes;
  p.sharedMemPerMultiprocessor = p.maxSharedMemoryPerMultiProcessor = chip.lds_per_cu;
  p.regsPerBlock = p.regsPerMultiprocessor = registers_per_block(chip);
  p.warpSize = chip.wave_size;
  p.memPitch = INT32_MAX;
  p.maxThreadsPerBlock = kMaxThreads;
  for (int& n : p.maxThreadsDim) n = kMaxThreads;
  p.maxGridSize[0] = INT32_MAX;
  p.maxGridSize[1] = p.maxGridSize[2] = 65536;
  p.clockRate = int(chip.clock_khz);
  p.clockInstructionRate = 100000;
  p.memoryClockRate = int(chip.memory_clock_khz);
  p.memoryBusWidth = int(chip.memory_bus_bits);
  p.l2CacheSize = int(chip.l2_bytes);
  p.major = chip.major;
  p.minor = chip.minor;
  p.textureAlignment = p.texturePitchAlignment = p.surfaceAlignment = 256;
  p.multiProcessorCount = chip.multiprocessors;
  p.maxThreadsPerMultiProcessor = int(chip.max_threads_per_multiprocessor);
  p.maxBlocksPerMultiProcessor = int(chip.max_threads_per_multiprocessor / chip.wave_size);
  p.pciBusID = device.ordinal + 1;
  p.concurrentKernels = p.asyncEngineCount = p.canMapHostMemory = p.unifiedAddressing = 1;
  p.managedMemory = p.concurrentManagedAccess = p.directManagedMemAccessFromHost = 1;
  p.cooperativeLaunch = p.hostRegisterSupported = p.memoryPoolsSupported = 1;
  p.canUseHostPointerForRegisteredMem = p.hostNativeAtomicSupported = 1;
  p.streamPrioritiesSupported = p.isLargeBar = 1;
}

int attribute_of(const Device& device, int attribute) {
  hipDeviceProp_tR0600 p;
  fill_properties(p, device);
  const emu::Chip& chip = device.chip;
  switch (attribute) {
    case hipDeviceAttributeAsyncEngineCount: return p.asyncEngineCount;
    case hipDeviceAttributeCanMapHostMemory: return p.canMapHostMemory;
    case hipDeviceAttributeCanUseHostPointerForRegisteredMem:
      return p.canUseHostPointerForRegisteredMem;
    case hipDeviceAttributeClockRate: return p.clockRate;
    case hipDeviceAttributeConcurrentKernels: return p.concurrentKernels;
    case hipDeviceAttributeConcurrentManagedAccess: return p.concurrentManagedAccess;
    case hipDeviceAttributeCooperativeLaunch: return p.cooperativeLaunch;
    case hipDeviceAttributeDirectManagedMemAccessFromHost: return p.directManagedMemAccessFromHost;
    case hipDeviceAttributeHostNativeAtomicSupported: return p.hostNativeAtomicSupported;
    case hipDeviceAttributeL2CacheSize: return p.l2CacheSize;
    case hipDeviceAttributeComputeCapabilityMajor: return p.major;
    case hipDeviceAttributeComputeCapabilityMinor: return p.minor;
    case hipDeviceAttributeManagedMemory: return p.managedMemory;
    case hipDeviceAttributeMaxBlocksPerMultiProcessor: return p.maxBlocksPerMultiProcessor;
    case hipDeviceAttributeMaxBlockDimX:
    case hipDeviceAttributeMaxBlockDimY:
    case hipDeviceAttributeMaxBlockDimZ:
    case hipDeviceAttributeMaxThreadsDim:
    case hipDeviceAttributeMaxThreadsPerBlock: return kMaxThreads;
    case hipDeviceAttributeMaxGridDimX: return p.maxGridSize[0];
    case hipDeviceAttributeMaxGridDimY: return p.maxGridSize[1];
    case hipDeviceAttributeMaxGridDimZ: return p.maxGridSize[2];
    case hipDeviceAttributeMaxThreadsPerMultiProcessor: return p.maxThreadsPerMultiProcessor;
    case hipDeviceAttributeMaxPitch: return clamp_int(p.memPitch);
    case hipDeviceAttributeMemoryBusWidth: return p.memoryBusWidth;
    case hipDeviceAttributeMemoryClockRate: return p.memoryClockRate;
    case hipDeviceAttributeMultiprocessorCount: return p.multiProcessorCount;
    case hipDeviceAttributePhysicalMultiProcessorCount: return chip.compute_units;
    case hipDeviceAttributePciBusId: return p.pciBusID;
    case hipDeviceAttributePciDeviceId: return p.pciDeviceID;
    case hipDeviceAttributePciDomainId: return p.pciDomainID;
    case hipDeviceAttributePciChipId: return int(chip.pci_device_id);
    case hipDeviceAttributeMaxRegistersPerBlock:
    case hipDeviceAttributeMaxRegistersPerMultiprocessor: return p.regsPerBlock;
    case hipDeviceAttributeMaxSharedMemoryPerBlock:
    case hipDeviceAttributeSharedMemPerBlockOptin: return int(chip.lds_bytes);
    case hipDeviceAttributeSharedMemPerMultiprocessor:
    case hipDeviceAttributeMaxSharedMemoryPerMultiprocessor: return int(chip.lds_per_cu);
    case hipDeviceAttributeStreamPrioritiesSupported: return p.streamPrioritiesSupported;
    case hipDeviceAttributeSurfaceAlignment:
    case hipDeviceAttributeTextureAlignment:
    case hipDeviceAttributeTexturePitchAlignment: return 256;
    case hipDeviceAttributeTotalConstantMemory: return clamp_int(p.totalConstMem);
    case hipDeviceAttributeTotalGlobalMem: return clamp_int(p.totalGlobalMem);
    case hipDeviceAttributeUnifiedAddressing: return 1;
    case hipDeviceAttributeWarpSize: return p.warpSize;
    case hipDeviceAttributeMemoryPoolsSupported:
    case hipDeviceAttributeHostRegisterSupported: return 1;
    case hipDeviceAttributeClockInstructionRate:
    case hipDeviceAttributeWallClockRate: return p.clockInstructionRate;
    case hipDeviceAttributeIsLargeBar:
    case hipDeviceAttributeCanUseStreamWaitValue:
    case hipDeviceAttributeFineGrainSupport: return 1;
    case hipDeviceAttributeNumberOfXccs: return 1;
    case hipDeviceAttributeMaxAvailableVgprsPerThread: return chip.max_vgprs;
    default: break;
  }
  // Known, and absent in these devices: textures, ECC, timeouts and the like.
  bool known = (attribute >= 0 && attribute <= 95) || (attribute >= 10000 && attribute <= 10022);
  require(known, hipErrorInvalidValue);
  return 0;
}

void bus_id(char* out, int size, const Device& device) {
  std::snprintf(out, size_t(size), "0000:%02x:00.0", device.ordinal + 1);
}

}  // namespace

MGX_EXPORT hipError_t hipInit(unsigned int flags) {
  MGX_API(kPlain, { require(flags == 0, hipErrorInvalidValue); });
}

MGX_EXPORT hipError_t hipDriverGetVersion(int* version) {
  MGX_API(kPlain, {
    require(version != nullptr, hipErrorInvalidValue);
    *version = kVersion;
  });
}

MGX_EXPORT hipError_t hipRuntimeGetVersion(int* version) {
  MGX_API(kPlain, {
    require(version != nullptr, hipErrorInvalidValue);
    *version = kVersion;
  });
}

MGX_EXPORT hipError_t hipGetDeviceCount(int* count) {
  if (count) *count = int(runtime().devices.size());
  MGX_API(kPlain, { require(count != nullptr, hipErrorInvalidValue); });
}

MGX_EXPORT hipError_t hipSetDevice(int ordinal) {
  MGX_API(kPlain, {
    runtime().device(ordinal);
    thread_state().device = ordinal;
  });
}

MGX_EXPORT hipError_t hipSetValidDevices(int* ordinals, int count) {
  MGX_API(kPlain, {
    require(count == 0 || (ordinals && count > 0), hipErrorInvalidValue);
    for (int i = 0; i < count; ++i) runtime().device(ordinals[i]);
    if (count) thread_state().device = ordinals[0];
  });
}

MGX_EXPORT hipError_t hipGetDevice(int* ordinal) {
  MGX_API(kPlain, {
    require(ordinal != nullptr, hipErrorInvalidValue);
    *ordinal = thread_state().device;
  });
}

MGX_EXPORT hipError_t hipDeviceGet(hipDevice_t* device, int ordinal) {
  MGX_API(kPlain, {
    require(device != nullptr, hipErrorInvalidValue);
    *device = runtime().device(ordinal).ordinal;
  });
}

MGX_EXPORT hipError_t hipDeviceGetAttribute(int* value, hipDeviceAttribute_t attribute,
                                            int ordinal) {
  MGX_API(kPlain, {
    require(value != nullptr, hipErrorInvalidValue);
    *value = attribute_of(runtime().device(ordinal), int(attribute));
  });
}

MGX_EXPORT hipError_t hipGetDevicePropertiesR0600(hipDeviceProp_tR0600* properties, int ordinal) {
  MGX_API(kPlain, {
    require(properties != nullptr, hipErrorInvalidValue);
    fill_properties(*properties, runtime().device(ordinal));
  });
}

MGX_EXPORT hipError_t hipChooseDeviceR0600(int* ordinal, const hipDeviceProp_tR0600* wanted) {
  MGX_API(kPlain, {
    require(ordinal && wanted, hipErrorInvalidValue);
    int best = 0, best_score = -1;
    for (const auto& device : runtime().devices) {
      hipDeviceProp_tR0600 p;
      fill_properties(p, *device);
      int score =
          (wanted->major && p.major >= wanted->major) +
          (wanted->multiProcessorCount && p.multiProcessorCount >= wanted->multiProcessorCount) +
          (wanted->totalGlobalMem && p.totalGlobalMem >= wanted->totalGlobalMem) +
          2 * (wanted->gcnArchName[0] &&
               std::strncmp(wanted->gcnArchName, p.gcnArchName, 256) == 0);
      if (score <= best_score) continue;
      best_score = score;
      best = device->ordinal;
    }
    *ordinal = best;
  });
}

MGX_EXPORT hipError_t hipDeviceComputeCapability(int* major, int* minor, hipDevice_t ordinal) {
  MGX_API(kPlain, {
    require(major && minor, hipErrorInvalidValue);
    const emu::Chip& chip = runtime().device(ordinal).chip;
    *major = chip.major;
    *minor = chip.minor;
  });
}

MGX_EXPORT hipError_t hipDeviceGetName(char* name, int size, hipDevice_t ordinal) {
  MGX_API(kPlain, {
    require(name && size > 0, hipErrorInvalidValue);
    copy_text(name, size_t(size), runtime().device(ordinal).chip.product);
  });
}

MGX_EXPORT hipError_t hipDeviceGetUuid(hipUUID* uuid, hipDevice_t ordinal) {
  MGX_API(kPlain, {
    require(uuid != nullptr, hipErrorInvalidValue);
    fill_uuid(*uuid, runtime().device(ordinal));
  });
}

MGX_EXPORT hipError_t hipDeviceTotalMem(size_t* bytes, hipDevice_t ordinal) {
  MGX_API(kPlain, {
    require(bytes != nullptr, hipErrorInvalidValue);
    *bytes = runtime().device(ordinal).chip.memory_bytes;
  });
}

MGX_EXPORT hipError_t hipDeviceGetPCIBusId(char* id, int size, int ordinal) {
  MGX_API(kPlain, {
    require(id && size >= 13, hipErrorInvalidValue);
    bus_id(id, size, runtime().device(ordinal));
  });
}

MGX_EXPORT hipError_t hipDeviceGetByPCIBusId(int* ordinal, const char* id) {
  MGX_API(kPlain, {
    require(ordinal && id, hipErrorInvalidValue);
    for (const auto& device : runtime().devices) {
      char known[16];
      bus_id(known, sizeof known, *device);
      if (std::strcmp(known, id) != 0) continue;
      *ordinal = device->ordinal;
      return;
    }
    fail(hipErrorInvalidValue);
  });
}

MGX_EXPORT hipError_t hipDeviceSynchronize(void) {
  MGX_API(kUnsafeInCapture, { current_device().synchronize(); });
}

MGX_EXPORT hipError_t hipDeviceReset(void) {
  MGX_API(kRelease, { current_device().reset(); });
}

MGX_EXPORT hipError_t hipSetDeviceFlags(unsigned flags) {
  MGX_API(kPlain, {
    require((flags & ~kDeviceFlags) == 0, hipErrorInvalidValue);
    unsigned schedule = flags & hipDeviceScheduleMask;
    require(schedule != 3 && schedule < 5, hipErrorInvalidValue);
    Device& device = current_device();
    std::lock_guard lock(device.state_mutex);
    device.flags = flags;
  });
}

MGX_EXPORT hipError_t hipGetDeviceFlags(unsigned int* flags) {
  MGX_API(kPlain, {
    require(flags != nullptr, hipErrorInvalidValue);
    Device& device = current_device();
    std::lock_guard lock(device.state_mutex);
    *flags = device.flags;
  });
}

MGX_EXPORT hipError_t hipDeviceGetLimit(size_t* value, enum hipLimit_t limit) {
  MGX_API(kPlain, {
    require(value != nullptr, hipErrorInvalidValue);
    Device& device = current_device();
    std::lock_guard lock(device.state_mutex);
    switch (limit) {
      case hipLimitStackSize: *value = device.limits.stack; return;
      case hipLimitPrintfFifoSize: *value = device.limits.printf_fifo; return;
      case hipLimitMallocHeapSize: *value = device.limits.malloc_heap; return;
      default: fail(hipErrorUnsupportedLimit);
    }
  });
}

MGX_EXPORT hipError_t hipDeviceSetLimit(enum hipLimit_t limit, size_t value) {
  MGX_API(kPlain, {
    Device& device = current_device();
    std::lock_guard lock(device.state_mutex);
    switch (limit) {
      case hipLimitStackSize: device.limits.stack = value; return;
      case hipLimitPrintfFifoSize: device.limits.printf_fifo = value; return;
      case hipLimitMallocHeapSize: device.limits.malloc_heap = value; return;
      default: fail(hipErrorUnsupportedLimit);
    }
  });
}
