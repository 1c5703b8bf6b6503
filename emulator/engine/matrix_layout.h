// Where the elements of a matrix operand live: which lanes, and which item of a lane's registers.
#pragma once

#include <vector>

#include "matrix.h"

namespace mgx::emu {

// A row of elements: element j is in lane `lane + j`, item `item`. The items of a lane are packed
// densely, the lowest bits of its first register first.
struct MatrixRow {
  uint16_t lane, item;
};

// An instruction with its layout, made once for each mnemonic.
struct MatrixPlan : MatrixOp {
  // Rows of A are indexed by [block * a_columns + column] and hold M elements, rows of B by
  // [block * K + k] and hold N, rows of D by [block * M + i] and hold N.
  // A sparse A has K / 2 columns; columns 2p and 2p + 1 are two of the ks 4p ... 4p + 3.
  std::vector<MatrixRow> a_rows, b_rows, d_rows;
  // f8f6f4 inputs of 8 bits are spread differently from those of 6 and 4 bits.
  std::vector<MatrixRow> a_rows_8bit, b_rows_8bit;
  uint16_t a_columns = 0;
  bool sparse() const { return kind == MatrixKind::kSmfmac || kind == MatrixKind::kSwmmac; }
};

// Fills in the rows and the register counts from shape, formats, kind and wave size.
void lay_out(MatrixPlan &plan);

int format_bits(MatrixFormat format);

// The lane of B that a lane reads under the modifier BLGP (CDNA4 ISA 7.1.6).
int blgp_source(int lane, int blgp);

}  // namespace mgx::emu
