//===- weights.h - the weights of a program, where their bytes lie -------------------===//
#pragma once

#include "elements.h"
#include "mapping.h"

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace mgx {

// Memory of the process for `count` bytes, aligned to 64.
struct FreeMemory {
  void operator()(char *data) const;
};
using HostMemory = std::unique_ptr<char[], FreeMemory>;
HostMemory allocate(size_t count);
// One block for all counts: large pages fit where the parts alone are small.
std::vector<std::shared_ptr<char[]>> allocate(const std::vector<size_t> &counts);

// A weight's elements in row-major order, ready to be read.
struct WeightBytes {
  const char *data = nullptr;
  size_t bytes = 0;
  HostMemory own;                    // Where they had to be copied,
  std::shared_ptr<const Bytes> file; // or the file that they are mapped from.
  bool mapped = false;               // Whether the system may take their pages back.
};

struct Weight {
  std::string key;
  const Element *element = nullptr;
  std::vector<int64_t> shape;
  std::string sha256;   // The hash of its bytes in row-major order.
  bool checked = false; // Whether the caller vouches for the bytes; the hash may be empty then.
  int64_t bytes = 0;
  // Its bytes in the artifact; for a splat those of the one element that it repeats.
  std::string_view data;
  bool splat = false;
  bool mapped = false; // Whether `data` lies in a mapped file.
  // Or a file, where it begins in there, and the order of its dimensions.
  std::string file;
  int64_t offset = 0;
  std::vector<int64_t> order;

  // The elements, whose hash is checked. An error of the artifact where they have changed.
  WeightBytes load() const;
};

} // namespace mgx
