//===- fit.cpp - whether a plan keeps to what its kernels may touch ----------------===//
//
// A kernel's code touches the memory of its arguments, as large as its interface says, and its own
// scratch memory. So a plan is safe whose arguments are that large and lie where they say, and
// whose results lie apart from all else that a launch touches, wherever the plan comes from.
//
//===----------------------------------------------------------------------------===//
#include "code.h"

#include <algorithm>
#include <tuple>

namespace mgx {

namespace {

// Sizes that the dimensions of a plan are tried with, as near as their bounds allow: a plan whose
// kernels fit at none of them fits nowhere. Many divisors, so that quotients have no remainder.
constexpr int64_t tried[] = {1, 2, 48, 720, 64, 4096};

std::string named(size_t place, size_t inputs) {
  return place < inputs ? cat("input ", place) : cat("output ", place - inputs);
}

const Buffer &buffer_of(const Plan &plan, const Step &step, size_t place) {
  return plan.buffers[static_cast<size_t>(step.numbers[place])];
}

// A number of bytes that the address of a buffer is a multiple of, whose elements are whole.
int64_t alignment(const Plan &plan, const Buffer &buffer) {
  bool given = buffer.kind == Memory::input || buffer.kind == Memory::output;
  if (!given || !buffer.bytes)
    return arena_alignment; // By Plan::check; weights are placed by the runtime.
  const auto &specs = buffer.kind == Memory::input ? plan.inputs : plan.outputs;
  return specs[static_cast<size_t>(buffer.place)].element->bytes;
}

void check_results(const Plan &plan, const Step &step, const Interface &interface) {
  size_t inputs = interface.inputs.size();
  for (size_t place = inputs; place < step.numbers.size(); ++place) {
    const Buffer &result = buffer_of(plan, step, place);
    const Operand &operand = interface.operand(place);
    if (!result.writable())
      bad_artifact(step.called(), " writes to a buffer of kind '",
                   result.kind == Memory::input ? "input" : "weight", "'");
    for (size_t other = 0; other < step.numbers.size(); ++other) {
      const Buffer &buffer = buffer_of(plan, step, other);
      if (other == place || !result.overlaps(buffer))
        continue;
      bool exact = buffer == result && buffer.bytes == operand.bytes;
      bool may = std::count(operand.over.begin(), operand.over.end(), static_cast<int64_t>(other));
      if (!(exact && may))
        bad_artifact(step.called(), " writes ", named(place, inputs), " of its kernel over ",
                     named(other, inputs));
    }
  }
}

void check_step(const Plan &plan, const Step &step, const Interface &interface) {
  size_t inputs = interface.inputs.size();
  if (step.numbers.size() != inputs + interface.outputs.size())
    bad_artifact(step.called(), " has ", step.numbers.size(), " arguments; its kernel reads ",
                 inputs, " and writes ", interface.outputs.size());
  for (size_t place = 0; place < step.numbers.size(); ++place) {
    const Buffer &buffer = buffer_of(plan, step, place);
    const Operand &operand = interface.operand(place);
    if (buffer.bytes < operand.bytes)
      bad_artifact(step.called(), " gives its kernel ", buffer.bytes, " bytes for ",
                   named(place, inputs), ", which takes ", operand.bytes);
    if (alignment(plan, buffer) % operand.element->bytes)
      bad_artifact(step.called(), " gives its kernel other elements than ", operand.element->name,
                   " for ", named(place, inputs));
  }
  check_results(plan, step, interface);
}

bool touches(const Plan &plan, const Step &step, Memory kind, int64_t number) {
  for (int64_t one : step.numbers) {
    const Buffer &buffer = plan.buffers[static_cast<size_t>(one)];
    if (buffer.kind == kind && buffer.place == number)
      return true;
  }
  return false;
}

// Whether one launch, outside of control flow, makes the output of the input, which nothing else
// has; and nothing wrote the output before.
bool may_share(const Plan &plan, const Code &code, int64_t output, int64_t source) {
  int64_t readers = 0;
  walk(plan.steps, [&](const Step &step) {
    for (int64_t one : step.numbers) {
      const Buffer &buffer = plan.buffers[static_cast<size_t>(one)];
      readers += buffer.kind == Memory::input && buffer.place == source;
    }
  });
  for (const Step &step : plan.steps) {
    bool writes = touches(plan, step, Memory::output, output);
    auto inside = [&](const Step &inner) {
      writes = writes || touches(plan, inner, Memory::output, output);
    };
    walk(step.then, inside);
    walk(step.otherwise, inside);
    if (!writes)
      continue;
    if (step.kind != Step::Kind::kernel || readers != 1)
      return false;
    const auto &interface = code[static_cast<size_t>(step.kernel)].interface;
    if (!interface)
      return true;
    size_t inputs = interface->inputs.size();
    for (size_t place = inputs; place < step.numbers.size(); ++place) {
      const Buffer &result = buffer_of(plan, step, place);
      if (result.kind != Memory::output || result.place != output)
        continue;
      for (int64_t over : interface->operand(place).over) {
        const Buffer &input = buffer_of(plan, step, static_cast<size_t>(over));
        if (input.kind == Memory::input && input.place == source)
          return true;
      }
    }
    return false;
  }
  return false;
}

Code bound_code(const Code &code, const Known &known) {
  Code result;
  for (const CodeObject &one : code)
    result.push_back(one.bound(known));
  return result;
}

} // namespace

void check_fit(const Plan &plan, const Code &code) {
  walk(plan.steps, [&](const Step &step) {
    if (step.kind != Step::Kind::kernel)
      return;
    if (step.kernel >= static_cast<int64_t>(code.size()))
      bad_artifact(step.called(), " runs kernel ", step.kernel, ", which is missing");
    // Code without an interface is not looked at: somebody vouches for it together with the plan.
    if (const auto &interface = code[static_cast<size_t>(step.kernel)].interface)
      check_step(plan, step, *interface);
  });
  for (auto [output, source] : plan.in_place)
    if (!may_share(plan, code, output, source))
      bad_artifact("plan: output '", clip(plan.outputs[static_cast<size_t>(output)].name),
                   "' cannot have the memory of input '",
                   clip(plan.inputs[static_cast<size_t>(source)].name), "'");
}

void check_code(const Plan &plan, const Code &code) {
  for (const SizedPlan &sized : plan.programs)
    check_fit(sized.plan, bound_code(code, sized.sizes));
  if (plan.dims.empty())
    return check_fit(plan, code);
  std::optional<Error> fault;
  for (int64_t size : tried) {
    Known known;
    for (const Dimension &dim : plan.dims)
      known.set(dim.name, std::max(dim.low, dim.high ? std::min(size, *dim.high) : size));
    std::optional<Plan> bound;
    Code sized;
    try {
      bound = bind_plan(plan, known);
      sized = bound_code(code, known);
    } catch (const Error &) {
      continue; // The model has no run of these sizes.
    }
    try {
      return check_fit(*bound, sized);
    } catch (const Error &error) {
      fault = fault ? fault : error;
    }
  }
  if (fault)
    throw *fault;
}

} // namespace mgx
