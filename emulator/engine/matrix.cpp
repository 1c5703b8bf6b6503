// Execution of the matrix instructions.
//
// Products are exact and each is added to the f32 (f64, i32) accumulator with one rounding, to
// nearest even, in the order of ascending k, starting from C. The hardware's order is undocumented
// and differs (it sums groups of products before it adds C), so results agree within a few units
// of the largest term's last place.
#if defined(__GNUC__) && !defined(__clang__)
// gcc's -O2 does not vectorise the loops below. Contraction: see fused().
#pragma GCC optimize("O3", "fp-contract=fast")
#elif defined(__clang__)
#pragma clang fp contract(fast)
#endif

#include "matrix.h"

#include <cstring>
#include <limits>
#include <type_traits>

#include "matrix_kernels.h"

namespace mgx::emu {
namespace {

using detail::load_bf16;
using detail::load_f16;
using detail::load_f32;
using detail::load_integer;
using detail::load_table;

constexpr int kLanes = 64;
constexpr int kMaxRegisters = 16;

struct DecodeTables {
  float fp8[256], bf8[256], fp8_fnuz[256], bf8_fnuz[256], fp6[64], bf6[64], fp4[16];
  DecodeTables() {
    for (uint32_t i = 0; i < 256; ++i) {
      fp8[i] = decode(i, kFormatFp8), bf8[i] = decode(i, kFormatBf8);
      fp8_fnuz[i] = decode(i, kFormatFp8Fnuz), bf8_fnuz[i] = decode(i, kFormatBf8Fnuz);
    }
    for (uint32_t i = 0; i < 64; ++i)
      fp6[i] = decode(i, kFormatFp6), bf6[i] = decode(i, kFormatBf6);
    for (uint32_t i = 0; i < 16; ++i) fp4[i] = decode(i, kFormatFp4);
  }
};
const DecodeTables &tables() {
  static const DecodeTables instance;
  return instance;
}

// A or B as seen through the broadcast modifiers: registers of 64 lanes.
struct InputView {
  const uint32_t *words;
  size_t stride;
  uint32_t copy[kMaxRegisters * kLanes];

