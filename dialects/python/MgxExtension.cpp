//===- MgxExtension.cpp - the native module `_mgx` ------------------------===//
#include "Extension.h"
#include "mgx/IR/Mgx.h"
#include "mlir/Bindings/Python/IRCore.h"
#include "mlir/Bindings/Python/NanobindAdaptors.h"
#include "mlir/CAPI/IR.h"
#include "mlir/CAPI/Registration.h"

#include <map>
#include <nanobind/stl/map.h>

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
  if (trait == "keeps order")
    return opNames([](auto name) { return name.template hasTrait<mgx::KeepsOrder>(); });
  if (trait == "commutative")
    return opNames([](auto name) { return name.template hasTrait<OpTrait::IsCommutative>(); });
  if (trait == "idempotent")
    return opNames([](auto name) { return name.template hasTrait<OpTrait::IsIdempotent>(); });
  if (trait == "involution")
    return opNames([](auto name) { return name.template hasTrait<OpTrait::IsInvolution>(); });
  throw nb::value_error(("mgx ops have no trait '" + trait + "'").c_str());
}

// The number that a trait gives each op that has it.
template <typename Number>
static std::map<std::string, Number> numbersOf(std::optional<Number> (*numberOf)(OperationName)) {
  MLIRContext context(MLIRContext::Threading::DISABLED);
  context.getOrLoadDialect<mgx::MgxDialect>();
  std::map<std::string, Number> found;
  for (RegisteredOperationName name : context.getRegisteredOperationsByDialect("mgx"))
    if (std::optional<Number> number = numberOf(name))
      found[name.getStringRef().str()] = *number;
  return found;
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
        "The names of the ops that have a trait, sorted: 'commutative', 'idempotent', "
        "'involution', 'keeps order', 'pointwise', 'reduction' or 'view'.");
  m.def(
      "neutral_elements", [] { return numbersOf(mgx::neutralRightOf); },
      "For ops by name, the number that is neutral on their right; -1 has all bits set.");
  m.def(
      "passes", [] { return numbersOf(mgx::passesOf); },
      "For ops along an axis, by name, how often they read their operand.");
  m.attr("ARENA_BYTES") = mgx::MgxDialect::ArenaBytesAttrHelper::getNameStr().str();
  m.attr("IN_PLACE") = mgx::MgxDialect::InPlaceAttrHelper::getNameStr().str();
  m.attr("MAX_ITERATIONS") = mgx::MgxDialect::MaxIterationsAttrHelper::getNameStr().str();
  m.attr("OFFSETS") = mgx::MgxDialect::OffsetsAttrHelper::getNameStr().str();
  m.attr("OVERWRITABLE") = mgx::MgxDialect::OverwritableAttrHelper::getNameStr().str();
  m.attr("STAGED") = mgx::MgxDialect::StagedAttrHelper::getNameStr().str();
  mgx::python::bindAttributes(m);
  mgx::python::bindBuffers(m);
  mgx::python::bindBytecode(m);
  mgx::python::bindElements(m);
  mgx::python::bindOpsInside(m);
  mgx::python::bindPassRunner(m);
  mgx::python::registerPasses();
}
