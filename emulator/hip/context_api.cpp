// Contexts and peer access at the C ABI. A context is its device: each has its primary one.
#include "launch.h"
#include "memory.h"
#include "stream.h"

using namespace mgx::hip;

namespace {

// Small numbers: no address of a program, and never reused for another device.
hipCtx_t context_of(int ordinal) { return reinterpret_cast<hipCtx_t>(uintptr_t(ordinal) + 1); }

int device_of(hipCtx_t context) {
  uintptr_t number = reinterpret_cast<uintptr_t>(context);
  require(number >= 1 && number <= runtime().devices.size(), hipErrorInvalidContext);
  return int(number) - 1;
}

void enable_peer(int peer, unsigned flags) {
  require(flags == 0, hipErrorInvalidValue);
  Device& device = current_device();
  Device& other = runtime().device(peer);
  require(&device != &other, hipErrorInvalidDevice);
  {
    std::lock_guard lock(device.state_mutex);
    require(device.peers.insert(peer).second, hipErrorPeerAccessAlreadyEnabled);
  }
  map_peer(device, other);
}

void disable_peer(int peer) {
  Device& device = current_device();
  Device& other = runtime().device(peer);
  {
    std::lock_guard lock(device.state_mutex);
    require(device.peers.erase(peer) == 1, hipErrorPeerAccessNotEnabled);
  }
  unmap_peer(device, other);
}

void check_bank_size(hipSharedMemConfig config) {
  require(config >= hipSharedMemBankSizeDefault && config <= hipSharedMemBankSizeEightByte,
          hipErrorInvalidValue);
}

void check_cache(hipFuncCache_t config) {
  require(config >= hipFuncCachePreferNone && config <= hipFuncCachePreferEqual,
          hipErrorInvalidValue);
}

template <class T>
void put(T* out, T value) {
  require(out != nullptr, hipErrorInvalidValue);
  *out = value;
}

}  // namespace

MGX_EXPORT hipError_t hipDeviceCanAccessPeer(int* can, int device, int peer) {
  MGX_API(kPlain, {
    require(can != nullptr, hipErrorInvalidValue);
    *can = &runtime().device(device) != &runtime().device(peer);
  });
}

MGX_EXPORT hipError_t hipDeviceEnablePeerAccess(int peer, unsigned int flags) {
  MGX_API(kPlain, { enable_peer(peer, flags); });
}

MGX_EXPORT hipError_t hipDeviceDisablePeerAccess(int peer) {
  MGX_API(kPlain, { disable_peer(peer); });
}

MGX_EXPORT hipError_t hipDeviceGetP2PAttribute(int* value, hipDeviceP2PAttr attribute, int first,
                                               int second) {
  MGX_API(kPlain, {
    require(value != nullptr, hipErrorInvalidValue);
    require(&runtime().device(first) != &runtime().device(second), hipErrorInvalidDevice);
    switch (attribute) {
      case hipDevP2PAttrPerformanceRank: *value = 0; return;
      case hipDevP2PAttrAccessSupported:
      case hipDevP2PAttrNativeAtomicSupported: *value = 1; return;
      case hipDevP2PAttrHipArrayAccessSupported: *value = 0; return;
      default: fail(hipErrorInvalidValue);
    }
  });
}

MGX_EXPORT hipError_t hipDevicePrimaryCtxRetain(hipCtx_t* context, hipDevice_t ordinal) {
  MGX_API(kPlain, {
    require(context != nullptr, hipErrorInvalidValue);
    Device& device = runtime().device(ordinal);
    std::lock_guard lock(device.state_mutex);
    device.primary_references++;
    *context = context_of(ordinal);
  });
}

MGX_EXPORT hipError_t hipDevicePrimaryCtxRelease(hipDevice_t ordinal) {
  MGX_API(kRelease, {
    Device& device = runtime().device(ordinal);
    std::lock_guard lock(device.state_mutex);
    // The runtime keeps the primary context for itself, so releasing once too often is harmless.
    if (device.primary_references > 0) device.primary_references--;
  });
}

MGX_EXPORT hipError_t hipDevicePrimaryCtxReset(hipDevice_t ordinal) {
  MGX_API(kRelease, { runtime().device(ordinal).reset(); });
}

MGX_EXPORT hipError_t hipDevicePrimaryCtxGetState(hipDevice_t ordinal, unsigned int* flags,
                                                  int* active) {
  MGX_API(kPlain, {
    require(flags && active, hipErrorInvalidValue);
    Device& device = runtime().device(ordinal);
    std::lock_guard lock(device.state_mutex);
    *flags = device.flags;
    *active = device.primary_references > 0 || device.memory_if_made() != nullptr;
  });
}

