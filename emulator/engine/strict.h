// Strict mode: finds what hardware would show only sometimes.
#pragma once

#include "run.h"

namespace mgx::emu {

// How many accesses of each kind may still be on their way after a wait; ~0 for any number.
struct Outstanding {
  u32 vm = ~0u, lds = ~0u, smem = ~0u;
};
Outstanding outstanding_after(const Wave &w, const Inst &in);

std::shared_ptr<GlobalShadow> make_global_shadow(const Program &program);
void strict_start(const Launch &launch, GroupState &state);
bool strict_before(Wave &w, const Inst &in); // false after a fault
void strict_after(Wave &w, const Inst &in);
// Memory accesses of vector instructions, from the hooks.
void strict_global(Wave &w, const Inst &in, const u64 *address, u64 mask, u32 bytes, bool load,
                   bool store);
void strict_scalar(Wave &w, u64 address, u64 bytes, Touch how);
void strict_lds(Wave &w, const Inst &in, const u32 *address, u64 mask, u32 bytes, bool load,
                bool store);

} // namespace mgx::emu
