//===- InferReductions.cpp - types of the ops that combine elements -------===//
#include "mgx/IR/Mgx.h"

using namespace mlir;
using namespace mgx;

LogicalResult mgx::inferReduction(OptionalLocation location, StringRef op, Value x,
                                  ArrayRef<int64_t> axes, InferredTypes &inferred) {
  Dims dims = dimsOf(x.getType());
  if (failed(checkAxes(location, op, axes, dims.size())))
    return failure();
  for (int64_t axis : axes)
    dims[axis] = Dim::of(1);
  inferred.push_back(tensorOf(dims, elementOf(x.getType())));
  return success();
}

LogicalResult mgx::inferArg(OptionalLocation location, StringRef op, Value x, int64_t axis,
                            InferredTypes &inferred) {
  Dims dims = dimsOf(x.getType());
  if (failed(checkAxis(location, op, axis, dims.size())))
    return failure();
  if (dims[axis].isStatic(0))
    return inferenceError(location, op, "dimension ", axis, " must not be empty, got ",
                          x.getType());
  dims[axis] = Dim::of(1);
  inferred.push_back(tensorOf(dims, IntegerType::get(x.getContext(), 64)));
  return success();
}

LogicalResult SuppressOp::verify() {
  ArrayRef<int64_t> boxes = getBoxes().getType().getShape();
  ArrayRef<int64_t> candidates = getCandidates().getType().getShape();
  if (candidates.empty() || boxes.empty() || boxes.back() != 4 || boxes.drop_back() != candidates)
    return emitOpError("boxes must have the shape of the candidates, and 4 corners; got ")
           << getBoxes().getType() << " and " << getCandidates().getType();
  return success();
}

LogicalResult TopkOp::inferReturnTypes(MLIRContext *context, OptionalLocation location,
                                       Adaptor adaptor, InferredTypes &inferred) {
  StringRef op = getOperationName();
  Type x = adaptor.getX().getType();
  Dims dims = dimsOf(x);
  int64_t axis = adaptor.getAxis(), k = adaptor.getK();
  if (failed(checkAxis(location, op, axis, dims.size())))
    return failure();
  if (k < -1 || (!dims[axis].isDynamic() && k > dims[axis].size))
    return inferenceError(location, op, "k must be in [0, ", dims[axis].str(),
                          "], the size of dimension ", axis, ", or -1; got ", k);
  if (k >= 0)
    dims[axis] = Dim::of(k);
  inferred.push_back(tensorOf(dims, elementOf(x)));
  inferred.push_back(tensorOf(dims, IntegerType::get(context, 64)));
  return success();
}

LogicalResult LrnOp::verify() {
  if (getSize() < 1)
    return emitOpError("size must be at least 1, got ") << getSize();
  if (getX().getType().getRank() < 2)
    return emitOpError("x must have batch and channel dimensions, got ") << getX().getType();
  return success();
}
