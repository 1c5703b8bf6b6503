//===- ProgramOps.cpp - constants, regions, kernels -----------------------===//
#include "mgx/IR/Mgx.h"
#include "mlir/Interfaces/FunctionImplementation.h"

using namespace mlir;
using namespace mgx;

//===----------------------------------------------------------------------===//
// Constants
//===----------------------------------------------------------------------===//

LogicalResult ConstantOp::inferReturnTypes(MLIRContext *, OptionalLocation, Adaptor adaptor,
                                           InferredTypes &inferred) {
  inferred.push_back(adaptor.getValue().getType());
  return success();
}

LogicalResult ConstantOp::verify() {
  Type type = getResult().getType();
  if (getValue().getType() != type)
    return emitOpError("the value must have the result's type, ")
           << type << ", got " << getValue().getType();
  bool known = isa<RankedTensorType>(type)
                   ? isa<DenseElementsAttr, DenseResourceElementsAttr>(getValue())
                   : isa<IntegerAttr, FloatAttr>(getValue());
  if (!known)
    return emitOpError("the value must be dense elements or, for a scalar, a number, got ")
           << getValue();
  return success();
}

OpFoldResult ConstantOp::fold(FoldAdaptor) { return getValue(); }

//===----------------------------------------------------------------------===//
// Fused regions
//===----------------------------------------------------------------------===//

void YieldOp::build(OpBuilder &, OperationState &) {}

// The block's arguments and the values it yields, against the types given for each.
static LogicalResult verifyBody(Operation *op, Block &body, ArrayRef<Type> arguments,
                                ArrayRef<Type> yields) {
  if (body.getNumArguments() != arguments.size())
    return op->emitOpError("the body must have ")
           << arguments.size() << " arguments, got " << body.getNumArguments();
  for (auto [i, wanted] : llvm::enumerate(arguments))
    if (Type met = body.getArgument(i).getType(); !areCompatible(wanted, met))
      return op->emitOpError("argument ")
             << i << " of the body must have type " << wanted << ", got " << met;
  Operation *terminator = body.getTerminator();
  if (terminator->getNumOperands() != yields.size())
    return op->emitOpError("the body must yield ")
           << yields.size() << " values, got " << terminator->getNumOperands();
  for (auto [i, wanted] : llvm::enumerate(yields))
    if (Type met = terminator->getOperand(i).getType(); !areCompatible(wanted, met))
      return op->emitOpError("value ")
             << i << " that the body yields must have type " << wanted << ", got " << met;
  return success();
}

template <typename Allowed>
static LogicalResult verifyBodyOps(Operation *op, Block &body, StringRef allowed,
                                   Allowed isAllowed) {
  for (Operation &inner : body.without_terminator())
    if (!isa<ConstantOp>(inner) && !isAllowed(inner))
      return op->emitOpError("the body must hold ")
             << allowed << " and constants only, got '" << inner.getName() << "'";
  return success();
}

LogicalResult PointwiseOp::verify() {
  if (getInputs().empty() && getOutputs().empty())
    return emitOpError("needs at least one input or result, got none");
  auto values = llvm::concat<Type>(SmallVector<Type>(getInputs().getTypes()),
                                   SmallVector<Type>(getOutputs().getTypes()));
  std::optional<Dims> dims;
  for (Type type : values) {
    if (!dims)
      dims = dimsOf(type);
    else if (failed(unifyInto(*dims, dimsOf(type))))
      return emitOpError("inputs and results must have one shape, got ")
             << str(*dims) << " and " << type;
  }
  SmallVector<Type> arguments, yields;
  for (Type type : getInputs().getTypes())
    arguments.push_back(elementOf(type));
  for (Type type : getOutputs().getTypes())
    yields.push_back(elementOf(type));
  auto isPointwise = [](Operation &inner) { return inner.hasTrait<IsPointwise>(); };
  if (failed(verifyBody(*this, getBody().front(), arguments, yields)))
    return failure();
  return verifyBodyOps(*this, getBody().front(), "pointwise ops", isPointwise);
}

