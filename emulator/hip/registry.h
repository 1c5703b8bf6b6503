// Opaque handles: numbers that are never reused and are no address.
//
// A freed or wild handle is looked up and not found, it is never followed. The top byte makes
// the value non-canonical on x86-64, so a handle cannot be taken for a host address either.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <unordered_map>
#include <vector>

namespace mgx::hip {

template <class T>
class Registry {
 public:
  explicit Registry(uint8_t kind) : next_((uint64_t(0x5a) << 56) | (uint64_t(kind) << 48)) {}

  // Returns the handle of a new entry.
  void* add(std::shared_ptr<T> object) {
    std::lock_guard lock(mutex_);
    next_ += 16;
    objects_.emplace(next_, std::move(object));
    return reinterpret_cast<void*>(next_);
  }

  std::shared_ptr<T> find(const void* handle) const {
    std::lock_guard lock(mutex_);
    auto it = objects_.find(reinterpret_cast<uint64_t>(handle));
    return it == objects_.end() ? nullptr : it->second;
  }

  // Removes the entry and hands it over; null if there is none.
  std::shared_ptr<T> take(const void* handle) {
    std::lock_guard lock(mutex_);
    auto it = objects_.find(reinterpret_cast<uint64_t>(handle));
    if (it == objects_.end()) return nullptr;
    std::shared_ptr<T> object = std::move(it->second);
    objects_.erase(it);
    return object;
  }

  std::vector<std::shared_ptr<T>> all() const {
    std::lock_guard lock(mutex_);
    std::vector<std::shared_ptr<T>> found;
    found.reserve(objects_.size());
    for (const auto& [handle, object] : objects_) found.push_back(object);
    return found;
  }

 private:
  mutable std::mutex mutex_;
  uint64_t next_;
  std::unordered_map<uint64_t, std::shared_ptr<T>> objects_;
};

}  // namespace mgx::hip
