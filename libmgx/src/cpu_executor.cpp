//===- cpu_executor.cpp - runs a list of steps over a pool of threads -----------===//
//
// A run is a list of steps, one after another. A step's work items are cut into chunks,
// of which each thread has a share: the same part of every step, so that a thread reads
// what it wrote a step before from its own caches. A thread takes the chunks of its share,
// then those that are left of the others'. A step is done when all its items are done, not
// when all threads have passed it, so that a thread that the system has put aside holds up
// nobody as long as it holds no chunk.
//
// The threads of a pool serve one run at a time. The calling thread works too, unless
// its stack is too small for the kernels' tiles.
//
//===----------------------------------------------------------------------===//
#include "cpu_executor.h"

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <climits>
#include <condition_variable>
#include <cstring>
#include <memory>
#include <mutex>
#include <new>
#include <vector>

#include <linux/futex.h>
#include <pthread.h>
#include <sys/syscall.h>
#include <unistd.h>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace {

constexpr size_t kWorkerStack = 16 << 20;
// The calling thread's stack that tiles of a kernel may need, with room to spare.
constexpr size_t kCallerStack = 4 << 20;
constexpr int64_t kCopyChunk = 256 << 10;
// Long enough to bridge the gap between steps, short beside a time slice.
constexpr auto kSpin = std::chrono::microseconds(60);

void pause() {
#if defined(__x86_64__)
  _mm_pause();
#endif
}

// Sleeping on a 32-bit counter. `sleepers` saves the waker a system call when nobody sleeps.
class Signal {
public:
  uint32_t get() const { return value.load(std::memory_order_acquire); }

  void advance() {
    value.fetch_add(1);
    if (sleepers.load() != 0)
      syscall(SYS_futex, &value, FUTEX_WAKE_PRIVATE, INT_MAX, nullptr, nullptr, 0);
  }

  // Returns when the value is no longer `seen`: spins first, then sleeps.
  void wait(uint32_t seen) {
    auto until = std::chrono::steady_clock::now() + kSpin;
    do {
      for (int i = 0; i < 32; ++i) {
        if (get() != seen)
          return;
        pause();
      }
    } while (std::chrono::steady_clock::now() < until);
    sleepers.fetch_add(1);
    while (value.load() == seen)
      syscall(SYS_futex, &value, FUTEX_WAIT_PRIVATE, seen, nullptr, nullptr, 0);
    sleepers.fetch_sub(1);
  }

private:
  std::atomic<uint32_t> value{0};
  std::atomic<uint32_t> sleepers{0};
};

// How many chunks of one thread's share of a step are taken, on a cache line of its own.
class alignas(128) Share {
public:
  // All chunks may be taken, by those who are at the step.
  void open(int64_t step) { state.store(static_cast<uint64_t>(step) << 32); }

  // The number of a chunk for the caller, of `count`; -1 where none is left, or the step is over.
  int64_t take(int64_t step, int64_t count) {
    uint64_t seen = state.load(std::memory_order_acquire);
    while (static_cast<int64_t>(seen >> 32) == step && static_cast<int64_t>(seen & kTaken) < count)
      if (state.compare_exchange_weak(seen, seen + 1))
        return static_cast<int64_t>(seen & kTaken);
    return -1;
  }

private:
  static constexpr uint64_t kTaken = 0xffffffff;
  // The step's number above, so that a late thread takes nothing of a later step.
  std::atomic<uint64_t> state{0};
};

// One run. Lives on the caller's stack frame; workers enter it only while it is open.
struct Run {
  const mgx_step *steps;
  int64_t count;
  void **arguments;
  int threads;
  Spans *spans;
  Share *shares = nullptr; // One for each thread; the pool's.
  alignas(128) std::atomic<int64_t> done{0}; // Chunks of the step.
  Signal finished{}; // Counts finished steps.

