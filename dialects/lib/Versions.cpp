//===- Versions.cpp - what each version of the stored form added ----------===//
#include "mgx/IR/Mgx.h"
#include "mgx/IR/Version.h"

using namespace mlir;
using namespace mgx;

namespace {
// Attributes that ops got after they came, and the minor version that they came with.
// Sorted. An op of the table encodes its properties by hand (useCustomPropertiesEncoding).
struct AddedAttribute {
  StringLiteral op, attribute;
  unsigned minor;
};
constexpr AddedAttribute addedAttributes[] = {
    {"mgx.attention", "earliest", 1},          {"mgx.attention", "empty_as_zero", 1},
    {"mgx.attention", "nan_as_zero", 1},       {"mgx.convolution", "channels_last", 1},
    {"mgx.convolution", "relaxed", 1},         {"mgx.quant_convolution", "channels_last", 1},
    {"mgx.quant_convolution", "pad_value", 1}, {"mgx.quantizelinear", "precision", 1},
};

template <unsigned... minors>
unsigned minorOf(OperationName op, std::integer_sequence<unsigned, minors...>) {
  unsigned found = 0;
  ((found = op.hasTrait<Since<minors>::template Impl>() ? minors : found), ...);
  return found;
}
} // namespace

Version mgx::versionOf(OperationName op) {
  return Version(1, minorOf(op, std::make_integer_sequence<unsigned, Version::currentMinor + 1>()));
}

Requirement mgx::requirementOf(Operation *top) {
  Requirement found;
  auto require = [&](Version version, const Twine &reason) {
    if (found.version < version)
      found = {version, reason.str()};
  };
  top->walk([&](Operation *op) {
    StringRef name = op->getName().getStringRef();
    require(versionOf(op->getName()), name);
    for (const AddedAttribute &added : addedAttributes)
      if (name == added.op && op->getInherentAttr(added.attribute).value_or(Attribute()))
        require(Version(1, added.minor), "attribute " + added.attribute + " of " + name);
    if (auto dot = dyn_cast<QuantDotOp>(op))
      if (dot.getA().getType().getElementType() != dot.getB().getType().getElementType())
        require(Version(1, 1), "operands of two kinds of " + name);
    if (auto convolution = dyn_cast<QuantConvolutionOp>(op))
      if (elementOf(convolution.getX().getType()) != elementOf(convolution.getW().getType()))
        require(Version(1, 1), "operands of two kinds of " + name);
    if (isa<LoopOp>(op) && op->getParentOfType<KernelOp>())
      require(Version(1, 1), name + " in a kernel");
  });
  return found;
}

//===----------------------------------------------------------------------===//
// Properties of ops that got attributes
//===----------------------------------------------------------------------===//

// An op without the added attributes has the bytes that it had before they came. With them,
// a dictionary of all attributes stands where the first one stood: a reader of an older
// version refuses the dictionary, instead of missing what it does not know.
template <typename Op> static void writeAll(Op op, DialectBytecodeWriter &writer) {
  writer.writeOptionalAttribute(op.getPropertiesAsAttr(op.getContext(), op.getProperties()));
}

// Properties of an op that had one attribute, an optional one, when it came.
template <typename Op, typename Attr>
static LogicalResult readOnly(DialectBytecodeReader &reader, OperationState &state,
                              Attr Op::Properties::*only, StringRef kind) {
  auto &properties = state.getOrAddProperties<typename Op::Properties>();
  auto emitError = [&] { return reader.emitError(); };
  Attribute first;
  if (failed(reader.readOptionalAttribute(first)))
    return failure();
  if (auto all = dyn_cast_or_null<DictionaryAttr>(first))
    return Op::setPropertiesFromAttr(properties, all, emitError);
  properties.*only = dyn_cast_or_null<Attr>(first);
  if (first && !(properties.*only))
    return emitError() << Op::getOperationName() << " has " << kind << ", got " << first;
  return success();
}

LogicalResult QuantizelinearOp::readProperties(DialectBytecodeReader &reader,
                                               OperationState &state) {
  return readOnly<QuantizelinearOp>(reader, state, &Properties::saturate, "a bool saturate");
}

void QuantizelinearOp::writeProperties(DialectBytecodeWriter &writer) {
  if (getPrecisionAttr())
    return writeAll(*this, writer);
  writer.writeOptionalAttribute(getProperties().saturate);
}

LogicalResult AttentionOp::readProperties(DialectBytecodeReader &reader, OperationState &state) {
  return readOnly<AttentionOp>(reader, state, &Properties::causal, "an integer causal");
}

void AttentionOp::writeProperties(DialectBytecodeWriter &writer) {
  if (getNanAsZero() || getEarliestAttr() || getEmptyAsZero())
    return writeAll(*this, writer);
  writer.writeOptionalAttribute(getProperties().causal);
}

template <typename Op>
static LogicalResult readConvolution(DialectBytecodeReader &reader, OperationState &state) {
  auto &properties = state.getOrAddProperties<typename Op::Properties>();
  Attribute first;
  if (failed(reader.readAttribute(first)))
    return failure();
  if (auto all = dyn_cast<DictionaryAttr>(first))
    return Op::setPropertiesFromAttr(properties, all, [&] { return reader.emitError(); });
  properties.dilations = dyn_cast<DenseI64ArrayAttr>(first);
  if (!properties.dilations)
    return reader.emitError() << "dilations of " << Op::getOperationName()
                              << " must be an array of i64, got " << first;
  if (failed(reader.readOptionalAttribute(properties.group)) ||
      failed(reader.readAttribute(properties.pads)))
    return failure();
  return reader.readAttribute(properties.strides);
}

template <typename Op>
static void writeConvolution(Op op, DialectBytecodeWriter &writer, bool isNew) {
  auto &properties = op.getProperties();
  if (isNew)
    return writer.writeAttribute(op.getPropertiesAsAttr(op.getContext(), properties));
  writer.writeAttribute(properties.dilations);
  writer.writeOptionalAttribute(properties.group);
  writer.writeAttribute(properties.pads);
  writer.writeAttribute(properties.strides);
}

LogicalResult ConvolutionOp::readProperties(DialectBytecodeReader &reader, OperationState &state) {
  return readConvolution<ConvolutionOp>(reader, state);
}

void ConvolutionOp::writeProperties(DialectBytecodeWriter &writer) {
  writeConvolution(*this, writer, getChannelsLast() || getRelaxed());
}

LogicalResult QuantConvolutionOp::readProperties(DialectBytecodeReader &reader,
                                                 OperationState &state) {
  return readConvolution<QuantConvolutionOp>(reader, state);
}

void QuantConvolutionOp::writeProperties(DialectBytecodeWriter &writer) {
  writeConvolution(*this, writer, getChannelsLast() || getPadValueAttr());
}
