// The results of the atomics. Memory holds integers; floats are their bits.
#pragma once

#include "numeric.h"
#include "valu.h"

namespace mgx::emu {
inline namespace MGX_ISA {

#define MGX_ATOMIC(name, expr)                                                                     \
  template <class T> struct name {                                                                 \
    using S = std::make_signed_t<T>;                                                               \
    static inline __attribute__((always_inline)) T f([[maybe_unused]] T m, [[maybe_unused]] T d) { \
      return T(expr);                                                                              \
    }                                                                                              \
  };
MGX_ATOMIC(AtomicSwap, d)
MGX_ATOMIC(AtomicAdd, m + d)
MGX_ATOMIC(AtomicSub, m - d)
MGX_ATOMIC(AtomicRsub, d - m)
MGX_ATOMIC(AtomicSmin, S(m) < S(d) ? m : d)
MGX_ATOMIC(AtomicUmin, m < d ? m : d)
MGX_ATOMIC(AtomicSmax, S(m) > S(d) ? m : d)
MGX_ATOMIC(AtomicUmax, m > d ? m : d)
MGX_ATOMIC(AtomicAnd, m &d)
MGX_ATOMIC(AtomicOr, m | d)
MGX_ATOMIC(AtomicXor, m ^ d)
MGX_ATOMIC(AtomicInc, m >= d ? 0 : m + 1)
MGX_ATOMIC(AtomicDec, m == 0 || m > d ? d : m - 1)
MGX_ATOMIC(AtomicSubClamp, m < d ? 0 : m - d)
MGX_ATOMIC(AtomicCondSub, m >= d ? m - d : m)
#undef MGX_ATOMIC

template <class T> struct AtomicAddF {
  static inline __attribute__((always_inline)) T f(T m, T d) {
    if constexpr (sizeof(T) == 8) return as_bits(f64_of(m) + f64_of(d));
    else return as_bits(f32_of(m) + f32_of(d));
  }
};
template <class T> struct AtomicMinF {
  static inline __attribute__((always_inline)) T f(T m, T d) {
    if constexpr (sizeof(T) == 8) return min_num_f64(m, d);
    else return min_num_f32(m, d);
  }
};
template <class T> struct AtomicMaxF {
  static inline __attribute__((always_inline)) T f(T m, T d) {
    if constexpr (sizeof(T) == 8) return max_num_f64(m, d);
    else return max_num_f32(m, d);
  }
};
template <class T> struct AtomicPkF16 {
  static inline __attribute__((always_inline)) T f(T m, T d) {
    u32 lo = float_to_half(half_to_float(m & 0xffff) + half_to_float(d & 0xffff));
    u32 hi = float_to_half(half_to_float(m >> 16) + half_to_float(d >> 16));
    return lo | hi << 16;
  }
};
template <class T> struct AtomicPkBf16 {
  static inline __attribute__((always_inline)) T f(T m, T d) {
    u32 lo = f32_to_bf16(f32_of(m << 16) + f32_of(d << 16));
    u32 hi = f32_to_bf16(f32_of(m & 0xffff0000) + f32_of(d & 0xffff0000));
    return lo | hi << 16;
  }
};

} // namespace MGX_ISA
} // namespace mgx::emu