LogicalResult FusedReduceOp::verify() {
  if (getInputs().empty())
    return emitOpError("needs at least one input, got none");
  int64_t rank = cast<RankedTensorType>(getInputs().front().getType()).getRank();
  if (failed(checkAxes(getLoc(), getOperationName(), getAxes(), rank)))
    return failure();
  SmallVector<Type> arguments(getInputs().getTypes()), yields(getOutputs().getTypes());
  if (failed(verifyBody(*this, getBody().front(), arguments, yields)))
    return failure();
  auto isAllowed = [](Operation &inner) {
    return inner.hasTrait<IsPointwise>() || inner.hasTrait<IsReduction>() ||
           isa<MultibroadcastOp, BroadcastOp>(inner);
  };
  if (failed(verifyBodyOps(*this, getBody().front(), "reductions, pointwise ops, broadcasts",
                           isAllowed)))
    return failure();
  for (Operation &inner : getBody().front()) {
    auto axes = inner.getAttrOfType<DenseI64ArrayAttr>("axes");
    if (inner.hasTrait<IsReduction>() && axes.asArrayRef() != getAxes())
      return emitOpError("reductions in the body must have its axes, [")
             << getAxes() << "], got [" << axes.asArrayRef() << "]";
  }
  return success();
}

// Batch dimensions of q, k and v agree, and what the products multiply.
static FailureOr<Dims> attentionScores(AttentionOp op) {
  Dims q = dimsOf(op.getQ().getType()), k = dimsOf(op.getK().getType()),
       v = dimsOf(op.getV().getType()), y = dimsOf(op.getY().getType());
  size_t rank = q.size();
  if (rank < 2 || k.size() != rank || v.size() != rank || y.size() != rank)
    return op.emitOpError("q, k, v and the result must have one rank of at least 2, got ")
           << rank << ", " << k.size() << ", " << v.size() << " and " << y.size();
  Dims batch(q.begin(), q.end() - 2), queries = {q[rank - 2]}, common = {q[rank - 1]},
                                      keys = {k[rank - 2]}, columns = {v[rank - 1]};
  for (const Dims *dims : {&k, &v, &y})
    if (failed(unifyInto(batch, ArrayRef<Dim>(*dims).drop_back(2))))
      return op.emitOpError("q, k, v and the result must have one batch shape, got ")
             << str(q) << ", " << str(k) << ", " << str(v) << " and " << str(y);
  if (failed(unifyInto(common, {k[rank - 1]})))
    return op.emitOpError("q and k must have one last dimension, got ")
           << str(q) << " and " << str(k);
  if (failed(unifyInto(keys, {v[rank - 2]})))
    return op.emitOpError("k and v must have one number of keys, got ")
           << str(k) << " and " << str(v);
  if (failed(unifyInto(queries, {y[rank - 2]})) || failed(unifyInto(columns, {y[rank - 1]})))
    return op.emitOpError("the result must have the queries of q and the columns of v, got ")
           << str(y);
  batch.push_back(queries.front());
  batch.push_back(keys.front());
  return batch;
}

LogicalResult AttentionOp::verify() {
  Type element = elementOf(getQ().getType());
  for (Type type : {getK().getType(), getV().getType(), getY().getType()})
    if (elementOf(type) != element)
      return emitOpError("q, k, v and the result must have one element type, got ")
             << element << " and " << elementOf(type);
  if (!isa<Float16Type, BFloat16Type, Float32Type, Float64Type>(element))
    return emitOpError("computes with f16, bf16, f32 or f64, got ") << element;
  if (IntegerAttr causal = getCausalAttr(); causal && causal.getInt() < 0)
    return emitOpError("causal must not be negative, got ") << causal.getInt();
  FailureOr<Dims> scores = attentionScores(*this);
  if (failed(scores))
    return failure();
  Type score = element.isF64() ? element : Float32Type::get(getContext());
  SmallVector<Type> arguments = {score};
  for (Type type : getExtras().getTypes()) {
    if (failed(unifyInto(*scores, dimsOf(type))))
      return emitOpError("an extra tensor must have the shape of the scores, ")
             << str(*scores) << ", got " << type;
    arguments.push_back(elementOf(type));
  }
  if (failed(verifyBody(*this, getBody().front(), arguments, {score})))
    return failure();
  auto isPointwise = [](Operation &inner) { return inner.hasTrait<IsPointwise>(); };
  return verifyBodyOps(*this, getBody().front(), "pointwise ops", isPointwise);
}

//===----------------------------------------------------------------------===//
// Control flow
//===----------------------------------------------------------------------===//

static LogicalResult verifyScalar(Operation *op, StringRef name, RankedTensorType type) {
  bool one = llvm::all_of(type.getShape(), [](int64_t size) { return size == 1; });
  if (one)
    return success();
  return op->emitOpError(name) << " must have one element, got " << type;
}

