// Which instructions of a chip the engine lacks, found by naming every opcode of
// every encoding family with LLVM.
#include "engine/decode.h"
#include "engine/decode_fields.h"

#include <cstring>
#include <set>

using namespace mgx::emu;

static void try_words(const Chip &chip, std::set<std::string> &known, std::set<std::string> &missing, std::initializer_list<u32> words) {
  u8 bytes[24] = {};
  std::memcpy(bytes, words.begin(), words.size() * 4);
  Named n = name_instruction(chip, bytes, sizeof bytes, !chip.is_gfx9());
  if (n.mnemonic.empty() || known.count(n.mnemonic) || missing.count(n.mnemonic)) return;
  Program p;
  p.chip = &chip;
  p.bytes = n.size;
  std::string error;
  std::vector<CodeSymbol> f = {{"k", 0, n.size}};
  (decode_program(p, bytes, f, error) ? known : missing).insert(n.mnemonic);
}

extern "C" __attribute__((visibility("default"))) const char *engine_missing(const char *chip_name, int list_known) {
  static std::string out;
  const Chip &c = *find_chip(chip_name);
  std::set<std::string> known, missing;
  auto t = [&](std::initializer_list<u32> w) { try_words(c, known, missing, w); };
  for (u32 op = 0; op < 256; ++op) {
    t({0xbe800000u | op << 8});                        // SOP1
    t({0xbe800000u | op << 8 | 0x80});
    if (op < 128) {
      t({0x80000000u | op << 23});                     // SOP2
      t({0xbf000000u | op << 16});                     // SOPC
      t({0xbf800000u | op << 16});                     // SOPP
      t({0xcc000000u | op << 16, 0x04020501});         // VOP3P
      t({0xcc004000u | op << 16, 0x1c020501});
      t({0xd3800000u | op << 16, 0x04020501});
      t({0xd3800000u | op << 16, 0x04060502});
      t({0xd3800000u | op << 16, 0x040a0500});
      t({0xd3804000u | op << 16, 0x1c0a0500});
    }
    if (op < 32) t({0xb0000000u | op << 23, 0});       // SOPK
    if (op < 62) t({op << 25 | 0x00020501, 0});        // VOP2
    if (op < 62) t({op << 25 | 0x00020500 | 0x100, 0});
    t({0x7e000000u | op << 9 | 0x101});                // VOP1
    t({0x7e000000u | op << 9 | 0x02});
    t({0x7c000000u | op << 17 | 0x501});               // VOPC
    t({0xc0000000u | op << 18, 0x1000});               // SMEM of gfx9
    t({0xc0020000u | op << 18, 0});
    t({0xf4000000u | op << 18, 0xf8000000});           // SMEM of gfx10, gfx11
    t({0xf4000000u | op << 13, 0xf8000000});           // SMEM of gfx12
    t({0xd8000000u | op << 17, 0x04030201});           // DS
    t({0xd8000000u | op << 18, 0x04030201});
    t({0xd8000000u | op << 18, 0x04030200});
    t({0xd8000000u | op << 17, 0x04000001});
    t({0xd8000000u | op << 17, 0x04000201});
    for (u32 segment = 0; segment < 4; ++segment) {
      if (op < 128) {
        t({0xdc000000u | op << 18 | segment << 14, 0x007f0200}); // FLAT of gfx9
        t({0xdc000000u | op << 18 | segment << 14 | 1 << 16, 0x007f0200});
        t({0xdc000000u | op << 18 | segment << 14, 0x007d0200}); // gfx10
        t({0xdc000000u | op << 18 | segment << 14 | 1 << 16, 0x007d0200});
        t({0xdc000000u | op << 18 | segment << 16, 0x007c0200}); // gfx11
        t({0xdc000000u | op << 18 | segment << 16 | 1 << 14, 0x007c0200});
      }
      t({0xec000000u | op << 14 | segment << 24 | 0x7c, 0x01000000, 2}); // gfx12
      t({0xec000000u | op << 14 | segment << 24 | 0x7c, 0x01100000, 2});
    }
    t({0xe0000000u | op << 18, 0x80010200});           // MUBUF
    t({0xe0004000u | op << 18, 0x80010200});
    t({0xe0010000u | op << 18, 0x80010000});
    t({0xc4000000u | op << 14 | 0x80, 0x00000800, 0}); // VBUFFER
    t({0xc4000000u | op << 14 | 0x80, 0x00100800, 0});
  }
  for (u32 op = 0; op < 1024; ++op)
    for (u32 base : {0xd0000000u, 0xd4000000u}) {      // VOP3
      if (op >= 0x380 && op < 0x400 && base == 0xd0000000u) continue;
      t({base | op << 16, 0x040a0501});
      t({base | op << 16, 0x00000501});
      t({base | op << 16, 0x00000001});
      t({base | op << 16 | 2, 0x04120902});
      t({base | op << 16 | 2, 0x000a0902});
      t({base | op << 16, 0x00000101});
    }
  out.clear();
  for (const std::string &m : list_known ? known : missing) out += m + "\n";
  return out.c_str();
}
