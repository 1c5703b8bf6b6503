// Atomics on LDS. The waves of a work-group take turns, so plain reads and
// writes are atomic.
#include "access.h"
#include "atomic_ops.h"
#include "ds.h"

namespace mgx::emu {
inline namespace MGX_ISA {

template <class T, class F> MGX_INLINE void modify(Wave &w, const Inst &in, F f) {
  alignas(64) u32 at[kLanes];
  if (!lds_addresses(w, in, u32(in.imm), sizeof(T), true, true, at)) return;
  const u32 *s = w.vgpr(in.src[1].reg), *s2 = w.vgpr(in.src[2].reg);
  u32 *d = in.dst.kind == O_VGPR ? w.vgpr(in.dst.reg) : nullptr;
  each_lane(exec_of(w), [&](u32 i) {
    if (w.stop == Stop::fault) return;
    if (at[i] % sizeof(T))
      return raise_fault(w, Fault::misaligned, int(i), at[i], "misaligned LDS atomic");
    T old, a, b;
    std::memcpy(&old, w.lds + at[i], sizeof old);
    if constexpr (sizeof(T) == 8) {
      a = ld<u64>(s, i);
      b = ld<u64>(s2, i);
    } else {
      a = s[i];
      b = s2[i];
    }
    T value = f(old, a, b);
    std::memcpy(w.lds + at[i], &value, sizeof value);
    if (!d) return;
    d[i] = u32(old);
    if constexpr (sizeof(T) == 8) d[kLanes + i] = u32(u64(old) >> 32);
  });
}
template <class Op, class T> static void atomic(Wave &w, const Inst &in) {
  modify<T>(w, in, [](T m, T a, T) { return Op::f(m, a); });
}
// ds_cmpst: compare with the first data operand, store the second; ds_cmpstore
// of gfx11 and later has them the other way round.
template <class T> static void cmpst(Wave &w, const Inst &in) {
  modify<T>(w, in, [](T m, T a, T b) { return m == a ? b : m; });
}
template <class T> static void cmpstore(Wave &w, const Inst &in) {
  modify<T>(w, in, [](T m, T a, T b) { return m == b ? a : m; });
}
template <class T> static void mskor(Wave &w, const Inst &in) {
  modify<T>(w, in, [](T m, T a, T b) { return (m & ~a) | b; });
}

// The float forms compare as floats do: -0 equals 0, NaN nothing.
template <class T, bool kStoreFirst> static void cmpst_float(Wave &w, const Inst &in) {
  modify<T>(w, in, [](T m, T a, T b) {
    T compare = kStoreFirst ? b : a, value = kStoreFirst ? a : b;
    if constexpr (sizeof(T) == 8) return f64_of(m) == f64_of(compare) ? value : m;
    else return f32_of(m) == f32_of(compare) ? value : m;
  });
}
template <class T> static void wrap(Wave &w, const Inst &in) {
  modify<T>(w, in, [](T m, T a, T b) { return m >= a ? m - a : m + b; });
}
// Two exchanges in one.
template <class T, u32 kStride> static void exchange2(Wave &w, const Inst &in) {
  alignas(64) u32 at0[kLanes], at1[kLanes];
  u32 unit = u32(sizeof(T)) * kStride;
  if (!lds_addresses(w, in, u32(in.imm & 0xff) * unit, sizeof(T), true, true, at0)) return;
  if (!lds_addresses(w, in, u32(in.imm >> 8 & 0xff) * unit, sizeof(T), true, true, at1)) return;
  const u32 *s[2] = {w.vgpr(in.src[1].reg), w.vgpr(in.src[2].reg)};
  u32 *d = w.vgpr(in.dst.reg);
  each_lane(exec_of(w), [&](u32 i) {
    T value[2];
    for (u32 k = 0; k < 2; ++k)
      if constexpr (sizeof(T) == 8) value[k] = ld<u64>(s[k], i);
      else value[k] = s[k][i];
    const u32 at[2] = {at0[i], at1[i]};
    for (u32 k = 0; k < 2; ++k) {
      T old;
      std::memcpy(&old, w.lds + at[k], sizeof old);
      std::memcpy(w.lds + at[k], &value[k], sizeof old);
      if constexpr (sizeof(T) == 8) st<u64>(d + 2 * k * kLanes, i, old);
      else d[k * kLanes + i] = old;
    }
  });
}

// Two words, each exchanged where bit 31 of its data is set (which stays out).
static void condxchg32(Wave &w, const Inst &in) {
  alignas(64) u32 at[kLanes];
  if (!lds_addresses(w, in, u32(in.imm), 8, true, true, at)) return;
  const u32 *s = w.vgpr(in.src[1].reg);
  u32 *d = w.vgpr(in.dst.reg);
  each_lane(exec_of(w), [&](u32 i) {
    u32 data[2] = {s[i], s[kLanes + i]};
    for (u32 k = 0; k < 2; ++k) {
      u8 *p = w.lds + (at[i] & 0xfff8) + 4 * k;
      std::memcpy(&d[k * kLanes + i], p, 4);
      u32 value = data[k] & 0x7fffffff;
      if (data[k] >> 31) std::memcpy(p, &value, 4);
    }
  });
}

// ds_append, ds_consume: one counter for all active lanes, at M0[31:16] + offset.
template <bool kAppend> static void counter(Wave &w, const Inst &in) {
  u32 at = (w.s[kM0] >> 16) + u32(in.imm);
  u64 exec = exec_of(w);
  if (at > w.lds_bytes || 4 > w.lds_bytes - at)
    return raise_fault(w, Fault::lds_out_of_bounds, -1, at,
                       "LDS counter beyond the work-group's allocation");
  u32 old, lanes = u32(__builtin_popcountll(exec));
  std::memcpy(&old, w.lds + at, 4);
  u32 value = kAppend ? old + lanes : old - lanes;
  std::memcpy(w.lds + at, &value, 4);
  u32 *d = w.vgpr(in.dst.reg);
  each_lane(exec, [&](u32 i) { d[i] = old; });
}

void register_ds_atomic(OpTable &t) {
  auto add = [&](const char *stem, const char *type, Handler fn, Ty ty, bool two) {
    for (int rtn = 0; rtn < 2; ++rtn) {
      char name[64];
      char *p = name;
      for (const char *c = stem; *c;) *p++ = *c++;
      for (const char *c = rtn ? "_rtn_" : "_"; *c;) *p++ = *c++;
      for (const char *c = type; *c;) *p++ = *c++;
      *p = 0;
      OpInfo o;
      o.fn = fn;
      o.dst = rtn ? ty : Ty::none;
      o.src[0] = Ty::b32;
      o.src[1] = ty;
      o.src[2] = two ? ty : Ty::none;
      o.nsrc = 3;
      o.cls = Class::lds_atomic;
      add_op(t, name, o);
    }
  };
#define BOTH(Op, stem, t32, t64)                                                                   \
  add("ds_" stem, t32, atomic<Op<u32>, u32>, Ty::b32, false);                                      \
  add("ds_" stem, t64, atomic<Op<u64>, u64>, Ty::b64, false);
  BOTH(AtomicAdd, "add", "u32", "u64")
  BOTH(AtomicSub, "sub", "u32", "u64")
  BOTH(AtomicRsub, "rsub", "u32", "u64")
  BOTH(AtomicInc, "inc", "u32", "u64")
  BOTH(AtomicDec, "dec", "u32", "u64")
  BOTH(AtomicSmin, "min", "i32", "i64")
  BOTH(AtomicSmax, "max", "i32", "i64")
  BOTH(AtomicUmin, "min", "u32", "u64")
  BOTH(AtomicUmax, "max", "u32", "u64")
  BOTH(AtomicAnd, "and", "b32", "b64")
  BOTH(AtomicOr, "or", "b32", "b64")
  BOTH(AtomicXor, "xor", "b32", "b64")
  BOTH(AtomicSwap, "wrxchg", "b32", "b64")
  BOTH(AtomicSwap, "storexchg", "b32", "b64")
  BOTH(AtomicAddF, "add", "f32", "f64")
  BOTH(AtomicMinF, "min", "f32", "f64")
  BOTH(AtomicMaxF, "max", "f32", "f64")
  BOTH(AtomicMinF, "min_num", "f32", "f64")
  BOTH(AtomicMaxF, "max_num", "f32", "f64")
  add("ds_sub_clamp", "u32", atomic<AtomicSubClamp<u32>, u32>, Ty::b32, false);
  add("ds_cond_sub", "u32", atomic<AtomicCondSub<u32>, u32>, Ty::b32, false);
  add("ds_pk_add", "f16", atomic<AtomicPkF16<u32>, u32>, Ty::b32, false);
  add("ds_pk_add", "bf16", atomic<AtomicPkBf16<u32>, u32>, Ty::b32, false);
  add("ds_cmpst", "b32", cmpst<u32>, Ty::b32, true);
  add("ds_cmpst", "b64", cmpst<u64>, Ty::b64, true);
  add("ds_cmpstore", "b32", cmpstore<u32>, Ty::b32, true);
  add("ds_cmpstore", "b64", cmpstore<u64>, Ty::b64, true);
  add("ds_mskor", "b32", mskor<u32>, Ty::b32, true);
  add("ds_mskor", "b64", mskor<u64>, Ty::b64, true);
  add("ds_cmpst", "f32", cmpst_float<u32, false>, Ty::b32, true);
  add("ds_cmpst", "f64", cmpst_float<u64, false>, Ty::b64, true);
  add("ds_cmpstore", "f32", cmpst_float<u32, true>, Ty::b32, true);
  add("ds_cmpstore", "f64", cmpst_float<u64, true>, Ty::b64, true);
  add("ds_wrap", "b32", wrap<u32>, Ty::b32, true);
  auto two = [&](const char *name, Handler fn, Ty data, Ty dst) {
    OpInfo o;
    o.fn = fn;
    o.dst = dst;
    o.src[0] = Ty::b32;
    o.src[1] = o.src[2] = data;
    o.nsrc = 3;
    o.cls = Class::lds_atomic;
    add_op(t, name, o);
  };
  for (const char *name : {"ds_wrxchg2_rtn_b32", "ds_storexchg_2addr_rtn_b32"})
    two(name, exchange2<u32, 1>, Ty::b32, Ty::b64);
  for (const char *name : {"ds_wrxchg2_rtn_b64", "ds_storexchg_2addr_rtn_b64"})
    two(name, exchange2<u64, 1>, Ty::b64, Ty::b128);
  for (const char *name : {"ds_wrxchg2st64_rtn_b32", "ds_storexchg_2addr_stride64_rtn_b32"})
    two(name, exchange2<u32, 64>, Ty::b32, Ty::b64);
  for (const char *name : {"ds_wrxchg2st64_rtn_b64", "ds_storexchg_2addr_stride64_rtn_b64"})
    two(name, exchange2<u64, 64>, Ty::b64, Ty::b128);
  two("ds_condxchg32_rtn_b64", condxchg32, Ty::b64, Ty::b64);
  find_op(t, "ds_condxchg32_rtn_b64")->src[2] = Ty::none;
  OpInfo o;
  o.dst = Ty::b32;
  o.nsrc = 1;
  o.cls = Class::lds_atomic;
  o.fn = counter<true>;
  add_op(t, "ds_append", o);
  o.fn = counter<false>;
  add_op(t, "ds_consume", o);
}

} // namespace MGX_ISA
} // namespace mgx::emu