  // Items of a chunk: small enough that the threads finish together.
  int64_t chunk(const mgx_step &step) const {
    if (!step.function)
      return kCopyChunk;
    int64_t parts = static_cast<int64_t>(threads) * (threads > 1 ? 6 : 1);
    return (step.extent + parts - 1) / parts;
  }

  // The chunks of the step that has most.
  int64_t widest() const {
    int64_t most = 1;
    for (int64_t i = 0; i < count; ++i)
      most = std::max(most, (steps[i].extent + chunk(steps[i]) - 1) / chunk(steps[i]));
    return most;
  }

  void work(const mgx_step &step, int64_t begin, int64_t end) const {
    void **own = arguments + step.first_argument;
    if (step.function)
      step.function(own, begin, end);
    else
      std::memcpy(static_cast<char *>(own[1]) + begin, static_cast<char *>(own[0]) + begin,
                  static_cast<size_t>(end - begin));
  }

  void open(int64_t step) {
    for (int i = 0; i < threads; ++i)
      shares[i].open(step);
  }

  // Begins the span of a thread in a step; null where none is asked for.
  Spans::Span *span(int thread, int64_t step) const {
    if (!spans)
      return nullptr;
    auto now = Spans::Clock::now();
    return &spans->threads[static_cast<size_t>(thread)].emplace_back(
        Spans::Span{spans->first + static_cast<size_t>(step), now, now});
  }

  // Takes part in every step, as the thread of a number. Returns when the last step is done.
  void serve(int self) {
    for (int64_t i = finished.get(); i < count; ++i) {
      int64_t size = chunk(steps[i]), chunks = (steps[i].extent + size - 1) / size;
      Spans::Span *own = nullptr;
      for (int other = 0; other < threads; ++other) {
        int owner = (self + other) % threads;
        int64_t first = chunks * owner / threads, last = chunks * (owner + 1) / threads;
        for (;;) {
          int64_t number = shares[owner].take(i, last - first);
          if (number < 0)
            break;
          int64_t begin = (first + number) * size;
          if (!own)
            own = span(self, i);
          work(steps[i], begin, std::min(begin + size, steps[i].extent));
          if (own)
            own->end = Spans::Clock::now();
          if (done.fetch_add(1) + 1 == chunks) {
            done.store(0);
            open(i + 1);
            finished.advance();
          }
        }
      }
      while (finished.get() == static_cast<uint32_t>(i))
        finished.wait(static_cast<uint32_t>(i));
    }
  }
};

// Whether the calling thread has stack enough to run kernels.
bool has_stack() {
  thread_local char *limit = nullptr;
  thread_local bool known = false;
  if (!known) {
    pthread_attr_t attributes;
    if (pthread_getattr_np(pthread_self(), &attributes) == 0) {
      void *address = nullptr;
      size_t size = 0;
      if (pthread_attr_getstack(&attributes, &address, &size) == 0)
        limit = static_cast<char *>(address);
      pthread_attr_destroy(&attributes);
    }
    known = true;
  }
  char here;
  return limit && static_cast<size_t>(&here - limit) > kCallerStack;
}

class Pool {
public:
  explicit Pool(int threads) : threads(threads), shares(std::make_unique<Share[]>(threads)) {}

