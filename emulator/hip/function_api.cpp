// Attributes of functions, and occupancy.
#include <algorithm>

#include "module.h"

using namespace mgx::hip;
namespace emu = mgx::emu;

namespace {

constexpr unsigned kOccupancyFlags = 1;  // hipOccupancyDisableCachingOverride

int registers_of(const emu::Kernel& kernel) { return int(kernel.vgprs + kernel.agprs); }

int attribute_of(const Function& function, hipFunction_attribute attribute) {
  const emu::Kernel& kernel = *function.kernel;
  const emu::Chip& chip = function.module->device.chip;
  switch (attribute) {
    case HIP_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK: return int(kernel.max_workgroup);
    case HIP_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES: return int(kernel.group_bytes);
    case HIP_FUNC_ATTRIBUTE_CONST_SIZE_BYTES: return 0;
    case HIP_FUNC_ATTRIBUTE_LOCAL_SIZE_BYTES: return int(kernel.private_bytes);
    case HIP_FUNC_ATTRIBUTE_NUM_REGS: return registers_of(kernel);
    case HIP_FUNC_ATTRIBUTE_PTX_VERSION:
    case HIP_FUNC_ATTRIBUTE_BINARY_VERSION: return chip.major * 10 + chip.minor;
    case HIP_FUNC_ATTRIBUTE_CACHE_MODE_CA: return 0;
    case HIP_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES: return int(function.dynamic_lds_limit());
    case HIP_FUNC_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT: return function.carveout;
    default: fail(hipErrorInvalidValue);
  }
}

int active_blocks(const Function& function, int block, size_t dynamic_lds) {
  const emu::Kernel& kernel = *function.kernel;
  require(block > 0, hipErrorInvalidValue);
  if (unsigned(block) > kernel.max_workgroup || dynamic_lds > function.dynamic_lds_limit())
    return 0;
  return int(
      emu::occupancy(kernel, function.module->device.chip, unsigned(block), uint32_t(dynamic_lds)));
}

// The largest number of resident work-items decides; of equals, the largest block.
void best_block(const Function& function, size_t dynamic_lds, int limit, int* grid, int* block) {
  require(grid && block, hipErrorInvalidValue);
  const emu::Kernel& kernel = *function.kernel;
  const emu::Chip& chip = function.module->device.chip;
  int wave = int(kernel.wave_size);
  int largest = int(kernel.max_workgroup);
  if (limit > 0) largest = std::min(largest, limit);
  int best_items = 0;
  *grid = *block = 0;
  for (int size = std::max(wave, largest / wave * wave); size >= wave; size -= wave) {
    int candidate = std::min(size, largest);
    int blocks = active_blocks(function, candidate, dynamic_lds);
    if (blocks * candidate <= best_items) continue;
    best_items = blocks * candidate;
    *block = candidate;
    *grid = blocks * int(chip.compute_units);
  }
}

void max_active(int* out, const void* function, int block, size_t dynamic_lds, unsigned flags) {
  require(out != nullptr && flags <= kOccupancyFlags, hipErrorInvalidValue);
  *out = active_blocks(*find_function(function, current_device()), block, dynamic_lds);
}

void set_attribute(const void* function, int attribute, int value) {
  auto found = find_function(function, current_device());
  if (attribute == hipFuncAttributeMaxDynamicSharedMemorySize) {
    require(value >= 0 && uint64_t(value) + found->kernel->group_bytes <=
                              found->module->device.chip.lds_bytes,
            hipErrorInvalidValue);
    found->max_dynamic_lds = value;
  } else if (attribute == hipFuncAttributePreferredSharedMemoryCarveout) {
    require(value >= -1 && value <= 100, hipErrorInvalidValue);
    found->carveout = value;
  } else {
    fail(hipErrorInvalidValue);
  }
}

}  // namespace

MGX_EXPORT hipError_t hipFuncGetAttribute(int* value, hipFunction_attribute attribute,
                                          hipFunction_t function) {
  MGX_API(kPlain, {
    require(value != nullptr, hipErrorInvalidValue);
    auto found = runtime().functions.find(function);
    require(found != nullptr, hipErrorInvalidHandle);
    *value = attribute_of(*found, attribute);
  });
}

MGX_EXPORT hipError_t hipFuncGetAttributes(hipFuncAttributes* out, const void* function) {
  MGX_API(kPlain, {
    require(out != nullptr, hipErrorInvalidValue);
    auto found = find_function(function, current_device());
    *out = {};
    out->binaryVersion = attribute_of(*found, HIP_FUNC_ATTRIBUTE_BINARY_VERSION);
    out->ptxVersion = out->binaryVersion;
    out->localSizeBytes = found->kernel->private_bytes;
    out->maxDynamicSharedSizeBytes = int(found->dynamic_lds_limit());
    out->maxThreadsPerBlock = int(found->kernel->max_workgroup);
    out->numRegs = registers_of(*found->kernel);
    out->preferredShmemCarveout = found->carveout;
    out->sharedSizeBytes = found->kernel->group_bytes;
  });
}

