//===- cpu_store.h - an artifact's weights in the process's memory
//-----------------------------===//
#pragma once

#include "artifact.h"

#include <atomic>
#include <mutex>
#include <tuple>

namespace mgx {

// The weights of an artifact in the process's memory, and what launches made of them alone. Shared
// by the programs of one artifact.
class CpuStore {
public:
  // By the code's hash, the function, the weights' numbers and the bytes.
  using Key = std::tuple<std::string, std::string, std::vector<int64_t>, int64_t>;
  using Memory = std::shared_ptr<char[]>;

  static std::shared_ptr<CpuStore> of(const std::shared_ptr<const Artifact> &artifact);

  // The elements of a weight, loaded and checked at its first use.
  const char *weight(size_t number);
  // Has the system take back the pages of a weight that lies in a file: they come again with the
  // next use.
  void drop(size_t number);

  const std::shared_ptr<const Artifact> artifact;
  std::mutex making; // Held while something is made of weights.
  std::map<Key, Memory> made;
  std::atomic<uint64_t> bytes{0};

  explicit CpuStore(std::shared_ptr<const Artifact> artifact);

private:
  std::mutex lock;
  std::vector<std::optional<WeightBytes>> weights;
};

} // namespace mgx
