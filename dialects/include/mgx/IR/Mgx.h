//===- Mgx.h - the mgx dialect --------------------------------------*- C++ -*-===//
#ifndef MGX_IR_MGX_H
#define MGX_IR_MGX_H

#include "mgx/IR/Dims.h"
#include "mlir/Bytecode/BytecodeOpInterface.h"
#include "mlir/IR/Builders.h"
#include "mlir/IR/BuiltinAttributes.h"
#include "mlir/IR/Dialect.h"
#include "mlir/IR/OpDefinition.h"
#include "mlir/IR/OpImplementation.h"
#include "mlir/IR/RegionKindInterface.h"
#include "mlir/IR/SymbolTable.h"
#include "mlir/IR/TensorEncoding.h"
#include "mlir/Interfaces/CallInterfaces.h"
#include "mlir/Interfaces/ControlFlowInterfaces.h"
#include "mlir/Interfaces/FunctionInterfaces.h"
#include "mlir/Interfaces/InferTypeOpInterface.h"
#include "mlir/Interfaces/SideEffectInterfaces.h"

#include "mgx/IR/MgxDialect.h.inc"
#include "mgx/IR/MgxEnums.h.inc"

#define GET_ATTRDEF_CLASSES
#include "mgx/IR/MgxAttrs.h.inc"

namespace mgx {
// The traits of MgxBase.td: marks, without a check of their own.
template <typename ConcreteType>
class IsPointwise : public mlir::OpTrait::TraitBase<ConcreteType, IsPointwise> {};
template <typename ConcreteType>
class IsView : public mlir::OpTrait::TraitBase<ConcreteType, IsView> {};
template <typename ConcreteType>
class IsReduction : public mlir::OpTrait::TraitBase<ConcreteType, IsReduction> {};

template <typename ConcreteType>
class KeepsOrder : public mlir::OpTrait::TraitBase<ConcreteType, KeepsOrder> {};
template <int number> struct NeutralRight {
  template <typename ConcreteType>
  class Impl : public mlir::OpTrait::TraitBase<ConcreteType, Impl> {};
};
template <unsigned count> struct Passes {
  template <typename ConcreteType>
  class Impl : public mlir::OpTrait::TraitBase<ConcreteType, Impl> {};
};
// The number of an op's trait NeutralRight, and the count of its trait Passes.
std::optional<int> neutralRightOf(mlir::OperationName op);
std::optional<unsigned> passesOf(mlir::OperationName op);

// Mgx_Since: the minor version of the stored form that an op came with.
template <unsigned minor> struct Since {
  template <typename ConcreteType>
  class Impl : public mlir::OpTrait::TraitBase<ConcreteType, Impl> {};
};

using OptionalLocation = std::optional<mlir::Location>;
using InferredTypes = llvm::SmallVectorImpl<mlir::Type>;

// A message in the form of `emitOpError`, for the inference, which has no op yet.
// Always fails.
template <typename... Args>
mlir::LogicalResult inferenceError(OptionalLocation location, llvm::StringRef op, Args &&...args) {
  return mlir::emitOptionalError(location, "'", op, "' op ", std::forward<Args>(args)...);
}

// The inferences and folders that classes of ops share (Mgx_InferBy, Mgx_FoldBy).
mlir::LogicalResult inferLikeOperands(OptionalLocation location, llvm::StringRef op,
                                      mlir::ValueRange operands, InferredTypes &inferred);
mlir::LogicalResult inferPredicate(OptionalLocation location, llvm::StringRef op,
                                   mlir::ValueRange operands, InferredTypes &inferred);
mlir::LogicalResult inferReduction(OptionalLocation location, llvm::StringRef op, mlir::Value x,
                                   llvm::ArrayRef<int64_t> axes, InferredTypes &inferred);
mlir::LogicalResult inferArg(OptionalLocation location, llvm::StringRef op, mlir::Value x,
                             int64_t axis, InferredTypes &inferred);
mlir::LogicalResult inferScatter(OptionalLocation location, llvm::StringRef op, mlir::Value x,
                                 mlir::Value indices, mlir::Value updates, int64_t axis,
                                 InferredTypes &inferred);
mlir::LogicalResult inferScatternd(OptionalLocation location, llvm::StringRef op, mlir::Value x,
                                   mlir::Value indices, mlir::Value updates,
                                   InferredTypes &inferred);

// An attribute with a default, as an inference must read it: where an op is made
// through the C API, defaults are filled in only after its types are inferred.
template <typename Attr, typename Value> Value valueOr(Attr attribute, Value otherwise) {
  return attribute ? static_cast<Value>(attribute.getValue()) : otherwise;
}
inline int64_t intOr(mlir::IntegerAttr attribute, int64_t otherwise) {
  return attribute ? attribute.getInt() : otherwise;
}

// Checks that the inferences share.
mlir::LogicalResult checkAxis(OptionalLocation location, llvm::StringRef op, int64_t axis,
                              int64_t rank);
mlir::LogicalResult checkAxes(OptionalLocation location, llvm::StringRef op,
                              llvm::ArrayRef<int64_t> axes, int64_t rank);
mlir::LogicalResult checkLength(OptionalLocation location, llvm::StringRef op, llvm::StringRef name,
                                size_t met, size_t wanted);
mlir::LogicalResult checkPermutation(OptionalLocation location, llvm::StringRef op,
                                     llvm::ArrayRef<int64_t> permutation, int64_t rank);
mlir::LogicalResult verifyAxis(mlir::Operation *op, mlir::Value x, int64_t axis);

mlir::OpFoldResult foldUnary(mlir::Operation *op, mlir::Attribute x);
mlir::OpFoldResult foldBinary(mlir::Operation *op, mlir::Attribute a, mlir::Attribute b);
mlir::OpFoldResult foldCompare(mlir::Operation *op, mlir::Attribute a, mlir::Attribute b);
mlir::OpFoldResult foldReduction(mlir::Operation *op, mlir::Attribute x,
                                 llvm::ArrayRef<int64_t> axes);
} // namespace mgx

#define GET_OP_CLASSES
#include "mgx/IR/MgxOps.h.inc"

#endif // MGX_IR_MGX_H
