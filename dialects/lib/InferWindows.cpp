//===- InferWindows.cpp - types of convolutions, pooling and dots ---------===//
#include "mgx/IR/Mgx.h"

using namespace mlir;
using namespace mgx;

namespace {
// The attributes that windows share, and where to report about them.
struct Window {
  OptionalLocation location;
  StringRef op;
  ArrayRef<int64_t> pads, strides, dilations;

  LogicalResult check(size_t spatial) const {
    if (failed(checkLength(location, op, "pads", pads.size(), 2 * spatial)) ||
        failed(checkLength(location, op, "strides", strides.size(), spatial)) ||
        failed(checkLength(location, op, "dilations", dilations.size(), spatial)))
      return failure();
    for (int64_t pad : pads)
      if (pad < 0)
        return inferenceError(location, op, "pads must not be negative, got [", pads, "]");
    for (int64_t stride : strides)
      if (stride < 1)
        return inferenceError(location, op, "strides must be at least 1, got [", strides, "]");
    for (int64_t dilation : dilations)
      if (dilation < 1)
        return inferenceError(location, op, "dilations must be at least 1, got [", dilations, "]");
    return success();
  }

  int64_t before(size_t i) const { return pads[i]; }
  int64_t after(size_t i) const { return pads[strides.size() + i]; }
  int64_t extent(size_t i, int64_t length) const { return dilations[i] * (length - 1) + 1; }

  // The number of windows along spatial dimension i.
  LogicalResult slide(size_t i, const Dim &dim, const Dim &length, bool roundUp,
                      Dim &result) const {
    result = Dim::dynamic();
    if (length.isDynamic())
      return success();
    int64_t margin = before(i) + after(i) - (extent(i, length.size) - 1);
    if (dim.isDynamic()) {
      if (margin == 0 && strides[i] == 1)
        result = dim;
      return success();
    }
    int64_t room = dim.size + margin - 1;
    int64_t count = (roundUp ? llvm::divideCeilSigned(room, strides[i])
                             : llvm::divideFloorSigned(room, strides[i])) +
                    1;
    // Rounded up, a window that is larger than x is one where a part of a stride is missing.
    if (roundUp ? count < 0 : room < 0)
      return inferenceError(location, op, "the window of ", extent(i, length.size),
                            " elements does not fit into spatial dimension ", i, " of size ",
                            dim.size, " with pads ", before(i), " and ", after(i));
    // A window must not start in the padding after x.
    if (roundUp && (count - 1) * strides[i] >= dim.size + before(i))
      --count;
    result = Dim::of(count);
    return success();
  }
};

LogicalResult checkSpatialRank(const Window &window, Type x) {
  int64_t rank = cast<RankedTensorType>(x).getRank();
  if (rank >= 3)
    return success();
  return inferenceError(window.location, window.op,
                        "x must have batch, channel and spatial dimensions, got ", x);
}

// Whether integers of 8 bits may be multiplied: some of them without a sign, others with one.
bool areBytes(Type x, Type w) { return elementOf(x).isInteger(8) && elementOf(w).isInteger(8); }

LogicalResult checkWeights(const Window &window, Type x, Type w, int64_t group,
                           bool anyBytes = false) {
  if (failed(checkSpatialRank(window, x)))
    return failure();
  if (cast<RankedTensorType>(x).getRank() != cast<RankedTensorType>(w).getRank())
    return inferenceError(window.location, window.op, "x and w must have one rank, got ", x,
                          " and ", w);
  if (elementOf(x) != elementOf(w) && !(anyBytes && areBytes(x, w)))
    return inferenceError(window.location, window.op, "x and w must have one element type, got ",
                          elementOf(x), " and ", elementOf(w));
  if (group < 1)
    return inferenceError(window.location, window.op, "group must be at least 1, got ", group);
  return success();
}

// x (N, C, ...), w (M, C / group, ...) -> (N, M, ...), or all with their channels last.
LogicalResult inferConvolution(const Window &window, Type x, Type w, int64_t group,
                               bool channelsLast, Type element, InferredTypes &inferred,
                               bool anyBytes = false) {
  if (failed(checkWeights(window, x, w, group, anyBytes)))
    return failure();
  Dims data = dimsOf(x), weights = dimsOf(w);
  if (channelsLast) {
    std::rotate(data.begin() + 1, data.end() - 1, data.end());
    std::rotate(weights.begin() + 1, weights.end() - 1, weights.end());
  }
  size_t spatial = data.size() - 2;
  if (failed(window.check(spatial)))
    return failure();
  bool channelsKnown = !data[1].isDynamic() && !weights[1].isDynamic();
  if (channelsKnown && data[1].size != weights[1].size * group)
    return inferenceError(window.location, window.op, "x must have ", weights[1].size, " * ", group,
                          " channels (w's times group), got ", data[1].size);
  if (!weights[0].isDynamic() && weights[0].size % group != 0)
    return inferenceError(window.location, window.op, "group must divide the ", weights[0].size,
                          " filters of w, got ", group);
  Dims result = {data[0], weights[0]};
  for (size_t i = 0; i < spatial; ++i)
    if (failed(
            window.slide(i, data[2 + i], weights[2 + i], /*roundUp=*/false, result.emplace_back())))
      return failure();
  if (channelsLast)
    std::rotate(result.begin() + 1, result.begin() + 2, result.end());
  inferred.push_back(tensorOf(result, element));
  return success();
}

template <typename Adaptor> int64_t groupOf(Adaptor adaptor) {
  return intOr(adaptor.getGroupAttr(), 1);
}

// The element type that products of 8-bit and smaller elements are summed in.
Type accumulatorOf(Type element) {
  if (isa<IntegerType>(element))
    return IntegerType::get(element.getContext(), 32);
  return Float32Type::get(element.getContext());
}

LogicalResult inferDot(OptionalLocation location, StringRef op, Type a, Type b, Type element,
                       InferredTypes &inferred, bool anyKinds = false) {
  if (elementOf(a) != elementOf(b) && !anyKinds)
    return inferenceError(location, op, "a and b must have one element type, got ", elementOf(a),
                          " and ", elementOf(b));
  Dims left = dimsOf(a), right = dimsOf(b);
  size_t rank = left.size();
  if (rank < 2 || right.size() != rank)
    return inferenceError(location, op, "a and b must have one rank of at least 2, got ", a,
                          " and ", b);
  if (failed(unify(left[rank - 1], right[rank - 2])))
    return inferenceError(location, op, "the columns of a must be as many as the rows of b, got ",
                          left[rank - 1].str(), " and ", right[rank - 2].str());
  Dims result(left.begin(), left.end() - 2), batch(right.begin(), right.end() - 2);
  if (failed(unifyInto(result, batch)))
    return inferenceError(location, op, "batch dimensions must be equal, got ", str(result),
                          " and ", str(batch));
  result.push_back(left[rank - 2]);
  result.push_back(right[rank - 1]);
  inferred.push_back(tensorOf(result, element));
  return success();
}
} // namespace

