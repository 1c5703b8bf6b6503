// Kernel launches at the C ABI, in all their forms.
#include "event.h"
#include "launch.h"
#include "stream.h"

using namespace mgx::hip;

namespace {

std::shared_ptr<Function> module_function(hipFunction_t handle) {
  auto function = runtime().functions.find(handle);
  require(function != nullptr, hipErrorInvalidHandle);
  return function;
}

void submit(const Launch& launch, hipStream_t handle) {
  auto stream = find_stream(handle);
  // A function belongs to the device its module was loaded on.
  require(&launch.function->module->device == &stream->device, hipErrorInvalidHandle);
  enqueue(*stream, prepare(launch));
}

void launch_module(hipFunction_t function, dim3 grid, dim3 block, size_t lds, hipStream_t stream,
                   void** params, void** extra, bool cooperative) {
  Launch launch;
  launch.function = module_function(function);
  launch.grid = grid;
  launch.block = block;
  launch.dynamic_lds = lds;
  launch.params = params;
  launch.extra = extra;
  launch.cooperative = cooperative;
  submit(launch, stream);
}

void launch_stub(const void* stub, dim3 grid, dim3 block, void** params, size_t lds,
                 hipStream_t stream, bool cooperative) {
  Launch launch;
  launch.function = find_function(stub, find_stream(stream)->device);
  launch.handle = const_cast<void*>(stub);
  launch.grid = grid;
  launch.block = block;
  launch.dynamic_lds = lds;
  launch.params = params;
  launch.cooperative = cooperative;
  launch.bad_shape = hipErrorInvalidConfiguration;
  submit(launch, stream);
}

bool wants_cooperative(const hipLaunchAttribute* attributes, unsigned count) {
  require(attributes || count == 0, hipErrorInvalidValue);
  bool cooperative = false;
  for (unsigned i = 0; i < count; ++i) {
    switch (attributes[i].id) {
      case hipLaunchAttributeCooperative: cooperative = attributes[i].value.cooperative != 0; break;
      case hipLaunchAttributePriority:
      case hipLaunchAttributeAccessPolicyWindow:
      case hipLaunchAttributeSynchronizationPolicy:
      case hipLaunchAttributeMemSyncDomainMap:
      case hipLaunchAttributeMemSyncDomain: break;  // hints: nothing here depends on them
      default: fail(hipErrorInvalidValue);
    }
  }
  return cooperative;
}

// Grids in work-items that need not be multiples of the block.
void launch_items(hipFunction_t function, dim3 items, dim3 block, size_t lds,
                  hipStream_t stream_handle, void** params, void** extra, hipEvent_t start,
                  hipEvent_t stop) {
  require(block.x && block.y && block.z, hipErrorInvalidValue);
  Launch launch;
  launch.function = module_function(function);
  auto groups = [](uint32_t n, uint32_t size) { return uint32_t((uint64_t(n) + size - 1) / size); };
  launch.grid = {groups(items.x, block.x), groups(items.y, block.y), groups(items.z, block.z)};
  launch.block = block;
  launch.remainder = {items.x % block.x, items.y % block.y, items.z % block.z};
  launch.dynamic_lds = lds;
  launch.params = params;
  launch.extra = extra;
  auto stream = find_stream(stream_handle);
  require(&launch.function->module->device == &stream->device, hipErrorInvalidHandle);
  require(!stream->capturing || (!start && !stop), hipErrorStreamCaptureUnsupported);
  auto first = start ? find_event(start) : nullptr;
  auto last = stop ? find_event(stop) : nullptr;
  KernelWork work = prepare(launch);
  if (first) stream->submit(EmptyWork{}, first.get());
  enqueue(*stream, std::move(work));
  if (last) stream->submit(EmptyWork{}, last.get());
}

}  // namespace

MGX_EXPORT hipError_t hipModuleLaunchKernel(hipFunction_t function, unsigned int grid_x,
                                            unsigned int grid_y, unsigned int grid_z,
                                            unsigned int block_x, unsigned int block_y,
                                            unsigned int block_z, unsigned int lds,
                                            hipStream_t stream, void** params, void** extra) {
  MGX_API(kPlain, {
    launch_module(function, {grid_x, grid_y, grid_z}, {block_x, block_y, block_z}, lds, stream,
                  params, extra, false);
  });
}

