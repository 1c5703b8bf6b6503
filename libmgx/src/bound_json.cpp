//===- bound_json.cpp - a bound plan for an executor outside of the library ----------------===//
#include "bound_json.h"
#include "json_writer.h"

namespace mgx {

namespace {

const char *name_of(Place::Kind kind) {
  switch (kind) {
  case Place::Kind::arena:
    return "arena";
  case Place::Kind::scratch:
    return "scratch";
  case Place::Kind::kept:
    return "kept";
  case Place::Kind::input:
    return "input";
  case Place::Kind::output:
    return "output";
  case Place::Kind::weight:
    return "weight";
  case Place::Kind::size:
    return "size";
  }
  return "";
}

std::string place_json(const Place &place) {
  return cat("[\"", name_of(place.kind), "\",", place.index, ",", place.bytes, "]");
}

std::string step_json(const BoundStep &step) {
  static const std::array<int64_t, 3> none{};
  const Launch *launch = step.launch;
  return cat("[", step.step, ",", step.kernel, ",", text_json(launch ? launch->function : ""), ",",
             numbers_json(launch ? launch->grid : none), ",",
             numbers_json(launch ? launch->block : none), ",", list_json(step.places, place_json),
             ",", text_json(*step.node), ",", step.bytes, ",", step.is_row ? 1 : 0, ",",
             step.resident() ? 1 : 0, "]");
}

std::string parts_json(const std::vector<BoundPart> &parts) {
  return list_json(parts, [](const BoundPart &part) {
    if (part.kind == BoundPart::Kind::section)
      return cat("[", part.first, ",", part.end, "]");
    std::map<std::string, std::string> fields{{"condition", place_json(part.condition)},
                                              {"then", parts_json(part.then)}};
    if (part.kind == BoundPart::Kind::choice) {
      fields["otherwise"] = parts_json(part.otherwise);
      return object_json(fields);
    }
    fields["trips"] = place_json(part.trips);
    fields["again"] = place_json(part.again);
    fields["rows"] = numbers_json(part.rows);
    fields["limit"] = std::to_string(part.limit);
    fields["most"] = std::to_string(part.most);
    fields["node"] = text_json(*part.node);
    return object_json(fields);
  });
}

void add_schedules(const BoundPlan &bound, const std::vector<BoundPart> &parts, const Rates &rates,
                   std::vector<std::string> &found) {
  for (const BoundPart &part : parts) {
    add_schedules(bound, part.then, rates, found);
    add_schedules(bound, part.otherwise, rates, found);
    if (part.first == part.end)
      continue;
    std::span<const BoundStep> own(bound.steps.data() + part.first, part.end - part.first);
    if (auto one = schedule(own, rates))
      found.push_back(cat("[", part.first, ",",
                          list_json(one->before, [](const auto &own) { return numbers_json(own); }),
                          ",", numbers_json(one->streams), "]"));
  }
}

} // namespace

std::string bound_json(const BoundPlan &bound, bool with_plan, const Rates &rates) {
  std::vector<std::string> schedules;
  add_schedules(bound, bound.parts, rates, schedules);
  std::map<std::string, std::string> fields{
      {"arena", std::to_string(bound.arena_bytes)},
      {"counts", bound.counts ? "1" : "0"},
      {"parts", parts_json(bound.parts)},
      {"schedules", list_json(schedules, [](const std::string &text) { return text; })},
      {"scratch", std::to_string(bound.scratch_bytes)},
      {"steps", list_json(bound.steps, step_json)}};
  if (with_plan)
    fields["plan"] = bound.plan.json(true);
  return object_json(fields);
}

} // namespace mgx
