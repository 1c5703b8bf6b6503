// The execution provider of a session.
#ifndef MGX_EP_EP_H
#define MGX_EP_EP_H

#include "compiler.h"
#include "island.h"

#include <map>
#include <mutex>

namespace mgx_ep {

class Ep : public OrtEp {
public:
  Ep(const Options &options, Device device, const OrtLogger *logger);

private:
  void claim(const OrtGraph *graph, OrtEpGraphSupportInfo *support);
  std::unique_ptr<Island> made(const OrtGraph *graph, const OrtNode *fused, OrtNode **context);
  std::unique_ptr<Island> of_context(const OrtGraph *graph, const OrtNode *node,
                                     const OrtNode *fused);
  Artifact held_by(const OrtGraph *graph, const OrtNode *context) const;
  OrtNode *context_node(const OrtGraph *graph, const OrtNode *fused,
                        const std::filesystem::path &artifact,
                        const std::vector<std::string> &inputs,
                        const std::vector<std::string> &outputs);

  Options options_;
  Device device_;
  const OrtLogger *logger_;
  std::string refused_;                            // why nothing could be compiled
  std::map<size_t, Compiled> islands_; // by the number of their first node
  size_t contexts_ = 0;                             // written so far
};

} // namespace mgx_ep

#endif
