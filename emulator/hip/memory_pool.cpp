// Memory pools and stream-ordered allocation.
#include <algorithm>

#include "capture.h"
#include "graph.h"
#include "memory.h"
#include "stream.h"

using namespace mgx::hip;

namespace mgx::hip {

std::shared_ptr<Allocation> Pool::allocate(size_t size, const std::shared_ptr<Pool>& self) {
  std::lock_guard lock(mutex_);
  auto fits = std::find_if(cached_.begin(), cached_.end(),
                           [&](const auto& block) { return block->size == size; });
  std::shared_ptr<Allocation> block;
  if (fits != cached_.end()) {
    block = *fits;
    cached_.erase(fits);
    block->freed = false;
    // Who gets the block was put behind those before by the pool.
    forget_touched(block->base, block->size);
  } else {
    require(!max_size || size <= max_size - std::min<uint64_t>(reserved_, max_size),
            hipErrorOutOfMemory);
    try {
      block = allocate_device(device, size, hipDeviceMallocDefault);
    } catch (const Failure&) {
      // Memory that the pool keeps for later is the first to go.
      if (cached_.empty()) throw;
      for (const auto& kept : cached_) {
        reserved_ -= kept->size;
        release(kept);
      }
      cached_.clear();
      block = allocate_device(device, size, hipDeviceMallocDefault);
    }
    block->pool = self;
    reserved_ += size;
    reserved_high_ = std::max(reserved_high_, reserved_);
  }
  used_ += size;
  used_high_ = std::max(used_high_, used_);
  return block;
}

void Pool::give_back(const std::shared_ptr<Allocation>& allocation) {
  std::lock_guard lock(mutex_);
  used_ -= allocation->size;
  if (reserved_ > threshold_) {
    reserved_ -= allocation->size;
    release(allocation);
  } else {
    cached_.push_back(allocation);
  }
}

void Pool::trim(size_t keep) {
  std::lock_guard lock(mutex_);
  while (!cached_.empty() && reserved_ > keep) {
    reserved_ -= cached_.back()->size;
    release(cached_.back());
    cached_.pop_back();
  }
}

void Pool::forget() {
  std::lock_guard lock(mutex_);
  cached_.clear();
  used_ = reserved_ = 0;
}

std::shared_ptr<Allocation> own_by_graph(const std::shared_ptr<Allocation>& allocation) {
  allocation->of_graph = true;
  return {allocation.get(), [allocation](Allocation*) { release(allocation); }};
}

void give_back_now(const FreeWork& work) {
  if (work.keep) work.allocation->freed = true;
  else if (work.allocation->pool) work.allocation->pool->give_back(work.allocation);
  else release(work.allocation);
}

uint64_t Pool::get(hipMemPoolAttr attribute) {
  std::lock_guard lock(mutex_);
  switch (attribute) {
    case hipMemPoolReuseFollowEventDependencies: return uint64_t(follow_events);
    case hipMemPoolReuseAllowOpportunistic: return uint64_t(opportunistic);
    case hipMemPoolReuseAllowInternalDependencies: return uint64_t(internal_dependencies);
    case hipMemPoolAttrReleaseThreshold: return threshold_;
    case hipMemPoolAttrReservedMemCurrent: return reserved_;
    case hipMemPoolAttrReservedMemHigh: return reserved_high_;
    case hipMemPoolAttrUsedMemCurrent: return used_;
    case hipMemPoolAttrUsedMemHigh: return used_high_;
    default: fail(hipErrorInvalidValue);
  }
}

void Pool::set(hipMemPoolAttr attribute, uint64_t value) {
  std::lock_guard lock(mutex_);
  switch (attribute) {
    case hipMemPoolReuseFollowEventDependencies: follow_events = value != 0; return;
    case hipMemPoolReuseAllowOpportunistic: opportunistic = value != 0; return;
    case hipMemPoolReuseAllowInternalDependencies: internal_dependencies = value != 0; return;
    case hipMemPoolAttrReleaseThreshold: threshold_ = value; return;
    // A high-water mark can only be reset to the present value.
    case hipMemPoolAttrReservedMemHigh:
      require(value == 0, hipErrorInvalidValue);
      reserved_high_ = reserved_;
      return;
    case hipMemPoolAttrUsedMemHigh:
      require(value == 0, hipErrorInvalidValue);
      used_high_ = used_;
      return;
    default: fail(hipErrorInvalidValue);
  }
}

}  // namespace mgx::hip

