// One entry point for tests of single instructions: a few of them run on one wave with given
// registers and memory, without a code object or a dispatch.
#include <cstdio>
#include <cstring>
#include <memory>
#include <vector>

#include "decode.h"
#include "run.h"

namespace mgx::emu {
namespace {

constexpr uint32_t kSgprs = 106; // s0 to s105; VCC has its own field

struct Snippet {
  const char *chip;
  uint32_t wave_size, mode;
  const void *code;
  uint64_t code_size;
  uint32_t scc, m0;
  uint64_t vcc, exec;
  uint32_t *sgpr; // at least 106
  uint32_t *vgpr; // 512 registers of 64 lanes; from 256 on accumulation registers
  void *memory;   // what global and flat accesses may reach, at its host address
  uint64_t memory_size;
  void *lds;
  uint32_t lds_size, reserved;
  char *error;
  uint64_t error_size;
};

std::string run(Snippet &s) {
  const Chip *chip = find_chip(s.chip);
  if (!chip) return std::string("no chip ") + s.chip;
  std::vector<u8> code(static_cast<const u8 *>(s.code),
                       static_cast<const u8 *>(s.code) + s.code_size);
  const u32 endpgm = chip->is_gfx11() || chip->is_gfx12() ? 0xbfb00000u : 0xbf810000u;
  const u8 *tail = reinterpret_cast<const u8 *>(&endpgm);
  code.insert(code.end(), tail, tail + 4);

  Program program;
  program.chip = chip;
  program.base = 0x10000;
  program.bytes = code.size();
  std::string error;
  if (!decode_program(program, code.data(), {{"snippet", 0, code.size()}}, error)) return error;

  Memory memory(uint64_t(1) << 24);
  if (s.memory) memory.register_host(s.memory, s.memory_size);
  std::vector<u8> scratch(64 * 1024);
  void *block = nullptr;
  if (posix_memalign(&block, 64, (kVgprs + 16) * kLanes * sizeof(u32))) return "out of memory";
  const std::unique_ptr<void, decltype(&std::free)> registers(block, &std::free);
  std::memset(block, 0, (kVgprs + 16) * kLanes * sizeof(u32));
  std::memcpy(block, s.vgpr, 512 * kLanes * sizeof(u32));

  auto wave = std::make_unique<Wave>();
  std::memset(static_cast<void *>(wave.get()), 0, sizeof(Wave));
  Wave &w = *wave;
  GroupState state;
  state.group = Group{};
  state.group.waves_total = state.group.live = 1;
  state.waves = {&w};
  state.live_waves = 1;
  state.turns = {0};
  std::memcpy(w.s, s.sgpr, kSgprs * sizeof(u32));
  w.v = static_cast<u32 *>(block);
  w.lanes = s.wave_size;
  w.all = s.wave_size == 64 ? ~u64(0) : 0xffffffffu;
  set_s64(w, kVcc, s.vcc);
  set_s64(w, kExec, s.exec);
  w.s[kM0] = s.m0;
  w.scc = s.scc;
  w.mode = s.mode;
  w.special_mode = is_special_mode(s.mode);
  w.mask_of = 0; // the empty mask, which lane_mask holds
  w.wmask = w.all;
  w.scratch = scratch.data();
  w.scratch_base = reinterpret_cast<u64>(w.scratch);
  w.scratch_bytes = u32(scratch.size() / 64);
  w.lds = static_cast<u8 *>(s.lds);
  w.lds_bytes = s.lds_size;
  w.group = &state.group;
  w.memory = &memory;
  w.program = &program;
  w.chip = chip;
  w.pc = program.code.data();
  Launch launch;
  launch.program = &program;
  launch.chip = chip;
  launch.memory = &memory;
  launch.options.instruction_budget = 100000;
  run_group(launch, state);
  if (s.memory) memory.unregister_host(s.memory);
  if (w.stop == Stop::fault)
    return std::string(w.fault_text ? w.fault_text : "fault") + ", " + program.names[w.pc->name] +
           ", lane " + std::to_string(w.fault_lane);
  if (!w.ended) return "the snippet did not end";

  std::memcpy(s.sgpr, w.s, kSgprs * sizeof(u32));
  std::memcpy(s.vgpr, w.v, 512 * kLanes * sizeof(u32));
  s.vcc = s64(w, kVcc);
  s.exec = exec_of(w);
  s.m0 = w.s[kM0];
  s.scc = w.scc;
  s.mode = w.mode;
  return {};
}

} // namespace
} // namespace mgx::emu

// 0 on success; otherwise `error` says why and the state is as it was.
extern "C" __attribute__((visibility("default"))) int mgxEmulatorRunSnippet(void *snippet) {
  auto &s = *static_cast<mgx::emu::Snippet *>(snippet);
  const std::string error = mgx::emu::run(s);
  if (error.empty()) return 0;
  if (s.error && s.error_size) std::snprintf(s.error, s.error_size, "%s", error.c_str());
  return 1;
}
