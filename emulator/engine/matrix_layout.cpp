// The lane layouts. Sources: CDNA4 ISA 7.1.4 (general formulas, equal to the tables of the CDNA2
// and CDNA3 ISA), 7.1.5.1 (8 bits and smaller), 7.5 (sparse); RDNA3 ISA 7.9; RDNA4 ISA 7.12.2.
#include "matrix_layout.h"

namespace mgx::emu {
namespace {

uint32_t bit(uint32_t value, int index) { return value >> index & 1; }

// CDNA4 ISA 7.1.4.1: each lane holds `run` consecutive ks. `halves`: gfx950's sparse shapes and
// its 8-bit f8f6f4 inputs hold two such runs, K / 2 apart.
MatrixRow cdna_input(const MatrixPlan &p, int lanes, int columns, int block, int column,
                     bool halves) {
  const int groups = 64 / (lanes * p.blocks);
  int run = columns / groups, base = 0;
  if (halves) {
    run /= 2;
    base = column / (columns / 2) * run;
    column %= columns / 2;
  }
  return {uint16_t(lanes * (block + p.blocks * (column / run))), uint16_t(base + column % run)};
}

// CDNA4 ISA 7.1.4.2.
MatrixRow cdna_output(const MatrixPlan &p, int block, int row) {
  const int h = p.acc == MatrixFormat::kF64 ? 1 : 4;
  const int area = p.n * p.m / h;
  const int blocks_in_item = area >= 64 ? 1 : 64 / area;
  const int rows_in_item = 64 / blocks_in_item / p.n;
  const int groups = p.m / (h * rows_in_item);
  return {uint16_t(p.n * (row / h % rows_in_item + rows_in_item * (block % blocks_in_item))),
          uint16_t(row % h + h * (row / (h * rows_in_item) + groups * (block / blocks_in_item)))};
}

// RDNA4 ISA 7.12.2, the tables of A and B. They are given for dense shapes; the dense operand of a
// sparse shape has twice the ks, pairs of a lane's compressed As matching fours of its Bs, so
// its table is the compressed one with the numbers of all bits above bit 0 raised by one.
MatrixRow gfx12_input(const MatrixPlan &p, int bits, int column, int compressed_columns,
                      bool doubled) {
  const bool wave64 = p.wave_size == 64;
  const int s = doubled ? 1 : 0;
  const uint32_t c = uint32_t(column);
  const uint32_t low = c & ((2u << s) - 1);  // bits 1-0, or 0 of the compressed column
  uint32_t group, item;
  if (bits == 16) {
    const uint32_t within = (bit(c, 1 + s) << (1 + s)) | low % (2u << s);
    if (wave64) group = c >> (2 + s), item = within;
    else group = bit(c, 2 + s), item = (bit(c, 3 + s) << (2 + s)) | within;
  } else if (bits == 8) {
    if (wave64) group = bit(c, 2 + s) << 1 | bit(c, 3 + s), item = c & ((4u << s) - 1);
    else group = bit(c, 3 + s), item = c & ((8u << s) - 1);
  } else if (compressed_columns == 16) {
    // wave64 keeps the compressed (or dense 16x16x16) operand in lanes 0 to 31. The dense operand
    // of the sparse shape is the B-Matrix 32x16 of the table and uses all lanes.
    if (wave64 && doubled) group = bit(c, 3) << 1 | bit(c, 4), item = c & 7;
    else group = bit(c, 3 + s), item = c & ((8u << s) - 1);
  } else {
    if (wave64) group = bit(c, 3 + s) << 1 | bit(c, 4 + s), item = c & ((8u << s) - 1);
    else group = bit(c, 4 + s), item = c & ((16u << s) - 1);
  }
  return {uint16_t(16 * group), uint16_t(item)};
}

MatrixRow gfx12_output(const MatrixPlan &p, int row) {
  const uint32_t r = uint32_t(row);
  if (p.wave_size == 64) return {uint16_t(16 * (bit(r, 2) << 1 | bit(r, 3))), uint16_t(r & 3)};
  return {uint16_t(16 * bit(r, 3)), uint16_t(r & 7)};
}

// RDNA3 ISA 7.9: every lane holds a whole row of A (column of B), which lanes 16 to 31 (and 32 to
// 63) repeat. Rows of D alternate between the groups of 16 lanes.
MatrixRow gfx11_output(const MatrixPlan &p, int row) {
  const int groups = p.wave_size / 16;
  // 16-bit results use one half of a register each: items count halves, op_sel adds one.
  const int item = row / groups * (format_bits(p.acc) == 16 ? 2 : 1);
  return {uint16_t(16 * (row % groups)), uint16_t(item)};
}

uint8_t registers(const std::vector<MatrixRow> &rows, int bits) {
  int last = 0;
  for (const MatrixRow &row : rows) last = row.item > last ? row.item : last;
  return uint8_t(((last + 1) * bits + 31) / 32);
}

} // namespace

int format_bits(MatrixFormat format) {
  switch (format) {
  case MatrixFormat::kF64: return 64;
  case MatrixFormat::kF32:
  case MatrixFormat::kXf32:
  case MatrixFormat::kI32: return 32;
  case MatrixFormat::kF16:
  case MatrixFormat::kBf16: return 16;
  case MatrixFormat::kIu4: return 4;
  default: return 8;
  }
}

int blgp_source(int lane, int blgp) {
  switch (blgp) {
  case 1: return lane % 32;
  case 2: return lane % 32 + 32;
  case 3: return (lane + 16) % 64;
  case 4:
  case 5:
  case 6:
  case 7: return lane % 16 + (blgp - 4) * 16;
  default: return lane;
  }
}

void lay_out(MatrixPlan &p) {
  const bool sparse = p.sparse();
  p.a_columns = uint16_t(sparse ? p.k / 2 : p.k);
  const int a_bits = format_bits(p.a), b_bits = format_bits(p.b);
  // gfx950 doubled the sparse shapes: 16 (32 for 8 bits) or more items of B in a lane.
  const bool halves = p.kind == MatrixKind::kSmfmac && p.n * p.k / 64 * b_bits == 256;
  for (int block = 0; block < p.blocks; ++block) {
    for (int column = 0; column < p.a_columns; ++column) {
      if (p.layout == MatrixLayout::kCdna)
        p.a_rows.push_back(cdna_input(p, p.m, p.a_columns, block, column, halves));
      else if (p.layout == MatrixLayout::kGfx11) p.a_rows.push_back({0, uint16_t(column)});
      else p.a_rows.push_back(gfx12_input(p, a_bits, column, p.a_columns, false));
      if (p.a == MatrixFormat::kF8f6f4)
        p.a_rows_8bit.push_back(cdna_input(p, p.m, p.a_columns, block, column, true));
    }
    for (int k = 0; k < p.k; ++k) {
      if (p.layout == MatrixLayout::kCdna)
        p.b_rows.push_back(cdna_input(p, p.n, p.k, block, k, halves));
      else if (p.layout == MatrixLayout::kGfx11) p.b_rows.push_back({0, uint16_t(k)});
      else p.b_rows.push_back(gfx12_input(p, b_bits, k, p.a_columns, sparse));
      if (p.b == MatrixFormat::kF8f6f4)
        p.b_rows_8bit.push_back(cdna_input(p, p.n, p.k, block, k, true));
    }
    for (int row = 0; row < p.m; ++row)
      p.d_rows.push_back(p.layout == MatrixLayout::kCdna    ? cdna_output(p, block, row)
                         : p.layout == MatrixLayout::kGfx11 ? gfx11_output(p, row)
                                                            : gfx12_output(p, row));
  }
  p.a_registers = registers(p.a_rows, a_bits);
  p.b_registers = registers(p.b_rows, b_bits);
  p.acc_registers = registers(p.d_rows, format_bits(p.acc));
}

} // namespace mgx::emu
