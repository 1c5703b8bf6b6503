// The table of allocations, and the memory behind it.
#include "memory.h"

#include <sys/mman.h>

#include <map>
#include <mutex>
#include <shared_mutex>

#include "races.h"

namespace mgx::hip {
namespace {

struct Table {
  std::shared_mutex mutex;
  std::map<uint64_t, std::shared_ptr<Allocation>> by_base;
  uint64_t next_id = 1;
};

Table& table() {
  static Table* instance = new Table;
  return *instance;
}

void insert(const std::shared_ptr<Allocation>& allocation) {
  forget_touched(allocation->base, allocation->size);
  Table& all = table();
  std::unique_lock lock(all.mutex);
  allocation->id = all.next_id++;
  all.by_base[allocation->base] = allocation;
}

void erase(const Allocation& allocation) {
  Table& all = table();
  std::unique_lock lock(all.mutex);
  auto it = all.by_base.find(allocation.base);
  if (it != all.by_base.end() && it->second.get() == &allocation) all.by_base.erase(it);
}

bool is_peer(Device& from, Device& to) {
  std::lock_guard lock(from.state_mutex);
  return from.peers.count(to.ordinal) != 0;
}

// Devices that may address an allocation beside its own.
template <class F>
void for_each_mapping(const Allocation& allocation, F&& f) {
  for (auto& other : runtime().devices) {
    bool own = other.get() == allocation.device;
    if (allocation.kind == MemoryKind::device ? !own && is_peer(*other, *allocation.device) : true)
      f(*other);
  }
}

void map_everywhere(const Allocation& allocation) {
  for_each_mapping(allocation, [&](Device& other) {
    other.memory().register_host(reinterpret_cast<void*>(allocation.base), allocation.size);
  });
}

void unmap_everywhere(const Allocation& allocation) {
  for_each_mapping(allocation, [&](Device& other) {
    if (emu::Memory* memory = other.memory_if_made())
      memory->unregister_host(reinterpret_cast<void*>(allocation.base));
  });
}

// Modules take their memory from the arena without passing through the table.
std::shared_ptr<Allocation> find_segment(uint64_t address) {
  for (auto& device : runtime().devices) {
    emu::Memory* memory = device->memory_if_made();
    if (!memory || !memory->in_arena(address)) continue;
    emu::Range range = memory->find(address);
    if (!range) return nullptr;
    auto segment = std::make_shared<Allocation>();
    segment->base = range.base;
    segment->size = range.size;
    segment->device = device.get();
    segment->of_module = true;
    return segment;
  }
  return nullptr;
}

constexpr uint64_t kPage = 4096;
uint64_t pages(uint64_t bytes) { return (bytes + kPage - 1) / kPage * kPage; }

}  // namespace

std::shared_ptr<Allocation> allocate_device(Device& device, size_t size, unsigned flags) {
  const uint64_t capacity = device.chip.memory_bytes;
  require(size <= capacity, hipErrorOutOfMemory);
  auto allocation = std::make_shared<Allocation>();
  // Counted before it is taken, so that two threads cannot both get the last bytes.
  bool room = device.live_bytes.fetch_add(size) <= capacity - size;
  void* base = room ? device.memory().allocate(size, nullptr) : nullptr;
  if (!base) {
    device.live_bytes -= size;
    fail(hipErrorOutOfMemory);
  }
  allocation->base = uint64_t(base);
  allocation->size = size;
  allocation->kind = MemoryKind::device;
  allocation->device = &device;
  allocation->flags = flags;
  insert(allocation);
  map_everywhere(*allocation);
  return allocation;
}

std::shared_ptr<Allocation> allocate_host(Device& device, size_t size, unsigned flags,
                                          MemoryKind kind) {
  auto allocation = std::make_shared<Allocation>();
  void* base = mmap(nullptr, pages(size), PROT_READ | PROT_WRITE,
                    MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  require(base != MAP_FAILED, hipErrorOutOfMemory);
  allocation->base = uint64_t(base);
  allocation->size = size;
  allocation->kind = kind;
  allocation->device = &device;
  allocation->flags = flags;
  insert(allocation);
  map_everywhere(*allocation);
  return allocation;
}

void register_range(Device& device, void* base, size_t size, unsigned flags) {
  auto allocation = std::make_shared<Allocation>();
  allocation->base = uint64_t(base);
  allocation->size = size;
  allocation->kind = MemoryKind::registered;
  allocation->device = &device;
  allocation->flags = flags;
  require(allocation->base + size > allocation->base, hipErrorInvalidValue);
  forget_touched(allocation->base, size);
  {
    Table& all = table();
    std::unique_lock lock(all.mutex);
    auto next = all.by_base.lower_bound(allocation->base);
    bool overlaps = next != all.by_base.end() && next->first < allocation->base + size;
    if (next != all.by_base.begin()) {
      const Allocation& before = *std::prev(next)->second;
      overlaps |= before.base + before.size > allocation->base;
    }
    require(!overlaps, hipErrorHostMemoryAlreadyRegistered);
    allocation->id = all.next_id++;
    all.by_base[allocation->base] = allocation;
  }
  map_everywhere(*allocation);
}

void release(const std::shared_ptr<Allocation>& allocation) {
  void* base = reinterpret_cast<void*>(allocation->base);
  // Out of the table first: once the arena has the range back, another thread may get it. A device
  // that is being added maps what the table holds.
  erase(*allocation);
  unmap_everywhere(*allocation);
  switch (allocation->kind) {
    case MemoryKind::device:
      allocation->device->memory().free(base);
      allocation->device->live_bytes -= allocation->size;
      break;
    case MemoryKind::host:
    case MemoryKind::managed: munmap(base, pages(allocation->size)); break;
    case MemoryKind::registered: break;
  }
}

std::shared_ptr<Allocation> find_allocation(const void* address) {
  {
    Table& all = table();
    std::shared_lock lock(all.mutex);
    auto it = all.by_base.upper_bound(uint64_t(address));
    if (it != all.by_base.begin() && std::prev(it)->second->contains(uint64_t(address), 1))
      return std::prev(it)->second;
  }
  return find_segment(uint64_t(address));
}

bool is_device_address(const void* address) {
  for (auto& device : runtime().devices)
    if (emu::Memory* memory = device->memory_if_made())
      if (memory->in_arena(uint64_t(address))) return true;
  return false;
}

bool is_pageable(const void* address) {
  return !is_device_address(address) && !find_allocation(address);
}

std::vector<std::shared_ptr<Allocation>> allocations_of(const Device& device) {
  Table& all = table();
  std::shared_lock lock(all.mutex);
  std::vector<std::shared_ptr<Allocation>> found;
  for (const auto& [base, allocation] : all.by_base)
    if (allocation->device == &device) found.push_back(allocation);
  return found;
}

void map_host_memory(Device& added) {
  Table& all = table();
  std::shared_lock lock(all.mutex);
  for (const auto& [base, allocation] : all.by_base)
    if (allocation->kind != MemoryKind::device)
      added.memory().register_host(reinterpret_cast<void*>(base), allocation->size);
}

void map_peer(Device& from, Device& to) {
  for (const auto& allocation : allocations_of(to))
    if (allocation->kind == MemoryKind::device)
      from.memory().register_host(reinterpret_cast<void*>(allocation->base), allocation->size);
}

void unmap_peer(Device& from, Device& to) {
  for (const auto& allocation : allocations_of(to))
    if (allocation->kind == MemoryKind::device)
      from.memory().unregister_host(reinterpret_cast<void*>(allocation->base));
}

void forget_peer_mappings(Device& device) {
  for (auto& other : runtime().devices) {
    bool mapped;
    {
      std::lock_guard lock(device.state_mutex);
      mapped = device.peers.erase(other->ordinal) != 0;
    }
    if (mapped) unmap_peer(device, *other);
  }
}

}  // namespace mgx::hip
