// The initial state of waves: AMDGPUUsage, "Initial Kernel Execution State".
#include "run.h"

#include <algorithm>
#include <cwchar>
#include <new>
#include <sys/mman.h>

namespace mgx::emu {

Pages::~Pages() {
  if (data_) munmap(data_, bytes_);
}

bool Pages::reserve(size_t bytes) {
  if (bytes <= bytes_) return true;
  if (data_) munmap(data_, bytes_);
  void *p = mmap(nullptr, bytes, PROT_READ | PROT_WRITE,
                 MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  data_ = p == MAP_FAILED ? nullptr : static_cast<u8 *>(p);
  bytes_ = data_ ? bytes : 0;
  return data_;
}

namespace {

// Registers, LDS and scratch hold what an earlier kernel left: on hardware anything, here a value
// that shows. It is a NaN as f16, bf16, f32, f64 and as OCP f8, and as an integer or an index
// far from everything.
constexpr u32 kLeftover = 0x7fff7fff;

void fill_leftover(void *p, size_t bytes) { // whole words
  static_assert(sizeof(wchar_t) == 4, "the C library has a fast fill of words");
  std::wmemset(static_cast<wchar_t *>(p), wchar_t(kLeftover), (bytes + 3) / 4);
}

enum Property : u32 {
  kPrivateBuffer = 0,
  kDispatchPtr,
  kQueuePtr,
  kKernargPtr,
  kDispatchId,
  kFlatScratchInit,
  kPrivateSize
};

bool architected_scratch(const Chip &c) { return c.gfx940_up() || c.is_gfx11() || c.is_gfx12(); }

class UserSgprs {
public:
  explicit UserSgprs(Wave &w) : w_(w) {}
  void add(u32 x) {
    if (next_ < 106) w_.s[next_++] = x;
  }
  void add64(u64 x) {
    add(u32(x));
    add(u32(x >> 32));
  }
  void skip_to(u32 n) { next_ = n; }

private:
  Wave &w_;
  u32 next_ = 0;
};

void init_sgprs(const Launch &l, Wave &w, const Group &g) {
  const KernelDescriptor &d = *l.descriptor;
  std::fill_n(w.s, kTtmp, kLeftover);
  w.s[kM0] = kLeftover;
  auto has = [&](u32 bit) { return d.properties >> bit & 1; };
  u64 scratch = w.scratch_base;
  UserSgprs s(w);
  if (has(kPrivateBuffer)) { // a buffer resource; add_tid marks it as private memory
    s.add(u32(scratch));
    s.add(u32(scratch >> 32) & 0xffff);
    s.add(~0u);
    s.add(1u << 23);
  }
  if (has(kDispatchPtr)) s.add64(l.packet);
  if (has(kQueuePtr)) s.add64(l.queue);
  if (has(kKernargPtr)) s.add64(l.kernarg);
  if (has(kDispatchId)) s.add64(0);
  if (has(kFlatScratchInit)) s.add64(scratch);
  if (has(kPrivateSize)) s.add(w.scratch_bytes);
  u32 preload = d.preload & 127, from = d.preload >> 7;
  for (u32 i = 0; i < preload; ++i) {
    u32 x = 0;
    u64 at = u64(from + i) * 4;
    if (at + 4 <= l.kernel->kernarg_size)
      std::memcpy(&x, reinterpret_cast<const void *>(l.kernarg + at), 4);
    s.add(x);
  }
  if (l.chip->is_gfx12()) { // in trap temporaries
    w.s[kTtmp + 9] = g.id[0];
    w.s[kTtmp + 7] = (g.id[1] & 0xffff) | g.id[2] << 16;
    return;
  }
  s.skip_to(d.rsrc2 >> 1 & 31);
  for (u32 i = 0; i < 3; ++i)
    if (d.rsrc2 >> (7 + i) & 1) s.add(g.id[i]);
  if (d.rsrc2 >> 10 & 1) s.add(w.id);
  // The wave's offset into scratch: none, the buffer above is the wave's own.
  if (d.rsrc2 & 1 && !architected_scratch(*l.chip)) s.add(0);
}

void init_vgprs(const Launch &l, Wave &w, const u32 *size) {
  const KernelDescriptor &d = *l.descriptor;
  bool packed = !l.chip->is_gfx10();
  u32 ids = d.rsrc2 >> 11 & 3;
  for (u32 i = 0; i < w.lanes; ++i) {
    u32 t = w.id * w.lanes + i;
    u32 x = t % size[0], y = t / size[0] % size[1], z = t / size[0] / size[1];
    if (packed) {
      w.vgpr(0)[i] = x | (ids >= 1 ? y << 10 : 0) | (ids >= 2 ? z << 20 : 0);
    } else {
      w.vgpr(0)[i] = x;
      if (ids >= 1) w.vgpr(1)[i] = y;
      if (ids >= 2) w.vgpr(2)[i] = z;
    }
  }
}

} // namespace

u32 given_sgprs(const Launch &l) {
  u32 rsrc2 = l.descriptor->rsrc2, count = rsrc2 >> 1 & 31;
  if (l.chip->is_gfx12()) return count;
  for (u32 bit : {0u, 7u, 8u, 9u, 10u})
    if (bit || !architected_scratch(*l.chip)) count += rsrc2 >> bit & 1;
  return count;
}

void init_wave(const Launch &l, GroupState &state, u32 id, const u32 *size) {
  Wave &w = *state.waves[id];
  u32 *v = reinterpret_cast<u32 *>(state.registers.data()) + size_t(id) * kVgprs * kLanes;
  std::memset(static_cast<void *>(&w), 0, sizeof w);
  w.v = v;
  fill_leftover(v, size_t(l.vgprs) * kLanes * 4);
  if (l.agprs) fill_leftover(v + kAccBase * kLanes, size_t(l.agprs) * kLanes * 4);
  w.lanes = l.kernel->wave_size;
  w.all = w.lanes == 64 ? ~u64(0) : 0xffffffffu;
  w.mask_of = 0;
  w.scratch_bytes = l.scratch_bytes;
  w.scratch = state.scratch.data() ? state.scratch.data() + size_t(id) * l.scratch_bytes * w.lanes
                                   : nullptr;
  w.scratch_base = reinterpret_cast<u64>(w.scratch);
  w.lds = state.lds.data();
  w.lds_bytes = l.lds_bytes;
  w.group = &state.group;
  w.memory = l.memory;
  w.program = l.program;
  w.chip = l.chip;
  w.id = id;
  w.pc = l.entry;
  // MODE: rounding and denormals, DX10_CLAMP at bit 8, IEEE at bit 9, FP16_OVFL at 23.
  u32 r = l.descriptor->rsrc1;
  w.mode = (r >> 12 & 0xff) | (r >> 21 & 1) << 8 | (r >> 23 & 1) << 9 | (r >> 26 & 1) << 23;
  w.special_mode = is_special_mode(w.mode);
  u32 threads = size[0] * size[1] * size[2], first = id * w.lanes;
  u32 active = std::min(threads - first, w.lanes);
  u64 exec = active == 64 ? ~u64(0) : (u64(1) << active) - 1;
  set_s64(w, kExec, exec);
  init_sgprs(l, w, state.group);
  init_vgprs(l, w, size);
}

bool GroupState::start(const Launch &l, u64 index, Probe *probe) {
  const Dispatch &d = *l.dispatch;
  group = Group();
  group.grid = &l.grid;
  group.id[0] = u32(index % d.grid[0]);
  group.id[1] = u32(index / d.grid[0] % d.grid[1]);
  group.id[2] = u32(index / d.grid[0] / d.grid[1]);
  u32 size[3];
  for (int i = 0; i < 3; ++i)
    size[i] = d.remainder[i] && group.id[i] + 1 == d.grid[i] ? d.remainder[i] : d.block[i];
  u32 lanes = l.kernel->wave_size, threads = size[0] * size[1] * size[2];
  live_waves = (threads + lanes - 1) / lanes;
  group.waves_total = group.live = live_waves;
  size_t scratch_all = size_t(l.waves) * l.scratch_bytes * lanes;
  if (!registers.reserve(size_t(l.waves) * kVgprs * kLanes * 4) || !lds.reserve(l.lds_bytes + 64) ||
      (scratch_all && !scratch.reserve(scratch_all)) ||
      !wave_memory.reserve(l.waves * sizeof(Wave)))
    return false;
  fill_leftover(lds.data(), l.lds_bytes);
  if (scratch_all && scratch_all <= 1 << 20) fill_leftover(scratch.data(), scratch_all);
  waves.resize(l.waves);
  for (u32 i = 0; i < l.waves; ++i) waves[i] = reinterpret_cast<Wave *>(wave_memory.data()) + i;
  for (u32 i = 0; i < live_waves; ++i) {
    init_wave(l, *this, i, size);
    waves[i]->probe = probe;
  }
  turns.resize(live_waves);
  for (u32 i = 0; i < live_waves; ++i)
    turns[i] = l.options.order.kind == Order::reversed ? live_waves - 1 - i : i;
  random = l.options.order.seed ^ index << 20;
  return true;
}

//===-- Hidden arguments --------------------------------------------------===//

void fill_hidden_arguments(Dispatch &d) {
  const Kernel &k = *d.kernel;
  if (d.kernarg.size() < k.kernarg_size) d.kernarg.resize(k.kernarg_size);
  u32 dims = d.grid[2] * d.block[2] > 1 ? 3 : d.grid[1] * d.block[1] > 1 ? 2 : 1;
  for (const KernelArg &a : k.args) {
    u64 x = 0;
    switch (a.kind) {
    case ArgKind::hidden_global_offset_x: x = d.global_offset[0]; break;
    case ArgKind::hidden_global_offset_y: x = d.global_offset[1]; break;
    case ArgKind::hidden_global_offset_z: x = d.global_offset[2]; break;
    // Full work-groups only: a partial last one is told by the remainder.
    case ArgKind::hidden_block_count_x: x = d.grid[0] - (d.remainder[0] != 0); break;
    case ArgKind::hidden_block_count_y: x = d.grid[1] - (d.remainder[1] != 0); break;
    case ArgKind::hidden_block_count_z: x = d.grid[2] - (d.remainder[2] != 0); break;
    case ArgKind::hidden_group_size_x: x = d.block[0]; break;
    case ArgKind::hidden_group_size_y: x = d.block[1]; break;
    case ArgKind::hidden_group_size_z: x = d.block[2]; break;
    case ArgKind::hidden_remainder_x: x = d.remainder[0]; break;
    case ArgKind::hidden_remainder_y: x = d.remainder[1]; break;
    case ArgKind::hidden_remainder_z: x = d.remainder[2]; break;
    case ArgKind::hidden_grid_dims: x = dims; break;
    case ArgKind::hidden_multigrid_sync_arg: x = d.multigrid_sync; break;
    case ArgKind::hidden_dynamic_lds_size: x = d.dynamic_lds; break;
    case ArgKind::hidden_private_base: x = kPrivateBase >> 32; break;
    case ArgKind::hidden_shared_base: x = kSharedBase >> 32; break;
    default:
      if (!a.hidden()) continue;
    }
    std::memcpy(d.kernarg.data() + a.offset, &x, std::min<u32>(a.size, 8));
  }
}

} // namespace mgx::emu