MGX_EXPORT hipError_t hipModuleLaunchCooperativeKernel(hipFunction_t function, unsigned int grid_x,
                                                       unsigned int grid_y, unsigned int grid_z,
                                                       unsigned int block_x, unsigned int block_y,
                                                       unsigned int block_z, unsigned int lds,
                                                       hipStream_t stream, void** params) {
  MGX_API(kPlain, {
    launch_module(function, {grid_x, grid_y, grid_z}, {block_x, block_y, block_z}, lds, stream,
                  params, nullptr, true);
  });
}

MGX_EXPORT hipError_t hipDrvLaunchKernelEx(const HIP_LAUNCH_CONFIG* config, hipFunction_t function,
                                           void** params, void** extra) {
  MGX_API(kPlain, {
    require(config != nullptr, hipErrorInvalidValue);
    launch_module(function, {config->gridDimX, config->gridDimY, config->gridDimZ},
                  {config->blockDimX, config->blockDimY, config->blockDimZ}, config->sharedMemBytes,
                  config->hStream, params, extra,
                  wants_cooperative(config->attrs, config->numAttrs));
  });
}

MGX_EXPORT hipError_t hipLaunchKernelExC(const hipLaunchConfig_t* config, const void* function,
                                         void** params) {
  MGX_API(kPlain, {
    require(config != nullptr, hipErrorInvalidConfiguration);
    launch_stub(function, config->gridDim, config->blockDim, params, config->dynamicSmemBytes,
                config->stream, wants_cooperative(config->attrs, config->numAttrs));
  });
}

MGX_EXPORT hipError_t hipLaunchKernel(const void* function, dim3 grid, dim3 block, void** params,
                                      size_t lds, hipStream_t stream) {
  MGX_API(kPlain, { launch_stub(function, grid, block, params, lds, stream, false); });
}

MGX_EXPORT hipError_t hipLaunchCooperativeKernel(const void* function, dim3 grid, dim3 block,
                                                 void** params, unsigned int lds,
                                                 hipStream_t stream) {
  MGX_API(kPlain, { launch_stub(function, grid, block, params, lds, stream, true); });
}

MGX_EXPORT hipError_t hipExtLaunchKernel(const void* function, dim3 grid, dim3 block, void** params,
                                         size_t lds, hipStream_t stream, hipEvent_t start,
                                         hipEvent_t stop, int) {
  MGX_API(kPlain, {
    auto where = find_stream(stream);
    require(!where->capturing || (!start && !stop), hipErrorStreamCaptureUnsupported);
    auto first = start ? find_event(start) : nullptr;
    auto last = stop ? find_event(stop) : nullptr;
    if (first) where->submit(EmptyWork{}, first.get());
    launch_stub(function, grid, block, params, lds, stream, false);
    if (last) where->submit(EmptyWork{}, last.get());
  });
}

// Declared in hip_ext.h: the grid counts work-items.
MGX_EXPORT hipError_t hipExtModuleLaunchKernel(hipFunction_t function, uint32_t items_x,
                                               uint32_t items_y, uint32_t items_z, uint32_t block_x,
                                               uint32_t block_y, uint32_t block_z, size_t lds,
                                               hipStream_t stream, void** params, void** extra,
                                               hipEvent_t start, hipEvent_t stop, uint32_t) {
  MGX_API(kPlain, {
    launch_items(function, {items_x, items_y, items_z}, {block_x, block_y, block_z}, lds, stream,
                 params, extra, start, stop);
  });
}

MGX_EXPORT hipError_t hipHccModuleLaunchKernel(hipFunction_t function, uint32_t items_x,
                                               uint32_t items_y, uint32_t items_z, uint32_t block_x,
                                               uint32_t block_y, uint32_t block_z, size_t lds,
                                               hipStream_t stream, void** params, void** extra,
                                               hipEvent_t start, hipEvent_t stop) {
  MGX_API(kPlain, {
    launch_items(function, {items_x, items_y, items_z}, {block_x, block_y, block_z}, lds, stream,
                 params, extra, start, stop);
  });
}
