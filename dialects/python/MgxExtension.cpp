//===- MgxExtension.cpp - the native module `_mgx` ------------------------===//
#include "Extension.h"
#include "mgx/IR/Mgx.h"
#include "mlir/Bindings/Python/IRCore.h"
#include "mlir/Bindings/Python/NanobindAdaptors.h"
#include "mlir/CAPI/IR.h"
#include "mlir/CAPI/Registration.h"

namespace nb = nanobind;
using namespace mlir;

static std::vector<std::string> opNames(MlirContext context,
                                        llvm::function_ref<bool(RegisteredOperationName)> keep) {
  std::vector<std::string> names;
  unwrap(context)->getOrLoadDialect<mgx::MgxDialect>();
  for (RegisteredOperationName name :
       unwrap(context)->getRegisteredOperationsByDialect("mgx"))
    if (keep(name))
      names.push_back(name.getStringRef().str());
  llvm::sort(names);
  return names;
}

static std::vector<std::string> opNamesWithTrait(const std::string &trait, MlirContext context) {
  return opNames(context, [&](RegisteredOperationName name) {
    if (trait == "pointwise")
      return name.hasTrait<mgx::IsPointwise>();
    if (trait == "reduction")
      return name.hasTrait<mgx::IsReduction>();
    if (trait == "view")
      return name.hasTrait<mgx::IsView>();
    throw nb::value_error(
        ("a trait of mgx ops is 'pointwise', 'reduction' or 'view', got '" + trait + "'")
            .c_str());
  });
}

NB_MODULE(_mgx, m) {
  m.doc() = "The mgx dialect: what the Python API of MLIR cannot express.";
  m.def(
      "register_dialects",
      [](MlirDialectRegistry registry) { unwrap(registry)->insert<mgx::MgxDialect>(); },
      nb::arg("registry"), "Make the dialect known to contexts that take this registry.");
  m.def(
      "op_names",
      [](MlirContext context) { return opNames(context, [](auto) { return true; }); },
      nb::arg("context").none() = nb::none(), "The names of all ops of the dialect, sorted.");
  m.def("op_names_with_trait", &opNamesWithTrait, nb::arg("trait"),
        nb::arg("context").none() = nb::none(),
        "The names of the ops that are 'pointwise', a 'view' or a 'reduction', sorted.");
  mgx::python::bindAttributes(m);
  mgx::python::bindBytecode(m);
  mgx::python::bindPassRunner(m);
  mgx::python::registerPasses();
}
