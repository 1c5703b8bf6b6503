//===- api.cpp - the C interface: artifacts and programs
//----------------------------------------------===//
#include "api.h"
#include "artifact.h"
#include "bound_json.h"
#include "code_library.h"
#include "hash.h"
#include "program.h"

#include <memory>

using namespace mgx;

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

struct mgx_program {
  std::shared_ptr<Program> program;
};

struct mgx_loaded {
  CodeLibrary library;
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
  std::shared_ptr<Program> program; // Whose device and artifact the run has.
  std::shared_ptr<Sized> sized;
  std::unique_ptr<Started> started;
};

namespace {

Tensors tensors_of(const mgx_tensor *tensors, size_t count, const char *name) {
  if (count)
    given(tensors, name);
  return {tensors, count};
}

mgx_run_options run_options_of(const mgx_run_options *options) {
  mgx_run_options own = options_of(options);
  if (own.event_count)
    given(own.events, "events");
  return own;
}

} // namespace

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
    mgx_open_options own = options_of(options);
    std::string folder = own.folder ? own.folder : "";
    auto memory =
        own.borrow == 1 ? Bytes::borrow(data, bytes, folder) : Bytes::copy(data, bytes, folder);
    bool anywhere = own.allow_absolute == 1;
    *artifact = new mgx_artifact(Artifact::read(std::move(memory), anywhere));
  });
}

mgx_error *mgx_artifact_assemble(const mgx_assembly *assembly, mgx_artifact **artifact) {
  return guarded([&] {
    given(artifact, "artifact");
    *artifact = new mgx_artifact(Artifact::assembled(options_of(assembly)));
  });
}

mgx_error *mgx_artifact_check(const mgx_assembly *assembly, int32_t check_code) {
  return guarded([&] { Artifact::check(options_of(assembly), check_code == 1); });
}

mgx_error *mgx_artifact_bind(const mgx_artifact *artifact, const mgx_tensor *inputs,
                             size_t input_count, const mgx_rates *rates, mgx_text_function function,
                             void *user) {
  return guarded([&] {
    given(artifact, "artifact");
    if (!function)
      fail(MGX_ERROR_USAGE, "function is NULL");
    const Artifact &parts = *artifact->artifact;
    if (!parts.is_assembled())
      fail(MGX_ERROR_USAGE, "the artifact is a file's, not one of mgx_artifact_assemble");
    mgx_rates figures = options_of(rates);
    if (!(figures.bytes_per_second > 0 && figures.flops_per_second > 0 &&
          figures.compute_units > 0))
      fail(MGX_ERROR_USAGE, "rates of a GPU are above 0");
    Tensors tensors = tensors_of(inputs, input_count, "inputs");
    check_sizes(parts.plan, tensors);
    Known known;
    Plan plan = plan_for(parts, tensors, known);
    Code code;
    for (const CodeObject &one : parts.code.at(""))
      code.push_back(one.bound(known));
    BoundPlan bound(parts, std::move(plan), std::move(code), false);
    Rates own{figures.bytes_per_second, figures.flops_per_second, figures.compute_units};
    function(user, bound_json(bound, !parts.plan.dims.empty(), own).c_str());
  });
}

mgx_error *mgx_code_load(const void *data, size_t bytes, mgx_loaded **code) {
  return guarded([&] {
    given(data, "data");
    given(code, "code");
    CodeObject object;
    object.arch = "cpu";
    object.data = {static_cast<const char *>(data), bytes};
    object.sha256 = sha256(object.data);
    *code = new mgx_loaded{CodeLibrary(object)};
  });
}

mgx_error *mgx_code_function(const mgx_loaded *code, const char *name, void **function) {
  return guarded([&] {
    given(code, "code");
    given(name, "name");
    given(function, "function");
    *function = code->library.function(name);
  });
}

void mgx_code_release(mgx_loaded *code) { delete code; }

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
    if (output_count)
      given(outputs, "outputs");
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
      give(sizes, {sizeof *sizes, sized->workspace(), sized->bound.steps.size(),
                   program->program->device->gpu() && sized->bound.decides()});
  });
}

mgx_error *mgx_program_launches(mgx_program *program, const mgx_tensor *inputs, size_t input_count,
                                mgx_profile_function function, void *user) {
  return guarded([&] {
    given(program, "program");
    if (!function)
      fail(MGX_ERROR_USAGE, "function is NULL");
    auto sized = program->program->sized(tensors_of(inputs, input_count, "inputs"));
    for (const BoundStep &step : sized->bound.steps) {
      mgx_profile_row row = row_of(step, 0);
      function(user, &row);
    }
  });
}

mgx_error *mgx_program_plan(mgx_program *program, const mgx_tensor *inputs, size_t input_count,
                            mgx_text_function function, void *user) {
  return guarded([&] {
    given(program, "program");
    if (!function)
      fail(MGX_ERROR_USAGE, "function is NULL");
    auto sized = program->program->sized(tensors_of(inputs, input_count, "inputs"));
    function(user, sized->bound.plan.json(true).c_str());
  });
}

mgx_error *mgx_run(mgx_program *program, const mgx_tensor *inputs, size_t input_count,
                   const mgx_tensor *outputs, size_t output_count, const mgx_run_options *options) {
  return guarded([&] {
    given(program, "program");
    Tensors in = tensors_of(inputs, input_count, "inputs");
    Tensors out = tensors_of(outputs, output_count, "outputs");
    program->program->checked(in, out)->run(in, out, run_options_of(options));
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
    mgx_run_options own = run_options_of(options);
    started->program = program->program;
    // Wrong calls are known at once.
    started->sized = program->program->checked(started->inputs, started->outputs);
    started->started = started->sized->start(started->inputs, started->outputs, own);
    ++program->program->runs;
    *pending = started.release();
  });
}

mgx_error *mgx_done(mgx_pending *pending, int32_t *done) {
  return guarded([&] {
    given(pending, "pending");
    given(done, "done");
    *done = pending->started->done();
  });
}

mgx_error *mgx_wait(mgx_pending *pending) {
  if (!pending)
    return nullptr;
  std::unique_ptr<mgx_pending> own(pending);
  return guarded([&] { own->started->wait(); });
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
