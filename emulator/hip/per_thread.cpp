// The functions that a program compiled for per-thread default streams calls: those of the same
// name, with the null stream read as hipStreamPerThread.
#include "api.h"

using namespace mgx::hip;

#define MGX_PER_THREAD(name, parameters, arguments) \
  extern "C" hipError_t name parameters;            \
  MGX_EXPORT hipError_t name##_spt parameters { return name arguments; }

namespace {

hipStream_t own(hipStream_t stream) { return stream ? stream : hipStreamPerThread; }

}  // namespace

MGX_PER_THREAD(hipMemcpyAsync,
               (void* dst, const void* src, size_t bytes, hipMemcpyKind kind, hipStream_t stream),
               (dst, src, bytes, kind, own(stream)))
MGX_PER_THREAD(hipMemsetAsync, (void* dst, int value, size_t bytes, hipStream_t stream),
               (dst, value, bytes, own(stream)))
MGX_PER_THREAD(hipMemcpy2DAsync,
               (void* dst, size_t dst_pitch, const void* src, size_t src_pitch, size_t width,
                size_t height, hipMemcpyKind kind, hipStream_t stream),
               (dst, dst_pitch, src, src_pitch, width, height, kind, own(stream)))
MGX_PER_THREAD(hipMemset2DAsync,
               (void* dst, size_t pitch, int value, size_t width, size_t height,
                hipStream_t stream),
               (dst, pitch, value, width, height, own(stream)))
MGX_PER_THREAD(hipMemcpy3DAsync, (const hipMemcpy3DParms* params, hipStream_t stream),
               (params, own(stream)))
MGX_PER_THREAD(hipMemset3DAsync,
               (hipPitchedPtr pointer, int value, hipExtent extent, hipStream_t stream),
               (pointer, value, extent, own(stream)))
MGX_PER_THREAD(hipStreamQuery, (hipStream_t stream), (own(stream)))
MGX_PER_THREAD(hipStreamSynchronize, (hipStream_t stream), (own(stream)))
MGX_PER_THREAD(hipStreamGetPriority, (hipStream_t stream, int* priority), (own(stream), priority))
MGX_PER_THREAD(hipStreamGetFlags, (hipStream_t stream, unsigned int* flags), (own(stream), flags))
MGX_PER_THREAD(hipStreamWaitEvent, (hipStream_t stream, hipEvent_t event, unsigned int flags),
               (own(stream), event, flags))
MGX_PER_THREAD(hipStreamAddCallback,
               (hipStream_t stream, hipStreamCallback_t callback, void* data, unsigned int flags),
               (own(stream), callback, data, flags))
MGX_PER_THREAD(hipLaunchHostFunc, (hipStream_t stream, hipHostFn_t fn, void* data),
               (own(stream), fn, data))
MGX_PER_THREAD(hipEventRecord, (hipEvent_t event, hipStream_t stream), (event, own(stream)))
MGX_PER_THREAD(hipLaunchKernel,
               (const void* function, dim3 grid, dim3 block, void** params, size_t lds,
                hipStream_t stream),
               (function, grid, block, params, lds, own(stream)))
MGX_PER_THREAD(hipLaunchCooperativeKernel,
               (const void* function, dim3 grid, dim3 block, void** params, uint32_t lds,
                hipStream_t stream),
               (function, grid, block, params, lds, own(stream)))
MGX_PER_THREAD(hipGraphLaunch, (hipGraphExec_t exec, hipStream_t stream), (exec, own(stream)))
MGX_PER_THREAD(hipStreamBeginCapture, (hipStream_t stream, hipStreamCaptureMode mode),
               (own(stream), mode))
MGX_PER_THREAD(hipStreamEndCapture, (hipStream_t stream, hipGraph_t* graph), (own(stream), graph))
MGX_PER_THREAD(hipStreamIsCapturing, (hipStream_t stream, hipStreamCaptureStatus* status),
               (own(stream), status))
MGX_PER_THREAD(hipStreamGetCaptureInfo,
               (hipStream_t stream, hipStreamCaptureStatus* status, unsigned long long* id),
               (own(stream), status, id))
MGX_PER_THREAD(hipStreamGetCaptureInfo_v2,
               (hipStream_t stream, hipStreamCaptureStatus* status, unsigned long long* id,
                hipGraph_t* graph, const hipGraphNode_t** dependencies, size_t* count),
               (own(stream), status, id, graph, dependencies, count))
MGX_PER_THREAD(hipMemcpyToSymbolAsync,
               (const void* symbol, const void* src, size_t bytes, size_t offset,
                hipMemcpyKind kind, hipStream_t stream),
               (symbol, src, bytes, offset, kind, own(stream)))
MGX_PER_THREAD(hipMemcpyFromSymbolAsync,
               (void* dst, const void* symbol, size_t bytes, size_t offset, hipMemcpyKind kind,
                hipStream_t stream),
               (dst, symbol, bytes, offset, kind, own(stream)))
MGX_PER_THREAD(hipGetProcAddress,
               (const char* name, void** out, int version, uint64_t flags,
                hipDriverProcAddressQueryResult* status),
               (name, out, version, flags, status))

// These wait for the per-thread stream, not for the null stream.
extern "C" hipError_t hipMemcpyWithStream(void*, const void*, size_t, hipMemcpyKind, hipStream_t);

MGX_EXPORT hipError_t hipMemcpy_spt(void* dst, const void* src, size_t bytes, hipMemcpyKind kind) {
  return hipMemcpyWithStream(dst, src, bytes, kind, hipStreamPerThread);
}

namespace {

hipError_t finish(hipError_t code) {
  return code == hipSuccess ? hipStreamSynchronize(hipStreamPerThread) : code;
}

}  // namespace

MGX_EXPORT hipError_t hipMemset_spt(void* dst, int value, size_t bytes) {
  return finish(hipMemsetAsync(dst, value, bytes, hipStreamPerThread));
}

MGX_EXPORT hipError_t hipMemcpy2D_spt(void* dst, size_t dst_pitch, const void* src,
                                      size_t src_pitch, size_t width, size_t height,
                                      hipMemcpyKind kind) {
  return finish(
      hipMemcpy2DAsync(dst, dst_pitch, src, src_pitch, width, height, kind, hipStreamPerThread));
}

MGX_EXPORT hipError_t hipMemset2D_spt(void* dst, size_t pitch, int value, size_t width,
                                      size_t height) {
  return finish(hipMemset2DAsync(dst, pitch, value, width, height, hipStreamPerThread));
}

MGX_EXPORT hipError_t hipMemcpy3D_spt(const hipMemcpy3DParms* params) {
  return finish(hipMemcpy3DAsync(params, hipStreamPerThread));
}

MGX_EXPORT hipError_t hipMemset3D_spt(hipPitchedPtr pointer, int value, hipExtent extent) {
  return finish(hipMemset3DAsync(pointer, value, extent, hipStreamPerThread));
}

MGX_EXPORT hipError_t hipMemcpyToSymbol_spt(const void* symbol, const void* src, size_t bytes,
                                            size_t offset, hipMemcpyKind kind) {
  return finish(hipMemcpyToSymbolAsync(symbol, src, bytes, offset, kind, hipStreamPerThread));
}

MGX_EXPORT hipError_t hipMemcpyFromSymbol_spt(void* dst, const void* symbol, size_t bytes,
                                              size_t offset, hipMemcpyKind kind) {
  return finish(hipMemcpyFromSymbolAsync(dst, symbol, bytes, offset, kind, hipStreamPerThread));
}
