// Copies at the C ABI.
#include "capture.h"
#include "memory.h"
#include "module.h"
#include "settings.h"
#include "stream.h"

using namespace mgx::hip;

namespace {

bool empty(const CopyWork& copy) { return !copy.width || !copy.height || !copy.depth; }

// Copies of which HIP does not promise that they have ended when a waiting call returns: within
// a device, and those from pageable memory, which may still be on their way behind a buffer.
bool may_outlast_call(const CopyWork& copy) {
  return is_device_address(copy.dst) && (is_device_address(copy.src) || is_pageable(copy.src));
}

// In stream order. The caller may reuse pageable memory when the call returns, so such a source
// is read now and such a destination waited for.
void copy_async(CopyWork copy, hipStream_t handle) {
  auto stream = find_stream(handle);
  stream->device.check_fault();
  check_copy(copy);
  if (empty(copy)) return;
  if (capture_work(*stream, copy)) return;
  const bool returns_when_done = is_pageable(copy.dst);
  if (!settings().async) {
    Completed done = stream->submit(std::move(copy));
    if (returns_when_done) host_waits(done);
    return;
  }
  bool wait = returns_when_done;
  if (!wait && is_pageable(copy.src) && copy.height == 1 && copy.depth == 1)
    copy.staged.assign(copy.src, copy.src + copy.width);
  else wait = wait || is_pageable(copy.src);
  Completed done = stream->submit(std::move(copy));
  if (returns_when_done) host_waits(done);
  else if (wait) done->wait();
}

// Ordered behind the stream's work and complete when the call returns.
void copy_now(CopyWork copy, hipStream_t handle) {
  auto stream = find_stream(handle);
  stream->device.check_fault();
  check_copy(copy);
  if (stream->capturing) refuse_capturing(*stream);
  refuse_implicit(*stream);
  if (empty(copy)) return;
  const bool outlasts = may_outlast_call(copy);
  Completed done = stream->submit(std::move(copy));
  done->wait();
  if (!outlasts) host_waits(done);
  stream->device.check_fault();
}

CopyWork linear(void* dst, const void* src, size_t bytes, hipMemcpyKind kind) {
  return linear_copy(dst, src, bytes, kind);
}

CopyWork rows(void* dst, size_t dst_pitch, const void* src, size_t src_pitch, size_t width,
              size_t height, hipMemcpyKind kind) {
  CopyWork copy = linear_copy(dst, src, width, kind);
  copy.height = height;
  copy.dst_pitch = dst_pitch;
  copy.src_pitch = src_pitch;
  require(!width || !height || (dst_pitch >= width && src_pitch >= width),
          hipErrorInvalidPitchValue);
  return copy;
}

void* pick(hipMemoryType type, void* host, void* device) {
  switch (type) {
    case hipMemoryTypeHost: return host;
    case hipMemoryTypeDevice:
    case hipMemoryTypeUnified:
    case hipMemoryTypeManaged: return device;
    case hipMemoryTypeArray: fail(hipErrorNotSupported);
    default: fail(hipErrorInvalidValue);
  }
}

hipMemcpyKind kind_of(hipMemoryType dst, hipMemoryType src) {
  if (dst == hipMemoryTypeUnified || src == hipMemoryTypeUnified) return hipMemcpyDefault;
  bool to_host = dst == hipMemoryTypeHost, from_host = src == hipMemoryTypeHost;
  if (to_host) return from_host ? hipMemcpyHostToHost : hipMemcpyDeviceToHost;
  return from_host ? hipMemcpyHostToDevice : hipMemcpyDeviceToDevice;
}

CopyWork from_2d(const hip_Memcpy2D* params) {
  require(params != nullptr, hipErrorInvalidValue);
  const hip_Memcpy2D& p = *params;
  auto* dst = static_cast<uint8_t*>(pick(p.dstMemoryType, p.dstHost, p.dstDevice));
  auto* src =
      static_cast<uint8_t*>(pick(p.srcMemoryType, const_cast<void*>(p.srcHost), p.srcDevice));
  return rows(dst + p.dstY * p.dstPitch + p.dstXInBytes, p.dstPitch,
              src + p.srcY * p.srcPitch + p.srcXInBytes, p.srcPitch, p.WidthInBytes, p.Height,
              kind_of(p.dstMemoryType, p.srcMemoryType));
}

CopyWork from_3d(const HIP_MEMCPY3D* params) {
  require(params != nullptr, hipErrorInvalidValue);
  const HIP_MEMCPY3D& p = *params;
  auto* dst = static_cast<uint8_t*>(pick(p.dstMemoryType, p.dstHost, p.dstDevice));
  auto* src =
      static_cast<uint8_t*>(pick(p.srcMemoryType, const_cast<void*>(p.srcHost), p.srcDevice));
  size_t dst_slice = p.dstPitch * p.dstHeight, src_slice = p.srcPitch * p.srcHeight;
  CopyWork copy = rows(dst + p.dstZ * dst_slice + p.dstY * p.dstPitch + p.dstXInBytes, p.dstPitch,
                       src + p.srcZ * src_slice + p.srcY * p.srcPitch + p.srcXInBytes, p.srcPitch,
                       p.WidthInBytes, p.Height, kind_of(p.dstMemoryType, p.srcMemoryType));
  copy.depth = p.Depth;
  copy.dst_slice = dst_slice;
  copy.src_slice = src_slice;
  return copy;
}

void check_devices(int first, int second) {
  runtime().device(first);
  runtime().device(second);
}

// A part of a registered variable; throws hipErrorInvalidValue outside it.
uint8_t* inside_symbol(const void* symbol, size_t bytes, size_t offset) {
  Symbol found = find_symbol(symbol, current_device());
  require(offset <= found.size && bytes <= found.size - offset, hipErrorInvalidValue);
  return static_cast<uint8_t*>(found.address) + offset;
}

CopyWork to_symbol(const void* symbol, const void* src, size_t bytes, size_t offset,
                   hipMemcpyKind kind) {
  require(kind != hipMemcpyDeviceToHost && kind != hipMemcpyHostToHost,
          hipErrorInvalidMemcpyDirection);
  return linear_copy(inside_symbol(symbol, bytes, offset), src, bytes, kind);
}

CopyWork from_symbol(void* dst, const void* symbol, size_t bytes, size_t offset,
                     hipMemcpyKind kind) {
  require(kind != hipMemcpyHostToDevice && kind != hipMemcpyHostToHost,
          hipErrorInvalidMemcpyDirection);
  return linear_copy(dst, inside_symbol(symbol, bytes, offset), bytes, kind);
}

}  // namespace

