// A graph of onnxruntime as an ONNX model for the compiler.
#ifndef MGX_EP_GRAPH_H
#define MGX_EP_GRAPH_H

#include "api.h"
#include "protobuf.h"

#include <set>

namespace mgx_ep {

// A large initialiser: the model names it by its place in a file of all of them.
struct Payload {
  const void *data;
  size_t bytes;
};

// The model of a graph. Its k-th node is the k-th of `nodes`. Nodes that read or write anything but
// tensors of numbers are there under a domain of their own, so that no compiler takes them.
struct Model {
  std::string bytes;
  std::vector<Payload> payloads; // one after another in the file WEIGHTS
  std::vector<const OrtNode *> nodes;
};

inline constexpr const char *WEIGHTS = "weights.bin";

// Throws Error where onnxruntime does.
Model model_of(const OrtGraph *graph);

std::string text_of(const OrtOpAttr *attribute);
int64_t integer_of(const OrtOpAttr *attribute);
std::string name_of(const OrtValueInfo *value); // "" where there is none

} // namespace mgx_ep

#endif
