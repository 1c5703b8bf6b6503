// Vector memory: global, flat, scratch and buffer loads and stores.
#include "access.h"

namespace mgx::emu {
inline namespace MGX_ISA {

template <class T> MGX_INLINE T read(const u8 *p) {
  T x;
  std::memcpy(&x, p, sizeof x);
  return x;
}

// Loads to LDS: the wave's data lies densely from M0 on (CDNA3 ISA, "LDS Load").
// The instruction offset is added to both addresses.
template <class T, u32 kWords> static void load_to_lds(Wave &w, const Inst &in, Access &a) {
  constexpr u32 bytes = kWords ? 4 * kWords : 4; // sub-dword loads are extended
  u32 base = (w.s[kM0] & 0xffff) + u32(in.imm);
  if (w.chip->generation == Generation::cdna4) base = (w.s[kM0] & 0x3ffff) + u32(in.imm);
  alignas(64) u32 offset[kLanes];
  bool ok = true;
  each_lane(a.mask, [&](u32 i) {
    u32 to = base + i * bytes;
    offset[i] = to;
    if (to > w.lds_bytes || bytes > w.lds_bytes - to) {
      if (ok)
        raise_fault(w, Fault::lds_out_of_bounds, int(i), to,
                    "load to LDS beyond the work-group's allocation");
      ok = false;
      return;
    }
    if constexpr (kWords != 0) std::memcpy(w.lds + to, a.p[i], bytes);
    else {
      u32 x = u32(i32(read<T>(a.p[i])));
      std::memcpy(w.lds + to, &x, 4);
    }
  });
  if (ok && (w.probe || w.strict)) probe_lds(w, in, offset, a.mask, bytes, false, true);
}

template <class T> static void load_small(Wave &w, const Inst &in) {
  Access a;
  if (!resolve(w, in, sizeof(T), true, false, a)) return;
  if (in.flags & F_LDS) return load_to_lds<T, 0>(w, in, a);
  alignas(64) u32 x[kLanes];
  MGX_LANES(w)
  for (u32 i = 0; i < n; ++i) x[i] = u32(i32(read<T>(a.p[i])));
  const u32 *m = mask_lanes(w, a.mask);
  u32 *d = w.vgpr(in.dst.reg);
  for (u32 i = 0; i < n; ++i) d[i] = (d[i] & ~m[i]) | (x[i] & m[i]);
}

template <class T, bool kHigh> static void load_d16(Wave &w, const Inst &in) {
  Access a;
  if (!resolve(w, in, sizeof(T), true, false, a)) return;
  u32 *d = w.vgpr(in.dst.reg);
  each_lane(a.mask, [&](u32 i) {
    u32 x = u16(i16(read<T>(a.p[i])));
    d[i] = kHigh ? (d[i] & 0xffff) | x << 16 : (d[i] & 0xffff0000) | x;
  });
}

template <u32 kWords> static void load(Wave &w, const Inst &in) {
  Access a;
  if (!resolve(w, in, 4 * kWords, true, false, a)) return;
  if (in.flags & F_LDS) return load_to_lds<u32, kWords>(w, in, a);
  MGX_LANES(w)
  u32 *d = w.vgpr(in.dst.reg);
  if (a.mask == w.all) {
    for (u32 i = 0; i < n; ++i)
      for (u32 k = 0; k < kWords; ++k) d[k * kLanes + i] = read<u32>(a.p[i] + 4 * k);
    return;
  }
  each_lane(a.mask, [&](u32 i) {
    for (u32 k = 0; k < kWords; ++k) d[k * kLanes + i] = read<u32>(a.p[i] + 4 * k);
  });
}

template <class T, u32 kShift> static void store_small(Wave &w, const Inst &in) {
  Access a;
  if (!resolve(w, in, sizeof(T), false, true, a)) return;
  const u32 *s = w.vgpr(in.src[1].reg);
  each_lane(a.mask, [&](u32 i) {
    T x = T(s[i] >> kShift);
    std::memcpy(a.p[i], &x, sizeof x);
  });
  if (a.staged) finish_store(w, a);
}

template <u32 kWords> static void store(Wave &w, const Inst &in) {
  Access a;
  if (!resolve(w, in, 4 * kWords, false, true, a)) return;
  const u32 *s = w.vgpr(in.src[1].reg);
  each_lane(a.mask, [&](u32 i) {
    for (u32 k = 0; k < kWords; ++k) std::memcpy(a.p[i] + 4 * k, &s[k * kLanes + i], 4);
  });
  if (a.staged) finish_store(w, a);
}

static void nop(Wave &, const Inst &) {}

static void add_spaces(OpTable &t, const char *suffix, Handler fn, Ty dst, Ty data, bool store,
                       u32 flags = 0) {
  static const char *const spaces[] = {"global_", "flat_", "scratch_", "buffer_"};
  static const Class classes[2][4] = {
      {Class::global_load, Class::flat, Class::scratch, Class::global_load},
      {Class::global_store, Class::flat, Class::scratch, Class::global_store}};
  for (int s = 0; s < 4; ++s) {
    char name[64];
    char *p = name;
    for (const char *c = spaces[s]; *c;) *p++ = *c++;
    for (const char *c = suffix; *c;) *p++ = *c++;
    *p = 0;
    OpInfo o;
    o.fn = fn;
    o.dst = dst;
    o.src[1] = data;
    o.nsrc = 2;
    o.cls = classes[store][s];
    o.flags = flags;
    add_op(t, name, o);
  }
}

void register_vmem(OpTable &t) {
  static const struct {
    const char *names[2];
    Handler fn;
    Ty dst;
  } loads[] = {
      {{"load_ubyte", "load_u8"}, load_small<u8>, Ty::b32},
      {{"load_sbyte", "load_i8"}, load_small<i8>, Ty::b32},
      {{"load_ushort", "load_u16"}, load_small<u16>, Ty::b32},
      {{"load_sshort", "load_i16"}, load_small<i16>, Ty::b32},
      {{"load_dword", "load_b32"}, load<1>, Ty::b32},
      {{"load_dwordx2", "load_b64"}, load<2>, Ty::b64},
      {{"load_dwordx3", "load_b96"}, load<3>, Ty::b96},
      {{"load_dwordx4", "load_b128"}, load<4>, Ty::b128},
      {{"load_ubyte_d16", "load_d16_u8"}, load_d16<u8, false>, Ty::b32},
      {{"load_ubyte_d16_hi", "load_d16_hi_u8"}, load_d16<u8, true>, Ty::b32},
      {{"load_sbyte_d16", "load_d16_i8"}, load_d16<i8, false>, Ty::b32},
      {{"load_sbyte_d16_hi", "load_d16_hi_i8"}, load_d16<i8, true>, Ty::b32},
      {{"load_short_d16", "load_d16_b16"}, load_d16<i16, false>, Ty::b32},
      {{"load_short_d16_hi", "load_d16_hi_b16"}, load_d16<i16, true>, Ty::b32},
  };
  for (auto &l : loads)
    for (const char *name : l.names) add_spaces(t, name, l.fn, l.dst, Ty::none, false);
  static const struct {
    const char *names[2];
    Handler fn;
    Ty data;
  } stores[] = {
      {{"store_byte", "store_b8"}, store_small<u8, 0>, Ty::b32},
      {{"store_short", "store_b16"}, store_small<u16, 0>, Ty::b32},
      {{"store_byte_d16_hi", "store_d16_hi_b8"}, store_small<u8, 16>, Ty::b32},
      {{"store_short_d16_hi", "store_d16_hi_b16"}, store_small<u16, 16>, Ty::b32},
      {{"store_dword", "store_b32"}, store<1>, Ty::b32},
      {{"store_dwordx2", "store_b64"}, store<2>, Ty::b64},
      {{"store_dwordx3", "store_b96"}, store<3>, Ty::b96},
      {{"store_dwordx4", "store_b128"}, store<4>, Ty::b128},
  };
  for (auto &s : stores)
    for (const char *name : s.names) add_spaces(t, name, s.fn, Ty::none, s.data, true);
  static const struct {
    const char *name;
    Handler fn;
  } to_lds[] = {
      {"load_lds_ubyte", load_small<u8>},   {"load_lds_sbyte", load_small<i8>},
      {"load_lds_ushort", load_small<u16>}, {"load_lds_sshort", load_small<i16>},
      {"load_lds_dword", load<1>},          {"load_lds_dwordx3", load<3>},
      {"load_lds_dwordx4", load<4>},        {"load_lds_u8", load_small<u8>},
      {"load_lds_i8", load_small<i8>},      {"load_lds_u16", load_small<u16>},
      {"load_lds_i16", load_small<i16>},    {"load_lds_b32", load<1>},
  };
  for (auto &l : to_lds) add_spaces(t, l.name, l.fn, Ty::none, Ty::none, false, F_LDS);
  // Caches have no effect here: memory is coherent.
  for (const char *name :
       {"buffer_wbl2", "buffer_inv", "buffer_gl0_inv", "buffer_gl1_inv", "buffer_wbinvl1",
        "buffer_wbinvl1_vol", "buffer_invl2", "global_inv", "global_wb", "global_wbinv"}) {
    OpInfo o;
    o.fn = nop;
    o.cls = Class::cache;
    add_op(t, name, o);
  }
}

} // namespace MGX_ISA
} // namespace mgx::emu
