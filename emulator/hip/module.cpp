// Modules: loading code objects, finding kernels and globals in them.
#include "module.h"

#include <algorithm>
#include <cstdio>
#include <fstream>
#include <iterator>

#include "stream.h"

using namespace mgx::hip;
namespace emu = mgx::emu;

namespace mgx::hip {

uint32_t Function::dynamic_lds_limit() const {
  uint32_t room = module->device.chip.lds_bytes;
  room = room > kernel->group_bytes ? room - kernel->group_bytes : 0;
  int chosen = max_dynamic_lds;
  return chosen < 0 ? room : std::min(room, uint32_t(chosen));
}

Module::Module(Device& device, std::unique_ptr<emu::CodeObject> loaded)
    : device(device), object(std::move(loaded)) {
  // The image is one allocation: any address in it finds its size.
  uint64_t inside = 0;
  if (!object->kernels().empty()) inside = object->kernels().front().entry;
  else if (!object->globals().empty()) inside = object->globals().begin()->second.base;
  if (inside) bytes_ = device.memory().find(inside).size;
  device.live_bytes += bytes_;
}

Module::~Module() { device.live_bytes -= bytes_; }

std::shared_ptr<Function> Module::function(const std::string& name) {
  std::lock_guard lock(mutex_);
  auto known = handles_.find(name);
  if (known != handles_.end()) return runtime().functions.find(known->second);
  const emu::Kernel* kernel = object->kernel(name);
  if (!kernel) return nullptr;
  auto made = std::make_shared<Function>();
  made->module = shared_from_this();
  made->kernel = kernel;
  made->handle = static_cast<hipFunction_t>(runtime().functions.add(made));
  handles_.emplace(name, made->handle);
  return made;
}

void Module::drop_functions() {
  std::lock_guard lock(mutex_);
  for (const auto& [name, handle] : handles_) runtime().functions.take(handle);
  handles_.clear();
}

std::shared_ptr<Module> load_module(Device& device, const void* image, size_t size) {
  emu::FoundCodeObject found = emu::find_code_object(image, size, device.chip);
  if (found.status != emu::FoundCodeObject::ok) {
    bool other = found.status == emu::FoundCodeObject::wrong_chip;
    std::fprintf(stderr, "mgx emulator: device %d is %s and cannot load the image: %s\n",
                 device.ordinal, device.chip.target_id,
                 found.error.empty() ? (other ? "it is for another chip" : "no code object")
                                     : found.error.c_str());
    fail(other ? hipErrorNoBinaryForGpu : hipErrorInvalidImage);
  }
  std::string error;
  auto object = emu::CodeObject::load(found.bytes.data(), found.bytes.size(), device.chip,
                                      device.memory(), error);
  if (!object) {
    std::fprintf(stderr, "mgx emulator: device %d (%s): the code object was refused: %s\n",
                 device.ordinal, device.chip.name, error.c_str());
    fail(hipErrorInvalidImage);
  }
  return std::make_shared<Module>(device, std::move(object));
}

std::shared_ptr<Function> find_function(const void* function, Device& device) {
  require(function != nullptr, hipErrorInvalidDeviceFunction);
  if (auto known = runtime().functions.find(function)) return known;
  auto stub = find_stub(function, device);
  require(stub != nullptr, hipErrorInvalidDeviceFunction);
  return stub;
}

}  // namespace mgx::hip

namespace {

void load_image(hipModule_t* out, const void* image, size_t size) {
  Device& device = current_device();
  device.check_fault();
  auto module = load_module(device, image, size);
  module->handle = static_cast<hipModule_t>(runtime().modules.add(module));
  *out = module->handle;
}

void load_data(hipModule_t* out, const void* image) {
  require(out && image, hipErrorInvalidValue);
  *out = nullptr;
  size_t size = emu::image_size(image);
  require(size != 0, hipErrorInvalidImage);
  load_image(out, image, size);
}

std::shared_ptr<Module> find_module(hipModule_t handle) {
  auto module = runtime().modules.find(handle);
  require(module != nullptr, hipErrorInvalidHandle);
  return module;
}

}  // namespace

MGX_EXPORT hipError_t hipModuleLoadData(hipModule_t* module, const void* image) {
  MGX_API(kUnsafeInCapture, { load_data(module, image); });
}

MGX_EXPORT hipError_t hipModuleLoadDataEx(hipModule_t* module, const void* image, unsigned int,
                                          hipJitOption*, void**) {
  // Options steer a just-in-time compiler, and a code object needs none.
  MGX_API(kUnsafeInCapture, { load_data(module, image); });
}

MGX_EXPORT hipError_t hipModuleLoadFatBinary(hipModule_t* module, const void* image) {
  MGX_API(kUnsafeInCapture, { load_data(module, image); });
}

MGX_EXPORT hipError_t hipModuleLoad(hipModule_t* module, const char* path) {
  MGX_API(kUnsafeInCapture, {
    require(module && path, hipErrorInvalidValue);
    *module = nullptr;
    std::ifstream file(path, std::ios::binary);
    require(bool(file), hipErrorFileNotFound);
    std::vector<char> bytes((std::istreambuf_iterator<char>(file)), {});
    require(!bytes.empty(), hipErrorInvalidImage);
    load_image(module, bytes.data(), bytes.size());
  });
}

MGX_EXPORT hipError_t hipModuleUnload(hipModule_t handle) {
  MGX_API(kRelease | kUnsafeInCapture, {
    auto module = find_module(handle);
    // Queued launches keep the code alive, globals in copies do not.
    module->device.drain();
    require(runtime().modules.take(handle) != nullptr, hipErrorInvalidHandle);
    module->drop_functions();
  });
}

MGX_EXPORT hipError_t hipModuleGetFunction(hipFunction_t* function, hipModule_t handle,
                                           const char* name) {
  MGX_API(kPlain, {
    require(function && name && *name, hipErrorInvalidValue);
    *function = nullptr;
    auto found = find_module(handle)->function(name);
    require(found != nullptr, hipErrorNotFound);
    *function = found->handle;
  });
}

MGX_EXPORT hipError_t hipModuleGetFunctionCount(unsigned int* count, hipModule_t handle) {
  MGX_API(kPlain, {
    require(count != nullptr, hipErrorInvalidValue);
    *count = unsigned(find_module(handle)->object->kernels().size());
  });
}

MGX_EXPORT hipError_t hipModuleGetGlobal(hipDeviceptr_t* address, size_t* size, hipModule_t handle,
                                         const char* name) {
  MGX_API(kPlain, {
    require((address || size) && name && *name, hipErrorInvalidValue);
    auto global = find_module(handle)->object->global(name);
    require(global.has_value(), hipErrorNotFound);
    if (address) *address = reinterpret_cast<void*>(global->base);
    if (size) *size = global->size;
  });
}
