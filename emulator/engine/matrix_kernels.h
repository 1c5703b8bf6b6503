// The inner loops of the matrix instructions, compiled once for each vector extension.
#pragma once

#include <cmath>
#include <cstdint>
#include <type_traits>

#include "matrix_layout.h"
#include "numeric_formats.h"

#define MGX_KERNEL inline __attribute__((always_inline))

namespace mgx::emu {

constexpr int kMaxInput = 2048;  // elements of A, or of B: 32x64, 16x128
constexpr int kMaxOutput = 2048; // 32x32, two blocks

// Everything a kernel needs: the operands after lane permutation, one element a word.
template <class T> struct MatrixWork {
  alignas(64) T a[kMaxInput];  // [block][column][M]
  alignas(64) T b[kMaxInput];  // [block][k][N]
  alignas(64) T d[kMaxOutput]; // [block][M][N], C on entry
};

namespace detail {

// Up to 16 elements of T as one vector of the compiler's, which splits it where the host's are
// narrower. The loops of gcc 12 over plain arrays of 16 stay scalar. Integers wrap: unsigned.
template <class T, int N> struct VectorOf {
  static constexpr int width = N < 16 ? N : 16;
  using Element = std::conditional_t<std::is_integral_v<T>, uint32_t, T>;
  typedef Element type
      __attribute__((vector_size(width * sizeof(T)), aligned(sizeof(T)), may_alias));
};

// sum += left * right. The file is compiled with contraction on, which fuses this where the target
// has FMA; `Fused` false is the build for hosts without it.
template <bool Fused, class V, class T>
MGX_KERNEL void add_product(T left, const V &right, V &sum) {
  if constexpr (Fused || std::is_integral_v<T>) {
    sum = left * right + sum;
  } else {
    for (size_t j = 0; j < sizeof(V) / sizeof(T); ++j)
      sum[j] = std::fma(left, T(right[j]), T(sum[j]));
  }
}

// R rows of D at once: enough independent sums to hide the latency of one.
template <bool Fused, int N, int R, class T>
MGX_KERNEL void accumulate_rows(const T *a, const T *b, T *d, int columns) {
  using V = typename VectorOf<T, N>::type;
  using Element = typename VectorOf<T, N>::Element;
  constexpr int width = VectorOf<T, N>::width, parts = N / width;
  V sum[R][parts];
  for (int r = 0; r < R; ++r)
    for (int v = 0; v < parts; ++v) sum[r][v] = *reinterpret_cast<const V *>(d + r * N + v * width);
  for (int k = 0; k < columns; ++k)
    for (int r = 0; r < R; ++r)
      for (int v = 0; v < parts; ++v)
        add_product<Fused>(Element(a[k * N + r]),
                           *reinterpret_cast<const V *>(b + k * N + v * width), sum[r][v]);
  for (int r = 0; r < R; ++r)
    for (int v = 0; v < parts; ++v) *reinterpret_cast<V *>(d + r * N + v * width) = sum[r][v];
}

template <bool Fused, int N, class T>
MGX_KERNEL void accumulate(const MatrixPlan &p, MatrixWork<T> &w) {
  constexpr int rows = N == 16 ? 8 : 4;
  for (int block = 0; block < p.blocks; ++block)
    for (int i = 0; i < N; i += rows)
      accumulate_rows<Fused, N, rows>(w.a + block * p.k * N + i, w.b + block * p.k * N,
                                      w.d + (block * N + i) * N, p.k);
}

// Row of B that multiplies A[i, column] of a sparse A.
template <bool Fused, int N, class T>
MGX_KERNEL void accumulate_sparse(const MatrixPlan &p, MatrixWork<T> &w, const uint8_t *selected) {
  using V = typename VectorOf<T, N>::type;
  using Element = typename VectorOf<T, N>::Element;
  constexpr int width = VectorOf<T, N>::width;
  for (int i = 0; i < N; ++i)
    for (int first = 0; first < N; first += width) {
      V sum = *reinterpret_cast<const V *>(w.d + i * N + first);
      for (int c = 0; c < p.a_columns; ++c)
        add_product<Fused>(Element(w.a[c * N + i]),
                           *reinterpret_cast<const V *>(w.b + selected[c * N + i] * N + first),
                           sum);
      *reinterpret_cast<V *>(w.d + i * N + first) = sum;
    }
}

// f8f6f4: the sum of 32 products is exact enough in f64, is scaled there, and then joins D.
template <bool Fused, int N>
MGX_KERNEL void accumulate_scaled(const MatrixPlan &p, MatrixWork<float> &w, const double *scale_a,
                                  const double *scale_b) {
  using V = typename VectorOf<double, 8>::type;
  alignas(64) double b[32 * N];
  for (int first = 0; first < p.k; first += 32) {
    const int part = first / 32;
    for (int e = 0; e < 32 * N; ++e) b[e] = w.b[first * N + e];
    for (int i = 0; i < N; ++i)
      for (int j = 0; j < N; j += 8) {
        V sum = {}, scale, d;
        for (int k = 0; k < 32; ++k)
          add_product<Fused>(double(w.a[(first + k) * N + i]),
                             *reinterpret_cast<const V *>(b + k * N + j), sum);
        for (int e = 0; e < 8; ++e)
          scale[e] = scale_a[part * N + i] * scale_b[part * N + j + e], d[e] = w.d[i * N + j + e];
        d = sum * scale + d;
        for (int e = 0; e < 8; ++e) w.d[i * N + j + e] = float(d[e]);
      }
  }
}

// ---- elements out of registers ----
// Each loads N lanes of one row. Rows are contiguous lanes, so these loops vectorise.
template <int N>
MGX_KERNEL void load_f32(const uint32_t *words, float *out, bool flush, uint32_t mask) {
  for (int j = 0; j < N; ++j) {
    uint32_t u = words[j] & mask;
    u = flush && !(u & 0x7f800000u) ? u & 0x80000000u : u;
    out[j] = as_f32(u);
  }
}
template <int N>
MGX_KERNEL void load_f16(const uint32_t *words, int shift, float *out, bool flush, uint32_t flip) {
  for (int j = 0; j < N; ++j) {
    uint32_t h = words[j] >> shift & 0xffffu;
    h = flush && !(h & 0x7c00u) ? h & 0x8000u : h;
    out[j] = f16_to_f32(uint16_t(h ^ flip));
  }
}
template <int N>
MGX_KERNEL void load_bf16(const uint32_t *words, int shift, float *out, bool flush, uint32_t flip) {
  for (int j = 0; j < N; ++j) {
    uint32_t h = words[j] >> shift & 0xffffu;
    h = flush && !(h & 0x7f80u) ? h & 0x8000u : h;
    out[j] = as_f32((h ^ flip) << 16);
  }
}
template <int N>
MGX_KERNEL void load_table(const uint32_t *words, int shift, const float *table, float *out) {
  for (int j = 0; j < N; ++j) out[j] = table[words[j] >> shift & 0xffu];
}
template <int N>
MGX_KERNEL void load_integer(const uint32_t *words, int shift, int bits, bool is_signed,
                             int32_t *out) {
  for (int j = 0; j < N; ++j) {
    const uint32_t top = words[j] << (32 - bits - shift);
    out[j] = is_signed ? int32_t(top) >> (32 - bits) : int32_t(top >> (32 - bits));
  }
}

}  // namespace detail
}  // namespace mgx::emu
