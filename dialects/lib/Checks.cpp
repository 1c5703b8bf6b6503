//===- Checks.cpp - checks that the inferences share ----------------------===//
#include "mgx/IR/Mgx.h"
#include "mlir/Dialect/Utils/IndexingUtils.h"
#include "llvm/ADT/SmallBitVector.h"

using namespace mlir;
using namespace mgx;

LogicalResult mgx::checkAxis(OptionalLocation location, StringRef op, int64_t axis, int64_t rank) {
  if (axis >= 0 && axis < rank)
    return success();
  return inferenceError(location, op, "axis must be in [0, ", rank, "), got ", axis);
}

LogicalResult mgx::checkAxes(OptionalLocation location, StringRef op, ArrayRef<int64_t> axes,
                             int64_t rank) {
  llvm::SmallBitVector seen(rank);
  for (int64_t axis : axes) {
    if (failed(checkAxis(location, op, axis, rank)))
      return failure();
    if (seen.test(axis))
      return inferenceError(location, op, "axes must differ, got ", axis, " twice");
    seen.set(axis);
  }
  return success();
}

LogicalResult mgx::checkLength(OptionalLocation location, StringRef op, StringRef name, size_t met,
                               size_t wanted) {
  if (met == wanted)
    return success();
  return inferenceError(location, op, name, " must have ", wanted, " entries, got ", met);
}

LogicalResult mgx::checkPermutation(OptionalLocation location, StringRef op,
                                    ArrayRef<int64_t> permutation, int64_t rank) {
  if (failed(checkLength(location, op, "permutation", permutation.size(), rank)))
    return failure();
  if (isPermutationVector(permutation))
    return success();
  return inferenceError(location, op, "permutation must hold each of 0 to ", rank - 1,
                        " once, got [", permutation, "]");
}

LogicalResult mgx::verifyAxis(Operation *op, Value x, int64_t axis) {
  return checkAxis(op->getLoc(), op->getName().getStringRef(), axis,
                   cast<RankedTensorType>(x.getType()).getRank());
}
