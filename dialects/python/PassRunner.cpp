//===- PassRunner.cpp - running passes without the GIL --------------------===//
#include "Extension.h"
#include "mlir/Bindings/Python/IRCore.h"
#include "mlir/CAPI/Diagnostics.h"
#include "mlir/CAPI/IR.h"
#include "mlir/CAPI/Pass.h"
#include "mlir/Pass/PassManager.h"

namespace nb = nanobind;
using namespace mlir::python::mlir;

// Upstream's PassManager.run holds the GIL, so that threads with a context each run
// one after another. A handler of diagnostics may be Python, and must not run while
// the GIL is released: ours keeps every diagnostic and passes them on afterwards.
static void runPassManager(MlirPassManager passes, PyOperationBase &op) {
  PyOperation &operation = op.getOperation();
  operation.checkValid();
  PyMlirContextRef context = operation.getContext();
  mlir::DiagnosticEngine &engine = unwrap(context->get())->getDiagEngine();
  std::vector<mlir::Diagnostic> kept;
  auto handler = engine.registerHandler([&](mlir::Diagnostic &diagnostic) {
    kept.push_back(std::move(diagnostic));
    return mlir::success();
  });
  mlir::LogicalResult result = mlir::failure();
  {
    nb::gil_scoped_release released;
    result = unwrap(passes)->run(unwrap(operation.get()));
  }
  engine.eraseHandler(handler);

  std::vector<PyDiagnostic::DiagnosticInfo> errors;
  bool raises = mlir::failed(result) && !context->getEmitErrorDiagnostics();
  for (mlir::Diagnostic &diagnostic : kept) {
    if (raises && diagnostic.getSeverity() == mlir::DiagnosticSeverity::Error)
      errors.push_back(PyDiagnostic(wrap(diagnostic)).getInfo());
    else
      engine.emit(std::move(diagnostic));
  }
  if (mlir::failed(result))
    throw MLIRError("Failure while executing pass pipeline", std::move(errors));
}

void mgx::python::bindPassRunner(nb::module_ &m) {
  m.def("run_pass_manager", &runPassManager, nb::arg("pass_manager"), nb::arg("op"),
        "Run the passes on the op with the GIL released. The passes must be native, the "
        "context must not be used by another thread meanwhile. Raises MLIRError.");
}
