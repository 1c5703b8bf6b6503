//===- plan_binding.cpp - a plan for any sizes, bound to some ----------------------===//
#include "plan.h"

#include <algorithm>
#include <map>
#include <tuple>

namespace mgx {

namespace {

constexpr int64_t tensor_alignment = 256;
constexpr int64_t most_arena = int64_t(1) << 60;

std::string shape_text(std::span<const int64_t> shape) {
  std::string result = "[";
  for (size_t axis = 0; axis < shape.size(); ++axis)
    result += cat(axis ? ", " : "", shape[axis]);
  return result + "]";
}

void check_bounds(const Plan &plan, const Known &known,
                  const std::map<std::string, std::string> &places) {
  for (const Dimension &dim : plan.dims) {
    const int64_t *size = known.find(dim.name);
    if (!size)
      fail(MGX_ERROR_USAGE, "no input of the program has '", dim.name, "' as a dimension");
    if (*size < dim.low || (dim.high && *size > *dim.high))
      fail(MGX_ERROR_USAGE, places.at(dim.name), " is ", *size, "; the program is for '", dim.name,
           "' from ", dim.low, " to ", dim.high ? std::to_string(*dim.high) : "more");
  }
}

// Steps from the first that names a buffer to the last, and the buffer.
struct Life {
  size_t first = 0, last = 0;
  bool used = false;
};

std::vector<Life> lives(const Plan &plan) {
  std::vector<Life> found(plan.buffers.size());
  for (size_t place = 0; place < plan.steps.size(); ++place) {
    auto note = [&](const Step &step) {
      for (int64_t number : step.numbers) {
        Life &life = found[static_cast<size_t>(number)];
        life = {life.used ? life.first : place, place, true};
      }
    };
    // Control flow is one step with all that is in it.
    note(plan.steps[place]);
    walk(plan.steps[place].then, note);
    walk(plan.steps[place].otherwise, note);
  }
  return found;
}

// Gives the buffers their offsets in the arena: larger ones first, each at the lowest offset that
// is free while the buffer is live. Returns the arena's bytes.
int64_t place_buffers(Plan &plan) {
  std::vector<Life> found = lives(plan);
  std::vector<size_t> numbers, done;
  for (size_t n = 0; n < plan.buffers.size(); ++n) {
    if (plan.buffers[n].kind != Memory::arena)
      continue;
    if (found[n].used)
      numbers.push_back(n);
    else
      plan.buffers[n].place = plan.buffers[n].bytes = 0;
  }
  std::sort(numbers.begin(), numbers.end(), [&](size_t a, size_t b) {
    if (plan.buffers[a].bytes != plan.buffers[b].bytes)
      return plan.buffers[a].bytes > plan.buffers[b].bytes;
    return std::tuple(found[a].first, found[a].last, a) <
           std::tuple(found[b].first, found[b].last, b);
  });
  int64_t end = 0;
  std::vector<std::pair<int64_t, int64_t>> taken;
  for (size_t number : numbers) {
    taken.clear();
    for (size_t n : done)
      if (found[n].first <= found[number].last && found[number].first <= found[n].last)
        taken.emplace_back(plan.buffers[n].place, plan.buffers[n].bytes);
    std::sort(taken.begin(), taken.end());
    Buffer &buffer = plan.buffers[number];
    int64_t offset = 0;
    for (auto [start, size] : taken) {
      if (offset + buffer.bytes <= start)
        break;
      offset = std::max(offset, round_up(start + size, tensor_alignment));
    }
    if (offset > most_arena)
      fail(MGX_ERROR_RESOURCE, "the program needs more memory than any machine has");
    buffer.place = offset;
    end = std::max(end, offset + buffer.bytes);
    done.push_back(number);
  }
  return end;
}

// Gives steps their operations; those that no number holds are left out.
void count_work(std::vector<Step> &steps, const Known &known) {
  for (Step &step : steps) {
    if (step.work)
      step.flops = step.work->count(known);
    step.work.reset();
    count_work(step.then, known);
    count_work(step.otherwise, known);
  }
}

} // namespace

Known sizes_of(const Plan &plan, Shapes shapes) {
  Known known;
  std::map<std::string, std::string> places;
  for (size_t i = 0; i < plan.inputs.size(); ++i) {
    const TensorSpec &spec = plan.inputs[i];
    const auto &shape = shapes[i];
    if (shape.size() != spec.shape.size())
      fail(MGX_ERROR_USAGE, "input '", spec.name, "' is ", plan.text_of(spec), "; got ",
           shape_text(shape));
    for (size_t axis = 0; axis < shape.size(); ++axis) {
      int64_t wanted = spec.shape[axis];
      std::string name =
          wanted < 0 ? plan.formulas[static_cast<size_t>(-1 - wanted)].plain() : std::string();
      if (name.empty())
        continue;
      std::string where = cat("dimension ", axis, " of input '", spec.name, "'");
      if (const int64_t *size = known.find(name); !size)
        known.set(name, shape[axis]);
      else if (*size != shape[axis])
        fail(MGX_ERROR_USAGE, where, " is ", shape[axis], ", and ", places[name], " is ", *size,
             ": both are '", name, "'; compiled with dim_params={'", name,
             "': '?'} they may differ");
      places.emplace(name, where);
    }
  }
  check_bounds(plan, known, places);
  std::vector<int64_t> found;
  try {
    found = values(plan.formulas, known);
  } catch (const Error &error) {
    fail(MGX_ERROR_USAGE, "the program has no run with ", known.text(), ": ", error.text);
  }
  for (size_t i = 0; i < plan.inputs.size(); ++i) {
    const TensorSpec &spec = plan.inputs[i];
    std::vector<int64_t> shape;
    for (int64_t size : spec.shape)
      shape.push_back(bound(size, found));
    if (shape != shapes[i])
      fail(MGX_ERROR_USAGE, "input '", spec.name, "' is ", plan.text_of(spec), ", which is ",
           shape_text(shape), " with ", known.text(), "; got ", shape_text(shapes[i]));
  }
  return known;
}

Plan bind_plan(const Plan &plan, const Known &known) {
  if (plan.dims.empty())
    return plan;
  std::vector<int64_t> found = values(plan.formulas, known);
  Plan result;
  auto specs = [&](const std::vector<TensorSpec> &list) {
    std::vector<TensorSpec> all = list;
    for (TensorSpec &spec : all)
      for (int64_t &size : spec.shape)
        size = bound(size, found);
    return all;
  };
  result.inputs = specs(plan.inputs);
  result.outputs = specs(plan.outputs);
  result.buffers = plan.buffers;
  for (Buffer &buffer : result.buffers)
    buffer.bytes = bound(buffer.bytes, found);
  result.steps = plan.steps;
  count_work(result.steps, known);
  for (auto [number, most] : plan.limits)
    result.limits.emplace_back(number, bound(most, found));
  result.arena_bytes = place_buffers(result);
  result.check();
  return result;
}

} // namespace mgx
