//===- api.cpp - the C interface
//------------------------------------------------------------------===//
#include "artifact.h"
#include "device.h"
#include "program.h"

#include <cstring>
#include <new>
#include <stdexcept>
#include <thread>

using namespace mgx;

struct mgx_error {
  mgx_error_kind kind;
  std::string text;
};

// The facts of a tensor, in the form that the interface gives.
struct TensorFacts {
  TensorFacts(const Plan &plan, const TensorSpec &spec) : spec(spec) {
    for (int64_t size : spec.shape) {
      sizes.push_back(size < 0 ? -1 : size);
      texts.push_back(size < 0 ? plan.formulas[static_cast<size_t>(-1 - size)].text
                               : std::to_string(size));
    }
    for (const std::string &text : texts)
      pointers.push_back(text.c_str());
  }

  const TensorSpec &spec;
  std::vector<int64_t> sizes;
  std::vector<std::string> texts;
  std::vector<const char *> pointers;
};

struct mgx_artifact {
  explicit mgx_artifact(std::shared_ptr<const Artifact> given) : artifact(std::move(given)) {
    const Plan &plan = artifact->plan;
    for (const TensorSpec &spec : plan.inputs)
      tensors[MGX_INPUT].push_back(std::make_unique<TensorFacts>(plan, spec));
    for (const TensorSpec &spec : plan.outputs)
      tensors[MGX_OUTPUT].push_back(std::make_unique<TensorFacts>(plan, spec));
    if (artifact->parts)
      host_operators = artifact->parts->operators();
  }

  const std::shared_ptr<const Artifact> artifact;
  std::vector<std::unique_ptr<TensorFacts>> tensors[2];
  std::string host_operators;
};

struct mgx_device {
  std::shared_ptr<Device> device;
};

struct mgx_program {
  std::shared_ptr<Program> program;
};

struct mgx_pending {
  // The tensors of the caller, whose arrays may go away.
  void keep(Tensors given, std::vector<mgx_tensor> &kept) {
    kept.assign(given.begin(), given.end());
    for (mgx_tensor &tensor : kept) {
      sizes.emplace_back(tensor.sizes, tensor.sizes + (tensor.sizes ? tensor.rank : 0));
      tensor.sizes = sizes.back().data();
    }
  }

  std::vector<std::vector<int64_t>> sizes;
  std::vector<mgx_tensor> inputs, outputs;
  std::thread thread;
  mgx_error *error = nullptr;
};

