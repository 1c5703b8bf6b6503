#pragma once

#include "valu.h"

namespace mgx::emu {
inline namespace MGX_ISA {
bool lds_addresses(Wave &w, const Inst &in, u32 extra, u32 bytes, bool load, bool store, u32 *out);
} // namespace MGX_ISA
} // namespace mgx::emu
