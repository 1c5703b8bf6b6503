// mgx.hpp - mgx.h for C++17: objects that release themselves, errors as exceptions.
//
//   mgx::Program program(mgx::Artifact("model.mgx"), mgx::Device("cpu"));
//   std::vector<float> x(3 * 224 * 224);
//   std::vector<mgx::Array> results = program.run({mgx::view(x, {1, 3, 224, 224})});
//   const float *scores = results[0].as<float>();
//
// Copies of an object are the same object. Any number of threads may use it.
#pragma once

#include "mgx.h"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

namespace mgx {

// A failure of libmgx, in words.
class Error : public std::runtime_error {
public:
  explicit Error(mgx_error *error)
      : std::runtime_error(mgx_error_text(error)), its_kind(mgx_error_kind_of(error)) {
    mgx_error_release(error);
  }
  mgx_error_kind kind() const { return its_kind; }

private:
  mgx_error_kind its_kind;
};

inline void check(mgx_error *error) {
  if (error)
    throw Error(error);
}

// A struct of the interface, with its size.
template <class Struct> Struct sized() {
  Struct made{};
  made.struct_bytes = sizeof made;
  return made;
}

using Sizes = std::vector<int64_t>;

// An input or output of a program; sizes that a run gives are -1.
struct TensorInfo {
  std::string name;
  mgx_type type;
  Sizes sizes;
  std::vector<std::string> size_texts;
  int may_share;
};

// A named dimension, with its bounds; -1: no bound.
struct Dimension {
  std::string name;
  int64_t least, most;
};

class Artifact {
public:
  // Opens a file, which is mapped.
  explicit Artifact(const std::string &path, bool allow_absolute = false) {
    auto options = sized<mgx_open_options>();
    options.allow_absolute = allow_absolute;
    mgx_artifact *opened = nullptr;
    check(mgx_artifact_open(path.c_str(), &options, &opened));
    handle.reset(opened, mgx_artifact_release);
  }
  // Opens a copy of the bytes of a file.
  Artifact(const void *data, std::size_t bytes) {
    mgx_artifact *opened = nullptr;
    check(mgx_artifact_open_memory(data, bytes, nullptr, &opened));
    handle.reset(opened, mgx_artifact_release);
  }

  mgx_artifact_info info() const {
    auto found = sized<mgx_artifact_info>();
    check(mgx_artifact_get_info(get(), &found));
    return found;
  }
  std::vector<std::string> targets() const {
    std::vector<std::string> found;
    while (const char *name = mgx_artifact_target(get(), found.size()))
      found.emplace_back(name);
    return found;
  }
  std::vector<TensorInfo> inputs() const { return tensors(MGX_INPUT, info().input_count); }
  std::vector<TensorInfo> outputs() const { return tensors(MGX_OUTPUT, info().output_count); }
  std::vector<Dimension> dimensions() const {
    std::vector<Dimension> found;
    for (std::size_t i = 0, count = info().dimension_count; i < count; ++i) {
      auto one = sized<mgx_dimension_info>();
      check(mgx_artifact_dimension(get(), i, &one));
      found.push_back({one.name, one.least, one.most});
    }
    return found;
  }
  mgx_artifact *get() const { return handle.get(); }

private:
  std::vector<TensorInfo> tensors(mgx_direction way, std::size_t count) const {
    std::vector<TensorInfo> found;
    for (std::size_t i = 0; i < count; ++i) {
      auto one = sized<mgx_tensor_info>();
      check(mgx_artifact_tensor(get(), way, i, &one));
      found.push_back({one.name,
                       one.type,
                       Sizes(one.sizes, one.sizes + one.rank),
                       {one.size_texts, one.size_texts + one.rank},
                       one.may_share});
    }
    return found;
  }

