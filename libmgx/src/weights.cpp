//===- weights.cpp - weights loaded, their hashes checked ---------------------------===//
#include "weights.h"
#include "error.h"
#include "hash.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <new>

#include <sys/mman.h>

namespace mgx {

namespace {

// Copies elements that a file holds with the dimensions in another order. Dimension i of the result
// is dimension order[i] of what is stored.
void reorder(char *target, const char *source, const Weight &weight) {
  size_t rank = weight.shape.size();
  auto item = static_cast<size_t>(weight.element->bytes);
  std::vector<int64_t> stored(rank), strides(rank), step(rank), place(rank, 0);
  for (size_t i = 0; i < rank; ++i)
    stored[static_cast<size_t>(weight.order[i])] = weight.shape[i];
  int64_t stride = weight.element->bytes;
  for (size_t i = rank; i-- > 0; stride *= stored[i])
    strides[i] = stride;
  for (size_t i = 0; i < rank; ++i)
    step[i] = strides[static_cast<size_t>(weight.order[i])];
  for (int64_t done = 0; done < weight.bytes; done += weight.element->bytes) {
    std::memcpy(target + done, source, item);
    for (size_t i = rank; i-- > 0;) {
      source += step[i];
      if (++place[i] < weight.shape[i])
        break;
      source -= step[i] * place[i];
      place[i] = 0;
    }
  }
}

} // namespace

// For tests: behind all memory that programs have is a page that nobody may touch.
extern "C" {
__attribute__((visibility("default"))) int mgx_cpu_guard = 0;
}

namespace {
constexpr size_t page = 4096, huge_page = 2 << 20;

// A page that says how much there is, the memory at the end of its pages, and the guard.
char *guarded(size_t count) {
  size_t held = (count + page - 1) / page * page;
  void *found =
      mmap(nullptr, held + 2 * page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (found == MAP_FAILED)
    throw std::bad_alloc();
  auto *first = static_cast<char *>(found);
  std::memcpy(first, &held, sizeof held);
  mprotect(first + page + held, page, PROT_NONE);
  return first + page + (held - count) / 64 * 64;
}
} // namespace

void FreeMemory::operator()(char *data) const {
  if (!mgx_cpu_guard)
    return std::free(data);
  char *first = data - reinterpret_cast<uintptr_t>(data) % page - page;
  size_t held;
  std::memcpy(&held, first, sizeof held);
  munmap(first, held + 2 * page);
}

HostMemory allocate(size_t count) {
  if (mgx_cpu_guard)
    return HostMemory(guarded(std::max<size_t>(count, 1)));
  // A page of 2 MiB is ready in a fifth of the time of its 512 small ones: one more from half on.
  size_t huge = count < huge_page ? 0 : (count + huge_page / 2) / huge_page * huge_page;
  void *data = nullptr;
  if (posix_memalign(&data, huge ? huge_page : 64, std::max(count + 64, huge)))
    throw std::bad_alloc();
  if (huge)
    madvise(data, huge, MADV_HUGEPAGE);
  return HostMemory(static_cast<char *>(data));
}

std::vector<std::shared_ptr<char[]>> allocate(const std::vector<size_t> &counts) {
  std::vector<std::shared_ptr<char[]>> parts;
  if (mgx_cpu_guard) {
    for (size_t count : counts)
      parts.emplace_back(allocate(count));
    return parts;
  }
  size_t all = 0;
  for (size_t count : counts)
    all += (count + 63) / 64 * 64;
  std::shared_ptr<char[]> block = allocate(all);
  char *next = block.get();
  for (size_t count : counts) {
    parts.emplace_back(block, next);
    next += (count + 63) / 64 * 64;
  }
  return parts;
}

WeightBytes Weight::load() const {
  WeightBytes result;
  result.bytes = static_cast<size_t>(bytes);
  auto item = static_cast<size_t>(element->bytes);
  if (bytes && file.empty() && !data.data())
    fail(MGX_ERROR_USAGE, "weight '", key, "' has no data, which a program needs");
  if (splat) {
    result.own = allocate(result.bytes);
    for (size_t i = 0; i < result.bytes; i += item)
      std::memcpy(result.own.get() + i, data.data(), item);
  } else if (!file.empty() && bytes) {
    result.file = Bytes::map(file);
    result.mapped = true;
    std::string_view all = result.file->view();
    auto begin = static_cast<size_t>(offset);
    if (all.size() < begin + result.bytes)
      bad_artifact("weight '", key, "' needs bytes ", offset, " to ", offset + bytes, " of ", file,
                   ", which is shorter", repair);
    result.data = all.data() + begin;
    if (!order.empty()) {
      result.own = allocate(result.bytes);
      reorder(result.own.get(), result.data, *this);
    }
  } else {
    result.data = data.data();
    result.mapped = mapped;
  }
  if (!result.own && result.bytes && reinterpret_cast<uintptr_t>(result.data) % item) {
    result.own = allocate(result.bytes); // Kernels read whole elements.
    std::memcpy(result.own.get(), result.data, result.bytes);
  }
  if (result.own) {
    result.data = result.own.get();
    result.file.reset();
    result.mapped = false;
  }
  if (!checked && !has_hash({result.data, result.bytes}, sha256))
    bad_artifact("weight '", key, "' does not have the recorded hash: its bytes have changed",
                 repair);
  return result;
}

} // namespace mgx
