// Vector compares.
#include "numeric.h"
#include "valu.h"

namespace mgx::emu {
inline namespace MGX_ISA {

// v_cmp_* and v_cmpx_*: the same test, the latter writes EXEC as well.
static void add_compare(OpTable &t, const char *relation, const char *type, Handler fn, Ty a, Ty b,
                        u32 flags) {
  char name[32];
  for (int x = 0; x < 2; ++x) {
    char *p = name;
    for (const char *s = x ? "v_cmpx_" : "v_cmp_"; *s;) *p++ = *s++;
    for (const char *s = relation; *s;) *p++ = *s++;
    *p++ = '_';
    for (const char *s = type; *s;) *p++ = *s++;
    *p = 0;
    OpInfo o;
    o.fn = fn;
    o.src[0] = a;
    o.src[1] = b;
    o.nsrc = 2;
    o.sdst = true;
    o.flags = flags | (x ? u32(F_WRITES_EXEC) : 0);
    add_op(t, name, o);
  }
}

#define CMP(relation, type, T, expr)                                                               \
  {                                                                                                \
    struct Op {                                                                                    \
      static inline __attribute__((always_inline)) bool f([[maybe_unused]] T a,                    \
                                                          [[maybe_unused]] T b) {                  \
        return expr;                                                                               \
      }                                                                                            \
    };                                                                                             \
    add_compare(t, relation, type, run_compare<Op, T, T>, ty_of<T>(), ty_of<T>(),                  \
                MGX_FLAGS_OF(T, T));                                                               \
  }

#define CMP_INT(type, T)                                                                           \
  CMP("f", type, T, false)                                                                         \
  CMP("lt", type, T, a < b)                                                                        \
  CMP("eq", type, T, a == b)                                                                       \
  CMP("le", type, T, a <= b)                                                                       \
  CMP("gt", type, T, a > b)                                                                        \
  CMP("ne", type, T, a != b)                                                                       \
  CMP("ge", type, T, a >= b)                                                                       \
  CMP("t", type, T, true)

#define CMP_FLOAT(type, T)                                                                         \
  CMP("f", type, T, false)                                                                         \
  CMP("lt", type, T, a < b)                                                                        \
  CMP("eq", type, T, a == b)                                                                       \
  CMP("le", type, T, a <= b)                                                                       \
  CMP("gt", type, T, a > b)                                                                        \
  CMP("lg", type, T, (a < b) | (a > b))                                                            \
  CMP("ge", type, T, a >= b)                                                                       \
  CMP("o", type, T, (a == a) & (b == b))                                                           \
  CMP("u", type, T, (a != a) | (b != b))                                                           \
  CMP("nge", type, T, !(a >= b))                                                                   \
  CMP("nlg", type, T, !((a < b) | (a > b)))                                                        \
  CMP("ngt", type, T, !(a > b))                                                                    \
  CMP("nle", type, T, !(a <= b))                                                                   \
  CMP("neq", type, T, !(a == b))                                                                   \
  CMP("nlt", type, T, !(a < b))                                                                    \
  CMP("tru", type, T, true)                                                                        \
  CMP("t", type, T, true)

struct Class32 {
  static inline __attribute__((always_inline)) bool f(u32 a, u32 b) { return class_f32(a) & b; }
};
struct Class16 {
  static inline __attribute__((always_inline)) bool f(u16 a, u16 b) { return class_f16(a) & b; }
};
struct Class64 {
  static inline __attribute__((always_inline)) bool f(u64 a, u32 b) { return class_f64(a) & b; }
};

static void register_ints(OpTable &t) {
  CMP_INT("i32", i32)
  CMP_INT("u32", u32)
  CMP_INT("i16", i16)
  CMP_INT("u16", u16)
  CMP_INT("i64", i64)
  CMP_INT("u64", u64)
}
static void register_floats(OpTable &t) {
  CMP_FLOAT("f32", f32)
  CMP_FLOAT("f64", f64)
  CMP_FLOAT("f16", h16)
}

void register_valu_compare(OpTable &t) {
  register_ints(t);
  register_floats(t);
  add_compare(t, "class", "f32", run_compare<Class32, u32, u32>, Ty::f32, Ty::b32, 0);
  add_compare(t, "class", "f16", run_compare<Class16, u16, u16>, Ty::f16, Ty::b16, 0);
  add_compare(t, "class", "f64", run_compare<Class64, u64, u32>, Ty::f64, Ty::b32, 0);
}

} // namespace MGX_ISA
} // namespace mgx::emu
