//===- hip_context.cpp - the state of one run on a GPU
//-------------------------------------------------------===//
#include "hip_context.h"
#include "hip_ranges.h"

#include <cstring>

namespace mgx {

HipContext::HipContext(const HipPrepared &prepared, bool graph)
    : prepared(prepared), graph_wanted(graph),
      memory(std::make_unique<DeviceMemory>(prepared.device.number(), prepared.memory_bytes,
                                            "a program's arena and scratch memory")),
      arguments(prepared.arguments), is_stale(prepared.steps.size()) {
  for (size_t number : prepared.in_arena)
    arguments[number] += memory->address();
  for (uint64_t &argument : arguments)
    parameters.push_back(&argument);
  for (int way : {MGX_INPUT, MGX_OUTPUT})
    addresses[way].resize(prepared.entries[way].size());
  known.resize(prepared.entries[MGX_INPUT].size());
  on_host.resize(prepared.entries[MGX_OUTPUT].size());
  if (!prepared.schedules.empty())
    recorded.resize(prepared.steps.size());
  if (!prepared.decisions.empty())
    HIP(hipHostMalloc, decision.made(), sizeof(int64_t), 0);
  HIP(hipEventCreateWithFlags, last.made(), hip_disable_timing);
  HIP(hipStreamCreateWithFlags, own_stream.made(), hip_non_blocking);
  if (prepared.bound.counts) { // Counters begin with 0, and kernels leave them so.
    auto scratch = static_cast<uint64_t>(prepared.bound.arena_bytes);
    HIP(hipMemsetAsync, reinterpret_cast<void *>(memory->address() + scratch), 0,
        prepared.memory_bytes - scratch, own_stream.get());
    HIP(hipStreamSynchronize, own_stream.get());
  }
}

HipContext::~HipContext() { // Failures: there is nothing left to do about them.
  if (!hip_survives())
    return;
  const HipLibrary &library = hip();
  if (running)
    library.hipEventSynchronize(last.get());
  else if (stream && stream != own_stream.get()) // A run on it failed.
    library.hipStreamSynchronize(stream);
  library.hipStreamSynchronize(own_stream.get());
  for (HipStream &lane : lanes)
    library.hipStreamSynchronize(lane.get());
  library.hipGetLastError();
}

void HipContext::run(Tensors inputs, Tensors outputs, const mgx_run_options &options) {
  using Clock = std::chrono::steady_clock;
  Clock::time_point times[4] = {Clock::now()};
  bool waits = begin(inputs, outputs, options) || options.on_stream != 1;
  times[1] = Clock::now();
  enqueue(outputs, !waits);
  times[2] = Clock::now();
  if (waits)
    wait();
  times[3] = Clock::now();
  for (uint64_t part = 0; options.span && part < 3; ++part) {
    auto since = [&](Clock::time_point time) {
      return std::chrono::duration<double>(time - times[0]).count();
    };
    mgx_span span{sizeof span, 0, part, since(times[part]), since(times[part + 1])};
    options.span(options.user, &span);
  }
}

bool HipContext::begin(Tensors inputs, Tensors outputs, const mgx_run_options &options) {
  patience = Patience(options);
  graphs_now = options.graph != -1 && !reporting;
  stream = options.on_stream == 1 ? options.stream : own_stream.get();
  if (running)
    HIP(hipStreamWaitEvent, stream, last.get(), 0);
  for (size_t i = 0; i < options.event_count; ++i)
    HIP(hipStreamWaitEvent, stream, options.events[i], 0);
  const Plan &plan = prepared.bound.plan;
  bool host = false;
  for (size_t i = 0; i < inputs.size(); ++i) {
    auto bytes = static_cast<size_t>(plan.inputs[i].bytes());
    bool copied = bytes && !prepared.device.owns(inputs[i]);
    known[i] = copied ? inputs[i].data : nullptr;
    host = host || copied;
    uint64_t address = copied || !bytes ? staging_address(MGX_INPUT, i)
                                        : reinterpret_cast<uint64_t>(inputs[i].data);
    point(MGX_INPUT, i, address);
    if (copied)
      hip_check(hip().hipMemcpyAsync(reinterpret_cast<void *>(address), inputs[i].data, bytes,
                                     hip_host_to_device, stream),
                "hipMemcpyAsync", cat("input '", plan.inputs[i].name, "'"));
  }
  for (size_t i = 0; i < outputs.size(); ++i) {
    int64_t bytes = plan.outputs[i].bytes();
    on_host[i] = bytes && !prepared.device.owns(outputs[i]);
    host = host || on_host[i];
    point(MGX_OUTPUT, i,
          on_host[i] || !bytes ? staging_address(MGX_OUTPUT, i)
                               : reinterpret_cast<uint64_t>(outputs[i].data));
  }
  return host;
}

bool HipContext::decides() const {
  for (const auto &[place, argument] : prepared.decisions)
    if (place.kind != Place::Kind::input || !known[static_cast<size_t>(place.index)])
      return true;
  return false;
}

void HipContext::enqueue(Tensors outputs, bool mark) {
  run_parts(prepared.bound.parts, *this);
  copy_back(outputs);
  if (mark)
    HIP(hipEventRecord, last.get(), stream);
  running = mark;
}

bool HipContext::done() const {
  return hip_done(running ? hip().hipEventQuery(last.get()) : hip().hipStreamQuery(stream));
}

void HipContext::wait() {
  if (running)
    HIP(hipEventSynchronize, last.get());
  else
    HIP(hipStreamSynchronize, stream);
  running = false;
}

void HipContext::copy_back(Tensors outputs) {
  const Plan &plan = prepared.bound.plan;
  for (size_t i = 0; i < outputs.size(); ++i)
    if (on_host[i])
      hip_check(hip().hipMemcpyAsync(
                    outputs[i].data, reinterpret_cast<void *>(staging_address(MGX_OUTPUT, i)),
                    static_cast<size_t>(plan.outputs[i].bytes()), hip_device_to_host, stream),
                "hipMemcpyAsync", cat("output '", plan.outputs[i].name, "'"));
}

// The memory for copies of host tensors; allocated at its first use.
uint64_t HipContext::staging_address(int way, size_t tensor) {
  if (!staging)
    staging = std::make_unique<DeviceMemory>(prepared.device.number(), prepared.staging_bytes,
                                             "copies of a program's inputs and outputs");
  return staging->address() + prepared.staging[way][tensor];
}

void HipContext::point(int way, size_t tensor, uint64_t address) {
  uint64_t &old = addresses[way][tensor];
  if (old == address)
    return;
  old = address;
  for (size_t number : prepared.entries[way][tensor])
    arguments[number] = address;
  for (size_t step : prepared.touching[way][tensor])
    outdate(step);
}

void HipContext::section(const BoundPart &part) {
  if (reporting) {
    for (size_t step = part.first; step < part.end; ++step)
      time_step(step);
    return;
  }
  HipGraph *graph = graphs_now && graph_wanted && pays(part) ? current_graph(part) : nullptr;
  if (graph)
    return hip_check(hip().hipGraphLaunch(graph->executable.get(), stream), "hipGraphLaunch",
                     "without graphs (graph = -1; Python: graph=False) the kernel at fault is "
                     "named");
  auto planned = prepared.schedules.find(part.first);
  if (planned != prepared.schedules.end())
    return submit_parallel(part, planned->second);
  for (size_t step = part.first; step < part.end; ++step)
    submit(step, stream);
}

void HipContext::submit(size_t number, void *on) {
  const HipLibrary &library = hip();
  const HipStep &step = prepared.steps[number];
  int status;
  if (step.function && step.bound->resident())
    status = library.hipModuleLaunchCooperativeKernel(
        step.function, step.grid.x, step.grid.y, step.grid.z, step.block.x, step.block.y,
        step.block.z, 0, on, parameters.data() + step.first);
  else if (step.function)
    status = library.hipModuleLaunchKernel(step.function, step.grid.x, step.grid.y, step.grid.z,
                                           step.block.x, step.block.y, step.block.z, 0, on,
                                           parameters.data() + step.first, nullptr);
  else
    status = library.hipMemcpyAsync(reinterpret_cast<void *>(arguments[step.first + 1]),
                                    reinterpret_cast<void *>(arguments[step.first]), step.bytes,
                                    hip_device_to_device, on);
  step.check(status, step.bound->resident() ? "hipModuleLaunchCooperativeKernel"
                     : step.function        ? "hipModuleLaunchKernel"
                                            : "hipMemcpyAsync");
}

void HipContext::submit_parallel(const BoundPart &part, const StreamSchedule &plan) {
  while (lanes.size() + 1 < plan.count)
    HIP(hipStreamCreateWithFlags, lanes.emplace_back().made(), hip_non_blocking);
  auto on = [&](size_t lane) { return lane ? lanes[lane - 1].get() : stream; };
  size_t used = 0;
  auto record = [&](size_t lane) {
    if (used == events.size())
      HIP(hipEventCreateWithFlags, events.emplace_back().made(), hip_disable_timing);
    void *event = events[used++].get();
    HIP(hipEventRecord, event, on(lane));
    return event;
  };
  void *fork = record(0);
  for (size_t lane = 1; lane < plan.count; ++lane)
    HIP(hipStreamWaitEvent, on(lane), fork, 0);
  for (size_t number = 0; number < plan.streams.size(); ++number) {
    size_t lane = plan.streams[number];
    for (size_t other : plan.before[number])
      if (plan.streams[other] != lane)
        HIP(hipStreamWaitEvent, on(lane), recorded[part.first + other], 0);
    submit(part.first + number, on(lane));
    if (plan.crossing[number])
      recorded[part.first + number] = record(lane);
  }
  for (size_t lane = 1; lane < plan.count; ++lane)
    HIP(hipStreamWaitEvent, stream, record(lane), 0);
}

int64_t HipContext::number(const Place &place, int64_t bytes) {
  const void *data = decision.get();
  if (place.kind == Place::Kind::weight) {
    data = prepared.known.at(place.index).data;
  } else if (place.kind == Place::Kind::input && known[static_cast<size_t>(place.index)]) {
    data = known[static_cast<size_t>(place.index)];
  } else {
    auto *source = reinterpret_cast<void *>(arguments[prepared.decisions.at(place)]);
    hip_check(hip().hipMemcpyAsync(decision.get(), source, static_cast<size_t>(bytes),
                                   hip_device_to_host, stream),
              "hipMemcpyAsync", "a condition");
    HIP(hipStreamSynchronize, stream);
    report();
  }
  if (bytes == condition_bytes)
    return *static_cast<const signed char *>(data);
  int64_t value;
  std::memcpy(&value, data, sizeof value);
  return value;
}

void HipContext::row(const BoundPart &loop, int64_t trip) {
  for (size_t number : loop.rows) {
    const HipStep &copy = prepared.steps[number];
    arguments[copy.first + 1] =
        arguments[prepared.wholes.at(number)] + static_cast<uint64_t>(trip) * copy.bytes;
    outdate(number);
  }
}

void HipContext::profile(Tensors inputs, Tensors outputs, mgx_profile_function function,
                         void *given) {
  reporting = function;
  user = given;
  run(inputs, outputs, {});
  report();
  reporting = nullptr;
}

void HipContext::time_step(size_t number) {
  constexpr size_t most = 4096; // Steps before a report: a loop may make many.
  if (timed.size() == most) {
    HIP(hipStreamSynchronize, stream);
    report();
  }
  while (timings.size() < 2 * timed.size() + 2)
    HIP(hipEventCreateWithFlags, timings.emplace_back().made(), 0);
  size_t place = 2 * timed.size();
  HIP(hipEventRecord, timings[place].get(), stream);
  {
    NamedRange range(*prepared.steps[number].bound->node);
    submit(number, stream);
  }
  HIP(hipEventRecord, timings[place + 1].get(), stream);
  timed.push_back(number);
}

void HipContext::report() {
  for (size_t i = 0; i < timed.size(); ++i) {
    float milliseconds = 0;
    HIP(hipEventElapsedTime, &milliseconds, timings[2 * i].get(), timings[2 * i + 1].get());
    mgx_profile_row row =
        row_of(*prepared.steps[timed[i]].bound, static_cast<double>(milliseconds) / 1e3);
    reporting(user, &row);
  }
  timed.clear();
}

} // namespace mgx
