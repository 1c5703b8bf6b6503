//===- hip_prepared.cpp - a bound plan on a GPU
//----------------------------------------------------------===//
#include "hip_prepared.h"

#include <algorithm>

namespace mgx {

namespace {
HipDim dim(const std::array<int64_t, 3> &sizes) {
  return {static_cast<uint32_t>(sizes[0]), static_cast<uint32_t>(sizes[1]),
          static_cast<uint32_t>(sizes[2])};
}

// The work-groups of a resident launch: no more than the device holds at a time.
uint32_t resident_groups(const HipStep &step, const HipDevice &device) {
  int held = 0;
  HIP(hipModuleOccupancyMaxActiveBlocksPerMultiprocessor, &held, step.function,
      static_cast<int>(step.block.x), 0);
  auto most = static_cast<uint32_t>(device.rates.compute_units) * static_cast<uint32_t>(held);
  return std::max(1u, std::min(step.grid.x, most));
}

uint64_t aligned(int64_t bytes) { return static_cast<uint64_t>(round_up(bytes, 256)); }
} // namespace

void HipStep::failed(int status, const char *call) const {
  std::string of = cat(" of '", *bound->node, "'");
  if (!function)
    hip_failed(status, call, "", "copy" + of);
  hip_failed(status, call, "", cat(bound->launch->function, of, " (kernel ", bound->kernel, ")"));
}

HipPrepared::HipPrepared(const BoundPlan &bound, const Artifact &artifact, const HipDevice &device)
    : bound(bound), device(device), artifact(artifact), lanes(bound.steps.size()) {
  plan_streams(bound.parts);
  size_t used = lanes.empty() ? 1 : *std::max_element(lanes.begin(), lanes.end()) + 1;
  memory_bytes = static_cast<uint64_t>(bound.arena_bytes) + aligned(bound.scratch_bytes) * used;
  for (const CodeObject &code : bound.code) // One without launches has no bytes either.
    modules.push_back(code.launches.empty() ? nullptr : HipModule::of(device.number(), code));
  const std::vector<TensorSpec> *specs[2] = {&bound.plan.inputs, &bound.plan.outputs};
  for (int way : {MGX_INPUT, MGX_OUTPUT}) {
    entries[way].resize(specs[way]->size());
    touching[way].resize(specs[way]->size());
    for (const TensorSpec &spec : *specs[way]) {
      staging[way].push_back(staging_bytes);
      staging_bytes += aligned(spec.bytes());
    }
  }
  for (const BoundStep &step : bound.steps) {
    HipStep one{nullptr, {}, {}, static_cast<uint64_t>(step.bytes), arguments.size(), &step};
    if (step.launch) {
      one.function = modules[static_cast<size_t>(step.kernel)]->function(step.launch->function);
      one.grid = dim(step.launch->grid);
      one.block = dim(step.launch->block);
      if (step.resident())
        one.grid.x = resident_groups(one, device);
    }
    for (const Place &place : step.places) {
      touch(place);
      point(place, lanes[steps.size()]);
    }
    if (step.resident())
      arguments[one.first + groups_argument] = one.grid.x;
    steps.push_back(one);
  }
  for (size_t number = 0; number < steps.size(); ++number)
    if (bound.steps[number].is_row)
      wholes[number] = point(bound.steps[number].places[1]);
  for (const Place &place : bound.decisions())
    if (place.kind == Place::Kind::weight)
      known.emplace(place.index, artifact.weights[static_cast<size_t>(place.index)].load());
    else
      decisions[place] = point(place);
}

void HipPrepared::plan_streams(const std::vector<BoundPart> &parts) {
  for (const BoundPart &part : parts) {
    plan_streams(part.then);
    plan_streams(part.otherwise);
    if (part.first == part.end)
      continue;
    std::span<const BoundStep> own(bound.steps.data() + part.first, part.end - part.first);
    std::optional<StreamSchedule> found = schedule(own, device.rates);
    if (!found)
      continue;
    std::copy(found->streams.begin(), found->streams.end(),
              lanes.begin() + static_cast<ptrdiff_t>(part.first));
    schedules.emplace(part.first, std::move(*found));
  }
}

size_t HipPrepared::point(const Place &place, size_t lane) {
  size_t number = arguments.size();
  auto value = static_cast<uint64_t>(place.index);
  switch (place.kind) {
  case Place::Kind::scratch:
    value += static_cast<uint64_t>(bound.arena_bytes) + lane * aligned(bound.scratch_bytes);
    [[fallthrough]];
  case Place::Kind::arena:
    in_arena.push_back(number);
    break;
  case Place::Kind::weight: {
    auto &memory = weights[place.index];
    if (!memory)
      memory = device_weight(device.number(), artifact.weights[static_cast<size_t>(place.index)]);
    value = memory->address();
    break;
  }
  case Place::Kind::input:
  case Place::Kind::output:
    entries[place.kind == Place::Kind::input ? MGX_INPUT : MGX_OUTPUT][value].push_back(number);
    value = 0;
    break;
  default: // A size; launches that run once are the CPU's.
    break;
  }
  arguments.push_back(value);
  return number;
}

void HipPrepared::touch(const Place &place) {
  if (place.kind != Place::Kind::input && place.kind != Place::Kind::output)
    return;
  int way = place.kind == Place::Kind::input ? MGX_INPUT : MGX_OUTPUT;
  auto &found = touching[way][static_cast<size_t>(place.index)];
  if (found.empty() || found.back() != steps.size())
    found.push_back(steps.size());
}

} // namespace mgx
