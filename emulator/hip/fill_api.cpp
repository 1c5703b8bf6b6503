// Fills (memset) at the C ABI.
#include "capture.h"
#include "memory.h"
#include "stream.h"

using namespace mgx::hip;

namespace {

void fill_async(const FillWork& fill, hipStream_t handle) {
  auto stream = find_stream(handle);
  stream->device.check_fault();
  check_fill(fill);
  if (fill.width && fill.height && fill.depth) enqueue(*stream, fill);
}

void fill_now(const FillWork& fill) {
  auto stream = find_stream(nullptr);
  stream->device.check_fault();
  check_fill(fill);
  refuse_implicit(*stream);
  if (!fill.width || !fill.height || !fill.depth) return;
  Completed done = stream->submit(fill);
  done->wait();
  // HIP lets a fill of device memory outlast the call.
  if (!is_device_address(fill.dst)) host_waits(done);
  stream->device.check_fault();
}

FillWork rows(void* dst, size_t pitch, unsigned value, unsigned element, size_t width,
              size_t height) {
  FillWork fill = linear_fill(dst, value, element, width);
  fill.height = height;
  fill.pitch = pitch;
  return fill;
}

FillWork box(const hipPitchedPtr& pointer, int value, const hipExtent& extent) {
  FillWork fill =
      rows(pointer.ptr, pointer.pitch, unsigned(value) & 0xff, 1, extent.width, extent.height);
  fill.depth = extent.depth;
  fill.slice = pointer.pitch * (pointer.ysize ? pointer.ysize : extent.height);
  return fill;
}

}  // namespace

MGX_EXPORT hipError_t hipMemset(void* dst, int value, size_t bytes) {
  MGX_API(kPlain, { fill_now(linear_fill(dst, unsigned(value) & 0xff, 1, bytes)); });
}

MGX_EXPORT hipError_t hipMemsetAsync(void* dst, int value, size_t bytes, hipStream_t stream) {
  MGX_API(kPlain, { fill_async(linear_fill(dst, unsigned(value) & 0xff, 1, bytes), stream); });
}

MGX_EXPORT hipError_t hipMemsetD8(hipDeviceptr_t dst, unsigned char value, size_t count) {
  MGX_API(kPlain, { fill_now(linear_fill(dst, value, 1, count)); });
}

MGX_EXPORT hipError_t hipMemsetD8Async(hipDeviceptr_t dst, unsigned char value, size_t count,
                                       hipStream_t stream) {
  MGX_API(kPlain, { fill_async(linear_fill(dst, value, 1, count), stream); });
}

MGX_EXPORT hipError_t hipMemsetD16(hipDeviceptr_t dst, unsigned short value, size_t count) {
  MGX_API(kPlain, { fill_now(linear_fill(dst, value, 2, count)); });
}

MGX_EXPORT hipError_t hipMemsetD16Async(hipDeviceptr_t dst, unsigned short value, size_t count,
                                        hipStream_t stream) {
  MGX_API(kPlain, { fill_async(linear_fill(dst, value, 2, count), stream); });
}

MGX_EXPORT hipError_t hipMemsetD32(hipDeviceptr_t dst, int value, size_t count) {
  MGX_API(kPlain, { fill_now(linear_fill(dst, unsigned(value), 4, count)); });
}

MGX_EXPORT hipError_t hipMemsetD32Async(hipDeviceptr_t dst, int value, size_t count,
                                        hipStream_t stream) {
  MGX_API(kPlain, { fill_async(linear_fill(dst, unsigned(value), 4, count), stream); });
}

MGX_EXPORT hipError_t hipMemset2D(void* dst, size_t pitch, int value, size_t width, size_t height) {
  MGX_API(kPlain, { fill_now(rows(dst, pitch, unsigned(value) & 0xff, 1, width, height)); });
}

MGX_EXPORT hipError_t hipMemset2DAsync(void* dst, size_t pitch, int value, size_t width,
                                       size_t height, hipStream_t stream) {
  MGX_API(kPlain,
          { fill_async(rows(dst, pitch, unsigned(value) & 0xff, 1, width, height), stream); });
}

MGX_EXPORT hipError_t hipMemset3D(hipPitchedPtr pointer, int value, hipExtent extent) {
  MGX_API(kPlain, { fill_now(box(pointer, value, extent)); });
}

MGX_EXPORT hipError_t hipMemset3DAsync(hipPitchedPtr pointer, int value, hipExtent extent,
                                       hipStream_t stream) {
  MGX_API(kPlain, { fill_async(box(pointer, value, extent), stream); });
}

#define MGX_FILL_ROWS(bits, type, element)                                                      \
  MGX_EXPORT hipError_t hipMemsetD2D##bits(hipDeviceptr_t dst, size_t pitch, type value,        \
                                           size_t width, size_t height) {                       \
    MGX_API(kPlain, { fill_now(rows(dst, pitch, value, element, width, height)); });            \
  }                                                                                             \
  MGX_EXPORT hipError_t hipMemsetD2D##bits##Async(hipDeviceptr_t dst, size_t pitch, type value, \
                                                  size_t width, size_t height,                  \
                                                  hipStream_t stream) {                         \
    MGX_API(kPlain, { fill_async(rows(dst, pitch, value, element, width, height), stream); });  \
  }
MGX_FILL_ROWS(8, unsigned char, 1)
MGX_FILL_ROWS(16, unsigned short, 2)
MGX_FILL_ROWS(32, unsigned int, 4)
#undef MGX_FILL_ROWS
