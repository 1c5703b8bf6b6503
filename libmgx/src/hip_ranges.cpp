//===- hip_ranges.cpp - ranges of roctx ------------------------------------------------===//
#include "hip_ranges.h"

#include <dlfcn.h>

namespace mgx {

namespace {

struct Roctx {
  Roctx() {
    // ROCm 6.2's library, and the one before.
    for (const char *name :
         {"librocprofiler-sdk-roctx.so.1", "librocprofiler-sdk-roctx.so.0", "libroctx64.so.4"})
      if (void *handle = dlopen(name, RTLD_NOW | RTLD_LOCAL)) {
        push = reinterpret_cast<int (*)(const char *)>(dlsym(handle, "roctxRangePushA"));
        pop = reinterpret_cast<int (*)()>(dlsym(handle, "roctxRangePop"));
        return;
      }
  }
  int (*push)(const char *) = nullptr;
  int (*pop)() = nullptr;
};

const Roctx &roctx() {
  static const Roctx found;
  return found;
}

} // namespace

NamedRange::NamedRange(const std::string &name) {
  if (roctx().push && roctx().pop)
    roctx().push(name.empty() ? "copy" : name.c_str());
}

NamedRange::~NamedRange() {
  if (roctx().push && roctx().pop)
    roctx().pop();
}

} // namespace mgx
