//===- Dims.cpp - sizes and names of dimensions ---------------------------===//
#include "mgx/IR/Dims.h"
#include "mgx/IR/Mgx.h"

using namespace mlir;
using namespace mgx;

DimAttr Dim::getSymbol() const { return cast_or_null<DimAttr>(symbol); }

std::string Dim::str() const {
  if (!isDynamic())
    return std::to_string(size);
  return symbol ? getSymbol().getName().str() : "?";
}

std::string mgx::str(ArrayRef<Dim> dims) {
  std::string text;
  llvm::raw_string_ostream stream(text);
  stream << "[";
  llvm::interleave(dims, stream, [&](const Dim &dim) { stream << dim.str(); }, "x");
  stream << "]";
  return text;
}

Dims mgx::dimsOf(Type type) {
  auto tensor = cast<RankedTensorType>(type);
  auto symbols = dyn_cast_or_null<DimsAttr>(tensor.getEncoding());
  Dims dims;
  for (auto [i, size] : llvm::enumerate(tensor.getShape()))
    dims.push_back(Dim{size, symbols ? Attribute(symbols.getDims()[i]) : Attribute()});
  return dims;
}

RankedTensorType mgx::tensorOf(ArrayRef<Dim> dims, Type element) {
  SmallVector<int64_t> shape;
  SmallVector<DimAttr> symbols;
  bool named = false;
  for (const Dim &dim : dims) {
    shape.push_back(dim.size);
    symbols.push_back(dim.getSymbol());
    named |= bool(dim.symbol);
  }
  Attribute encoding;
  if (named)
    encoding = DimsAttr::get(element.getContext(), symbols);
  return RankedTensorType::get(shape, element, encoding);
}

static bool isInBounds(int64_t size, DimAttr symbol) {
  return size >= symbol.getMin() && (symbol.getMax() < 0 || size <= symbol.getMax());
}

FailureOr<Dim> mgx::unify(const Dim &a, const Dim &b) {
  if (a.isDynamic() && b.isDynamic())
    return a.symbol ? a : b;
  if (a.isDynamic())
    return unify(b, a);
  bool agree = b.isDynamic() ? !b.symbol || isInBounds(a.size, b.getSymbol()) : a.size == b.size;
  if (!agree)
    return failure();
  return a;
}

LogicalResult mgx::unifyInto(Dims &a, ArrayRef<Dim> b) {
  if (a.size() != b.size())
    return failure();
  for (auto [into, other] : llvm::zip_equal(a, b)) {
    FailureOr<Dim> merged = unify(into, other);
    if (failed(merged))
      return failure();
    into = *merged;
  }
  return success();
}

bool mgx::areKnownEqual(const Dim &a, const Dim &b) {
  if (a.isDynamic() != b.isDynamic())
    return false;
  if (!a.isDynamic())
    return a.size == b.size;
  return a.symbol && b.symbol && a.getSymbol().getName() == b.getSymbol().getName();
}

Type mgx::elementOf(Type type) { return getElementTypeOrSelf(type); }

static bool areCompatible(Type a, Type b) {
  if (a == b)
    return true;
  if (elementOf(a) != elementOf(b))
    return false;
  if (!isa<RankedTensorType>(a) || !isa<RankedTensorType>(b))
    return false;
  Dims merged = dimsOf(a);
  return succeeded(unifyInto(merged, dimsOf(b)));
}

bool mgx::areCompatible(TypeRange inferred, TypeRange actual) {
  return inferred.size() == actual.size() &&
         llvm::all_of(llvm::zip_equal(inferred, actual), [](auto pair) {
           return ::areCompatible(std::get<0>(pair), std::get<1>(pair));
         });
}
