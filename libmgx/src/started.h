//===- started.h - a run that was started -------------------------------------------===//
#pragma once

#include <atomic>
#include <exception>
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
    thread = std::thread([this, work = std::move(work)] {
      try {
        work();
      } catch (...) {
        error = std::current_exception();
      }
      over = true;
    });
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
