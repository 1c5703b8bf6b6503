//===- InferViews.cpp - types of the ops that move no data ----------------===//
#include "mgx/IR/Mgx.h"
#include "mlir/Dialect/Utils/IndexingUtils.h"

using namespace mlir;
using namespace mgx;

//===----------------------------------------------------------------------===//
// Views whose result shape is stated
//===----------------------------------------------------------------------===//

static LogicalResult verifySameElement(Operation *op, Type x, Type y) {
  if (elementOf(x) == elementOf(y))
    return success();
  return op->emitOpError("the result must have the element type of x, ")
         << elementOf(x) << ", got " << elementOf(y);
}

LogicalResult ReshapeOp::verify() {
  RankedTensorType x = getX().getType(), y = getY().getType();
  if (failed(verifySameElement(*this, x, y)))
    return failure();
  if (!x.hasStaticShape() || !y.hasStaticShape() || x.getNumElements() == y.getNumElements())
    return success();
  return emitOpError("must keep the number of elements, got ")
         << x << " (" << x.getNumElements() << ") and " << y << " (" << y.getNumElements() << ")";
}

LogicalResult MultibroadcastOp::verify() {
  RankedTensorType x = getX().getType(), y = getY().getType();
  if (failed(verifySameElement(*this, x, y)))
    return failure();
  if (x.getRank() > y.getRank())
    return emitOpError("the result must have at least the rank of x, ")
           << x.getRank() << ", got " << y.getRank();
  Dims from = dimsOf(x), to = dimsOf(y);
  size_t leading = to.size() - from.size();
  for (auto [i, dim] : llvm::enumerate(from))
    if (!dim.isStatic(1) && failed(unify(dim, to[leading + i])))
      return emitOpError("dimension ") << i << " of x must have size 1 or that of the result, "
                                       << to[leading + i].str() << ", got " << dim.str();
  return success();
}

LogicalResult BroadcastOp::verify() {
  RankedTensorType x = getX().getType(), y = getY().getType();
  if (failed(verifySameElement(*this, x, y)))
    return failure();
  Dims from = dimsOf(x), to = dimsOf(y);
  int64_t axis = getAxis(), last = y.getRank() - x.getRank();
  if (axis < 0 || axis > last)
    return emitOpError("axis must be in [0, ") << last << "] to place " << x.getRank() << " of "
                                               << y.getRank() << " dimensions, got " << axis;
  for (auto [i, dim] : llvm::enumerate(from))
    if (failed(unify(dim, to[axis + i])))
      return emitOpError("dimension ")
             << i << " of x must have the size of dimension " << axis + i << " of the result, "
             << to[axis + i].str() << ", got " << dim.str();
  return success();
}

//===----------------------------------------------------------------------===//
// Views whose result shape follows from their attributes
//===----------------------------------------------------------------------===//

LogicalResult TransposeOp::inferReturnTypes(MLIRContext *, OptionalLocation location,
                                            Adaptor adaptor, InferredTypes &inferred) {
  Type x = adaptor.getX().getType();
  Dims from = dimsOf(x), to;
  if (failed(checkPermutation(location, getOperationName(), adaptor.getPermutation(), from.size())))
    return failure();
  for (int64_t source : adaptor.getPermutation())
    to.push_back(from[source]);
  inferred.push_back(tensorOf(to, elementOf(x)));
  return success();
}

LogicalResult SqueezeOp::inferReturnTypes(MLIRContext *, OptionalLocation location, Adaptor adaptor,
                                          InferredTypes &inferred) {
  StringRef op = getOperationName();
  Type x = adaptor.getX().getType();
  Dims from = dimsOf(x), to;
  if (failed(checkAxes(location, op, adaptor.getAxes(), from.size())))
    return failure();
  for (auto [i, dim] : llvm::enumerate(from)) {
    if (!llvm::is_contained(adaptor.getAxes(), static_cast<int64_t>(i))) {
      to.push_back(dim);
      continue;
    }
    if (failed(unify(dim, Dim::of(1))))
      return inferenceError(location, op, "dimension ", i, " must have size 1, got ", dim.str());
  }
  inferred.push_back(tensorOf(to, elementOf(x)));
  return success();
}

