//===- hip_context.cpp - the state of one run on a GPU
//-------------------------------------------------------===//
#include "hip_context.h"

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
  if (!prepared.decisions.empty())
    HIP(hipHostMalloc, &decision, sizeof(int64_t), 0);
  HIP(hipEventCreateWithFlags, &last, hip_disable_timing);
  HIP(hipStreamCreateWithFlags, &own_stream, hip_non_blocking);
  if (prepared.bound.counts) { // Counters begin with 0, and kernels leave them so.
    auto scratch = static_cast<uint64_t>(prepared.bound.arena_bytes);
    HIP(hipMemsetAsync, reinterpret_cast<void *>(memory->address() + scratch), 0,
        prepared.memory_bytes - scratch, own_stream);
    HIP(hipStreamSynchronize, own_stream);
  }
}

HipContext::~HipContext() { // Failures: there is nothing left to do about them.
  const HipLibrary &library = hip();
  if (running)
    library.hipEventSynchronize(last);
  if (own_stream) {
    library.hipStreamSynchronize(own_stream);
    library.hipStreamDestroy(own_stream);
  }
  graphs.clear();
  for (void *event : {last, events[0], events[1]})
    if (event)
      library.hipEventDestroy(event);
  if (decision)
    library.hipHostFree(decision);
  library.hipGetLastError();
}

uint64_t HipContext::bytes() const {
  return prepared.memory_bytes + (staging ? prepared.staging_bytes : 0);
}

void HipContext::run(Tensors inputs, Tensors outputs, const mgx_run_options &options) {
  bool given = options.on_stream == 1;
  patience = Patience(options);
  stream = given ? options.stream : own_stream;
  if (running)
    HIP(hipStreamWaitEvent, stream, last, 0);
  bool host = begin(inputs, outputs);
  run_parts(prepared.bound.parts, *this);
  copy_back(outputs);
  running = given && !host;
  if (running)
    HIP(hipEventRecord, last, stream);
  else
    HIP(hipStreamSynchronize, stream);
}

bool HipContext::begin(Tensors inputs, Tensors outputs) {
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
  HipGraph *graph = graph_wanted && pays(part) ? current_graph(part) : nullptr;
  if (graph)
    hip_check(hip().hipGraphLaunch(graph->executable, stream), "hipGraphLaunch",
              "without graphs (graph = -1) the kernel at fault is named");
  else
    submit(part.first, part.end);
}

void HipContext::submit(size_t first, size_t end) {
  const HipLibrary &library = hip();
  for (size_t number = first; number < end; ++number) {
    const HipStep &step = prepared.steps[number];
    int status;
    if (step.function)
      status = library.hipModuleLaunchKernel(step.function, step.grid.x, step.grid.y, step.grid.z,
                                             step.block.x, step.block.y, step.block.z, 0, stream,
                                             parameters.data() + step.first, nullptr);
    else
      status = library.hipMemcpyAsync(reinterpret_cast<void *>(arguments[step.first + 1]),
                                      reinterpret_cast<void *>(arguments[step.first]), step.bytes,
                                      hip_device_to_device, stream);
    if (status != 0) [[unlikely]]
      hip_failed(status, step.function ? "hipModuleLaunchKernel" : "hipMemcpyAsync", step.called());
  }
}

int64_t HipContext::number(const Place &place, int64_t bytes) {
  const void *data = decision;
  if (place.kind == Place::Kind::weight) {
    data = prepared.known.at(place.index).data;
  } else if (place.kind == Place::Kind::input && known[static_cast<size_t>(place.index)]) {
    data = known[static_cast<size_t>(place.index)];
  } else {
    auto *source = reinterpret_cast<void *>(arguments[prepared.decisions.at(place)]);
    hip_check(hip().hipMemcpyAsync(decision, source, static_cast<size_t>(bytes), hip_device_to_host,
                                   stream),
              "hipMemcpyAsync", "a condition");
    HIP(hipStreamSynchronize, stream);
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
  for (void *&event : events)
    if (!event)
      HIP(hipEventCreateWithFlags, &event, 0);
  reporting = function;
  user = given;
  run(inputs, outputs, {});
  reporting = nullptr;
}

void HipContext::time_step(size_t number) {
  float milliseconds = 0;
  HIP(hipEventRecord, events[0], stream);
  submit(number, number + 1);
  HIP(hipEventRecord, events[1], stream);
  HIP(hipEventSynchronize, events[1]);
  HIP(hipEventElapsedTime, &milliseconds, events[0], events[1]);
  mgx_profile_row row =
      row_of(*prepared.steps[number].bound, static_cast<double>(milliseconds) / 1e3);
  reporting(user, &row);
}

} // namespace mgx
