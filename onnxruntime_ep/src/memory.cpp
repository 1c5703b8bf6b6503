#include "memory.h"

#include "island.h"

#include <algorithm>
#include <unordered_map>

namespace mgx_ep {

namespace {

bool is_gpu(const OrtMemoryDevice *device) {
  return Api::of(api.ep(), ort_ep::MemoryDeviceKind, device) == HARDWARE_GPU &&
         Api::of(api.ep(), ort_ep::MemoryDeviceVendor, device) == AMD;
}

bool is_cpu(const OrtMemoryDevice *device) {
  return Api::of(api.ep(), ort_ep::MemoryDeviceKind, device) == HARDWARE_CPU;
}

uint32_t number_of(const OrtMemoryDevice *device) {
  return Api::of(api.ep(), ort_ep::MemoryDeviceNumber, device);
}

mgx_memory memory_of(const OrtMemoryDevice *device) {
  if (!is_gpu(device))
    return MGX_MEMORY_HOST;
  bool on_host = Api::of(api.ep(), ort_ep::MemoryDeviceMemory, device) == MEMORY_HOST_ACCESSIBLE;
  return on_host ? MGX_MEMORY_PINNED : MGX_MEMORY_DEVICE;
}

void *handle_of(const OrtSyncStream *stream);

// Freed blocks of at most so many bytes are kept for later runs.
constexpr uint64_t MOST_KEPT = 512 << 20;

// Blocks have one of four sizes between a power of two and the next.
uint64_t rounded(uint64_t bytes) {
  uint64_t power = 512;
  while (power < bytes)
    power *= 2;
  uint64_t step = std::max<uint64_t>(power / 8, 512);
  return (bytes + step - 1) / step * step;
}

// Memory of a device. A block that onnxruntime asks for on a stream is given to that stream alone:
// work of before has ended, or comes first in its order.
class Allocator : public OrtAllocator {
public:
  Allocator(mgx_device *device, mgx_memory memory, const OrtMemoryInfo *info)
      : OrtAllocator{}, device_(device), memory_(memory), info_(info) {
    version = api.version();
    Alloc = [](OrtAllocator *self, size_t bytes) {
      return static_cast<Allocator *>(self)->allocate(bytes, nullptr);
    };
    Reserve = Alloc;
    AllocOnStream = [](OrtAllocator *self, size_t bytes, OrtSyncStream *stream) {
      return static_cast<Allocator *>(self)->allocate(bytes, handle_of(stream));
    };
    Free = [](OrtAllocator *self, void *data) {
      if (data != nullptr)
        static_cast<Allocator *>(self)->free(data);
    };
    Info = [](const OrtAllocator *self) { return static_cast<const Allocator *>(self)->info_; };
  }
  ~Allocator() { release_kept(); }

private:
  using Place = std::pair<void *, uint64_t>; // a stream, and the bytes of a block

  // NULL says that there is no memory.
  void *allocate(uint64_t bytes, void *stream) {
    if (bytes == 0)
      return nullptr;
    std::lock_guard lock(mutex_);
    Place place{stream, rounded(bytes)};
    auto &blocks = kept_[place];
    void *data = nullptr;
    if (stream != nullptr && !blocks.empty()) {
      data = blocks.back();
      blocks.pop_back();
      kept_bytes_ -= place.second;
    } else if (!(data = made(place.second))) {
      release_kept();
      data = made(place.second);
    }
    if (data != nullptr)
      given_[data] = place;
    return data;
  }

  void free(void *data) {
    std::lock_guard lock(mutex_);
    auto at = given_.find(data);
    Place place = at->second;
    given_.erase(at);
    if (place.first == nullptr || kept_bytes_ + place.second > MOST_KEPT) {
      mgx_error_release(mgx_device_free(device_, memory_, data));
      return;
    }
    kept_[place].push_back(data);
    kept_bytes_ += place.second;
  }

  void *made(uint64_t bytes) {
    void *data = nullptr;
    count(&Counters::allocations);
    mgx_error_release(mgx_device_allocate(device_, memory_, bytes, &data));
    return data;
  }

  void release_kept() {
    for (auto &[place, blocks] : kept_)
      for (void *data : blocks)
        mgx_error_release(mgx_device_free(device_, memory_, data));
    kept_.clear();
    kept_bytes_ = 0;
  }

