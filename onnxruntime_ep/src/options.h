// The options of a session: `ep.mgx.NAME` and `ep.mgxexecutionprovider.NAME`.
#ifndef MGX_EP_OPTIONS_H
#define MGX_EP_OPTIONS_H

#include "api.h"

#include <filesystem>

namespace mgx_ep {

struct Options {
  std::string arch;                   // targets to compile for, "" for that of the device
  std::filesystem::path cache_dir;    // what was compiled, and finalized kernels
  bool own_cache = false;             // cache_dir was given
  std::string compiler = "mgx";       // the command that compiles
  std::string mode; // "" for the usual
  bool own_trust = false;             // trust was given
  std::vector<std::string> keys;      // whose machine code runs
  bool trust = false;                 // all machine code runs
  bool graph = true;                  // launches are replayed as HIP graphs
  bool fp16 = false, bf16 = false, exact = false;
  int threads = 0;                    // of a CPU, 0 for all cores

  // Of onnxruntime's own options.
  bool write_context = false;         // ep.context_enable
  bool embed = false;                 // ep.context_embed_mode
  std::string context_path;           // ep.context_file_path
  bool only_compiles = false;         // session.compile_only: nothing runs

  // Throws Error for an option that there is not, and for a value that it cannot have.
  static Options of(const OrtSessionOptions *options);

  // The words of the compiler's command line that say how to compile.
  std::vector<std::string> words(const std::string &device_target) const;
};

} // namespace mgx_ep

#endif
