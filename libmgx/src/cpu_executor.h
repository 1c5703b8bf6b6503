//===- cpu_executor.h - the pool of threads -----------------------------------------------===//
#pragma once

#include <cstdint>

extern "C" {
typedef void (*mgx_function)(void **arguments, int64_t begin, int64_t end);

// A step: `function` over the items 0 .. extent, on `arguments` pointers from
// `first_argument` on in the run's table. A null function copies `extent` bytes from
// the first argument to the second.
struct mgx_step {
  mgx_function function;
  int64_t extent;
  int64_t first_argument;
};

int mgx_cpu_run(const mgx_step *steps, int64_t count, void **arguments, int threads);
}
