//===- trust.h - consent: whose machine code may run here (docs/trust.md) -------------===//
#pragma once

#include "artifact.h"
#include "settings.h"

namespace mgx {

// Whether code of the artifact for a target may run: where this machine made it, a trusted key
// signed it, or everybody is trusted. A user error for a cache that others can write to.
bool admitted(const Artifact &artifact, const std::string &identity, bool gpu, const Trust &trust);

} // namespace mgx
