// C entry points to matrix.h and numeric.h for the tests that need no engine.
#include <cstring>
#include <string_view>

#include "../../engine/matrix.h"
#include "../../engine/numeric.h"

using namespace mgx::emu;

extern "C" {

struct MatrixShape {
  int32_t m, n, k, blocks, a_registers, b_registers, acc_registers;
};

struct MatrixModifiers {
  int32_t cbsz, abid, blgp, neg_lo, neg_hi, op_sel, op_sel_hi, clamp, fp16_ovfl, flush,
      c_is_constant;
  uint64_t c_constant;
};

int mgxTestMatrixShape(const char *mnemonic, uint32_t gfx, uint32_t wave_size, MatrixShape *shape) {
  const MatrixOp *op = find_matrix_op(mnemonic, gfx, wave_size);
  if (!op) return 0;
  *shape = {op->m, op->n, op->k, op->blocks, op->a_registers, op->b_registers, op->acc_registers};
  return 1;
}

// Registers are 64 words apart.
int mgxTestMatrix(const char *mnemonic, uint32_t gfx, uint32_t wave_size, const uint32_t *a,
                  const uint32_t *b, const uint32_t *c, const uint32_t *index,
                  const uint32_t *scale_a, const uint32_t *scale_b, uint32_t *d,
                  const MatrixModifiers *m) {
  const MatrixOp *op = find_matrix_op(mnemonic, gfx, wave_size);
  if (!op) return 0;
  MatrixOperands o;
  o.a = {a, 64, 0}, o.b = {b, 64, 0};
  o.c = {m->c_is_constant ? nullptr : c, 64, m->c_constant};
  o.d = d, o.d_stride = 64;
  o.index = index;
  o.scale_a = {scale_a, 64, 0}, o.scale_b = {scale_b, 64, 0};
  o.cbsz = uint8_t(m->cbsz), o.abid = uint8_t(m->abid), o.blgp = uint8_t(m->blgp);
  o.neg_lo = uint8_t(m->neg_lo), o.neg_hi = uint8_t(m->neg_hi);
  o.op_sel = uint8_t(m->op_sel), o.op_sel_hi = uint8_t(m->op_sel_hi);
  o.clamp = m->clamp, o.fp16_ovfl = m->fp16_ovfl, o.flush_input_denormals = m->flush;
  execute_matrix(*op, o);
  return 1;
}

// out[i] = function(a[i], b[i], c[i]) on bit patterns; `mode` is the MODE register.
int mgxTestNumeric(const char *name, uint32_t mode, const uint64_t *a, const uint64_t *b,
                   const uint64_t *c, uint64_t *out, size_t count) {
  const FloatMode m = FloatMode::from_register(mode);
  const std::string_view f = name;
  const auto each = [&](auto operation) {
    for (size_t i = 0; i < count; ++i) out[i] = operation(i);
    return 1;
  };
  const auto x32 = [](const uint64_t *p, size_t i) { return as_f32(uint32_t(p[i])); };
  const auto x64 = [](const uint64_t *p, size_t i) { return as_f64(p[i]); };
#define F32_2(NAME)                                                                                \
  if (f == #NAME) return each([&](size_t i) { return bits(NAME(x32(a, i), x32(b, i), m)); })
#define F64_2(NAME)                                                                                \
  if (f == #NAME) return each([&](size_t i) { return bits(NAME(x64(a, i), x64(b, i), m)); })
#define F16_2(NAME)                                                                                \
  if (f == #NAME) return each([&](size_t i) { return NAME(uint16_t(a[i]), uint16_t(b[i]), m); })
#define F32_1(NAME)                                                                                \
  if (f == #NAME) return each([&](size_t i) { return bits(NAME(x32(a, i))); })
  F32_2(add_f32);
  F32_2(mul_f32);
  F64_2(add_f64);
  F64_2(mul_f64);
  F16_2(add_f16);
  F16_2(mul_f16);
  F32_1(rcp_f32);
  F32_1(sqrt_f32);
  F32_1(rsq_f32);
  F32_1(exp2_f32);
  F32_1(log2_f32);
  F32_1(sin_f32);
  F32_1(cos_f32);
  if (f == "fma_f32")
    return each([&](size_t i) { return bits(fma_f32(x32(a, i), x32(b, i), x32(c, i), m)); });
  if (f == "fma_f64")
    return each([&](size_t i) { return bits(fma_f64(x64(a, i), x64(b, i), x64(c, i), m)); });
  if (f == "fma_f16")
    return each(
        [&](size_t i) { return fma_f16(uint16_t(a[i]), uint16_t(b[i]), uint16_t(c[i]), m); });
  if (f == "f32_to_f16") return each([&](size_t i) { return f32_to_f16(x32(a, i), m.round64); });
  if (f == "f64_to_f32")
    return each([&](size_t i) { return bits(f64_to_f32(x64(a, i), m.round32)); });
  if (f == "f64_to_f16") return each([&](size_t i) { return f64_to_f16(x64(a, i), m.round64); });
  if (f == "f32_to_bf16") return each([&](size_t i) { return f32_to_bf16(x32(a, i), m.round32); });
  if (f == "f16_to_f32") return each([&](size_t i) { return bits(f16_to_f32(uint16_t(a[i]))); });
  // b selects: 0 OCP fp8, 1 OCP bf8, 2 fnuz fp8, 3 fnuz bf8, 4 fp6, 5 bf6, 6 fp4; c saturates.
  static const FloatFormat formats[] = {kFormatFp8, kFormatBf8, kFormatFp8Fnuz, kFormatBf8Fnuz,
                                        kFormatFp6, kFormatBf6, kFormatFp4};
  const auto overflow = [&](size_t i) { return c[i] ? Overflow::kSaturate : Overflow::kIeee; };
  if (f == "encode")
    return each([&](size_t i) {
      return encode(x32(a, i), formats[b[i]], Round::kNearestEven, overflow(i));
    });
  if (f == "decode")
    return each([&](size_t i) { return bits(decode(uint32_t(a[i]), formats[b[i]])); });
  if (f == "encode_stochastic")
    return each(
        [&](size_t i) { return encode_stochastic(x32(a, i), uint32_t(c[i]), formats[b[i]]); });
  if (f == "divide_f32")
    return each([&](size_t i) {
    // The sequence LLVM emits for an IEEE division.
      const float n = x32(a, i), d = x32(b, i);
      bool scaled, unused;
      const float den = div_scale_f32(d, d, n, unused), num = div_scale_f32(n, d, n, scaled),
                  r = rcp_f32(den);
      const float f0 = fma_f32(-den, r, 1.0f, m), f1 = fma_f32(f0, r, r, m),
                  mu = mul_f32(num, f1, m);
      const float f2 = fma_f32(-den, mu, num, m), f3 = fma_f32(f2, f1, mu, m),
                  f4 = fma_f32(-den, f3, num, m);
      return bits(div_fixup_f32(div_fmas_f32(f4, f1, f3, scaled, m), d, n));
    });
  if (f == "divide_f64")
    return each([&](size_t i) {
      const double n = x64(a, i), d = x64(b, i);
      bool scaled, unused;
      const double den = div_scale_f64(d, d, n, unused), num = div_scale_f64(n, d, n, scaled),
                   r = rcp_f64(den);
      const double t = fma_f64(-den, r, 1.0, m), r1 = fma_f64(r, t, r, m),
                   t2 = fma_f64(-den, r1, 1.0, m);
      const double r2 = fma_f64(r1, t2, r1, m), mu = mul_f64(num, r2, m),
                   e = fma_f64(-den, mu, num, m);
      return bits(div_fixup_f64(div_fmas_f64(e, r2, mu, scaled, m), d, n));
    });
  return 0;
}

}  // extern "C"
