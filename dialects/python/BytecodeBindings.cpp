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

static nb::bytes writeBytecode(PyOperationBase &op, std::optional<Pair> wanted) {
  Version version = Version::current();
  if (wanted) {
    version = Version(wanted->first, wanted->second);
    if (version < Version::oldest() || Version::current() < version)
      throw nb::value_error(("versions " + Version::oldest().str() + " to " +
                             Version::current().str() + " of the mgx dialect can be written, got " +
                             version.str())
                                .c_str());
  }
  PyOperation &operation = op.getOperation();
  operation.checkValid();
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
  m.def("dialect_version",
        [] { return Pair(Version::current().major, Version::current().minor); },
        "The version of the mgx dialect that is written, (major, minor).");
  m.def("oldest_dialect_version",
        [] { return Pair(Version::oldest().major, Version::oldest().minor); },
        "The oldest version of the mgx dialect that can be written, (major, minor).");
  m.def("write_bytecode", &writeBytecode, nb::arg("op"), nb::arg("version").none() = nb::none(),
        "The op as bytecode, in a version of the mgx dialect. The same op gives the same "
        "bytes. Raises ValueError for a version that cannot be written.");
}
