//===- Dialect.cpp - registration and constants ---------------------------===//
#include "Bytecode.h"
#include "mgx/IR/Mgx.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/DialectImplementation.h"

using namespace mlir;
using namespace mgx;

#include "mgx/IR/MgxDialect.cpp.inc"

void MgxDialect::initialize() {
  // The op classes are compiled in shards: registration goes through all of them.
  registerMgxDialectOperations(this);
  registerAttributes();
  addInterfaces<MgxBytecodeInterface>();
}

//===----------------------------------------------------------------------===//
// Traits with a number
//===----------------------------------------------------------------------===//

template <unsigned... counts>
static std::optional<unsigned> passesOf(OperationName op,
                                        std::integer_sequence<unsigned, counts...>) {
  std::optional<unsigned> found;
  ((found = op.hasTrait<Passes<counts>::template Impl>() ? counts : found), ...);
  return found;
}

std::optional<unsigned> mgx::passesOf(OperationName op) {
  return ::passesOf(op, std::make_integer_sequence<unsigned, 8>());
}

std::optional<int> mgx::neutralRightOf(OperationName op) {
  if (op.hasTrait<NeutralRight<0>::Impl>())
    return 0;
  if (op.hasTrait<NeutralRight<1>::Impl>())
    return 1;
  if (op.hasTrait<NeutralRight<-1>::Impl>())
    return -1;
  return std::nullopt;
}

//===----------------------------------------------------------------------===//
// The plan, which passes leave on a program
//===----------------------------------------------------------------------===//

static LogicalResult verifyNumber(Operation *op, NamedAttribute attribute) {
  auto number = dyn_cast<IntegerAttr>(attribute.getValue());
  if (number && number.getType().isSignlessInteger(64) && !number.getValue().isNegative())
    return success();
  return op->emitOpError() << attribute.getName() << " must be an i64 that is not negative, got "
                           << attribute.getValue();
}

// `most` is how many numbers there may be; a count of results has a number for each.
static LogicalResult verifyNumbers(Operation *op, NamedAttribute attribute, size_t least,
                                   size_t most) {
  auto numbers = dyn_cast<DenseI64ArrayAttr>(attribute.getValue());
  if (numbers && least <= numbers.size() && numbers.size() <= most)
    return success();
  return op->emitOpError() << attribute.getName() << " must be an array of " << least << " to "
                           << most << " i64, got " << attribute.getValue();
}

LogicalResult MgxDialect::verifyOperationAttribute(Operation *op, NamedAttribute attribute) {
  StringRef name = attribute.getName();
  auto standsOn = [&](bool isRight, StringRef where) -> LogicalResult {
    if (isRight)
      return success();
    return op->emitOpError() << attribute.getName() << " stands on " << where << " only";
  };
  size_t results = op->getNumResults();
  if (name == ArenaBytesAttrHelper::getNameStr())
    return success(succeeded(standsOn(isa<ModuleOp>(op), "a module")) &&
                   succeeded(verifyNumber(op, attribute)));
  if (name == InPlaceAttrHelper::getNameStr()) {
    if (failed(standsOn(isa<ConcatOp>(op), "mgx.concat")))
      return failure();
    if (!isa<UnitAttr>(attribute.getValue()))
      return op->emitOpError() << name << " is a unit, got " << attribute.getValue();
    return success();
  }
  if (name == MaxIterationsAttrHelper::getNameStr())
    return success(succeeded(standsOn(isa<LoopOp>(op), "mgx.loop")) &&
                   succeeded(verifyNumber(op, attribute)));
  if (name == OffsetsAttrHelper::getNameStr())
    return success(succeeded(standsOn(isa<ConcatOp, IfOp, LaunchOp, LoopOp>(op),
                                      "launches, concats and control flow")) &&
                   succeeded(verifyNumbers(op, attribute, results, results)));
  if (name == OverwritableAttrHelper::getNameStr()) {
    auto function = dyn_cast<FunctionOpInterface>(op);
    return success(succeeded(standsOn(!!function, "a function")) &&
                   succeeded(verifyNumbers(op, attribute, 0, function.getNumArguments())));
  }
  if (name == StagedAttrHelper::getNameStr())
    return success(succeeded(standsOn(isa<LoopOp>(op), "mgx.loop")) &&
                   succeeded(verifyNumbers(op, attribute, 1, results)));
  return op->emitOpError() << name << " is no attribute of the mgx dialect";
}

//===----------------------------------------------------------------------===//
// Constants
//===----------------------------------------------------------------------===//

Operation *MgxDialect::materializeConstant(OpBuilder &builder, Attribute value, Type type,
                                           Location location) {
  auto typed = dyn_cast<TypedAttr>(value);
  if (!typed || typed.getType() != type)
    return nullptr;
  return ConstantOp::create(builder, location, type, typed);
}