MGX_EXPORT hipError_t hipMemcpy(void* dst, const void* src, size_t bytes, hipMemcpyKind kind) {
  MGX_API(kPlain, { copy_now(linear(dst, src, bytes, kind), nullptr); });
}

MGX_EXPORT hipError_t hipMemcpyWithStream(void* dst, const void* src, size_t bytes,
                                          hipMemcpyKind kind, hipStream_t stream) {
  MGX_API(kPlain, { copy_now(linear(dst, src, bytes, kind), stream); });
}

MGX_EXPORT hipError_t hipMemcpyAsync(void* dst, const void* src, size_t bytes, hipMemcpyKind kind,
                                     hipStream_t stream) {
  MGX_API(kPlain, { copy_async(linear(dst, src, bytes, kind), stream); });
}

MGX_EXPORT hipError_t hipMemcpyHtoD(hipDeviceptr_t dst, const void* src, size_t bytes) {
  MGX_API(kPlain, { copy_now(linear(dst, src, bytes, hipMemcpyHostToDevice), nullptr); });
}

MGX_EXPORT hipError_t hipMemcpyDtoH(void* dst, hipDeviceptr_t src, size_t bytes) {
  MGX_API(kPlain, { copy_now(linear(dst, src, bytes, hipMemcpyDeviceToHost), nullptr); });
}

MGX_EXPORT hipError_t hipMemcpyDtoD(hipDeviceptr_t dst, hipDeviceptr_t src, size_t bytes) {
  MGX_API(kPlain, { copy_now(linear(dst, src, bytes, hipMemcpyDeviceToDevice), nullptr); });
}

MGX_EXPORT hipError_t hipMemcpyHtoDAsync(hipDeviceptr_t dst, const void* src, size_t bytes,
                                         hipStream_t stream) {
  MGX_API(kPlain, { copy_async(linear(dst, src, bytes, hipMemcpyHostToDevice), stream); });
}

MGX_EXPORT hipError_t hipMemcpyDtoHAsync(void* dst, hipDeviceptr_t src, size_t bytes,
                                         hipStream_t stream) {
  MGX_API(kPlain, { copy_async(linear(dst, src, bytes, hipMemcpyDeviceToHost), stream); });
}

MGX_EXPORT hipError_t hipMemcpyDtoDAsync(hipDeviceptr_t dst, hipDeviceptr_t src, size_t bytes,
                                         hipStream_t stream) {
  MGX_API(kPlain, { copy_async(linear(dst, src, bytes, hipMemcpyDeviceToDevice), stream); });
}

