//===- hip_memory.h - what a GPU holds for programs: memory, weights, modules
//-------------------------===//
#pragma once

#include "artifact.h"
#include "hip_library.h"

#include <memory>

namespace mgx {

// Bytes of a device, freed with the object.
class DeviceMemory {
public:
  DeviceMemory(int device, uint64_t bytes, const std::string &purpose);

  uint64_t address() const { return reinterpret_cast<uint64_t>(data.get()); }
  const uint64_t bytes;

private:
  HipOwned<&HipLibrary::hipFree> data;
};

// The weight's bytes on the device, shared by everything there that has equal bytes.
std::shared_ptr<DeviceMemory> device_weight(int device, const Weight &weight);

// A code object on a device.
class HipModule {
public:
  // The same module for equal bytes.
  static std::shared_ptr<HipModule> of(int device, const CodeObject &code);
  HipModule(int device, const CodeObject &code);

  void *function(const std::string &name) const;

private:
  const std::string image; // Some HIP versions read it when a function is first asked for.
  HipOwned<&HipLibrary::hipModuleUnload> handle;
};

} // namespace mgx
