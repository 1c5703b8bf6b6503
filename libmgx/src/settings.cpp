//===- settings.cpp - what the environment says ---------------------------------------===//
#include "settings.h"
#include "error.h"

#include <charconv>
#include <cstdlib>
#include <filesystem>

#include <sched.h>

namespace mgx {

std::string variable(const char *name) {
  const char *value = std::getenv(name);
  return value ? value : "";
}

int default_threads() {
  std::string text = variable("MGX_THREADS");
  if (!text.empty()) {
    int count = 0;
    auto end = text.data() + text.size();
    auto found = std::from_chars(text.data(), end, count);
    if (found.ec != std::errc() || found.ptr != end || count < 1)
      fail(MGX_ERROR_USAGE, "MGX_THREADS is '", text, "'; it takes a whole number of at least 1");
    return count;
  }
  cpu_set_t set;
  return sched_getaffinity(0, sizeof set, &set) == 0 ? std::max(CPU_COUNT(&set), 1) : 1;
}

namespace {
std::string home(const std::string &path) {
  return path.starts_with("~/") ? variable("HOME") + path.substr(1) : path;
}
} // namespace

std::string cache_folder(const char *given) {
  std::string name = given ? given : variable("MGX_CACHE_DIR");
  if (name == "none")
    return "";
  if (!name.empty())
    return home(name);
  std::string base = variable("XDG_CACHE_HOME");
  return (base.empty() ? variable("HOME") + "/.cache" : base) + "/mgx-mlir/kernels";
}

Trust trust_of(bool everybody, const char *const *keys, size_t count, const char *cache) {
  Trust trust;
  trust.everybody = everybody;
  trust.cache = cache_folder(cache);
  std::string gpu_code = variable("MGX_GPU_CODE");
  if (!gpu_code.empty() && gpu_code != "any" && gpu_code != "vouched")
    fail(MGX_ERROR_USAGE, "MGX_GPU_CODE is '", gpu_code, "'; use any or vouched");
  trust.vouched_gpu_code = gpu_code != "any";
  if (keys) {
    trust.keys.assign(keys, keys + count);
    return trust;
  }
  std::string text = variable("MGX_TRUST");
  trust.everybody = everybody || text == "all";
  if (text.empty() || text == "none" || text == "all")
    return trust;
  for (size_t first = 0; first <= text.size();) {
    size_t end = std::min(text.find(':', first), text.size());
    std::string path = home(text.substr(first, end - first));
    first = end + 1;
    if (path.empty())
      continue;
    if (!std::filesystem::exists(path))
      fail(MGX_ERROR_USAGE, "MGX_TRUST names ", path,
           ", which is not there; use none, all, or files and folders of public keys");
    trust.keys.push_back(path);
  }
  return trust;
}

} // namespace mgx
