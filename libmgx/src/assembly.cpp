//===- assembly.cpp - an artifact of parts in memory, for a compiler in this process ------===//
#include "artifact.h"
#include "hash.h"

#include <stdexcept>

namespace mgx {

namespace {

Json parsed(const char *text, const char *what) {
  if (!text)
    fail(MGX_ERROR_USAGE, what, " is NULL");
  try {
    return Json::parse(text);
  } catch (const std::invalid_argument &) {
    bad_artifact(what, " is no JSON in canonical form");
  }
}

Weight weight_of(const mgx_weight &given) {
  if (!given.key)
    fail(MGX_ERROR_USAGE, "a weight has no key");
  Weight weight;
  weight.key = given.key;
  weight.element = element_of(given.type);
  if (!weight.element || given.bytes > INT64_MAX)
    fail(MGX_ERROR_USAGE, "weight '", weight.key, "' has no type, or no size");
  weight.bytes = static_cast<int64_t>(given.bytes);
  weight.splat = given.flags & MGX_WEIGHT_SPLAT;
  weight.mapped = given.flags & MGX_WEIGHT_MAPPED;
  weight.checked = true;
  weight.sha256 = given.sha256 ? given.sha256 : "";
  if (weight.bytes % weight.element->bytes)
    fail(MGX_ERROR_USAGE, "weight '", weight.key, "' has ", weight.bytes, " bytes of elements of ",
         weight.element->bytes);
  auto held = weight.splat ? static_cast<size_t>(weight.element->bytes) : given.bytes;
  weight.data = {static_cast<const char *>(given.data), held};
  return weight;
}

Code code_of(const mgx_assembly &assembly) {
  Code code;
  if (assembly.code_count)
    given(assembly.code, "code");
  for (size_t i = 0; i < assembly.code_count; ++i) {
    const mgx_code &one = assembly.code[i];
    std::string_view data(static_cast<const char *>(one.data), one.data ? one.bytes : 0);
    code.push_back(CodeObject::read(parsed(one.record, "a code object"), data, sha256(data)));
  }
  return code;
}

void check_kernels(const Plan &root, const Code &code) {
  for (const Plan *plan : root.plans())
    walk(plan->steps, [&](const Step &step) {
      if (step.kernel >= static_cast<int64_t>(code.size()))
        bad_artifact("plan: the step of '", step.node, "' runs kernel ", step.kernel,
                     ", which is missing");
    });
}

void check_weights(const Artifact &artifact) {
  for (const Plan *plan : artifact.plan.plans())
    for (const Buffer &buffer : plan->buffers) {
      if (buffer.kind != Memory::weight)
        continue;
      const Weight *weight = artifact.weight(buffer.key);
      if (!weight)
        bad_artifact("the plan needs weight '", buffer.key, "', which is missing");
      if (weight->bytes != buffer.bytes)
        bad_artifact("weight '", buffer.key, "' has ", weight->bytes, " bytes; the plan says ",
                     buffer.bytes);
    }
}

} // namespace

std::shared_ptr<const Artifact> Artifact::assembled(const mgx_assembly &assembly) {
  auto result = std::make_shared<Artifact>();
  result->plan = Plan::read(parsed(assembly.plan, "plan"));
  Code &code = result->code[""] = code_of(assembly);
  if (!code.empty())
    result->targets.push_back(code[0].arch);
  if (assembly.weight_count)
    given(assembly.weights, "weights");
  for (size_t i = 0; i < assembly.weight_count; ++i) {
    Weight weight = weight_of(assembly.weights[i]);
    if (!result->by_key.emplace(weight.key, i).second)
      fail(MGX_ERROR_USAGE, "two weights have the key '", weight.key, "'");
    result->weights.push_back(std::move(weight));
  }
  check_kernels(result->plan, code);
  check_weights(*result);
  return result;
}

void Artifact::check(const mgx_assembly &assembly, bool with_code) {
  Plan plan = Plan::read(parsed(assembly.plan, "plan"));
  if (!with_code)
    return;
  Code code = code_of(assembly);
  check_kernels(plan, code);
  check_code(plan, code);
}

} // namespace mgx
