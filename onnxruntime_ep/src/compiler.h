// The compiler, a process of its own, and the cache of what it made.
#ifndef MGX_EP_COMPILER_H
#define MGX_EP_COMPILER_H

#include "graph.h"
#include "options.h"

namespace mgx_ep {

// Nodes that one artifact computes, by their places in the model.
struct Compiled {
  std::filesystem::path artifact;
  std::vector<size_t> nodes;
};

// The islands of a model for the targets of `words`, of the cache or made now. A model, its
// weights, the words and the version of libmgx decide which entry of the cache it is. Throws Error
// with the compiler's words, or the way to get one.
std::vector<Compiled> compile(const Model &model, const Options &options,
                              const std::vector<std::string> &words, const OrtLogger *logger);

} // namespace mgx_ep

#endif
