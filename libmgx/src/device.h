//===- device.h - a CPU or a GPU that programs run on ------------------------------------===//
#pragma once

#include "mgx.h"

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace mgx {

class Device {
public:
  static std::shared_ptr<Device> open(const std::string &name, const mgx_device_options &options);
  virtual ~Device() = default;

  virtual bool gpu() const { return false; }
  virtual int number() const { return 0; }
  virtual int threads() const { return 0; }
  virtual uint64_t memory_bytes() const = 0;
  // The identities of the targets whose code it runs, best first.
  virtual std::vector<std::string> identities() const = 0;

  virtual void *allocate(mgx_memory memory, uint64_t bytes) = 0;
  virtual void free(mgx_memory memory, void *data) = 0;
  virtual void copy(void *target, const void *source, uint64_t bytes, void *stream,
                    bool is_async) = 0;
  virtual void *create_stream() = 0;
  virtual void synchronize(void *stream) = 0;
  virtual void release_stream(void *stream) = 0;
  virtual void *symbol(const char *) const { return nullptr; }
  // Whether the caller's memory is the process's.
  virtual bool on_host(const mgx_tensor &) const { return true; }

  const std::string &name() const { return own_name; }
  const std::string &target() const { return own_target; }

protected:
  Device(std::string name, std::string target)
      : own_name(std::move(name)), own_target(std::move(target)) {}

private:
  const std::string own_name, own_target;
};

// How many GPUs HIP has.
size_t gpu_count(const mgx_device_options &options);

// The GPU of a number.
std::shared_ptr<Device> open_gpu(int number, const mgx_device_options &options);

// The memory that a process of this machine can have.
uint64_t host_memory_bytes();

} // namespace mgx