namespace {

std::shared_ptr<Pool> find_pool(hipMemPool_t handle) {
  auto pool = runtime().pools.find(handle);
  require(pool != nullptr, hipErrorInvalidValue);
  return pool;
}

bool is_flag(hipMemPoolAttr attribute) {
  return attribute <= hipMemPoolReuseAllowInternalDependencies;
}

// Frees that streams have not reached yet count as room: where it does not suffice, they are
// waited for.
std::shared_ptr<Allocation> allocate_after_frees(Pool& pool, size_t size,
                                                 const std::shared_ptr<Pool>& self) {
  try {
    return pool.allocate(size, self);
  } catch (const Failure& failure) {
    if (failure.code != hipErrorOutOfMemory) throw;
  }
  pool.device.drain();
  return pool.allocate(size, self);
}

void malloc_async(void** out, size_t size, std::shared_ptr<Pool> pool, hipStream_t handle) {
  require(out != nullptr, hipErrorInvalidValue);
  auto stream = find_stream(handle);
  if (!pool) pool = stream->device.current_pool();
  stream->device.check_fault();
  require(!stream->is_null() || !stream->capturing, hipErrorStreamCaptureImplicit);
  *out = nullptr;
  if (size == 0) return;
  if (stream->capturing) {
    // The address is the graph's: fixed now, and kept until the graph is gone.
    auto allocation = allocate_device(stream->device, size, hipDeviceMallocDefault);
    AllocWork work{own_by_graph(allocation), {}};
    work.params.bytesize = size;
    work.params.dptr = reinterpret_cast<void*>(allocation->base);
    capture_work(*stream, work);
    *out = work.params.dptr;
    return;
  }
  auto allocation = allocate_after_frees(*pool, size, pool);
  // Ready for this stream at once: blocks come back to the pool when a stream has passed them.
  *out = reinterpret_cast<void*>(allocation->base);
}

void free_async(void* pointer, hipStream_t handle) {
  auto stream = find_stream(handle);
  if (!pointer) return;
  auto allocation = find_allocation(pointer);
  require(allocation && allocation->base == uint64_t(pointer) &&
              allocation->kind == MemoryKind::device && !allocation->of_module,
          hipErrorInvalidValue);
  if (stream->capturing) {
    require(allocation->of_graph, hipErrorInvalidValue);
    capture_work(*stream, FreeWork{allocation, true});
    return;
  }
  require(!allocation->freed.exchange(true), hipErrorInvalidValue);
  if (stream->device.fault() != hipSuccess) {
    // Nothing runs in a faulted device's streams, but memory can still be given back.
    stream->drain();
    give_back_now(FreeWork{allocation, allocation->of_graph});
    return;
  }
  try {
    stream->submit(FreeWork{allocation, allocation->of_graph});
  } catch (...) {
    allocation->freed = false;
    throw;
  }
}

}  // namespace

MGX_EXPORT hipError_t hipMallocAsync(void** pointer, size_t size, hipStream_t stream) {
  MGX_API(kPlain, { malloc_async(pointer, size, nullptr, stream); });
}

MGX_EXPORT hipError_t hipMallocFromPoolAsync(void** pointer, size_t size, hipMemPool_t pool,
                                             hipStream_t stream) {
  MGX_API(kPlain, { malloc_async(pointer, size, find_pool(pool), stream); });
}

MGX_EXPORT hipError_t hipFreeAsync(void* pointer, hipStream_t stream) {
  MGX_API(kRelease, { free_async(pointer, stream); });
}

MGX_EXPORT hipError_t hipDeviceGetDefaultMemPool(hipMemPool_t* pool, int device) {
  MGX_API(kPlain, {
    require(pool != nullptr, hipErrorInvalidValue);
    *pool = runtime().device(device).default_pool()->handle;
  });
}

