//===- Version.h - the version of the stored form -------------------*- C++ -*-===//
#ifndef MGX_IR_VERSION_H
#define MGX_IR_VERSION_H

#include "mlir/Bytecode/BytecodeImplementation.h"
#include "mlir/IR/Operation.h"
#include <string>
#include <tuple>

namespace mgx {
// Ops and attributes are only added: a minor version for an addition, a major one
// for a change that older readers cannot skip. The additions of each version stand with the ops
// (Mgx_Since) and in the table of attributes in lib/Versions.cpp.
struct Version : public mlir::DialectVersion {
  Version() = default;
  Version(uint64_t major, uint64_t minor) : major(major), minor(minor) {}

  static constexpr unsigned currentMinor = 1;
  static Version current() { return Version(1, currentMinor); }
  static Version oldest() { return Version(1, 0); }
  std::string str() const { return std::to_string(major) + "." + std::to_string(minor); }
  bool operator<(const Version &other) const {
    return std::tie(major, minor) < std::tie(other.major, other.minor);
  }

  uint64_t major = 1;
  uint64_t minor = 0;
};

// The version that an op came with.
Version versionOf(mlir::OperationName op);

// The oldest version that can hold an op with all ops inside of it, and what asks for it, in
// words; the words are empty where the oldest version there is will do.
struct Requirement {
  Version version = Version::oldest();
  std::string reason;
};
Requirement requirementOf(mlir::Operation *top);
} // namespace mgx

#endif // MGX_IR_VERSION_H
