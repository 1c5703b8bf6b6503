//===- Attributes.cpp - the attributes in Python --------------------------===//
#include "Extension.h"
#include "mgx/IR/Mgx.h"
#include "mlir/Bindings/Python/IRCore.h"
#include "mlir/CAPI/IR.h"

namespace nb = nanobind;
using namespace mlir::python::mlir;

namespace {
template <typename Attr> bool isA(MlirAttribute attribute) {
  return llvm::isa<Attr>(unwrap(attribute));
}
template <typename Attr> MlirTypeID typeId() { return wrap(mlir::TypeID::get<Attr>()); }

// The messages of an attribute's verifier, as the text of a ValueError.
struct Checked {
  mlir::MLIRContext *context;
  std::string messages;
  mlir::ScopedDiagnosticHandler handler;

  explicit Checked(mlir::MLIRContext *context)
      : context(context), handler(context, [this](mlir::Diagnostic &diagnostic) {
          messages += diagnostic.str();
          return mlir::success();
        }) {}
  mlir::InFlightDiagnostic emitError() { return mlir::emitError(mlir::UnknownLoc::get(context)); }
};

struct PyDim : PyConcreteAttribute<PyDim> {
  static constexpr IsAFunctionTy isaFunction = isA<mgx::DimAttr>;
  static constexpr GetTypeIDFunctionTy getTypeIdFunction = typeId<mgx::DimAttr>;
  static constexpr const char *pyClassName = "DimAttr";
  using Base::Base;

  mgx::DimAttr dim() const { return llvm::cast<mgx::DimAttr>(unwrap(get())); }

  static PyDim make(const std::string &name, int64_t min, std::optional<int64_t> max,
                    const std::vector<int64_t> &optimals, DefaultingPyMlirContext context) {
    Checked checked(unwrap(context->get()));
    auto attr = mgx::DimAttr::getChecked([&] { return checked.emitError(); }, checked.context,
                                         llvm::StringRef(name), min, max.value_or(-1),
                                         llvm::ArrayRef<int64_t>(optimals));
    if (!attr)
      throw nb::value_error(checked.messages.c_str());
    return PyDim(context->getRef(), wrap(attr));
  }

  static void bindDerived(ClassTy &c) {
    c.def_static("get", &PyDim::make, nb::arg("name"), nb::arg("min") = 0,
                 nb::arg("max").none() = nb::none(), nb::arg("optimals") = std::vector<int64_t>(),
                 nb::arg("context").none() = nb::none(),
                 "A symbolic dimension with sizes in [min, max]; max None: no bound.");
    c.def_prop_ro("name", [](const PyDim &self) { return self.dim().getName().str(); });
    c.def_prop_ro("min", [](const PyDim &self) { return self.dim().getMin(); });
    c.def_prop_ro("max", [](const PyDim &self) {
      int64_t max = self.dim().getMax();
      return max < 0 ? std::nullopt : std::optional<int64_t>(max);
    });
    c.def_prop_ro("optimals", [](const PyDim &self) { return self.dim().getOptimals().vec(); });
  }
};

struct PyDims : PyConcreteAttribute<PyDims> {
  static constexpr IsAFunctionTy isaFunction = isA<mgx::DimsAttr>;
  static constexpr GetTypeIDFunctionTy getTypeIdFunction = typeId<mgx::DimsAttr>;
  static constexpr const char *pyClassName = "DimsAttr";
  using Base::Base;

  std::vector<std::optional<PyDim>> dims() {
    std::vector<std::optional<PyDim>> result;
    for (mgx::DimAttr dim : llvm::cast<mgx::DimsAttr>(unwrap(get())).getDims())
      result.push_back(dim ? std::optional(PyDim(getContext(), wrap(dim))) : std::nullopt);
    return result;
  }

  static PyDims make(const std::vector<std::optional<PyDim>> &dims,
                     DefaultingPyMlirContext context) {
    llvm::SmallVector<mgx::DimAttr> attrs;
    for (const std::optional<PyDim> &dim : dims)
      attrs.push_back(dim ? dim->dim() : mgx::DimAttr());
    return PyDims(context->getRef(), wrap(mgx::DimsAttr::get(unwrap(context->get()), attrs)));
  }

  static void bindDerived(ClassTy &c) {
    c.def_static("get", &PyDims::make, nb::arg("dims"), nb::arg("context").none() = nb::none(),
                 "A tensor's encoding: for each dimension a DimAttr, or None.");
    c.def_prop_ro("dims", &PyDims::dims);
    c.def("__len__", [](PyDims &self) { return self.dims().size(); });
  }
};

struct PyArch : PyConcreteAttribute<PyArch> {
  static constexpr IsAFunctionTy isaFunction = isA<mgx::ArchAttr>;
  static constexpr GetTypeIDFunctionTy getTypeIdFunction = typeId<mgx::ArchAttr>;
  static constexpr const char *pyClassName = "ArchAttr";
  using Base::Base;

  static void bindDerived(ClassTy &c) {
    c.def_static(
        "get",
        [](const std::string &name, DefaultingPyMlirContext context) {
          return PyArch(context->getRef(), wrap(mgx::ArchAttr::get(unwrap(context->get()), name)));
        },
        nb::arg("name") = "gfxMIGX", nb::arg("context").none() = nb::none(),
        "The architecture that a kernel is written for; gfxMIGX is the portable one.");
    c.def_prop_ro("name", [](const PyArch &self) {
      return llvm::cast<mgx::ArchAttr>(unwrap(self.get())).getName().str();
    });
  }
};
} // namespace

void mgx::python::bindAttributes(nb::module_ &m) {
  PyDim::bind(m);
  PyDims::bind(m);
  PyArch::bind(m);
}
