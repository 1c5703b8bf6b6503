//===- hip_library.cpp - the HIP library of the process
//---------------------------------------------===//
#include "hip_library.h"
#include "settings.h"

#include <atomic>
#include <memory>
#include <mutex>
#include <vector>

#include <dlfcn.h>
#include <pthread.h>
#include <unistd.h>

namespace mgx {

namespace {

std::mutex opening;
std::atomic<const HipLibrary *> opened{nullptr};
std::string opened_path;
std::atomic<bool> forked{false}; // In a child of the process that opened it.

bool is_file(const std::string &path) { return access(path.c_str(), R_OK) == 0; }

// The folder of the file that holds this library.
std::string own_folder() {
  Dl_info info;
  if (!dladdr(reinterpret_cast<void *>(&own_folder), &info) || !info.dli_fname)
    return ".";
  std::string path = info.dli_fname;
  size_t end = path.rfind('/');
  return end == path.npos ? "." : path.substr(0, end);
}

std::vector<std::string> emulated_paths() {
  std::string named = variable("MGX_EMULATOR_LIBRARY");
  if (!named.empty())
    return {named};
  std::string folder = own_folder(); // mgx_mlir/_native, in an installation or a checkout.
  return {folder + "/../emulator/lib/libamdhip64.so",
          folder + "/../../build/emulator/libamdhip64.so"};
}

std::vector<std::string> real_paths() {
  std::vector<std::string> found;
  for (const std::string &root :
       {variable("ROCM_PATH"), variable("ROCM_HOME"), std::string("/opt/rocm")})
    if (!root.empty() && is_file(root + "/lib/libamdhip64.so"))
      found.push_back(root + "/lib/libamdhip64.so");
  for (const char *name : {"libamdhip64.so", "libamdhip64.so.7", "libamdhip64.so.6"})
    found.emplace_back(name);
  return found;
}

// The places of the library that MGX_HIP asks for, best first; "auto" takes the real one where
// the kernel driver is there.
std::vector<std::string> usual_paths() {
  std::string kind = variable("MGX_HIP");
  if (kind.empty() || kind == "auto")
    kind = is_file("/dev/kfd") ? "real" : "emulated";
  if (kind != "real" && kind != "emulated")
    fail(MGX_ERROR_USAGE, "MGX_HIP is '", kind, "'; use real, emulated or auto");
  return kind == "real" ? real_paths() : emulated_paths();
}

template <class Function> void find(Function &function, void *handle, const char *name) {
  function = reinterpret_cast<Function>(dlsym(handle, name));
  if (!function)
    fail(MGX_ERROR_DEVICE, "the HIP library ", opened_path, " has no ", name,
         "; libmgx needs that of ROCm 6 or later");
}

std::unique_ptr<HipLibrary> open_at(const std::vector<std::string> &paths) {
  std::string faults;
  for (const std::string &path : paths) {
    void *handle = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
    if (!handle) {
      faults += cat(faults.empty() ? "" : "; ", dlerror());
      continue;
    }
    auto library = std::make_unique<HipLibrary>();
    opened_path = path;
    library->handle = handle;
#define MGX_HIP_FIND(name, ...) find(library->name, handle, #name);
    MGX_HIP_FUNCTIONS(MGX_HIP_FIND)
#undef MGX_HIP_FIND
    find(library->hipGetErrorName, handle, "hipGetErrorName");
    find(library->hipGetErrorString, handle, "hipGetErrorString");
    library->fault = reinterpret_cast<const char *(*)()>(dlsym(handle, "mgxEmulatorLastFault"));
    say(MGX_LEVEL_INFO, cat("HIP: ", path));
    return library;
  }
  fail(MGX_ERROR_DEVICE, "no HIP library opens: ", faults,
       "; install ROCm, name one (hip_library), or use the emulated one (MGX_HIP=emulated, "
       "MGX_EMULATOR_LIBRARY)");
}

void check_process() {
  if (forked.load(std::memory_order_relaxed))
    fail(MGX_ERROR_DEVICE, "HIP does not survive fork(); start processes anew (Python: 'spawn')");
}

// Errors of kernels, which every later call reports again.
bool sticky(std::string_view name) {
  return name == "hipErrorIllegalAddress" || name == "hipErrorLaunchFailure" ||
         name == "hipErrorLaunchTimeOut";
}

} // namespace

const HipLibrary &hip_library(const std::string &path) {
  std::lock_guard<std::mutex> hold(opening);
  const HipLibrary *found = opened.load();
  if (!found) {
    found = open_at(path.empty() ? usual_paths() : std::vector{path}).release();
    pthread_atfork(nullptr, nullptr, [] { forked = true; });
    opened = found;
  }
  check_process();
  if (!path.empty() && path != opened_path)
    fail(MGX_ERROR_USAGE, "the process uses the HIP library ", opened_path, " already, not ", path);
  return *found;
}

const HipLibrary &hip() { return *opened.load(std::memory_order_acquire); }

bool hip_survives() { return !forked.load(std::memory_order_relaxed); }

void hip_failed(int status, const char *function, const std::string &purpose,
                const std::string &kernel) {
  const HipLibrary &library = hip();
  std::string name = library.hipGetErrorName(status);
  std::string text = cat(function, " failed: ", name, " (", library.hipGetErrorString(status), ")");
  library.hipGetLastError(); // Clears it, so that the thread's next call is not blamed.
  if (!kernel.empty())
    text += cat(", kernel ", kernel);
  if (!purpose.empty())
    text += cat("; ", purpose);
  if (sticky(name))
    text += "; a kernel failed, and the device stays unusable for this process";
  if (const char *fault = library.fault ? library.fault() : nullptr; fault && *fault)
    text += cat("; ", fault);
  Error error(status == hip_out_of_memory ? MGX_ERROR_RESOURCE : MGX_ERROR_DEVICE, text);
  error.hip_name = name;
  error.hip_call = function;
  error.hip_kernel = kernel;
  throw error;
}

bool hip_done(int status) {
  if (status != 0)
    hip().hipGetLastError();
  return status != hip_not_ready;
}

CurrentDevice::CurrentDevice(int number) : number(number) {
  check_process();
  HIP(hipGetDevice, &before);
  if (before != number)
    HIP(hipSetDevice, number);
}

CurrentDevice::~CurrentDevice() {
  if (before != number)
    hip().hipSetDevice(before);
}

} // namespace mgx
