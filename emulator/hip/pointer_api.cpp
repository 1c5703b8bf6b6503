// The runtime's facts about a pointer.
#include "memory.h"

using namespace mgx::hip;

namespace {

hipMemoryType type_of(const Allocation* allocation) {
  if (!allocation) return hipMemoryTypeUnregistered;
  switch (allocation->kind) {
    case MemoryKind::device: return hipMemoryTypeDevice;
    case MemoryKind::managed: return hipMemoryTypeManaged;
    default: return hipMemoryTypeHost;
  }
}

template <class T>
void put(void* data, T value) {
  *static_cast<T*>(data) = value;
}

// Throws hipErrorInvalidValue for an attribute that does not exist or an unknown pointer.
void get_attribute(void* data, hipPointer_attribute attribute, void* pointer) {
  require(data != nullptr, hipErrorInvalidValue);
  auto allocation = find_allocation(pointer);
  require(allocation != nullptr, hipErrorInvalidValue);
  bool visible = allocation->host_visible();
  switch (attribute) {
    case HIP_POINTER_ATTRIBUTE_CONTEXT:
      return put<hipCtx_t>(data, hipCtx_t(uintptr_t(allocation->device->ordinal) + 1));
    case HIP_POINTER_ATTRIBUTE_MEMORY_TYPE: return put<unsigned>(data, type_of(allocation.get()));
    case HIP_POINTER_ATTRIBUTE_DEVICE_POINTER: return put<void*>(data, pointer);
    case HIP_POINTER_ATTRIBUTE_HOST_POINTER:
      require(visible, hipErrorInvalidValue);
      return put<void*>(data, pointer);
    case HIP_POINTER_ATTRIBUTE_SYNC_MEMOPS: return put<unsigned>(data, 1);
    case HIP_POINTER_ATTRIBUTE_BUFFER_ID: return put<uint64_t>(data, allocation->id);
    case HIP_POINTER_ATTRIBUTE_IS_MANAGED:
      return put<bool>(data, allocation->kind == MemoryKind::managed);
    case HIP_POINTER_ATTRIBUTE_DEVICE_ORDINAL: return put<int>(data, allocation->device->ordinal);
    case HIP_POINTER_ATTRIBUTE_RANGE_START_ADDR:
      return put<void*>(data, reinterpret_cast<void*>(allocation->base));
    case HIP_POINTER_ATTRIBUTE_RANGE_SIZE: return put<size_t>(data, allocation->size);
    case HIP_POINTER_ATTRIBUTE_MAPPED: return put<bool>(data, true);
    case HIP_POINTER_ATTRIBUTE_IS_LEGACY_HIP_IPC_CAPABLE:
    case HIP_POINTER_ATTRIBUTE_IS_GPU_DIRECT_RDMA_CAPABLE: return put<bool>(data, false);
    case HIP_POINTER_ATTRIBUTE_ALLOWED_HANDLE_TYPES: return put<uint64_t>(data, 0);
    case HIP_POINTER_ATTRIBUTE_ACCESS_FLAGS:
      return put<unsigned>(data, hipMemAccessFlagsProtReadWrite);
    case HIP_POINTER_ATTRIBUTE_MEMPOOL_HANDLE:
      return put<hipMemPool_t>(data, allocation->pool ? allocation->pool->handle : nullptr);
    case HIP_POINTER_ATTRIBUTE_P2P_TOKENS: fail(hipErrorNotSupported);
    default: fail(hipErrorInvalidValue);
  }
}

}  // namespace

MGX_EXPORT hipError_t hipPointerGetAttributes(hipPointerAttribute_t* out, const void* pointer) {
  MGX_API(kPlain, {
    require(out && pointer, hipErrorInvalidValue);
    auto allocation = find_allocation(pointer);
    *out = {};
    out->type = type_of(allocation.get());
    if (!allocation) {
      // Freed device memory is an error, an unknown host pointer is just unregistered.
      out->device = hipInvalidDeviceId;
      require(!is_device_address(pointer), hipErrorInvalidValue);
      return;
    }
    out->device = allocation->device->ordinal;
    out->devicePointer = const_cast<void*>(pointer);
    out->hostPointer = allocation->host_visible() ? const_cast<void*>(pointer) : nullptr;
    out->isManaged = allocation->kind == MemoryKind::managed;
    out->allocationFlags = allocation->flags;
  });
}

MGX_EXPORT hipError_t hipPointerGetAttribute(void* data, hipPointer_attribute attribute,
                                             hipDeviceptr_t pointer) {
  MGX_API(kPlain, {
    require(pointer != nullptr, hipErrorInvalidValue);
    get_attribute(data, attribute, pointer);
  });
}

MGX_EXPORT hipError_t hipDrvPointerGetAttributes(unsigned int count,
                                                 hipPointer_attribute* attributes, void** data,
                                                 hipDeviceptr_t pointer) {
  MGX_API(kPlain, {
    require(count && attributes && data && pointer, hipErrorInvalidValue);
    for (unsigned i = 0; i < count; ++i) get_attribute(data[i], attributes[i], pointer);
  });
}

MGX_EXPORT hipError_t hipPointerSetAttribute(const void* value, hipPointer_attribute attribute,
                                             hipDeviceptr_t pointer) {
  MGX_API(kPlain, {
    require(value && pointer, hipErrorInvalidValue);
    require(attribute == HIP_POINTER_ATTRIBUTE_SYNC_MEMOPS, hipErrorInvalidValue);
    auto allocation = find_allocation(pointer);
    require(allocation && allocation->kind == MemoryKind::device, hipErrorInvalidDevicePointer);
  });
}

MGX_EXPORT hipError_t hipMemGetAddressRange(hipDeviceptr_t* base, size_t* size,
                                            hipDeviceptr_t pointer) {
  MGX_API(kPlain, {
    require(base || size, hipErrorInvalidValue);
    auto allocation = find_allocation(pointer);
    require(allocation != nullptr, hipErrorNotFound);
    if (base) *base = reinterpret_cast<void*>(allocation->base);
    if (size) *size = allocation->size;
  });
}

MGX_EXPORT hipError_t hipMemPtrGetInfo(void* pointer, size_t* size) {
  MGX_API(kPlain, {
    require(pointer && size, hipErrorInvalidValue);
    auto allocation = find_allocation(pointer);
    require(allocation && allocation->base == uint64_t(pointer), hipErrorInvalidValue);
    *size = allocation->size;
  });
}
