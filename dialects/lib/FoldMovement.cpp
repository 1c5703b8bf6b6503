//===- FoldMovement.cpp - concat, pad, reductions, sizes ------------------===//
#include "Elements.h"

using namespace mlir;
using namespace mgx;

// The tensors one after another, from their elements.
static Attribute concatConstants(RankedTensorType type, int64_t axis,
                                 ArrayRef<Attribute> constants) {
  if (!type.hasStaticShape() || type.getEncoding() || type.getNumElements() > kMostFoldedElements)
    return {};
  int64_t outer = 1;
  for (int64_t size : type.getShape().take_front(axis))
    outer *= size;
  SmallVector<Attribute> elements;
  for (int64_t row = 0; row < outer; ++row)
    for (Attribute constant : constants) {
      auto dense = dyn_cast_or_null<DenseElementsAttr>(constant);
      if (!dense)
        return {};
      int64_t chunk = dense.getNumElements() / outer;
      auto begin = dense.value_begin<Attribute>() + row * chunk;
      elements.append(begin, begin + chunk);
    }
  return DenseElementsAttr::get(type, elements);
}

OpFoldResult ConcatOp::fold(FoldAdaptor adaptor) {
  RankedTensorType type = getY().getType();
  if (getXs().size() == 1 && getXs().front().getType() == type)
    return getXs().front();
  SmallVector<Value> kept;
  for (Value x : getXs())
    if (cast<RankedTensorType>(x.getType()).getDimSize(getAxis()) != 0)
      kept.push_back(x);
  if (!kept.empty() && kept.size() < getXs().size()) {
    getXsMutable().assign(kept);
    return getY();
  }
  return concatConstants(type, getAxis(), adaptor.getXs());
}

OpFoldResult PadOp::fold(FoldAdaptor) {
  auto isZero = [](int64_t amount) { return amount == 0; };
  bool nothing = llvm::all_of(getLow(), isZero) && llvm::all_of(getHigh(), isZero);
  return nothing && getX().getType() == getY().getType() ? getX() : OpFoldResult();
}

OpFoldResult DimensionsOfOp::fold(FoldAdaptor) {
  SmallVector<int64_t> sizes;
  for (int64_t size : getX().getType().getShape().slice(getStart(), getEnd() - getStart())) {
    if (ShapedType::isDynamic(size))
      return {};
    sizes.push_back(size);
  }
  if (!getDims().getType().hasStaticShape())
    return {};
  return DenseElementsAttr::get(getDims().getType(), ArrayRef<int64_t>(sizes));
}

OpFoldResult mgx::foldReduction(Operation *op, Attribute constant, ArrayRef<int64_t> axes) {
  Value x = op->getOperand(0);
  auto type = cast<RankedTensorType>(x.getType());
  auto result = cast<RankedTensorType>(op->getResult(0).getType());
  if (type == result &&
      llvm::all_of(axes, [&](int64_t axis) { return type.getDimSize(axis) == 1; }))
    return x;
  // These reduce equal elements to that element, however many there are.
  bool keepsEqual = isa<ReduceMeanOp, ReduceMaxOp, ReduceMinOp, ReduceAnyOp, ReduceAllOp>(op);
  auto elements = dyn_cast_or_null<DenseElementsAttr>(constant);
  bool isStatic = result.hasStaticShape() && !result.getEncoding();
  if (!keepsEqual || !isStatic || !elements || !elements.isSplat() || elements.empty())
    return {};
  return DenseElementsAttr::get(result, elements.getSplatValue<Attribute>());
}
