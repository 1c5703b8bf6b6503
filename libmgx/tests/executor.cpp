// How the CPU's executor shares the chunks of steps between its threads. Ends with 1 at the first
// fault, whose name it prints. Built with the executor alone.
#include "cpu_executor.h"

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <mutex>
#include <thread>

namespace {

constexpr int64_t items = 12;
using Items = std::vector<int64_t>;

void expect(bool is_true, const char *what) {
  if (is_true)
    return;
  std::printf("%s\n", what);
  std::exit(1);
}

// Waits until something is so, for as long as a test may take.
template <class Condition> void wait_for(const Condition &condition) {
  auto end = std::chrono::steady_clock::now() + std::chrono::seconds(60);
  while (!condition()) {
    expect(std::chrono::steady_clock::now() < end, "threads did not come to a step");
    std::this_thread::yield();
  }
}

// What a step of a test did: the items of each thread, in the order of chunks.
struct Step {
  size_t wanted = 0; // So many threads have a chunk before any goes on.
  bool holds_first = false; // The chunk with item 0 goes on when all others are done.
  std::mutex lock;
  std::map<std::thread::id, Items> done;
  size_t chunks = 0;
  std::atomic<size_t> arrived{0};
  std::atomic<int64_t> others{0};

  void work(int64_t begin, int64_t end) {
    bool first = false;
    {
      std::lock_guard<std::mutex> hold(lock);
      Items &own = done[std::this_thread::get_id()];
      first = own.empty();
      ++chunks;
      for (int64_t item = begin; item < end; ++item)
        own.push_back(item);
    }
    arrived += first;
    if (first)
      wait_for([&] { return arrived >= wanted; });
    if (holds_first && begin == 0)
      wait_for([&] { return others == items - end; });
    else
      others += end - begin;
  }

  static void function(void **arguments, int64_t begin, int64_t end) {
    static_cast<Step *>(arguments[0])->work(begin, end);
  }
};

void run(std::vector<Step> &steps, int threads, int64_t extent = items) {
  std::vector<mgx_step> list;
  std::vector<void *> arguments;
  for (Step &step : steps) {
    list.push_back({Step::function, extent, static_cast<int64_t>(arguments.size())});
    arguments.push_back(&step);
  }
  auto count = static_cast<int64_t>(list.size());
  expect(run_steps(list.data(), count, arguments.data(), threads, nullptr) == 0, "a run failed");
}

} // namespace

int main() {
  {
    std::vector<Step> steps(4);
    for (Step &step : steps)
      step.wanted = 2;
    run(steps, 2);
    for (Step &step : steps) {
      expect(step.done.size() == 2, "a thread has no share");
      for (auto &[thread, own] : step.done) {
        expect(own[0] == 0 || own[0] == items / 2, "a share begins elsewhere");
        expect(own[0] == steps[0].done[thread][0], "a thread begins a step with another share");
      }
    }
  }
  {
    std::vector<Step> steps(3);
    for (Step &step : steps)
      step.wanted = 3;
    run(steps, 3);
    for (Step &step : steps) {
      std::map<int64_t, int> times;
      for (auto &[thread, own] : step.done)
        for (int64_t item : own)
          ++times[item];
      expect(times.size() == items, "an item is left out");
      for (auto &[item, count] : times)
        expect(item >= 0 && item < items && count == 1, "an item is done twice");
    }
  }
  {
    std::vector<Step> steps(1); // Ends only where a thread takes what is left of another's share.
    steps[0].holds_first = true;
    run(steps, 2);
  }
  {
    std::vector<Step> steps(2);
    run(steps, 1);
    for (Step &step : steps)
      expect(step.chunks == 1 && step.done[std::this_thread::get_id()].size() == items,
             "one thread does a step in parts");
  }
  {
    std::vector<Step> steps(50);
    run(steps, 2, 1);
    for (Step &step : steps)
      expect(step.done.size() == 1 && step.done.count(std::this_thread::get_id()),
             "a step of one item leaves the calling thread");
  }
}
