// Which elements of a matrix product are defined, for the strict mode.
#pragma once

#include "matrix.h"

namespace mgx::emu {

constexpr int kMaxMatrixRegisters = 32; // of an accumulator in one lane

// Whether each register of an operand was written, lane by lane.
struct MatrixDefined {
  const uint64_t *a = nullptr, *b = nullptr;
  const uint64_t *c = nullptr; // null: an inline constant or a scalar, defined by `all_of_c`
  bool all_of_c = true;
  uint64_t index = ~uint64_t(0), scale_a = ~uint64_t(0), scale_b = ~uint64_t(0); // one register
};

// Element (i, j) of D is defined if all of row i of A, of column j of B, and C(i, j) are: zero
// times NaN is NaN. Fills op.acc_registers masks of lanes; lanes that hold no element are set.
void define_matrix(const MatrixOp &op, const MatrixOperands &modifiers, const MatrixDefined &known,
                   uint64_t *d);

} // namespace mgx::emu
