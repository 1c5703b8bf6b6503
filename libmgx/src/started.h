//===- started.h - a run that was started -------------------------------------------===//
#pragma once

#include "error.h"

#include <atomic>
#include <exception>
#include <system_error>
#include <thread>

namespace mgx {

class Started {
public:
  virtual ~Started() = default; // Waits.
  virtual bool done() = 0;
  // Throws the run's error. Called once.
  virtual void wait() = 0;
};

// A run in a thread of its own.
class StartedThread : public Started {
public:
  template <class Work> explicit StartedThread(Work work) {
    auto all = [this, work = std::move(work)] {
      try {
        work();
      } catch (...) {
        error = std::current_exception();
      }
      over = true;
    };
    try {
      thread = std::thread(std::move(all));
    } catch (const std::system_error &fault) {
      fail(
          MGX_ERROR_RESOURCE, "no thread can be started: ", fault.what(),
          "; wait for other runs first, or raise the limits of the process (ulimit -u, ulimit -v)");
    }
  }
  ~StartedThread() override {
    if (thread.joinable())
      thread.join();
  }

  bool done() override { return over; }
  void wait() override {
    thread.join();
    if (error)
      std::rethrow_exception(error);
  }

private:
  std::atomic<bool> over{false};
  std::exception_ptr error;
  std::thread thread;
};

} // namespace mgx
