//===- device.cpp - devices by name, and the CPU ------------------------------------------===//
#include "device.h"
#include "cpu_executor.h"
#include "cpu_memory.h"
#include "error.h"
#include "settings.h"
#include "targets.h"

#include <algorithm>
#include <charconv>
#include <cstring>

#include <sys/resource.h>
#include <unistd.h>

namespace mgx {

namespace {

class Cpu : public Device {
public:
  explicit Cpu(int threads) : Device("cpu", cpu_level()), count(threads) {}

  int threads() const override { return count; }
  uint64_t memory_bytes() const override { return host_memory_bytes(); }
  std::vector<std::string> identities() const override { return cpu_identities(); }

  void *allocate(mgx_memory, uint64_t bytes) override { return aligned_memory(bytes); }
  void free(mgx_memory, void *data) override { free_aligned(data); }
  void copy(void *target, const void *source, uint64_t bytes, void *, bool) override {
    if (bytes)
      std::memmove(target, source, bytes);
  }
  void *create_stream() override { return nullptr; }
  void synchronize(void *) override {}
  void release_stream(void *) override {}

private:
  const int count;
};

// The number after a colon; `usual` where the name is `kind` alone, -1 where it is another.
int number_of(const std::string &name, const std::string &kind, int usual) {
  if (name == kind)
    return usual;
  int number = -1;
  if (!name.starts_with(kind + ":"))
    return -1;
  auto end = name.data() + name.size();
  auto found = std::from_chars(name.data() + kind.size() + 1, end, number);
  return found.ec == std::errc() && found.ptr == end ? number : -1;
}

} // namespace

uint64_t host_memory_bytes() {
  uint64_t physical = static_cast<uint64_t>(sysconf(_SC_PAGE_SIZE)) *
                      static_cast<uint64_t>(sysconf(_SC_PHYS_PAGES));
  rlimit limit;
  if (getrlimit(RLIMIT_AS, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY)
    return std::min<uint64_t>(physical, limit.rlim_cur);
  return physical;
}

std::shared_ptr<Device> Device::open(const std::string &name, const mgx_device_options &options) {
  int threads = number_of(name, "cpu", 0);
  if (threads > most_threads)
    fail(MGX_ERROR_USAGE, "'", name, "': a CPU has at most ", most_threads, " threads here");
  if (name == "cpu" || threads > 0)
    return std::make_shared<Cpu>(threads ? threads : default_threads());
  if (int number = number_of(name, "hip", 0); number >= 0)
    return open_gpu(number, options);
  fail(MGX_ERROR_USAGE, "there is no device '", clip(name), "'; use cpu, cpu:4, hip or hip:0");
}

} // namespace mgx
