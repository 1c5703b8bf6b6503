//===- hip_memory.cpp - what a GPU holds for programs
//---------------------------------------------------===//
#include "hip_memory.h"
#include "hash.h"

#include <algorithm>
#include <cstring>
#include <map>
#include <mutex>
#include <tuple>

namespace mgx {

DeviceMemory::DeviceMemory(int device, uint64_t bytes, const std::string &purpose) : bytes(bytes) {
  CurrentDevice current(device);
  // Kernels get an address also of tensors without elements.
  int status = hip().hipMalloc(data.made(), std::max<uint64_t>(bytes, 256));
  hip_check(status == hip_out_of_memory ? 0 : status, "hipMalloc", purpose);
  if (status == 0)
    return;
  size_t free = 0, total = 0;
  std::string left;
  if (hip().hipMemGetInfo(&free, &total) == 0)
    left = cat("; ", memory_text(free), " of ", memory_text(total), " are free");
  hip_failed(status, "hipMalloc",
             cat("out of device memory: ", memory_text(bytes), " wanted for ", purpose, left));
}

namespace {

// Fills memory with the one element of a splat, which needs no copy; false where HIP cannot.
bool fill(void *target, const Weight &weight) {
  auto count = static_cast<size_t>(weight.bytes / weight.element->bytes);
  auto element = [&]<class Number>(Number value) {
    std::memcpy(&value, weight.data.data(), sizeof value);
    return value;
  };
  if (!weight.splat || !weight.checked)
    return false;
  if (weight.element->bytes == 1)
    HIP(hipMemsetD8, target, element(static_cast<unsigned char>(0)), count);
  else if (weight.element->bytes == 2)
    HIP(hipMemsetD16, target, element(static_cast<unsigned short>(0)), count);
  else if (weight.element->bytes == 4)
    HIP(hipMemsetD32, target, element(0), count);
  else
    return false;
  return true;
}

void upload(char *target, const Weight &weight, const std::string &purpose) {
  WeightBytes source = weight.load();
  constexpr size_t chunk = size_t(1) << 26;
  for (size_t done = 0; done < source.bytes; done += chunk)
    hip_check(hip().hipMemcpy(target + done, source.data + done,
                              std::min(chunk, source.bytes - done), hip_host_to_device),
              "hipMemcpy", purpose);
}

// Objects that equal keys share while somebody has them.
template <class Key, class Value> class Shared {
public:
  template <class Make> std::shared_ptr<Value> get(const Key &key, const Make &make) {
    std::lock_guard<std::mutex> hold(lock);
    std::erase_if(known, [](const auto &entry) { return entry.second.expired(); });
    std::weak_ptr<Value> &entry = known[key];
    if (auto found = entry.lock())
      return found;
    std::shared_ptr<Value> made = make();
    entry = made;
    return made;
  }

private:
  std::mutex lock;
  std::map<Key, std::weak_ptr<Value>> known;
};

} // namespace

std::shared_ptr<DeviceMemory> device_weight(int device, const Weight &weight) {
  auto make = [&] {
    std::string purpose = cat("weight '", weight.key, "'");
    auto memory =
        std::make_shared<DeviceMemory>(device, static_cast<uint64_t>(weight.bytes), purpose);
    CurrentDevice current(device);
    auto *target = reinterpret_cast<char *>(memory->address());
    if (!fill(target, weight))
      upload(target, weight, purpose);
    // Programs run on streams of their own, which do not wait for the default stream.
    hip_check(hip().hipStreamSynchronize(nullptr), "hipStreamSynchronize", purpose);
    return memory;
  };
  if (weight.sha256.empty())
    return make();
  using Key = std::tuple<int, std::string, int64_t>;
  static auto *shared = new Shared<Key, DeviceMemory>;
  return shared->get({device, weight.sha256, weight.bytes}, make);
}

std::shared_ptr<HipModule> HipModule::of(int device, const CodeObject &code) {
  static auto *shared = new Shared<std::pair<int, std::string>, HipModule>;
  return shared->get({device, code.sha256},
                     [&] { return std::make_shared<HipModule>(device, code); });
}

HipModule::HipModule(int device, const CodeObject &code) : image(code.data) {
  if (sha256(image) != code.sha256) // The file may have been written to since it was checked.
    bad_artifact("a code object for ", code.arch, " has changed since it was read");
  CurrentDevice current(device);
  hip_check(hip().hipModuleLoadData(handle.made(), image.data()), "hipModuleLoadData",
            cat("a code object for ", code.arch));
}

void *HipModule::function(const std::string &name) const {
  void *found = nullptr;
  int status = hip().hipModuleGetFunction(&found, handle.get(), name.c_str());
  if (status == hip_not_found) {
    hip().hipGetLastError();
    bad_artifact("a code object has no function '", clip(name), "'");
  }
  hip_check(status, "hipModuleGetFunction");
  return found;
}

} // namespace mgx
