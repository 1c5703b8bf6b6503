// Launches: from the forms of the API to a checked dispatch.
#pragma once

#include "module.h"
#include "work.h"

namespace mgx::hip {

// One launch as the caller gave it.
struct Launch {
  std::shared_ptr<Function> function;
  void* handle = nullptr;
  dim3 grid = {1, 1, 1};  // work-groups
  dim3 block = {1, 1, 1};
  dim3 remainder = {0, 0, 0};
  size_t dynamic_lds = 0;
  void** params = nullptr;  // pointers to the values
  void** extra = nullptr;   // a packed buffer
  bool cooperative = false;
  // Zero or too large dimensions: the driver API calls them invalid values, the runtime API an
  // invalid configuration.
  hipError_t bad_shape = hipErrorInvalidValue;
};

// Checks the launch against kernel and chip, packs its arguments. Throws.
KernelWork prepare(const Launch& launch);
// Overwrites the explicit arguments of a prepared launch.
void pack_arguments(emu::Dispatch& dispatch, void** params, void** extra);

}  // namespace mgx::hip
