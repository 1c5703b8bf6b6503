// LDS: loads, stores and cross-lane permutes. LDS belongs to one work-group,
// whose waves run on one thread, so plain accesses do.
#include "access.h"
#include "ds.h"

namespace mgx::emu {
inline namespace MGX_ISA {

// Byte offsets of all active lanes; false after a fault.
bool lds_addresses(Wave &w, const Inst &in, u32 extra, u32 bytes, bool load, bool store, u32 *out) {
  MGX_LANES(w)
  const u32 *a = w.vgpr(in.src[0].reg);
  u64 mask = exec_of(w);
  const u32 *m = mask_lanes(w, mask);
  u32 bad = 0, size = w.lds_bytes;
  u32 room = size >= bytes ? size - bytes : 0;
  for (u32 i = 0; i < n; ++i) {
    out[i] = (a[i] + extra) & m[i];
    bad |= u32(out[i] > room) & m[i];
  }
  if (bad || (size < bytes && mask)) {
    for (u32 i = 0; i < n; ++i)
      if (mask >> i & 1 && (size < bytes || out[i] > room)) {
        raise_fault(w, Fault::lds_out_of_bounds, int(i), out[i],
                    store ? "LDS store beyond the work-group's allocation"
                          : "LDS load beyond the work-group's allocation");
        return false;
      }
  }
  if (w.probe || w.strict) probe_lds(w, in, out, mask, bytes, load, store);
  return true;
}

template <class T> MGX_INLINE T lds_read(const Wave &w, u32 at) {
  T x;
  std::memcpy(&x, w.lds + at, sizeof x);
  return x;
}

template <class T> static void load_small(Wave &w, const Inst &in) {
  alignas(64) u32 at[kLanes];
  if (!lds_addresses(w, in, u32(in.imm), sizeof(T), true, false, at)) return;
  u32 *d = w.vgpr(in.dst.reg);
  each_lane(exec_of(w), [&](u32 i) { d[i] = u32(i32(lds_read<T>(w, at[i]))); });
}
template <class T, bool kHigh> static void load_d16(Wave &w, const Inst &in) {
  alignas(64) u32 at[kLanes];
  if (!lds_addresses(w, in, u32(in.imm), sizeof(T), true, false, at)) return;
  u32 *d = w.vgpr(in.dst.reg);
  each_lane(exec_of(w), [&](u32 i) {
    u32 x = u16(i16(lds_read<T>(w, at[i])));
    d[i] = kHigh ? (d[i] & 0xffff) | x << 16 : (d[i] & 0xffff0000) | x;
  });
}
template <u32 kWords> static void load(Wave &w, const Inst &in) {
  alignas(64) u32 at[kLanes];
  if (!lds_addresses(w, in, u32(in.imm), 4 * kWords, true, false, at)) return;
  u32 *d = w.vgpr(in.dst.reg);
  u64 mask = exec_of(w);
  if (mask == w.all) {
    MGX_LANES(w)
    for (u32 i = 0; i < n; ++i)
      for (u32 k = 0; k < kWords; ++k) d[k * kLanes + i] = lds_read<u32>(w, at[i] + 4 * k);
    return;
  }
  each_lane(mask, [&](u32 i) {
    for (u32 k = 0; k < kWords; ++k) d[k * kLanes + i] = lds_read<u32>(w, at[i] + 4 * k);
  });
}
template <class T, u32 kShift> static void store_small(Wave &w, const Inst &in) {
  alignas(64) u32 at[kLanes];
  if (!lds_addresses(w, in, u32(in.imm), sizeof(T), false, true, at)) return;
  const u32 *s = w.vgpr(in.src[1].reg);
  each_lane(exec_of(w), [&](u32 i) {
    T x = T(s[i] >> kShift);
    std::memcpy(w.lds + at[i], &x, sizeof x);
  });
}
template <u32 kWords> static void store(Wave &w, const Inst &in) {
  alignas(64) u32 at[kLanes];
  if (!lds_addresses(w, in, u32(in.imm), 4 * kWords, false, true, at)) return;
  const u32 *s = w.vgpr(in.src[1].reg);
  each_lane(exec_of(w), [&](u32 i) {
    for (u32 k = 0; k < kWords; ++k) std::memcpy(w.lds + at[i] + 4 * k, &s[k * kLanes + i], 4);
  });
}

// Two accesses in one: 8-bit offsets in units of the element, or of 64 of them.
template <u32 kWords, u32 kStride> static void load2(Wave &w, const Inst &in) {
  alignas(64) u32 at0[kLanes], at1[kLanes];
  u32 unit = 4 * kWords * kStride;
  if (!lds_addresses(w, in, u32(in.imm & 0xff) * unit, 4 * kWords, true, false, at0)) return;
  if (!lds_addresses(w, in, u32(in.imm >> 8 & 0xff) * unit, 4 * kWords, true, false, at1)) return;
  u32 *d = w.vgpr(in.dst.reg);
  each_lane(exec_of(w), [&](u32 i) {
    for (u32 k = 0; k < kWords; ++k) {
      d[k * kLanes + i] = lds_read<u32>(w, at0[i] + 4 * k);
      d[(kWords + k) * kLanes + i] = lds_read<u32>(w, at1[i] + 4 * k);
    }
  });
}
template <u32 kWords, u32 kStride> static void store2(Wave &w, const Inst &in) {
  alignas(64) u32 at0[kLanes], at1[kLanes];
  u32 unit = 4 * kWords * kStride;
  if (!lds_addresses(w, in, u32(in.imm & 0xff) * unit, 4 * kWords, false, true, at0)) return;
  if (!lds_addresses(w, in, u32(in.imm >> 8 & 0xff) * unit, 4 * kWords, false, true, at1)) return;
  const u32 *s = w.vgpr(in.src[1].reg), *s2 = w.vgpr(in.src[2].reg);
  each_lane(exec_of(w), [&](u32 i) {
    for (u32 k = 0; k < kWords; ++k) {
      std::memcpy(w.lds + at0[i] + 4 * k, &s[k * kLanes + i], 4);
      std::memcpy(w.lds + at1[i] + 4 * k, &s2[k * kLanes + i], 4);
    }
  });
}

// gfx950 transposing loads: 16 lanes hold a tile of 16 columns, kBits wide
// elements, row after row; each lane gets a column (CDNA4 ISA, DS_READ_B64_TR_B16).
template <u32 kWords, u32 kBits> static void load_transposed(Wave &w, const Inst &in) {
  alignas(64) u32 at[kLanes];
  if (!lds_addresses(w, in, u32(in.imm), 4 * kWords, true, false, at)) return;
  constexpr u32 count = 32 * kWords / kBits, lanes_of_row = 16 / count;
  u32 result[kWords][kLanes] = {};
  auto element = [&](u32 lane, u32 e) {
    u32 bit = e * kBits, x = 0;
    for (u32 b = 0; b < kBits; ++b)
      x |= u32(w.lds[at[lane] + (bit + b) / 8] >> (bit + b) % 8 & 1) << b;
    return x;
  };
  u64 exec = exec_of(w);
  for (u32 i = 0; i < w.lanes; ++i)
    for (u32 row = 0; row < count; ++row) {
      u32 column = i & 15, from = (i & ~15u) + row * lanes_of_row + column / count;
      if (!(exec >> from & 1)) continue;
      u64 x = u64(element(from, column % count)) << (row * kBits % 32);
      result[row * kBits / 32][i] |= u32(x);
      if (x >> 32) result[row * kBits / 32 + 1][i] |= u32(x >> 32);
    }
  const u32 *m = mask_lanes(w, exec);
  u32 *d = w.vgpr(in.dst.reg);
  for (u32 k = 0; k < kWords; ++k)
    for (u32 i = 0; i < w.lanes; ++i)
      if (m[i]) d[k * kLanes + i] = result[k][i];
}

// Address from M0 and the lane instead of a VGPR.
static bool addtid(Wave &w, const Inst &in, u32 *at) {
  u32 base = (w.s[kM0] & 0xffff) + u32(in.imm);
  bool ok = true;
  each_lane(exec_of(w), [&](u32 i) {
    at[i] = base + 4 * i;
    if (ok && (at[i] > w.lds_bytes || 4 > w.lds_bytes - at[i])) {
      raise_fault(w, Fault::lds_out_of_bounds, int(i), at[i],
                  "LDS access beyond the work-group's allocation");
      ok = false;
    }
  });
  return ok;
}
static void load_addtid(Wave &w, const Inst &in) {
  u32 at[kLanes];
  if (!addtid(w, in, at)) return;
  u32 *d = w.vgpr(in.dst.reg);
  each_lane(exec_of(w), [&](u32 i) { d[i] = lds_read<u32>(w, at[i]); });
}
static void store_addtid(Wave &w, const Inst &in) {
  u32 at[kLanes];
  if (!addtid(w, in, at)) return;
  const u32 *s = w.vgpr(in.src[1].reg);
  each_lane(exec_of(w), [&](u32 i) { std::memcpy(w.lds + at[i], &s[i], 4); });
}

//===-- Permutes ----------------------------------------------------------===//

// Pull: lane i reads the lane its address names. Lanes of a wave64 reach their
// own half only on gfx10 and gfx11.
template <bool kFetchInactive> static void bpermute(Wave &w, const Inst &in) {
  Buffer td;
  MGX_LANES(w)
  const u32 *a = w.vgpr(in.src[0].reg), *s = w.vgpr(in.src[1].reg);
  bool halves = n == 64 && (w.chip->is_gfx10() || w.chip->is_gfx11());
  u64 exec = exec_of(w);
  for (u32 i = 0; i < n; ++i) {
    u32 from = (a[i] + u32(in.imm)) / 4;
    from = halves ? (i & 32) | (from & 31) : from & (n - 1);
    td.x[i] = kFetchInactive || (exec >> from & 1) ? s[from] : 0;
  }
  commit_bits(w, in, td.x, 1);
}
// Push: lane i writes to the lane its address names; the highest lane wins.
static void permute(Wave &w, const Inst &in) {
  Buffer td;
  MGX_LANES(w)
  const u32 *a = w.vgpr(in.src[0].reg), *s = w.vgpr(in.src[1].reg);
  bool halves = n == 64 && (w.chip->is_gfx10() || w.chip->is_gfx11());
  for (u32 i = 0; i < n; ++i) td.x[i] = 0;
  each_lane(exec_of(w), [&](u32 i) {
    u32 to = (a[i] + u32(in.imm)) / 4;
    td.x[halves ? (i & 32) | (to & 31) : to & (n - 1)] = s[i];
  });
  commit_bits(w, in, td.x, 1);
}
// ds_swizzle_b32: the offset field is the pattern (LLVM, SIDefines.h "Swizzle").
static u32 swizzle_source(u32 pattern, u32 i) {
  u32 base = i & ~31u, lane = i & 31;
  if ((pattern & 0xff00) == 0x8000) return (i & ~3u) | (pattern >> (2 * (i & 3)) & 3);
  if ((pattern & 0xfc00) == 0xc000 || (pattern & 0xfc00) == 0xc400) { // rotate within a group
    u32 amount = pattern >> 5 & 31, mask = pattern & 31;
    u32 rotated = pattern & 0x400 ? lane + 32 - amount : lane + amount;
    return base | (lane & mask) | (rotated & 31 & ~mask);
  }
  u32 and_mask = pattern & 31, or_mask = pattern >> 5 & 31, xor_mask = pattern >> 10 & 31;
  return base | (((lane & and_mask) | or_mask) ^ xor_mask);
}
static void swizzle(Wave &w, const Inst &in) {
  Buffer td;
  MGX_LANES(w)
  const u32 *s = w.vgpr(in.src[0].reg);
  u64 exec = exec_of(w);
  for (u32 i = 0; i < n; ++i) {
    u32 from = swizzle_source(u32(in.imm), i);
    td.x[i] = exec >> from & 1 ? s[from] : 0;
  }
  commit_bits(w, in, td.x, 1);
}

static void nop(Wave &, const Inst &) {}

void register_ds(OpTable &t) {
  auto add = [&](const char *name, Handler fn, Ty dst, Ty data, Ty data2, Class cls) {
    OpInfo o;
    o.fn = fn;
    o.dst = dst;
    o.src[0] = Ty::b32;
    o.src[1] = data;
    o.src[2] = data2;
    o.nsrc = 3;
    o.cls = cls;
    add_op(t, name, o);
  };
  auto ld = [&](const char *name, Handler fn, Ty dst) {
    add(name, fn, dst, Ty::none, Ty::none, Class::lds_read);
  };
  auto st = [&](const char *name, Handler fn, Ty data, Ty data2 = Ty::none) {
    add(name, fn, Ty::none, data, data2, Class::lds_write);
  };
  ld("ds_load_u8", load_small<u8>, Ty::b32);
  ld("ds_load_i8", load_small<i8>, Ty::b32);
  ld("ds_load_u16", load_small<u16>, Ty::b32);
  ld("ds_load_i16", load_small<i16>, Ty::b32);
  ld("ds_load_u8_d16", load_d16<u8, false>, Ty::b32);
  ld("ds_load_u8_d16_hi", load_d16<u8, true>, Ty::b32);
  ld("ds_load_i8_d16", load_d16<i8, false>, Ty::b32);
  ld("ds_load_i8_d16_hi", load_d16<i8, true>, Ty::b32);
  ld("ds_load_u16_d16", load_d16<u16, false>, Ty::b32);
  ld("ds_load_u16_d16_hi", load_d16<u16, true>, Ty::b32);
  ld("ds_load_b32", load<1>, Ty::b32);
  ld("ds_load_b64", load<2>, Ty::b64);
  ld("ds_load_b96", load<3>, Ty::b96);
  ld("ds_load_b128", load<4>, Ty::b128);
  ld("ds_load_2addr_b32", load2<1, 1>, Ty::b64);
  ld("ds_load_2addr_b64", load2<2, 1>, Ty::b128);
  ld("ds_load_2addr_stride64_b32", load2<1, 64>, Ty::b64);
  ld("ds_load_2addr_stride64_b64", load2<2, 64>, Ty::b128);
  ld("ds_read_b64_tr_b16", load_transposed<2, 16>, Ty::b64);
  ld("ds_read_b64_tr_b8", load_transposed<2, 8>, Ty::b64);
  ld("ds_read_b64_tr_b4", load_transposed<2, 4>, Ty::b64);
  ld("ds_read_b96_tr_b6", load_transposed<3, 6>, Ty::b96);
  add("ds_load_addtid_b32", load_addtid, Ty::b32, Ty::none, Ty::none, Class::lds_read);
  st("ds_store_b8", store_small<u8, 0>, Ty::b32);
  st("ds_store_b16", store_small<u16, 0>, Ty::b32);
  st("ds_store_b8_d16_hi", store_small<u8, 16>, Ty::b32);
  st("ds_store_b16_d16_hi", store_small<u16, 16>, Ty::b32);
  st("ds_store_b32", store<1>, Ty::b32);
  st("ds_store_b64", store<2>, Ty::b64);
  st("ds_store_b96", store<3>, Ty::b96);
  st("ds_store_b128", store<4>, Ty::b128);
  st("ds_store_2addr_b32", store2<1, 1>, Ty::b32, Ty::b32);
  st("ds_store_2addr_b64", store2<2, 1>, Ty::b64, Ty::b64);
  st("ds_store_2addr_stride64_b32", store2<1, 64>, Ty::b32, Ty::b32);
  st("ds_store_2addr_stride64_b64", store2<2, 64>, Ty::b64, Ty::b64);
  st("ds_store_addtid_b32", store_addtid, Ty::b32);
  add("ds_bpermute_b32", bpermute<false>, Ty::b32, Ty::b32, Ty::none, Class::lds_read);
  add("ds_bpermute_fi_b32", bpermute<true>, Ty::b32, Ty::b32, Ty::none, Class::lds_read);
  add("ds_permute_b32", permute, Ty::b32, Ty::b32, Ty::none, Class::lds_read);
  add("ds_swizzle_b32", swizzle, Ty::b32, Ty::none, Ty::none, Class::lds_read);
  OpInfo o;
  o.fn = nop;
  o.cls = Class::other;
  add_op(t, "ds_nop", o);
}

} // namespace MGX_ISA
} // namespace mgx::emu
