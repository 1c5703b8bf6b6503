//===- plan_check.cpp - whether a plan points into what it has ---------------------===//
#include "plan.h"

namespace mgx {

int64_t TensorSpec::bytes() const {
  int64_t bytes = element->bytes;
  bool over = false, none = false;
  for (int64_t size : shape) {
    if (size < 0)
      return -1;
    none = none || size == 0;
    over = __builtin_mul_overflow(bytes, size, &bytes) || over;
  }
  return none ? 0 : over ? INT64_MAX : bytes;
}

bool Buffer::overlaps(const Buffer &other) const {
  if (kind != other.kind || !bytes || !other.bytes)
    return false;
  if (kind == Memory::arena)
    return place < other.place + other.bytes && other.place < place + bytes;
  return place == other.place && key == other.key;
}

std::string Step::called() const {
  static constexpr const char *names[] = {"step", "step", "row", "branch", "loop"};
  return cat("plan: the ", names[static_cast<int>(kind)], " of '", clip(node, 200), "'");
}

namespace {

const char *kind_name(Memory kind) {
  static constexpr const char *names[] = {"arena", "input", "output", "weight"};
  return names[static_cast<int>(kind)];
}

void check_buffer(const Plan &plan, size_t number) {
  const Buffer &b = plan.buffers[number];
  if (b.kind == Memory::arena) {
    if (!plan.dims.empty())
      return;
    if (b.place + b.bytes > plan.arena_bytes)
      bad_artifact("plan: buffer ", number, " ends beyond the arena");
    if (b.bytes && b.place % arena_alignment)
      bad_artifact("plan: buffer ", number, " lies at ", b.place, ", which is misaligned");
  }
  if (b.kind != Memory::input && b.kind != Memory::output)
    return;
  const auto &specs = b.kind == Memory::input ? plan.inputs : plan.outputs;
  if (b.place >= static_cast<int64_t>(specs.size()))
    bad_artifact("plan: buffer ", number, " names ", kind_name(b.kind), " ", b.place, " of none");
  const TensorSpec &spec = specs[static_cast<size_t>(b.place)];
  int64_t size = spec.bytes(); // Formulas are checked once they are bound.
  if (size >= 0 && b.bytes >= 0 && size != b.bytes)
    bad_artifact("plan: buffer ", number, " has ", b.bytes, " bytes of ", kind_name(b.kind), " '",
                 clip(spec.name), "', which has ", size);
}

class StepChecker {
public:
  explicit StepChecker(const Plan &plan) : plan(plan) {}

  void all(const std::vector<Step> &steps, bool in_loop) const {
    for (const Step &step : steps) {
      for (int64_t number : step.numbers)
        if (number >= static_cast<int64_t>(plan.buffers.size()))
          bad_artifact(step.called(), " names a buffer that does not exist");
      one(step, in_loop);
      all(step.then, step.kind == Step::Kind::loop);
      all(step.otherwise, false);
    }
  }

private:
  const Buffer &buffer(const Step &step, size_t place) const {
    return plan.buffers[static_cast<size_t>(step.numbers[place])];
  }

  void one(const Step &step, bool in_loop) const {
    switch (step.kind) {
    case Step::Kind::kernel: // See fit.cpp.
      return;
    case Step::Kind::copy:
      return copy(step);
    case Step::Kind::row:
      return row(step, in_loop);
    case Step::Kind::branch:
      if (buffer(step, 0).bytes != condition_bytes)
        bad_artifact(step.called(), " has a condition of ", buffer(step, 0).bytes, " bytes");
      return;
    case Step::Kind::loop:
      if (buffer(step, 0).bytes != trips_bytes || buffer(step, 1).bytes != condition_bytes ||
          buffer(step, 2).bytes != condition_bytes)
        bad_artifact(step.called(), " has a count or a condition of a wrong size");
    }
  }

  void copy(const Step &step) const {
    if (step.numbers.size() != 2)
      bad_artifact(step.called(), " is a copy without source and target");
    const Buffer &source = buffer(step, 0), &target = buffer(step, 1);
    if (source.bytes != target.bytes)
      bad_artifact(step.called(), " copies between buffers of two sizes");
    if (!target.writable())
      bad_artifact(step.called(), " copies into a buffer of kind '", kind_name(target.kind), "'");
    apart(step, source, target);
  }

  void apart(const Step &step, const Buffer &source, const Buffer &target) const {
    if (plan.dims.empty() && source.overlaps(target))
      bad_artifact(step.called(), " copies memory to a part of itself");
  }

  void row(const Step &step, bool in_loop) const {
    if (!in_loop)
      bad_artifact(step.called(), " fills a row outside of a loop");
    const Buffer &source = buffer(step, 0), &target = buffer(step, 1);
    bool known = source.bytes >= 0 && target.bytes >= 0;
    bool whole = source.bytes ? target.bytes % source.bytes == 0 : !target.bytes;
    if (!target.writable() || (known && !whole))
      bad_artifact(step.called(), " fills rows of a buffer that has none of its size");
    apart(step, source, target);
  }

  const Plan &plan;
};

} // namespace

void Plan::check() const {
  auto count = [](const auto &list) { return static_cast<int64_t>(list.size()); };
  for (size_t number = 0; number < buffers.size(); ++number)
    check_buffer(*this, number);
  for (auto [output, source] : in_place)
    if (output >= count(outputs) || source >= count(inputs))
      bad_artifact("plan: output ", output, " in the place of input ", source, " of none");
  for (auto [number, most] : limits) {
    if (number >= count(inputs))
      bad_artifact("plan: a limit of input ", number, " of none");
    const TensorSpec &spec = inputs[static_cast<size_t>(number)];
    bool integer = spec.element->type == MGX_INT32 || spec.element->type == MGX_INT64;
    for (int64_t size : spec.shape)
      integer = integer && size == 1;
    if (!integer)
      bad_artifact("plan: a limit of input '", spec.name, "', which is no integer");
  }
  StepChecker(*this).all(steps, false);
}

} // namespace mgx
