//===- FoldUnary.cpp - unary ops of constants and of themselves -----------===//
#include "Elements.h"
#include <cmath>

using namespace mlir;
using namespace mgx;
using llvm::APFloat;
using llvm::APInt;

namespace {
// `alpha` is the op's attribute of that name, 0 where it has none.
struct FloatFunction {
  StringRef name;
  double (*compute)(double x, double alpha);
};

double positiveOr(double x, double otherwise) { return x > 0 ? x : otherwise; }
double signOf(double x) { return std::isnan(x) ? x : (x > 0) - (x < 0); }

// Sorted.
const FloatFunction floatFunctions[] = {
    {"mgx.abs", [](double x, double) { return std::fabs(x); }},
    {"mgx.acos", [](double x, double) { return std::acos(x); }},
    {"mgx.acosh", [](double x, double) { return std::acosh(x); }},
    {"mgx.asin", [](double x, double) { return std::asin(x); }},
    {"mgx.asinh", [](double x, double) { return std::asinh(x); }},
    {"mgx.atan", [](double x, double) { return std::atan(x); }},
    {"mgx.atanh", [](double x, double) { return std::atanh(x); }},
    {"mgx.ceil", [](double x, double) { return std::ceil(x); }},
    {"mgx.cos", [](double x, double) { return std::cos(x); }},
    {"mgx.cosh", [](double x, double) { return std::cosh(x); }},
    {"mgx.elu", [](double x, double alpha) { return positiveOr(x, alpha * std::expm1(x)); }},
    {"mgx.erf", [](double x, double) { return std::erf(x); }},
    {"mgx.exp", [](double x, double) { return std::exp(x); }},
    {"mgx.floor", [](double x, double) { return std::floor(x); }},
    {"mgx.leaky_relu", [](double x, double alpha) { return positiveOr(x, alpha * x); }},
    {"mgx.log", [](double x, double) { return std::log(x); }},
    {"mgx.log1p", [](double x, double) { return std::log1p(x); }},
    {"mgx.log2", [](double x, double) { return std::log2(x); }},
    {"mgx.nearbyint", [](double x, double) { return std::nearbyint(x); }},
    {"mgx.neg", [](double x, double) { return -x; }},
    {"mgx.recip", [](double x, double) { return 1 / x; }},
    {"mgx.relu", [](double x, double) { return std::isnan(x) ? x : positiveOr(x, 0); }},
    {"mgx.rsqrt", [](double x, double) { return 1 / std::sqrt(x); }},
    {"mgx.sigmoid", [](double x, double) { return 1 / (1 + std::exp(-x)); }},
    {"mgx.sign", [](double x, double) { return signOf(x); }},
    {"mgx.sin", [](double x, double) { return std::sin(x); }},
    {"mgx.sinh", [](double x, double) { return std::sinh(x); }},
    {"mgx.sqrt", [](double x, double) { return std::sqrt(x); }},
    {"mgx.tan", [](double x, double) { return std::tan(x); }},
    {"mgx.tanh", [](double x, double) { return std::tanh(x); }},
};

std::optional<APInt> computeInt(StringRef name, const APInt &x, bool isUnsigned) {
  bool negative = !isUnsigned && x.isNegative();
  APInt zero = APInt::getZero(x.getBitWidth());
  if (name == "mgx.abs")
    return negative ? -x : x;
  if (name == "mgx.neg")
    return -x;
  if (name == "mgx.relu")
    return negative ? zero : x;
  if (name == "mgx.sign")
    return negative ? APInt::getAllOnes(x.getBitWidth()) : zero + (x.isZero() ? 0 : 1);
  if (name == "mgx.not" || name == "mgx.bitwise_not")
    return ~x;
  return std::nullopt;
}

const StringRef involutions[] = {"mgx.bitwise_not", "mgx.neg", "mgx.not"};
const StringRef idempotents[] = {"mgx.abs",       "mgx.ceil", "mgx.floor",
                                 "mgx.nearbyint", "mgx.relu", "mgx.sign"};
} // namespace

OpFoldResult mgx::foldUnary(Operation *op, Attribute x) {
  StringRef name = op->getName().getStringRef();
  Operation *inner = op->getOperand(0).getDefiningOp();
  if (inner && inner->getName() == op->getName()) {
    if (llvm::is_contained(involutions, name))
      return inner->getOperand(0);
    if (llvm::is_contained(idempotents, name))
      return op->getOperand(0);
  }
  if (!x)
    return {};
  Type type = op->getResult(0).getType(), element = elementOf(type);
  if (isa<IntegerType>(element)) {
    bool isUnsigned = element.isUnsignedInteger();
    return mapNumbers<APInt>(
        type, x, [&](ArrayRef<APInt> args) { return computeInt(name, args[0], isUnsigned); });
  }
  const FloatFunction *function = llvm::lower_bound(
      floatFunctions, name, [](const FloatFunction &f, StringRef name) { return f.name < name; });
  if (function == std::end(floatFunctions) || function->name != name)
    return {};
  auto alpha = op->getAttrOfType<FloatAttr>("alpha");
  double parameter = alpha ? alpha.getValueAsDouble() : 0;
  return mapNumbers<APFloat>(type, x, [&](ArrayRef<APFloat> args) {
    return roundTo(element, function->compute(asDouble(args[0]), parameter));
  });
}
