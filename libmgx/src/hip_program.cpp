//===- hip_program.cpp - programs on a GPU
//------------------------------------------------------------------------===//
#include "hip_program.h"
#include "hip_context.h"

#include <condition_variable>
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
    give(taken()); // Made now, and not in the first run.
  }

  void run(Tensors inputs, Tensors outputs, const mgx_run_options &options) override {
    CurrentDevice current(prepared.device.number());
    Lent lent(*this);
    lent.context->run(inputs, outputs, options);
    lent.give();
  }

  std::unique_ptr<Started> start(Tensors inputs, Tensors outputs,
                                 const mgx_run_options &options) override {
    CurrentDevice current(prepared.device.number());
    auto lent = std::make_unique<Lent>(*this);
    lent->context->begin(inputs, outputs, options);
    bool mark = options.on_stream == 1;
    if (!lent->context->decides()) {
      lent->context->enqueue(outputs, mark);
      return lent;
    }
    return std::make_unique<StartedThread>(
        [this, outputs, mark, lent = std::shared_ptr<Lent>(std::move(lent))] {
          CurrentDevice own(prepared.device.number());
          lent->context->enqueue(outputs, mark);
          lent->wait();
        });
  }

  void profile(Tensors inputs, Tensors outputs, mgx_profile_function function,
               void *user) override {
    CurrentDevice current(prepared.device.number());
    Lent lent(*this);
    lent.context->profile(inputs, outputs, function, user);
    lent.give();
  }

  uint64_t workspace() const override {
    std::lock_guard<std::mutex> hold(lock);
    return contexts * (prepared.memory_bytes + prepared.staging_bytes);
  }

private:
  using Context = std::unique_ptr<HipContext>;

  // A context while one run uses it, and the run where it was started. What a failure left in an
  // unknown state is destroyed.
  struct Lent : Started {
    explicit Lent(HipSized &owner) : owner(owner), context(owner.taken()) {}
    ~Lent() override {
      if (!context)
        return;
      context.reset();
      owner.lost();
    }
    // HIP waits for streams and events of any device.
    bool done() override { return context->done(); }
    void wait() override {
      context->wait();
      give();
    }
    void give() { owner.give(std::move(context)); }

    HipSized &owner;
    Context context;
  };

  // A context that no other run uses. Where memory is short for another one, waits for those that
  // there are.
  Context taken() {
    std::unique_lock<std::mutex> hold(lock);
    if (Context found = last_idle())
      return found;
    idle.reserve(++contexts); // So that giving it back allocates nothing.
    hold.unlock();
    try {
      CurrentDevice current(prepared.device.number());
      return std::make_unique<HipContext>(prepared, graph);
    } catch (const Error &error) {
      lost();
      if (error.kind != MGX_ERROR_RESOURCE)
        throw;
      hold.lock();
      if (contexts && idle.empty())
        say(MGX_LEVEL_WARNING, cat("waiting for another run of the program to end: ", error.text));
      changed.wait(hold, [this] { return !idle.empty() || !contexts; });
      if (Context found = last_idle())
        return found;
      throw;
    }
  }

  Context last_idle() {
    if (idle.empty())
      return nullptr;
    Context found = std::move(idle.back());
    idle.pop_back();
    return found;
  }

  void give(Context context) {
    std::lock_guard<std::mutex> hold(lock);
    idle.push_back(std::move(context));
    changed.notify_one();
  }

  void lost() {
    std::lock_guard<std::mutex> hold(lock);
    --contexts;
    changed.notify_all();
  }

  const HipPrepared prepared;
  const bool graph;
  mutable std::mutex lock;
  std::condition_variable changed;
  std::vector<Context> idle;
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
