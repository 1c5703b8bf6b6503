//===- settings.h - what the environment says (mgx_mlir/settings.py) -----------------===//
#pragma once

#include <string>
#include <vector>

namespace mgx {

// The value of a variable, "" where it is not set.
std::string variable(const char *name);

// How many cores this process may use, or what MGX_THREADS says.
int default_threads();

// The folder of finalized kernels; "" for none.
std::string cache_folder(const char *given);

// Whose code may run: everybody's, or that of the keys in files, or folders of files.
struct Trust {
  bool everybody = false;
  bool vouched_gpu_code = true;
  std::vector<std::string> keys;
  std::string cache;
};

Trust trust_of(bool everybody, const char *const *keys, size_t count, const char *cache);

} // namespace mgx