MGX_EXPORT hipError_t hipDevicePrimaryCtxSetFlags(hipDevice_t ordinal, unsigned int flags) {
  MGX_API(kPlain, {
    Device& device = runtime().device(ordinal);
    std::lock_guard lock(device.state_mutex);
    device.flags = flags;
  });
}

MGX_EXPORT hipError_t hipCtxCreate(hipCtx_t* context, unsigned int, hipDevice_t ordinal) {
  MGX_API(kPlain, {
    require(context != nullptr, hipErrorInvalidValue);
    runtime().device(ordinal);
    *context = context_of(ordinal);
    thread_state().contexts.push_back(context_of(thread_state().device));
    thread_state().device = ordinal;
  });
}

MGX_EXPORT hipError_t hipCtxDestroy(hipCtx_t context) {
  MGX_API(kRelease, {
    device_of(context);
    auto& stack = thread_state().contexts;
    if (context == context_of(thread_state().device) && !stack.empty()) {
      thread_state().device = device_of(stack.back());
      stack.pop_back();
    }
  });
}

MGX_EXPORT hipError_t hipCtxGetCurrent(hipCtx_t* context) {
  MGX_API(kPlain, { put(context, context_of(thread_state().device)); });
}

MGX_EXPORT hipError_t hipCtxSetCurrent(hipCtx_t context) {
  MGX_API(kPlain, {
    // Null unbinds: the thread is then on the first device, as a new thread is.
    thread_state().device = context ? device_of(context) : 0;
  });
}

MGX_EXPORT hipError_t hipCtxPushCurrent(hipCtx_t context) {
  MGX_API(kPlain, {
    int ordinal = device_of(context);
    thread_state().contexts.push_back(context_of(thread_state().device));
    thread_state().device = ordinal;
  });
}

MGX_EXPORT hipError_t hipCtxPopCurrent(hipCtx_t* context) {
  MGX_API(kPlain, {
    auto& stack = thread_state().contexts;
    require(!stack.empty(), hipErrorInvalidContext);
    if (context) *context = context_of(thread_state().device);
    thread_state().device = device_of(stack.back());
    stack.pop_back();
  });
}

MGX_EXPORT hipError_t hipCtxGetDevice(hipDevice_t* device) {
  MGX_API(kPlain, { put(device, thread_state().device); });
}

MGX_EXPORT hipError_t hipCtxSynchronize(void) {
  MGX_API(kUnsafeInCapture, { current_device().synchronize(); });
}

MGX_EXPORT hipError_t hipCtxGetFlags(unsigned int* flags) {
  MGX_API(kPlain, {
    Device& device = current_device();
    std::lock_guard lock(device.state_mutex);
    put(flags, device.flags);
  });
}

MGX_EXPORT hipError_t hipCtxEnablePeerAccess(hipCtx_t peer, unsigned int flags) {
  MGX_API(kPlain, { enable_peer(device_of(peer), flags); });
}

MGX_EXPORT hipError_t hipCtxDisablePeerAccess(hipCtx_t peer) {
  MGX_API(kPlain, { disable_peer(device_of(peer)); });
}

// Preferences that AMD devices have no knob for: accepted and reported as the default.
MGX_EXPORT hipError_t hipDeviceSetCacheConfig(hipFuncCache_t config) {
  MGX_API(kPlain, { check_cache(config); });
}

MGX_EXPORT hipError_t hipDeviceGetCacheConfig(hipFuncCache_t* config) {
  MGX_API(kPlain, { put(config, hipFuncCachePreferNone); });
}

MGX_EXPORT hipError_t hipDeviceSetSharedMemConfig(hipSharedMemConfig config) {
  MGX_API(kPlain, { check_bank_size(config); });
}

MGX_EXPORT hipError_t hipDeviceGetSharedMemConfig(hipSharedMemConfig* config) {
  MGX_API(kPlain, { put(config, hipSharedMemBankSizeFourByte); });
}

MGX_EXPORT hipError_t hipCtxGetCacheConfig(hipFuncCache_t* config) {
  MGX_API(kPlain, { put(config, hipFuncCachePreferNone); });
}

MGX_EXPORT hipError_t hipCtxSetCacheConfig(hipFuncCache_t config) {
  MGX_API(kPlain, { check_cache(config); });
}

MGX_EXPORT hipError_t hipCtxGetSharedMemConfig(hipSharedMemConfig* config) {
  MGX_API(kPlain, { put(config, hipSharedMemBankSizeFourByte); });
}

MGX_EXPORT hipError_t hipCtxSetSharedMemConfig(hipSharedMemConfig config) {
  MGX_API(kPlain, { check_bank_size(config); });
}