  mgx_device *device_;
  mgx_memory memory_;
  const OrtMemoryInfo *info_;
  std::mutex mutex_;
  std::map<Place, std::vector<void *>> kept_;
  uint64_t kept_bytes_ = 0;
  std::unordered_map<void *, Place> given_;
};

// Calls a function of HIP. Throws Error.
template <typename... Arguments>
void hip(mgx_device *device, const char *name, Arguments... arguments) {
  auto function = reinterpret_cast<int (*)(Arguments...)>(mgx_device_symbol(device, name));
  int code = function != nullptr ? function(arguments...) : -1;
  if (code != 0)
    throw Error(std::string(name) + " failed with code " + std::to_string(code));
}

// An event between streams.
class Notification : public OrtSyncNotificationImpl {
public:
  Notification(mgx_device *device, void *stream)
      : OrtSyncNotificationImpl{}, device_(device), stream_(stream) {
    constexpr unsigned int WITHOUT_TIMING = 2; // hipEventDisableTiming
    hip(device_, "hipEventCreateWithFlags", &event_, WITHOUT_TIMING);
    version = api.version();
    Release = [](OrtSyncNotificationImpl *self) { delete static_cast<Notification *>(self); };
    Activate = [](OrtSyncNotificationImpl *self) {
      auto *own = static_cast<Notification *>(self);
      return guarded([&] { hip(own->device_, "hipEventRecord", own->event_, own->stream_); });
    };
    WaitOnDevice = [](OrtSyncNotificationImpl *self, OrtSyncStream *stream) {
      auto *own = static_cast<Notification *>(self);
      constexpr unsigned int NO_FLAGS = 0;
      return guarded([&] {
        hip(own->device_, "hipStreamWaitEvent", handle_of(stream), own->event_, NO_FLAGS);
      });
    };
    WaitOnHost = [](OrtSyncNotificationImpl *self) {
      auto *own = static_cast<Notification *>(self);
      return guarded([&] { hip(own->device_, "hipEventSynchronize", own->event_); });
    };
  }
  ~Notification() {
    auto destroy = reinterpret_cast<int (*)(void *)>(mgx_device_symbol(device_, "hipEventDestroy"));
    if (destroy != nullptr)
      destroy(event_);
  }

private:
  mgx_device *device_;
  void *stream_;
  void *event_ = nullptr;
};

class Stream : public OrtSyncStreamImpl {
public:
  explicit Stream(mgx_device *device) : OrtSyncStreamImpl{}, device_(device) {
    expect(mgx_stream_create(device_, &handle_));
    version = api.version();
    Release = [](OrtSyncStreamImpl *self) { delete static_cast<Stream *>(self); };
    GetHandle = [](OrtSyncStreamImpl *self) { return static_cast<Stream *>(self)->handle_; };
    CreateNotification = [](OrtSyncStreamImpl *self, OrtSyncNotificationImpl **made) {
      auto *own = static_cast<Stream *>(self);
      return guarded([&] { *made = new Notification(own->device_, own->handle_); });
    };
    Flush = [](OrtSyncStreamImpl *self) {
      auto *own = static_cast<Stream *>(self);
      return guarded([&] { expect(mgx_stream_synchronize(own->device_, own->handle_)); });
    };
    OnSessionRunEnd = [](OrtSyncStreamImpl *) -> OrtStatus * { return nullptr; };
  }
  ~Stream() {
    // Blocks of its memory may go to a stream that gets the same handle.
    mgx_error_release(mgx_stream_synchronize(device_, handle_));
    mgx_error_release(mgx_stream_release(device_, handle_));
  }
  void *handle() const { return handle_; }

private:
  mgx_device *device_;
  void *handle_ = nullptr;
};

void *handle_of(const OrtSyncStream *stream) {
  if (stream == nullptr)
    return nullptr;
  return static_cast<const Stream *>(Api::of(api.ep(), ort_ep::SyncStreamImpl, stream))->handle();
}

class Transfer : public OrtDataTransferImpl {
public:
  explicit Transfer(Devices &devices) : OrtDataTransferImpl{}, devices_(devices) {
    version = api.version();
    Release = [](OrtDataTransferImpl *self) { delete static_cast<Transfer *>(self); };
    CanCopy = [](const OrtDataTransferImpl *, const OrtMemoryDevice *from,
                 const OrtMemoryDevice *to) {
      return (is_gpu(from) && (is_gpu(to) || is_cpu(to))) || (is_cpu(from) && is_gpu(to));
    };
    CopyTensors = [](OrtDataTransferImpl *self, const OrtValue **from, OrtValue **to,
                     OrtSyncStream **streams, size_t count) {
      return guarded([&] {
        for (size_t i = 0; i < count; ++i)
          static_cast<Transfer *>(self)->copy(from[i], to[i], streams ? streams[i] : nullptr);
      });
    };
  }

private:
  void copy(const OrtValue *from, OrtValue *to, const OrtSyncStream *stream) {
    void *source = nullptr, *target = nullptr;
    api.check(ort::GetTensorMutableData, const_cast<OrtValue *>(from), &source);
    api.check(ort::GetTensorMutableData, to, &target);
    size_t bytes = api.get(ort::GetTensorSizeInBytes, from);
    if (bytes == 0)
      return;
    const auto *place = Api::of(api.ep(), ort_ep::ValueDevice, from);
    if (!is_gpu(place))
      place = Api::of(api.ep(), ort_ep::ValueDevice, static_cast<const OrtValue *>(to));
    void *handle = handle_of(stream);
    count(&Counters::copies);
    expect(mgx_device_copy(devices_.gpu(number_of(place)), target, source, bytes, handle,
                           handle != nullptr ? 1 : 0));
  }

  Devices &devices_;
};

} // namespace

size_t Devices::gpu_count() const {
  size_t count = 0;
  mgx_error *error = mgx_device_count(nullptr, &count);
  bool found = error == nullptr;
  mgx_error_release(error);
  return found ? count : 0;
}

mgx_device *Devices::gpu(uint32_t number) {
  std::lock_guard lock(mutex_);
  auto &device = gpus_[number];
  if (device == nullptr) {
    mgx_device *opened = nullptr;
    expect(mgx_device_open(("hip:" + std::to_string(number)).c_str(), nullptr, &opened));
    device.reset(opened);
  }
  return device.get();
}

uint32_t memory_of(const OrtValue *value) {
  return memory_of(Api::of(api.ep(), ort_ep::ValueDevice, value));
}

OrtAllocator *make_allocator(Devices &devices, const OrtMemoryInfo *info) {
  const auto *place = Api::of(api.ep(), ort_ep::MemoryDeviceOf, info);
  return is_gpu(place) ? new Allocator(devices.gpu(number_of(place)), memory_of(place), info)
                       : nullptr;
}

void release_allocator(OrtAllocator *allocator) { delete static_cast<Allocator *>(allocator); }

OrtDataTransferImpl *make_transfer(Devices &devices) { return new Transfer(devices); }

OrtSyncStreamImpl *make_stream(Devices &devices, const OrtMemoryDevice *device) {
  return new Stream(devices.gpu(number_of(device)));
}

} // namespace mgx_ep