namespace {

mgx_error out_of_memory{MGX_ERROR_RESOURCE,
                        "memory ran out; use smaller sizes, or a machine with more memory"};

mgx_error *error_of(mgx_error_kind kind, const std::string &text) noexcept {
  try {
    return new mgx_error{kind, printable(text)};
  } catch (const std::bad_alloc &) {
    return &out_of_memory;
  }
}

// Runs a function of the interface; what it throws becomes its result.
template <class Function> mgx_error *guarded(const Function &function) noexcept {
  try {
    function();
    return nullptr;
  } catch (const Error &error) {
    return error_of(error.kind, error.text);
  } catch (const std::bad_alloc &) {
    return &out_of_memory;
  } catch (const std::length_error &) {
    return &out_of_memory;
  } catch (const std::exception &error) {
    return error_of(MGX_ERROR_INTERNAL,
                    std::string(error.what()) + "; this is a fault of libmgx: please report it");
  }
}

void given(const void *pointer, const char *name) {
  if (!pointer)
    fail(MGX_ERROR_USAGE, name, " is NULL");
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

Tensors tensors_of(const mgx_tensor *tensors, size_t count, const char *name) {
  if (count)
    given(tensors, name);
  return {tensors, count};
}

} // namespace

const char *mgx_version(void) { return MGX_LIBRARY_VERSION; }
uint32_t mgx_interface(void) { return MGX_INTERFACE; }

const char *mgx_error_text(const mgx_error *error) { return error ? error->text.c_str() : ""; }
mgx_error_kind mgx_error_kind_of(const mgx_error *error) {
  return error ? error->kind : static_cast<mgx_error_kind>(0);
}
void mgx_error_release(mgx_error *error) {
  if (error != &out_of_memory)
    delete error;
}

mgx_error *mgx_artifact_open(const char *path, const mgx_open_options *options,
                             mgx_artifact **artifact) {
  return guarded([&] {
    given(path, "path");
    given(artifact, "artifact");
    bool anywhere = options_of(options).allow_absolute == 1;
    *artifact = new mgx_artifact(Artifact::open(path, anywhere));
  });
}

mgx_error *mgx_artifact_open_memory(const void *data, size_t bytes, const mgx_open_options *options,
                                    mgx_artifact **artifact) {
  return guarded([&] {
    given(data, "data");
    given(artifact, "artifact");
    bool borrow = options_of(options).borrow == 1;
    auto memory = borrow ? Bytes::borrow(data, bytes) : Bytes::copy(data, bytes);
    *artifact = new mgx_artifact(Artifact::read(std::move(memory)));
  });
}

void mgx_artifact_release(mgx_artifact *artifact) { delete artifact; }

mgx_error *mgx_artifact_get_info(const mgx_artifact *artifact, mgx_artifact_info *info) {
  return guarded([&] {
    given(artifact, "artifact");
    const Artifact &found = *artifact->artifact;
    give(info,
         {sizeof *info, found.name.c_str(), found.producer.c_str(), found.content_hash.c_str(),
          found.parts ? artifact->host_operators.c_str() : nullptr, found.targets.size(),
          found.plan.inputs.size(), found.plan.outputs.size(), found.plan.dims.size()});
  });
}

const char *mgx_artifact_target(const mgx_artifact *artifact, size_t number) {
  if (!artifact || number >= artifact->artifact->targets.size())
    return nullptr;
  return artifact->artifact->targets[number].c_str();
}

mgx_error *mgx_artifact_tensor(const mgx_artifact *artifact, mgx_direction direction, size_t number,
                               mgx_tensor_info *info) {
  return guarded([&] {
    given(artifact, "artifact");
    if (direction != MGX_INPUT && direction != MGX_OUTPUT)
      fail(MGX_ERROR_USAGE, "a direction is MGX_INPUT or MGX_OUTPUT");
    const auto &tensors = artifact->tensors[direction];
    if (number >= tensors.size())
      fail(MGX_ERROR_USAGE, "there is no ", direction == MGX_INPUT ? "input " : "output ", number,
           "; the program has ", tensors.size());
    const TensorFacts &facts = *tensors[number];
    int32_t shared = -1;
    for (auto [output, source] : artifact->artifact->plan.in_place)
      if (direction == MGX_OUTPUT && output == static_cast<int64_t>(number))
        shared = static_cast<int32_t>(source);
    give(info, {sizeof *info, facts.spec.name.c_str(), facts.spec.element->type,
                static_cast<uint32_t>(facts.sizes.size()), facts.sizes.data(),
                facts.pointers.data(), shared});
  });
}

mgx_error *mgx_artifact_dimension(const mgx_artifact *artifact, size_t number,
                                  mgx_dimension_info *info) {
  return guarded([&] {
    given(artifact, "artifact");
    const auto &dims = artifact->artifact->plan.dims;
    if (number >= dims.size())
      fail(MGX_ERROR_USAGE, "there is no dimension ", number, "; the program has ", dims.size());
    const Dimension &dim = dims[number];
    give(info, {sizeof *info, dim.name.c_str(), dim.low, dim.high.value_or(-1)});
  });
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
    *data = device->device->allocate(memory, bytes);
  });
}

