// Entry points that clang-compiled HIP programs call: registration of their device code, and
// the configuration of the <<<>>> syntax.
#include <algorithm>
#include <cstdio>

#include "launch.h"
#include "memory.h"
#include "module.h"
#include "stream.h"

using namespace mgx::hip;
namespace emu = mgx::emu;

namespace {

// The wrapper that the compiler emits around the offload bundle.
struct FatWrapper {
  uint32_t magic;
  uint32_t version;
  const void* binary;
  const void* unused;
};
constexpr uint32_t kFatMagic = 0x48495046;  // "HIPF"

struct FatBinary {
  const void* image = nullptr;
  std::map<int, std::shared_ptr<Module>> modules;  // by device, loaded at first use
};

struct Stub {
  FatBinary* binary;
  std::string name;
};

struct Variable {
  FatBinary* binary;
  std::string name;
  size_t size;
};

struct Managed {
  FatBinary* binary;
  std::string name;
  void** pointer;
  const void* initial;
  size_t size;
};

struct Programs {
  std::recursive_mutex mutex;
  std::map<void**, std::unique_ptr<FatBinary>> binaries;  // the key is the handle
  std::map<const void*, Stub> stubs;
  std::map<const void*, Variable> variables;
  std::vector<Managed> managed;
};

Programs& programs() {
  static Programs* instance = new Programs;
  return *instance;
}

using Lock = std::lock_guard<std::recursive_mutex>;

// A managed variable is a pointer in device code: it gets the address of shared memory.
void connect_managed(FatBinary& binary, Module& module) {
  for (const Managed& variable : programs().managed) {
    if (variable.binary != &binary) continue;
    auto global = module.object->global(variable.name);
    if (!global || global->size < sizeof(void*)) continue;
    *reinterpret_cast<void**>(global->base) = *variable.pointer;
  }
}

std::shared_ptr<Module> load_binary(FatBinary& binary, Device& device) {
  auto& module = binary.modules[device.ordinal];
  if (module) return module;
  size_t size = emu::image_size(binary.image);
  require(size != 0, hipErrorInvalidImage);
  module = load_module(device, binary.image, size);
  connect_managed(binary, *module);
  return module;
}

FatBinary* find_binary(void** handle) {
  auto it = programs().binaries.find(handle);
  return it == programs().binaries.end() ? nullptr : it->second.get();
}

struct CallConfiguration {
  dim3 grid, block;
  size_t lds;
  hipStream_t stream;
};
thread_local std::vector<CallConfiguration> call_configurations;
thread_local std::vector<uint8_t> call_arguments;  // hipSetupArgument

}  // namespace

namespace mgx::hip {

std::shared_ptr<Function> find_stub(const void* stub, Device& device) {
  Programs& all = programs();
  Lock lock(all.mutex);
  auto it = all.stubs.find(stub);
  if (it == all.stubs.end()) return nullptr;
  return load_binary(*it->second.binary, device)->function(it->second.name);
}

Symbol find_symbol(const void* host_variable, Device& device) {
  Programs& all = programs();
  Lock lock(all.mutex);
  auto it = all.variables.find(host_variable);
  require(it != all.variables.end(), hipErrorInvalidSymbol);
  auto global = load_binary(*it->second.binary, device)->object->global(it->second.name);
  require(global.has_value(), hipErrorInvalidSymbol);
  return {reinterpret_cast<void*>(global->base), it->second.size};
}

void unload_fat_binaries(Device& device) {
  Programs& all = programs();
  Lock lock(all.mutex);
  for (auto& [handle, binary] : all.binaries) {
    auto it = binary->modules.find(device.ordinal);
    if (it == binary->modules.end()) continue;
    if (it->second) it->second->drop_functions();
    binary->modules.erase(it);
  }
}

}  // namespace mgx::hip

MGX_EXPORT void** __hipRegisterFatBinary(const void* data) {
  const auto* wrapper = static_cast<const FatWrapper*>(data);
  if (!wrapper || wrapper->magic != kFatMagic) {
    std::fprintf(stderr, "mgx emulator: __hipRegisterFatBinary: not a HIP fat binary\n");
    return nullptr;
  }
  Programs& all = programs();
  Lock lock(all.mutex);
  auto binary = std::make_unique<FatBinary>();
  binary->image = wrapper->binary;
  auto** handle = reinterpret_cast<void**>(binary.get());
  all.binaries.emplace(handle, std::move(binary));
  return handle;
}

MGX_EXPORT void __hipUnregisterFatBinary(void** handle) {
  Programs& all = programs();
  Lock lock(all.mutex);
  FatBinary* binary = find_binary(handle);
  if (!binary) return;
  for (auto& [ordinal, module] : binary->modules)
    if (module) module->drop_functions();
  for (auto it = all.stubs.begin(); it != all.stubs.end();)
    it = it->second.binary == binary ? all.stubs.erase(it) : std::next(it);
  for (auto it = all.variables.begin(); it != all.variables.end();)
    it = it->second.binary == binary ? all.variables.erase(it) : std::next(it);
  all.binaries.erase(handle);
}

