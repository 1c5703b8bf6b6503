//===- FoldElementwise.cpp - convert, where, clip -------------------------===//
#include "Elements.h"
#include <cmath>

using namespace mlir;
using namespace mgx;
using llvm::APFloat;
using llvm::APInt;

//===----------------------------------------------------------------------===//
// convert
//===----------------------------------------------------------------------===//

// Whether every value of `narrow` is one of `wide`.
static bool holdsAll(Type wide, Type narrow) {
  auto w = dyn_cast<FloatType>(wide), n = dyn_cast<FloatType>(narrow);
  if (w && n)
    return APFloat::isRepresentableBy(n.getFloatSemantics(), w.getFloatSemantics());
  auto wi = dyn_cast<IntegerType>(wide), ni = dyn_cast<IntegerType>(narrow);
  return wi && ni && wi.isUnsigned() == ni.isUnsigned() && wi.getWidth() >= ni.getWidth() &&
         !ni.isInteger(1);
}

static std::optional<APFloat> floatOf(Type type, const APInt &value, bool isUnsigned) {
  // Beyond 2^53 a double would round, and the result would be rounded twice.
  if (value.getSignificantBits() > 53)
    return std::nullopt;
  return roundTo(type, isUnsigned ? value.roundToDouble() : value.signedRoundToDouble());
}

static std::optional<APInt> intOf(IntegerType type, double value) {
  if (type.isInteger(1))
    return APInt(1, value != 0);
  double whole = std::trunc(value);
  unsigned bits = type.getWidth() - (type.isUnsigned() ? 0 : 1);
  double least = type.isUnsigned() ? 0 : -std::ldexp(1.0, bits);
  // Targets do not agree on the result of a value out of range.
  if (!(whole >= least && whole < std::ldexp(1.0, bits)))
    return std::nullopt;
  bool isNegative = whole < 0;
  APInt magnitude(type.getWidth() + 1, static_cast<uint64_t>(std::fabs(whole)));
  return (isNegative ? -magnitude : magnitude).trunc(type.getWidth());
}

static Attribute convertConstant(Type type, Type from, Attribute x) {
  Type to = elementOf(type);
  bool isUnsigned = from.isUnsignedInteger() || from.isInteger(1);
  auto toInt = dyn_cast<IntegerType>(to);
  if (isa<FloatType>(from) && !toInt)
    return mapNumbers<APFloat>(
        type, x, [&](ArrayRef<APFloat> args) { return roundTo(to, asDouble(args[0])); });
  if (isa<FloatType>(from))
    return mapNumbers<APFloat, APInt>(
        type, x, [&](ArrayRef<APFloat> args) { return intOf(toInt, asDouble(args[0])); });
  if (!toInt)
    return mapNumbers<APInt, APFloat>(
        type, x, [&](ArrayRef<APInt> args) { return floatOf(to, args[0], isUnsigned); });
  return mapNumbers<APInt>(type, x, [&](ArrayRef<APInt> args) -> std::optional<APInt> {
    if (to.isInteger(1))
      return APInt(1, !args[0].isZero());
    unsigned width = toInt.getWidth();
    return isUnsigned ? args[0].zextOrTrunc(width) : args[0].sextOrTrunc(width);
  });
}

OpFoldResult ConvertOp::fold(FoldAdaptor adaptor) {
  if (getX().getType() == getY().getType())
    return getX();
  Type from = elementOf(getX().getType());
  // There and back through a type that holds every value changes nothing.
  auto inner = getX().getDefiningOp<ConvertOp>();
  if (inner && inner.getX().getType() == getY().getType() &&
      holdsAll(from, elementOf(getY().getType())))
    return inner.getX();
  return convertConstant(getY().getType(), from, adaptor.getX());
}

//===----------------------------------------------------------------------===//
// where, clip
//===----------------------------------------------------------------------===//

OpFoldResult WhereOp::fold(FoldAdaptor adaptor) {
  Type type = getY().getType();
  if (getA() == getB() && getA().getType() == type)
    return getA();
  FailureOr<Numbers<APInt>> condition = readNumbers<APInt>(adaptor.getCondition());
  if (failed(condition) || condition->size() != 1)
    return {};
  Value chosen = condition->front().isZero() ? getB() : getA();
  return chosen.getType() == type ? chosen : OpFoldResult();
}

OpFoldResult ClipOp::fold(FoldAdaptor adaptor) {
  Attribute operands[] = {adaptor.getX(), adaptor.getMin(), adaptor.getMax()};
  if (llvm::any_of(operands, [](Attribute operand) { return !operand; }))
    return {};
  Type type = getY().getType(), element = elementOf(type);
  if (isa<FloatType>(element))
    return mapNumbers<APFloat>(type, operands, [&](ArrayRef<APFloat> args) {
      double x = asDouble(args[0]), low = asDouble(args[1]), high = asDouble(args[2]);
      double bounded = std::isnan(x) ? x : std::min(std::max(x, low), high);
      return roundTo(element, bounded);
    });
  bool isUnsigned = element.isUnsignedInteger();
  return mapNumbers<APInt>(type, operands, [&](ArrayRef<APInt> args) -> std::optional<APInt> {
    auto less = [&](const APInt &a, const APInt &b) { return isUnsigned ? a.ult(b) : a.slt(b); };
    const APInt &atLeast = less(args[0], args[1]) ? args[1] : args[0];
    return less(args[2], atLeast) ? args[2] : atLeast;
  });
}
