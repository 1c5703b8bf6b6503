// The facts of memory instructions for the profile and strict modes.
#pragma once

#include "core.h"

namespace mgx::emu {

// Addresses are device addresses, or byte offsets into LDS. `stride` counts the
// bytes between the elements of two-address LDS instructions, 0 otherwise.
void probe_global(Wave &w, const Inst &in, const u64 *address, u64 mask, u32 bytes, bool load,
                  bool store);
// An increment gave `old` where `limit` is the most, both of as many words for each lane.
void probe_count(Wave &w, u32 *old, const u32 *limit, u32 words);
void probe_lds(Wave &w, const Inst &in, const u32 *address, u64 mask, u32 bytes, bool load,
               bool store);

} // namespace mgx::emu
