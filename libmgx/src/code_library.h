//===- code_library.h - the CPU's code of a kernel, loaded ----------------------------------===//
#pragma once

#include "code.h"

#include <memory>

namespace mgx {

// A shared object loaded from its bytes; unloaded when nothing refers to it.
class CodeLibrary {
public:
  // The same library for equal bytes. An error of the artifact for code that does not load.
  static std::shared_ptr<CodeLibrary> of(const CodeObject &code);
  explicit CodeLibrary(const CodeObject &code);
  CodeLibrary(const CodeLibrary &) = delete;
  ~CodeLibrary();

  // The address of a function. An error of the artifact when there is none of that name.
  void *function(const std::string &name) const;

private:
  void *handle;
};

} // namespace mgx
