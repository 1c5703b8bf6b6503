// Copies and fills as values: building, checking, doing.
#include <algorithm>
#include <cstring>

#include "memory.h"

namespace mgx::hip {
namespace {

// Bytes from the first to behind the last that a strided block touches; false on overflow.
bool span(size_t width, size_t height, size_t depth, size_t pitch, size_t slice, size_t& bytes) {
  size_t rows = 0, slices = 0;
  return !__builtin_mul_overflow(height - 1, pitch, &rows) &&
         !__builtin_mul_overflow(depth - 1, slice, &slices) &&
         !__builtin_add_overflow(width, rows, &bytes) &&
         !__builtin_add_overflow(bytes, slices, &bytes);
}

enum class Side { any, host, device };

void check_side(const void* address, size_t bytes, Side side) {
  require(address != nullptr, hipErrorInvalidValue);
  auto allocation = find_allocation(address);
  if (!allocation) {
    // Device addresses without an allocation are freed or out of bounds.
    require(side != Side::device && !is_device_address(address), hipErrorInvalidValue);
    return;
  }
  require(allocation->contains(uint64_t(address), bytes), hipErrorInvalidValue);
  require(side != Side::host || allocation->host_visible(), hipErrorInvalidValue);
}

void sides_of(hipMemcpyKind kind, Side& dst, Side& src) {
  switch (kind) {
    case hipMemcpyHostToHost: dst = Side::host, src = Side::host; return;
    case hipMemcpyHostToDevice: dst = Side::device, src = Side::host; return;
    case hipMemcpyDeviceToHost: dst = Side::host, src = Side::device; return;
    case hipMemcpyDeviceToDevice:
    case hipMemcpyDeviceToDeviceNoCU: dst = Side::device, src = Side::device; return;
    case hipMemcpyDefault: dst = src = Side::any; return;
    default: fail(hipErrorInvalidMemcpyDirection);
  }
}

}  // namespace

void check_copy(const CopyWork& copy) {
  Side dst = Side::any, src = Side::any;
  sides_of(copy.kind, dst, src);
  if (copy.width == 0 || copy.height == 0 || copy.depth == 0) return;
  require(copy.height == 1 || (copy.dst_pitch >= copy.width && copy.src_pitch >= copy.width),
          hipErrorInvalidPitchValue);
  size_t dst_bytes = 0, src_bytes = 0;
  require(span(copy.width, copy.height, copy.depth, copy.dst_pitch, copy.dst_slice, dst_bytes) &&
              span(copy.width, copy.height, copy.depth, copy.src_pitch, copy.src_slice, src_bytes),
          hipErrorInvalidValue);
  check_side(copy.dst, dst_bytes, dst);
  if (copy.staged.empty()) check_side(copy.src, src_bytes, src);
}

void do_copy(const CopyWork& copy) {
  const uint8_t* src = copy.staged.empty() ? copy.src : copy.staged.data();
  if (copy.height == 1 && copy.depth == 1) {
    if (copy.width) std::memmove(copy.dst, src, copy.width);
    return;
  }
  for (size_t z = 0; z < copy.depth; ++z)
    for (size_t y = 0; y < copy.height; ++y)
      std::memmove(copy.dst + z * copy.dst_slice + y * copy.dst_pitch,
                   src + z * copy.src_slice + y * copy.src_pitch, copy.width);
}

void check_fill(const FillWork& fill) {
  require(fill.element == 1 || fill.element == 2 || fill.element == 4, hipErrorInvalidValue);
  if (fill.width == 0 || fill.height == 0 || fill.depth == 0) return;
  size_t row = 0, bytes = 0;
  require(!__builtin_mul_overflow(fill.width, size_t(fill.element), &row), hipErrorInvalidValue);
  require(fill.height == 1 || fill.pitch >= row, hipErrorInvalidPitchValue);
  require(span(row, fill.height, fill.depth, fill.pitch, fill.slice, bytes), hipErrorInvalidValue);
  require(uint64_t(fill.dst) % fill.element == 0, hipErrorInvalidValue);
  check_side(fill.dst, bytes, Side::device);
}

void do_fill(const FillWork& fill) {
  for (size_t z = 0; z < fill.depth; ++z)
    for (size_t y = 0; y < fill.height; ++y) {
      uint8_t* row = fill.dst + z * fill.slice + y * fill.pitch;
      if (fill.element == 1) {
        std::memset(row, int(fill.value), fill.width);
      } else if (fill.element == 2) {
        auto* values = reinterpret_cast<uint16_t*>(row);
        std::fill(values, values + fill.width, uint16_t(fill.value));
      } else {
        auto* values = reinterpret_cast<uint32_t*>(row);
        std::fill(values, values + fill.width, uint32_t(fill.value));
      }
    }
}

CopyWork linear_copy(void* dst, const void* src, size_t bytes, hipMemcpyKind kind) {
  CopyWork copy;
  copy.dst = static_cast<uint8_t*>(dst);
  copy.src = static_cast<const uint8_t*>(src);
  copy.width = bytes;
  copy.dst_pitch = copy.src_pitch = copy.dst_slice = copy.src_slice = bytes;
  copy.kind = kind;
  return copy;
}

CopyWork copy_3d(const hipMemcpy3DParms& params) {
  require(!params.srcArray && !params.dstArray, hipErrorNotSupported);
  auto place = [](const hipPitchedPtr& base, const hipPos& at, size_t& pitch, size_t& slice) {
    pitch = base.pitch;
    require(!__builtin_mul_overflow(base.pitch, base.ysize, &slice), hipErrorInvalidValue);
    return static_cast<uint8_t*>(base.ptr) + at.z * slice + at.y * pitch + at.x;
  };
  CopyWork copy;
  copy.dst = place(params.dstPtr, params.dstPos, copy.dst_pitch, copy.dst_slice);
  copy.src = place(params.srcPtr, params.srcPos, copy.src_pitch, copy.src_slice);
  copy.width = params.extent.width;
  copy.height = params.extent.height;
  copy.depth = params.extent.depth;
  copy.kind = params.kind;
  require(copy.depth <= 1 || (copy.dst_slice && copy.src_slice), hipErrorInvalidValue);
  return copy;
}

FillWork linear_fill(void* dst, unsigned value, unsigned element, size_t count) {
  FillWork fill;
  fill.dst = static_cast<uint8_t*>(dst);
  fill.value = value;
  fill.element = element;
  fill.width = count;
  return fill;
}

FillWork fill_2d(const hipMemsetParams& params) {
  FillWork fill = linear_fill(params.dst, params.value, params.elementSize, params.width);
  fill.height = params.height;
  fill.pitch = params.pitch;
  return fill;
}

}  // namespace mgx::hip
