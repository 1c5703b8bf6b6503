// The entry points: one factory of execution providers, and the devices that they run on.
#include "ep.h"

#include <cstdio>

namespace mgx_ep {

namespace {

constexpr const char *VENDOR = "mgx-mlir";
// The key, in a device's metadata, of libmgx's name for it.
constexpr const char *DEVICE_KEY = "mgx_device";

class Factory : public OrtEpFactory {
public:
  explicit Factory(const OrtLogger *logger);

private:
  size_t devices(const OrtHardwareDevice *const *hardware, size_t count, OrtEpDevice **found,
                 size_t most);
  OrtEp *made(const OrtKeyValuePairs *const *metadata, size_t count,
              const OrtSessionOptions *session, const OrtLogger *logger);

  const OrtLogger *logger_;
};

Factory::Factory(const OrtLogger *logger) : OrtEpFactory{}, logger_(logger) {
  version = api.version();
  GetName = [](const OrtEpFactory *) { return EP_NAME; };
  GetVendor = [](const OrtEpFactory *) { return VENDOR; };
  GetVendorId = [](const OrtEpFactory *) -> uint32_t { return 0; };
  GetVersion = [](const OrtEpFactory *) { return mgx_version(); };
  GetSupportedDevices = [](OrtEpFactory *self, const OrtHardwareDevice *const *hardware,
                           size_t count, OrtEpDevice **found, size_t most, size_t *number) {
    return guarded(
        [&] { *number = static_cast<Factory *>(self)->devices(hardware, count, found, most); });
  };
  CreateEp = [](OrtEpFactory *self, const OrtHardwareDevice *const *,
                const OrtKeyValuePairs *const *metadata, size_t count,
                const OrtSessionOptions *session, const OrtLogger *logger, OrtEp **ep) {
    return guarded(
        [&] { *ep = static_cast<Factory *>(self)->made(metadata, count, session, logger); });
  };
  ReleaseEp = [](OrtEpFactory *, OrtEp *ep) { delete static_cast<Ep *>(ep); };
  // onnxruntime calls these without a look.
  CreateAllocator = [](OrtEpFactory *, const OrtMemoryInfo *, const OrtKeyValuePairs *,
                       OrtAllocator **allocator) -> OrtStatus * {
    *allocator = nullptr;
    return nullptr;
  };
  ReleaseAllocator = [](OrtEpFactory *, OrtAllocator *) {};
  CreateDataTransfer = [](OrtEpFactory *, OrtDataTransferImpl **transfer) -> OrtStatus * {
    *transfer = nullptr;
    return nullptr;
  };
  IsStreamAware = [](const OrtEpFactory *) { return false; };
}

size_t Factory::devices(const OrtHardwareDevice *const *hardware, size_t count, OrtEpDevice **found,
                        size_t most) {
  size_t number = 0;
  for (size_t i = 0; i < count && number < most; ++i) {
    if (api(ort::HardwareKind, hardware[i]) != HARDWARE_CPU)
      continue;
    Pairs metadata(Texts{{DEVICE_KEY, "cpu"}}), options(Texts{});
    api.check_ep(ort_ep::CreateEpDevice, static_cast<OrtEpFactory *>(this), hardware[i],
                 metadata.get(), options.get(), &found[number]);
    ++number;
  }
  return number;
}

OrtEp *Factory::made(const OrtKeyValuePairs *const *metadata, size_t count,
                     const OrtSessionOptions *session, const OrtLogger *logger) {
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
  mgx_device_options wanted{};
  wanted.struct_bytes = sizeof wanted;
  wanted.hip_library = options.hip_library.empty() ? nullptr : options.hip_library.c_str();
  mgx_device *device = nullptr;
  expect(mgx_device_open(name.c_str(), &wanted, &device));
  return new Ep(options, Device(device), logger);
}

} // namespace

} // namespace mgx_ep

extern "C" __attribute__((visibility("default"))) OrtStatus *
CreateEpFactories(const char *, const OrtApiBase *base, const OrtLogger *logger,
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
    factories[0] = new mgx_ep::Factory(logger);
    *count = 1;
  });
}

extern "C" __attribute__((visibility("default"))) OrtStatus *
ReleaseEpFactory(OrtEpFactory *factory) {
  delete static_cast<mgx_ep::Factory *>(factory);
  return nullptr;
}
