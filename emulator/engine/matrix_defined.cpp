#include "matrix_defined.h"

#include <algorithm>

#include "matrix_layout.h"

namespace mgx::emu {
namespace {

constexpr int kInputRegisters = 16;

struct Input {
  uint64_t known[kInputRegisters];
  Input(const uint64_t *from, int registers) { std::copy_n(from, registers, known); }

  // Lane l reads lane source(l).
  template <class F> void permute(F source) {
    for (uint64_t &lanes : known) {
      uint64_t moved = 0;
      for (int lane = 0; lane < 64; ++lane) moved |= (lanes >> source(lane) & 1) << lane;
      lanes = moved;
    }
  }
};

// Which of the n elements of a row are defined, a bit each.
uint32_t elements(const uint64_t *known, const MatrixRow &row, int bits, int n) {
  const int first = row.item * bits, last = first + bits - 1;
  const uint64_t lanes = known[first / 32] & known[last / 32];
  return uint32_t(lanes >> row.lane & ((uint64_t(1) << n) - 1));
}

// Which of the n rows of A (columns of B) are defined over the whole of K in one block.
uint32_t whole(const std::vector<MatrixRow> &rows, int block, int columns, const uint64_t *known,
               int bits, int n) {
  uint32_t all = uint32_t((uint64_t(1) << n) - 1);
  for (int column = 0; column < columns; ++column)
    all &= elements(known, rows[block * columns + column], bits, n);
  return all;
}

// Bits of an item of an f8f6f4 operand, by its modifier.
int chosen_bits(int choice) { return choice < 2 || choice > 4 ? 8 : choice < 4 ? 6 : 4; }

}  // namespace

void define_matrix(const MatrixOp &op, const MatrixOperands &o, const MatrixDefined &known,
                   uint64_t *d) {
  const auto &p = static_cast<const MatrixPlan &>(op);
  const bool mixed = p.a == MatrixFormat::kF8f6f4;
  Input a(known.a, p.a_registers), b(known.b, p.b_registers);
  if (p.kind == MatrixKind::kMfma && p.acc != MatrixFormat::kF64 && !mixed) {
    if (o.cbsz) {
      const int size = 64 >> o.cbsz;
      a.permute([&](int lane) { return lane % size + size * o.abid; });
    }
    if (o.blgp) b.permute([&](int lane) { return blgp_source(lane, o.blgp); });
  }
  if (p.layout == MatrixLayout::kGfx11) // every group of 16 lanes holds A and B
    for (Input *input : {&a, &b})
      for (uint64_t &lanes : input->known)
        for (int group = 1; group < p.wave_size / 16; ++group)
          lanes &= lanes >> 16 | ~uint64_t(0) << 48;
  const int a_bits = mixed ? chosen_bits(o.cbsz) : format_bits(p.a);
  const int b_bits = mixed ? chosen_bits(o.blgp) : format_bits(p.b);
  const auto &a_rows = mixed && a_bits == 8 ? p.a_rows_8bit : p.a_rows;
  const auto &b_rows = mixed && b_bits == 8 ? p.b_rows_8bit : p.b_rows;
  const int bits = format_bits(p.acc), n = p.n;
  const int half = p.layout == MatrixLayout::kGfx11 && bits == 16 ? o.op_sel >> 2 & 1 : 0;
  const uint32_t all = uint32_t((uint64_t(1) << n) - 1);
  std::fill_n(d, p.acc_registers, ~uint64_t(0));
  for (int block = 0; block < p.blocks; ++block) {
    uint32_t rows = whole(a_rows, block, p.a_columns, a.known, a_bits, p.m);
    uint32_t columns = whole(b_rows, block, p.k, b.known, b_bits, n);
    if (p.sparse())
      for (int column = 0; column < p.a_columns; ++column)
        rows &= uint32_t(known.index >> p.a_rows[column].lane);
    for (int part = 0; p.scaled && part < p.k / 32; ++part) {
      rows &= uint32_t(known.scale_a >> part * p.m);
      columns &= uint32_t(known.scale_b >> part * n);
    }
    for (int i = 0; i < p.m; ++i) {
      MatrixRow row = p.d_rows[block * p.m + i];
      row.item = uint16_t(row.item + half);
      uint32_t good = rows >> i & 1 ? columns : 0;
      good &= known.c ? elements(known.c, row, bits, n) : known.all_of_c ? all : 0;
      const uint64_t bad = uint64_t(~good & all) << row.lane;
      for (int r = row.item * bits / 32; r <= (row.item * bits + bits - 1) / 32; ++r) d[r] &= ~bad;
    }
  }
}

}  // namespace mgx::emu
