//===- cpu_executor.h - the pool of threads (mgx_mlir/runtime/native/cpu_executor.cpp)
//---------===//
#pragma once

#include <cstdint>

extern "C" {
typedef void (*mgx_function)(void **arguments, int64_t begin, int64_t end);

struct mgx_step {
  mgx_function function;
  int64_t extent;
  int64_t first_argument;
};

int mgx_cpu_run(const mgx_step *steps, int64_t count, void **arguments, int threads);
}
