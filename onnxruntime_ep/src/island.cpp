#include "island.h"

#include "memory.h"
#include "profiler.h"

#include <atomic>

namespace mgx_ep {

namespace {

std::atomic<uint64_t> counted[sizeof(Counters) / sizeof(uint64_t)];

std::atomic<uint64_t> &counter(uint64_t Counters::*which) {
  Counters places{0, 1, 2, 3, 4, 5};
  return counted[places.*which];
}

mgx_artifact_info info_of(const mgx_artifact *artifact) {
  mgx_artifact_info info{};
  info.struct_bytes = sizeof info;
  expect(mgx_artifact_get_info(artifact, &info));
  return info;
}

mgx_tensor_info tensor_of(const mgx_artifact *artifact, mgx_direction direction, size_t number) {
  mgx_tensor_info info{};
  info.struct_bytes = sizeof info;
  expect(mgx_artifact_tensor(artifact, direction, number, &info));
  return info;
}

} // namespace

void count(uint64_t Counters::*which) { counter(which).fetch_add(1, std::memory_order_relaxed); }

Artifact opened(const std::filesystem::path &path) {
  mgx_artifact *artifact = nullptr;
  expect(mgx_artifact_open(path.c_str(), nullptr, &artifact));
  return Artifact(artifact);
}

Program program_of(mgx_artifact *artifact, mgx_device *device, const Options &options,
                   bool is_own) {
  if (options.only_compiles)
    return nullptr;
  std::vector<const char *> keys;
  for (const auto &key : options.keys)
    keys.push_back(key.c_str());
  std::string kernels = (options.cache_dir / "kernels").string();
  mgx_program_options wanted{};
  wanted.struct_bytes = sizeof wanted;
  wanted.trust_code = options.trust || is_own ? 1 : 0;
  wanted.graph = options.graph ? 0 : -1;
  wanted.trusted_key_count = keys.size();
  keys.push_back(nullptr); // NULL in place of the keys asks the environment.
  wanted.trusted_keys = options.own_trust ? keys.data() : nullptr;
  wanted.cache_dir = options.own_cache ? kernels.c_str() : nullptr;
  mgx_program *program = nullptr;
  mgx_error *error = mgx_program_create(artifact, device, &wanted, &program);
  bool is_untrusted = mgx_error_kind_of(error) == MGX_ERROR_USER;
  expect(error, is_untrusted ? "; option trust of the provider consents, or names keys" : "");
  count(&Counters::programs);
  return Program(program);
}

std::vector<std::string> tensor_names(const mgx_artifact *artifact, mgx_direction direction) {
  mgx_artifact_info info = info_of(artifact);
  size_t count = direction == MGX_INPUT ? info.input_count : info.output_count;
  std::vector<std::string> names;
  for (size_t i = 0; i < count; ++i)
    names.emplace_back(tensor_of(artifact, direction, i).name);
  return names;
}

Island::Island(std::string name, Artifact artifact, Program program, mgx_device *device,
               std::vector<size_t> inputs, std::vector<size_t> outputs)
    : OrtNodeComputeInfo{}, name_(std::move(name)), artifact_(std::move(artifact)),
      program_(std::move(program)), device_(device), inputs_(std::move(inputs)),
      outputs_(std::move(outputs)) {
  version = api.version();
  CreateState = [](OrtNodeComputeInfo *self, OrtNodeComputeContext *, void **state) -> OrtStatus * {
    *state = self;
    return nullptr;
  };
  Compute = [](OrtNodeComputeInfo *, void *state, OrtKernelContext *context) {
    return guarded([&] { static_cast<const Island *>(state)->run(context); });
  };
  ReleaseState = [](OrtNodeComputeInfo *, void *) {};

  on_gpu_ = target_of(device) != "cpu";
  for (size_t i = 0; i < outputs_.size(); ++i)
    ranks_.push_back(tensor_of(artifact_.get(), MGX_OUTPUT, i).rank);
}

void Island::run(OrtKernelContext *context) const {
  std::vector<TensorType> types(inputs_.size());
  std::vector<mgx_tensor> inputs(inputs_.size()), outputs(outputs_.size());
  for (size_t i = 0; i < inputs.size(); ++i) {
    const OrtValue *value = nullptr;
    api.check(ort::KernelInput, context, inputs_[i], &value);
    if (value == nullptr)
      throw Error("input " + std::to_string(inputs_[i]) + " is missing");
    types[i] = tensor_type(value);
    inputs[i].sizes = types[i].sizes.data();
    inputs[i].rank = static_cast<uint32_t>(types[i].sizes.size());
    inputs[i].type = static_cast<uint32_t>(types[i].element);
    inputs[i].memory = on_gpu_ ? memory_of(value) : uint32_t{MGX_MEMORY_HOST};
    api.check(ort::GetTensorMutableData, const_cast<OrtValue *>(value), &inputs[i].data);
  }
  std::vector<std::vector<int64_t>> sizes(outputs.size());
  for (size_t i = 0; i < outputs.size(); ++i) {
    sizes[i].resize(ranks_[i] + 1); // not NULL for scalars, which would be left out
    outputs[i].sizes = sizes[i].data();
  }
  expect(mgx_program_sizes(program_.get(), inputs.data(), inputs.size(), outputs.data(),
                           outputs.size(), nullptr));
  std::vector<std::vector<char>> unread;
  for (size_t i = 0; i < outputs.size(); ++i) {
    if (outputs_[i] == UNREAD) {
      unread.emplace_back(outputs[i].bytes);
      outputs[i].data = unread.back().data();
      outputs[i].memory = MGX_MEMORY_HOST;
      continue;
    }
    OrtValue *value = nullptr;
    api.check(ort::KernelOutput, context, outputs_[i], outputs[i].sizes, size_t{outputs[i].rank},
              &value);
    api.check(ort::GetTensorMutableData, value, &outputs[i].data);
    outputs[i].memory = on_gpu_ ? memory_of(value) : uint32_t{MGX_MEMORY_HOST};
  }
  mgx_run_options options{};
  options.struct_bytes = sizeof options;
  if (on_gpu_)
    api.check(ort::KernelStream, context, &options.stream);
  options.on_stream = options.stream != nullptr ? 1 : 0;
  if (is_profiled()) {
    if (options.stream != nullptr) // a profile has a stream of its own
      expect(mgx_stream_synchronize(device_, options.stream));
    auto add = [](void *self, const mgx_profile_row *row) {
      add_launch(static_cast<const Island *>(self)->name_, *row);
    };
    expect(mgx_profile(program_.get(), inputs.data(), inputs.size(), outputs.data(), outputs.size(),
                       add, const_cast<Island *>(this)));
  } else
    expect(mgx_run(program_.get(), inputs.data(), inputs.size(), outputs.data(), outputs.size(),
                   &options));
  count(&Counters::runs);
}

} // namespace mgx_ep

extern "C" __attribute__((visibility("default"))) void MgxEpCounters(mgx_ep::Counters *counters) {
  uint64_t *values = reinterpret_cast<uint64_t *>(counters);
  for (size_t i = 0; i < sizeof(mgx_ep::Counters) / sizeof(uint64_t); ++i)
    values[i] = mgx_ep::counted[i].load();
}
