//===- Dialect.cpp - registration and constants ---------------------------===//
#include "Bytecode.h"
#include "mgx/IR/Mgx.h"
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

Operation *MgxDialect::materializeConstant(OpBuilder &builder, Attribute value, Type type,
                                           Location location) {
  auto typed = dyn_cast<TypedAttr>(value);
  if (!typed || typed.getType() != type)
    return nullptr;
  return ConstantOp::create(builder, location, type, typed);
}