  std::shared_ptr<mgx_artifact> handle;
};

class Device {
public:
  // "cpu", "cpu:4", "hip:0".
  explicit Device(const std::string &name, const char *hip_library = nullptr) {
    auto options = sized<mgx_device_options>();
    options.hip_library = hip_library;
    mgx_device *opened = nullptr;
    check(mgx_device_open(name.c_str(), &options, &opened));
    handle.reset(opened, mgx_device_release);
  }
  mgx_device_info info() const {
    auto found = sized<mgx_device_info>();
    check(mgx_device_get_info(get(), &found));
    return found;
  }
  mgx_device *get() const { return handle.get(); }

private:
  std::shared_ptr<mgx_device> handle;
};

// The caller's memory as a tensor of a run.
struct View {
  void *data;
  Sizes sizes;
  std::uint64_t bytes = 0;
  mgx_type type = MGX_TYPE_ANY;
  mgx_memory memory = MGX_MEMORY_ANY;
};

template <class Element> View view(std::vector<Element> &values, Sizes sizes) {
  return {values.data(), std::move(sizes), values.size() * sizeof(Element)};
}

// A result in memory of its own.
class Array {
public:
  Array(mgx_type type, Sizes sizes, std::size_t bytes)
      : sizes(std::move(sizes)), type(type), bytes(bytes), memory(new std::max_align_t[units()]) {}
  template <class Element> const Element *as() const {
    return reinterpret_cast<const Element *>(memory.get());
  }
  View view() { return {memory.get(), sizes, bytes, type, MGX_MEMORY_HOST}; }

  Sizes sizes;
  mgx_type type;
  std::size_t bytes;

private:
  std::size_t units() const { return bytes / sizeof(std::max_align_t) + 1; }
  std::unique_ptr<std::max_align_t[]> memory;
};

class Program {
public:
  Program(const Artifact &artifact, const Device &device,
          mgx_program_options options = sized<mgx_program_options>())
      : outputs(artifact.info().output_count) {
    mgx_program *made = nullptr;
    check(mgx_program_create(artifact.get(), device.get(), &options, &made));
    handle.reset(made, mgx_program_release);
  }

  // The results, in memory of the process.
  std::vector<Array> run(std::vector<View> inputs) const {
    std::vector<Array> results;
    std::vector<mgx_tensor> given = tensors(inputs), found(outputs);
    std::vector<int64_t> sizes(outputs * MGX_MOST_DIMENSIONS);
    for (std::size_t i = 0; i < outputs; ++i)
      found[i].sizes = &sizes[i * MGX_MOST_DIMENSIONS];
    check(mgx_program_sizes(get(), given.data(), given.size(), found.data(), outputs, nullptr));
    std::vector<View> views;
    for (const mgx_tensor &one : found) {
      results.emplace_back(static_cast<mgx_type>(one.type), Sizes(one.sizes, one.sizes + one.rank),
                           static_cast<std::size_t>(one.bytes));
      views.push_back(results.back().view());
    }
    run(std::move(inputs), std::move(views));
    return results;
  }

  // Writes the results to the caller's memory. See mgx_run.
  void run(std::vector<View> inputs, std::vector<View> results,
           mgx_run_options options = sized<mgx_run_options>()) const {
    std::vector<mgx_tensor> given = tensors(inputs), taken = tensors(results);
    check(mgx_run(get(), given.data(), given.size(), taken.data(), taken.size(), &options));
  }

  mgx_program_info info() const {
    auto found = sized<mgx_program_info>();
    check(mgx_program_get_info(get(), &found));
    return found;
  }
  mgx_program *get() const { return handle.get(); }

private:
  static std::vector<mgx_tensor> tensors(std::vector<View> &views) {
    std::vector<mgx_tensor> found;
    for (View &one : views)
      found.push_back({one.data, one.sizes.data(), static_cast<std::uint32_t>(one.sizes.size()),
                       static_cast<std::uint32_t>(one.type), static_cast<std::uint32_t>(one.memory),
                       0, one.bytes});
    return found;
  }

  std::size_t outputs;
  std::shared_ptr<mgx_program> handle;
};

} // namespace mgx
