// Strict mode: finds what hardware would show only sometimes.
#pragma once

#include "run.h"

namespace mgx::emu {

std::shared_ptr<GlobalShadow> make_global_shadow();
void strict_start(const Launch &launch, GroupState &state);
bool strict_before(Wave &w, const Inst &in); // false after a fault
void strict_after(Wave &w, const Inst &in);
// Memory accesses of vector instructions, from the hooks.
void strict_global(Wave &w, const Inst &in, const u64 *address, u64 mask, u32 bytes, bool load, bool store);
void strict_scalar(Wave &w, u64 address, u64 bytes, Touch how);
void strict_lds(Wave &w, const Inst &in, const u32 *address, u64 mask, u32 bytes, bool load, bool store);

} // namespace mgx::emu
