//===- FoldUnary.cpp - unary ops of constants ------------------------------===//
#include "Elements.h"
#include <cmath>

using namespace mlir;
using namespace mgx;
using llvm::APFloat;
using llvm::APInt;

namespace {
// `alpha` is the op's attribute of that name, 0 where it has none.
using FloatUnary = double (*)(double x, double alpha);

double positiveOr(double x, double otherwise) { return x > 0 ? x : otherwise; }
double signOf(double x) { return std::isnan(x) ? x : (x > 0) - (x < 0); }

// The function of an op on floats; null where it has none.
FloatUnary floatFunction(Operation *op) {
  static const OpFunction<FloatUnary> functions[] = {
      of<AbsOp, FloatUnary>([](double x, double) { return std::fabs(x); }),
      of<AcosOp, FloatUnary>([](double x, double) { return std::acos(x); }),
      of<AcoshOp, FloatUnary>([](double x, double) { return std::acosh(x); }),
      of<AsinOp, FloatUnary>([](double x, double) { return std::asin(x); }),
      of<AsinhOp, FloatUnary>([](double x, double) { return std::asinh(x); }),
      of<AtanOp, FloatUnary>([](double x, double) { return std::atan(x); }),
      of<AtanhOp, FloatUnary>([](double x, double) { return std::atanh(x); }),
      of<CeilOp, FloatUnary>([](double x, double) { return std::ceil(x); }),
      of<CosOp, FloatUnary>([](double x, double) { return std::cos(x); }),
      of<CoshOp, FloatUnary>([](double x, double) { return std::cosh(x); }),
      of<EluOp, FloatUnary>(
          [](double x, double alpha) { return positiveOr(x, alpha * std::expm1(x)); }),
      of<ErfOp, FloatUnary>([](double x, double) { return std::erf(x); }),
      of<ExpOp, FloatUnary>([](double x, double) { return std::exp(x); }),
      of<FloorOp, FloatUnary>([](double x, double) { return std::floor(x); }),
      of<LeakyReluOp, FloatUnary>([](double x, double alpha) { return positiveOr(x, alpha * x); }),
      of<LogOp, FloatUnary>([](double x, double) { return std::log(x); }),
      of<Log1pOp, FloatUnary>([](double x, double) { return std::log1p(x); }),
      of<Log2Op, FloatUnary>([](double x, double) { return std::log2(x); }),
      of<NearbyintOp, FloatUnary>([](double x, double) { return std::nearbyint(x); }),
      of<NegOp, FloatUnary>([](double x, double) { return -x; }),
      of<RecipOp, FloatUnary>([](double x, double) { return 1 / x; }),
      of<ReluOp, FloatUnary>([](double x, double) { return std::isnan(x) ? x : positiveOr(x, 0); }),
      of<RsqrtOp, FloatUnary>([](double x, double) { return 1 / std::sqrt(x); }),
      of<SigmoidOp, FloatUnary>([](double x, double) { return 1 / (1 + std::exp(-x)); }),
      of<SignOp, FloatUnary>([](double x, double) { return signOf(x); }),
      of<SinOp, FloatUnary>([](double x, double) { return std::sin(x); }),
      of<SinhOp, FloatUnary>([](double x, double) { return std::sinh(x); }),
      of<SqrtOp, FloatUnary>([](double x, double) { return std::sqrt(x); }),
      of<TanOp, FloatUnary>([](double x, double) { return std::tan(x); }),
      of<TanhOp, FloatUnary>([](double x, double) { return std::tanh(x); }),
  };
  return functionOf(functions, op);
}

std::optional<APInt> computeInt(Operation *op, const APInt &x, bool isUnsigned) {
  bool negative = !isUnsigned && x.isNegative();
  APInt zero = APInt::getZero(x.getBitWidth());
  if (isa<AbsOp>(op))
    return negative ? -x : x;
  if (isa<NegOp>(op))
    return -x;
  if (isa<ReluOp>(op))
    return negative ? zero : x;
  if (isa<SignOp>(op))
    return negative ? APInt::getAllOnes(x.getBitWidth()) : zero + (x.isZero() ? 0 : 1);
  if (isa<NotOp, BitwiseNotOp>(op))
    return ~x;
  return std::nullopt;
}
} // namespace

OpFoldResult mgx::foldUnary(Operation *op, Attribute x) {
  if (!x)
    return {};
  Type type = op->getResult(0).getType(), element = elementOf(type);
  if (isa<IntegerType>(element)) {
    bool isUnsigned = element.isUnsignedInteger();
    return mapNumbers<APInt>(
        type, x, [&](ArrayRef<APInt> args) { return computeInt(op, args[0], isUnsigned); });
  }
  FloatUnary function = floatFunction(op);
  if (!function)
    return {};
  auto alpha = op->getAttrOfType<FloatAttr>("alpha");
  double parameter = alpha ? alpha.getValueAsDouble() : 0;
  return mapNumbers<APFloat>(type, x, [&](ArrayRef<APFloat> args) {
    return roundTo(element, function(asDouble(args[0]), parameter));
  });
}
