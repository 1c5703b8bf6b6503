//===- code_library.cpp - the CPU's code of a kernel, loaded ----------------------------------===//
#include "code_library.h"
#include "hash.h"

#include <atomic>
#include <cerrno>
#include <map>
#include <mutex>

#include <dlfcn.h>
#include <sys/mman.h>
#include <unistd.h>

namespace mgx {

namespace {

// A path of the open file that was never used before: the loader takes a path that it has seen for
// the same file, and descriptors recur. So the path spells a number, in parts that the file system
// ignores: the address of this library's own variable, which no other loader in the process has,
// and a serial number.
std::string unique_path(int descriptor) {
  static std::atomic<uint64_t> serial{0};
  std::string parts;
  for (uint64_t bits : {reinterpret_cast<uint64_t>(&serial), ++serial})
    for (int bit = 0; bit < 48; ++bit)
      parts += bits >> bit & 1 ? ".//" : "./";
  return cat("/proc/self/fd/", parts, descriptor);
}

class Descriptor {
public:
  Descriptor() : number(memfd_create("mgx-kernel", MFD_CLOEXEC)) {}
  ~Descriptor() {
    if (number >= 0)
      close(number);
  }
  const int number;
};

void write_all(int file, std::string_view bytes) {
  while (!bytes.empty()) {
    ssize_t done = write(file, bytes.data(), bytes.size());
    if (done < 0 && errno == EINTR)
      continue;
    if (done <= 0)
      fail(MGX_ERROR_RESOURCE, "no memory for a code object: ", system_text(errno));
    bytes.remove_prefix(static_cast<size_t>(done));
  }
}

std::mutex sharing;
std::map<std::string, std::weak_ptr<CodeLibrary>> &shared() {
  static auto *libraries = new std::map<std::string, std::weak_ptr<CodeLibrary>>;
  return *libraries; // Outlives the programs that other libraries end late.
}

} // namespace

CodeLibrary::CodeLibrary(const CodeObject &code) {
  // Kernels call libm without naming it.
  static void *math = dlopen("libm.so.6", RTLD_NOW | RTLD_GLOBAL);
  (void)math;
  std::string copy(code.data); // The file may have been written to since it was checked.
  if (sha256(copy) != code.sha256)
    bad_artifact("a code object for ", code.arch, " has changed since it was read");
  Descriptor file;
  if (file.number < 0)
    fail(MGX_ERROR_RESOURCE, "no memory for a code object: ", system_text(errno));
  write_all(file.number, copy);
  handle = dlopen(unique_path(file.number).c_str(), RTLD_NOW | RTLD_LOCAL);
  if (!handle)
    bad_artifact("a code object for ", code.arch, " does not load: ", dlerror());
}

CodeLibrary::~CodeLibrary() { dlclose(handle); }

std::shared_ptr<CodeLibrary> CodeLibrary::of(const CodeObject &code) {
  std::lock_guard<std::mutex> hold(sharing);
  std::weak_ptr<CodeLibrary> &known = shared()[code.sha256];
  if (auto found = known.lock())
    return found;
  std::shared_ptr<CodeLibrary> made(new CodeLibrary(code));
  known = made;
  return made;
}

void *CodeLibrary::function(const std::string &name) const {
  void *found = dlsym(handle, name.c_str());
  if (!found)
    bad_artifact("a code object has no function '", clip(name), "'");
  return found;
}

} // namespace mgx
