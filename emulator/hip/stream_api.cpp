// Streams at the C ABI: creation, queries, waiting, callbacks and values in memory.
#include <algorithm>

#include "capture.h"
#include "event.h"
#include "memory.h"
#include "stream.h"

using namespace mgx::hip;

namespace {

constexpr int kLeastPriority = 1, kGreatestPriority = -1;

void create_stream(hipStream_t* out, unsigned flags, int priority) {
  require(out != nullptr, hipErrorInvalidValue);
  require((flags & ~unsigned(hipStreamNonBlocking)) == 0, hipErrorInvalidValue);
  priority = std::max(kGreatestPriority, std::min(kLeastPriority, priority));
  Device& device = current_device();
  device.check_fault();
  auto stream = std::make_shared<Stream>(device, flags, priority);
  device.add_stream(stream);
  stream->handle = static_cast<hipStream_t>(runtime().streams.add(stream));
  *out = stream->handle;
}

void check_value_address(const void* address, size_t bytes) {
  require(address != nullptr, hipErrorInvalidValue);
  auto allocation = find_allocation(address);
  require(allocation && allocation->contains(uint64_t(address), bytes), hipErrorInvalidValue);
}

void wait_value(hipStream_t handle, void* address, uint64_t value, unsigned flags, uint64_t mask,
                unsigned bytes) {
  check_value_address(address, bytes);
  require(flags <= hipStreamWaitValueNor, hipErrorInvalidValue);
  auto stream = find_stream(handle);
  if (stream->capturing) refuse_capturing(*stream);
  stream->submit(WaitValueWork{address, value, mask, bytes, flags});
}

void write_value(hipStream_t handle, void* address, uint64_t value, unsigned flags,
                 unsigned bytes) {
  check_value_address(address, bytes);
  require(flags == 0, hipErrorInvalidValue);
  auto stream = find_stream(handle);
  if (stream->capturing) refuse_capturing(*stream);
  stream->submit(WriteValueWork{address, value, bytes});
}

hipError_t query(hipStream_t handle) {
  auto stream = find_stream(handle);
  if (stream->capturing) refuse_capturing(*stream);
  refuse_implicit(*stream);
  stream->device.check_fault();
  return stream->idle() ? hipSuccess : hipErrorNotReady;
}

void synchronize(hipStream_t handle) {
  auto stream = find_stream(handle);
  if (stream->capturing) refuse_capturing(*stream);
  refuse_implicit(*stream);
  stream->synchronize();
}

}  // namespace

MGX_EXPORT hipError_t hipStreamCreate(hipStream_t* stream) {
  MGX_API(kPlain, { create_stream(stream, hipStreamDefault, 0); });
}

MGX_EXPORT hipError_t hipStreamCreateWithFlags(hipStream_t* stream, unsigned int flags) {
  MGX_API(kPlain, { create_stream(stream, flags, 0); });
}

MGX_EXPORT hipError_t hipStreamCreateWithPriority(hipStream_t* stream, unsigned int flags,
                                                  int priority) {
  MGX_API(kPlain, { create_stream(stream, flags, priority); });
}

MGX_EXPORT hipError_t hipExtStreamCreateWithCUMask(hipStream_t* stream, uint32_t words,
                                                   const uint32_t* mask) {
  MGX_API(kPlain, {
    require(words > 0 && mask, hipErrorInvalidValue);
    create_stream(stream, hipStreamDefault, 0);
  });
}

MGX_EXPORT hipError_t hipDeviceGetStreamPriorityRange(int* least, int* greatest) {
  MGX_API(kPlain, {
    if (least) *least = kLeastPriority;
    if (greatest) *greatest = kGreatestPriority;
  });
}

MGX_EXPORT hipError_t hipStreamDestroy(hipStream_t handle) {
  MGX_API(kRelease, {
    require(handle != nullptr && handle != hipStreamLegacy && handle != hipStreamPerThread,
            hipErrorInvalidHandle);
    auto stream = runtime().streams.take(handle);
    require(stream != nullptr, hipErrorInvalidHandle);
    abandon_capture(*stream);
    stream->close();  // its worker finishes what is queued
  });
}

