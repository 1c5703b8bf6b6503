// Modules and the functions in them.
#pragma once

#include <atomic>
#include <map>
#include <memory>
#include <mutex>
#include <string>

#include "runtime.h"

namespace mgx::hip {

struct Function {
  std::shared_ptr<Module> module;
  const emu::Kernel* kernel = nullptr;
  hipFunction_t handle = nullptr;
  std::atomic<int> max_dynamic_lds{-1};  // -1: what the chip has beside the static LDS
  std::atomic<int> carveout{-1};

  uint32_t dynamic_lds_limit() const;
};

class Module : public std::enable_shared_from_this<Module> {
 public:
  Module(Device& device, std::unique_ptr<emu::CodeObject> object);
  ~Module();

  Device& device;
  const std::unique_ptr<emu::CodeObject> object;
  hipModule_t handle = nullptr;

  // The function's one handle in this module; null if there is no such kernel.
  std::shared_ptr<Function> function(const std::string& name);
  void drop_functions();

 private:
  std::mutex mutex_;
  std::map<std::string, hipFunction_t> handles_;
  uint64_t bytes_ = 0;  // of device memory
};

// Loads an image (ELF, bundle, compressed bundle) for a device. Throws; says why on stderr.
std::shared_ptr<Module> load_module(Device& device, const void* image, size_t size);

// The function of a handle, or of the address of a host stub that a clang-compiled program
// registered. Throws hipErrorInvalidDeviceFunction / hipErrorInvalidHandle.
std::shared_ptr<Function> find_function(const void* function, Device& device);
// Registered host stub only; null if it is none.
std::shared_ptr<Function> find_stub(const void* stub, Device& device);

struct Symbol {
  void* address = nullptr;
  size_t size = 0;
};
// A registered host variable's copy on the device. Throws hipErrorInvalidSymbol.
Symbol find_symbol(const void* host_variable, Device& device);
// Forgets the loaded code of registered programs on this device.
void unload_fat_binaries(Device& device);

}  // namespace mgx::hip
