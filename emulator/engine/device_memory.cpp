// Device memory: an arena of reserved address space with a page table that maps
// a page to its allocation, so that a look-up is two loads and takes no lock.
#include "engine.h"

#include <cstring>
#include <new>
#include <sys/mman.h>

namespace mgx::emu {

// Allocations of at least this size are followed by a page without access, so
// that host code overrunning them faults as well. Smaller ones rely on the
// check alone: Linux limits the number of mappings of a process.
static constexpr uint64_t kGuarded = 1 << 20;

static constexpr uint64_t kClearedPages = 2;

static void *reserve(uint64_t bytes, int protection) {
  void *p = mmap(nullptr, bytes, protection, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  return p == MAP_FAILED ? nullptr : p;
}

Memory::Memory(uint64_t bytes) {
  for (; bytes >= (uint64_t(1) << 28); bytes /= 2) {
    void *arena = reserve(bytes, PROT_READ | PROT_WRITE);
    if (!arena) continue;
    pages_bytes_ = bytes / kPage * sizeof(uint32_t);
    max_blocks_ = bytes / kPage / 16 + 1024;
    blocks_bytes_ = max_blocks_ * sizeof(Block);
    pages_ = static_cast<std::atomic<uint32_t> *>(reserve(pages_bytes_, PROT_READ | PROT_WRITE));
    blocks_ = static_cast<Block *>(reserve(blocks_bytes_, PROT_READ | PROT_WRITE));
    if (pages_ && blocks_) {
      arena_ = reinterpret_cast<uint64_t>(arena);
      arena_size_ = bytes;
      return;
    }
    munmap(arena, bytes);
    if (pages_) munmap(pages_, pages_bytes_);
    if (blocks_) munmap(blocks_, blocks_bytes_);
    pages_ = nullptr;
    blocks_ = nullptr;
  }
}

Memory::~Memory() {
  if (!arena_size_) return;
  munmap(reinterpret_cast<void *>(arena_), arena_size_);
  munmap(pages_, pages_bytes_);
  munmap(blocks_, blocks_bytes_);
}

void *Memory::allocate(uint64_t size, void *user) {
  if (!size) size = 1;
  if (size > arena_size_) return nullptr;
  std::lock_guard lock(mutex_);
  uint64_t used = (size + kPage - 1) / kPage, pages = used + 1; // and a gap
  uint64_t first;
  auto fit = free_by_size_.lower_bound(pages);
  if (fit != free_by_size_.end()) {
    first = fit->second;
    uint64_t rest = fit->first - pages;
    free_by_page_.erase(first);
    free_by_size_.erase(fit);
    if (rest) {
      free_by_page_.emplace(first + pages, rest);
      free_by_size_.emplace(rest, first + pages);
    }
  } else {
    if (bump_ + pages > arena_size_ / kPage) return nullptr;
    first = bump_;
    bump_ += pages;
  }
  uint32_t index;
  if (!free_blocks_.empty()) {
    index = free_blocks_.back();
    free_blocks_.pop_back();
  } else if (next_block_ < max_blocks_) {
    index = next_block_++;
  } else {
    return nullptr;
  }
  uint64_t base = arena_ + first * kPage;
  if (size >= kGuarded) mprotect(reinterpret_cast<void *>(base + used * kPage), kPage, PROT_NONE);
  blocks_[index].base.store(base, std::memory_order_relaxed);
  blocks_[index].user.store(user, std::memory_order_relaxed);
  blocks_[index].size.store(size, std::memory_order_release);
  for (uint64_t i = 0; i < used; ++i) pages_[first + i].store(index, std::memory_order_release);
  allocated_ += size;
  return reinterpret_cast<void *>(base);
}

bool Memory::free(void *p) {
  uint64_t base = reinterpret_cast<uint64_t>(p);
  if (!in_arena(base) || (base - arena_) % kPage) return false;
  std::lock_guard lock(mutex_);
  uint64_t first = (base - arena_) / kPage;
  uint32_t index = pages_[first].load(std::memory_order_relaxed);
  if (!index || blocks_[index].base.load() != base) return false;
  uint64_t size = blocks_[index].size.load();
  uint64_t used = (size + kPage - 1) / kPage, pages = used + 1;
  for (uint64_t i = 0; i < used; ++i) pages_[first + i].store(0, std::memory_order_release);
  blocks_[index].size.store(0, std::memory_order_release);
  free_blocks_.push_back(index);
  allocated_ -= size;
  if (size >= kGuarded)
    mprotect(reinterpret_cast<void *>(base + used * kPage), kPage, PROT_READ | PROT_WRITE);
  // Zero again for the next allocation; a small one at less than a page fault's cost.
  if (used <= kClearedPages) std::memset(p, 0, used * kPage);
  else madvise(p, used * kPage, MADV_DONTNEED);
  // Merge with the free neighbours.
  auto drop = [&](std::map<uint64_t, uint64_t>::iterator it) {
    auto range = free_by_size_.equal_range(it->second);
    for (auto s = range.first; s != range.second; ++s)
      if (s->second == it->first) {
        free_by_size_.erase(s);
        break;
      }
    free_by_page_.erase(it);
  };
  auto next = free_by_page_.lower_bound(first);
  if (next != free_by_page_.begin()) {
    auto prev = std::prev(next);
    if (prev->first + prev->second == first) {
      first = prev->first;
      pages += prev->second;
      drop(prev);
    }
  }
  next = free_by_page_.lower_bound(first);
  if (next != free_by_page_.end() && next->first == first + pages) {
    pages += next->second;
    drop(next);
  }
  if (first + pages == bump_) {
    bump_ = first;
  } else {
    free_by_page_.emplace(first, pages);
    free_by_size_.emplace(pages, first);
  }
  return true;
}

Range Memory::find(uint64_t address) const {
  if (in_arena(address)) {
    uint32_t index = pages_[(address - arena_) / kPage].load(std::memory_order_acquire);
    if (!index) return {};
    const Block &b = blocks_[index];
    uint64_t base = b.base.load(std::memory_order_relaxed);
    uint64_t size = b.size.load(std::memory_order_acquire);
    if (address - base >= size) return {};
    return {base, size, b.user.load(std::memory_order_relaxed)};
  }
  std::shared_lock lock(host_mutex_);
  auto it = host_.upper_bound(address);
  if (it == host_.begin()) return {};
  --it;
  if (address - it->second.base >= it->second.size) return {};
  return it->second;
}

bool Memory::register_host(void *p, uint64_t size, void *user) {
  uint64_t base = reinterpret_cast<uint64_t>(p);
  if (!p || !size || base + size < base) return false;
  std::unique_lock lock(host_mutex_);
  auto it = host_.lower_bound(base);
  if (it != host_.end() && it->first < base + size) return false;
  if (it != host_.begin()) {
    --it;
    if (it->second.base + it->second.size > base) return false;
  }
  host_.emplace(base, Range{base, size, user});
  return true;
}

bool Memory::unregister_host(void *p) {
  std::unique_lock lock(host_mutex_);
  return host_.erase(reinterpret_cast<uint64_t>(p)) != 0;
}

} // namespace mgx::emu
