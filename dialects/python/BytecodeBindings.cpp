//===- BytecodeBindings.cpp - writing a version of the stored form --------===//
#include "Extension.h"
#include "mgx/IR/Mgx.h"
#include "mgx/IR/Version.h"
#include "mlir/Bindings/Python/IRCore.h"
#include "mlir/Bytecode/BytecodeWriter.h"
#include "mlir/CAPI/IR.h"

namespace nb = nanobind;
using namespace mlir::python::mlir;
using mgx::Version;

using Pair = std::pair<uint64_t, uint64_t>;

static Pair pairOf(const Version &version) { return {version.major, version.minor}; }

// Throws what Python sees as ValueError.
static void checkWanted(const Version &version, const mgx::Requirement &needed) {
  if (version < Version::oldest() || Version::current() < version)
    throw nb::value_error(("versions " + Version::oldest().str() + " to " +
                           Version::current().str() + " of the mgx dialect can be written, got " +
                           version.str())
                              .c_str());
  if (version < needed.version)
    throw nb::value_error((needed.reason + " needs version " + needed.version.str() +
                           " of the mgx dialect, and " + version.str() + " is asked for")
                              .c_str());
}

static nb::bytes writeBytecode(PyOperationBase &op, std::optional<Pair> wanted) {
  PyOperation &operation = op.getOperation();
  operation.checkValid();
  mgx::Requirement needed = mgx::requirementOf(unwrap(operation.get()));
  Version version = needed.version;
  if (wanted) {
    version = Version(wanted->first, wanted->second);
    checkWanted(version, needed);
  }
  mlir::BytecodeWriterConfig config("MGX");
  config.setDialectVersion<mgx::MgxDialect>(std::make_unique<Version>(version));
  std::string buffer;
  llvm::raw_string_ostream stream(buffer);
  PyMlirContext::ErrorCapture errors(operation.getContext());
  if (mlir::failed(mlir::writeBytecodeToFile(unwrap(operation.get()), stream, config)))
    throw MLIRError("Failure while writing bytecode", errors.take());
  return nb::bytes(buffer.data(), buffer.size());
}

void mgx::python::bindBytecode(nb::module_ &m) {
  m.def(
      "dialect_version", [] { return pairOf(Version::current()); },
      "The version of the mgx dialect that is written, (major, minor).");
  m.def(
      "oldest_dialect_version", [] { return pairOf(Version::oldest()); },
      "The oldest version of the mgx dialect that can be written, (major, minor).");
  m.def(
      "required_version",
      [](PyOperationBase &op) {
        PyOperation &operation = op.getOperation();
        operation.checkValid();
        mgx::Requirement needed = mgx::requirementOf(unwrap(operation.get()));
        return std::make_pair(pairOf(needed.version), needed.reason);
      },
      nb::arg("op"),
      "The oldest version of the mgx dialect that holds the op, and what asks for it.");
  m.def(
      "discardable_attributes",
      [](PyOperationBase &op) {
        PyOperation &operation = op.getOperation();
        operation.checkValid();
        nb::list names;
        for (mlir::NamedAttribute attribute : unwrap(operation.get())->getDiscardableAttrs())
          names.append(nb::str(attribute.getName().data(), attribute.getName().size()));
        return names;
      },
      nb::arg("op"), "The names of an op's attributes that its definition does not have.");
  m.def(
      "op_versions",
      [](PyMlirContext &context) {
        nb::dict found;
        mlir::MLIRContext *ctx = unwrap(context.get());
        for (mlir::RegisteredOperationName op : ctx->getRegisteredOperationsByDialect("mgx"))
          found[op.getStringRef().str().c_str()] = nb::cast(pairOf(mgx::versionOf(op)));
        return found;
      },
      nb::arg("context"), "The version that each op of the mgx dialect came with, by name.");
  m.def("write_bytecode", &writeBytecode, nb::arg("op"), nb::arg("version").none() = nb::none(),
        "The op as bytecode, in a version of the mgx dialect; by default in the oldest that "
        "holds it. The same op gives the same bytes. Raises ValueError for a version that "
        "cannot be written, naming the op that prevents it.");
}
