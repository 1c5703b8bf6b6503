// Scalar memory: loads of all chips, and the stores and atomics of gfx9.
#include "atomic_ops.h"
#include "strict.h"
#include "valu.h"

namespace mgx::emu {
inline namespace MGX_ISA {

static bool reachable(Wave &w, u64 address, u64 bytes, Touch how = kRead) {
  CachedRange &c = w.cache[7];
  if (address - c.base >= c.size || bytes > c.size - (address - c.base)) {
    Range r = w.memory->find(address);
    if (!r || bytes > r.size - (address - r.base)) return false;
    c = {r.base, r.size};
  }
  if (w.strict) strict_scalar(w, address, bytes, how);
  return true;
}
static u64 offset_of(const Wave &w, const Inst &in) {
  return u64(i64(in.imm)) + (in.src[1].kind != O_NONE ? rs(w, in.src[1]) : 0);
}
static u64 global_address(const Wave &w, const Inst &in) {
  return rs64(w, in.src[0]) + offset_of(w, in);
}

// A buffer resource; accesses beyond its size read 0 and write nothing.
struct ScalarBuffer {
  u64 base, size;
};
static ScalarBuffer scalar_buffer(const Wave &w, const Inst &in) {
  const u32 *r = &w.s[in.src[0].reg];
  u64 stride = r[1] >> 16 & 0x3fff;
  return {u64(r[1] & 0xffff) << 32 | r[0], stride ? stride * r[2] : r[2]};
}

//===-- Loads -------------------------------------------------------------===//

// The hardware ignores the two lowest address bits.
template <u32 kWords> static void s_load(Wave &w, const Inst &in) {
  u64 address = global_address(w, in) & ~u64(3);
  if (!reachable(w, address, kWords * 4))
    return raise_fault(w, Fault::out_of_bounds, -1, address,
                       "scalar load outside every allocation");
  std::memcpy(&w.s[in.dst.reg], reinterpret_cast<const void *>(address), kWords * 4);
}
template <class T> static void s_load_small(Wave &w, const Inst &in) {
  u64 address = global_address(w, in);
  if (!reachable(w, address, sizeof(T)))
    return raise_fault(w, Fault::out_of_bounds, -1, address,
                       "scalar load outside every allocation");
  T x;
  std::memcpy(&x, reinterpret_cast<const void *>(address), sizeof x);
  w.s[in.dst.reg] = u32(i32(x));
}
template <class T> static void s_buffer_load_small(Wave &w, const Inst &in) {
  ScalarBuffer b = scalar_buffer(w, in);
  u64 offset = offset_of(w, in);
  T x = 0;
  if (offset + sizeof(T) <= b.size) {
    if (!reachable(w, b.base + offset, sizeof(T)))
      return raise_fault(w, Fault::out_of_bounds, -1, b.base + offset,
                         "scalar buffer load outside every allocation");
    std::memcpy(&x, reinterpret_cast<const void *>(b.base + offset), sizeof x);
  }
  w.s[in.dst.reg] = u32(i32(x));
}
template <u32 kWords> static void s_buffer_load(Wave &w, const Inst &in) {
  ScalarBuffer b = scalar_buffer(w, in);
  u64 offset = offset_of(w, in) & ~u64(3), base = b.base & ~u64(3);
  u32 out[kWords];
  for (u32 i = 0; i < kWords; ++i) {
    u64 at = offset + 4 * i;
    out[i] = 0;
    if (at + 4 > b.size) continue;
    if (!reachable(w, base + at, 4))
      return raise_fault(w, Fault::out_of_bounds, -1, base + at,
                         "scalar buffer load outside every allocation");
    std::memcpy(&out[i], reinterpret_cast<const void *>(base + at), 4);
  }
  std::memcpy(&w.s[in.dst.reg], out, sizeof out);
}

//===-- Stores and atomics of gfx9 ----------------------------------------===//

// Where a store or an atomic goes; 0 if nowhere: out of the buffer, or a fault.
template <bool kBuffer> static u64 target(Wave &w, const Inst &in, u64 bytes, Touch how) {
  u64 address;
  if (kBuffer) {
    ScalarBuffer b = scalar_buffer(w, in);
    u64 offset = offset_of(w, in) & ~u64(3);
    if (offset + bytes > b.size) return 0;
    address = (b.base & ~u64(3)) + offset;
  } else {
    address = global_address(w, in) & ~u64(3);
  }
  if (reachable(w, address, bytes, how)) return address;
  raise_fault(w, Fault::out_of_bounds, -1, address, "scalar store outside every allocation");
  return 0;
}
template <u32 kWords, bool kBuffer> static void s_store(Wave &w, const Inst &in) {
  if (u64 to = target<kBuffer>(w, in, 4 * kWords, kWrite))
    std::memcpy(reinterpret_cast<void *>(to), &w.s[in.src[2].reg], 4 * kWords);
}
template <class T> static T scalar_data(const Wave &w, u32 reg) {
  if constexpr (sizeof(T) == 8) return s64(w, reg);
  else return w.s[reg];
}
// Replaces what lies at the target by `next(old)` and gives back what was there.
template <class T, bool kBuffer, class F> static void s_replace(Wave &w, const Inst &in, F next) {
  u64 to = target<kBuffer>(w, in, sizeof(T), kAtomic);
  if (to % sizeof(T)) return raise_fault(w, Fault::misaligned, -1, to, "misaligned scalar atomic");
  if (w.stop == Stop::fault) return;
  T old = 0;
  if (to) {
    T *p = reinterpret_cast<T *>(to);
    old = __atomic_load_n(p, __ATOMIC_RELAXED);
    while (!__atomic_compare_exchange_n(p, &old, next(old), false, __ATOMIC_SEQ_CST,
                                        __ATOMIC_RELAXED)) {
    }
  }
  if (in.dst.kind != O_SGPR) return;
  if constexpr (sizeof(T) == 8) set_s64(w, in.dst.reg, old);
  else w.s[in.dst.reg] = old;
}
template <class Op, class T, bool kBuffer> static void s_atomic(Wave &w, const Inst &in) {
  T data = scalar_data<T>(w, in.src[2].reg);
  s_replace<T, kBuffer>(w, in, [&](T old) { return Op::f(old, data); });
}
template <class T, bool kBuffer> static void s_cmpswap(Wave &w, const Inst &in) {
  T data = scalar_data<T>(w, in.src[2].reg),
    wanted = scalar_data<T>(w, in.src[2].reg + sizeof(T) / 4);
  s_replace<T, kBuffer>(w, in, [&](T old) { return old == wanted ? data : old; });
}

//===-- Registration ------------------------------------------------------===//

static void memtime(Wave &w, const Inst &in) {
  set_s64(w, in.dst.reg, w.group->clock_base + w.count);
}

static void add(OpTable &t, const std::string &name, Handler fn, Ty dst, Ty base,
                Ty data = Ty::none, u32 flags = 0) {
  OpInfo o;
  o.fn = fn;
  o.cls = Class::smem;
  o.dst = dst;
  o.src[0] = base;
  o.src[2] = data;
  o.nsrc = base != Ty::none;
  o.flags = flags;
  add_op(t, name.c_str(), o);
}

template <bool kBuffer> static void register_loads(OpTable &t) {
  const std::string stem = kBuffer ? "s_buffer_load_" : "s_load_";
  auto load = [&](const char *type, Handler plain, Handler buffer, Ty dst) {
    add(t, stem + type, kBuffer ? buffer : plain, dst, kBuffer ? Ty::b128 : Ty::b64);
  };
  load("b32", s_load<1>, s_buffer_load<1>, Ty::b32);
  load("b64", s_load<2>, s_buffer_load<2>, Ty::b64);
  load("b96", s_load<3>, s_buffer_load<3>, Ty::b96);
  load("b128", s_load<4>, s_buffer_load<4>, Ty::b128);
  load("b256", s_load<8>, s_buffer_load<8>, Ty::b256);
  load("b512", s_load<16>, s_buffer_load<16>, Ty::b512);
  load("i8", s_load_small<i8>, s_buffer_load_small<i8>, Ty::b32);
  load("u8", s_load_small<u8>, s_buffer_load_small<u8>, Ty::b32);
  load("i16", s_load_small<i16>, s_buffer_load_small<i16>, Ty::b32);
  load("u16", s_load_small<u16>, s_buffer_load_small<u16>, Ty::b32);
}

template <bool kBuffer> static void register_stores(OpTable &t) {
  const std::string stem = kBuffer ? "s_buffer_" : "s_";
  const Ty base = kBuffer ? Ty::b128 : Ty::b64;
  add(t, stem + "store_dword", s_store<1, kBuffer>, Ty::none, base, Ty::b32);
  add(t, stem + "store_dwordx2", s_store<2, kBuffer>, Ty::none, base, Ty::b64);
  add(t, stem + "store_dwordx4", s_store<4, kBuffer>, Ty::none, base, Ty::b128);
  auto atomic = [&](const char *name, Handler narrow, Handler wide) {
    add(t, stem + "atomic_" + name, narrow, Ty::b32, base, Ty::b32, F_GLC);
    add(t, stem + "atomic_" + name + "_x2", wide, Ty::b64, base, Ty::b64, F_GLC);
  };
#define ATOMIC(name, Op)                                                                           \
  atomic(name, s_atomic<Op<u32>, u32, kBuffer>, s_atomic<Op<u64>, u64, kBuffer>);
  ATOMIC("swap", AtomicSwap)
  ATOMIC("add", AtomicAdd)
  ATOMIC("sub", AtomicSub)
  ATOMIC("smin", AtomicSmin)
  ATOMIC("umin", AtomicUmin)
  ATOMIC("smax", AtomicSmax)
  ATOMIC("umax", AtomicUmax)
  ATOMIC("and", AtomicAnd)
  ATOMIC("or", AtomicOr)
  ATOMIC("xor", AtomicXor)
  ATOMIC("inc", AtomicInc)
  ATOMIC("dec", AtomicDec)
#undef ATOMIC
  add(t, stem + "atomic_cmpswap", s_cmpswap<u32, kBuffer>, Ty::b32, base, Ty::b64, F_GLC);
  add(t, stem + "atomic_cmpswap_x2", s_cmpswap<u64, kBuffer>, Ty::b64, base, Ty::b128, F_GLC);
}

} // namespace MGX_ISA

void register_scalar_memory(OpTable &t) {
  register_loads<false>(t);
  register_loads<true>(t);
  add(t, "s_memtime", memtime, Ty::b64, Ty::none);
  add(t, "s_memrealtime", memtime, Ty::b64, Ty::none);
  register_stores<false>(t);
  register_stores<true>(t);
}

} // namespace mgx::emu
