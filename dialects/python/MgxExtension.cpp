//===- MgxExtension.cpp - the native module `_mgx` ------------------------===//
#include "Extension.h"
#include "mgx/IR/Mgx.h"
#include "mlir/Bindings/Python/IRCore.h"
#include "mlir/Bindings/Python/NanobindAdaptors.h"
#include "mlir/CAPI/IR.h"
#include "mlir/CAPI/Registration.h"

namespace nb = nanobind;
using namespace mlir;

// The names come from a context of their own: they are the same in every one.
static std::vector<std::string> opNames(llvm::function_ref<bool(RegisteredOperationName)> keep) {
  MLIRContext context(MLIRContext::Threading::DISABLED);
  context.getOrLoadDialect<mgx::MgxDialect>();
  std::vector<std::string> names;
  for (RegisteredOperationName name : context.getRegisteredOperationsByDialect("mgx"))
    if (keep(name))
      names.push_back(name.getStringRef().str());
  llvm::sort(names);
  return names;
}

static std::vector<std::string> opNamesWithTrait(const std::string &trait) {
  if (trait == "pointwise")
    return opNames([](auto name) { return name.template hasTrait<mgx::IsPointwise>(); });
  if (trait == "reduction")
    return opNames([](auto name) { return name.template hasTrait<mgx::IsReduction>(); });
  if (trait == "view")
    return opNames([](auto name) { return name.template hasTrait<mgx::IsView>(); });
  throw nb::value_error(
      ("a trait of mgx ops is 'pointwise', 'reduction' or 'view', got '" + trait + "'").c_str());
}

NB_MODULE(_mgx, m) {
  // Our attribute classes derive from upstream's, which this import registers.
  nb::module_::import_("mlir.ir");
  m.doc() = "The mgx dialect: what the Python API of MLIR cannot express.";
  m.def(
      "register_dialects",
      [](MlirDialectRegistry registry) { unwrap(registry)->insert<mgx::MgxDialect>(); },
      nb::arg("registry"), "Make the dialect known to contexts that take this registry.");
  m.def(
      "op_names", [] { return opNames([](auto) { return true; }); },
      "The names of all ops of the dialect, sorted.");
  m.def("op_names_with_trait", &opNamesWithTrait, nb::arg("trait"),
        "The names of the ops that are 'pointwise', a 'view' or a 'reduction', sorted.");
  mgx::python::bindAttributes(m);
  mgx::python::bindBytecode(m);
  mgx::python::bindElements(m);
  mgx::python::bindPassRunner(m);
  mgx::python::registerPasses();
}
