// The launches of a program in onnxruntime's profile, from version 1.25 on.
#ifndef MGX_EP_PROFILER_H
#define MGX_EP_PROFILER_H

#include "api.h"

namespace mgx_ep {

// Whether onnxruntime profiles what this thread runs.
bool is_profiled();

// Adds a launch, or a copy, that has just ended to the profiles of this thread. `node` is the fused
// node's name.
void add_launch(const std::string &node, const mgx_profile_row &row);

OrtEpProfilerImpl *make_profiler();

} // namespace mgx_ep

#endif
