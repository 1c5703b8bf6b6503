// Strict mode: which values somebody wrote. A result of a value that nobody wrote is one itself,
// whatever the other operands are.
#include "matrix_defined.h"
#include "strict_state.h"
#include "table.h"

namespace mgx::emu {

namespace {

bool starts(const std::string &name, std::initializer_list<const char *> prefixes) {
  return std::any_of(prefixes.begin(), prefixes.end(), [&](const char *prefix) {
    return name.compare(0, std::strlen(prefix), prefix) == 0;
  });
}

// Counters of vector memory have 6 bits.
constexpr u32 kMostInFlight = 63;

} // namespace

static Rule rule_of(const std::string &name) {
  auto any = [&](std::initializer_list<const char *> prefixes) { return starts(name, prefixes); };
  if (any({"v_mad_u64", "v_mad_i64", "v_mad_co", "v_lshl_add_u64", "v_lshlrev_b64"}))
    return Rule::low_from_low;
  if (any({"v_pk_mov_b32"})) return Rule::two_halves;
  if (any({"v_pk_"})) return Rule::pairs;
  if (any({"v_mov_b64"})) return Rule::halves;
  if (any({"v_cndmask_b32"})) return Rule::select;
  if (any({"v_swap_b32", "v_permlane16_swap", "v_permlane32_swap"})) return Rule::swap;
  if (any({"v_permlane", "v_readlane", "v_readfirstlane", "ds_swizzle"})) return Rule::first;
  if (any({"ds_bpermute", "ds_permute"})) return Rule::second;
  if (any({"v_writelane"})) return Rule::write_lane;
  if (any({"s_and", "s_or", "s_xor", "s_nand", "s_nor", "s_xnor", "s_not", "s_mov_b", "s_cselect",
           "s_cmov_"}))
    return Rule::bitwise;
  return Rule::plain;
}

Facts::Facts(const std::string &name) : rule(rule_of(name)) {
  dual = starts(name, {"v_dual_"});
  exchange = name.find("xchg") != std::string::npos;
  asks_scc = starts(name, {"s_cbranch_scc"});
  asks_vcc = starts(name, {"s_cbranch_vcc"});
  reads_scc = starts(name, {"s_addc", "s_subb", "s_cselect", "s_cmov"}) ||
              name.find("_co_ci_") != std::string::npos;
  keeps_scc = starts(name, {"s_mov", "s_cselect", "s_cmov", "s_mul", "s_bfm", "s_pack", "s_sext",
                            "s_brev", "s_ff", "s_flbit", "s_ctz", "s_clz", "s_cls", "s_bitset",
                            "s_get", "s_set", "s_swap"});
  reads_result = starts(name, {"s_addk", "s_mulk", "s_cmpk", "s_cmovk", "s_bitset"});
}

Operand of_wave(const Wave &w, const Inst &in, Operand o, u8 MatrixOp::*registers) {
  auto *pair = static_cast<const MatrixPair *>(in.aux);
  if (o.kind == O_VGPR && w.lanes == 64 && pair->w32 && pair->w64 &&
      o.words == pair->w32->*registers)
    o.words = pair->w64->*registers;
  return o;
}

u32 chosen(const Wave &w, const Inst &in, const Operand &o) {
  return o.words == 32 && is_vmem(in.cls) ? w.s[kM0] : ~0u;
}

u64 defined(const Wave &w, const WaveShadow &s, const Operand &o, u32 registers) {
  u64 m = ~u64(0);
  if (o.kind == O_VGPR)
    for (u32 k = 0; k < o.words; ++k)
      if (registers >> k & 1) m &= s.defined[o.reg + k];
  if (!tracked(o)) return m;
  if (o.ty == Ty::mask)
    return w.lanes == 64 ? u64(s.sdefined[o.reg + 1]) << 32 | s.sdefined[o.reg]
                         : u64(s.sdefined[o.reg]) | ~w.all;
  for (u32 k = 0; k < o.words; ++k)
    if (~s.sdefined[o.reg + k]) return 0;
  return m;
}

bool is_private_buffer(const Wave &w, const Inst &in) {
  return in.cbsz == S_BUFFER && in.src[2].kind == O_SGPR && w.s[in.src[2].reg + 3] >> 23 & 1;
}

//===-- Before the instruction: what moves bits ---------------------------===//

namespace {

void put_undefined(Wave &w, u32 reg, u64 lanes) {
  for (u32 i = 0; i < kLanes; ++i) w.vgpr(reg)[i] = lanes >> i & 1 ? ~0u : 0;
}
u64 get_undefined(Wave &w, u32 reg) {
  u64 lanes = 0;
  for (u32 i = 0; i < w.lanes; ++i) lanes |= u64(w.vgpr(reg)[i] != 0) << i;
  return lanes;
}

// Executes the handler on registers of its own, on the mirrors of LDS and scratch, unwatched.
void run_mirrored(Wave &w, WaveShadow &s, Inst &in) {
  Wave kept = w;
  w.lds = w.strict->lds.data();
  w.scratch = s.scratch.data();
  w.strict = nullptr;
  w.probe = nullptr;
  in.fn(w, in);
  s.moved_bits = w.s[kSink];
  w.s[kSink] = kept.s[kSink];
  w.lds = kept.lds;
  w.scratch = kept.scratch;
  w.strict = kept.strict;
  w.probe = kept.probe;
}

// `sources`: those that move, a bit for each. `old`: the result keeps what is not written.
void mirror_lanes(Wave &w, WaveShadow &s, Inst in, u32 sources, bool old) {
  u32 next = kMirrorSources;
  for (u32 i = 0; i < 3; ++i) {
    Operand &o = in.src[i];
    if (!(sources >> i & 1) || o.kind != O_VGPR || !o.words) continue;
    for (u32 k = 0; k < o.words; ++k) put_undefined(w, next + k, ~s.defined[o.reg + k]);
    o.reg = u16(next);
    next += o.words;
  }
  u32 words = in.dst.kind == O_VGPR ? in.dst.words : 0;
  for (u32 k = 0; k < words; ++k)
    put_undefined(w, kMirrorResult + k, old ? ~s.defined[in.dst.reg + k] : 0);
  in.dst.reg = words ? u16(kMirrorResult) : u16(kSink);
  w.s[kSink] = 0;
  run_mirrored(w, s, in);
  for (u32 k = 0; k < words; ++k) s.moved_result[k] = get_undefined(w, kMirrorResult + k);
  s.moved_source = get_undefined(w, kMirrorSources);
  s.moved = true;
}

// The first source of a DPP instruction, by a move of it alone: to moved_source.
void mirror_dpp(Wave &w, WaveShadow &s, const Inst &in) {
  static const Handler move = op_table().at("v_mov_b32").fn;
  u64 undefined = 0;
  for (u32 k = 0; k < in.src[0].words; ++k) {
    Inst one;
    one.fn = move;
    one.aux = in.aux;
    one.flags = in.flags & (F_DPP8 | F_DPP16 | F_FI | F_BOUND);
    one.src[0] = in.src[0];
    one.src[0].reg += k;
    one.src[0].words = 1;
    one.src[0].mods = M_DPP;
    one.src[0].sel = 6;
    one.dst.kind = O_VGPR;
    one.dst.words = 1;
    mirror_lanes(w, s, one, 1, false);
    undefined |= s.moved_result[0];
  }
  s.moved_source = undefined;
}

// Scalar operations whose bits do not mix: executed with zeros and with ones in place of the bits
// that nobody wrote. What comes out different is undefined.
void mirror_bits(Wave &w, WaveShadow &s, const Inst &in) {
  bool complete = s.scc_defined || !facts_of(w, in).reads_scc;
  for (const Operand &o : in.src) complete &= !tracked(o) || defined(w, s, o) == ~u64(0);
  if (complete) return;
  const Wave kept = w;
  u64 first = 0, first_exec = 0, bits = 0, exec = 0;
  u32 first_scc = 0;
  bool scc = false;
  for (u32 choice = 0; choice < 8; ++choice) {
    for (u32 i = 0; i < 2; ++i) {
      const Operand &o = in.src[i];
      for (u32 k = 0; tracked(o) && k < o.words; ++k) {
        u32 known = s.sdefined[o.reg + k];
        w.s[o.reg + k] = (kept.s[o.reg + k] & known) | (choice >> i & 1 ? ~known : 0);
      }
    }
    if (!s.scc_defined) w.scc = choice >> 2;
    in.fn(w, in);
    u64 result = in.dst.words == 2 ? s64(w, in.dst.reg) : w.s[in.dst.reg];
    if (!choice) first = result, first_exec = exec_of(w), first_scc = w.scc;
    bits |= result ^ first;
    exec |= exec_of(w) ^ first_exec;
    scc |= w.scc != first_scc;
    std::memcpy(static_cast<void *>(&w), &kept, sizeof w);
  }
  s.moved = true;
  s.moved_bits = bits;
  s.moved_scc = scc;
  s.moved_exec = exec;
}

} // namespace

bool mirror(Wave &w, const Inst &in) {
  WaveShadow &s = *w.strict->waves[w.id];
  Rule rule = facts_of(w, in).rule;
  bool lds = in.cls == Class::lds_read || in.cls == Class::lds_write;
  bool scratch = in.cls == Class::scratch || (is_vmem(in.cls) && is_private_buffer(w, in));
  switch (rule) {
  case Rule::first: mirror_lanes(w, s, in, 1, true); break;
  case Rule::second: mirror_lanes(w, s, in, 2, true); break;
  case Rule::swap: mirror_lanes(w, s, in, 1, true); break;
  case Rule::bitwise: mirror_bits(w, s, in); break;
  default:
    if (lds) mirror_lanes(w, s, in, 6, false);
    else if (scratch && !(in.flags & F_LDS)) mirror_lanes(w, s, in, 2, false);
    else if (in.src[0].mods & M_DPP) mirror_dpp(w, s, in);
  }
  if (s.moved && rule == Rule::bitwise && s.moved_exec) {
    raise_fault(w, Fault::uninitialized, __builtin_ctzll(s.moved_exec), 0,
                "EXEC is made from a value nobody wrote");
    return false;
  }
  return w.stop != Stop::fault;
}

//===-- After the instruction ---------------------------------------------===//

namespace {

void set_defined(WaveShadow &s, const Operand &dst, u64 exec, u64 value, u32 registers = ~0u) {
  for (u32 k = 0; k < dst.words; ++k)
    if (registers >> k & 1)
      s.defined[dst.reg + k] = (s.defined[dst.reg + k] & ~exec) | (value & exec);
}

void loaded(WaveShadow &s, const Operand &dst, Counter c, u32 registers = ~0u) {
  for (u32 k = 0; k < dst.words; ++k)
    if (registers >> k & 1) (dst.kind == O_VGPR ? s.v : s.s)[dst.reg + k] = {s.issued[c], c};
}

// Moved bits arrive in the lanes of `exec`.
void arrive(WaveShadow &s, const Operand &dst, u64 exec) {
  for (u32 k = 0; k < dst.words; ++k) {
    Operand one = dst;
    one.reg += k;
    one.words = 1;
    set_defined(s, one, exec, ~s.moved_result[k]);
  }
}

void set_scalar(WaveShadow &s, u32 reg, u32 words, u64 known) {
  for (u32 k = 0; k < words; ++k)
    if (tracked(reg + k)) s.sdefined[reg + k] = u32(known >> 32 * k);
}

u64 sources(const Wave &w, const WaveShadow &s, const Inst &in) {
  u64 m = ~u64(0);
  for (const Operand &o : in.src) m &= o.mods & M_DPP ? ~s.moved_source : defined(w, s, o);
  return m;
}

void after_memory(Wave &w, WaveShadow &s, const Inst &in) {
  strict_told(w);
  bool returns = in.dst.kind == O_VGPR && !(in.flags & F_LDS);
  // From gfx10 on stores and atomics without result have a counter of their own.
  if (w.chip->is_gfx9() || returns || in.flags & F_LDS) ++s.issued[kVm];
  // An instruction waits where the counter is at its most: LLVM counts on it, too.
  complete(s, kVm, kMostInFlight);
  if (in.cls == Class::flat) ++s.issued[kLds];
  if (!returns) return;
  u64 exec = exec_of(w);
  if (s.moved) arrive(s, in.dst, exec);
  else set_defined(s, in.dst, exec, exec & ~s.undefined_load, chosen(w, in, in.dst));
  loaded(s, in.dst, kVm, chosen(w, in, in.dst));
}

void after_lds(Wave &w, WaveShadow &s, const Inst &in) {
  ++s.issued[kLds];
  if (in.dst.kind != O_VGPR) return;
  u64 exec = exec_of(w);
  if (s.moved) arrive(s, in.dst, exec);
  else set_defined(s, in.dst, exec, exec & ~s.undefined_load);
  loaded(s, in.dst, kLds);
}

void after_scalar(Wave &w, WaveShadow &s, const Inst &in) {
  const Facts &facts = facts_of(w, in);
  bool known = true;
  if (facts.rule != Rule::bitwise)
    known = sources(w, s, in) && (!facts.reads_scc || s.scc_defined) &&
            (!facts.reads_result || defined(w, s, in.dst));
  u64 bits = s.moved ? ~s.moved_bits : known ? ~u64(0) : 0;
  if (!facts.keeps_scc) s.scc_defined = s.moved ? !s.moved_scc : known;
  if (in.dst.kind == O_SGPR) set_scalar(s, in.dst.reg, in.dst.words, bits);
}

void after_matrix(Wave &w, WaveShadow &s, const Inst &in) {
  auto *pair = static_cast<const MatrixPair *>(in.aux);
  const MatrixOp &op = *(w.lanes == 64 ? pair->w64 : pair->w32);
  auto registers = [&](const Operand &o) { return o.kind == O_VGPR ? s.defined + o.reg : nullptr; };
  MatrixDefined known;
  known.a = registers(in.src[0]);
  known.b = registers(in.src[1]);
  bool sparse = op.kind == MatrixKind::kSmfmac || op.kind == MatrixKind::kSwmmac;
  known.c = registers(sparse ? in.dst : in.src[2]);
  if (sparse) known.index = s.defined[in.src[2].reg];
  if (op.scaled) {
    known.scale_a = defined(w, s, in.src[3]);
    known.scale_b = defined(w, s, in.sdst);
  }
  if (!known.c && !defined(w, s, in.src[2])) known.all_of_c = false;
  MatrixOperands modifiers;
  modifiers.cbsz = in.cbsz;
  modifiers.abid = in.abid;
  modifiers.blgp = in.blgp;
  modifiers.op_sel = in.op_sel;
  u64 d[kMaxMatrixRegisters];
  define_matrix(op, modifiers, known, d);
  std::copy_n(d, op.acc_registers, s.defined + in.dst.reg);
}

// The sources of one half of a result of two registers.
u64 half_sources(const Wave &w, const WaveShadow &s, const Inst &in, bool high) {
  Rule rule = facts_of(w, in).rule;
  u64 m = ~u64(0);
  for (u32 i = 0; i < 4; ++i) {
    Operand o = in.src[i];
    if (rule == Rule::two_halves && i != high) continue;
    u32 from = (high && rule == Rule::pairs ? in.op_sel_hi : in.op_sel) >> i & 1;
    if (rule == Rule::halves) from = high;
    if (o.words == 2) {
      o.words = 1;
      o.reg += from;
    }
    m &= o.mods & M_DPP ? ~s.moved_source : defined(w, s, o);
  }
  return m;
}

// Lanes of a select that are defined: those of the source that is taken.
u64 selected(const Wave &w, const WaveShadow &s, const Inst &in) {
  u64 mask = in.src[2].kind == O_SGPR ? get_mask(w, in.src[2].reg) : 0;
  if (in.src[2].kind != O_SGPR) return sources(w, s, in);
  u64 no = in.src[0].mods & M_DPP ? ~s.moved_source : defined(w, s, in.src[0]);
  return defined(w, s, in.src[2]) & ((mask & defined(w, s, in.src[1])) | (~mask & no));
}

// Results of lanes in scalars: masks, and what v_readlane reads.
void after_lanes_to_scalar(Wave &w, WaveShadow &s, const Inst &in, u64 exec, u64 known) {
  if (facts_of(w, in).rule == Rule::first) {
    set_scalar(s, in.dst.reg, in.dst.words, s.moved_bits ? 0 : ~u64(0));
    return;
  }
  known |= ~exec;
  for (const Operand *o : {&in.dst, &in.sdst})
    if (o->kind == O_SGPR) set_scalar(s, o->reg, w.lanes / 32, known);
  if (in.flags & F_WRITES_EXEC && ~known & w.all)
    raise_fault(w, Fault::uninitialized, __builtin_ctzll(~known & w.all), 0,
                "EXEC is made from a value nobody wrote");
}

void after_dual(Wave &w, WaveShadow &s, const Inst &in, u64 exec) {
  auto *d = static_cast<const Dual *>(in.aux);
  auto known = [&](const Inst &half) {
    bool select = half.src[2].kind == O_SGPR && half.src[2].ty == Ty::mask;
    return select ? selected(w, s, half) : sources(w, s, half);
  };
  u64 x = known(d->x), y = known(d->y);
  Operand first = d->x.dst;
  first.reg = u16(d->x_dst);
  set_defined(s, first, exec, x);
  set_defined(s, d->y.dst, exec, y);
}

void after_lanes(Wave &w, WaveShadow &s, const Inst &in, u64 exec) {
  if (facts_of(w, in).dual) return after_dual(w, s, in, exec);
  if (in.dst.kind != O_VGPR) return;
  Operand low = in.dst, high = in.dst;
  if (in.dst.words == 2) low.words = high.words = 1, ++high.reg;
  switch (facts_of(w, in).rule) {
  case Rule::first:
    arrive(s, in.dst, exec);
    set_defined(s, in.dst, exec & ~(defined(w, s, in.src[1]) & defined(w, s, in.src[2])), 0);
    return;
  case Rule::swap:
    arrive(s, in.dst, ~u64(0));
    set_defined(s, in.src[0], ~u64(0), ~s.moved_source);
    return;
  case Rule::select: set_defined(s, in.dst, exec, selected(w, s, in)); return;
  case Rule::write_lane: {
    u64 value = defined(w, s, in.src[0]) ? ~u64(0) : 0;
    const Operand &o = in.src[1];
    u32 lane = (o.kind == O_CONST ? o.k[0] : w.s[o.reg]) & (w.lanes - 1);
    set_defined(s, in.dst, u64(1) << lane, value);
    return;
  }
  case Rule::pairs:
  case Rule::halves:
  case Rule::two_halves: {
    if (in.dst.words != 2) break;
    u64 x = half_sources(w, s, in, false), y = half_sources(w, s, in, true);
    set_defined(s, low, exec, x);
    set_defined(s, high, exec, y);
    return;
  }
  case Rule::low_from_low: {
    if (in.dst.words != 2) break;
    u64 known = ~u64(0), all = sources(w, s, in);
    for (Operand o : in.src) {
      if (o.words == 2) o.words = 1;
      known &= defined(w, s, o);
    }
    set_defined(s, low, exec, known);
    set_defined(s, high, exec, all);
    return;
  }
  default: break;
  }
  set_defined(s, in.dst, exec, sources(w, s, in));
}

void after_vector(Wave &w, WaveShadow &s, const Inst &in) {
  u64 exec = s.exec; // v_cmpx changes it
  if (in.flags & (F_DPP8 | F_DPP16)) exec &= w.wmask;
  // Both results are of the operands as they were: each may take the place of one.
  bool to_scalar = in.dst.kind == O_SGPR || in.sdst.kind == O_SGPR;
  u64 known = to_scalar ? sources(w, s, in) : 0;
  after_lanes(w, s, in, exec);
  if (to_scalar) after_lanes_to_scalar(w, s, in, exec, known);
}

} // namespace

void define_results(Wave &w, const Inst &in) {
  WaveShadow &s = *w.strict->waves[w.id];
  bool separate = w.chip->is_gfx12(); // LDS and scalar loads have counters of their own
  switch (in.cls) {
  case Class::smem:
    ++s.issued[kSmem];
    if (!separate) ++s.issued[kLds];
    if (in.dst.kind != O_SGPR) return;
    set_scalar(s, in.dst.reg, in.dst.words, ~u64(0));
    loaded(s, in.dst, kSmem);
    return;
  case Class::global_load:
  case Class::global_atomic:
  case Class::flat:
  case Class::scratch:
  case Class::global_store: return after_memory(w, s, in);
  case Class::lds_read:
  case Class::lds_write:
  case Class::lds_atomic: return after_lds(w, s, in);
  case Class::barrier: // one between work-groups orders all waves of this one
    if (in.src[0].kind == O_VGPR) strict_grid_barrier(w);
    return;
  case Class::matrix: return after_matrix(w, s, in); // ignores EXEC
  case Class::salu: return after_scalar(w, s, in);
  case Class::valu:
  case Class::trans:
  case Class::mul32: return after_vector(w, s, in);
  default: return;
  }
}

} // namespace mgx::emu
