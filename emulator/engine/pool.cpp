#include "engine.h"

#include <algorithm>

namespace mgx::emu {

ThreadPool::ThreadPool(unsigned threads) {
  if (!threads) threads = std::max(1u, std::thread::hardware_concurrency());
  for (unsigned i = 1; i < threads; ++i) threads_.emplace_back([this, i] { work(i); });
}

ThreadPool::~ThreadPool() {
  {
    std::lock_guard lock(mutex_);
    stop_ = true;
  }
  start_.notify_all();
  for (std::thread &t : threads_) t.join();
}

void ThreadPool::run(const std::function<void(unsigned)> &f, unsigned limit) {
  std::lock_guard turn(run_mutex_);
  if (threads_.empty() || limit <= 1) {
    f(0);
    return;
  }
  {
    std::lock_guard lock(mutex_);
    job_ = &f;
    limit_ = limit;
    pending_ = unsigned(threads_.size());
    ++generation_;
  }
  start_.notify_all();
  f(0);
  std::unique_lock lock(mutex_);
  done_.wait(lock, [this] { return pending_ == 0; });
  job_ = nullptr;
}

void ThreadPool::work(unsigned id) {
  uint64_t seen = 0;
  for (;;) {
    const std::function<void(unsigned)> *job;
    unsigned limit;
    {
      std::unique_lock lock(mutex_);
      start_.wait(lock, [&] { return stop_ || generation_ != seen; });
      if (stop_) return;
      seen = generation_;
      job = job_;
      limit = limit_;
    }
    if (id < limit) (*job)(id);
    std::lock_guard lock(mutex_);
    if (--pending_ == 0) done_.notify_one();
  }
}

} // namespace mgx::emu
