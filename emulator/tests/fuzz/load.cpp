// libFuzzer over everything that reads a file: ELF, msgpack metadata, offload
// bundles, compressed ones, and the decoder of machine code.
#include "engine/engine.h"

#include <cstring>

using namespace mgx::emu;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  static Memory memory(uint64_t(1) << 32);
  const Chip *chip = &all_chips().front();
  for (const Chip &c : all_chips())
    if (c.elf_mach == elf_mach_of(data, size)) chip = &c;
  FoundCodeObject found = find_code_object(data, size, *chip);
  if (found.status != FoundCodeObject::ok) return 0;
  for (const Chip &c : all_chips())
    if (c.elf_mach == elf_mach_of(found.bytes.data(), found.bytes.size())) chip = &c;
  std::string error;
  uint64_t held = memory.allocated_bytes();
  {
    auto object = CodeObject::load(found.bytes.data(), found.bytes.size(), *chip, memory, error);
    if (!object && error.empty()) __builtin_trap(); // a refusal says why
    if (object)
      for (const Kernel &k : object->kernels()) {
        Dispatch d;
        d.kernel = &k;
        fill_hidden_arguments(d);
        occupancy(k, *chip, 64, 0);
      }
  }
  if (memory.allocated_bytes() != held) __builtin_trap(); // nothing stays behind
  return 0;
}
