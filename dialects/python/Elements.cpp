//===- Elements.cpp - the bytes of dense elements -------------------------===//
//
// Upstream's DenseElementsAttr exchanges arrays of the formats that Python's buffer
// protocol has: not bf16, fp8, fp4 and integers of less than 8 bits.
//
//===----------------------------------------------------------------------===//
#include "Extension.h"
#include "mlir/Bindings/Python/IRCore.h"
#include "mlir/Bindings/Python/NanobindAdaptors.h"
#include "mlir/CAPI/IR.h"
#include "mlir/IR/BuiltinAttributes.h"
#include "mlir/IR/BuiltinTypes.h"

namespace nb = nanobind;
using namespace mlir;

static DenseElementsAttr cast(MlirAttribute attribute) {
  auto elements = llvm::dyn_cast<DenseElementsAttr>(unwrap(attribute));
  if (!elements)
    throw nb::value_error("dense elements wanted");
  return elements;
}

// One byte for a bool: MLIR packs them, numpy does not.
static MlirAttribute fromBytes(MlirType type, nb::bytes bytes) {
  auto tensor = llvm::dyn_cast<RankedTensorType>(unwrap(type));
  if (!tensor || !tensor.hasStaticShape())
    throw nb::value_error("a ranked tensor type with a static shape wanted");
  ArrayRef<char> data(bytes.c_str(), bytes.size());
  size_t count = tensor.getNumElements();
  size_t width = llvm::divideCeil(tensor.getElementTypeBitWidth(), 8);
  if (data.size() != count * width && data.size() != width)
    throw nb::value_error(("the tensor takes " + std::to_string(count * width) +
                           " bytes (a splat " + std::to_string(width) + "), got " +
                           std::to_string(data.size()))
                              .c_str());
  if (!tensor.getElementType().isInteger(1))
    return wrap(DenseElementsAttr::getFromRawBuffer(tensor, data));
  SmallVector<bool> bools(data.begin(), data.end());
  return wrap(DenseElementsAttr::get(tensor, ArrayRef<bool>(bools)));
}

static nb::bytes toBytes(MlirAttribute attribute) {
  DenseElementsAttr elements = cast(attribute);
  if (!elements.getElementType().isInteger(1)) {
    ArrayRef<char> data = elements.getRawData();
    return nb::bytes(data.data(), data.size());
  }
  std::string bools;
  if (elements.isSplat())
    bools.push_back(elements.getSplatValue<bool>());
  else
    bools.assign(elements.value_begin<bool>(), elements.value_end<bool>());
  return nb::bytes(bools.data(), bools.size());
}

void mgx::python::bindElements(nb::module_ &m) {
  m.def("dense_elements", &fromBytes, nb::arg("type"), nb::arg("data"),
        "Dense elements from their bytes, row-major; the bytes of one make a splat.");
  m.def("dense_bytes", &toBytes, nb::arg("elements"),
        "The bytes of dense elements, row-major; those of one for a splat.");
}
