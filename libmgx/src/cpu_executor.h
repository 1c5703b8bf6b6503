//===- cpu_executor.h - the pool of threads -----------------------------------------------===//
#pragma once

#include <chrono>
#include <cstdint>
#include <vector>

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
}

// A run has at most so many threads.
constexpr int most_threads = 4096;

// The work of each thread in a run, step by step.
struct Spans {
  using Clock = std::chrono::steady_clock;
  struct Span {
    size_t step;
    Clock::time_point start, end;
  };

  // Makes room for so many steps more: threads that note them allocate nothing.
  void expect(int count, size_t steps);

  std::vector<std::vector<Span>> threads;
  size_t first = 0; // The number of the first step that run_steps is given.
};

// Runs `count` steps on `threads` threads, with a note of what each did where `spans` is given.
// `arguments` holds the pointers of all steps. Any number of threads may call this at once; runs of
// equal `threads` take turns. Returns 0, EINVAL for a wrong argument, ENOMEM or EAGAIN when the
// system gives no memory or no thread.
int run_steps(const mgx_step *steps, int64_t count, void **arguments, int threads, Spans *spans);
