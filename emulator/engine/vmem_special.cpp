// Vector memory instructions of their own kind: transposing loads and blocks of
// registers (gfx12), stores from LDS (gfx90a).
#include "access.h"

namespace mgx::emu {
inline namespace MGX_ISA {

// GLOBAL_LOAD_TR_*: a 16x16 matrix, transposed on its way into the registers of a
// wave32. Each lane reads 8 elements in a row and gets 8 of one column. The ISA
// document names no lanes; these are the ones measured on gfx1201: 16-bit
// elements are transposed in groups of 8 lanes, 8-bit ones in groups of 16,
// whose lanes 0-3 and 8-11 hold columns 0-7 and the others columns 8-15.
template <u32 kBits> static void load_transposed(Wave &w, const Inst &in) {
  constexpr u32 words = kBits / 4;
  if (w.lanes != 32 || exec_of(w) != w.all)
    return raise_fault(w, Fault::invalid_instruction, -1, 0,
                       w.lanes != 32
                           ? "a transposing load in wave64, whose order of lanes is not known"
                           : "a transposing load while some lanes are inactive");
  Access a;
  if (!resolve(w, in, 4 * words, true, false, a)) return;
  u32 *d = w.vgpr(in.dst.reg);
  for (u32 i = 0; i < 32; ++i) {
    u8 column[4 * words];
    for (u32 j = 0; j < 8; ++j) {
      u32 from = kBits == 16 ? (i & ~7u) + j : (i & ~15u) + (j & ~3u) * 2 + (i & 8) / 2 + (j & 3);
      std::memcpy(column + j * kBits / 8, a.p[from] + (i & 7) * kBits / 8, kBits / 8);
    }
    for (u32 k = 0; k < words; ++k) std::memcpy(&d[k * kLanes + i], column + 4 * k, 4);
  }
}

// M0 says which of 32 registers take part; each has its place in memory.
template <bool kStore> static void block(Wave &w, const Inst &in) {
  for (u32 chosen = w.s[kM0], k; chosen; chosen &= chosen - 1) {
    k = u32(__builtin_ctz(chosen));
    Inst one = in;
    one.imm += i32(4 * k);
    Access a;
    if (!resolve(w, one, 4, !kStore, kStore, a)) return;
    u32 *r = w.vgpr((kStore ? in.src[1].reg : in.dst.reg) + k);
    each_lane(a.mask, [&](u32 i) {
      if (kStore) std::memcpy(a.p[i], &r[i], 4);
      else std::memcpy(&r[i], a.p[i], 4);
    });
  }
}

// BUFFER_STORE_LDS_DWORD: the wave's words lie densely in LDS from M0 on.
static void store_from_lds(Wave &w, const Inst &in) {
  Access a;
  if (!resolve(w, in, 4, false, true, a)) return;
  u32 base = (w.s[kM0] & 0xffff) + u32(in.imm);
  alignas(64) u32 offset[kLanes] = {};
  each_lane(a.mask, [&](u32 i) {
    offset[i] = base + 4 * i;
    if (offset[i] > w.lds_bytes || 4 > w.lds_bytes - offset[i])
      return raise_fault(w, Fault::lds_out_of_bounds, int(i), offset[i],
                         "load from LDS beyond the work-group's allocation");
    std::memcpy(a.p[i], w.lds + offset[i], 4);
  });
  if (w.stop == Stop::fault) return;
  if (w.probe || w.strict) probe_lds(w, in, offset, a.mask, 4, true, false);
  if (a.staged) finish_store(w, a);
}

void register_vmem_special(OpTable &t) {
  auto add = [&](const char *name, Handler fn, Ty dst, Ty data, Class cls) {
    OpInfo o;
    o.fn = fn;
    o.dst = dst;
    o.src[1] = data;
    o.nsrc = 2;
    o.cls = cls;
    add_op(t, name, o);
  };
  add("global_load_tr_b128", load_transposed<16>, Ty::b128, Ty::none, Class::global_load);
  add("global_load_tr_b64", load_transposed<8>, Ty::b64, Ty::none, Class::global_load);
  add("global_load_block", block<false>, Ty::b1024, Ty::none, Class::global_load);
  add("global_store_block", block<true>, Ty::none, Ty::b1024, Class::global_store);
  add("scratch_load_block", block<false>, Ty::b1024, Ty::none, Class::scratch);
  add("scratch_store_block", block<true>, Ty::none, Ty::b1024, Class::scratch);
  add("buffer_store_lds_dword", store_from_lds, Ty::none, Ty::none, Class::global_store);
  // Lane i's word lies 4 i bytes behind the scalar address.
  for (const char *size : {"dword_addtid", "addtid_b32"})
    for (bool store : {false, true}) {
      char name[64], plain[64];
      const char *verb = store ? "store" : "load";
      __builtin_snprintf(name, sizeof name, "global_%s_%s", verb, size);
      __builtin_snprintf(plain, sizeof plain, "global_%s_b32", verb);
      OpInfo o = *find_op(t, plain);
      o.flags |= F_TID;
      add_op(t, name, o);
    }
}

} // namespace MGX_ISA
} // namespace mgx::emu
