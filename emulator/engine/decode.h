// From machine code to `Inst`: LLVM names an opcode the first time it is met in
// a chip's code, and the fields are read straight from the encoding.
#pragma once

#include "decode_fields.h"

namespace mgx::emu {

struct CodeSymbol {
  std::string name;
  u64 offset, size; // in the code
};

// Fills `p.code`, `p.index` and the rest from p.bytes bytes at `code`. False,
// with `error` set, when a function holds an instruction the engine lacks.
bool decode_program(Program &p, const u8 *code, const std::vector<CodeSymbol> &functions,
                    std::string &error);

// The mnemonic LLVM prints for an opcode, empty if the chip has none of it, and
// the words it was asked with: harmless operands, as some crash the disassembler.
struct Named {
  std::string mnemonic;
  u32 words[4] = {0, 0, 0, 0};
  u32 size = 0; // in bytes
};
Named name_opcode(const Chip &chip, Encoding enc, const Opcode &opcode);
// The whole line, for messages.
std::string disassemble(const Chip &chip, const u8 *bytes, size_t available, bool wave32);

} // namespace mgx::emu
