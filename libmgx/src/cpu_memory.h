//===- cpu_memory.h - memory of the process for tensors
//-------------------------------------------------===//
#pragma once

#include <cstdint>
#include <new>

namespace mgx {

// Bytes aligned to 256. The library of C++ rounds numbers near 2^64 up to few bytes.
inline void *aligned_memory(uint64_t bytes) {
  if (bytes > PTRDIFF_MAX)
    throw std::bad_alloc();
  return ::operator new(bytes, std::align_val_t(256));
}
inline void free_aligned(void *data) { ::operator delete(data, std::align_val_t(256)); }

} // namespace mgx
