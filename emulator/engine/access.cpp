#include "access.h"

namespace mgx::emu {
inline namespace MGX_ISA {

alignas(64) static u8 g_zeros[64];
alignas(64) static thread_local u8 g_sink[64];

// Global addresses of all active lanes. The allocations last touched are kept
// by the wave, so the common case is one comparison a lane.
static bool resolve_global(Wave &w, const Inst &in, const u64 *address, u64 mask, u32 bytes,
                           Access &a) {
  MGX_LANES(w)
  CachedRange &c = w.cache[(in.pc >> 3) % 7];
  const u32 *m = mask_lanes(w, mask);
  if (c.size >= bytes) {
    u64 base = c.base, room = c.size - bytes, bad = 0;
    for (u32 i = 0; i < n; ++i) bad |= u64(address[i] - base > room) & m[i];
    if (!bad) {
      u64 zeros = reinterpret_cast<u64>(g_zeros);
      u64 *p = reinterpret_cast<u64 *>(a.p);
      for (u32 i = 0; i < n; ++i) p[i] = m[i] ? address[i] : zeros;
      return true;
    }
  }
  for (u32 i = 0; i < n; ++i) a.p[i] = g_zeros;
  bool ok = true;
  each_lane(mask, [&](u32 i) {
    u64 x = address[i];
    if (x - c.base >= c.size || bytes > c.size - (x - c.base)) {
      Range r = w.memory->find(x);
      if (!r || bytes > r.size - (x - r.base)) {
        if (ok)
          raise_fault(w, Fault::out_of_bounds, int(i), x,
                      a.store ? "store outside every allocation" : "load outside every allocation");
        ok = false;
        return;
      }
      c = {r.base, r.size};
    }
    a.p[i] = reinterpret_cast<u8 *>(x);
  });
  return ok;
}

//===-- Private memory ----------------------------------------------------===//

// Byte `offset` of a lane's scratch: dwords of the lanes are interleaved
// (AMDGPUUsage, "Private Segment").
MGX_INLINE u8 *private_byte(const Wave &w, u32 lane, u32 offset) {
  return w.scratch + (size_t(offset / 4) * w.lanes + lane) * 4 + offset % 4;
}
static bool resolve_private(Wave &w, u32 lane, u64 offset, Access &a) {
  if (offset > w.scratch_bytes || a.bytes > w.scratch_bytes - offset) {
    raise_fault(w, Fault::out_of_bounds, int(lane), offset,
                "private memory access beyond the kernel's scratch");
    return false;
  }
  if (offset % 4 + a.bytes <= 4) {
    a.p[lane] = private_byte(w, lane, u32(offset));
    return true;
  }
  a.staged |= u64(1) << lane;
  a.home[lane] = nullptr;
  a.valid[lane] = u32(offset);
  a.p[lane] = a.stage[lane];
  for (u32 b = 0; b < a.bytes; ++b) a.stage[lane][b] = *private_byte(w, lane, u32(offset) + b);
  return true;
}

//===-- Buffers -----------------------------------------------------------===//

struct Resource {
  u64 base;
  u32 stride, records, raw;
  bool add_tid, swizzle;
};
static Resource read_resource(const Wave &w, const Inst &in) {
  const u32 *r = &w.s[in.src[2].reg];
  Resource d;
  d.base = u64(r[1] & 0xffff) << 32 | r[0];
  if (d.base >> 47) d.base |= u64(0xffff) << 48; // canonical
  d.stride = r[1] >> 16 & 0x3fff;
  d.records = r[2];
  d.add_tid = r[3] >> 23 & 1;
  d.swizzle = w.chip->is_gfx11() || w.chip->is_gfx12() ? r[1] >> 30 : r[1] >> 31;
  d.raw = w.chip->is_gfx9() ? (d.stride == 0 || !d.swizzle) && !(in.flags & F_IDXEN && d.stride)
                            : (r[3] >> 28 & 3) == 3;
  return d;
}

static bool resolve_buffer(Wave &w, const Inst &in, u64 mask, Access &a) {
  Resource d = read_resource(w, in);
  u32 soffset = rs(w, in.src[3]);
  const u32 *first = in.flags & (F_OFFEN | F_IDXEN) ? w.vgpr(in.src[0].reg) : nullptr;
  const u32 *index = in.flags & F_IDXEN ? first : nullptr;
  const u32 *offset = in.flags & F_OFFEN ? (index ? first + kLanes : first) : nullptr;
  MGX_LANES(w)
  if (d.add_tid) { // the private segment buffer, as AMDGPUUsage sets it up
    bool ok = true;
    for (u32 i = 0; i < n; ++i) a.p[i] = g_zeros;
    u64 start = d.base - w.scratch_base + soffset; // of all lanes, in bytes
    each_lane(mask, [&](u32 i) {
      if (ok) ok = resolve_private(w, i, start / n + (offset ? offset[i] : 0) + u32(in.imm), a);
    });
    return ok;
  }
  alignas(64) u64 address[kLanes];
  u64 whole = 0, partial = 0;
  bool gfx9 = w.chip->is_gfx9();
  for (u32 i = 0; i < n; ++i) {
    u64 off = u64(offset ? offset[i] : 0) + u32(in.imm), idx = index ? index[i] : 0;
    address[i] = d.base + soffset + idx * d.stride + off;
    bool in_whole, in_part;
    if (d.raw) {
      u64 at = gfx9 ? off + soffset + idx * d.stride : off + idx * d.stride;
      in_whole = at + a.bytes <= d.records;
      in_part = at + 4 <= d.records;
    } else {
      in_whole = idx < d.records && (!d.stride || off + a.bytes <= d.stride || !d.swizzle);
      if (d.stride == 0) in_whole = off + a.bytes <= d.records;
      in_part = false;
    }
    if (w.strict && d.raw && !in_whole && mask >> i & 1) {
      u64 sum = off + soffset + idx * d.stride;
      if (sum >> 32 && u64(u32(sum)) + a.bytes <= d.records) {
        raise_fault(w, Fault::out_of_bounds, int(i), d.base + u32(sum),
                    "the offsets of a buffer access are in bounds only if their sum wraps");
        return false;
      }
    }
    whole |= u64(in_whole) << i;
    partial |= u64(!in_whole && in_part && a.bytes > 4) << i;
  }
  whole &= mask;
  partial &= mask;
  if (!resolve_global(w, in, address, whole, a.bytes, a)) return false;
  if (w.probe || w.strict) probe_global(w, in, address, whole, a.bytes, a.load, a.store);
  each_lane(mask & ~whole, [&](u32 i) { a.p[i] = a.store ? g_sink : g_zeros; });
  bool ok = true;
  each_lane(partial, [&](u32 i) {
    u64 at = address[i] - d.base + (gfx9 ? 0 : -u64(soffset));
    u32 valid = u32((d.records - at) & ~u64(3));
    if (!w.memory->check(address[i], valid)) {
      raise_fault(w, Fault::out_of_bounds, int(i), address[i],
                  "buffer access outside every allocation");
      ok = false;
      return;
    }
    a.staged |= u64(1) << i;
    a.home[i] = reinterpret_cast<u8 *>(address[i]);
    a.valid[i] = valid;
    a.p[i] = a.stage[i];
    std::memset(a.stage[i], 0, 16);
    std::memcpy(a.stage[i], a.home[i], valid);
  });
  return ok;
}

//===-- Flat --------------------------------------------------------------===//

static bool resolve_flat(Wave &w, const Inst &in, const u64 *address, u64 mask, Access &a) {
  u64 lds = 0, scratch = 0;
  for (u32 i = 0; i < w.lanes; ++i) {
    lds |= u64(address[i] >> 32 == kSharedBase >> 32) << i;
    scratch |= u64(address[i] >> 32 == kPrivateBase >> 32) << i;
  }
  lds &= mask;
  scratch &= mask;
  u64 global = mask & ~(lds | scratch);
  if (!resolve_global(w, in, address, global, a.bytes, a)) return false;
  if (global && (w.probe || w.strict))
    probe_global(w, in, address, global, a.bytes, a.load, a.store);
  bool ok = true;
  alignas(64) u32 offset[kLanes];
  each_lane(lds, [&](u32 i) {
    offset[i] = u32(address[i]);
    if (offset[i] > w.lds_bytes || a.bytes > w.lds_bytes - offset[i]) {
      if (ok)
        raise_fault(w, Fault::lds_out_of_bounds, int(i), offset[i],
                    "flat access beyond the work-group's LDS");
      ok = false;
      return;
    }
    a.p[i] = w.lds + offset[i];
  });
  if (ok && lds && (w.probe || w.strict)) probe_lds(w, in, offset, lds, a.bytes, a.load, a.store);
  each_lane(scratch, [&](u32 i) {
    if (ok) ok = resolve_private(w, i, u32(address[i]), a);
  });
  return ok;
}

bool resolve(Wave &w, const Inst &in, u32 bytes, bool load, bool store, Access &a) {
  MGX_LANES(w)
  u64 mask = exec_of(w);
  a.mask = mask;
  a.bytes = bytes;
  a.load = load;
  a.store = store;
  if (in.cbsz == S_BUFFER) return resolve_buffer(w, in, mask, a);
  if (in.cbsz == S_SCRATCH) {
    u32 base = u32(in.imm) + (in.flags & F_SADDR ? rs(w, in.src[2]) : 0);
    const u32 *v = in.flags & F_VADDR ? w.vgpr(in.src[0].reg) : nullptr;
    bool ok = true;
    for (u32 i = 0; i < n; ++i) a.p[i] = g_zeros;
    each_lane(mask, [&](u32 i) {
      if (ok) ok = resolve_private(w, i, u32(base + (v ? v[i] : 0)), a);
    });
    return ok;
  }
  alignas(64) u64 address[kLanes];
  const u32 *v = in.src[0].kind == O_CONST ? in.src[0].k : w.vgpr(in.src[0].reg);
  u64 base = u64(i64(in.imm));
  if (in.flags & F_SADDR) {
    base += rs64(w, in.src[2]);
    for (u32 i = 0; i < n; ++i) address[i] = base + v[i];
  } else {
    for (u32 i = 0; i < n; ++i) address[i] = base + (u64(v[kLanes + i]) << 32 | v[i]);
  }
  if (in.cbsz == S_FLAT) return resolve_flat(w, in, address, mask, a);
  if (!resolve_global(w, in, address, mask, bytes, a)) return false;
  if (w.probe || w.strict) probe_global(w, in, address, mask, bytes, load, store);
  return true;
}

void finish_store(Wave &w, Access &a) {
  each_lane(a.staged, [&](u32 i) {
    if (a.home[i]) std::memcpy(a.home[i], a.stage[i], a.valid[i]);
    else
      for (u32 b = 0; b < a.bytes; ++b) *private_byte(w, i, a.valid[i] + b) = a.stage[i][b];
  });
}

} // namespace MGX_ISA
} // namespace mgx::emu
