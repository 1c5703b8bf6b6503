// The entry points: one factory of execution providers, and the devices that they run on.
#include "ep.h"
#include "memory.h"

#include <algorithm>
#include <cstdio>

namespace mgx_ep {

namespace {

constexpr const char *VENDOR = "mgx-mlir";
// The key, in a device's metadata, of libmgx's name for it.
constexpr const char *DEVICE_KEY = "mgx_device";
// The key of the target that the provider compiles for there.
constexpr const char *TARGET_KEY = "mgx_target";

struct ReleaseMemory {
  void operator()(OrtMemoryInfo *info) const { api(ort::ReleaseMemoryInfo, info); }
};

class Factory : public OrtEpFactory {
public:
  // `makes_devices`: GPUs that onnxruntime does not see, as emulated ones, are devices too.
  Factory(bool makes_devices, const OrtLogger *logger);

private:
  std::vector<OrtEpDevice *> devices(const OrtHardwareDevice *const *hardware, size_t count);
  OrtEpDevice *device(const OrtHardwareDevice *hardware, const std::string &name,
                      const std::string &target);
  OrtEpDevice *gpu(const OrtHardwareDevice *hardware, uint32_t number);
  const OrtHardwareDevice *virtual_gpu(uint32_t number);
  OrtEp *made(const OrtKeyValuePairs *const *metadata, size_t count,
              const OrtSessionOptions *session, const OrtLogger *logger);

