//===- Dims.h - sizes and names of dimensions -----------------------*- C++ -*-===//
//
// A dimension is a static size or, where it is dynamic, perhaps a name with
// bounds. Every inference works on lists of these instead of on shapes, so that
// names survive wherever sizes do.
//
//===----------------------------------------------------------------------===//
#ifndef MGX_IR_DIMS_H
#define MGX_IR_DIMS_H

#include "mlir/IR/BuiltinTypes.h"

namespace mgx {
class DimAttr;

struct Dim {
  int64_t size = mlir::ShapedType::kDynamic;
  // Null for a static size and for a dynamic one without a name.
  DimAttr getSymbol() const;
  mlir::Attribute symbol;

  static Dim of(int64_t size) { return Dim{size, {}}; }
  static Dim dynamic() { return Dim{}; }
  bool isDynamic() const { return mlir::ShapedType::isDynamic(size); }
  bool isStatic(int64_t value) const { return size == value; }
  // As it is printed in messages: `3`, `?` or the name.
  std::string str() const;
};

using Dims = llvm::SmallVector<Dim, 4>;

Dims dimsOf(mlir::Type tensor);
mlir::RankedTensorType tensorOf(llvm::ArrayRef<Dim> dims, mlir::Type element);

// Two dimensions that are equal at run time, as one: a static size beats a dynamic
// one, a name beats none, the first of two names stays. Fails for two sizes, and
// for a size outside a name's bounds.
mlir::FailureOr<Dim> unify(const Dim &a, const Dim &b);
// Whether `unify` succeeds for each pair; writes the results into `a`.
mlir::LogicalResult unifyInto(Dims &a, llvm::ArrayRef<Dim> b);

// Whether two dimensions are known to be equal: equal sizes or equal names.
bool areKnownEqual(const Dim &a, const Dim &b);

// `2x?xbatch`, for messages.
std::string str(llvm::ArrayRef<Dim> dims);

// A tensor's or scalar's element type.
mlir::Type elementOf(mlir::Type type);

// Whether each pair has one element type and shapes that can be equal.
bool areCompatible(mlir::TypeRange inferred, mlir::TypeRange actual);
} // namespace mgx

#endif // MGX_IR_DIMS_H
