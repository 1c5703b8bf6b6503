// Strict mode: finds what hardware would show only sometimes.
#pragma once

#include "run.h"

namespace mgx::emu {

void strict_start(const Launch &launch, GroupState &state);
bool strict_before(Wave &w, const Inst &in); // false after a fault
void strict_after(Wave &w, const Inst &in);
bool strict_group_check(Wave &w, GroupState &state);
std::optional<Fault> strict_finish(const Launch &launch, GroupState &state);

} // namespace mgx::emu
