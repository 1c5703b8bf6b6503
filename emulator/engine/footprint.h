// The bytes of global memory that a dispatch touches; collected in strict mode.
#pragma once

#include <atomic>
#include <cstdint>
#include <mutex>
#include <unordered_map>
#include <vector>

namespace mgx::emu {

enum Touch : uint8_t { kRead = 1, kWrite = 2, kAtomic = 4 };

// Bytes that are all touched in the same ways.
struct Touched {
  uint64_t begin = 0, end = 0;
  uint8_t how = 0; // kRead and kAtomic, or kWrite, which includes both
};

// All functions but `ranges` are thread-safe.
class Footprint {
public:
  static constexpr uint64_t kLine = 64; // bytes
  class Line {
  public:
    // `mask`: bytes of the line.
    void note(uint64_t mask, Touch how) {
      masks_[how / 2].fetch_or(mask, std::memory_order_relaxed);
    }

  private:
    friend class Footprint;
    std::atomic<uint64_t> masks_[3] = {}; // by Touch / 2
  };

  // The line of an address; it stays where it is.
  Line &line(uint64_t address);
  // In ascending order.
  std::vector<Touched> ranges() const;

private:
  static constexpr uint64_t kShards = 64;
  struct Shard {
    std::mutex mutex;
    std::unordered_map<uint64_t, Line> lines;
  } shards_[kShards];
};

} // namespace mgx::emu
