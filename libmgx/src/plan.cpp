//===- plan.cpp - a plan read from JSON ---------------------------------------------===//
#include "plan.h"

#include <algorithm>

namespace mgx {

namespace {

constexpr int most_depth = 64; // Control flow deeper than this is refused.
const Fields fields("plan");

std::vector<Step> read_steps(const Json &value, const char *name, int depth);

Step read_step(const Json &value, int depth) {
  Step step;
  step.node = fields.text(value, "node");
  if (value.find("if")) {
    step.kind = Step::Kind::branch;
    step.numbers = {fields.integer(value, "if")};
    step.then = read_steps(value, "then", depth + 1);
    step.otherwise = read_steps(value, "else", depth + 1);
  } else if (value.find("loop")) {
    step.kind = Step::Kind::loop;
    step.numbers = {fields.integer(value, "loop"), fields.integer(value, "condition"),
                    fields.integer(value, "again")};
    step.most = value.find("most") ? fields.integer(value, "most", 0, endless) : 0;
    step.then = read_steps(value, "body", depth + 1);
  } else if (value.find("row")) {
    step.kind = Step::Kind::row;
    step.numbers = fields.integers(value, "row");
    if (step.numbers.size() != 2)
      bad_artifact("plan: 'row' holds no source and target");
  } else {
    step.flops = value.find("flops") ? fields.integer(value, "flops", 0, int64_t(1) << 62) : 0;
    if (value.find("work"))
      step.work = Formula::parse(fields.text(value, "work"));
    step.kernel = fields.integer(value, "kernel", -1);
    step.kind = step.kernel < 0 ? Step::Kind::copy : Step::Kind::kernel;
    step.numbers = fields.integers(value, "arguments");
  }
  return step;
}

std::vector<Step> read_steps(const Json &value, const char *name, int depth) {
  if (depth > most_depth)
    bad_artifact("plan: control flow is more than ", most_depth, " levels deep");
  std::vector<Step> steps;
  for (const Json &one : fields.list(value, name))
    steps.push_back(read_step(one, depth));
  return steps;
}

TensorSpec read_spec(const Json &value, int64_t low) {
  const std::string &type = fields.text(value, "dtype");
  const Element *element = element_of(type);
  if (!element)
    bad_artifact("plan: '", clip(type), "' is not an element type");
  return {fields.text(value, "name"), element, fields.integers(value, "shape", low)};
}

Buffer read_buffer(const Json &value, int64_t low) {
  const std::string &kind = fields.text(value, "kind");
  int64_t bytes = fields.integer(value, "bytes", low);
  if (kind == "arena")
    return {Memory::arena, bytes, fields.integer(value, "offset"), ""};
  if (kind == "weight")
    return {Memory::weight, bytes, 0, fields.text(value, "key")};
  if (kind == "input" || kind == "output")
    return {kind == "input" ? Memory::input : Memory::output, bytes, fields.integer(value, "index"),
            ""};
  bad_artifact("plan: '", clip(kind), "' is not a kind of buffer");
}

void check_names(const Plan &plan, const Formula &formula) {
  for (const std::string &name : formula.names)
    if (std::none_of(plan.dims.begin(), plan.dims.end(),
                     [&](const Dimension &dim) { return dim.name == name; }))
      bad_artifact("plan: '", clip(formula.text), "' is not a formula of its dims");
}

void read_dims(Plan &plan, const Json &value) {
  for (const Json &entry : fields.list(value, "dims")) {
    Dimension dim{fields.text(entry, "name"), fields.integer(entry, "min"), {}, {}};
    if (entry.find("max"))
      dim.high = fields.integer(entry, "max", dim.low);
    if (entry.find("optimals"))
      dim.optimals = fields.integers(entry, "optimals");
    plan.dims.push_back(std::move(dim));
  }
  plan.formulas = parse_formulas(fields.texts(value, "formulas"));
  for (const Formula &formula : plan.formulas)
    check_names(plan, formula);
}

void read_programs(Plan &plan, const Json &value) {
  if (plan.dims.empty() || !value.find("programs"))
    return;
  for (const Json &entry : fields.list(value, "programs")) {
    const Json &sizes = fields.field(entry, "sizes", Json::Kind::object);
    SizedPlan sized;
    for (const Dimension &dim : plan.dims)
      if (const Json *size = sizes.find(dim.name))
        sized.sizes.set(dim.name, fields.bounded(*size, "sizes", 1));
    if (sized.sizes.sizes.size() != plan.dims.size() || sizes.keys.size() != plan.dims.size())
      bad_artifact("plan: a program for some sizes has other symbols than the plan");
    sized.plan = Plan::read(fields.field(entry, "plan", Json::Kind::object));
    if (!sized.plan.dims.empty())
      bad_artifact("plan: a program for some sizes has a plan for any");
    plan.programs.push_back(std::move(sized));
  }
}

std::vector<std::pair<int64_t, int64_t>> read_pairs(const Json &value, const char *key,
                                                    int64_t low) {
  std::vector<std::pair<int64_t, int64_t>> found;
  if (!value.find(key))
    return found;
  for (const Json &pair : fields.list(value, key)) {
    if (pair.kind != Json::Kind::list || pair.items.size() != 2)
      bad_artifact("plan: '", key, "' holds other than pairs of numbers");
    found.emplace_back(fields.bounded(pair.items[0], key), fields.bounded(pair.items[1], key, low));
  }
  return found;
}

} // namespace

Plan Plan::read(const Json &value) {
  Plan plan;
  if (value.find("dims"))
    read_dims(plan, value);
  auto low = -static_cast<int64_t>(plan.formulas.size());
  for (const Json &one : fields.list(value, "inputs"))
    plan.inputs.push_back(read_spec(one, low));
  for (const Json &one : fields.list(value, "outputs"))
    plan.outputs.push_back(read_spec(one, low));
  plan.arena_bytes = fields.integer(value, "arena_bytes");
  for (const Json &one : fields.list(value, "buffers"))
    plan.buffers.push_back(read_buffer(one, low));
  plan.steps = read_steps(value, "steps", 0);
  walk(plan.steps, [&](const Step &step) {
    if (step.work)
      check_names(plan, *step.work);
  });
  read_programs(plan, value);
  plan.in_place = read_pairs(value, "in_place", 0);
  plan.limits = read_pairs(value, "limits", low);
  plan.check();
  return plan;
}

std::vector<const Plan *> Plan::plans() const {
  std::vector<const Plan *> found{this};
  for (const SizedPlan &sized : programs)
    found.push_back(&sized.plan);
  return found;
}

std::string Plan::text_of(const TensorSpec &spec) const {
  std::string result = cat(spec.element->name, "[");
  for (size_t axis = 0; axis < spec.shape.size(); ++axis) {
    int64_t size = spec.shape[axis];
    append(result, axis ? ", " : "");
    if (size < 0)
      append(result, formulas[static_cast<size_t>(-1 - size)].text);
    else
      append(result, size);
  }
  return result + "]";
}

} // namespace mgx
