//===- hip_program.cpp - programs on a GPU
//---------------------------------------------------------===//
#include "hip_program.h"

namespace mgx {

namespace {
[[noreturn]] void none() {
  fail(MGX_ERROR_DEVICE, "this libmgx runs programs on the CPU alone; use the device cpu");
}
} // namespace

size_t gpu_count(const mgx_device_options &) { return 0; }

std::shared_ptr<Device> open_gpu(int, const mgx_device_options &) { none(); }

std::shared_ptr<Program> make_hip_program(std::shared_ptr<const Artifact>, std::shared_ptr<Device>,
                                          std::string, const mgx_program_options &) {
  none();
}

} // namespace mgx
