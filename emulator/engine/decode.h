// From machine code to `Inst`: LLVM names an opcode the first time it is met in
// a chip's code, and the fields are read straight from the encoding.
#pragma once

#include "core.h"

namespace mgx::emu {

struct CodeSymbol {
  std::string name;
  u64 offset, size; // in the code
};

// Fills `p.code`, `p.index` and the rest from p.bytes bytes at `code`. False,
// with `error` set, when a function holds an instruction the engine lacks.
bool decode_program(Program &p, const u8 *code, const std::vector<CodeSymbol> &functions, std::string &error);

// The mnemonic LLVM prints for the instruction at `bytes`, and its length in
// bytes; empty if it is none of the chip.
struct Named {
  std::string mnemonic;
  u32 size = 0;
};
Named name_instruction(const Chip &chip, const u8 *bytes, size_t available, bool wave32);
// The whole line, for messages.
std::string disassemble(const Chip &chip, const u8 *bytes, size_t available, bool wave32);

} // namespace mgx::emu
