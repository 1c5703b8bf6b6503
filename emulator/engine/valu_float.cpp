// Vector floating-point arithmetic. Plain operators are the host's: IEEE, with
// rounding and denormals as MXCSR says, which the wave loop sets where MODE
// differs from the default.
#include "numeric.h"
#include "valu.h"

namespace mgx::emu {
inline namespace MGX_ISA {

MGX_INLINE FloatMode float_mode(const Wave &w) {
  return FloatMode::from_register(w.mode, w.chip->is_gfx12());
}

MGX_INLINE f32 fma32(f32 a, f32 b, f32 c) { return __builtin_fmaf(a, b, c); }
MGX_INLINE f64 fma64(f64 a, f64 b, f64 c) { return __builtin_fma(a, b, c); }
MGX_INLINE h16 fma16(h16 a, h16 b, h16 c) { return h16(fma_to_odd(a.v, b.v, c.v)); }
// 0 times anything is 0, "DX9 rules".
MGX_INLINE f32 mul_dx9(f32 a, f32 b) { return a == 0 || b == 0 ? 0.0f : a * b; }
MGX_INLINE f32 fma_dx9(f32 a, f32 b, f32 c) { return a == 0 || b == 0 ? c : fma32(a, b, c); }

static void register_arithmetic(OpTable &t){
    OP2("v_add_f32", f32, f32, f32, a + b) OP2("v_sub_f32", f32, f32, f32,
                                               a - b) OP2("v_subrev_f32", f32, f32, f32, b - a)
        OP2("v_mul_f32", f32, f32, f32, a *b) OP2("v_mul_legacy_f32", f32, f32, f32, mul_dx9(a, b))
            OP3("v_fma_f32", f32, f32, f32, f32,
                fma32(a, b, c)) OP3("v_fma_legacy_f32", f32, f32, f32, f32,
                                    fma_dx9(a, b, c)) OP3("v_mad_f32", f32, f32, f32, f32, a *b + c)
                OP3("v_fmaak_f32", f32, f32, f32, f32, fma32(a, b, c)) OP3("v_fmamk_f32", f32, f32,
                                                                           f32, f32, fma32(a, b, c))
                    OPACC("v_fmac_f32", f32, f32, f32, f32, fma32(a, b, c))
                        OPACC("v_fmac_legacy_f32", f32, f32, f32, f32,
                              fma_dx9(a, b, c)) OPACC("v_mac_f32", f32, f32, f32, f32, a *b + c)

                            OP2("v_add_f64", f64, f64, f64, a + b) OP2("v_mul_f64", f64,
                                                                       f64, f64, a *b)
                                OP3("v_fma_f64", f64, f64, f64, f64, fma64(a, b, c))
                                    OPACC("v_fmac_f64", f64, f64, f64, f64, fma64(a, b, c))

                                        OP2("v_add_f16", h16, h16, h16,
                                            a.v + b.v) OP2("v_sub_f16", h16, h16, h16, a.v - b.v)
                                            OP2("v_subrev_f16", h16, h16, h16,
                                                b.v - a.v) OP2("v_mul_f16", h16, h16, h16, a.v *b.v)
                                                OP3("v_fma_f16", h16, h16, h16, h16, fma16(a, b, c))
                                                    OP3("v_mad_f16", h16, h16, h16, h16,
                                                        half_to_float(float_to_half(a.v *b.v)) +
                                                            c.v) OP3("v_fmaak_f16", h16, h16, h16,
                                                                     h16, fma16(a, b, c))
                                                        OP3("v_fmamk_f16", h16, h16, h16, h16,
                                                            fma16(a, b, c))
                                                            OPACC("v_fmac_f16", h16, h16, h16, h16,
                                                                  fma16(a, b, c))}

//===-- Minimum and maximum -----------------------------------------------===//

// MODE.IEEE (bit 9) chooses what a signalling NaN does. On bits, as NaN payloads
// pass through; the numeric functions are branch-free once inlined.
#define MINMAX(name, T, U, ieee_expr, num_expr)                                                    \
  {                                                                                                \
    struct Run {                                                                                   \
      struct I {                                                                                   \
        static inline __attribute__((always_inline)) U f(U a, U b) { return ieee_expr; }           \
      };                                                                                           \
      struct N {                                                                                   \
        static inline __attribute__((always_inline)) U f(U a, U b) { return num_expr; }            \
      };                                                                                           \
      static void run(Wave &w, const Inst &in) {                                                   \
        if ((w.mode >> 9 & 1) && !w.chip->is_gfx12()) minmax2<I, T, U>(w, in);                     \
        else minmax2<N, T, U>(w, in);                                                              \
      }                                                                                            \
    };                                                                                             \
    OpInfo o;                                                                                      \
    o.fn = Run::run;                                                                               \
    o.dst = o.src[0] = o.src[1] = ty_of<T>();                                                      \
    o.nsrc = 2;                                                                                    \
    o.flags = MGX_FLAGS_OF(T, T);                                                                  \
    add_op(t, name, o);                                                                            \
  }
#define MINMAX3(name, T, U, ieee_expr, num_expr)                                                   \
  {                                                                                                \
    struct Run {                                                                                   \
      struct I {                                                                                   \
        static inline __attribute__((always_inline)) U f(U a, U b, U c) { return ieee_expr; }      \
      };                                                                                           \
      struct N {                                                                                   \
        static inline __attribute__((always_inline)) U f(U a, U b, U c) { return num_expr; }       \
      };                                                                                           \
      static void run(Wave &w, const Inst &in) {                                                   \
        if ((w.mode >> 9 & 1) && !w.chip->is_gfx12()) minmax3<I, T, U>(w, in);                     \
        else minmax3<N, T, U>(w, in);                                                              \
      }                                                                                            \
    };                                                                                             \
    OpInfo o;                                                                                      \
    o.fn = Run::run;                                                                               \
    o.dst = o.src[0] = o.src[1] = o.src[2] = ty_of<T>();                                           \
    o.nsrc = 3;                                                                                    \
    o.flags = MGX_FLAGS_OF(T, T);                                                                  \
    add_op(t, name, o);                                                                            \
  }

template <class F, class T, class U>
MGX_INLINE void minmax2(Wave &w, const Inst &in) {
  Buffer t0, t1, td;
  MGX_LANES(w)
  const u32 *a = fetch(w, in, in.src[0], t0.x), *b = fetch(w, in, in.src[1], t1.x);
  bool whole = direct(w, in);
  u32 *d = whole ? w.vgpr(in.dst.reg) : td.x;
  MGX_EACH st<U>(d, i, F::f(ld<U>(a, i), ld<U>(b, i)));
  if (!whole) commit<T>(w, in, d);
}
template <class F, class T, class U> MGX_INLINE void minmax3(Wave &w, const Inst &in) {
  Buffer t0, t1, t2, td;
  MGX_LANES(w)
  const u32 *a = fetch(w, in, in.src[0], t0.x), *b = fetch(w, in, in.src[1], t1.x),
            *c = fetch(w, in, in.src[2], t2.x);
  bool whole = direct(w, in);
  u32 *d = whole ? w.vgpr(in.dst.reg) : td.x;
  MGX_EACH st<U>(d, i, F::f(ld<U>(a, i), ld<U>(b, i), ld<U>(c, i)));
  if (!whole) commit<T>(w, in, d);
}

// As numeric_arithmetic.h has them, without branches. U is the unsigned type of
// the bits; kNum: the min_num forms, which prefer a number to any NaN.
template <class U> MGX_INLINE bool is_nan_of(U x) {
  constexpr U inf = sizeof(U) == 4   ? U(0x7f800000)
                    : sizeof(U) == 2 ? U(0x7c00)
                                     : U(0x7ff0000000000000);
  return U(x & U(~(U(1) << (sizeof(U) * 8 - 1)))) > inf;
}
template <class U, bool kMax, bool kNum> MGX_INLINE U pick(U a, U b) {
  using S = std::make_signed_t<U>;
  constexpr U quiet = sizeof(U) == 4 ? U(0x400000) : sizeof(U) == 2 ? U(0x200) : U(0x8000000000000);
  constexpr S top = S(U(~U(0)) >> 1);
  S sa = S(a), sb = S(b);
  S oa = S(sa ^ S(S(sa >> (sizeof(U) * 8 - 1)) & top)),
    ob = S(sb ^ S(S(sb >> (sizeof(U) * 8 - 1)) & top));
  bool na = is_nan_of(a), nb = is_nan_of(b);
  U qa = na ? U(a | quiet) : a, qb = nb ? U(b | quiet) : b;
  U r = kMax ? (oa < ob ? b : a) : (oa < ob ? a : b);
  r = nb ? a : r;
  if constexpr (kNum) {
    r = na ? (nb ? qa : b) : r;
  } else {
    r = na ? qb : r;
    r = (nb & !(b & quiet)) ? qb : r; // signalling
    r = (na & !(a & quiet)) ? qa : r;
  }
  return r;
}

#define MINMAX_ALL(S, T, U)                                                                        \
  MINMAX("v_min_" #S, T, U, (pick<U, false, false>(a, b)), (pick<U, false, true>(a, b)))           \
  MINMAX("v_max_" #S, T, U, (pick<U, true, false>(a, b)), (pick<U, true, true>(a, b)))             \
  MINMAX("v_minimum_" #S, T, U, minimum_##S(a, b), minimum_##S(a, b))                              \
  MINMAX("v_maximum_" #S, T, U, maximum_##S(a, b), maximum_##S(a, b))
#define MINMAX3_ALL(S, T, U)                                                                       \
  MINMAX3("v_min3_" #S, T, U, (pick<U, false, false>(pick<U, false, false>(a, b), c)),             \
          (pick<U, false, true>(pick<U, false, true>(a, b), c)))                                   \
  MINMAX3("v_max3_" #S, T, U, (pick<U, true, false>(pick<U, true, false>(a, b), c)),               \
          (pick<U, true, true>(pick<U, true, true>(a, b), c)))                                     \
  MINMAX3("v_med3_" #S, T, U, med3_##S(a, b, c, true), med3_##S(a, b, c, false))                   \
  MINMAX3("v_minmax_" #S, T, U, max_##S(min_##S(a, b, true), c, true),                             \
          max_num_##S(min_num_##S(a, b), c))                                                       \
  MINMAX3("v_maxmin_" #S, T, U, min_##S(max_##S(a, b, true), c, true),                             \
          min_num_##S(max_num_##S(a, b), c))                                                       \
  MINMAX3("v_minimum3_" #S, T, U, minimum_##S(minimum_##S(a, b), c),                               \
          minimum_##S(minimum_##S(a, b), c))                                                       \
  MINMAX3("v_maximum3_" #S, T, U, maximum_##S(maximum_##S(a, b), c),                               \
          maximum_##S(maximum_##S(a, b), c))                                                       \
  MINMAX3("v_minimummaximum_" #S, T, U, maximum_##S(minimum_##S(a, b), c),                         \
          maximum_##S(minimum_##S(a, b), c))                                                       \
  MINMAX3("v_maximumminimum_" #S, T, U, minimum_##S(maximum_##S(a, b), c),                         \
          minimum_##S(maximum_##S(a, b), c))

static void register_minmax(OpTable &t){MINMAX_ALL(f32, f32, u32) MINMAX_ALL(f64, f64, u64)
                                            MINMAX_ALL(f16, h16, u16) MINMAX3_ALL(f32, f32, u32)
                                                MINMAX3_ALL(f16, h16, u16)}

//===-- Functions ---------------------------------------------------------===//

MGX_INLINE h16 half_of(u16 x) {
  return h16(half_to_float(x));
}
MGX_INLINE u16 to_half(h16 x) { return u16(float_to_half(x.v)); }

static void register_functions(OpTable &t) {
  const FloatMode plain;
  (void)plain;
  OP1("v_rcp_f32", f32, f32, rcp_f32(a))
  OP1("v_rcp_iflag_f32", f32, f32, rcp_f32(a))
  OP1("v_rsq_f32", f32, f32, rsq_f32(a))
  OP1("v_sqrt_f32", f32, f32, sqrt_f32(a))
  OP1("v_exp_f32", f32, f32, exp2_f32(a))
  OP1("v_log_f32", f32, f32, log2_f32(a))
  OP1("v_sin_f32", f32, f32, sin_f32(a))
  OP1("v_cos_f32", f32, f32, cos_f32(a))
  OP1("v_rcp_f64", f64, f64, rcp_f64(a))
  OP1("v_rsq_f64", f64, f64, rsq_f64(a))
  OP1("v_sqrt_f64", f64, f64, sqrt_f64(a))
  OP1("v_rcp_f16", h16, h16, to_odd(1.0 / f64(a.v)))
  OP1("v_rsq_f16", h16, h16, to_odd(1.0 / __builtin_sqrt(f64(a.v))))
  OP1("v_sqrt_f16", h16, h16, __builtin_sqrtf(a.v))
  OP1("v_exp_f16", h16, h16, to_odd(__builtin_exp2(f64(a.v))))
  OP1("v_log_f16", h16, h16, to_odd(__builtin_log2(f64(a.v))))
  OP1("v_sin_f16", h16, h16, sin_f32(a.v))
  OP1("v_cos_f16", h16, h16, cos_f32(a.v))
  for (const char *name :
       {"v_rcp_f32", "v_rcp_iflag_f32", "v_rsq_f32", "v_sqrt_f32", "v_exp_f32", "v_log_f32",
        "v_sin_f32", "v_cos_f32", "v_rcp_f64", "v_rsq_f64", "v_sqrt_f64", "v_rcp_f16", "v_rsq_f16",
        "v_sqrt_f16", "v_exp_f16", "v_log_f16", "v_sin_f16", "v_cos_f16"})
    find_op(t, name)->cls = Class::trans;

  OP1("v_floor_f32", f32, f32, __builtin_floorf(a))
  OP1("v_ceil_f32", f32, f32, __builtin_ceilf(a))
  OP1("v_trunc_f32", f32, f32, __builtin_truncf(a))
  OP1("v_rndne_f32", f32, f32, __builtin_roundevenf(a))
  OP1("v_fract_f32", f32, f32, fract_f32(a))
  OP1("v_frexp_mant_f32", f32, f32, f32(frexp_mant(f64(a))))
  OP1("v_frexp_exp_i32_f32", i32, f32, frexp_exp(f64(a)))
  OP1("v_floor_f64", f64, f64, __builtin_floor(a))
  OP1("v_ceil_f64", f64, f64, __builtin_ceil(a))
  OP1("v_trunc_f64", f64, f64, __builtin_trunc(a))
  OP1("v_rndne_f64", f64, f64, __builtin_roundeven(a))
  OP1("v_fract_f64", f64, f64, fract_f64(a))
  OP1("v_frexp_mant_f64", f64, f64, frexp_mant(a))
  OP1("v_frexp_exp_i32_f64", i32, f64, frexp_exp(a))
  OP1("v_floor_f16", h16, h16, __builtin_floorf(a.v))
  OP1("v_ceil_f16", h16, h16, __builtin_ceilf(a.v))
  OP1("v_trunc_f16", h16, h16, __builtin_truncf(a.v))
  OP1("v_rndne_f16", h16, h16, __builtin_roundevenf(a.v))
  OP1("v_fract_f16", h16, h16, half_of(fract_f16(to_half(a), FloatMode())))
  OP1("v_frexp_mant_f16", h16, h16, f32(frexp_mant(f64(a.v))))
  OP1("v_frexp_exp_i16_f16", i16, h16, i16(frexp_exp(f64(a.v))))
  OP2("v_ldexp_f32", f32, f32, i32, ldexp_f32(a, b, FloatMode()))
  OP2("v_ldexp_f64", f64, f64, i32, ldexp_f64(a, b, FloatMode()))
  OP2("v_ldexp_f16", h16, h16, i16, half_of(ldexp_f16(to_half(a), b, FloatMode())))
  OP2("v_trig_preop_f64", f64, f64, u32, trig_preop_f64(a, b & 31))
  OP3("v_div_fixup_f32", f32, f32, f32, f32, div_fixup_f32(a, b, c))
  OP3("v_div_fixup_f64", f64, f64, f64, f64, div_fixup_f64(a, b, c))
  OP3("v_div_fixup_f16", h16, h16, h16, h16,
      half_of(div_fixup_f16(to_half(a), to_half(b), to_half(c))))
}

//===-- Division helpers with VCC -----------------------------------------===//

template <class T, T (*kF)(T, T, T, bool &)> static void div_scale_op(Wave &w, const Inst &in) {
  Buffer t0, t1, t2, td;
  MGX_LANES(w)
  const u32 *a = fetch(w, in, in.src[0], t0.x), *b = fetch(w, in, in.src[1], t1.x),
            *c = fetch(w, in, in.src[2], t2.x);
  u64 m = 0;
  for (u32 i = 0; i < n; ++i) {
    bool vcc = false;
    st<T>(td.x, i, kF(ld<T>(a, i), ld<T>(b, i), ld<T>(c, i), vcc));
    m |= u64(vcc) << i;
  }
  m &= exec_of(w);
  commit<T>(w, in, td.x);
  set_mask(w, in.sdst.reg, m);
}

template <class T, T (*kF)(T, T, T, bool, const FloatMode &)>
static void div_fmas_op(Wave &w, const Inst &in) {
  Buffer t0, t1, t2, td;
  MGX_LANES(w)
  const u32 *a = fetch(w, in, in.src[0], t0.x), *b = fetch(w, in, in.src[1], t1.x),
            *c = fetch(w, in, in.src[2], t2.x);
  u64 vcc = get_mask(w, kVcc);
  FloatMode mode = float_mode(w);
  for (u32 i = 0; i < n; ++i)
    st<T>(td.x, i, kF(ld<T>(a, i), ld<T>(b, i), ld<T>(c, i), vcc >> i & 1, mode));
  commit<T>(w, in, td.x);
}

static void register_division(OpTable &t) {
  auto add = [&](const char *name, Handler fn, Ty ty, bool sdst) {
    OpInfo o;
    o.fn = fn;
    o.dst = o.src[0] = o.src[1] = o.src[2] = ty;
    o.nsrc = 3;
    o.sdst = sdst;
    add_op(t, name, o);
  };
  add("v_div_scale_f32", div_scale_op<f32, div_scale_f32>, Ty::f32, true);
  add("v_div_scale_f64", div_scale_op<f64, div_scale_f64>, Ty::f64, true);
  add("v_div_fmas_f32", div_fmas_op<f32, div_fmas_f32>, Ty::f32, false);
  add("v_div_fmas_f64", div_fmas_op<f64, div_fmas_f64>, Ty::f64, false);
}

void register_valu_float(OpTable &t) {
  register_arithmetic(t);
  register_minmax(t);
  register_functions(t);
  register_division(t);
}

} // namespace MGX_ISA
} // namespace mgx::emu
