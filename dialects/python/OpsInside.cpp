//===- OpsInside.cpp - the ops of some names below an op ------------------===//
#include "Extension.h"
#include "mlir/Bindings/Python/IRCore.h"
#include "mlir/CAPI/IR.h"

namespace nb = nanobind;
using namespace mlir::python::mlir;

// Upstream's `walk` calls Python for each op. Most are of no interest to who looks for a few.
static nb::list opsInside(PyOperationBase &root, const std::vector<std::string> &names) {
  PyOperation &operation = root.getOperation();
  operation.checkValid();
  mlir::MLIRContext *context = unwrap(operation.getContext()->get());
  llvm::SmallVector<mlir::OperationName> wanted;
  llvm::SmallVector<llvm::StringRef> dialects;
  for (llvm::StringRef name : names)
    if (name.consume_back(".*"))
      dialects.push_back(name);
    else
      wanted.emplace_back(name, context);
  bool all = llvm::is_contained(names, "*");
  nb::list found;
  unwrap(operation.get())->walk([&](mlir::Operation *op) {
    if (all || llvm::is_contained(wanted, op->getName()) ||
        (!dialects.empty() && llvm::is_contained(dialects, op->getName().getDialectNamespace())))
      found.append(PyOperation::forOperation(operation.getContext(), wrap(op)).getObject());
  });
  return found;
}

void mgx::python::bindOpsInside(nb::module_ &m) {
  m.def("ops_inside", &opsInside, nb::arg("op"), nb::arg("names"),
        "The ops of these names below the op, and itself, an op before the one around it. 'math.*' "
        "is every op of the dialect, '*' every op.");
}
