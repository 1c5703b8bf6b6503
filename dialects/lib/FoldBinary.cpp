//===- FoldBinary.cpp - binary ops of constants, and neutral elements -----===//
#include "Elements.h"
#include "llvm/ADT/StringSwitch.h"
#include <cmath>

using namespace mlir;
using namespace mgx;
using llvm::APFloat;
using llvm::APInt;

//===----------------------------------------------------------------------===//
// Floats
//===----------------------------------------------------------------------===//

// The remainder with the sign of b.
static double modulo(double a, double b) {
  double rest = std::fmod(a, b);
  return rest != 0 && (rest < 0) != (b < 0) ? rest + b : rest;
}

static double larger(double a, double b) {
  return std::isnan(a) || std::isnan(b) ? std::nan("") : std::max(a, b);
}
static double smaller(double a, double b) {
  return std::isnan(a) || std::isnan(b) ? std::nan("") : std::min(a, b);
}

using FloatBinary = double (*)(double, double);

static FloatBinary floatFunction(StringRef name) {
  return llvm::StringSwitch<FloatBinary>(name)
      .Case("mgx.add", [](double a, double b) { return a + b; })
      .Case("mgx.div", [](double a, double b) { return a / b; })
      .Case("mgx.fmod", [](double a, double b) { return std::fmod(a, b); })
      .Case("mgx.max", larger)
      .Case("mgx.min", smaller)
      .Case("mgx.mod", modulo)
      .Case("mgx.mul", [](double a, double b) { return a * b; })
      .Case("mgx.pow", [](double a, double b) { return std::pow(a, b); })
      .Case("mgx.prelu", [](double a, double b) { return a > 0 ? a : a * b; })
      .Case("mgx.sqdiff", [](double a, double b) { return (a - b) * (a - b); })
      .Case("mgx.sub", [](double a, double b) { return a - b; })
      .Default(nullptr);
}

//===----------------------------------------------------------------------===//
// Integers
//===----------------------------------------------------------------------===//

static std::optional<APInt> power(APInt base, const APInt &exponent, bool isUnsigned) {
  if (!isUnsigned && exponent.isNegative())
    return std::nullopt;
  APInt result(base.getBitWidth(), 1, /*isSigned=*/false, /*implicitTrunc=*/true);
  for (unsigned bit = 0; bit < exponent.getActiveBits(); ++bit) {
    if (exponent[bit])
      result *= base;
    base *= base;
  }
  return result;
}

static std::optional<APInt> divide(StringRef name, const APInt &a, const APInt &b,
                                   bool isUnsigned) {
  if (b.isZero() || (!isUnsigned && a.isMinSignedValue() && b.isAllOnes()))
    return std::nullopt;
  if (name == "mgx.div")
    return isUnsigned ? a.udiv(b) : a.sdiv(b);
  APInt rest = isUnsigned ? a.urem(b) : a.srem(b);
  bool wrongSign = !isUnsigned && !rest.isZero() && rest.isNegative() != b.isNegative();
  return name == "mgx.mod" && wrongSign ? rest + b : rest;
}

static std::optional<APInt> shift(StringRef name, const APInt &a, const APInt &b, bool isUnsigned) {
  if (b.uge(a.getBitWidth()))
    return std::nullopt;
  if (name == "mgx.shift_left")
    return a.shl(b);
  return isUnsigned ? a.lshr(b) : a.ashr(b);
}

