// Checking launches and packing their arguments.
#include "launch.h"

#include <cstring>

namespace mgx::hip {
namespace {

constexpr uint32_t kMaxBlock = 1024;
constexpr uint32_t kMaxGrid[3] = {2147483647u, 65536u, 65536u};

// End of the last explicit argument.
size_t explicit_bytes(const emu::Kernel& kernel) {
  size_t end = 0;
  for (const emu::KernelArg& arg : kernel.args)
    if (!arg.hidden()) end = std::max<size_t>(end, arg.offset + arg.size);
  return end;
}

void pack_buffer(emu::Dispatch& dispatch, void** extra) {
  const void* buffer = nullptr;
  size_t size = 0;
  bool sized = false;
  // Pairs of key and value in any order, ended by a key of its own. A list without an end
  // would be read forever, and no valid one is longer.
  for (int i = 0; extra[i] != HIP_LAUNCH_PARAM_END; i += 2) {
    require(i < 4, hipErrorInvalidValue);
    if (extra[i] == HIP_LAUNCH_PARAM_BUFFER_POINTER) {
      buffer = extra[i + 1];
    } else if (extra[i] == HIP_LAUNCH_PARAM_BUFFER_SIZE) {
      require(extra[i + 1] != nullptr, hipErrorInvalidValue);
      size = *static_cast<const size_t*>(extra[i + 1]);
      sized = true;
    } else {
      fail(hipErrorInvalidValue);
    }
  }
  size_t needed = explicit_bytes(*dispatch.kernel);
  require(sized && (buffer || size == 0) && size >= needed, hipErrorInvalidValue);
  // Callers round the size up, or hand over a segment with room for the hidden arguments.
  if (needed) std::memcpy(dispatch.kernarg.data(), buffer, needed);
}

void pack_values(emu::Dispatch& dispatch, void** params) {
  size_t index = 0;
  for (const emu::KernelArg& arg : dispatch.kernel->args) {
    if (arg.hidden()) continue;
    const void* value = params[index++];
    require(value != nullptr, hipErrorInvalidValue);
    std::memcpy(dispatch.kernarg.data() + arg.offset, value, arg.size);
  }
}

void check_shape(const Launch& launch) {
  const emu::Kernel& kernel = *launch.function->kernel;
  const uint32_t grid[3] = {launch.grid.x, launch.grid.y, launch.grid.z};
  const uint32_t block[3] = {launch.block.x, launch.block.y, launch.block.z};
  uint64_t items = 1;
  for (int i = 0; i < 3; ++i) {
    require(grid[i] && block[i], launch.bad_shape);
    require(grid[i] <= kMaxGrid[i] && block[i] <= kMaxBlock, launch.bad_shape);
    // A dispatch packet counts work-items in 32 bits.
    require(uint64_t(grid[i]) * block[i] <= UINT32_MAX, hipErrorInvalidConfiguration);
    items *= block[i];
  }
  require(items <= kMaxBlock, launch.bad_shape);
  require(items <= kernel.max_workgroup, hipErrorLaunchFailure);
  for (int i = 0; i < 3; ++i)
    require(!kernel.required_workgroup[i] || kernel.required_workgroup[i] == block[i],
            hipErrorInvalidConfiguration);
  require(launch.dynamic_lds <= launch.function->dynamic_lds_limit(), hipErrorInvalidValue);
}

void check_cooperative(const Launch& launch) {
  const Function& function = *launch.function;
  const emu::Chip& chip = function.module->device.chip;
  uint64_t groups = uint64_t(launch.grid.x) * launch.grid.y * launch.grid.z;
  uint32_t items = launch.block.x * launch.block.y * launch.block.z;
  uint64_t resident = uint64_t(chip.compute_units) *
                      emu::occupancy(*function.kernel, chip, items, uint32_t(launch.dynamic_lds));
  require(groups <= resident, hipErrorCooperativeLaunchTooLarge);
}

}  // namespace

void pack_arguments(emu::Dispatch& dispatch, void** params, void** extra) {
  const emu::Kernel& kernel = *dispatch.kernel;
  if (dispatch.kernarg.size() < kernel.kernarg_size) dispatch.kernarg.resize(kernel.kernarg_size);
  for (const emu::KernelArg& arg : kernel.args)
    require(size_t(arg.offset) + arg.size <= dispatch.kernarg.size(), hipErrorInvalidImage);
  require(!(params && extra), hipErrorInvalidValue);
  if (extra) return pack_buffer(dispatch, extra);
  require(params || explicit_bytes(kernel) == 0, hipErrorInvalidValue);
  if (params) pack_values(dispatch, params);
}

KernelWork prepare(const Launch& launch) {
  require(launch.function != nullptr, hipErrorInvalidHandle);
  check_shape(launch);
  if (launch.cooperative) check_cooperative(launch);
  KernelWork work;
  work.function = launch.function;
  work.handle = launch.handle ? launch.handle : launch.function->handle;
  emu::Dispatch& dispatch = work.dispatch;
  dispatch.kernel = launch.function->kernel;
  const dim3* shapes[3] = {&launch.grid, &launch.block, &launch.remainder};
  uint32_t* targets[3] = {dispatch.grid, dispatch.block, dispatch.remainder};
  for (int i = 0; i < 3; ++i) {
    targets[i][0] = shapes[i]->x;
    targets[i][1] = shapes[i]->y;
    targets[i][2] = shapes[i]->z;
  }
  dispatch.dynamic_lds = uint32_t(launch.dynamic_lds);
  dispatch.cooperative = launch.cooperative;
  pack_arguments(dispatch, launch.params, launch.extra);
  emu::fill_hidden_arguments(dispatch);
  return work;
}

}  // namespace mgx::hip
