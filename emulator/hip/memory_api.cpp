// Device, pinned, registered and managed memory at the C ABI.
#include "memory.h"

#include "capture.h"
#include "stream.h"

using namespace mgx::hip;

namespace {

constexpr unsigned kHostMallocFlags = hipHostMallocPortable | hipHostMallocMapped |
                                      hipHostMallocWriteCombined | hipHostMallocUncached |
                                      hipHostMallocNumaUser | hipHostMallocCoherent |
                                      hipHostMallocNonCoherent;
constexpr unsigned kRegisterFlags = hipHostRegisterPortable | hipHostRegisterMapped |
                                    hipHostRegisterIoMemory | hipHostRegisterReadOnly;

void malloc_device(void** out, size_t size, unsigned flags) {
  require(out != nullptr, hipErrorInvalidValue);
  Device& device = current_device();
  device.check_fault();
  *out = nullptr;
  if (size == 0) return;
  *out = reinterpret_cast<void*>(allocate_device(device, size, flags)->base);
}

void malloc_host(void** out, size_t size, unsigned flags, MemoryKind kind) {
  require(out != nullptr, hipErrorInvalidValue);
  Device& device = current_device();
  device.check_fault();
  *out = nullptr;
  if (size == 0) return;
  *out = reinterpret_cast<void*>(allocate_host(device, size, flags, kind)->base);
}

void host_malloc(void** out, size_t size, unsigned flags) {
  require((flags & ~kHostMallocFlags) == 0, hipErrorInvalidValue);
  unsigned coherence = hipHostMallocCoherent | hipHostMallocNonCoherent;
  require((flags & coherence) != coherence, hipErrorInvalidValue);
  malloc_host(out, size, flags, MemoryKind::host);
}

// Work may still use the memory: freeing waits for the device, as on real ones.
void free_waiting(const std::shared_ptr<Allocation>& allocation) {
  require(!allocation->freed.exchange(true), hipErrorInvalidValue);
  allocation->device->drain();
  give_back_now(FreeWork{allocation, allocation->of_graph});
}

void free_device(void* pointer) {
  if (!pointer) return;
  auto allocation = find_allocation(pointer);
  require(allocation && allocation->base == uint64_t(pointer) && !allocation->of_module,
          hipErrorInvalidValue);
  require(allocation->kind == MemoryKind::device || allocation->kind == MemoryKind::managed,
          hipErrorInvalidValue);
  free_waiting(allocation);
}

void free_host(void* pointer) {
  if (!pointer) return;
  auto allocation = find_allocation(pointer);
  require(
      allocation && allocation->base == uint64_t(pointer) && allocation->kind == MemoryKind::host,
      hipErrorInvalidValue);
  free_waiting(allocation);
}

// Rows start where a burst starts, as real parts align them.
constexpr size_t kPitch = 256;

void malloc_pitch(void** out, size_t* pitch, size_t width, size_t height, size_t depth) {
  require(out && pitch, hipErrorInvalidValue);
  *out = nullptr;
  if (width == 0 || height == 0 || depth == 0) return;
  require(width <= SIZE_MAX - kPitch, hipErrorOutOfMemory);
  size_t row = (width + kPitch - 1) / kPitch * kPitch;
  size_t bytes = 0;
  require(
      !__builtin_mul_overflow(row, height, &bytes) && !__builtin_mul_overflow(bytes, depth, &bytes),
      hipErrorOutOfMemory);
  malloc_device(out, bytes, hipDeviceMallocDefault);
  *pitch = row;
}

}  // namespace

MGX_EXPORT hipError_t hipMalloc(void** pointer, size_t size) {
  MGX_API(kUnsafeInCapture, { malloc_device(pointer, size, hipDeviceMallocDefault); });
}

MGX_EXPORT hipError_t hipExtMallocWithFlags(void** pointer, size_t size, unsigned int flags) {
  MGX_API(kUnsafeInCapture, {
    require(flags <= hipDeviceMallocContiguous, hipErrorInvalidValue);
    malloc_device(pointer, size, flags);
  });
}

MGX_EXPORT hipError_t hipFree(void* pointer) {
  MGX_API(kRelease | kUnsafeInCapture, { free_device(pointer); });
}

MGX_EXPORT hipError_t hipMallocPitch(void** pointer, size_t* pitch, size_t width, size_t height) {
  MGX_API(kUnsafeInCapture, { malloc_pitch(pointer, pitch, width, height, 1); });
}

MGX_EXPORT hipError_t hipMemAllocPitch(hipDeviceptr_t* pointer, size_t* pitch, size_t width,
                                       size_t height, unsigned int element) {
  MGX_API(kUnsafeInCapture, {
    require(element == 4 || element == 8 || element == 16, hipErrorInvalidValue);
    malloc_pitch(pointer, pitch, width, height, 1);
  });
}

MGX_EXPORT hipError_t hipMalloc3D(hipPitchedPtr* out, hipExtent extent) {
  MGX_API(kUnsafeInCapture, {
    require(out != nullptr, hipErrorInvalidValue);
    hipPitchedPtr made = {nullptr, 0, extent.width, extent.height};
    malloc_pitch(&made.ptr, &made.pitch, extent.width, extent.height, extent.depth);
    *out = made;
  });
}

