//===- InferMovement.cpp - types of the ops that move data ----------------===//
#include "mgx/IR/Mgx.h"

using namespace mlir;
using namespace mgx;

LogicalResult ConcatOp::inferReturnTypes(MLIRContext *, OptionalLocation location, Adaptor adaptor,
                                         InferredTypes &inferred) {
  StringRef op = getOperationName();
  ValueRange xs = adaptor.getXs();
  if (xs.empty())
    return inferenceError(location, op, "needs at least one tensor, got none");
  Type first = xs.front().getType();
  Dims dims = dimsOf(first);
  int64_t axis = adaptor.getAxis();
  if (failed(checkAxis(location, op, axis, dims.size())))
    return failure();
  Dim total = dims[axis];
  for (Value x : xs.drop_front()) {
    if (elementOf(x.getType()) != elementOf(first))
      return inferenceError(location, op, "operands must have one element type, got ",
                            elementOf(first), " and ", elementOf(x.getType()));
    Dims other = dimsOf(x.getType());
    Dim added = other.size() == dims.size() ? other[axis] : Dim();
    if (other.size() == dims.size())
      other[axis] = dims[axis];
    if (failed(unifyInto(dims, other)))
      return inferenceError(location, op, "operands must have one shape but for dimension ", axis,
                            ", got ", first, " and ", x.getType());
    bool dynamic = total.isDynamic() || added.isDynamic();
    total = dynamic ? Dim::dynamic() : Dim::of(total.size + added.size);
  }
  dims[axis] = total;
  inferred.push_back(tensorOf(dims, elementOf(first)));
  return success();
}

//===----------------------------------------------------------------------===//
// Gather
//===----------------------------------------------------------------------===//

LogicalResult GatherOp::inferReturnTypes(MLIRContext *, OptionalLocation location, Adaptor adaptor,
                                         InferredTypes &inferred) {
  Type x = adaptor.getX().getType();
  Dims dims = dimsOf(x), indices = dimsOf(adaptor.getIndices().getType());
  int64_t axis = adaptor.getAxis();
  if (failed(checkAxis(location, getOperationName(), axis, dims.size())))
    return failure();
  Dims result(dims.begin(), dims.begin() + axis);
  result.append(indices);
  result.append(dims.begin() + axis + 1, dims.end());
  inferred.push_back(tensorOf(result, elementOf(x)));
  return success();
}

LogicalResult GatherElementsOp::inferReturnTypes(MLIRContext *, OptionalLocation location,
                                                 Adaptor adaptor, InferredTypes &inferred) {
  StringRef op = getOperationName();
  Type x = adaptor.getX().getType();
  Dims dims = dimsOf(x), indices = dimsOf(adaptor.getIndices().getType());
  if (failed(checkAxis(location, op, adaptor.getAxis(), dims.size())))
    return failure();
  if (indices.size() != dims.size())
    return inferenceError(location, op, "indices must have the rank of x, ", dims.size(), ", got ",
                          indices.size());
  inferred.push_back(tensorOf(indices, elementOf(x)));
  return success();
}

// The length of the index tuples in the last dimension of indices.
static LogicalResult tupleLength(OptionalLocation location, StringRef op, ArrayRef<Dim> indices,
                                 int64_t rank, int64_t &length) {
  if (indices.empty())
    return inferenceError(location, op, "indices must have at least one dimension, got none");
  if (indices.back().isDynamic())
    return inferenceError(location, op,
                          "the last dimension of indices must have a static size, got ",
                          indices.back().str());
  length = indices.back().size;
  if (length <= rank)
    return success();
  return inferenceError(location, op, "index tuples must have at most ", rank, " entries, got ",
                        length);
}

LogicalResult GatherndOp::inferReturnTypes(MLIRContext *, OptionalLocation location,
                                           Adaptor adaptor, InferredTypes &inferred) {
  StringRef op = getOperationName();
  Type x = adaptor.getX().getType();
  Dims dims = dimsOf(x), indices = dimsOf(adaptor.getIndices().getType());
  int64_t batch = intOr(adaptor.getBatchDimsAttr(), 0), length;
  int64_t most = std::min<int64_t>(dims.size(), indices.size() - 1);
  if (indices.empty() || batch < 0 || batch > most)
    return inferenceError(location, op, "batch_dims must be in [0, ", std::max<int64_t>(most, 0),
                          "], got ", batch);
  if (failed(tupleLength(location, op, indices, dims.size() - batch, length)))
    return failure();
  Dims result(indices.begin(), indices.end() - 1);
  for (int64_t i = 0; i < batch; ++i) {
    FailureOr<Dim> merged = unify(result[i], dims[i]);
    if (failed(merged))
      return inferenceError(location, op, "batch dimension ", i, " must be equal, got ",
                            dims[i].str(), " and ", result[i].str());
    result[i] = *merged;
  }
  result.append(dims.begin() + batch + length, dims.end());
  inferred.push_back(tensorOf(result, elementOf(x)));
  return success();
}