static std::optional<APInt> computeInt(StringRef name, const APInt &a, const APInt &b,
                                       bool isUnsigned) {
  bool less = isUnsigned ? a.ult(b) : a.slt(b);
  if (name == "mgx.add")
    return a + b;
  if (name == "mgx.sub")
    return a - b;
  if (name == "mgx.mul")
    return a * b;
  if (name == "mgx.div" || name == "mgx.fmod" || name == "mgx.mod")
    return divide(name, a, b, isUnsigned);
  if (name == "mgx.pow")
    return power(a, b, isUnsigned);
  if (name == "mgx.max")
    return less ? b : a;
  if (name == "mgx.min")
    return less ? a : b;
  if (name == "mgx.sqdiff")
    return (a - b) * (a - b);
  if (name == "mgx.prelu")
    return !isUnsigned && a.isNegative() ? a * b : a;
  if (name == "mgx.bitwise_and" || name == "mgx.logical_and")
    return a & b;
  if (name == "mgx.bitwise_or" || name == "mgx.logical_or")
    return a | b;
  if (name == "mgx.bitwise_xor" || name == "mgx.logical_xor")
    return a ^ b;
  if (name == "mgx.shift_left" || name == "mgx.shift_right")
    return shift(name, a, b, isUnsigned);
  return std::nullopt;
}

//===----------------------------------------------------------------------===//
// Folders
//===----------------------------------------------------------------------===//

// Whether `a op b` is a for every a. A constant of a commutative op stands on the right.
static bool isNeutralRight(StringRef name, Attribute b) {
  constexpr double none = 0.5;
  double neutral = llvm::StringSwitch<double>(name)
                       .Cases({"mgx.add", "mgx.sub", "mgx.bitwise_or", "mgx.bitwise_xor"}, 0)
                       .Cases({"mgx.logical_or", "mgx.logical_xor"}, 0)
                       .Cases({"mgx.shift_left", "mgx.shift_right"}, 0)
                       .Cases({"mgx.mul", "mgx.div", "mgx.pow", "mgx.prelu"}, 1)
                       .Cases({"mgx.bitwise_and", "mgx.logical_and"}, -1)
                       .Default(none);
  return neutral != none && isAll(b, neutral);
}

// `x op x` is x.
const StringRef idempotents[] = {"mgx.bitwise_and", "mgx.bitwise_or", "mgx.logical_and",
                                 "mgx.logical_or",  "mgx.max",        "mgx.min"};

OpFoldResult mgx::foldBinary(Operation *op, Attribute a, Attribute b) {
  StringRef name = op->getName().getStringRef();
  Type type = op->getResult(0).getType(), element = elementOf(type);
  Value left = op->getOperand(0), right = op->getOperand(1);
  if (left.getType() == type) {
    if (b && isNeutralRight(name, b))
      return left;
    if (left == right && llvm::is_contained(idempotents, name))
      return left;
  }
  if (!a || !b)
    return {};
  if (isa<IntegerType>(element)) {
    bool isUnsigned = element.isUnsignedInteger();
    return mapNumbers<APInt>(type, {a, b}, [&](ArrayRef<APInt> args) {
      return computeInt(name, args[0], args[1], isUnsigned);
    });
  }
  FloatBinary function = floatFunction(name);
  if (!function)
    return {};
  return mapNumbers<APFloat>(type, {a, b}, [&](ArrayRef<APFloat> args) {
    return roundTo(element, function(asDouble(args[0]), asDouble(args[1])));
  });
}

OpFoldResult mgx::foldCompare(Operation *op, Attribute a, Attribute b) {
  StringRef name = op->getName().getStringRef();
  Type type = op->getResult(0).getType(), element = elementOf(op->getOperand(0).getType());
  if (!a || !b)
    return {};
  auto asBool = [](bool value) { return std::optional<APInt>(APInt(1, value)); };
  if (isa<FloatType>(element))
    return mapNumbers<APFloat, APInt>(type, {a, b}, [&](ArrayRef<APFloat> args) {
      double x = asDouble(args[0]), y = asDouble(args[1]);
      return asBool(name == "mgx.equal" ? x == y : name == "mgx.less" ? x < y : x > y);
    });
  bool isUnsigned = element.isUnsignedInteger() || element.isInteger(1);
  return mapNumbers<APInt, APInt>(type, {a, b}, [&](ArrayRef<APInt> args) {
    const APInt &x = args[0], &y = args[1];
    if (name == "mgx.equal")
      return asBool(x == y);
    const APInt &low = name == "mgx.less" ? x : y, &high = name == "mgx.less" ? y : x;
    return asBool(isUnsigned ? low.ult(high) : low.slt(high));
  });
}