LogicalResult ConvolutionOp::inferReturnTypes(MLIRContext *, OptionalLocation location,
                                              Adaptor adaptor, InferredTypes &inferred) {
  Window window{location, getOperationName(), adaptor.getPads(), adaptor.getStrides(),
                adaptor.getDilations()};
  Type x = adaptor.getX().getType(), w = adaptor.getW().getType();
  return inferConvolution(window, x, w, groupOf(adaptor), bool(adaptor.getChannelsLastAttr()),
                          elementOf(x), inferred);
}

LogicalResult QuantConvolutionOp::inferReturnTypes(MLIRContext *, OptionalLocation location,
                                                   Adaptor adaptor, InferredTypes &inferred) {
  Window window{location, getOperationName(), adaptor.getPads(), adaptor.getStrides(),
                adaptor.getDilations()};
  Type x = adaptor.getX().getType(), w = adaptor.getW().getType();
  return inferConvolution(window, x, w, groupOf(adaptor), bool(adaptor.getChannelsLastAttr()),
                          accumulatorOf(elementOf(x)), inferred, /*anyBytes=*/true);
}

LogicalResult QuantConvolutionOp::verify() {
  std::optional<int64_t> value = getPadValue();
  if (!value)
    return success();
  auto type = dyn_cast<IntegerType>(elementOf(getX().getType()));
  if (!type)
    return emitOpError("pad_value is of integers, got x of ") << elementOf(getX().getType());
  bool fits = type.isUnsigned() ? llvm::isUIntN(type.getWidth(), *value)
                                : llvm::isIntN(type.getWidth(), *value);
  if (!fits)
    return emitOpError("pad_value must be of x's type, ") << type << ", got " << *value;
  return success();
}

