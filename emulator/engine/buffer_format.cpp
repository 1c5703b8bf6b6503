#include "buffer_format.h"

#include <iterator>

namespace mgx::emu {

namespace {

// Data formats in the numbering of gfx9 (LLVM, SIDefines.h "DataFormat"). The
// names of the documents list components from the highest bits down.
enum Data : u8 {
  d_none,
  d8,
  d16,
  d8_8,
  d32,
  d16_16,
  d10_11_11,
  d11_11_10,
  d10_10_10_2,
  d2_10_10_10,
  d8_8_8_8,
  d32_32,
  d16_16_16_16,
  d32_32_32,
  d32_32_32_32
};
constexpr u8 kBits[][4] = {{},
                           {8},
                           {16},
                           {8, 8},
                           {32},
                           {16, 16},
                           {11, 11, 10},
                           {10, 11, 11},
                           {2, 10, 10, 10},
                           {10, 10, 10, 2},
                           {8, 8, 8, 8},
                           {32, 32},
                           {16, 16, 16, 16},
                           {32, 32, 32},
                           {32, 32, 32, 32}};

// The unified formats count through runs of number formats (LLVM, SIDefines.h
// "UnifiedFormat" of gfx10 and gfx11).
constexpr u8 N(Number n) { return u8(1u << u32(n)); }
constexpr u8 kIntegers = N(Number::uint) | N(Number::sint), kFloat = N(Number::floating);
constexpr u8 kSmall =
    kIntegers | N(Number::unorm) | N(Number::snorm) | N(Number::uscaled) | N(Number::sscaled);
struct Run {
  Data data;
  u8 numbers; // in the order of Number
};
constexpr Run kGfx10[] = {{d8, kSmall},
                          {d16, kSmall | kFloat},
                          {d8_8, kSmall},
                          {d32, kIntegers | kFloat},
                          {d16_16, kSmall | kFloat},
                          {d10_11_11, kSmall | kFloat},
                          {d11_11_10, kSmall | kFloat},
                          {d10_10_10_2, kSmall},
                          {d2_10_10_10, kSmall},
                          {d8_8_8_8, kSmall},
                          {d32_32, kIntegers | kFloat},
                          {d16_16_16_16, kSmall | kFloat},
                          {d32_32_32, kIntegers | kFloat},
                          {d32_32_32_32, kIntegers | kFloat}};
constexpr Run kGfx11[] = {{d8, kSmall},
                          {d16, kSmall | kFloat},
                          {d8_8, kSmall},
                          {d32, kIntegers | kFloat},
                          {d16_16, kSmall | kFloat},
                          {d10_11_11, kFloat},
                          {d11_11_10, kFloat},
                          {d10_10_10_2, kIntegers | N(Number::unorm) | N(Number::snorm)},
                          {d2_10_10_10, kSmall},
                          {d8_8_8_8, kSmall},
                          {d32_32, kIntegers | kFloat},
                          {d16_16_16_16, kSmall | kFloat},
                          {d32_32_32, kIntegers | kFloat},
                          {d32_32_32_32, kIntegers | kFloat}};

BufferFormat make(u32 data, Number number) {
  BufferFormat f;
  if (data >= std::size(kBits)) return f;
  u32 bits = 0;
  for (u32 i = 0; i < 4; ++i) bits += f.bits[i] = kBits[data][i];
  f.number = number;
  f.bytes = u8(bits / 8);
  return f;
}

template <size_t kCount> BufferFormat unified(const Run (&runs)[kCount], u32 code) {
  u32 at = 1;
  for (const Run &r : runs)
    for (u32 n = 0; n < 8; ++n)
      if (r.numbers >> n & 1 && at++ == code) return make(r.data, Number(n));
  return {};
}

} // namespace

BufferFormat buffer_format(const Chip &chip, u32 code) {
  if (!chip.is_gfx9()) return chip.is_gfx10() ? unified(kGfx10, code) : unified(kGfx11, code);
  Number number = Number(code >> 4 & 7);
  return number == Number::reserved ? BufferFormat() : make(code & 15, number);
}

} // namespace mgx::emu