LogicalResult UnsqueezeOp::inferReturnTypes(MLIRContext *, OptionalLocation location,
                                            Adaptor adaptor, InferredTypes &inferred) {
  Type x = adaptor.getX().getType();
  Dims from = dimsOf(x), to;
  size_t rank = from.size() + adaptor.getAxes().size();
  if (failed(checkAxes(location, getOperationName(), adaptor.getAxes(), rank)))
    return failure();
  auto next = from.begin();
  for (size_t i = 0; i < rank; ++i)
    to.push_back(llvm::is_contained(adaptor.getAxes(), static_cast<int64_t>(i)) ? Dim::of(1)
                                                                                : *next++);
  inferred.push_back(tensorOf(to, elementOf(x)));
  return success();
}

LogicalResult ReverseOp::inferReturnTypes(MLIRContext *, OptionalLocation location, Adaptor adaptor,
                                          InferredTypes &inferred) {
  Type x = adaptor.getX().getType();
  if (failed(checkAxes(location, getOperationName(), adaptor.getAxes(),
                       cast<RankedTensorType>(x).getRank())))
    return failure();
  inferred.push_back(x);
  return success();
}

// The product of dimensions; one dynamic dimension among ones keeps its name.
static Dim product(ArrayRef<Dim> dims) {
  Dim result = Dim::of(1);
  for (const Dim &dim : dims) {
    if (dim.isStatic(0))
      return dim;
    if (dim.isStatic(1))
      continue;
    if (result.isStatic(1))
      result = dim;
    else if (dim.isDynamic() || result.isDynamic())
      result = Dim::dynamic();
    else
      result.size *= dim.size;
  }
  return result;
}

LogicalResult FlattenOp::inferReturnTypes(MLIRContext *, OptionalLocation location, Adaptor adaptor,
                                          InferredTypes &inferred) {
  Type x = adaptor.getX().getType();
  Dims dims = dimsOf(x);
  int64_t axis = adaptor.getAxis(), rank = dims.size();
  if (axis < 0 || axis > rank)
    return inferenceError(location, getOperationName(), "axis must be in [0, ", rank, "], got ",
                          axis);
  ArrayRef<Dim> all = dims;
  inferred.push_back(
      tensorOf({product(all.take_front(axis)), product(all.drop_front(axis))}, elementOf(x)));
  return success();
}

// The range of one dimension that a slice keeps.
static LogicalResult sliceDim(OptionalLocation location, StringRef op, int64_t axis, Dim &dim,
                              int64_t start, int64_t end) {
  bool toTheEnd = end == std::numeric_limits<int64_t>::max();
  if (toTheEnd && !dim.isDynamic()) {
    if (start < 0 || start > dim.size)
      return inferenceError(location, op, "starts must be within dimension ", axis, " of size ",
                            dim.size, ", got ", start);
    dim = Dim::dynamic();
    return success();
  }
  if (dim.isDynamic() && toTheEnd) {
    if (start < 0)
      return inferenceError(location, op, "starts must not be negative, got ", start);
    if (start != 0)
      dim = Dim::dynamic();
    return success();
  }
  bool inside = start >= 0 && start <= end && (dim.isDynamic() || end <= dim.size);
  if (!inside)
    return inferenceError(location, op, "needs 0 <= start <= end <= ", dim.str(),
                          ", the size of dimension ", axis, "; got start ", start, " and end ",
                          end);
  dim = Dim::of(end - start);
  return success();
}

LogicalResult SliceOp::inferReturnTypes(MLIRContext *, OptionalLocation location, Adaptor adaptor,
                                        InferredTypes &inferred) {
  StringRef op = getOperationName();
  Type x = adaptor.getX().getType();
  Dims dims = dimsOf(x);
  ArrayRef<int64_t> axes = adaptor.getAxes();
  if (failed(checkAxes(location, op, axes, dims.size())) ||
      failed(checkLength(location, op, "starts", adaptor.getStarts().size(), axes.size())) ||
      failed(checkLength(location, op, "ends", adaptor.getEnds().size(), axes.size())))
    return failure();
  for (auto [axis, start, end] : llvm::zip_equal(axes, adaptor.getStarts(), adaptor.getEnds()))
    if (failed(sliceDim(location, op, axis, dims[axis], start, end)))
      return failure();
  inferred.push_back(tensorOf(dims, elementOf(x)));
  return success();
}

