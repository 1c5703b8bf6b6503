// The compiler, a process of its own, and the cache of what it made.
#ifndef MGX_EP_COMPILER_H
#define MGX_EP_COMPILER_H

#include "graph.h"
#include "island.h"

namespace mgx_ep {

// Nodes that one artifact computes, by their places in the model.
struct Compiled {
  std::filesystem::path path;
  std::vector<size_t> nodes;
  Artifact artifact;
  Program program;
};

// The islands of a model on a device, of the cache or compiled now. A model, its weights, the
// words of the options and the version of libmgx decide which entry of the cache it is. Throws
// Error with the compiler's words, or the way to get one.
std::vector<Compiled> compile(const Model &model, const Options &options, mgx_device *device,
                              const OrtLogger *logger);

} // namespace mgx_ep

#endif
