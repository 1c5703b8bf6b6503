//===- Elements.h - constants, element by element -------------------*- C++ -*-===//
//
// The constants that the folders know: scalars, splats of any size, and dense elements
// up to a limit. Larger ones stay: folding them is a decision of the compiler's, which
// keeps them out of the IR.
//
//===----------------------------------------------------------------------===//
#ifndef MGX_LIB_ELEMENTS_H
#define MGX_LIB_ELEMENTS_H

#include "mgx/IR/Mgx.h"
#include "llvm/ADT/APFloat.h"

namespace mgx {
constexpr int64_t kMostFoldedElements = 1024;

// Numbers are APFloat or APInt. One number is a scalar or a splat.
template <typename Number> using Numbers = llvm::SmallVector<Number, 4>;

// The elements of a constant that is small enough; fails for any other attribute and
// for elements of the other kind.
template <typename Number> mlir::FailureOr<Numbers<Number>> readNumbers(mlir::Attribute constant);

// A constant of the type, from one number or one for each element. Null for a type
// whose shape is not static.
template <typename Number>
mlir::Attribute writeNumbers(mlir::Type type, llvm::ArrayRef<Number> numbers);

// Constants element by element through `function`, which returns none for what must
// stay: an overflow, a division by zero. Null where anything is not known.
template <typename In, typename Out = In, typename Function>
mlir::Attribute mapNumbers(mlir::Type type, llvm::ArrayRef<mlir::Attribute> constants,
                           Function function) {
  llvm::SmallVector<Numbers<In>, 3> operands;
  size_t count = 1;
  for (mlir::Attribute constant : constants) {
    mlir::FailureOr<Numbers<In>> numbers = readNumbers<In>(constant);
    if (mlir::failed(numbers))
      return {};
    count = std::max(count, numbers->size());
    operands.push_back(std::move(*numbers));
  }
  Numbers<Out> results;
  for (size_t i = 0; i < count; ++i) {
    Numbers<In> arguments;
    for (const Numbers<In> &numbers : operands)
      arguments.push_back(numbers[numbers.size() == 1 ? 0 : i]);
    std::optional<Out> result = function(llvm::ArrayRef<In>(arguments));
    if (!result)
      return {};
    results.push_back(std::move(*result));
  }
  return writeNumbers<Out>(type, results);
}

// A row of a folder's table: an op class, and the function of its numbers.
template <typename Function> struct OpFunction {
  mlir::TypeID op;
  Function function;
};
template <typename Op, typename Function> OpFunction<Function> of(Function function) {
  return {mlir::TypeID::get<Op>(), function};
}
template <typename Function, size_t count>
Function functionOf(const OpFunction<Function> (&table)[count], mlir::Operation *op) {
  for (const OpFunction<Function> &row : table)
    if (row.op == op->getName().getTypeID())
      return row.function;
  return nullptr;
}

// The constant whose i-th element is element `source(i)` of `constant`. A splat stays one.
mlir::Attribute pickElements(mlir::Type type, mlir::Attribute constant,
                             llvm::function_ref<int64_t(llvm::ArrayRef<int64_t>)> source);

// Whether every element of the constant equals the number.
bool isAll(mlir::Attribute constant, double number);

// The number in the float type's precision; none for an overflow.
std::optional<llvm::APFloat> roundTo(mlir::Type type, double value);
double asDouble(llvm::APFloat value);
} // namespace mgx

#endif // MGX_LIB_ELEMENTS_H