LogicalResult StepOp::inferReturnTypes(MLIRContext *, OptionalLocation location, Adaptor adaptor,
                                       InferredTypes &inferred) {
  StringRef op = getOperationName();
  Type x = adaptor.getX().getType();
  Dims dims = dimsOf(x);
  ArrayRef<int64_t> axes = adaptor.getAxes();
  if (failed(checkAxes(location, op, axes, dims.size())) ||
      failed(checkLength(location, op, "steps", adaptor.getSteps().size(), axes.size())))
    return failure();
  for (auto [axis, step] : llvm::zip_equal(axes, adaptor.getSteps())) {
    if (step < 1)
      return inferenceError(location, op, "steps must be at least 1, got ", step);
    if (step == 1)
      continue;
    dims[axis] =
        dims[axis].isDynamic() ? Dim::dynamic() : Dim::of(llvm::divideCeil(dims[axis].size, step));
  }
  inferred.push_back(tensorOf(dims, elementOf(x)));
  return success();
}

//===----------------------------------------------------------------------===//
// Layout and shapes at run time
//===----------------------------------------------------------------------===//

LogicalResult UnpackOp::verify() {
  RankedTensorType x = getX().getType(), y = getY().getType();
  unsigned bits = y.getElementType().getIntOrFloatBitWidth();
  if (!x.getElementType().isUnsignedInteger(8) || (bits != 2 && bits != 4))
    return emitOpError("takes ui8 apart into elements of 2 or 4 bits, got ")
           << x.getElementType() << " and " << y.getElementType();
  if (x.getRank() != y.getRank() || x.getRank() == 0)
    return emitOpError("the result must have the rank of x, at least 1; got ")
           << x.getRank() << " and " << y.getRank();
  for (auto [i, from, to] : llvm::enumerate(x.getShape(), y.getShape())) {
    int64_t wanted = from;
    if (int64_t(i) + 1 == x.getRank() && from != ShapedType::kDynamic)
      wanted = from * (8 / bits);
    if (to != wanted)
      return emitOpError("dimension ")
             << i << " of the result must have the size " << wanted << ", got " << to;
  }
  return success();
}

LogicalResult LayoutOp::verify() {
  return checkPermutation(getLoc(), getOperationName(), getPermutation(),
                          getX().getType().getRank());
}

LogicalResult DimensionsOfOp::inferReturnTypes(MLIRContext *context, OptionalLocation location,
                                               Adaptor adaptor, InferredTypes &inferred) {
  int64_t rank = cast<RankedTensorType>(adaptor.getX().getType()).getRank();
  int64_t start = adaptor.getStart(), end = adaptor.getEnd();
  if (start < 0 || start > end || end > rank)
    return inferenceError(location, getOperationName(), "needs 0 <= start <= end <= ", rank,
                          ", the rank of x; got start ", start, " and end ", end);
  inferred.push_back(RankedTensorType::get({end - start}, IntegerType::get(context, 64)));
  return success();
}

// The tensor of sizes has one entry for each dimension of the result.
static LogicalResult verifyRuntimeShape(Operation *op, RankedTensorType x, RankedTensorType dims,
                                        RankedTensorType y) {
  if (failed(verifySameElement(op, x, y)))
    return failure();
  if (dims.getRank() != 1)
    return op->emitOpError("dims must have rank 1, got ") << dims;
  if (!dims.isDynamicDim(0) && dims.getDimSize(0) != y.getRank())
    return op->emitOpError("dims must have one entry for each of the ")
           << y.getRank() << " dimensions of the result, got " << dims.getDimSize(0);
  return success();
}

LogicalResult ReshapeToOp::verify() {
  return verifyRuntimeShape(*this, getX().getType(), getDims().getType(), getY().getType());
}

LogicalResult BroadcastWithDimsOp::verify() {
  return verifyRuntimeShape(*this, getX().getType(), getDims().getType(), getY().getType());
}
