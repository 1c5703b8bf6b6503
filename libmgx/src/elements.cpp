//===- elements.cpp - the element types of tensors --------------------------------===//
#include "elements.h"

namespace mgx {

namespace {
constexpr Element elements[] = {
    {"bool", MGX_BOOL, 1},
    {"float16", MGX_FLOAT16, 2},
    {"float32", MGX_FLOAT32, 4},
    {"float64", MGX_FLOAT64, 8},
    {"uint8", MGX_UINT8, 1},
    {"int8", MGX_INT8, 1},
    {"uint16", MGX_UINT16, 2},
    {"int16", MGX_INT16, 2},
    {"int32", MGX_INT32, 4},
    {"int64", MGX_INT64, 8},
    {"uint32", MGX_UINT32, 4},
    {"uint64", MGX_UINT64, 8},
    {"float8_e4m3fnuz", MGX_FLOAT8E4M3FNUZ, 1},
    {"float8_e4m3fn", MGX_FLOAT8E4M3FN, 1},
    {"float8_e5m2", MGX_FLOAT8E5M2, 1},
    {"bfloat16", MGX_BFLOAT16, 2},
    {"float8_e5m2fnuz", MGX_FLOAT8E5M2FNUZ, 1},
    {"float4_e2m1fn", MGX_FLOAT4E2M1, 1},
    {"float8_e8m0fnu", MGX_FLOAT8E8M0, 1},
    {"uint4", MGX_UINT4, 1},
    {"int4", MGX_INT4, 1},
    {"uint2", MGX_UINT2, 1},
    {"int2", MGX_INT2, 1},
};
} // namespace

const Element *element_of(std::string_view name) {
  for (const Element &element : elements)
    if (element.name == name)
      return &element;
  return nullptr;
}

const Element *element_of(uint32_t type) {
  for (const Element &element : elements)
    if (element.type == type)
      return &element;
  return nullptr;
}

} // namespace mgx
