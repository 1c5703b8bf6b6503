// A GPU's memory and streams, as onnxruntime uses them: inputs and outputs may stay on the device.
#ifndef MGX_EP_MEMORY_H
#define MGX_EP_MEMORY_H

#include "api.h"

#include <map>
#include <mutex>

namespace mgx_ep {

inline constexpr uint32_t AMD = 0x1002; // the vendor's number on the PCI bus

// The devices of libmgx that this library opened, each once.
class Devices {
public:
  size_t gpu_count() const; // 0 where there is no HIP
  mgx_device *gpu(uint32_t number);

private:
  std::mutex mutex_;
  std::map<uint32_t, Device> gpus_;
};

// Where a tensor lies: an mgx_memory.
uint32_t memory_of(const OrtValue *value);

OrtAllocator *make_allocator(Devices &devices, const OrtMemoryInfo *info);
void release_allocator(OrtAllocator *allocator);
OrtDataTransferImpl *make_transfer(Devices &devices);
OrtSyncStreamImpl *make_stream(Devices &devices, const OrtMemoryDevice *device);

} // namespace mgx_ep

#endif
