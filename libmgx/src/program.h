//===- program.h - a program on a device, bound to the sizes of each run ----------------===//
#pragma once

#include "binding.h"
#include "device.h"
#include "started.h"
#include "trust.h"

#include <atomic>
#include <mutex>

namespace mgx {

using Tensors = std::span<const mgx_tensor>;

// A program for some sizes, with memory of its own. Any number of threads may run it.
class Sized {
public:
  Sized(const Artifact &artifact, Plan plan, Code code, bool keeps)
      : bound(artifact, std::move(plan), std::move(code), keeps) {}
  virtual ~Sized() = default;

  // The tensors are checked.
  virtual void run(Tensors inputs, Tensors outputs, const mgx_run_options &options) = 0;
  // The run in the background; the tensors outlive it.
  virtual std::unique_ptr<Started> start(Tensors inputs, Tensors outputs,
                                         const mgx_run_options &options) {
    return std::make_unique<StartedThread>([=, this] { run(inputs, outputs, options); });
  }
  virtual void profile(Tensors inputs, Tensors outputs, mgx_profile_function function,
                       void *user) = 0;
  virtual uint64_t workspace() const = 0;

  const BoundPlan bound;
};

// Throws a resource error where a program needs more bytes than there are. `where` says whose
// memory it is.
void check_memory(const BoundPlan &bound, uint64_t needed, uint64_t available,
                  const std::string &where);

// Throws where there are more or fewer inputs than the plan's, or one has dimensions and no sizes.
void check_sizes(const Plan &plan, Tensors inputs);
// The artifact's plan for inputs of these sizes, whose symbols are then `known`.
Plan plan_for(const Artifact &artifact, Tensors inputs, Known &known);

// The facts of a step of a profile.
mgx_profile_row row_of(const BoundStep &step, double seconds);

class Program {
public:
  static std::shared_ptr<Program> create(std::shared_ptr<const Artifact> artifact,
                                         std::shared_ptr<Device> device,
                                         const mgx_program_options &options);
  virtual ~Program() = default;

  // The program for inputs of these sizes; made where the last runs had none.
  std::shared_ptr<Sized> sized(Tensors inputs);
  // The same, with all that a run is given checked.
  std::shared_ptr<Sized> checked(Tensors inputs, Tensors outputs);
  virtual uint64_t weight_bytes() const = 0;
  uint64_t kept_bytes();

  const std::shared_ptr<const Artifact> artifact;
  const std::shared_ptr<Device> device;
  const std::string target;
  std::atomic<uint64_t> runs{0}, bindings{0};

protected:
  Program(std::shared_ptr<const Artifact> artifact, std::shared_ptr<Device> device,
          std::string target, const mgx_program_options &options);
  virtual std::shared_ptr<Sized> make(Plan plan, Code code) = 0;
  const Code &code() const { return artifact->code.at(target); }

private:
  struct Entry {
    std::vector<int64_t> sizes; // Of all inputs.
    std::shared_ptr<Sized> sized;
  };

  const size_t most;
  std::mutex lock;
  std::vector<Entry> entries; // The last used at the end.
};

} // namespace mgx
