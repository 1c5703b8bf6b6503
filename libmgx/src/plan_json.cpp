//===- plan_json.cpp - a plan in the form that the content hash covers -------------===//
#include "json_writer.h"
#include "plan.h"

#include <map>

namespace mgx {

namespace {

std::string spec_json(const TensorSpec &spec) {
  return cat("{\"dtype\":\"", spec.element->name, "\",\"name\":", text_json(spec.name),
             ",\"shape\":", numbers_json(spec.shape), "}");
}

std::string buffer_json(const Buffer &b) {
  std::string text = cat("{\"bytes\":", b.bytes);
  switch (b.kind) {
  case Memory::arena:
    return text + cat(",\"kind\":\"arena\",\"offset\":", b.place, "}");
  case Memory::weight:
    return text + cat(",\"key\":", text_json(b.key), ",\"kind\":\"weight\"}");
  default:
    return text + cat(",\"index\":", b.place, ",\"kind\":\"",
                      b.kind == Memory::input ? "input" : "output", "\"}");
  }
}

std::string dim_json(const Dimension &dim) {
  std::string text = "{";
  if (dim.high)
    text += cat("\"max\":", *dim.high, ",");
  text += cat("\"min\":", dim.low, ",\"name\":", text_json(dim.name));
  if (!dim.optimals.empty())
    text += cat(",\"optimals\":", numbers_json(dim.optimals));
  return text + "}";
}

std::string step_json(const Step &step, bool counts);

std::string steps_json(const std::vector<Step> &steps, bool counts) {
  return list_json(steps, [&](const Step &step) { return step_json(step, counts); });
}

std::string step_json(const Step &step, bool counts) {
  std::string node = text_json(step.node);
  switch (step.kind) {
  case Step::Kind::row:
    return cat("{\"node\":", node, ",\"row\":", numbers_json(step.numbers), "}");
  case Step::Kind::branch:
    return cat("{\"else\":", steps_json(step.otherwise, counts), ",\"if\":", step.numbers[0],
               ",\"node\":", node, ",\"then\":", steps_json(step.then, counts), "}");
  case Step::Kind::loop: {
    std::string most = step.most ? cat(",\"most\":", step.most) : "";
    return cat("{\"again\":", step.numbers[2], ",\"body\":", steps_json(step.then, counts),
               ",\"condition\":", step.numbers[1], ",\"loop\":", step.numbers[0], most,
               ",\"node\":", node, "}");
  }
  default: {
    std::string flops = counts && step.flops ? cat(",\"flops\":", step.flops) : "";
    std::string work = counts && step.work ? cat(",\"work\":", text_json(step.work->text)) : "";
    return cat("{\"arguments\":", numbers_json(step.numbers), flops, ",\"kernel\":", step.kernel,
               ",\"node\":", node, work, "}");
  }
  }
}

std::string pairs_json(const std::vector<std::pair<int64_t, int64_t>> &pairs) {
  return list_json(pairs,
                   [](const auto &pair) { return cat("[", pair.first, ",", pair.second, "]"); });
}

std::string program_json(const SizedPlan &sized, bool counts) {
  std::map<std::string, std::string> sizes;
  for (const auto &[name, size] : sized.sizes.sizes)
    sizes[name] = std::to_string(size);
  return cat("{\"plan\":", sized.plan.json(counts), ",\"sizes\":", object_json(sizes), "}");
}

} // namespace

std::string Plan::json(bool counts) const {
  std::string text =
      cat("{\"arena_bytes\":", arena_bytes, ",\"buffers\":", list_json(buffers, buffer_json));
  if (!dims.empty()) {
    text += cat(",\"dims\":", list_json(dims, dim_json));
    text +=
        cat(",\"formulas\":",
            list_json(formulas, [](const Formula &formula) { return text_json(formula.text); }));
  }
  if (!in_place.empty())
    text += cat(",\"in_place\":", pairs_json(in_place));
  text += cat(",\"inputs\":", list_json(inputs, spec_json));
  if (!limits.empty())
    text += cat(",\"limits\":", pairs_json(limits));
  text += cat(",\"outputs\":", list_json(outputs, spec_json));
  if (!programs.empty())
    text += cat(",\"programs\":", list_json(programs, [&](const SizedPlan &sized) {
                  return program_json(sized, counts);
                }));
  return text + cat(",\"steps\":", steps_json(steps, counts), "}");
}

} // namespace mgx