//===----------------------------------------------------------------------===//
// Scatter
//===----------------------------------------------------------------------===//

static LogicalResult checkUpdates(OptionalLocation location, StringRef op, Type x, Type updates,
                                  Dims wanted) {
  if (elementOf(x) != elementOf(updates))
    return inferenceError(location, op, "updates must have the element type of x, ", elementOf(x),
                          ", got ", elementOf(updates));
  Dims met = dimsOf(updates);
  if (succeeded(unifyInto(met, wanted)))
    return success();
  return inferenceError(location, op, "updates must have the shape ", str(wanted), ", got ",
                        str(dimsOf(updates)));
}

LogicalResult mgx::inferScatter(OptionalLocation location, StringRef op, Value x, Value indices,
                                Value updates, int64_t axis, InferredTypes &inferred) {
  Dims dims = dimsOf(x.getType()), places = dimsOf(indices.getType());
  if (failed(checkAxis(location, op, axis, dims.size())))
    return failure();
  if (places.size() != dims.size())
    return inferenceError(location, op, "indices must have the rank of x, ", dims.size(), ", got ",
                          places.size());
  if (failed(checkUpdates(location, op, x.getType(), updates.getType(), places)))
    return failure();
  inferred.push_back(x.getType());
  return success();
}

LogicalResult mgx::inferScatternd(OptionalLocation location, StringRef op, Value x, Value indices,
                                  Value updates, InferredTypes &inferred) {
  Dims dims = dimsOf(x.getType()), places = dimsOf(indices.getType());
  int64_t length;
  if (failed(tupleLength(location, op, places, dims.size(), length)))
    return failure();
  Dims wanted(places.begin(), places.end() - 1);
  wanted.append(dims.begin() + length, dims.end());
  if (failed(checkUpdates(location, op, x.getType(), updates.getType(), wanted)))
    return failure();
  inferred.push_back(x.getType());
  return success();
}

//===----------------------------------------------------------------------===//
// Pad, nonzero, resize
//===----------------------------------------------------------------------===//

LogicalResult PadOp::inferReturnTypes(MLIRContext *, OptionalLocation location, Adaptor adaptor,
                                      InferredTypes &inferred) {
  StringRef op = getOperationName();
  Type x = adaptor.getX().getType();
  Dims dims = dimsOf(x);
  ArrayRef<int64_t> low = adaptor.getLow(), high = adaptor.getHigh();
  if (failed(checkLength(location, op, "low", low.size(), dims.size())) ||
      failed(checkLength(location, op, "high", high.size(), dims.size())))
    return failure();
  for (auto [i, dim] : llvm::enumerate(dims)) {
    if (low[i] == 0 && high[i] == 0)
      continue;
    if (dim.isDynamic()) {
      dim = Dim::dynamic();
      continue;
    }
    if (dim.size + low[i] + high[i] < 0)
      return inferenceError(location, op, "dimension ", i, " of size ", dim.size,
                            " cannot lose more elements than it has, got low ", low[i],
                            " and high ", high[i]);
    bool reflects = valueOr(adaptor.getModeAttr(), PadMode::constant) == PadMode::reflect;
    if (reflects && std::max(low[i], high[i]) >= dim.size)
      return inferenceError(location, op, "mode reflect adds at most ", dim.size - 1,
                            " elements to each side of dimension ", i, ", got low ", low[i],
                            " and high ", high[i]);
    dim = Dim::of(dim.size + low[i] + high[i]);
  }
  inferred.push_back(tensorOf(dims, elementOf(x)));
  return success();
}

LogicalResult NonzeroOp::inferReturnTypes(MLIRContext *context, OptionalLocation, Adaptor adaptor,
                                          InferredTypes &inferred) {
  int64_t rank = cast<RankedTensorType>(adaptor.getX().getType()).getRank();
  inferred.push_back(
      RankedTensorType::get({rank, ShapedType::kDynamic}, IntegerType::get(context, 64)));
  return success();
}

LogicalResult ResizeOp::verify() {
  RankedTensorType x = getX().getType(), y = getY().getType();
  if (x.getElementType() != y.getElementType())
    return emitOpError("the result must have the element type of x, ")
           << x.getElementType() << ", got " << y.getElementType();
  if (x.getRank() != y.getRank())
    return emitOpError("the result must have the rank of x, ")
           << x.getRank() << ", got " << y.getRank();
  if (failed(checkLength(getLoc(), getOperationName(), "scales", getScales().size(), x.getRank())))
    return failure();
  for (float scale : getScales())
    if (!(scale > 0))
      return emitOpError("scales must be positive, got ") << scale;
  bool crops = getCoordinateMode() == CoordinateMode::tf_crop_and_resize;
  if (crops && !getRoi())
    return emitOpError("coordinate mode tf_crop_and_resize needs a roi");
  if (!getRoi())
    return success();
  return checkLength(getLoc(), getOperationName(), "roi", getRoi()->size(), 2 * x.getRank());
}
