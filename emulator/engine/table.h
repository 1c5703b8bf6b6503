#pragma once

#include "core.h"

namespace mgx::emu {

// Out of line on purpose: containers stay out of the multiply built files.
void add_op(OpTable &table, const char *name, const OpInfo &info);
// Changes entries already there.
OpInfo *find_op(OpTable &table, const char *name);

} // namespace mgx::emu