MGX_EXPORT hipError_t hipDeviceGetMemPool(hipMemPool_t* pool, int device) {
  MGX_API(kPlain, {
    require(pool != nullptr, hipErrorInvalidValue);
    *pool = runtime().device(device).current_pool()->handle;
  });
}

MGX_EXPORT hipError_t hipDeviceSetMemPool(int device, hipMemPool_t pool) {
  MGX_API(kPlain, {
    auto found = find_pool(pool);
    require(&found->device == &runtime().device(device), hipErrorInvalidValue);
    found->device.set_current_pool(found);
  });
}

MGX_EXPORT hipError_t hipMemPoolCreate(hipMemPool_t* pool, const hipMemPoolProps* props) {
  MGX_API(kPlain, {
    require(pool && props, hipErrorInvalidValue);
    require(props->allocType == hipMemAllocationTypePinned &&
                props->location.type == hipMemLocationTypeDevice,
            hipErrorInvalidValue);
    require(props->handleTypes == hipMemHandleTypeNone, hipErrorNotSupported);
    auto made = std::make_shared<Pool>(runtime().device(props->location.id));
    made->max_size = props->maxSize;
    made->handle = static_cast<hipMemPool_t>(runtime().pools.add(made));
    *pool = made->handle;
  });
}

MGX_EXPORT hipError_t hipMemPoolDestroy(hipMemPool_t pool) {
  MGX_API(kRelease, {
    auto found = find_pool(pool);
    require(found != found->device.default_pool(), hipErrorInvalidValue);
    runtime().pools.take(pool);
    if (found->device.current_pool() == found) found->device.set_current_pool(nullptr);
    // Live blocks keep the pool alive; nothing stays in it any more.
    found->set(hipMemPoolAttrReleaseThreshold, 0);
    found->trim(0);
  });
}

MGX_EXPORT hipError_t hipMemPoolTrimTo(hipMemPool_t pool, size_t keep) {
  MGX_API(kPlain, { find_pool(pool)->trim(keep); });
}

MGX_EXPORT hipError_t hipMemPoolSetAttribute(hipMemPool_t pool, hipMemPoolAttr attribute,
                                             void* value) {
  MGX_API(kPlain, {
    auto found = find_pool(pool);
    require(value != nullptr, hipErrorInvalidValue);
    found->set(attribute, is_flag(attribute) ? uint64_t(*static_cast<int*>(value))
                                             : *static_cast<uint64_t*>(value));
  });
}

MGX_EXPORT hipError_t hipMemPoolGetAttribute(hipMemPool_t pool, hipMemPoolAttr attribute,
                                             void* value) {
  MGX_API(kPlain, {
    auto found = find_pool(pool);
    require(value != nullptr, hipErrorInvalidValue);
    uint64_t now = found->get(attribute);
    if (is_flag(attribute)) *static_cast<int*>(value) = int(now);
    else *static_cast<uint64_t*>(value) = now;
  });
}

MGX_EXPORT hipError_t hipMemPoolSetAccess(hipMemPool_t pool, const hipMemAccessDesc* list,
                                          size_t count) {
  MGX_API(kPlain, {
    auto found = find_pool(pool);
    require(list != nullptr || count == 0, hipErrorInvalidValue);
    for (size_t i = 0; i < count; ++i) {
      require(list[i].location.type == hipMemLocationTypeDevice, hipErrorInvalidValue);
      Device& device = runtime().device(list[i].location.id);
      bool own = &device == &found->device;
      require(!own || list[i].flags == hipMemAccessFlagsProtReadWrite, hipErrorInvalidValue);
      require(own || list[i].flags == hipMemAccessFlagsProtNone, hipErrorNotSupported);
    }
  });
}

MGX_EXPORT hipError_t hipMemPoolGetAccess(hipMemAccessFlags* flags, hipMemPool_t pool,
                                          hipMemLocation* location) {
  MGX_API(kPlain, {
    auto found = find_pool(pool);
    require(flags && location && location->type == hipMemLocationTypeDevice, hipErrorInvalidValue);
    Device& device = runtime().device(location->id);
    *flags = &device == &found->device ? hipMemAccessFlagsProtReadWrite : hipMemAccessFlagsProtNone;
  });
}