MGX_EXPORT hipError_t hipMemcpy2D(void* dst, size_t dst_pitch, const void* src, size_t src_pitch,
                                  size_t width, size_t height, hipMemcpyKind kind) {
  MGX_API(kPlain,
          { copy_now(rows(dst, dst_pitch, src, src_pitch, width, height, kind), nullptr); });
}

MGX_EXPORT hipError_t hipMemcpy2DAsync(void* dst, size_t dst_pitch, const void* src,
                                       size_t src_pitch, size_t width, size_t height,
                                       hipMemcpyKind kind, hipStream_t stream) {
  MGX_API(kPlain,
          { copy_async(rows(dst, dst_pitch, src, src_pitch, width, height, kind), stream); });
}

MGX_EXPORT hipError_t hipMemcpyParam2D(const hip_Memcpy2D* params) {
  MGX_API(kPlain, { copy_now(from_2d(params), nullptr); });
}

MGX_EXPORT hipError_t hipMemcpyParam2DAsync(const hip_Memcpy2D* params, hipStream_t stream) {
  MGX_API(kPlain, { copy_async(from_2d(params), stream); });
}

MGX_EXPORT hipError_t hipDrvMemcpy2DUnaligned(const hip_Memcpy2D* params) {
  MGX_API(kPlain, { copy_now(from_2d(params), nullptr); });
}

MGX_EXPORT hipError_t hipMemcpy3D(const hipMemcpy3DParms* params) {
  MGX_API(kPlain, {
    require(params != nullptr, hipErrorInvalidValue);
    copy_now(copy_3d(*params), nullptr);
  });
}

MGX_EXPORT hipError_t hipMemcpy3DAsync(const hipMemcpy3DParms* params, hipStream_t stream) {
  MGX_API(kPlain, {
    require(params != nullptr, hipErrorInvalidValue);
    copy_async(copy_3d(*params), stream);
  });
}

MGX_EXPORT hipError_t hipDrvMemcpy3D(const HIP_MEMCPY3D* params) {
  MGX_API(kPlain, { copy_now(from_3d(params), nullptr); });
}

MGX_EXPORT hipError_t hipDrvMemcpy3DAsync(const HIP_MEMCPY3D* params, hipStream_t stream) {
  MGX_API(kPlain, { copy_async(from_3d(params), stream); });
}

MGX_EXPORT hipError_t hipMemcpyPeer(void* dst, int dst_device, const void* src, int src_device,
                                    size_t bytes) {
  MGX_API(kPlain, {
    check_devices(dst_device, src_device);
    // In turn with the work of both devices, as CUDA's reference says of the same function.
    for (int ordinal : {src_device, dst_device}) runtime().device(ordinal).drain();
    copy_now(linear(dst, src, bytes, hipMemcpyDeviceToDevice), nullptr);
    current_device().null_stream().drain();
  });
}

MGX_EXPORT hipError_t hipMemcpyPeerAsync(void* dst, int dst_device, const void* src, int src_device,
                                         size_t bytes, hipStream_t stream) {
  MGX_API(kPlain, {
    check_devices(dst_device, src_device);
    copy_async(linear(dst, src, bytes, hipMemcpyDeviceToDevice), stream);
  });
}

MGX_EXPORT hipError_t hipMemcpyToSymbol(const void* symbol, const void* src, size_t bytes,
                                        size_t offset, hipMemcpyKind kind) {
  MGX_API(kPlain, { copy_now(to_symbol(symbol, src, bytes, offset, kind), nullptr); });
}

MGX_EXPORT hipError_t hipMemcpyToSymbolAsync(const void* symbol, const void* src, size_t bytes,
                                             size_t offset, hipMemcpyKind kind,
                                             hipStream_t stream) {
  MGX_API(kPlain, { copy_async(to_symbol(symbol, src, bytes, offset, kind), stream); });
}

MGX_EXPORT hipError_t hipMemcpyFromSymbol(void* dst, const void* symbol, size_t bytes,
                                          size_t offset, hipMemcpyKind kind) {
  MGX_API(kPlain, { copy_now(from_symbol(dst, symbol, bytes, offset, kind), nullptr); });
}

MGX_EXPORT hipError_t hipMemcpyFromSymbolAsync(void* dst, const void* symbol, size_t bytes,
                                               size_t offset, hipMemcpyKind kind,
                                               hipStream_t stream) {
  MGX_API(kPlain, { copy_async(from_symbol(dst, symbol, bytes, offset, kind), stream); });
}
