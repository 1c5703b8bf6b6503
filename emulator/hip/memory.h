// Allocations: every range of memory that the runtime handed out or was told about.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <vector>

#include "abi.h"
#include "runtime.h"
#include "work.h"

namespace mgx::hip {

enum class MemoryKind { device, host, registered, managed };

struct Allocation {
  uint64_t base = 0, size = 0;
  uint64_t id = 0;
  MemoryKind kind = MemoryKind::device;
  Device* device = nullptr;
  unsigned flags = 0;
  std::shared_ptr<Pool> pool;      // stream-ordered memory
  std::atomic<bool> freed{false};  // a free is under way or in a stream
  bool of_graph = false;           // lives as long as its graph
  bool of_module = false;          // code and globals: the module's to free

  bool host_visible() const { return kind != MemoryKind::device; }
  bool contains(uint64_t address, uint64_t bytes) const {
    return address >= base && address - base <= size && bytes <= size - (address - base);
  }
};

// Reserves and registers; throws hipErrorOutOfMemory. Size 0 gives null.
std::shared_ptr<Allocation> allocate_device(Device& device, size_t size, unsigned flags);
std::shared_ptr<Allocation> allocate_host(Device& device, size_t size, unsigned flags,
                                          MemoryKind kind);
// Pins the caller's own memory. Throws hipErrorHostMemoryAlreadyRegistered where it overlaps.
void register_range(Device& device, void* base, size_t size, unsigned flags);
// Gives the memory back. The allocation must not be in use by a stream.
void release(const std::shared_ptr<Allocation>& allocation);

// The allocation holding the address, or the segment of a module; null if none.
std::shared_ptr<Allocation> find_allocation(const void* address);
// True for addresses of a device's arena, allocated or not: never a host buffer.
bool is_device_address(const void* address);
std::vector<std::shared_ptr<Allocation>> allocations_of(const Device& device);
// A new device may address the host memory that all devices may.
void map_host_memory(Device& added);
// Lets kernels of `from` address the memory of `to`, or no longer.
void map_peer(Device& from, Device& to);
void unmap_peer(Device& from, Device& to);
void forget_peer_mappings(Device& device);

// Stream-ordered memory: blocks freed in stream order stay in the pool up to its threshold.
struct Pool {
  explicit Pool(Device& device) : device(device) {}
  Device& device;
  hipMemPool_t handle = nullptr;
  size_t max_size = 0;  // 0: the device's memory
  std::atomic<int> follow_events{1}, opportunistic{1}, internal_dependencies{1};

  std::shared_ptr<Allocation> allocate(size_t size, const std::shared_ptr<Pool>& self);
  void give_back(const std::shared_ptr<Allocation>& allocation);
  void trim(size_t keep);
  // The device was reset: its blocks are gone.
  void forget();
  uint64_t get(hipMemPoolAttr attribute);
  void set(hipMemPoolAttr attribute, uint64_t value);

 private:
  std::mutex mutex_;
  std::vector<std::shared_ptr<Allocation>> cached_;
  uint64_t threshold_ = 0, used_ = 0, used_high_ = 0, reserved_ = 0, reserved_high_ = 0;
};

// Memory that goes when the last node and the last executable graph with it are gone.
std::shared_ptr<Allocation> own_by_graph(const std::shared_ptr<Allocation>& allocation);
void give_back_now(const FreeWork& work);

// Copies and fills: checked against the allocations. Throws hipErrorInvalidValue.
void check_copy(const CopyWork& copy);
void check_fill(const FillWork& fill);
void do_copy(const CopyWork& copy);
void do_fill(const FillWork& fill);
CopyWork linear_copy(void* dst, const void* src, size_t bytes, hipMemcpyKind kind);
CopyWork copy_3d(const hipMemcpy3DParms& params);
FillWork linear_fill(void* dst, unsigned value, unsigned element, size_t count);
FillWork fill_2d(const hipMemsetParams& params);

// A host pointer the runtime knows nothing about: the system may page it, so a real copy
// engine reads it before the call returns.
bool is_pageable(const void* address);

}  // namespace mgx::hip
