//===- hip_ranges.h - ranges of roctx, by which AMD's profilers name work ---------------===//
#pragma once

#include <string>

namespace mgx {

// A range of that name while it lives, where roctx is installed.
class NamedRange {
public:
  explicit NamedRange(const std::string &name);
  ~NamedRange();
  NamedRange(const NamedRange &) = delete;
};

} // namespace mgx