  DefaultLog log_;
  bool makes_devices_;
  Devices devices_;
  std::vector<std::unique_ptr<OrtMemoryInfo, ReleaseMemory>> memory_;
};

Factory::Factory(bool makes_devices, const OrtLogger *logger)
    : OrtEpFactory{}, log_(logger), makes_devices_(makes_devices) {
  version = api.version();
  GetName = [](const OrtEpFactory *) { return EP_NAME; };
  GetVendor = [](const OrtEpFactory *) { return VENDOR; };
  GetVendorId = [](const OrtEpFactory *) -> uint32_t { return 0; };
  GetVersion = [](const OrtEpFactory *) { return mgx_version(); };
  GetSupportedDevices = [](OrtEpFactory *self, const OrtHardwareDevice *const *hardware,
                           size_t count, OrtEpDevice **found, size_t most, size_t *number) {
    return guarded([&] {
      auto made = static_cast<Factory *>(self)->devices(hardware, count);
      *number = std::min(made.size(), most);
      std::copy_n(made.begin(), *number, found);
      for (size_t i = *number; i < made.size(); ++i)
        Api::of(api.ep(), ort_ep::ReleaseEpDevice, made[i]);
    });
  };
  CreateEp = [](OrtEpFactory *self, const OrtHardwareDevice *const *,
                const OrtKeyValuePairs *const *metadata, size_t count,
                const OrtSessionOptions *session, const OrtLogger *logger, OrtEp **ep) {
    return guarded(
        [&] { *ep = static_cast<Factory *>(self)->made(metadata, count, session, logger); });
  };
  ReleaseEp = [](OrtEpFactory *, OrtEp *ep) { delete static_cast<Ep *>(ep); };
  // onnxruntime calls the functions below without a look.
  CreateAllocator = [](OrtEpFactory *self, const OrtMemoryInfo *info, const OrtKeyValuePairs *,
                       OrtAllocator **allocator) {
    *allocator = nullptr;
    return guarded(
        [&] { *allocator = make_allocator(static_cast<Factory *>(self)->devices_, info); });
  };
  ReleaseAllocator = [](OrtEpFactory *, OrtAllocator *allocator) { release_allocator(allocator); };
  CreateDataTransfer = [](OrtEpFactory *self, OrtDataTransferImpl **transfer) {
    return guarded([&] { *transfer = make_transfer(static_cast<Factory *>(self)->devices_); });
  };
  IsStreamAware = [](const OrtEpFactory *) { return true; };
  CreateSyncStreamForDevice = [](OrtEpFactory *self, const OrtMemoryDevice *device,
                                 const OrtKeyValuePairs *, OrtSyncStreamImpl **stream) {
    return guarded([&] { *stream = make_stream(static_cast<Factory *>(self)->devices_, device); });
  };
}

std::vector<OrtEpDevice *> Factory::devices(const OrtHardwareDevice *const *hardware,
                                            size_t count) {
  std::vector<OrtEpDevice *> found;
  uint32_t seen = 0;
  for (size_t i = 0; i < count; ++i) {
    bool is_amd = api(ort::HardwareKind, hardware[i]) == HARDWARE_GPU &&
                  api(ort::HardwareVendorId, hardware[i]) == AMD;
    if (api(ort::HardwareKind, hardware[i]) == HARDWARE_CPU)
      found.push_back(device(hardware[i], "cpu", "cpu"));
    else if (is_amd && seen < devices_.gpu_count())
      found.push_back(gpu(hardware[i], seen++));
  }
  for (uint32_t number = seen; makes_devices_ && number < devices_.gpu_count(); ++number)
    found.push_back(gpu(virtual_gpu(number), number));
  return found;
}

OrtEpDevice *Factory::device(const OrtHardwareDevice *hardware, const std::string &name,
                             const std::string &target) {
  Pairs metadata(Texts{{DEVICE_KEY, name}, {TARGET_KEY, target}}), options(Texts{});
  OrtEpDevice *made = nullptr;
  api.check_ep(ort_ep::CreateEpDevice, static_cast<OrtEpFactory *>(this), hardware, metadata.get(),
               options.get(), &made);
  return made;
}

OrtEpDevice *Factory::gpu(const OrtHardwareDevice *hardware, uint32_t number) {
  OrtEpDevice *made =
      device(hardware, "hip:" + std::to_string(number), target_of(devices_.gpu(number)));
  constexpr size_t ALIGNMENT = 256;
  for (int kind : {MEMORY_DEFAULT, MEMORY_HOST_ACCESSIBLE}) {
    OrtMemoryInfo *info = nullptr;
    api.check(ort::CreateMemoryInfo, kind == MEMORY_DEFAULT ? "mgx" : "mgx_pinned", HARDWARE_GPU,
              AMD, static_cast<int32_t>(number), kind, ALIGNMENT, ALLOCATOR_DEVICE, &info);
    memory_.emplace_back(info);
    api.check_ep(ort_ep::AddAllocatorInfo, made, info);
  }
  return made;
}

const OrtHardwareDevice *Factory::virtual_gpu(uint32_t number) {
  Pairs metadata(Texts{});
  OrtHardwareDevice *made = nullptr;
  api.check_ep(ort_ep::CreateHardwareDevice, HARDWARE_GPU, AMD, number, "AMD", metadata.get(),
               &made);
  return made;
}

OrtEp *Factory::made(const OrtKeyValuePairs *const *metadata, size_t count,
                     const OrtSessionOptions *session, const OrtLogger *logger) {
  Listening listening(logger);
  Options options = Options::of(session);
  std::string name;
  for (size_t i = 0; i < count; ++i) {
    const char *given = api(ort::GetKeyValue, metadata[i], DEVICE_KEY);
    if (given == nullptr)
      continue;
    if (!name.empty() && name != given)
      throw Error("a session runs on one device of this provider; " + name + " and " + given +
                      " are given",
                  ORT_INVALID_ARGUMENT);
    name = given;
  }
  if (name.empty())
    name = "cpu";
  if (name == "cpu" && options.threads > 0)
    name += ":" + std::to_string(options.threads);
  mgx_device *device = nullptr;
  expect(mgx_device_open(name.c_str(), nullptr, &device));
  return new Ep(options, Device(device), logger);
}

} // namespace

} // namespace mgx_ep

extern "C" __attribute__((visibility("default"))) OrtStatus *
CreateEpFactories(const char *name, const OrtApiBase *base, const OrtLogger *logger,
                  OrtEpFactory **factories, size_t most, size_t *count) {
  try {
    mgx_ep::api.negotiate(base);
  } catch (const std::exception &error) {
    fprintf(stderr, "%s: %s\n", mgx_ep::EP_NAME, error.what());
    *count = 0;
    return nullptr;
  }
  return mgx_ep::guarded([&] {
    if (most < 1)
      throw mgx_ep::Error("onnxruntime has no room for a factory");
    // onnxruntime allows devices of one's own under such a name.
    std::string_view registered(name != nullptr ? name : ""), ending(".virtual");
    bool makes_devices = registered.size() >= ending.size() &&
                         registered.substr(registered.size() - ending.size()) == ending &&
                         mgx_ep::api.version() >= ort_ep::CREATE_HARDWARE_SINCE;
    factories[0] = new mgx_ep::Factory(makes_devices, logger);
    *count = 1;
  });
}

extern "C" __attribute__((visibility("default"))) OrtStatus *
ReleaseEpFactory(OrtEpFactory *factory) {
  delete static_cast<mgx_ep::Factory *>(factory);
  return nullptr;
}
