//===- hip_program.cpp - programs on a GPU
//------------------------------------------------------------------------===//
#include "hip_program.h"
#include "hip_context.h"

#include <set>

namespace mgx {

namespace {

// The plan, whose memory the device has.
const BoundPlan &fitting(const BoundPlan &bound, const HipDevice &device) {
  auto needed =
      static_cast<uint64_t>(bound.arena_bytes) + static_cast<uint64_t>(bound.scratch_bytes);
  check_memory(bound, needed, device.memory_bytes(), device.name());
  return bound;
}

class HipSized : public Sized {
public:
  HipSized(const Artifact &artifact, Plan plan, Code code, const HipDevice &device, bool graph)
      : Sized(artifact, std::move(plan), std::move(code), false),
        prepared(fitting(bound, device), artifact, device), graph(graph) {
    idle.push_back(made()); // Now, and not in the first run.
  }
  ~HipSized() override {
    CurrentDevice current(prepared.device.number());
    idle.clear();
  }

  void run(Tensors inputs, Tensors outputs, const mgx_run_options &options) override {
    with_context([&](HipContext &context) { context.run(inputs, outputs, options); });
  }

  void profile(Tensors inputs, Tensors outputs, mgx_profile_function function,
               void *user) override {
    with_context([&](HipContext &context) { context.profile(inputs, outputs, function, user); });
  }

  uint64_t workspace() const override {
    std::lock_guard<std::mutex> hold(lock);
    return contexts * (prepared.memory_bytes + prepared.staging_bytes);
  }

private:
  // A context that a failure left in an unknown state is destroyed.
  template <class Work> void with_context(const Work &work) {
    CurrentDevice current(prepared.device.number());
    std::unique_ptr<HipContext> context;
    {
      std::lock_guard<std::mutex> hold(lock);
      if (!idle.empty()) {
        context = std::move(idle.back());
        idle.pop_back();
      }
    }
    if (!context)
      context = made();
    try {
      work(*context);
    } catch (...) {
      std::lock_guard<std::mutex> hold(lock);
      --contexts;
      throw;
    }
    std::lock_guard<std::mutex> hold(lock);
    idle.push_back(std::move(context));
  }

  std::unique_ptr<HipContext> made() {
    CurrentDevice current(prepared.device.number());
    auto context = std::make_unique<HipContext>(prepared, graph);
    std::lock_guard<std::mutex> hold(lock);
    ++contexts;
    idle.reserve(contexts); // So that giving it back allocates nothing.
    return context;
  }

  const HipPrepared prepared;
  const bool graph;
  mutable std::mutex lock;
  std::vector<std::unique_ptr<HipContext>> idle;
  uint64_t contexts = 0;
};

class HipProgram : public Program {
public:
  HipProgram(std::shared_ptr<const Artifact> artifact, std::shared_ptr<Device> device,
             std::string target, const mgx_program_options &options)
      : Program(std::move(artifact), std::move(device), std::move(target), options),
        gpu(static_cast<const HipDevice &>(*this->device)), graph(options.graph != -1) {}

  uint64_t weight_bytes() const override {
    std::set<std::string_view> used;
    for (const Plan *plan : artifact->plan.plans())
      for (const Buffer &buffer : plan->buffers)
        if (buffer.kind == Memory::weight)
          used.insert(buffer.key);
    uint64_t total = 0;
    for (std::string_view key : used)
      total += static_cast<uint64_t>(artifact->weight(std::string(key))->bytes);
    return total;
  }

protected:
  std::shared_ptr<Sized> make(Plan plan, Code code) override {
    CurrentDevice current(gpu.number());
    return std::make_shared<HipSized>(*artifact, std::move(plan), std::move(code), gpu, graph);
  }

private:
  const HipDevice &gpu;
  const bool graph;
};

} // namespace

std::shared_ptr<Program> make_hip_program(std::shared_ptr<const Artifact> artifact,
                                          std::shared_ptr<Device> device, std::string target,
                                          const mgx_program_options &options) {
  return std::make_shared<HipProgram>(std::move(artifact), std::move(device), std::move(target),
                                      options);
}

} // namespace mgx
