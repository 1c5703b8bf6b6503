//===- elements.h - the element types of tensors ----------------------------------===//
#pragma once

#include "mgx.h"

#include <cstdint>
#include <string_view>

namespace mgx {

// The table of mgx_mlir/elements.py: the name in numpy or ml_dtypes, the number in ONNX, and the
// bytes of an element in memory.
struct Element {
  std::string_view name;
  mgx_type type;
  int64_t bytes;
};

// nullptr for a name that is none.
const Element *element_of(std::string_view name);
const Element *element_of(uint32_t type);

} // namespace mgx
