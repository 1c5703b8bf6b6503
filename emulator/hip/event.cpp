// Events at the C ABI.
#include "event.h"

#include "capture.h"
#include "settings.h"

using namespace mgx::hip;

namespace mgx::hip {

std::shared_ptr<Event> find_event(hipEvent_t handle) {
  auto event = runtime().events.find(handle);
  require(event != nullptr, hipErrorInvalidHandle);
  return event;
}

}  // namespace mgx::hip

namespace {

constexpr unsigned kEventFlags = hipEventBlockingSync | hipEventDisableTiming |
                                 hipEventInterprocess | hipEventDisableSystemFence |
                                 hipEventReleaseToDevice | hipEventReleaseToSystem;

void create_event(hipEvent_t* out, unsigned flags) {
  require(out != nullptr, hipErrorInvalidValue);
  require((flags & ~kEventFlags) == 0, hipErrorInvalidValue);
  unsigned release = hipEventReleaseToDevice | hipEventReleaseToSystem;
  require((flags & release) != release, hipErrorInvalidValue);
  // Another process could not read the time, and there is no other process here.
  require(!(flags & hipEventInterprocess) || (flags & hipEventDisableTiming), hipErrorInvalidValue);
  require(!(flags & hipEventInterprocess), hipErrorNotSupported);
  Device& device = current_device();
  device.check_fault();
  auto event = std::make_shared<Event>(device, flags);
  event->handle = static_cast<hipEvent_t>(runtime().events.add(event));
  *out = event->handle;
}

void record_event(hipEvent_t handle, hipStream_t stream_handle, unsigned flags) {
  require(handle != nullptr, hipErrorInvalidHandle);
  require(flags <= hipEventRecordExternal, hipErrorInvalidValue);
  auto event = find_event(handle);
  auto stream = find_stream(stream_handle);
  // hipErrorInvalidHandle: the event and the stream are of different devices.
  require(&event->device == &stream->device, hipErrorInvalidHandle);
  if (capture_record(*stream, event, flags & hipEventRecordExternal)) return;
  refuse_implicit(*stream);
  stream->submit(EmptyWork{}, event.get());
}

}  // namespace

MGX_EXPORT hipError_t hipEventCreate(hipEvent_t* event) {
  MGX_API(kPlain, { create_event(event, hipEventDefault); });
}

MGX_EXPORT hipError_t hipEventCreateWithFlags(hipEvent_t* event, unsigned flags) {
  MGX_API(kPlain, { create_event(event, flags); });
}

MGX_EXPORT hipError_t hipEventDestroy(hipEvent_t event) {
  MGX_API(kRelease, { require(runtime().events.take(event) != nullptr, hipErrorInvalidHandle); });
}

MGX_EXPORT hipError_t hipEventRecord(hipEvent_t event, hipStream_t stream) {
  MGX_API(kPlain, { record_event(event, stream, hipEventRecordDefault); });
}

MGX_EXPORT hipError_t hipEventRecordWithFlags(hipEvent_t event, hipStream_t stream,
                                              unsigned int flags) {
  MGX_API(kPlain, { record_event(event, stream, flags); });
}

MGX_EXPORT hipError_t hipEventSynchronize(hipEvent_t handle) {
  MGX_API(kPlain, {
    auto event = find_event(handle);
    refuse_captured(*event);
    require_outside_callback();
    if (Completed recorded = event->recorded()) host_waits(recorded);
    event->device.check_fault();
  });
}

MGX_EXPORT hipError_t hipEventQuery(hipEvent_t handle) {
  MGX_API(kPlain, {
    auto event = find_event(handle);
    refuse_captured(*event);
    event->device.check_fault();
    Completed recorded = event->recorded();
    return !recorded || host_finds_done(recorded) ? hipSuccess : hipErrorNotReady;
  });
}

MGX_EXPORT hipError_t hipEventElapsedTime(float* ms, hipEvent_t start_handle,
                                          hipEvent_t stop_handle) {
  MGX_API(kPlain, {
    require(ms != nullptr, hipErrorInvalidValue);
    auto start = find_event(start_handle);
    auto stop = find_event(stop_handle);
    require(!((start->flags | stop->flags) & hipEventDisableTiming), hipErrorInvalidHandle);
    require(&start->device == &stop->device, hipErrorInvalidHandle);
    refuse_captured(*start);
    refuse_captured(*stop);
    Completed first = start->recorded();
    Completed second = stop->recorded();
    require(first && second, hipErrorInvalidHandle);
    if (!host_finds_done(first) || !host_finds_done(second)) return hipErrorNotReady;
    start->device.check_fault();
    *ms = float(second->end() - first->end());
    return hipSuccess;
  });
}
