// Formats of typed buffer accesses (BUFFER_LOAD_FORMAT_*, TBUFFER_*): how an
// element lies in memory and which numbers its components are.
#pragma once

#include "core.h"

namespace mgx::emu {

enum class Number : u8 { unorm, snorm, uscaled, sscaled, uint, sint, reserved, floating };

struct BufferFormat {
  u8 bits[4] = {0, 0, 0, 0}; // of each component, X in the lowest bits; 0: there is none
  Number number = Number::uint;
  u8 bytes = 0;              // of an element; 0: no such format
};

// `code` as the descriptor or the instruction holds it: on gfx9 the data format
// in bits 3:0 and the number format in bits 6:4, later one number for both.
BufferFormat buffer_format(const Chip &chip, u32 code);

} // namespace mgx::emu
