//===- cpu_store.cpp - an artifact's weights in the process's memory
//---------------------------===//
#include "cpu_store.h"

#include <sys/mman.h>
#include <unistd.h>

namespace mgx {

CpuStore::CpuStore(std::shared_ptr<const Artifact> given)
    : artifact(std::move(given)), weights(artifact->weights.size()) {}

std::shared_ptr<CpuStore> CpuStore::of(const std::shared_ptr<const Artifact> &artifact) {
  static std::mutex sharing;
  static auto *stores = new std::map<const Artifact *, std::weak_ptr<CpuStore>>;
  std::lock_guard<std::mutex> hold(sharing);
  std::erase_if(*stores, [](const auto &entry) { return entry.second.expired(); });
  std::weak_ptr<CpuStore> &known = (*stores)[artifact.get()];
  if (auto found = known.lock())
    return found;
  auto store = std::make_shared<CpuStore>(artifact);
  known = store;
  return store;
}

const char *CpuStore::weight(size_t number) {
  std::lock_guard<std::mutex> hold(lock);
  auto &found = weights[number];
  if (!found) {
    found = artifact->weights[number].load();
    bytes += found->bytes;
  }
  return found->data;
}

void CpuStore::drop(size_t number) {
  std::lock_guard<std::mutex> hold(lock);
  const auto &found = weights[number];
  if (!found || !found->mapped)
    return;
  auto page = static_cast<uintptr_t>(sysconf(_SC_PAGE_SIZE));
  auto first = reinterpret_cast<uintptr_t>(found->data), end = first + found->bytes;
  first = (first + page - 1) / page * page; // Whole pages: others have the ends.
  end = end / page * page;
  if (first < end)
    madvise(reinterpret_cast<void *>(first), end - first, MADV_DONTNEED);
}

} // namespace mgx