LogicalResult IfOp::verify() {
  SmallVector<Type> yields(getOutputs().getTypes());
  if (failed(verifyScalar(*this, "the condition", getCondition().getType())) ||
      failed(verifyBody(*this, getThenRegion().front(), {}, yields)))
    return failure();
  return verifyBody(*this, getElseRegion().front(), {}, yields);
}

LogicalResult LoopOp::verify() {
  if (failed(verifyScalar(*this, "the trip count", getMaxTripCount().getType())) ||
      failed(verifyScalar(*this, "the condition", getCondition().getType())))
    return failure();
  size_t carried = getInit().size();
  if (getOutputs().size() < carried)
    return emitOpError("must return each of the ")
           << carried << " carried values, got " << getOutputs().size() << " results";
  SmallVector<Type> arguments = {getMaxTripCount().getType(), getCondition().getType()};
  SmallVector<Type> yields = {getCondition().getType()};
  for (auto [i, value] : llvm::enumerate(getInit())) {
    Type type = value.getType(), result = getOutputs()[i].getType();
    if (!areCompatible(type, result))
      return emitOpError("result ")
             << i << " must have the type of the carried value, " << type << ", got " << result;
    arguments.push_back(type);
    yields.push_back(type);
  }
  for (Value scan : getOutputs().drop_front(carried)) {
    Dims dims = dimsOf(scan.getType());
    if (dims.empty())
      return emitOpError("a scan output must have a dimension for the iterations, got ")
             << scan.getType();
    dims.erase(dims.begin());
    yields.push_back(tensorOf(dims, elementOf(scan.getType())));
  }
  return verifyBody(*this, getBody().front(), arguments, yields);
}

//===----------------------------------------------------------------------===//
// Kernels
//===----------------------------------------------------------------------===//

ParseResult KernelOp::parse(OpAsmParser &parser, OperationState &result) {
  auto buildType = [](Builder &builder, ArrayRef<Type> arguments, ArrayRef<Type> results,
                      function_interface_impl::VariadicFlag,
                      std::string &) { return builder.getFunctionType(arguments, results); };
  return function_interface_impl::parseFunctionOp(
      parser, result, /*allowVariadic=*/false, getFunctionTypeAttrName(result.name), buildType,
      getArgAttrsAttrName(result.name), getResAttrsAttrName(result.name));
}

void KernelOp::print(OpAsmPrinter &printer) {
  function_interface_impl::printFunctionOp(printer, *this, /*isVariadic=*/false,
                                           getFunctionTypeAttrName(), getArgAttrsAttrName(),
                                           getResAttrsAttrName());
}

LogicalResult KernelOp::verify() {
  for (Type type : llvm::concat<const Type>(getArgumentTypes(), getResultTypes()))
    if (!isa<RankedTensorType>(type))
      return emitOpError("takes and returns ranked tensors only, got ") << type;
  LogicalResult verified = success();
  getBody().walk([&](Operation *inner) {
    if (failed(verified) || isa<MgxDialect>(inner->getDialect()))
      return;
    verified = emitOpError("the portable form holds mgx ops only, got '")
               << inner->getName() << "'";
  });
  return verified;
}

LogicalResult ReturnOp::verify() {
  auto kernel = cast<KernelOp>((*this)->getParentOp());
  if (getNumOperands() != kernel.getResultTypes().size())
    return emitOpError("kernel '")
           << kernel.getName() << "' returns " << kernel.getResultTypes().size() << " values, got "
           << getNumOperands();
  for (auto [i, wanted] : llvm::enumerate(kernel.getResultTypes()))
    if (Type met = getOperand(i).getType(); !areCompatible(wanted, met))
      return emitOpError("value ") << i << " must have type " << wanted << ", as kernel '"
                                   << kernel.getName() << "' returns, got " << met;
  return success();
}

LogicalResult LaunchOp::verifySymbolUses(SymbolTableCollection &symbols) {
  auto kernel = symbols.lookupNearestSymbolFrom<KernelOp>(*this, getKernelAttr());
  if (!kernel)
    return emitOpError("'") << getKernel() << "' does not name an mgx.kernel";
  if (!areCompatible(kernel.getArgumentTypes(), getOperandTypes()))
    return emitOpError("kernel '") << getKernel() << "' takes (" << kernel.getArgumentTypes()
                                   << "), got (" << getOperandTypes() << ")";
  if (!areCompatible(kernel.getResultTypes(), getResultTypes()))
    return emitOpError("kernel '") << getKernel() << "' returns (" << kernel.getResultTypes()
                                   << "), got (" << getResultTypes() << ")";
  return success();
}
