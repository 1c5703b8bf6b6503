//===- program.cpp - a program on a device, bound to the sizes of each run ---------------===//
#include "program.h"
#include "cpu.h"
#include "hip_program.h"
#include "targets.h"

#include <algorithm>
#include <cstring>

namespace mgx {

namespace {

std::string tensor_text(const mgx_tensor &tensor) {
  const Element *element = element_of(tensor.type);
  std::string type = tensor.type ? cat("type ", tensor.type, " ") : "";
  std::string text = cat(element ? element->name : type, "[");
  for (uint32_t axis = 0; axis < tensor.rank; ++axis)
    text += cat(axis ? ", " : "", tensor.sizes[axis]);
  return text + "]";
}

void check_count(const char *what, size_t given, size_t wanted) {
  if (given != wanted)
    fail(MGX_ERROR_USAGE, "the program has ", wanted, " ", what, "s; got ", given);
}

// Whether the sizes of the tensors are these, one after another.
bool matches(Tensors tensors, const std::vector<int64_t> &sizes) {
  size_t place = 0;
  for (const mgx_tensor &tensor : tensors) {
    if (place + tensor.rank > sizes.size() ||
        !std::equal(tensor.sizes, tensor.sizes + tensor.rank, sizes.data() + place))
      return false;
    place += tensor.rank;
  }
  return place == sizes.size();
}

bool fits(const TensorSpec &spec, const mgx_tensor &tensor) {
  return tensor.rank == spec.shape.size() &&
         std::equal(spec.shape.begin(), spec.shape.end(), tensor.sizes) &&
         (!tensor.type || tensor.type == static_cast<uint32_t>(spec.element->type));
}

// Whether the sizes are there.
bool is_shaped(const mgx_tensor &tensor) {
  return !tensor.rank || (tensor.sizes && tensor.rank <= MGX_MOST_DIMENSIONS);
}

[[noreturn]] void unshaped(const std::string &called, const mgx_tensor &tensor) {
  if (tensor.sizes)
    fail(MGX_ERROR_USAGE, called, " has ", tensor.rank, " dimensions; tensors have at most ",
         MGX_MOST_DIMENSIONS);
  fail(MGX_ERROR_USAGE, called, " has no sizes");
}

void check_tensor(const char *what, const Plan &plan, const TensorSpec &spec,
                  const mgx_tensor &tensor) {
  if (!is_shaped(tensor))
    unshaped(cat(what, " '", spec.name, "'"), tensor);
  if (tensor.memory > MGX_MEMORY_PINNED || tensor.flags)
    fail(MGX_ERROR_USAGE, what, " '", spec.name, "' has memory ", tensor.memory, " and flags ",
         tensor.flags, "; the first is an mgx_memory, the other 0");
  if (!fits(spec, tensor))
    fail(MGX_ERROR_USAGE, what, " '", spec.name, "' is ", plan.text_of(spec), "; got ",
         tensor_text(tensor));
  auto bytes = static_cast<uint64_t>(spec.bytes());
  if (tensor.bytes && tensor.bytes < bytes)
    fail(MGX_ERROR_USAGE, what, " '", spec.name, "' takes ", bytes, " bytes; got ", tensor.bytes);
  if (bytes && !tensor.data)
    fail(MGX_ERROR_USAGE, what, " '", spec.name, "' has no memory");
  if (bytes &&
      reinterpret_cast<uintptr_t>(tensor.data) % static_cast<uintptr_t>(spec.element->bytes))
    fail(MGX_ERROR_USAGE, what, " '", spec.name, "' is not aligned to its elements");
}

std::pair<uintptr_t, uintptr_t> range(const TensorSpec &spec, const mgx_tensor &tensor) {
  auto first = reinterpret_cast<uintptr_t>(tensor.data);
  return {first, first + static_cast<uintptr_t>(spec.bytes())};
}

// Kernels do not check whether they read and write the same memory. A kernel that writes an output
// over an input is the exception: both may be exactly equal.
void check_overlaps(const Plan &plan, Tensors inputs, Tensors outputs) {
  for (size_t i = 0; i < outputs.size(); ++i) {
    auto own = range(plan.outputs[i], outputs[i]);
    auto apart = [&](const TensorSpec &spec, const mgx_tensor &tensor, bool may) {
      auto other = range(spec, tensor);
      bool is_empty = own.first == own.second || other.first == other.second;
      if (is_empty || own.first >= other.second || other.first >= own.second ||
          (may && own == other))
        return;
      fail(MGX_ERROR_USAGE, "the tensor for output '", plan.outputs[i].name, "' overlaps that of '",
           spec.name, "'; give it memory of its own", may ? ", or all of that memory" : "");
    };
    for (size_t k = 0; k < inputs.size(); ++k) {
      std::pair<int64_t, int64_t> pair(i, k);
      bool may = std::count(plan.in_place.begin(), plan.in_place.end(), pair) != 0;
      apart(plan.inputs[k], inputs[k], may);
    }
    for (size_t k = 0; k < i; ++k)
      apart(plan.outputs[k], outputs[k], false);
  }
}

void check_limits(const Plan &plan, const Device &device, Tensors inputs) {
  for (auto [number, most] : plan.limits) {
    const mgx_tensor &tensor = inputs[static_cast<size_t>(number)];
    const TensorSpec &spec = plan.inputs[static_cast<size_t>(number)];
    if (!device.on_host(tensor))
      continue;
    int64_t value = 0;
    if (spec.element->bytes == 4) {
      int32_t narrow;
      std::memcpy(&narrow, tensor.data, sizeof narrow);
      value = narrow;
    } else {
      std::memcpy(&value, tensor.data, sizeof value);
    }
    if (value > most)
      fail(MGX_ERROR_USAGE, "input '", spec.name, "' is ", value, ", and the program's cache has ",
           most, " places; give longer caches, or compile for such");
  }
}

// The identity of the code that the device runs and something vouches for.
std::string chosen(const Artifact &artifact, const Device &device, const Trust &trust) {
  std::string unvouched;
  for (const std::string &identity : device.identities()) {
    if (!artifact.code.contains(identity))
      continue;
    if (admitted(artifact, identity, is_gpu(identity), trust))
      return identity;
    unvouched = unvouched.empty() ? identity : unvouched;
    say(MGX_LEVEL_INFO, cat(artifact.name, ": nothing vouches for its code for ", identity));
  }
  if (!unvouched.empty())
    fail(MGX_ERROR_USER, artifact.name, ": nothing vouches for its machine code for ",
         unvouched.substr(0, unvouched.find(':')),
         ", and libmgx has no compiler to make it again; consent to it (trust_code, or "
         "MGX_TRUST=all) if you trust the file, or have it signed by a key that MGX_TRUST names "
         "(mgx sign)");
  std::string there;
  for (const std::string &name : artifact.targets)
    there += cat(there.empty() ? "" : ", ", name);
  std::string wanted =
      device.gpu() ? device.target() : cat("CPUs that this machine is: ", cpu_levels_text());
  fail(MGX_ERROR_TARGET, "the artifact has no code for ", device.gpu() ? device.target() : "cpu",
       " (it is for: ", there.empty() ? "none" : there,
       "), and libmgx has no compiler; add it where mgx-mlir is installed: mgx finalize FILE "
       "--arch ",
       device.gpu() ? wanted : cat("TARGET (", wanted, ")"));
}

} // namespace

void check_memory(const BoundPlan &bound, uint64_t needed, uint64_t available,
                  const std::string &where) {
  if (needed <= available)
    return;
  const Plan &plan = bound.plan;
  int64_t largest = -1, most = -1;
  for (size_t i = 0; i < plan.buffers.size(); ++i)
    if (plan.buffers[i].kind == Memory::arena && plan.buffers[i].bytes >= most) {
      most = plan.buffers[i].bytes;
      largest = static_cast<int64_t>(i);
    }
  std::string text;
  walk(plan.steps, [&](const Step &step) {
    if (text.empty() && std::count(step.numbers.begin(), step.numbers.end(), largest))
      text = cat(" The largest tensor has ", memory_text(static_cast<uint64_t>(most)), ", of '",
                 step.node, "'.");
  });
  fail(MGX_ERROR_RESOURCE, "the program needs ", memory_text(needed), ", and ", where, " has ",
       memory_text(available), ".", text,
       " Use smaller sizes, such as a smaller batch, or a machine with more memory");
}

mgx_profile_row row_of(const BoundStep &step, double seconds) {
  mgx_profile_row row{};
  row.struct_bytes = sizeof row;
  row.nodes = step.node->c_str();
  row.function = step.launch ? step.launch->function.c_str() : "";
  row.seconds = seconds;
  row.bytes = step.traffic();
  row.operations = static_cast<uint64_t>(step.flops);
  row.step = step.step;
  row.kernel = step.kernel;
  return row;
}

Program::Program(std::shared_ptr<const Artifact> artifact, std::shared_ptr<Device> device,
                 std::string target, const mgx_program_options &options)
    : artifact(std::move(artifact)), device(std::move(device)), target(std::move(target)),
      most(options.kept_sizes > 0 ? static_cast<size_t>(options.kept_sizes) : 16) {}

std::shared_ptr<Program> Program::create(std::shared_ptr<const Artifact> artifact,
                                         std::shared_ptr<Device> device,
                                         const mgx_program_options &options) {
  if (artifact->parts)
    fail(MGX_ERROR_USAGE, artifact->name, " is in parts: the host runs ",
         artifact->parts->operators(),
         " between compiled segments; mgx_mlir.Model(artifact, target) of mgx-mlir runs it");
  std::string target; // The one target of parts in memory has no name.
  if (!artifact->is_assembled()) {
    Trust trust = trust_of(options.trust_code == 1, options.trusted_keys, options.trusted_key_count,
                           options.cache_dir);
    target = chosen(*artifact, *device, trust);
    say(MGX_LEVEL_INFO, cat(artifact->name, ": its code for ", target, " is taken"));
  }
  std::shared_ptr<Program> program;
  if (device->gpu())
    program = make_hip_program(artifact, device, target, options);
  else
    program = make_cpu_program(artifact, device, target, options);
  if (artifact->plan.dims.empty()) { // Its sizes are known: memory is made now.
    std::vector<mgx_tensor> inputs;
    for (const TensorSpec &spec : artifact->plan.inputs)
      inputs.push_back({nullptr, const_cast<int64_t *>(spec.shape.data()),
                        static_cast<uint32_t>(spec.shape.size()), 0, 0, 0, 0});
    program->sized(inputs);
  }
  return program;
}

void check_sizes(const Plan &plan, Tensors inputs) {
  check_count("input", inputs.size(), plan.inputs.size());
  for (size_t i = 0; i < inputs.size(); ++i)
    if (!is_shaped(inputs[i]))
      unshaped(cat("input ", i), inputs[i]);
}

Plan plan_for(const Artifact &artifact, Tensors inputs, Known &known) {
  const Plan &plan = artifact.plan;
  std::vector<std::vector<int64_t>> shapes;
  for (size_t i = 0; i < inputs.size(); ++i) {
    shapes.emplace_back(inputs[i].sizes, inputs[i].sizes + inputs[i].rank);
    for (int64_t size : shapes.back())
      if (size < 0)
        fail(MGX_ERROR_USAGE, "input '", plan.inputs[i].name, "' has a size of ", size);
    if (plan.dims.empty() && shapes.back() != plan.inputs[i].shape)
      fail(MGX_ERROR_USAGE, "input '", plan.inputs[i].name, "' is ", plan.text_of(plan.inputs[i]),
           "; got ", tensor_text(inputs[i]));
  }
  if (plan.dims.empty())
    return plan;
  Known found = sizes_of(plan, shapes);
  for (const Dimension &dim : plan.dims) // In the order of the dims, as programs have them.
    known.set(dim.name, *found.find(dim.name));
  for (const SizedPlan &sized : plan.programs)
    if (sized.sizes == known)
      return sized.plan;
  if (plan.steps.empty()) {
    std::string there;
    for (const SizedPlan &sized : plan.programs)
      there += cat(there.empty() ? "" : "; ", sized.sizes.text());
    fail(MGX_ERROR_USAGE, "the program is not for ", known.text(), "; it is for ", there,
         ". Compile it for these sizes too, or for all (mode='full-dynamic')");
  }
  return bind_plan(plan, known);
}

// The code for these sizes. An error of the user where they are beyond what a kernel takes.
Code sized_code(const Code &code, const Plan &plan, const Known &known) {
  Code result;
  for (size_t number = 0; number < code.size(); ++number)
    try {
      result.push_back(code[number].bound(known));
    } catch (const Error &error) {
      if (error.kind != MGX_ERROR_USAGE)
        throw;
      std::string node;
      walk(plan.steps, [&](const Step &step) {
        if (step.kind == Step::Kind::kernel && step.kernel == static_cast<int64_t>(number))
          node = step.node;
      });
      fail(MGX_ERROR_USAGE, "the kernel of '", node, "' has no run with ", known.text(), ": ",
           error.text, "; compile for these sizes, as mgx_mlir.Model does");
    }
  return result;
}

std::shared_ptr<Sized> Program::sized(Tensors inputs) {
  check_sizes(artifact->plan, inputs);
  std::lock_guard<std::mutex> hold(lock);
  for (size_t i = entries.size(); i-- > 0;)
    if (matches(inputs, entries[i].sizes)) {
      std::rotate(entries.begin() + static_cast<ptrdiff_t>(i),
                  entries.begin() + static_cast<ptrdiff_t>(i) + 1, entries.end());
      return entries.back().sized;
    }
  Known known;
  Plan plan = plan_for(*artifact, inputs, known);
  Code own = sized_code(code(), plan, known);
  Entry entry;
  for (const mgx_tensor &tensor : inputs)
    entry.sizes.insert(entry.sizes.end(), tensor.sizes, tensor.sizes + tensor.rank);
  entry.sized = make(std::move(plan), std::move(own));
  ++bindings;
  if (entries.size() == most)
    entries.erase(entries.begin());
  entries.push_back(std::move(entry));
  return entries.back().sized;
}

std::shared_ptr<Sized> Program::checked(Tensors inputs, Tensors outputs) {
  std::shared_ptr<Sized> found = sized(inputs);
  const Plan &plan = found->bound.plan;
  check_count("output", outputs.size(), plan.outputs.size());
  for (size_t i = 0; i < inputs.size(); ++i)
    check_tensor("input", plan, plan.inputs[i], inputs[i]);
  for (size_t i = 0; i < outputs.size(); ++i)
    check_tensor("output", plan, plan.outputs[i], outputs[i]);
  check_limits(plan, *device, inputs);
  check_overlaps(plan, inputs, outputs);
  return found;
}

uint64_t Program::kept_bytes() {
  std::lock_guard<std::mutex> hold(lock);
  uint64_t total = 0;
  for (const Entry &entry : entries)
    total += entry.sized->workspace();
  return total;
}

} // namespace mgx
