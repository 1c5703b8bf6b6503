//===- Bytecode.h - the stored form of the dialect ------------------*- C++ -*-===//
#ifndef MGX_LIB_BYTECODE_H
#define MGX_LIB_BYTECODE_H

#include "mgx/IR/Mgx.h"
#include "mgx/IR/Version.h"

namespace mgx {
class MgxBytecodeInterface : public mlir::BytecodeDialectInterface {
public:
  explicit MgxBytecodeInterface(mlir::Dialect *dialect) : BytecodeDialectInterface(dialect) {}

  mlir::Attribute readAttribute(mlir::DialectBytecodeReader &reader) const override;
  mlir::LogicalResult writeAttribute(mlir::Attribute attribute,
                                     mlir::DialectBytecodeWriter &writer) const override;
  void writeVersion(mlir::DialectBytecodeWriter &writer) const override;
  std::unique_ptr<mlir::DialectVersion>
  readVersion(mlir::DialectBytecodeReader &reader) const override;
  mlir::LogicalResult upgradeFromVersion(mlir::Operation *top,
                                         const mlir::DialectVersion &version) const override;
};
} // namespace mgx

#endif // MGX_LIB_BYTECODE_H