mgx_error *mgx_device_free(mgx_device *device, mgx_memory memory, void *data) {
  return guarded([&] {
    given(device, "device");
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

mgx_error *mgx_program_create(mgx_artifact *artifact, mgx_device *device,
                              const mgx_program_options *options, mgx_program **program) {
  return guarded([&] {
    given(artifact, "artifact");
    given(device, "device");
    given(program, "program");
    *program =
        new mgx_program{Program::create(artifact->artifact, device->device, options_of(options))};
  });
}

void mgx_program_release(mgx_program *program) { delete program; }

mgx_error *mgx_program_sizes(mgx_program *program, const mgx_tensor *inputs, size_t input_count,
                             mgx_tensor *outputs, size_t output_count, mgx_sizes *sizes) {
  return guarded([&] {
    given(program, "program");
    auto sized = program->program->sized(tensors_of(inputs, input_count, "inputs"));
    const auto &specs = sized->bound.plan.outputs;
    if (output_count && output_count != specs.size())
      fail(MGX_ERROR_USAGE, "the program has ", specs.size(), " outputs; got ", output_count);
    for (size_t i = 0; i < output_count; ++i) {
      mgx_tensor &output = outputs[i];
      output.rank = static_cast<uint32_t>(specs[i].shape.size());
      output.type = static_cast<uint32_t>(specs[i].element->type);
      output.bytes = static_cast<uint64_t>(specs[i].bytes());
      if (output.sizes)
        std::copy(specs[i].shape.begin(), specs[i].shape.end(), output.sizes);
    }
    if (sizes)
      give(sizes, {sizeof *sizes, sized->workspace(), sized->bound.steps.size()});
  });
}

mgx_error *mgx_run(mgx_program *program, const mgx_tensor *inputs, size_t input_count,
                   const mgx_tensor *outputs, size_t output_count, const mgx_run_options *options) {
  return guarded([&] {
    given(program, "program");
    Tensors in = tensors_of(inputs, input_count, "inputs");
    Tensors out = tensors_of(outputs, output_count, "outputs");
    program->program->checked(in, out)->run(in, out, options_of(options));
    ++program->program->runs;
  });
}

mgx_error *mgx_run_async(mgx_program *program, const mgx_tensor *inputs, size_t input_count,
                         const mgx_tensor *outputs, size_t output_count,
                         const mgx_run_options *options, mgx_pending **pending) {
  return guarded([&] {
    given(program, "program");
    given(pending, "pending");
    auto started = std::make_unique<mgx_pending>();
    started->keep(tensors_of(inputs, input_count, "inputs"), started->inputs);
    started->keep(tensors_of(outputs, output_count, "outputs"), started->outputs);
    mgx_run_options own = options_of(options);
    // Wrong calls are known at once.
    auto sized = program->program->checked(started->inputs, started->outputs);
    started->thread = std::thread([run = started.get(), own, sized, whole = program->program] {
      run->error = guarded([&] {
        sized->run(run->inputs, run->outputs, own);
        ++whole->runs;
      });
    });
    *pending = started.release();
  });
}

mgx_error *mgx_wait(mgx_pending *pending) {
  if (!pending)
    return nullptr;
  pending->thread.join();
  mgx_error *error = pending->error;
  delete pending;
  return error;
}

mgx_error *mgx_profile(mgx_program *program, const mgx_tensor *inputs, size_t input_count,
                       const mgx_tensor *outputs, size_t output_count,
                       mgx_profile_function function, void *user) {
  return guarded([&] {
    given(program, "program");
    if (!function)
      fail(MGX_ERROR_USAGE, "function is NULL");
    Tensors in = tensors_of(inputs, input_count, "inputs");
    Tensors out = tensors_of(outputs, output_count, "outputs");
    program->program->checked(in, out)->profile(in, out, function, user);
  });
}

mgx_error *mgx_program_get_info(mgx_program *program, mgx_program_info *info) {
  return guarded([&] {
    given(program, "program");
    Program &found = *program->program;
    give(info, {sizeof *info, found.target.c_str(), found.weight_bytes(), found.kept_bytes(),
                found.bindings, found.runs});
  });
}
