// Which instructions of a chip the engine lacks, found by having LLVM name every
// opcode of every encoding family.
#include "engine/decode.h"

#include <cstring>
#include <set>

using namespace mgx::emu;

namespace {

struct Family {
  u32 base, opcodes;
  unsigned shift; // of the opcode in the first word
};
// Fields of opcodes in the "Microcode Formats" chapters of all generations; what
// is none of the chip's has no name.
constexpr Family kFamilies[] = {
    {0xbe800000, 256, 8},   // SOP1
    {0x80000000, 128, 23},  // SOP2 and SOPK
    {0xbf000000, 128, 16},  // SOPC
    {0xbf800000, 128, 16},  // SOPP
    {0x7e000000, 256, 9},   // VOP1
    {0x00000000, 64, 25},   // VOP2
    {0x7c000000, 256, 17},  // VOPC
    {0xd0000000, 1024, 16}, // VOP3, VOP3P of gfx9
    {0xd4000000, 1024, 16}, // VOP3
    {0xcc000000, 128, 16},  // VOP3P
    {0xc0000000, 256, 18},  // SMEM of gfx9
    {0xf4000000, 256, 18},  // SMEM
    {0xf4000000, 64, 13},   // SMEM of gfx12
    {0xd8000000, 256, 17},  // DS of gfx9
    {0xd8000000, 256, 18},  // DS
    {0xdc000000, 8192, 13}, // FLAT with its segment
    {0xec000000, 4096, 14}, // FLAT of gfx12
    {0xe0000000, 1024, 16}, // MUBUF with its LDS bit
    {0xe8000000, 128, 15},  // MTBUF
    {0xc4000000, 256, 14},  // VBUFFER
};

class Search {
public:
  explicit Search(const Chip &chip) : chip_(chip) {}
  std::set<std::string> known, missing, wrong_size;

  void run() {
    for (const Family &f : kFamilies)
      for (u32 op = 0; op < f.opcodes; ++op)
        for (u32 second : {0u, 1u << 21}) { // where MTBUF of gfx10 goes on
          u32 words[4] = {f.base | op << f.shift, second, 0, 0};
          Encoding enc = classify(chip_, words[0]);
          if (enc == Encoding::none || enc == Encoding::vopd || (second && enc != Encoding::mtbuf))
            continue;
          Opcode opcode = opcode_of(chip_, enc, words);
          one(enc, opcode);
          if (!opcode.mask[2]) continue;
          for (u32 behind = 0; behind < 128; ++behind) { // what a scale prefix may belong to
            words[2] = 0xd3800000 | behind << 16;
            one(enc, opcode_of(chip_, enc, words));
          }
        }
    for (const std::string &name : known) missing.erase(name);
  }

private:
  void one(Encoding enc, const Opcode &opcode) {
    if (!asked_.insert(opcode.key(enc)).second) return;
    Named n = name_opcode(chip_, enc, opcode);
    if (n.mnemonic.empty()) return;
    Program p;
    p.chip = &chip_;
    p.bytes = n.size;
    std::string error;
    u8 bytes[16];
    std::memcpy(bytes, n.words, sizeof bytes);
    if (!decode_program(p, bytes, {{"k", 0, n.size}}, error)) {
      missing.insert(n.mnemonic);
      return;
    }
    known.insert(n.mnemonic);
    if (p.code[0].size != n.size) wrong_size.insert(n.mnemonic);
  }

  const Chip &chip_;
  std::set<u64> asked_;
};

} // namespace

// Three lists of mnemonics: what is missing, what has a length LLVM does not agree
// with, what is known. A line each, its names divided by blanks.
extern "C" __attribute__((visibility("default"))) const char *
engine_opcodes(const char *chip_name) {
  static std::string out;
  Search s(*find_chip(chip_name));
  s.run();
  out.clear();
  for (const auto *list : {&s.missing, &s.wrong_size, &s.known}) {
    for (const std::string &m : *list) out += m + " ";
    out += "\n";
  }
  return out.c_str();
}
