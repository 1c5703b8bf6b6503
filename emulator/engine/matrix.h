// The matrix instructions: MFMA and SMFMAC (CDNA), WMMA and SWMMAC (RDNA3, RDNA4).
//
// A decoder looks an instruction up once, by the mnemonic LLVM prints, and keeps the pointer.
// The operands are register files laid out register-major: lane `l` of register `i` of an operand
// is `words[i * stride + l]`. All lanes take part; EXEC is ignored, as on hardware.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>

namespace mgx::emu {

enum class MatrixKind : uint8_t { kMfma, kSmfmac, kWmma, kSwmmac };

enum class MatrixFormat : uint8_t {
  kF64,
  kF32,
  kXf32,       // gfx942: f32 inputs of which 10 fraction bits take part
  kF16,
  kBf16,
  kFp8Fnuz,    // gfx942 e4m3
  kBf8Fnuz,    // gfx942 e5m2
  kFp8,        // gfx950, gfx12: OCP e4m3
  kBf8,        // gfx950, gfx12: OCP e5m2
  kF8f6f4,     // gfx950: cbsz and blgp name the format of A and of B
  kI8,         // signed
  kIu8,        // neg_lo[0], neg_lo[1]: A, B are signed
  kIu4,
  kI32,        // accumulator only
};

// Which hardware document describes the lane layout.
enum class MatrixLayout : uint8_t { kCdna, kGfx11, kGfx12 };

struct MatrixOp {
  MatrixKind kind{};
  MatrixLayout layout{};
  uint8_t wave_size = 64;
  uint8_t m = 0, n = 0, blocks = 1;
  uint16_t k = 0;
  MatrixFormat a{}, b{}, acc{};
  bool scaled = false;          // v_mfma_scale_*: reads scale_a and scale_b
  bool flush_denormals = false; // gfx90a: f16 and bf16 inputs and results lose their denormals
  // Registers of an operand in one lane. An f8f6f4 input counts its widest form (8 registers).
  uint8_t a_registers = 0, b_registers = 0, acc_registers = 0;
};

// The instruction LLVM prints as `mnemonic` ("v_mfma_f32_32x32x8_f16", "v_mfma_f32_32x32x8f16",
// "v_mfma_scale_f32_16x16x128_f8f6f4", ...; a trailing "_e64" is ignored) on `gfx`, which is
// major << 8 | minor << 4 | stepping (0x90a, 0xb00, ...); null where the chip has no such
// instruction. v_mfma_ld_scale_b32 has no state of its own here: LLVM prints it fused as
// v_mfma_scale_*.
const MatrixOp *find_matrix_op(std::string_view mnemonic, uint32_t gfx, uint32_t wave_size);

struct MatrixSource {
  const uint32_t *words = nullptr;  // null: an inline constant
  size_t stride = 0;                // words from one register to the next
  uint64_t constant = 0;            // the bits of one element (f64: 64 bits, f16: low 16 bits)
};

struct MatrixOperands {
  MatrixSource a, b;  // always registers
  MatrixSource c;     // SMFMAC and SWMMAC accumulate into D: c names D's registers there
  uint32_t *d = nullptr;
  size_t d_stride = 0;

  const uint32_t *index = nullptr;  // SMFMAC, SWMMAC: one register of sparsity indices

  // MFMA modifiers. For SMFMAC, cbsz and abid choose the index set. For f64 on gfx942, blgp is neg.
  uint8_t cbsz = 0, abid = 0, blgp = 0;
  // VOP3P modifiers: bit i belongs to source i.
  uint8_t neg_lo = 0, neg_hi = 0, op_sel = 0, op_sel_hi = 0;
  bool clamp = false; // integer results saturate
  bool fp16_ovfl = false; // MODE.FP16_OVFL, MFMA and SMFMAC: results saturate
  bool flush_input_denormals = false; // MODE.FP_DENORM for f32: honoured by f32 inputs only

  // v_mfma_scale_*: one e8m0 byte in each lane. The byte of the register is chosen by
  // op_sel[i] | op_sel_hi[i] << 1, i = 0 for A and 1 for B. Not words: constant is used.
  MatrixSource scale_a, scale_b;
};

// Reads all sources before D is written, so D may overlap them.
void execute_matrix(const MatrixOp &op, const MatrixOperands &operands);

} // namespace mgx::emu
