//===- FoldBinary.cpp - binary ops of constants, and neutral elements -----===//
#include "Elements.h"
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

// The function of an op on floats; null where it has none.
static FloatBinary floatFunction(Operation *op) {
  static const OpFunction<FloatBinary> functions[] = {
      of<AddOp, FloatBinary>([](double a, double b) { return a + b; }),
      of<DivOp, FloatBinary>([](double a, double b) { return a / b; }),
      of<FmodOp, FloatBinary>([](double a, double b) { return std::fmod(a, b); }),
      of<MaxOp, FloatBinary>(larger),
      of<MinOp, FloatBinary>(smaller),
      of<ModOp, FloatBinary>(modulo),
      of<MulOp, FloatBinary>([](double a, double b) { return a * b; }),
      of<PowOp, FloatBinary>([](double a, double b) { return std::pow(a, b); }),
      of<PreluOp, FloatBinary>([](double a, double b) { return a > 0 ? a : a * b; }),
      of<SqdiffOp, FloatBinary>([](double a, double b) { return (a - b) * (a - b); }),
      of<SubOp, FloatBinary>([](double a, double b) { return a - b; }),
  };
  return functionOf(functions, op);
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

static std::optional<APInt> divide(Operation *op, const APInt &a, const APInt &b, bool isUnsigned) {
  if (b.isZero() || (!isUnsigned && a.isMinSignedValue() && b.isAllOnes()))
    return std::nullopt;
  if (isa<DivOp>(op))
    return isUnsigned ? a.udiv(b) : a.sdiv(b);
  APInt rest = isUnsigned ? a.urem(b) : a.srem(b);
  bool wrongSign = !isUnsigned && !rest.isZero() && rest.isNegative() != b.isNegative();
  return isa<ModOp>(op) && wrongSign ? rest + b : rest;
}

static std::optional<APInt> shift(Operation *op, const APInt &a, const APInt &b, bool isUnsigned) {
  if (b.uge(a.getBitWidth()))
    return std::nullopt;
  if (isa<ShiftLeftOp>(op))
    return a.shl(b);
  return isUnsigned ? a.lshr(b) : a.ashr(b);
}

static std::optional<APInt> computeInt(Operation *op, const APInt &a, const APInt &b,
                                       bool isUnsigned) {
  bool less = isUnsigned ? a.ult(b) : a.slt(b);
  if (isa<AddOp>(op))
    return a + b;
  if (isa<SubOp>(op))
    return a - b;
  if (isa<MulOp>(op))
    return a * b;
  if (isa<DivOp, FmodOp, ModOp>(op))
    return divide(op, a, b, isUnsigned);
  if (isa<PowOp>(op))
    return power(a, b, isUnsigned);
  if (isa<MaxOp>(op))
    return less ? b : a;
  if (isa<MinOp>(op))
    return less ? a : b;
  if (isa<SqdiffOp>(op))
    return (a - b) * (a - b);
  if (isa<PreluOp>(op))
    return !isUnsigned && a.isNegative() ? a * b : a;
  if (isa<BitwiseAndOp, LogicalAndOp>(op))
    return a & b;
  if (isa<BitwiseOrOp, LogicalOrOp>(op))
    return a | b;
  if (isa<BitwiseXorOp, LogicalXorOp>(op))
    return a ^ b;
  if (isa<ShiftLeftOp, ShiftRightOp>(op))
    return shift(op, a, b, isUnsigned);
  return std::nullopt;
}

//===----------------------------------------------------------------------===//
// Folders
//===----------------------------------------------------------------------===//

// Whether `a op b` is a for every a. A constant of a commutative op stands on the right.
static bool isNeutralRight(Operation *op, Attribute b) {
  std::optional<int> neutral = neutralRightOf(op->getName());
  if (!neutral || !isAll(b, *neutral))
    return false;
  // -0 + 0 is 0, as -0 - -0 is: mgx-eliminate-identities drops those where signs may differ.
  FailureOr<Numbers<APFloat>> floats = readNumbers<APFloat>(b);
  return *neutral != 0 || failed(floats) ||
         llvm::all_of(*floats, [&](const APFloat &f) { return f.isNegative() == isa<AddOp>(op); });
}

// `x op x` is x.
static bool isIdempotent(Operation *op) {
  return isa<BitwiseAndOp, BitwiseOrOp, LogicalAndOp, LogicalOrOp, MaxOp, MinOp>(op);
}

OpFoldResult mgx::foldBinary(Operation *op, Attribute a, Attribute b) {
  Type type = op->getResult(0).getType(), element = elementOf(type);
  Value left = op->getOperand(0), right = op->getOperand(1);
  if (left.getType() == type) {
    if (b && isNeutralRight(op, b))
      return left;
    if (left == right && isIdempotent(op))
      return left;
  }
  if (!a || !b)
    return {};
  if (isa<IntegerType>(element)) {
    bool isUnsigned = element.isUnsignedInteger();
    return mapNumbers<APInt>(type, {a, b}, [&](ArrayRef<APInt> args) {
      return computeInt(op, args[0], args[1], isUnsigned);
    });
  }
  FloatBinary function = floatFunction(op);
  if (!function)
    return {};
  return mapNumbers<APFloat>(type, {a, b}, [&](ArrayRef<APFloat> args) {
    return roundTo(element, function(asDouble(args[0]), asDouble(args[1])));
  });
}

OpFoldResult mgx::foldCompare(Operation *op, Attribute a, Attribute b) {
  bool isEqual = isa<EqualOp>(op), isLess = isa<LessOp>(op);
  Type type = op->getResult(0).getType(), element = elementOf(op->getOperand(0).getType());
  if (!a || !b)
    return {};
  auto asBool = [](bool value) { return std::optional<APInt>(APInt(1, value)); };
  if (isa<FloatType>(element))
    return mapNumbers<APFloat, APInt>(type, {a, b}, [&](ArrayRef<APFloat> args) {
      double x = asDouble(args[0]), y = asDouble(args[1]);
      return asBool(isEqual ? x == y : isLess ? x < y : x > y);
    });
  bool isUnsigned = element.isUnsignedInteger() || element.isInteger(1);
  return mapNumbers<APInt, APInt>(type, {a, b}, [&](ArrayRef<APInt> args) {
    const APInt &x = args[0], &y = args[1];
    if (isEqual)
      return asBool(x == y);
    const APInt &low = isLess ? x : y, &high = isLess ? y : x;
    return asBool(isUnsigned ? low.ult(high) : low.slt(high));
  });
}
