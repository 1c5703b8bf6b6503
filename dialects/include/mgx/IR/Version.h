//===- Version.h - the version of the stored form -------------------*- C++ -*-===//
#ifndef MGX_IR_VERSION_H
#define MGX_IR_VERSION_H

#include "mlir/Bytecode/BytecodeImplementation.h"
#include <string>
#include <tuple>

namespace mgx {
// Ops and attributes are only added: a minor version for an addition, a major one
// for a change that older readers cannot skip.
struct Version : public mlir::DialectVersion {
  Version() = default;
  Version(uint64_t major, uint64_t minor) : major(major), minor(minor) {}

  static Version current() { return Version(1, 0); }
  static Version oldest() { return Version(1, 0); }
  std::string str() const { return std::to_string(major) + "." + std::to_string(minor); }
  bool operator<(const Version &other) const {
    return std::tie(major, minor) < std::tie(other.major, other.minor);
  }

  uint64_t major = 1;
  uint64_t minor = 0;
};
} // namespace mgx

#endif // MGX_IR_VERSION_H
