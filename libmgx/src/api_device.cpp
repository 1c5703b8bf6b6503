//===- api_device.cpp - the C interface: errors and devices
//-------------------------------------------===//
#include "api.h"

using namespace mgx;

namespace {
mgx_error no_memory{MGX_ERROR_RESOURCE,
                    "memory ran out; use smaller sizes, or a machine with more memory",
                    {},
                    {},
                    {}};

void check_kind(mgx_memory memory) {
  if (static_cast<uint32_t>(memory) > MGX_MEMORY_PINNED)
    fail(MGX_ERROR_USAGE, "memory is ", static_cast<uint32_t>(memory), "; it is an mgx_memory");
}
} // namespace

namespace mgx {

mgx_error *out_of_memory() noexcept { return &no_memory; }

mgx_error *error_of(const Error &error) noexcept {
  try {
    return new mgx_error{error.kind, printable(error.text), error.hip_name, error.hip_call,
                         printable(error.hip_kernel)};
  } catch (const std::bad_alloc &) {
    return &no_memory;
  }
}

} // namespace mgx

const char *mgx_version(void) { return MGX_LIBRARY_VERSION; }
uint32_t mgx_interface(void) { return MGX_INTERFACE; }

const char *mgx_error_text(const mgx_error *error) { return error ? error->text.c_str() : ""; }
mgx_error_kind mgx_error_kind_of(const mgx_error *error) {
  return error ? error->kind : static_cast<mgx_error_kind>(0);
}
void mgx_error_get_hip(const mgx_error *error, mgx_hip_error *info) {
  mgx_error_release(guarded([&] {
    static const mgx_error none{};
    const mgx_error &own = error ? *error : none;
    give(info, {sizeof *info, own.hip_name.c_str(), own.hip_call.c_str(), own.hip_kernel.c_str()});
  }));
}
void mgx_error_release(mgx_error *error) {
  if (error != &no_memory)
    delete error;
}

mgx_error *mgx_device_open(const char *name, const mgx_device_options *options,
                           mgx_device **device) {
  return guarded([&] {
    given(name, "name");
    given(device, "device");
    *device = new mgx_device{Device::open(name, options_of(options))};
  });
}

void mgx_device_release(mgx_device *device) { delete device; }

mgx_error *mgx_device_count(const mgx_device_options *options, size_t *count) {
  return guarded([&] {
    given(count, "count");
    *count = gpu_count(options_of(options));
  });
}

mgx_error *mgx_device_get_info(const mgx_device *device, mgx_device_info *info) {
  return guarded([&] {
    given(device, "device");
    const Device &found = *device->device;
    give(info, {sizeof *info, found.name().c_str(), found.target().c_str(), found.gpu() ? 1 : 0,
                found.number(), found.threads(), found.memory_bytes()});
  });
}

mgx_error *mgx_device_allocate(mgx_device *device, mgx_memory memory, uint64_t bytes, void **data) {
  return guarded([&] {
    given(device, "device");
    given(data, "data");
    check_kind(memory);
    *data = device->device->allocate(memory, bytes);
  });
}

mgx_error *mgx_device_free(mgx_device *device, mgx_memory memory, void *data) {
  return guarded([&] {
    given(device, "device");
    check_kind(memory);
    if (data)
      device->device->free(memory, data);
  });
}

mgx_error *mgx_device_copy(mgx_device *device, void *target, const void *source, uint64_t bytes,
                           void *stream, int32_t is_async) {
  return guarded([&] {
    given(device, "device");
    if (!bytes)
      return;
    given(target, "target");
    given(source, "source");
    device->device->copy(target, source, bytes, stream, is_async != 0);
  });
}

mgx_error *mgx_stream_create(mgx_device *device, void **stream) {
  return guarded([&] {
    given(device, "device");
    given(stream, "stream");
    *stream = device->device->create_stream();
  });
}

mgx_error *mgx_stream_synchronize(mgx_device *device, void *stream) {
  return guarded([&] {
    given(device, "device");
    device->device->synchronize(stream);
  });
}

mgx_error *mgx_stream_release(mgx_device *device, void *stream) {
  return guarded([&] {
    given(device, "device");
    if (stream)
      device->device->release_stream(stream);
  });
}

void *mgx_device_symbol(const mgx_device *device, const char *function) {
  return device && function ? device->device->symbol(function) : nullptr;
}
