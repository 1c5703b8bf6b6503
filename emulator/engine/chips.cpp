// The emulated chips. Sources: AMDGPUUsage (targets, e_flags), the ISA documents
// (registers, LDS), and the published data sheets of the named products.
#include "engine.h"

namespace mgx::emu {

static const std::vector<Chip> kChips = {
    // name, target id, product, generation, mach, version, wave, LDS, LDS a CU, VGPRs, total, SGPRs,
    // SIMDs, waves a SIMD, CUs, multiprocessors, clock kHz, memory kHz, bus bits, memory, L2, threads, PCI
    {"gfx90a", "gfx90a:sramecc+:xnack-", "AMD Instinct MI210", Generation::cdna2, 0x3f, 9, 0, 10, 64,
     65536, 65536, 256, 512, 102, 4, 8, 104, 104, 1700000, 1600000, 4096, uint64_t(64) << 30, 8u << 20, 2048, 0x740f},
    {"gfx942", "gfx942:sramecc+:xnack-", "AMD Instinct MI300X", Generation::cdna3, 0x4c, 9, 4, 2, 64,
     65536, 65536, 256, 512, 102, 4, 8, 304, 304, 2100000, 1300000, 8192, uint64_t(192) << 30, 4u << 20, 2048, 0x74a1},
    {"gfx950", "gfx950:sramecc+:xnack-", "AMD Instinct MI355X", Generation::cdna4, 0x4f, 9, 5, 0, 64,
     163840, 163840, 256, 512, 102, 4, 8, 256, 256, 2400000, 2000000, 8192, uint64_t(288) << 30, 4u << 20, 2048, 0x75a3},
    {"gfx1030", "gfx1030", "AMD Radeon RX 6900 XT", Generation::rdna2, 0x36, 10, 3, 0, 32,
     65536, 65536, 256, 1024, 106, 2, 16, 80, 40, 2250000, 1000000, 256, uint64_t(16) << 30, 4u << 20, 2048, 0x73bf},
    {"gfx1100", "gfx1100", "AMD Radeon RX 7900 XTX", Generation::rdna3, 0x41, 11, 0, 0, 32,
     65536, 65536, 256, 1536, 106, 2, 16, 96, 48, 2498000, 1249000, 384, uint64_t(24) << 30, 6u << 20, 2048, 0x744c},
    {"gfx1151", "gfx1151", "AMD Radeon 8060S Graphics", Generation::rdna3, 0x4a, 11, 5, 1, 32,
     65536, 65536, 256, 1536, 106, 2, 16, 40, 20, 2900000, 1000000, 256, uint64_t(64) << 30, 2u << 20, 2048, 0x1586},
    {"gfx1200", "gfx1200", "AMD Radeon RX 9060 XT", Generation::rdna4, 0x48, 12, 0, 0, 32,
     65536, 65536, 256, 1536, 106, 2, 16, 32, 16, 3130000, 1258000, 128, uint64_t(16) << 30, 4u << 20, 2048, 0x7590},
    {"gfx1201", "gfx1201", "AMD Radeon RX 9070 XT", Generation::rdna4, 0x4e, 12, 0, 1, 32,
     65536, 65536, 256, 1536, 106, 2, 16, 64, 32, 2970000, 1258000, 256, uint64_t(16) << 30, 8u << 20, 2048, 0x7550},
};

const std::vector<Chip> &all_chips() { return kChips; }

const Chip *find_chip(std::string_view name) {
  std::string_view base = name.substr(0, name.find(':'));
  for (const Chip &c : kChips)
    if (base == c.name) return &c;
  return nullptr;
}

} // namespace mgx::emu
