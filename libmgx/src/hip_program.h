//===- hip_program.h - programs on a GPU
//-------------------------------------------------------===//
#pragma once

#include "program.h"

namespace mgx {

std::shared_ptr<Program> make_hip_program(std::shared_ptr<const Artifact> artifact,
                                          std::shared_ptr<Device> device, std::string target,
                                          const mgx_program_options &options);

} // namespace mgx
