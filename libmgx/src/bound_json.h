//===- bound_json.h - a bound plan for an executor outside of the library ------------------===//
#pragma once

#include "ordering.h"

namespace mgx {

// The text of mgx_artifact_bind (mgx.h).
std::string bound_json(const BoundPlan &bound, bool with_plan, const Rates &rates);

} // namespace mgx
