//===- hip_device.h - a GPU
//---------------------------------------------------------------------------===//
#pragma once

#include "device.h"
#include "hip_library.h"
#include "ordering.h"

namespace mgx {

class HipDevice : public Device {
public:
  HipDevice(int ordinal, const HipProperties &properties);

  bool gpu() const override { return true; }
  int number() const override { return ordinal; }
  uint64_t memory_bytes() const override { return total; }
  std::vector<std::string> identities() const override;

  void *allocate(mgx_memory memory, uint64_t bytes) override;
  void free(mgx_memory memory, void *data) override;
  void copy(void *target, const void *source, uint64_t bytes, void *stream, bool is_async) override;
  void *create_stream() override;
  void synchronize(void *stream) override;
  void release_stream(void *stream) override;
  void *symbol(const char *function) const override;
  bool on_host(const mgx_tensor &tensor) const override { return !owns(tensor); }

  // Whether the caller's memory is the device's, or memory that it reads in place.
  bool owns(const mgx_tensor &tensor) const;

  const Rates rates;

private:
  const int ordinal;
  const uint64_t total;
};

} // namespace mgx