  // CDNA4 ISA 7.1.6: lane l reads lane source(l).
  template <class F> void permute(int registers, F source) {
    for (int r = 0; r < registers; ++r)
      for (int lane = 0; lane < kLanes; ++lane)
        copy[r * kLanes + lane] = words[r * stride + source(lane)];
    words = copy, stride = kLanes;
  }
};

struct InputOptions {
  bool flush = false;
  bool flip_even = false, flip_odd = false;  // negate items of even, odd number
  bool is_signed = true;
};

template <int N>
MGX_KERNEL void load_row(MatrixFormat format, const InputView &in, MatrixRow row,
                         const InputOptions &o, float *out) {
  using F = MatrixFormat;
  const bool odd = row.item & 1;
  const uint32_t flip = (odd ? o.flip_odd : o.flip_even) ? 0x8000u : 0;
  switch (format) {
  case F::kF32:
    return load_f32<N>(in.words + row.item * in.stride + row.lane, out, o.flush, 0xffffffffu);
  case F::kXf32:
    return load_f32<N>(in.words + row.item * in.stride + row.lane, out, o.flush, 0xffffe000u);
  case F::kF16:
    return load_f16<N>(in.words + row.item / 2 * in.stride + row.lane, odd * 16, out, o.flush,
                       flip);
  case F::kBf16:
    return load_bf16<N>(in.words + row.item / 2 * in.stride + row.lane, odd * 16, out, o.flush,
                        flip);
  default: break;
  }
  const DecodeTables &t = tables();
  const float *table = format == F::kFp8       ? t.fp8
                       : format == F::kBf8     ? t.bf8
                       : format == F::kFp8Fnuz ? t.fp8_fnuz
                                               : t.bf8_fnuz;
  load_table<N>(in.words + row.item / 4 * in.stride + row.lane, row.item % 4 * 8, table, out);
}
template <int N>
MGX_KERNEL void load_row(MatrixFormat format, const InputView &in, MatrixRow row,
                         const InputOptions &o, int32_t *out) {
  const int bits = format_bits(format), in_word = 32 / bits;
  load_integer<N>(in.words + row.item / in_word * in.stride + row.lane, row.item % in_word * bits,
                  bits, o.is_signed, out);
}
template <int N>
MGX_KERNEL void load_row(MatrixFormat, const InputView &in, MatrixRow row, const InputOptions &o,
                         double *out) {
  const uint32_t *low = in.words + row.item * 2 * in.stride + row.lane;
  for (int j = 0; j < N; ++j) {
    const double x = as_f64(low[j] | uint64_t(low[in.stride + j]) << 32);
    out[j] = o.flip_even ? -x : x;
  }
}

// gfx950: formats chosen by cbsz (A) and blgp (B).
template <int N>
MGX_KERNEL void load_f8f6f4(int choice, const InputView &in, const std::vector<MatrixRow> &wide,
                            const std::vector<MatrixRow> &narrow, float *out) {
  const DecodeTables &t = tables();
  static constexpr int bits_of[] = {8, 8, 6, 6, 4};
  const float *const table_of[] = {t.fp8, t.bf8, t.fp6, t.bf6, t.fp4};
  const int index = choice > 4 ? 0 : choice, bits = bits_of[index];
  const std::vector<MatrixRow> &rows = bits == 8 ? wide : narrow;
  const float *const table = table_of[index];
  for (const MatrixRow &row : rows) {
    // Items of 6 bits may cross into the next register.
    const int first = row.item * bits, shift = first % 32;
    const uint32_t *low = in.words + first / 32 * in.stride + row.lane;
    const uint32_t *high = shift + bits > 32 ? low + in.stride : low;
    for (int j = 0; j < N; ++j)
      out[j] = table[(low[j] | uint64_t(high[j]) << 32) >> shift & ((1u << bits) - 1)];
    out += N;
  }
}

// ---- C and D ----
uint32_t apply_sign(uint32_t u, uint32_t sign_bit, bool negate, bool absolute) {
  if (absolute) u &= ~sign_bit;
  return negate ? u ^ sign_bit : u;
}

struct OutputOptions {
  int half = 0;  // gfx11: which half of each register 16-bit results use
  bool negate = false, absolute = false;
  bool flush = false, saturate = false;
};

float load_acc(MatrixFormat format, uint32_t u, const OutputOptions &o, float *) {
  if (format == MatrixFormat::kF32) return as_f32(apply_sign(u, 0x80000000u, o.negate, o.absolute));
  u = apply_sign(u & 0xffffu, 0x8000u, o.negate, o.absolute);
  return format == MatrixFormat::kF16 ? f16_to_f32(uint16_t(u)) : bf16_to_f32(uint16_t(u));
}
int32_t load_acc(MatrixFormat, uint32_t u, const OutputOptions &, int32_t *) { return int32_t(u); }

template <int N, class T>
MGX_KERNEL void load_c(const MatrixPlan &p, const MatrixSource &c, const OutputOptions &o, T *out) {
  const bool wide = format_bits(p.acc) == 32;
  const bool plain = wide && c.words && !o.negate && !o.absolute;
  for (size_t row = 0; row < p.d_rows.size(); ++row, out += N) {
    const int item = p.d_rows[row].item + o.half;
    if (plain) {
      std::memcpy(out, c.words + item * c.stride + p.d_rows[row].lane, N * sizeof *out);
      continue;
    }
    for (int j = 0; j < N; ++j) {
      uint32_t u = uint32_t(c.constant);
      if (c.words) {
        const uint32_t *word =
            c.words + (wide ? item : item / 2) * c.stride + p.d_rows[row].lane + j;
        u = wide ? *word : *word >> (item % 2 * 16);
      }
      out[j] = load_acc(p.acc, u, o, out);
    }
  }
}

uint32_t store_acc(MatrixFormat format, float x, const OutputOptions &o) {
  if (o.saturate && std::isinf(x)) x = std::copysign(std::numeric_limits<float>::max(), x);
  if (format == MatrixFormat::kF16) return f32_to_f16_rne(x);
  if (format == MatrixFormat::kBf16) return f32_to_bf16(x);
  return o.flush ? flush32(bits(x)) : bits(x);
}

template <int N, class T>
MGX_KERNEL void store_d(const MatrixPlan &p, const T *in, const OutputOptions &o,
                        const MatrixOperands &operands) {
  const bool wide = format_bits(p.acc) == 32;
  for (size_t row = 0; row < p.d_rows.size(); ++row, in += N) {
    const int item = p.d_rows[row].item + o.half;
    uint32_t *word = operands.d + (wide ? item : item / 2) * operands.d_stride + p.d_rows[row].lane;
    if (std::is_same_v<T, int32_t> || (wide && !o.flush && !o.saturate)) {
      std::memcpy(word, in, N * sizeof *word);
    } else {
      const int shift = item % 2 * 16;
      for (int j = 0; j < N; ++j) {
        const uint32_t u = store_acc(p.acc, float(in[j]), o);
        word[j] = wide ? u : (word[j] & ~(0xffffu << shift)) | u << shift;
      }
    }
  }
}

// ---- sparse ----
// Which row of B goes with A[i, c]. CDNA4 ISA 7.5: cbsz and abid choose the set of indices;
// RDNA4 ISA 7.12: op_sel does. Two bits belong to each item of a lane's A, item 0 lowest.
void select_rows(const MatrixPlan &p, const MatrixOperands &operands, uint8_t *selected) {
  const int items =
      p.m * p.a_columns /
      (p.layout == MatrixLayout::kCdna ? 64
       : p.a_rows.size() && p.wave_size == 64 && format_bits(p.a) == 4 && p.a_columns == 16
           ? 32
           : p.wave_size);
  const int set_bits = 2 * items, sets = 32 / set_bits;
  int set = operands.op_sel & 3;
  if (p.layout == MatrixLayout::kCdna) set = operands.cbsz & 3 ? 0 : operands.abid;
  set %= sets;
  for (int c = 0; c < p.a_columns; ++c)
    for (int i = 0; i < p.m; ++i) {
      const MatrixRow row = p.a_rows[c];
      const uint32_t word = operands.index[row.lane + i] >> (set * set_bits + 2 * row.item);
      selected[c * p.m + i] = uint8_t(c / 2 * 4 + (word & 3));
    }
}

template <bool Fused, int N, class T>
MGX_KERNEL void multiply(const MatrixPlan &p, const MatrixOperands &operands, MatrixWork<T> &w) {
  if (p.sparse()) {
    uint8_t selected[kMaxInput];
    select_rows(p, operands, selected);
    detail::accumulate_sparse<Fused, N>(p, w, selected);
  } else {
    detail::accumulate<Fused, N>(p, w);
  }
}

double scale_of(const MatrixSource &source, int lane, int byte) {
  // An inline constant is a float whose exponent counts (CDNA4 ISA 7.2.1).
  const uint32_t e = source.words ? source.words[lane] >> (8 * byte) & 0xff
                                  : uint32_t(source.constant) >> 23 & 0xff;
  return e == 255 ? std::numeric_limits<double>::quiet_NaN()
                  : as_f64(uint64_t(e - 127 + 1023) << 52);
}

template <bool Fused, int N>
MGX_KERNEL void multiply_scaled(const MatrixPlan &p, const MatrixOperands &o,
                                MatrixWork<float> &w) {
  double scale_a[64], scale_b[64];
  const int byte_a = (o.op_sel & 1) | (o.op_sel_hi & 1) << 1;
  const int byte_b = (o.op_sel >> 1 & 1) | (o.op_sel_hi >> 1 & 1) << 1;
  for (int lane = 0; lane < 64; ++lane) {
    scale_a[lane] = p.scaled ? scale_of(o.scale_a, lane, byte_a) : 1.0;
    scale_b[lane] = p.scaled ? scale_of(o.scale_b, lane, byte_b) : 1.0;
  }
  detail::accumulate_scaled<Fused, N>(p, w, scale_a, scale_b);
}

template <int N, class T>
MGX_KERNEL void load_inputs(const MatrixPlan &p, const InputView &a, const InputView &b,
                            const InputOptions &oa, const InputOptions &ob, MatrixWork<T> &w) {
  T *out = w.a;
  for (const MatrixRow &row : p.a_rows) load_row<N>(p.a, a, row, oa, out), out += N;
  out = w.b;
  for (const MatrixRow &row : p.b_rows) load_row<N>(p.b, b, row, ob, out), out += N;
}

// M and N are equal in every instruction.
template <bool Fused, int N>
MGX_KERNEL void execute_body(const MatrixPlan &p, const MatrixOperands &o) {
  const bool cdna = p.layout == MatrixLayout::kCdna;
  InputView a, b;
  a.words = o.a.words, a.stride = o.a.stride;
  b.words = o.b.words, b.stride = o.b.stride;
  const bool broadcasts =
      p.kind == MatrixKind::kMfma && p.acc != MatrixFormat::kF64 && p.a != MatrixFormat::kF8f6f4;
  if (broadcasts && o.cbsz) {
    const int size = 64 >> o.cbsz;
    a.permute(p.a_registers, [&](int lane) { return lane % size + size * o.abid; });
  }
  if (broadcasts && o.blgp)
    b.permute(p.b_registers, [&](int lane) { return blgp_source(lane, o.blgp); });

  if (p.acc == MatrixFormat::kF64) {
    MatrixWork<double> w;
    InputOptions oa, ob;
    oa.flip_even = o.blgp & 1, ob.flip_even = o.blgp & 2;
    load_inputs<N>(p, a, b, oa, ob, w);
    double *d = w.d;
    for (const MatrixRow &row : p.d_rows)
      for (int j = 0; j < N; ++j) {
        const uint32_t *low =
            o.c.words ? o.c.words + row.item * 2 * o.c.stride + row.lane + j : nullptr;
        const double x = as_f64(low ? low[0] | uint64_t(low[o.c.stride]) << 32 : o.c.constant);
        *d++ = o.blgp & 4 ? -x : x;
      }
    multiply<Fused, N>(p, o, w);
    d = w.d;
    for (const MatrixRow &row : p.d_rows)
      for (int j = 0; j < N; ++j) {
        uint32_t *low = o.d + row.item * 2 * o.d_stride + row.lane + j;
        const uint64_t u = bits(*d++);
        low[0] = uint32_t(u), low[o.d_stride] = uint32_t(u >> 32);
      }
    return;
  }

  OutputOptions out;
  out.saturate = cdna && o.fp16_ovfl;
  if (p.acc == MatrixFormat::kI32) {
    MatrixWork<int32_t> w;
    InputOptions oa, ob;
    oa.is_signed = cdna || (o.neg_lo & 1), ob.is_signed = cdna || (o.neg_lo & 2);
    load_inputs<N>(p, a, b, oa, ob, w);
    if (!o.clamp && !out.saturate) {
      load_c<N>(p, o.c, out, w.d);
      multiply<Fused, N>(p, o, w);
    } else {
      int32_t c[kMaxOutput];
      load_c<N>(p, o.c, out, c);
      std::memset(w.d, 0, sizeof w.d);
      multiply<Fused, N>(p, o, w);
      const int count = int(p.d_rows.size()) * N;
      for (int i = 0; i < count; ++i) {
        const int64_t sum = int64_t(c[i]) + w.d[i];
        w.d[i] = int32_t(sum > INT32_MAX ? INT32_MAX : sum < INT32_MIN ? INT32_MIN : sum);
      }
    }
    store_d<N>(p, w.d, out, o);
    return;
  }

  MatrixWork<float> w;
  InputOptions oa, ob;
  if (!cdna) {
    oa.flip_even = o.neg_lo & 1, oa.flip_odd = o.neg_hi & 1;
    ob.flip_even = o.neg_lo & 2, ob.flip_odd = o.neg_hi & 2;
    out.negate = o.neg_lo & 4, out.absolute = o.neg_hi & 4;
    if (p.layout == MatrixLayout::kGfx11 && format_bits(p.acc) == 16) out.half = o.op_sel >> 2 & 1;
  }
  oa.flush = p.flush_denormals || (p.a == MatrixFormat::kF32 && o.flush_input_denormals);
  ob.flush = oa.flush;
  out.flush = p.flush_denormals;
  load_c<N>(p, o.c, out, w.d);
  if (p.a == MatrixFormat::kF8f6f4) {
    load_f8f6f4<N>(o.cbsz, a, p.a_rows_8bit, p.a_rows, w.a);
    load_f8f6f4<N>(o.blgp, b, p.b_rows_8bit, p.b_rows, w.b);
    multiply_scaled<Fused, N>(p, o, w);
  } else {
    load_inputs<N>(p, a, b, oa, ob, w);
    multiply<Fused, N>(p, o, w);
  }
  store_d<N>(p, w.d, out, o);
}

template <bool Fused> MGX_KERNEL void execute_any(const MatrixPlan &p, const MatrixOperands &o) {
  if (p.n == 32) execute_body<Fused, 32>(p, o);
  else if (p.n == 16) execute_body<Fused, 16>(p, o);
  else execute_body<Fused, 4>(p, o);
}

#if defined(__x86_64__)
__attribute__((target("avx512f,avx512vl,avx512bw,avx512dq,fma,prefer-vector-width=512"))) void
execute_avx512(const MatrixPlan &p, const MatrixOperands &o) {
  execute_any<true>(p, o);
}
__attribute__((target("avx2,fma"))) void execute_avx2(const MatrixPlan &p,
                                                      const MatrixOperands &o) {
  execute_any<true>(p, o);
}
#endif
void execute_plain(const MatrixPlan &p, const MatrixOperands &o) { execute_any<false>(p, o); }

using Execute = void (*)(const MatrixPlan &, const MatrixOperands &);
Execute choose() {
#if defined(__x86_64__)
  __builtin_cpu_init();
  if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512vl") &&
      __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512dq"))
    return execute_avx512;
  if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) return execute_avx2;
#endif
  return execute_plain;
}

}  // namespace

void execute_matrix(const MatrixOp &op, const MatrixOperands &operands) {
  static const Execute execute = choose();
  execute(static_cast<const MatrixPlan &>(op), operands);
}

}  // namespace mgx::emu
