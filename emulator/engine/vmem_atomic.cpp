// Atomics on global, flat and buffer memory. Work-groups run on several threads,
// so these are atomics of the host; lanes of a wave go in order.
#include "access.h"
#include "atomic_ops.h"

namespace mgx::emu {
inline namespace MGX_ISA {

// Replaces what each lane's address holds by next(lane, old). `T` is the integer it holds.
template <class T, class F> MGX_INLINE void replace_each(Wave &w, const Inst &in, F next) {
  Access a;
  if (!resolve(w, in, sizeof(T), true, true, a)) return;
  u32 *d = in.dst.kind == O_VGPR ? w.vgpr(in.dst.reg) : nullptr;
  each_lane(a.mask, [&](u32 i) {
    if (w.stop == Stop::fault) return;
    if (reinterpret_cast<u64>(a.p[i]) % sizeof(T))
      return raise_fault(w, Fault::misaligned, int(i), reinterpret_cast<u64>(a.p[i]),
                         "misaligned atomic");
    T *p = reinterpret_cast<T *>(a.p[i]);
    T old = __atomic_load_n(p, __ATOMIC_RELAXED);
    while (!__atomic_compare_exchange_n(p, &old, next(i, old), false, __ATOMIC_SEQ_CST,
                                        __ATOMIC_RELAXED)) {
    }
    if (!d) return;
    d[i] = u32(old);
    if constexpr (sizeof(T) == 8) d[kLanes + i] = u32(u64(old) >> 32);
  });
  if (a.staged) finish_store(w, a);
}

template <class T> MGX_INLINE T lane_data(const u32 *s, u32 i) {
  if constexpr (sizeof(T) == 8) return ld<u64>(s, i);
  else return T(s[i]);
}

// Op::f gives the new value.
template <class Op, class T> static void atomic(Wave &w, const Inst &in) {
  const u32 *s = w.vgpr(in.src[1].reg);
  replace_each<T>(w, in, [&](u32 i, T old) { return Op::f(old, lane_data<T>(s, i)); });
}

// An increment up to a limit is how waves find out which of them is the last.
template <class T> static void increment(Wave &w, const Inst &in) {
  constexpr u32 words = sizeof(T) / 4;
  u32 limit[words * kLanes]; // the result may take its register
  std::copy_n(w.vgpr(in.src[1].reg), words * kLanes, limit);
  atomic<AtomicInc<T>, T>(w, in);
  if (w.probe && in.dst.kind == O_VGPR) probe_count(w, w.vgpr(in.dst.reg), limit, words);
}

// The data registers hold the new value, then the one to compare with.
template <class T, bool kFloat> static void cmpswap(Wave &w, const Inst &in) {
  const u32 *s = w.vgpr(in.src[1].reg);
  replace_each<T>(w, in, [&](u32 i, T old) {
    T data = lane_data<T>(s, i), wanted = lane_data<T>(s + sizeof(T) / 4 * kLanes, i);
    bool equal;
    if constexpr (!kFloat) equal = old == wanted;
    else if constexpr (sizeof(T) == 8) equal = f64_of(old) == f64_of(wanted); // -0 equals 0
    else equal = f32_of(old) == f32_of(wanted);
    return equal ? data : old;
  });
}

static void add_atomic(OpTable &t, const char *suffix, Handler fn, Ty dst, Ty data) {
  static const char *const spaces[] = {"global_atomic_", "flat_atomic_", "buffer_atomic_"};
  for (const char *space : spaces) {
    char name[64];
    char *p = name;
    for (const char *c = space; *c;) *p++ = *c++;
    for (const char *c = suffix; *c;) *p++ = *c++;
    *p = 0;
    OpInfo o;
    o.fn = fn;
    o.dst = dst;
    o.src[1] = data;
    o.nsrc = 2;
    o.cls = Class::global_atomic;
    o.flags = F_GLC; // the result exists only where the instruction asks for it
    add_op(t, name, o);
  }
}

void register_vmem_atomic(OpTable &t) {
#define ATOMIC(Op, T, ty, ...)                                                                     \
  for (const char *name : {__VA_ARGS__}) add_atomic(t, name, atomic<Op<T>, T>, ty, ty);
  ATOMIC(AtomicSwap, u32, Ty::b32, "swap", "swap_b32")
  ATOMIC(AtomicAdd, u32, Ty::b32, "add", "add_u32")
  ATOMIC(AtomicSub, u32, Ty::b32, "sub", "sub_u32")
  ATOMIC(AtomicSmin, u32, Ty::b32, "smin", "min_i32")
  ATOMIC(AtomicUmin, u32, Ty::b32, "umin", "min_u32")
  ATOMIC(AtomicSmax, u32, Ty::b32, "smax", "max_i32")
  ATOMIC(AtomicUmax, u32, Ty::b32, "umax", "max_u32")
  ATOMIC(AtomicAnd, u32, Ty::b32, "and", "and_b32")
  ATOMIC(AtomicOr, u32, Ty::b32, "or", "or_b32")
  ATOMIC(AtomicXor, u32, Ty::b32, "xor", "xor_b32")
  ATOMIC(AtomicDec, u32, Ty::b32, "dec", "dec_u32")
  ATOMIC(AtomicSubClamp, u32, Ty::b32, "csub", "csub_u32", "sub_clamp_u32")
  ATOMIC(AtomicCondSub, u32, Ty::b32, "cond_sub_u32")
  ATOMIC(AtomicSwap, u64, Ty::b64, "swap_x2", "swap_b64")
  ATOMIC(AtomicAdd, u64, Ty::b64, "add_x2", "add_u64")
  ATOMIC(AtomicSub, u64, Ty::b64, "sub_x2", "sub_u64")
  ATOMIC(AtomicSmin, u64, Ty::b64, "smin_x2", "min_i64")
  ATOMIC(AtomicUmin, u64, Ty::b64, "umin_x2", "min_u64")
  ATOMIC(AtomicSmax, u64, Ty::b64, "smax_x2", "max_i64")
  ATOMIC(AtomicUmax, u64, Ty::b64, "umax_x2", "max_u64")
  ATOMIC(AtomicAnd, u64, Ty::b64, "and_x2", "and_b64")
  ATOMIC(AtomicOr, u64, Ty::b64, "or_x2", "or_b64")
  ATOMIC(AtomicXor, u64, Ty::b64, "xor_x2", "xor_b64")
  ATOMIC(AtomicDec, u64, Ty::b64, "dec_x2", "dec_u64")
  ATOMIC(AtomicAddF, u32, Ty::b32, "add_f32")
  ATOMIC(AtomicMinF, u32, Ty::b32, "fmin", "min_f32", "min_num_f32")
  ATOMIC(AtomicMaxF, u32, Ty::b32, "fmax", "max_f32", "max_num_f32")
  ATOMIC(AtomicAddF, u64, Ty::b64, "add_f64")
  ATOMIC(AtomicMinF, u64, Ty::b64, "min_f64", "fmin_x2", "min_num_f64")
  ATOMIC(AtomicMaxF, u64, Ty::b64, "max_f64", "fmax_x2", "max_num_f64")
  ATOMIC(AtomicPkF16, u32, Ty::b32, "pk_add_f16")
  ATOMIC(AtomicPkBf16, u32, Ty::b32, "pk_add_bf16")
  for (const char *name : {"inc", "inc_u32"}) add_atomic(t, name, increment<u32>, Ty::b32, Ty::b32);
  for (const char *name : {"inc_x2", "inc_u64"})
    add_atomic(t, name, increment<u64>, Ty::b64, Ty::b64);
  for (const char *name : {"cmpswap", "cmpswap_b32"})
    add_atomic(t, name, cmpswap<u32, false>, Ty::b32, Ty::b64);
  for (const char *name : {"fcmpswap", "cmpswap_f32"})
    add_atomic(t, name, cmpswap<u32, true>, Ty::b32, Ty::b64);
  add_atomic(t, "fcmpswap_x2", cmpswap<u64, true>, Ty::b64, Ty::b128);
  for (const char *name : {"cmpswap_x2", "cmpswap_b64"})
    add_atomic(t, name, cmpswap<u64, false>, Ty::b64, Ty::b128);
}

} // namespace MGX_ISA
} // namespace mgx::emu
