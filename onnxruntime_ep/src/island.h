// A fused node: an artifact's program on a device.
#ifndef MGX_EP_ISLAND_H
#define MGX_EP_ISLAND_H

#include "options.h"

namespace mgx_ep {

// What the library did since it was loaded; tests and users read it.
struct Counters {
  uint64_t compiled;   // runs of the compiler
  uint64_t found;      // models that the cache had
  uint64_t programs;   // programs loaded
  uint64_t runs;       // of programs
  uint64_t copies;     // of tensors, between a GPU and elsewhere
  uint64_t allocations; // of a GPU's memory
};
void count(uint64_t Counters::*which);

// The place of an output that no node reads, so that the fused node does not have it.
inline constexpr size_t UNREAD = SIZE_MAX;

class Island : public OrtNodeComputeInfo {
public:
  // `inputs` and `outputs` are the places of the program's among those of the fused node `name`.
  Island(std::string name, Artifact artifact, Program program, mgx_device *device,
         std::vector<size_t> inputs, std::vector<size_t> outputs);

private:
  void run(OrtKernelContext *context) const;

  std::string name_;
  Artifact artifact_;
  Program program_;
  mgx_device *device_;
  bool on_gpu_ = false;
  std::vector<size_t> inputs_, outputs_;
  std::vector<uint32_t> ranks_; // of outputs
};

// The artifact in a file. Throws Error where it is damaged.
Artifact opened(const std::filesystem::path &path);

// Its program on a device; none where the session only compiles. `is_own`: its code needs no
// consent. Throws Error.
Program program_of(mgx_artifact *artifact, mgx_device *device, const Options &options, bool is_own);

// The names of an artifact's inputs or outputs, in order.
std::vector<std::string> tensor_names(const mgx_artifact *artifact, mgx_direction direction);

} // namespace mgx_ep

#endif
