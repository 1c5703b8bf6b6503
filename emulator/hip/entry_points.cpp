// Looking up functions by name, and small functions that answer without a device.
#include <dlfcn.h>

#include <cstring>

#include "api.h"
#include "runtime.h"

using namespace mgx::hip;

namespace {

// Looks into this library only: a name of libc is not a HIP function.
void* find_symbol_of_this_library(const char* name) {
  static void* self = [] {
    Dl_info info = {};
    if (!dladdr(reinterpret_cast<void*>(&find_symbol_of_this_library), &info))
      return (void*)nullptr;
    return dlopen(info.dli_fname, RTLD_LAZY | RTLD_NOLOAD);
  }();
  if (!self || std::strncmp(name, "hip", 3) != 0) return nullptr;
  // Programs ask by the names of the header, which renames these two.
  if (std::strcmp(name, "hipGetDeviceProperties") == 0) name = "hipGetDevicePropertiesR0600";
  if (std::strcmp(name, "hipChooseDevice") == 0) name = "hipChooseDeviceR0600";
  return dlsym(self, name);
}

}  // namespace

MGX_EXPORT hipError_t hipGetProcAddress(const char* name, void** out, int version, uint64_t,
                                        hipDriverProcAddressQueryResult* status) {
  MGX_API(kPlain, {
    require(name && *name && out && version >= 0, hipErrorInvalidValue);
    *out = find_symbol_of_this_library(name);
    if (status)
      *status = *out ? HIP_GET_PROC_ADDRESS_SUCCESS : HIP_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND;
    require(*out != nullptr, hipErrorNotFound);
  });
}

MGX_EXPORT hipError_t hipGetDriverEntryPoint(const char* name, void** out, unsigned long long,
                                             hipDriverEntryPointQueryResult* status) {
  MGX_API(kPlain, {
    require(name && *name && out, hipErrorInvalidValue);
    *out = find_symbol_of_this_library(name);
    if (status) *status = *out ? hipDriverEntryPointSuccess : hipDriverEntryPointSymbolNotFound;
    require(*out != nullptr, hipErrorNotFound);
  });
}

MGX_EXPORT hipChannelFormatDesc hipCreateChannelDesc(int x, int y, int z, int w,
                                                     hipChannelFormatKind f) {
  return {x, y, z, w, f};
}

MGX_EXPORT const char* hipApiName(uint32_t) { return "unknown"; }
