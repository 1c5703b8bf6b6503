//===- settings.cpp - what the environment says ---------------------------------------===//
#include "settings.h"
#include "cpu_executor.h"
#include "error.h"
#include "folders.h"

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
    if (found.ec != std::errc() || found.ptr != end || count < 1 || count > most_threads)
      fail(MGX_ERROR_USAGE, "MGX_THREADS is '", text, "'; it takes a whole number from 1 to ",
           most_threads);
    return count;
  }
  cpu_set_t set;
  return sched_getaffinity(0, sizeof set, &set) == 0 ? std::max(CPU_COUNT(&set), 1) : 1;
}

namespace {
std::string home(const std::string &path) {
  return path.starts_with("~/") ? home_folder() + path.substr(1) : path;
}
} // namespace

std::string cache_folder(const char *given) {
  std::string name = given ? given : variable("MGX_CACHE_DIR");
  if (name == "none")
    return "";
  if (!name.empty())
    return home(name);
  return user_cache() + "/kernels";
}

Trust trust_of(bool everybody, const char *const *keys, size_t count, const char *cache) {
  Trust trust;
  trust.everybody = everybody;
  trust.cache = cache_folder(cache);
  std::string gpu_code = variable("MGX_GPU_CODE");
  if (!gpu_code.empty() && gpu_code != "any" && gpu_code != "vouched")
    fail(MGX_ERROR_USAGE, "MGX_GPU_CODE is '", gpu_code, "'; use any or vouched");
  trust.vouched_gpu_code = gpu_code != "any";
  if (count)
    given(keys, "trusted_keys");
  for (size_t i = 0; i < count; ++i) {
    given(keys[i], "one of trusted_keys");
    trust.keys.emplace_back(keys[i]);
  }
  if (keys)
    return trust;
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
    if (std::error_code error; !std::filesystem::exists(path, error))
      fail(MGX_ERROR_USAGE, "MGX_TRUST names ", path,
           error ? ": " + error.message() : ", which is not there",
           "; use none, all, or files and folders of public keys");
    trust.keys.push_back(path);
  }
  return trust;
}

} // namespace mgx