  // Runs the steps; false when not even one thread could be had.
  bool run(Run &run) {
    std::lock_guard<std::mutex> one(turn);
    run.shares = shares.get();
    run.open(0);
    bool own = has_stack();
    // A worker can be had for every thread but the caller's; with fewer the run is slower.
    ensure(threads - (own ? 1 : 0));
    if (!own && workers == 0)
      return false;
    // A run of steps that no second thread can share wakes none.
    int others = static_cast<int>(std::min<int64_t>(threads, run.widest())) - (own ? 1 : 0);
    if (workers != 0 && others != 0) {
      {
        std::lock_guard<std::mutex> hold(lock);
        current = &run;
        vacant = others;
      }
      calls.advance();
    }
    if (own)
      run.serve(0);
    else
      // Read once: a step that ends between two reads would be waited for, for ever.
      for (uint32_t seen; (seen = run.finished.get()) != static_cast<uint32_t>(run.count);)
        run.finished.wait(seen);
    // No worker enters any more; those inside leave before `run` goes away.
    std::unique_lock<std::mutex> hold(lock);
    current = nullptr;
    left.wait(hold, [&] { return inside == 0; });
    return true;
  }

private:
  void ensure(int wanted) {
    while (workers < wanted) {
      pthread_attr_t attributes;
      pthread_attr_init(&attributes);
      pthread_attr_setstacksize(&attributes, kWorkerStack);
      pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
      pthread_t thread;
      int failed = pthread_create(&thread, &attributes, enter, this);
      pthread_attr_destroy(&attributes);
      if (failed)
        return;
      ++workers;
    }
  }

  static void *enter(void *pool) {
    static_cast<Pool *>(pool)->loop();
    return nullptr;
  }

  [[noreturn]] void loop() {
    // A new thread may already be expected by the run that made it.
    uint32_t seen = calls.get() - 1;
    for (;;) {
      calls.wait(seen);
      seen = calls.get();
      Run *run;
      int self = 0;
      {
        std::lock_guard<std::mutex> hold(lock);
        run = vacant != 0 ? current : nullptr;
        if (run) {
          self = run->threads - vacant;
          --vacant;
          ++inside;
        }
      }
      if (!run)
        continue;
      run->serve(self);
      std::lock_guard<std::mutex> hold(lock);
      if (--inside == 0)
        left.notify_all();
    }
  }

  const int threads;
  const std::unique_ptr<Share[]> shares; // One for each thread of the run.
  int workers = 0; // Guarded by `turn`.
  std::mutex turn; // One run at a time.
  std::mutex lock; // Guards the next four.
  std::condition_variable left; // Signalled when the last worker leaves.
  Run *current = nullptr;
  int vacant = 0; // Workers that may still enter the current run.
  int inside = 0; // Workers that are in it.
  Signal calls; // Counts runs.
};

// Pools by number of threads. They live as long as the process: their threads may be
// asleep in them at exit. A forked child has none of the threads and starts afresh.
std::mutex pools_lock;
std::vector<std::pair<int, Pool *>> *pools;

void lock_pools() { pools_lock.lock(); }
void unlock_pools() { pools_lock.unlock(); }
void forget_pools() {
  pools = nullptr;
  pools_lock.unlock();
}

Pool &pool_of(int threads) {
  static const int registered = pthread_atfork(lock_pools, unlock_pools, forget_pools);
  (void)registered;
  std::lock_guard<std::mutex> hold(pools_lock);
  if (!pools)
    pools = new std::vector<std::pair<int, Pool *>>;
  for (auto &[count, pool] : *pools)
    if (count == threads)
      return *pool;
  pools->emplace_back(threads, new Pool(threads));
  return *pools->back().second;
}

} // namespace

void Spans::expect(int count, size_t steps) {
  threads.resize(static_cast<size_t>(count));
  for (std::vector<Span> &spans : threads)
    if (size_t needed = spans.size() + steps; needed > spans.capacity())
      spans.reserve(std::max(needed, 2 * spans.capacity()));
}

int run_steps(const mgx_step *steps, int64_t count, void **arguments, int threads, Spans *spans) {
  if (count < 0 || count > INT32_MAX || threads < 1 || threads > most_threads || (count && !steps))
    return EINVAL;
  for (int64_t i = 0; i < count; ++i)
    if (steps[i].extent < 1)
      return EINVAL;
  if (count == 0)
    return 0;
  try {
    if (spans)
      spans->expect(threads, static_cast<size_t>(count));
    Run run{steps, count, arguments, threads, spans};
    return pool_of(threads).run(run) ? 0 : EAGAIN;
  } catch (const std::bad_alloc &) {
    return ENOMEM;
  }
}
