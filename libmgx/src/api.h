//===- api.h - what the functions of the C interface share
//-------------------------------------------===//
#pragma once

#include "device.h"
#include "error.h"

#include <algorithm>
#include <cstring>
#include <memory>
#include <new>
#include <stdexcept>

struct mgx_error {
  mgx_error_kind kind;
  std::string text, hip_name, hip_call, hip_kernel;
};

struct mgx_device {
  std::shared_ptr<mgx::Device> device;
};

namespace mgx {

mgx_error *out_of_memory() noexcept;
mgx_error *error_of(const Error &error) noexcept;

// Runs a function of the interface; what it throws becomes its result.
template <class Function> mgx_error *guarded(const Function &function) noexcept {
  try {
    function();
    return nullptr;
  } catch (const Error &error) {
    return error_of(error);
  } catch (const std::bad_alloc &) {
    return out_of_memory();
  } catch (const std::length_error &) {
    return out_of_memory();
  } catch (const std::exception &error) {
    return error_of({MGX_ERROR_INTERNAL,
                     std::string(error.what()) + "; this is a fault of libmgx: please report it"});
  }
}

// The options of the caller, whose struct may be an older or newer one.
template <class Options> Options options_of(const Options *given) {
  Options options{};
  if (!given)
    return options;
  if (given->struct_bytes < sizeof given->struct_bytes)
    fail(MGX_ERROR_USAGE, "struct_bytes is ", given->struct_bytes,
         "; it is the sizeof of the struct");
  std::memcpy(static_cast<void *>(&options), given, std::min(given->struct_bytes, sizeof options));
  options.struct_bytes = sizeof options;
  return options;
}

// Gives the caller as much of the facts as its struct has.
template <class Info> void give(Info *target, Info facts) {
  given(target, "info");
  size_t bytes = target->struct_bytes;
  if (bytes < sizeof bytes)
    fail(MGX_ERROR_USAGE, "struct_bytes is ", bytes, "; it is the sizeof of the struct");
  facts.struct_bytes = bytes;
  std::memcpy(static_cast<void *>(target), &facts, std::min(bytes, sizeof facts));
}

} // namespace mgx
