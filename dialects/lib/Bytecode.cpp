//===- Bytecode.cpp - the stored form of the dialect ----------------------===//
#include "Bytecode.h"
#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;
using namespace mgx;

namespace {
// The code before each attribute. The numbers are part of the stored form.
enum class Code : uint64_t {
  dim = 0,
  dims = 1,
  arch = 2,
  poolingMode = 3,
  padMode = 4,
  resizeMode = 5,
  coordinateMode = 6,
  nearestMode = 7,
};

void begin(DialectBytecodeWriter &writer, Code code) {
  writer.writeVarInt(static_cast<uint64_t>(code));
}

template <typename EnumAttr>
void writeEnum(DialectBytecodeWriter &writer, Code code, EnumAttr attribute) {
  begin(writer, code);
  writer.writeVarInt(static_cast<uint64_t>(attribute.getValue()));
}

template <typename EnumAttr, typename Symbolize>
Attribute readEnum(DialectBytecodeReader &reader, Symbolize symbolize) {
  uint64_t value;
  if (failed(reader.readVarInt(value)))
    return {};
  if (auto known = symbolize(static_cast<uint32_t>(value)))
    return EnumAttr::get(reader.getContext(), *known);
  reader.emitError() << "unknown value " << value << " of an mgx enumeration";
  return {};
}

void writeDim(DialectBytecodeWriter &writer, DimAttr dim) {
  begin(writer, Code::dim);
  writer.writeOwnedString(dim.getName());
  writer.writeSignedVarInt(dim.getMin());
  writer.writeSignedVarInt(dim.getMax());
  writer.writeSignedVarInts(dim.getOptimals());
}

Attribute readDim(DialectBytecodeReader &reader) {
  StringRef name;
  int64_t min, max;
  SmallVector<int64_t> optimals;
  if (failed(reader.readString(name)) || failed(reader.readSignedVarInt(min)) ||
      failed(reader.readSignedVarInt(max)) || failed(reader.readSignedVarInts(optimals)))
    return {};
  return DimAttr::getChecked([&] { return reader.emitError(); }, reader.getContext(), name, min,
                             max, ArrayRef<int64_t>(optimals));
}

void writeDims(DialectBytecodeWriter &writer, DimsAttr dims) {
  begin(writer, Code::dims);
  writer.writeVarInt(dims.getDims().size());
  for (DimAttr dim : dims.getDims())
    writer.writeOptionalAttribute(dim);
}

Attribute readDims(DialectBytecodeReader &reader) {
  SmallVector<DimAttr> dims;
  auto readOne = [&](DimAttr &dim) { return reader.readOptionalAttribute(dim); };
  if (failed(reader.readList(dims, readOne)))
    return {};
  return DimsAttr::get(reader.getContext(), dims);
}

Attribute readArch(DialectBytecodeReader &reader) {
  StringRef name;
  if (failed(reader.readString(name)))
    return {};
  return ArchAttr::get(reader.getContext(), name);
}
} // namespace

LogicalResult MgxBytecodeInterface::writeAttribute(Attribute attribute,
                                                   DialectBytecodeWriter &writer) const {
  return llvm::TypeSwitch<Attribute, LogicalResult>(attribute)
      .Case([&](DimAttr attr) { return writeDim(writer, attr), success(); })
      .Case([&](DimsAttr attr) { return writeDims(writer, attr), success(); })
      .Case([&](ArchAttr attr) {
        begin(writer, Code::arch);
        writer.writeOwnedString(attr.getName());
        return success();
      })
      .Case([&](PoolingModeAttr attr) {
        return writeEnum(writer, Code::poolingMode, attr), success();
      })
      .Case([&](PadModeAttr attr) { return writeEnum(writer, Code::padMode, attr), success(); })
      .Case(
          [&](ResizeModeAttr attr) { return writeEnum(writer, Code::resizeMode, attr), success(); })
      .Case([&](CoordinateModeAttr attr) {
        return writeEnum(writer, Code::coordinateMode, attr), success();
      })
      .Case([&](NearestModeAttr attr) {
        return writeEnum(writer, Code::nearestMode, attr), success();
      })
      .Default([](Attribute) { return failure(); });
}

Attribute MgxBytecodeInterface::readAttribute(DialectBytecodeReader &reader) const {
  uint64_t code;
  if (failed(reader.readVarInt(code)))
    return {};
  switch (static_cast<Code>(code)) {
  case Code::dim:
    return readDim(reader);
  case Code::dims:
    return readDims(reader);
  case Code::arch:
    return readArch(reader);
  case Code::poolingMode:
    return readEnum<PoolingModeAttr>(reader, [](uint32_t v) { return symbolizePoolingMode(v); });
  case Code::padMode:
    return readEnum<PadModeAttr>(reader, [](uint32_t v) { return symbolizePadMode(v); });
  case Code::resizeMode:
    return readEnum<ResizeModeAttr>(reader, [](uint32_t v) { return symbolizeResizeMode(v); });
  case Code::coordinateMode:
    return readEnum<CoordinateModeAttr>(reader,
                                        [](uint32_t v) { return symbolizeCoordinateMode(v); });
  case Code::nearestMode:
    return readEnum<NearestModeAttr>(reader, [](uint32_t v) { return symbolizeNearestMode(v); });
  }
  reader.emitError() << "unknown kind " << code << " of an mgx attribute";
  return {};
}

void MgxBytecodeInterface::writeVersion(DialectBytecodeWriter &writer) const {
  Version version = Version::current();
  if (auto wanted = writer.getDialectVersion<MgxDialect>(); succeeded(wanted))
    version = *static_cast<const Version *>(*wanted);
  writer.writeVarInt(version.major);
  writer.writeVarInt(version.minor);
}

std::unique_ptr<DialectVersion>
MgxBytecodeInterface::readVersion(DialectBytecodeReader &reader) const {
  auto version = std::make_unique<Version>();
  if (failed(reader.readVarInt(version->major)) || failed(reader.readVarInt(version->minor)))
    return nullptr;
  // A newer minor version is readable as long as it uses nothing that is new: an unknown op
  // or attribute is refused where it stands.
  if (version->major <= Version::current().major)
    return version;
  reader.emitError() << "the bytecode has version " << version->str()
                     << " of the mgx dialect, and this compiler reads up to version "
                     << Version::current().major << ".x (it has " << Version::current().str()
                     << "); compile the model with this compiler, or read it with a newer one";
  return nullptr;
}

LogicalResult MgxBytecodeInterface::upgradeFromVersion(Operation *, const DialectVersion &) const {
  // Ops and attributes are only added: what an older version holds means the same today. An
  // op's readProperties fills in the attributes that it got since then (Versions.cpp).
  return success();
}
