//===- FoldViews.cpp - views that do nothing, views of views --------------===//
#include "Elements.h"
#include "mlir/Dialect/Utils/IndexingUtils.h"

using namespace mlir;
using namespace mgx;

//===----------------------------------------------------------------------===//
// The reshape family
//===----------------------------------------------------------------------===//

static bool isReshape(Operation *op) {
  return isa_and_present<ReshapeOp, SqueezeOp, UnsqueezeOp, FlattenOp>(op);
}

static OpFoldResult foldReshape(Operation *op, Attribute constant) {
  Type type = op->getResult(0).getType();
  Value x = op->getOperand(0);
  if (x.getType() == type && cast<RankedTensorType>(type).hasStaticShape())
    return x;
  // The elements keep their order: back in the first shape, nothing has changed.
  Operation *producer = x.getDefiningOp();
  bool isStatic = cast<RankedTensorType>(type).hasStaticShape();
  if (isStatic && isReshape(producer) && producer->getOperand(0).getType() == type)
    return producer->getOperand(0);
  auto elements = dyn_cast_or_null<DenseElementsAttr>(constant);
  bool small = elements && (elements.isSplat() || elements.getNumElements() <= kMostFoldedElements);
  auto tensor = cast<RankedTensorType>(type);
  if (!small || !isStatic || tensor.getEncoding())
    return {};
  return elements.reshape(tensor);
}

OpFoldResult ReshapeOp::fold(FoldAdaptor adaptor) {
  if (OpFoldResult folded = foldReshape(*this, adaptor.getX()))
    return folded;
  Operation *producer = getX().getDefiningOp();
  if (!isReshape(producer))
    return {};
  getXMutable().assign(producer->getOperand(0));
  return getY();
}

OpFoldResult FlattenOp::fold(FoldAdaptor adaptor) { return foldReshape(*this, adaptor.getX()); }

OpFoldResult SqueezeOp::fold(FoldAdaptor adaptor) {
  if (getAxes().empty() && getX().getType() == getY().getType())
    return getX();
  return foldReshape(*this, adaptor.getX());
}

OpFoldResult UnsqueezeOp::fold(FoldAdaptor adaptor) {
  if (getAxes().empty() && getX().getType() == getY().getType())
    return getX();
  return foldReshape(*this, adaptor.getX());
}

//===----------------------------------------------------------------------===//
// Broadcasts
//===----------------------------------------------------------------------===//

// A splat stays one in any shape. Other constants stay as they are: a broadcast costs
// nothing, and its elements would be stored.
static OpFoldResult foldSplat(Type type, Attribute constant) {
  auto elements = dyn_cast_or_null<DenseElementsAttr>(constant);
  auto tensor = cast<RankedTensorType>(type);
  if (!elements || !elements.isSplat() || !tensor.hasStaticShape() || tensor.getEncoding())
    return {};
  return DenseElementsAttr::get(tensor, elements.getSplatValue<Attribute>());
}

// Whether a type says all of a shape: equal types are then equal shapes.
static bool saysAll(Type type) {
  return llvm::all_of(dimsOf(type), [](const Dim &dim) { return areKnownEqual(dim, dim); });
}

OpFoldResult MultibroadcastOp::fold(FoldAdaptor adaptor) {
  if (getX().getType() == getY().getType() && saysAll(getY().getType()))
    return getX();
  if (OpFoldResult splat = foldSplat(getY().getType(), adaptor.getX()))
    return splat;
  auto inner = getX().getDefiningOp<MultibroadcastOp>();
  if (!inner)
    return {};
  getXMutable().assign(inner.getX());
  return getY();
}

OpFoldResult BroadcastOp::fold(FoldAdaptor adaptor) {
  if (getX().getType() == getY().getType() && saysAll(getY().getType()))
    return getX();
  return foldSplat(getY().getType(), adaptor.getX());
}

//===----------------------------------------------------------------------===//
// Order
//===----------------------------------------------------------------------===//

// The element at an index of x, counted in row-major order.
static int64_t linear(ArrayRef<int64_t> index, RankedTensorType x) {
  int64_t position = 0;
  for (auto [i, size] : llvm::zip_equal(index, x.getShape()))
    position = position * size + i;
  return position;
}

OpFoldResult IdentityOp::fold(FoldAdaptor) { return getX(); }

OpFoldResult TransposeOp::fold(FoldAdaptor adaptor) {
  bool isIdentity = isIdentityPermutation(getPermutation());
  if (isIdentity && getX().getType() == getY().getType())
    return getX();
  if (auto inner = getX().getDefiningOp<TransposeOp>()) {
    SmallVector<int64_t> composed;
    for (int64_t source : getPermutation())
      composed.push_back(inner.getPermutation()[source]);
    setPermutation(composed);
    getXMutable().assign(inner.getX());
    return getY();
  }
  RankedTensorType x = getX().getType();
  SmallVector<int64_t> from(x.getRank());
  return pickElements(getY().getType(), adaptor.getX(), [&](ArrayRef<int64_t> index) {
    for (auto [i, source] : llvm::enumerate(getPermutation()))
      from[source] = index[i];
    return linear(from, x);
  });
}

OpFoldResult ReverseOp::fold(FoldAdaptor adaptor) {
  RankedTensorType x = getX().getType();
  bool same = x == getY().getType();
  if (same && llvm::all_of(getAxes(), [&](int64_t axis) { return x.getDimSize(axis) == 1; }))
    return getX();
  auto inner = getX().getDefiningOp<ReverseOp>();
  if (inner && inner.getAxes() == getAxes() && inner.getX().getType() == getY().getType())
    return inner.getX();
  return pickElements(getY().getType(), adaptor.getX(), [&](ArrayRef<int64_t> index) {
    SmallVector<int64_t> from(index);
    for (int64_t axis : getAxes())
      from[axis] = x.getDimSize(axis) - 1 - index[axis];
    return linear(from, x);
  });
}

//===----------------------------------------------------------------------===//
// Parts
//===----------------------------------------------------------------------===//

// Whether the slice keeps all of a dimension.
static bool keepsAll(int64_t size, int64_t start, int64_t end) {
  bool toTheEnd = end == std::numeric_limits<int64_t>::max();
  return start == 0 && (ShapedType::isDynamic(size) ? toTheEnd : end == size);
}

OpFoldResult SliceOp::fold(FoldAdaptor adaptor) {
  RankedTensorType x = getX().getType();
  bool all = llvm::all_of(llvm::zip_equal(getAxes(), getStarts(), getEnds()), [&](auto part) {
    auto [axis, start, end] = part;
    return keepsAll(x.getDimSize(axis), start, end);
  });
  if (all && x == getY().getType())
    return getX();
  return pickElements(getY().getType(), adaptor.getX(), [&](ArrayRef<int64_t> index) {
    SmallVector<int64_t> from(index);
    for (auto [axis, start] : llvm::zip_equal(getAxes(), getStarts()))
      from[axis] += start;
    return linear(from, x);
  });
}

OpFoldResult StepOp::fold(FoldAdaptor adaptor) {
  RankedTensorType x = getX().getType();
  bool all = llvm::all_of(getSteps(), [](int64_t step) { return step == 1; });
  if (all && x == getY().getType())
    return getX();
  return pickElements(getY().getType(), adaptor.getX(), [&](ArrayRef<int64_t> index) {
    SmallVector<int64_t> from(index);
    for (auto [axis, step] : llvm::zip_equal(getAxes(), getSteps()))
      from[axis] *= step;
    return linear(from, x);
  });
}