LogicalResult ConvolutionBackwardsOp::inferReturnTypes(MLIRContext *, OptionalLocation location,
                                                       Adaptor adaptor, InferredTypes &inferred) {
  Window window{location, getOperationName(), adaptor.getPads(), adaptor.getStrides(),
                adaptor.getDilations()};
  Type x = adaptor.getX().getType(), w = adaptor.getW().getType();
  int64_t group = groupOf(adaptor);
  if (failed(checkWeights(window, x, w, group)))
    return failure();
  Dims data = dimsOf(x), weights = dimsOf(w);
  size_t spatial = data.size() - 2;
  ArrayRef<int64_t> outputPads = adaptor.getOutputPads();
  if (failed(window.check(spatial)) ||
      failed(checkLength(location, window.op, "output_pads", outputPads.size(), spatial)))
    return failure();
  if (failed(unify(data[1], weights[0])))
    return inferenceError(location, window.op, "x must have as many channels as w has filters, ",
                          weights[0].str(), ", got ", data[1].str());
  if (!data[1].isDynamic() && data[1].size % group != 0)
    return inferenceError(location, window.op, "group must divide the ", data[1].size,
                          " channels of x, got ", group);
  Dim channels = weights[1].isDynamic() ? Dim::dynamic() : Dim::of(weights[1].size * group);
  Dims result = {data[0], channels};
  for (size_t i = 0; i < spatial; ++i) {
    const Dim &length = weights[2 + i];
    if (data[2 + i].isDynamic() || length.isDynamic()) {
      result.push_back(Dim::dynamic());
      continue;
    }
    int64_t size = (data[2 + i].size - 1) * window.strides[i] + outputPads[i] +
                   window.extent(i, length.size) - window.before(i) - window.after(i);
    if (size < 0)
      return inferenceError(location, window.op, "pads take away more than spatial dimension ", i,
                            " of the result has: its size would be ", size);
    result.push_back(Dim::of(size));
  }
  inferred.push_back(tensorOf(result, elementOf(x)));
  return success();
}

LogicalResult PoolingOp::inferReturnTypes(MLIRContext *, OptionalLocation location, Adaptor adaptor,
                                          InferredTypes &inferred) {
  Window window{location, getOperationName(), adaptor.getPads(), adaptor.getStrides(),
                adaptor.getDilations()};
  Type x = adaptor.getX().getType();
  if (failed(checkSpatialRank(window, x)))
    return failure();
  Dims data = dimsOf(x);
  size_t spatial = data.size() - 2;
  ArrayRef<int64_t> lengths = adaptor.getLengths();
  if (failed(window.check(spatial)) ||
      failed(checkLength(location, window.op, "lengths", lengths.size(), spatial)))
    return failure();
  for (int64_t length : lengths)
    if (length < 1)
      return inferenceError(location, window.op, "lengths must be at least 1, got [", lengths, "]");
  Dims result = {data[0], data[1]};
  for (size_t i = 0; i < spatial; ++i)
    if (failed(window.slide(i, data[2 + i], Dim::of(lengths[i]),
                            valueOr(adaptor.getCeilModeAttr(), false), result.emplace_back())))
      return failure();
  inferred.push_back(tensorOf(result, elementOf(x)));
  return success();
}

LogicalResult DotOp::inferReturnTypes(MLIRContext *, OptionalLocation location, Adaptor adaptor,
                                      InferredTypes &inferred) {
  Type a = adaptor.getA().getType(), b = adaptor.getB().getType();
  return inferDot(location, getOperationName(), a, b, elementOf(a), inferred);
}

LogicalResult QuantDotOp::inferReturnTypes(MLIRContext *, OptionalLocation location,
                                           Adaptor adaptor, InferredTypes &inferred) {
  Type a = adaptor.getA().getType(), b = adaptor.getB().getType();
  auto isByteFloat = [](Type type) {
    return isa<FloatType>(type) && type.getIntOrFloatBitWidth() == 8;
  };
  return inferDot(location, getOperationName(), a, b, accumulatorOf(elementOf(a)), inferred,
                  (isByteFloat(elementOf(a)) && isByteFloat(elementOf(b))) || areBytes(a, b));
}