MGX_EXPORT void __hipRegisterFunction(void** handle, const void* stub, char*, const char* name,
                                      unsigned int, void*, void*, void*, void*, int*) {
  Programs& all = programs();
  Lock lock(all.mutex);
  if (FatBinary* binary = find_binary(handle)) all.stubs[stub] = {binary, name};
}

MGX_EXPORT void __hipRegisterVar(void** handle, void* variable, char*, char* name, int, size_t size,
                                 int, int) {
  Programs& all = programs();
  Lock lock(all.mutex);
  if (FatBinary* binary = find_binary(handle)) all.variables[variable] = {binary, name, size};
}

MGX_EXPORT void __hipRegisterManagedVar(void* handle, void** pointer, void* initial,
                                        const char* name, size_t size, unsigned) {
  Programs& all = programs();
  Lock lock(all.mutex);
  FatBinary* binary = find_binary(static_cast<void**>(handle));
  if (!binary || !pointer || runtime().devices.empty()) return;
  api(__func__, kQuiet, [&] {
    auto made = allocate_host(runtime().device(0), size, hipMemAttachGlobal, MemoryKind::managed);
    *pointer = reinterpret_cast<void*>(made->base);
    do_copy(linear_copy(*pointer, initial, size, hipMemcpyDefault));
    all.managed.push_back({binary, name, pointer, initial, size});
    all.variables[pointer] = {binary, name, size};
  });
}

// Textures and surfaces are registered by programs that may never use them.
MGX_EXPORT void __hipRegisterTexture(void**, void*, char*, char*, int, int, int) {}
MGX_EXPORT void __hipRegisterSurface(void**, void*, char*, char*, int, int) {}

MGX_EXPORT hipError_t __hipPushCallConfiguration(dim3 grid, dim3 block, size_t lds,
                                                 hipStream_t stream) {
  MGX_API(kQuiet, { call_configurations.push_back({grid, block, lds, stream}); });
}

MGX_EXPORT hipError_t __hipPopCallConfiguration(dim3* grid, dim3* block, size_t* lds,
                                                hipStream_t* stream) {
  MGX_API(kQuiet, {
    require(!call_configurations.empty(), hipErrorMissingConfiguration);
    require(grid && block && lds && stream, hipErrorInvalidValue);
    CallConfiguration top = call_configurations.back();
    call_configurations.pop_back();
    *grid = top.grid;
    *block = top.block;
    *lds = top.lds;
    *stream = top.stream;
  });
}

MGX_EXPORT hipError_t hipConfigureCall(dim3 grid, dim3 block, size_t lds, hipStream_t stream) {
  MGX_API(kPlain, {
    call_configurations.push_back({grid, block, lds, stream});
    call_arguments.clear();
  });
}

MGX_EXPORT hipError_t hipSetupArgument(const void* value, size_t size, size_t offset) {
  MGX_API(kPlain, {
    require(!call_configurations.empty(), hipErrorMissingConfiguration);
    require(value && offset <= 65536 && size <= 65536 - offset, hipErrorInvalidValue);
    if (call_arguments.size() < offset + size) call_arguments.resize(offset + size);
    std::copy_n(static_cast<const uint8_t*>(value), size,
                call_arguments.begin() + ptrdiff_t(offset));
  });
}

MGX_EXPORT hipError_t hipLaunchByPtr(const void* stub) {
  MGX_API(kPlain, {
    require(!call_configurations.empty(), hipErrorMissingConfiguration);
    CallConfiguration top = call_configurations.back();
    call_configurations.pop_back();
    auto stream = find_stream(top.stream);
    size_t size = call_arguments.size();
    void* extra[] = {HIP_LAUNCH_PARAM_BUFFER_POINTER, call_arguments.data(),
                     HIP_LAUNCH_PARAM_BUFFER_SIZE, &size, HIP_LAUNCH_PARAM_END};
    Launch launch;
    launch.function = find_function(stub, stream->device);
    launch.handle = const_cast<void*>(stub);
    launch.grid = top.grid;
    launch.block = top.block;
    launch.dynamic_lds = top.lds;
    launch.extra = extra;
    launch.bad_shape = hipErrorInvalidConfiguration;
    enqueue(*stream, prepare(launch));
  });
}

MGX_EXPORT hipError_t hipGetSymbolAddress(void** address, const void* symbol) {
  MGX_API(kPlain, {
    require(address != nullptr, hipErrorInvalidValue);
    *address = find_symbol(symbol, current_device()).address;
  });
}

MGX_EXPORT hipError_t hipGetSymbolSize(size_t* size, const void* symbol) {
  MGX_API(kPlain, {
    require(size != nullptr, hipErrorInvalidValue);
    *size = find_symbol(symbol, current_device()).size;
  });
}
