//===- Elements.cpp - constants, element by element -----------------------===//
#include "Elements.h"

using namespace mlir;
using namespace mgx;
using llvm::APFloat;
using llvm::APInt;

static bool isSmall(DenseElementsAttr elements) {
  return elements.isSplat() || elements.getNumElements() <= kMostFoldedElements;
}

template <typename Number, typename Scalar>
static FailureOr<Numbers<Number>> read(Attribute constant) {
  if (auto scalar = dyn_cast_or_null<Scalar>(constant))
    return Numbers<Number>{scalar.getValue()};
  auto elements = dyn_cast_or_null<DenseElementsAttr>(constant);
  bool isKind =
      elements && isa<FloatType>(elements.getElementType()) == std::is_same_v<Number, APFloat>;
  if (!isKind || !isSmall(elements) || elements.empty())
    return failure();
  if (elements.isSplat())
    return Numbers<Number>{elements.getSplatValue<Number>()};
  return Numbers<Number>(elements.value_begin<Number>(), elements.value_end<Number>());
}

template <> FailureOr<Numbers<APFloat>> mgx::readNumbers<APFloat>(Attribute constant) {
  return read<APFloat, FloatAttr>(constant);
}
template <> FailureOr<Numbers<APInt>> mgx::readNumbers<APInt>(Attribute constant) {
  return read<APInt, IntegerAttr>(constant);
}

template <typename Number, typename Scalar>
static Attribute write(Type type, ArrayRef<Number> numbers) {
  auto tensor = dyn_cast<RankedTensorType>(type);
  if (!tensor)
    return Scalar::get(type, numbers.front());
  if (!tensor.hasStaticShape() || tensor.getEncoding())
    return {};
  return DenseElementsAttr::get(tensor, numbers);
}

template <> Attribute mgx::writeNumbers<APFloat>(Type type, ArrayRef<APFloat> numbers) {
  return write<APFloat, FloatAttr>(type, numbers);
}
template <> Attribute mgx::writeNumbers<APInt>(Type type, ArrayRef<APInt> numbers) {
  return write<APInt, IntegerAttr>(type, numbers);
}

Attribute mgx::pickElements(Type type, Attribute constant,
                            function_ref<int64_t(ArrayRef<int64_t>)> source) {
  auto elements = dyn_cast_or_null<DenseElementsAttr>(constant);
  auto tensor = cast<RankedTensorType>(type);
  if (!elements || !tensor.hasStaticShape() || tensor.getEncoding())
    return {};
  if (elements.isSplat())
    return DenseElementsAttr::get(tensor, elements.getSplatValue<Attribute>());
  if (std::max(tensor.getNumElements(), elements.getNumElements()) > kMostFoldedElements)
    return {};
  SmallVector<Attribute> from(elements.value_begin<Attribute>(), elements.value_end<Attribute>());
  SmallVector<Attribute> picked;
  SmallVector<int64_t> index(tensor.getRank(), 0);
  for (int64_t i = 0, count = tensor.getNumElements(); i < count; ++i) {
    picked.push_back(from[source(index)]);
    for (int64_t d = tensor.getRank() - 1; d >= 0; --d) {
      if (++index[d] < tensor.getDimSize(d))
        break;
      index[d] = 0;
    }
  }
  return DenseElementsAttr::get(tensor, picked);
}

double mgx::asDouble(APFloat value) {
  bool loses;
  value.convert(APFloat::IEEEdouble(), APFloat::rmNearestTiesToEven, &loses);
  return value.convertToDouble();
}

std::optional<APFloat> mgx::roundTo(Type type, double value) {
  APFloat rounded(value);
  bool loses;
  APFloat::opStatus status = rounded.convert(cast<FloatType>(type).getFloatSemantics(),
                                             APFloat::rmNearestTiesToEven, &loses);
  // An infinity or NaN that the format lacks, or an overflow: the hardware's rule may
  // differ from APFloat's.
  if (status & (APFloat::opOverflow | APFloat::opInvalidOp))
    return std::nullopt;
  if (rounded.isNaN() != std::isnan(value) || rounded.isInfinity() != std::isinf(value))
    return std::nullopt;
  return rounded;
}

bool mgx::isAll(Attribute constant, double number) {
  if (FailureOr<Numbers<APFloat>> floats = readNumbers<APFloat>(constant); succeeded(floats))
    return llvm::all_of(*floats, [&](const APFloat &f) { return asDouble(f) == number; });
  FailureOr<Numbers<APInt>> ints = readNumbers<APInt>(constant);
  if (failed(ints))
    return false;
  return llvm::all_of(*ints, [&](const APInt &i) {
    return i == APInt(i.getBitWidth(), static_cast<int64_t>(number), /*isSigned=*/true,
                      /*implicitTrunc=*/true);
  });
}