MGX_EXPORT hipError_t hipStreamQuery(hipStream_t stream) {
  MGX_API(kPlain, { return query(stream); });
}

MGX_EXPORT hipError_t hipStreamSynchronize(hipStream_t stream) {
  MGX_API(kPlain, { synchronize(stream); });
}

MGX_EXPORT hipError_t hipStreamWaitEvent(hipStream_t handle, hipEvent_t event_handle,
                                         unsigned int flags) {
  MGX_API(kPlain, {
    require(event_handle != nullptr, hipErrorInvalidHandle);
    require(flags <= hipEventWaitExternal, hipErrorInvalidValue);
    auto event = find_event(event_handle);
    auto stream = find_stream(handle);
    if (capture_wait(*stream, event, flags & hipEventWaitExternal)) return;
    // The latest record at this moment: a later one must not be waited for.
    if (Completed recorded = event->recorded()) stream->submit(EmptyWork{}, nullptr, {recorded});
  });
}

MGX_EXPORT hipError_t hipStreamGetFlags(hipStream_t stream, unsigned int* flags) {
  MGX_API(kPlain, {
    require(flags != nullptr, hipErrorInvalidValue);
    *flags = find_stream(stream)->flags;
  });
}

MGX_EXPORT hipError_t hipStreamGetId(hipStream_t stream, unsigned long long* id) {
  MGX_API(kPlain, {
    require(id != nullptr, hipErrorInvalidValue);
    *id = find_stream(stream)->id;
  });
}

MGX_EXPORT hipError_t hipStreamGetPriority(hipStream_t stream, int* priority) {
  MGX_API(kPlain, {
    require(priority != nullptr, hipErrorInvalidValue);
    *priority = find_stream(stream)->priority;
  });
}

MGX_EXPORT hipError_t hipStreamGetDevice(hipStream_t stream, hipDevice_t* device) {
  MGX_API(kPlain, {
    require(device != nullptr, hipErrorInvalidValue);
    *device = find_stream(stream)->device.ordinal;
  });
}

MGX_EXPORT int hipGetStreamDeviceId(hipStream_t stream) {
  int ordinal = -1;
  api(__func__, kPlain, [&] { ordinal = find_stream(stream)->device.ordinal; });
  return ordinal;
}

MGX_EXPORT hipError_t hipStreamAddCallback(hipStream_t handle, hipStreamCallback_t callback,
                                           void* data, unsigned int flags) {
  MGX_API(kPlain, {
    require(callback != nullptr && flags == 0, hipErrorInvalidValue);
    auto stream = find_stream(handle);
    if (stream->capturing) refuse_capturing(*stream);
    stream->submit(CallbackWork{callback, handle, data});
  });
}

MGX_EXPORT hipError_t hipLaunchHostFunc(hipStream_t handle, hipHostFn_t fn, void* data) {
  MGX_API(kPlain, {
    require(fn != nullptr, hipErrorInvalidValue);
    auto stream = find_stream(handle);
    enqueue(*stream, HostWork{fn, data});
  });
}

MGX_EXPORT hipError_t hipStreamWaitValue32(hipStream_t stream, void* address, uint32_t value,
                                           unsigned int flags, uint32_t mask) {
  MGX_API(kPlain, { wait_value(stream, address, value, flags, mask, 4); });
}

MGX_EXPORT hipError_t hipStreamWaitValue64(hipStream_t stream, void* address, uint64_t value,
                                           unsigned int flags, uint64_t mask) {
  MGX_API(kPlain, { wait_value(stream, address, value, flags, mask, 8); });
}

MGX_EXPORT hipError_t hipStreamWriteValue32(hipStream_t stream, void* address, uint32_t value,
                                            unsigned int flags) {
  MGX_API(kPlain, { write_value(stream, address, value, flags, 4); });
}

MGX_EXPORT hipError_t hipStreamWriteValue64(hipStream_t stream, void* address, uint64_t value,
                                            unsigned int flags) {
  MGX_API(kPlain, { write_value(stream, address, value, flags, 8); });
}
