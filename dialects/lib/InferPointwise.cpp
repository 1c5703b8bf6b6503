//===- InferPointwise.cpp - types of the pointwise ops --------------------===//
#include "mgx/IR/Mgx.h"

using namespace mlir;
using namespace mgx;

// The one shape of all operands, in `dims`; without a value for scalars.
static LogicalResult commonShape(OptionalLocation location, StringRef op, ValueRange operands,
                                 std::optional<Dims> &dims) {
  bool tensors = isa<RankedTensorType>(operands.front().getType());
  for (Value operand : operands) {
    if (isa<RankedTensorType>(operand.getType()) != tensors)
      return inferenceError(location, op, "operands must be all tensors or all scalars, got ",
                            operands.front().getType(), " and ", operand.getType());
    if (!tensors)
      continue;
    if (!dims) {
      dims = dimsOf(operand.getType());
      continue;
    }
    if (failed(unifyInto(*dims, dimsOf(operand.getType()))))
      return inferenceError(location, op,
                            "operands must have one shape (broadcasts are explicit), got ",
                            operands.front().getType(), " and ", operand.getType());
  }
  return success();
}

static LogicalResult commonElement(OptionalLocation location, StringRef op, ValueRange operands,
                                   Type &element) {
  element = elementOf(operands.front().getType());
  for (Value operand : operands.drop_front())
    if (elementOf(operand.getType()) != element)
      return inferenceError(location, op, "operands must have one element type, got ", element,
                            " and ", elementOf(operand.getType()));
  return success();
}

static Type valueOf(const std::optional<Dims> &dims, Type element) {
  return dims ? Type(tensorOf(*dims, element)) : element;
}

LogicalResult mgx::inferLikeOperands(OptionalLocation location, StringRef op, ValueRange operands,
                                     InferredTypes &inferred) {
  std::optional<Dims> dims;
  Type element;
  if (failed(commonElement(location, op, operands, element)) ||
      failed(commonShape(location, op, operands, dims)))
    return failure();
  inferred.push_back(valueOf(dims, element));
  return success();
}

LogicalResult mgx::inferPredicate(OptionalLocation location, StringRef op, ValueRange operands,
                                  InferredTypes &inferred) {
  std::optional<Dims> dims;
  Type element;
  if (failed(commonElement(location, op, operands, element)) ||
      failed(commonShape(location, op, operands, dims)))
    return failure();
  inferred.push_back(valueOf(dims, IntegerType::get(element.getContext(), 1)));
  return success();
}

LogicalResult WhereOp::inferReturnTypes(MLIRContext *, OptionalLocation location, Adaptor adaptor,
                                        InferredTypes &inferred) {
  std::optional<Dims> dims;
  Type element;
  ValueRange operands = adaptor.getOperands();
  if (failed(commonElement(location, getOperationName(), operands.drop_front(), element)) ||
      failed(commonShape(location, getOperationName(), operands, dims)))
    return failure();
  inferred.push_back(valueOf(dims, element));
  return success();
}

// An op whose result has the operands' shape and an element type of its own choice.
static LogicalResult verifySameShape(Operation *op) {
  StringRef name = op->getName().getStringRef();
  std::optional<Dims> dims;
  if (failed(commonShape(op->getLoc(), name, op->getOperands(), dims)))
    return failure();
  Type result = op->getResult(0).getType();
  if (dims.has_value() != isa<RankedTensorType>(result))
    return op->emitOpError("takes ") << op->getOperand(0).getType() << ", so its result must be a "
                                     << (dims ? "tensor" : "scalar") << ", got " << result;
  if (dims && failed(unifyInto(*dims, dimsOf(result))))
    return op->emitOpError("the result must have the shape of the operands, ")
           << str(*dims) << ", got " << str(dimsOf(result));
  return success();
}

LogicalResult ConvertOp::verify() { return verifySameShape(*this); }

LogicalResult BitCastOp::verify() {
  Type from = elementOf(getX().getType()), to = elementOf(getY().getType());
  if (from.getIntOrFloatBitWidth() != to.getIntOrFloatBitWidth())
    return emitOpError("needs element types of one width, got ")
           << from << " (" << from.getIntOrFloatBitWidth() << " bits) and " << to << " ("
           << to.getIntOrFloatBitWidth() << " bits)";
  return verifySameShape(*this);
}

LogicalResult QuantizelinearOp::verify() {
  if (std::optional<Type> precision = getPrecision();
      precision && !isa<Float16Type, BFloat16Type, Float32Type, Float64Type>(*precision))
    return emitOpError("precision must be f16, bf16, f32 or f64, got ") << *precision;
  Type result = elementOf(getY().getType());
  if (Value zero = getZeroPoint(); zero && elementOf(zero.getType()) != result)
    return emitOpError("the zero point must have the result's element type, ")
           << result << ", got " << elementOf(zero.getType());
  return verifySameShape(*this);
}

LogicalResult DequantizelinearOp::verify() {
  Type x = elementOf(getX().getType());
  if (Value zero = getZeroPoint(); zero && elementOf(zero.getType()) != x)
    return emitOpError("the zero point must have the element type of x, ")
           << x << ", got " << elementOf(zero.getType());
  return verifySameShape(*this);
}