MGX_EXPORT hipError_t hipHostMalloc(void** pointer, size_t size, unsigned int flags) {
  MGX_API(kUnsafeInCapture, { host_malloc(pointer, size, flags); });
}

MGX_EXPORT hipError_t hipHostAlloc(void** pointer, size_t size, unsigned int flags) {
  MGX_API(kUnsafeInCapture, { host_malloc(pointer, size, flags); });
}

MGX_EXPORT hipError_t hipMallocHost(void** pointer, size_t size) {
  MGX_API(kUnsafeInCapture, { host_malloc(pointer, size, hipHostMallocDefault); });
}

MGX_EXPORT hipError_t hipMemAllocHost(void** pointer, size_t size) {
  MGX_API(kUnsafeInCapture, { host_malloc(pointer, size, hipHostMallocDefault); });
}

MGX_EXPORT hipError_t hipHostFree(void* pointer) {
  MGX_API(kRelease | kUnsafeInCapture, { free_host(pointer); });
}

MGX_EXPORT hipError_t hipFreeHost(void* pointer) {
  MGX_API(kRelease | kUnsafeInCapture, { free_host(pointer); });
}

MGX_EXPORT hipError_t hipMallocManaged(void** pointer, size_t size, unsigned int flags) {
  MGX_API(kUnsafeInCapture, {
    require(flags == hipMemAttachGlobal || flags == hipMemAttachHost, hipErrorInvalidValue);
    malloc_host(pointer, size, flags, MemoryKind::managed);
  });
}

MGX_EXPORT hipError_t hipHostRegister(void* pointer, size_t size, unsigned int flags) {
  MGX_API(kUnsafeInCapture, {
    require(pointer && size, hipErrorInvalidValue);
    require((flags & ~kRegisterFlags) == 0, hipErrorInvalidValue);
    require(!is_device_address(pointer), hipErrorInvalidValue);
    register_range(current_device(), pointer, size, flags);
  });
}

MGX_EXPORT hipError_t hipHostUnregister(void* pointer) {
  MGX_API(kRelease | kUnsafeInCapture, {
    require(pointer != nullptr, hipErrorInvalidValue);
    auto allocation = find_allocation(pointer);
    require(allocation && allocation->base == uint64_t(pointer) &&
                allocation->kind == MemoryKind::registered,
            hipErrorHostMemoryNotRegistered);
    free_waiting(allocation);
  });
}

MGX_EXPORT hipError_t hipHostGetDevicePointer(void** device_pointer, void* host_pointer,
                                              unsigned int flags) {
  MGX_API(kPlain, {
    require(device_pointer && host_pointer && flags == 0, hipErrorInvalidValue);
    *device_pointer = nullptr;
    auto allocation = find_allocation(host_pointer);
    require(allocation && allocation->host_visible(), hipErrorInvalidValue);
    *device_pointer = host_pointer;
  });
}

MGX_EXPORT hipError_t hipHostGetFlags(unsigned int* flags, void* pointer) {
  MGX_API(kPlain, {
    require(flags && pointer, hipErrorInvalidValue);
    auto allocation = find_allocation(pointer);
    require(allocation && allocation->host_visible(), hipErrorInvalidValue);
    *flags = allocation->flags;
  });
}

MGX_EXPORT hipError_t hipMemGetInfo(size_t* free, size_t* total) {
  MGX_API(kPlain, {
    require(free || total, hipErrorInvalidValue);
    Device& device = current_device();
    if (free) *free = device.chip.memory_bytes - device.live_bytes;
    if (total) *total = device.chip.memory_bytes;
  });
}

MGX_EXPORT hipError_t hipMemAdvise(const void* pointer, size_t count, hipMemoryAdvise advice,
                                   int device) {
  MGX_API(kPlain, {
    require(pointer && count, hipErrorInvalidValue);
    require(device == hipCpuDeviceId || (device >= 0 && size_t(device) < runtime().devices.size()),
            hipErrorInvalidDevice);
    require((advice >= hipMemAdviseSetReadMostly && advice <= hipMemAdviseUnsetAccessedBy) ||
                advice == hipMemAdviseSetCoarseGrain || advice == hipMemAdviseUnsetCoarseGrain,
            hipErrorInvalidValue);
    auto allocation = find_allocation(pointer);
    require(allocation && allocation->contains(uint64_t(pointer), count), hipErrorInvalidValue);
  });
}

MGX_EXPORT hipError_t hipMemPrefetchAsync(const void* pointer, size_t count, int device,
                                          hipStream_t stream_handle) {
  MGX_API(kPlain, {
    require(pointer && count, hipErrorInvalidValue);
    require(device == hipCpuDeviceId || (device >= 0 && size_t(device) < runtime().devices.size()),
            hipErrorInvalidDevice);
    auto stream = find_stream(stream_handle);
    auto allocation = find_allocation(pointer);
    require(allocation && allocation->kind == MemoryKind::managed &&
                allocation->contains(uint64_t(pointer), count),
            hipErrorInvalidValue);
    enqueue(*stream, EmptyWork{});
  });
}