MGX_EXPORT hipError_t hipFuncSetAttribute(const void* function, hipFuncAttribute attribute,
                                          int value) {
  MGX_API(kPlain, { set_attribute(function, int(attribute), value); });
}

MGX_EXPORT hipError_t hipFuncSetCacheConfig(const void* function, hipFuncCache_t config) {
  MGX_API(kPlain, {
    require(config >= hipFuncCachePreferNone && config <= hipFuncCachePreferEqual,
            hipErrorInvalidValue);
    find_function(function, current_device());
  });
}

MGX_EXPORT hipError_t hipFuncSetSharedMemConfig(const void* function, hipSharedMemConfig config) {
  MGX_API(kPlain, {
    require(config >= hipSharedMemBankSizeDefault && config <= hipSharedMemBankSizeEightByte,
            hipErrorInvalidValue);
    find_function(function, current_device());
  });
}

MGX_EXPORT hipError_t hipGetFuncBySymbol(hipFunction_t* out, const void* symbol) {
  MGX_API(kPlain, {
    require(out && symbol, hipErrorInvalidValue);
    auto found = find_stub(symbol, current_device());
    require(found != nullptr, hipErrorInvalidDeviceFunction);
    *out = found->handle;
  });
}

MGX_EXPORT const char* hipKernelNameRef(const hipFunction_t function) {
  auto found = runtime().functions.find(function);
  return found ? found->kernel->name.c_str() : nullptr;
}

MGX_EXPORT const char* hipKernelNameRefByPtr(const void* stub, hipStream_t) {
  const char* name = nullptr;
  api(__func__, kPlain,
      [&] { name = find_function(stub, current_device())->kernel->name.c_str(); });
  return name;
}

MGX_EXPORT hipError_t hipModuleOccupancyMaxActiveBlocksPerMultiprocessor(int* blocks,
                                                                         hipFunction_t function,
                                                                         int block,
                                                                         size_t dynamic_lds) {
  MGX_API(kPlain, { max_active(blocks, function, block, dynamic_lds, 0); });
}

MGX_EXPORT hipError_t hipModuleOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(
    int* blocks, hipFunction_t function, int block, size_t dynamic_lds, unsigned int flags) {
  MGX_API(kPlain, { max_active(blocks, function, block, dynamic_lds, flags); });
}

MGX_EXPORT hipError_t hipOccupancyMaxActiveBlocksPerMultiprocessor(int* blocks,
                                                                   const void* function, int block,
                                                                   size_t dynamic_lds) {
  MGX_API(kPlain, { max_active(blocks, function, block, dynamic_lds, 0); });
}

MGX_EXPORT hipError_t hipOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(
    int* blocks, const void* function, int block, size_t dynamic_lds, unsigned int flags) {
  MGX_API(kPlain, { max_active(blocks, function, block, dynamic_lds, flags); });
}

MGX_EXPORT hipError_t hipModuleOccupancyMaxPotentialBlockSize(int* grid, int* block,
                                                              hipFunction_t function,
                                                              size_t dynamic_lds, int limit) {
  MGX_API(kPlain, {
    best_block(*find_function(function, current_device()), dynamic_lds, limit, grid, block);
  });
}

MGX_EXPORT hipError_t hipModuleOccupancyMaxPotentialBlockSizeWithFlags(int* grid, int* block,
                                                                       hipFunction_t function,
                                                                       size_t dynamic_lds,
                                                                       int limit,
                                                                       unsigned int flags) {
  MGX_API(kPlain, {
    require(flags <= kOccupancyFlags, hipErrorInvalidValue);
    best_block(*find_function(function, current_device()), dynamic_lds, limit, grid, block);
  });
}

MGX_EXPORT hipError_t hipOccupancyMaxPotentialBlockSize(int* grid, int* block, const void* function,
                                                        size_t dynamic_lds, int limit) {
  MGX_API(kPlain, {
    best_block(*find_function(function, current_device()), dynamic_lds, limit, grid, block);
  });
}

MGX_EXPORT hipError_t hipOccupancyAvailableDynamicSMemPerBlock(size_t* bytes, const void* function,
                                                               int blocks, int block) {
  MGX_API(kPlain, {
    require(bytes && blocks > 0 && block > 0, hipErrorInvalidValue);
    auto found = find_function(function, current_device());
    const emu::Chip& chip = found->module->device.chip;
    uint32_t share = std::min(chip.lds_bytes, chip.lds_per_cu / uint32_t(blocks));
    *bytes = share > found->kernel->group_bytes ? share - found->kernel->group_bytes : 0;
  });
}
