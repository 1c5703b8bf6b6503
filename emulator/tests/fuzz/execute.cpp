// libFuzzer over execution: any words that decode run on one wave without harm.
// The first byte chooses chip and wave size, the next four the mode.
#include "engine/engine.h"

#include <cstring>
#include <vector>

using namespace mgx::emu;

// As in engine/snippet.cpp.
struct Snippet {
  const char *chip;
  uint32_t wave_size, mode;
  const void *code;
  uint64_t code_size;
  uint32_t scc, m0;
  uint64_t vcc, exec;
  uint32_t *sgpr, *vgpr;
  void *memory;
  uint64_t memory_size;
  void *lds;
  uint32_t lds_size, reserved;
  char *error;
  uint64_t error_size;
};
extern "C" int mgxEmulatorRunSnippet(void *snippet);

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  if (size < 9) return 0;
  const std::vector<Chip> &chips = all_chips();
  const Chip &chip = chips[data[0] % chips.size()];
  static std::vector<uint32_t> sgpr(108), vgpr(512 * 64);
  static std::vector<uint8_t> memory(4096), lds(4096);
  for (size_t i = 0; i < vgpr.size(); ++i) vgpr[i] = uint32_t(i * 2654435761u);
  for (size_t i = 0; i < sgpr.size(); ++i) sgpr[i] = uint32_t(i * 40503);
  uint64_t base = reinterpret_cast<uint64_t>(memory.data());
  sgpr[4] = uint32_t(base);
  sgpr[5] = uint32_t(base >> 32);
  char error[256];
  Snippet s = {};
  s.chip = chip.name;
  s.wave_size = chip.is_gfx9() || data[0] & 0x80 ? 64 : 32;
  std::memcpy(&s.mode, data + 1, 4);
  std::vector<uint8_t> code(data + 5, data + 5 + (size - 5) / 4 * 4);
  s.code = code.data();
  s.code_size = code.size();
  s.vcc = 0x123456789abcdef0;
  s.exec = s.wave_size == 64 ? ~uint64_t(0) : 0xffffffff;
  s.sgpr = sgpr.data();
  s.vgpr = vgpr.data();
  s.memory = memory.data();
  s.memory_size = memory.size();
  s.lds = lds.data();
  s.lds_size = uint32_t(lds.size());
  s.error = error;
  s.error_size = sizeof error;
  mgxEmulatorRunSnippet(&s);
  return 0;
}
