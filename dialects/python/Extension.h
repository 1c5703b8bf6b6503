//===- Extension.h - the parts of the module `_mgx` -----------------*- C++ -*-===//
#ifndef MGX_PYTHON_EXTENSION_H
#define MGX_PYTHON_EXTENSION_H

#include "mlir/Bindings/Python/Nanobind.h"

namespace mgx::python {
void bindAttributes(nanobind::module_ &m);
void bindBuffers(nanobind::module_ &m);
void bindBytecode(nanobind::module_ &m);
void bindElements(nanobind::module_ &m);
void bindOpsInside(nanobind::module_ &m);
void bindPassRunner(nanobind::module_ &m);
// Makes our passes known to `PassManager.parse`.
void registerPasses();
} // namespace mgx::python

#endif // MGX_PYTHON_EXTENSION_H
