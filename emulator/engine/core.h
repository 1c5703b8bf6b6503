// Internals shared by the decoder, the instruction handlers and the scheduler.
//
// The files that hold handlers are built more than once, for different x86
// instruction sets, each in its own namespace (MGX_ISA). Helpers here are
// therefore `static` and always inlined: a function merged by the linker across
// builds could carry instructions the running machine lacks.
#pragma once

#include "engine.h"

#include <cstring>

namespace mgx::emu {

using u8 = uint8_t;
using u16 = uint16_t;
using u32 = uint32_t;
using u64 = uint64_t;
using i8 = int8_t;
using i16 = int16_t;
using i32 = int32_t;
using i64 = int64_t;
using f32 = float;
using f64 = double;

#define MGX_INLINE static inline __attribute__((always_inline))

struct Wave;
struct Inst;
using Handler = void (*)(Wave &, const Inst &);

// A register holds 64 lanes; a wave32 uses the first 32 of them.
constexpr u32 kLanes = 64;
constexpr u32 kAccBase = 256; // accumulation VGPR 0 in the vector register file
constexpr u32 kTempVgpr = 546; // result of the first half of a dual instruction
// The widest operand may start at the last register. The last ones are the strict mode's.
constexpr u32 kMirrorSources = 548, kMirrorResult = 552, kVgprs = 556;

// Places of the scalar file. Encodings 0-107 (SGPRs, VCC) and 108-123 (ttmp)
// are themselves; the encodings of M0 and NULL differ by generation.
enum : u16 { kVcc = 106, kTtmp = 108, kM0 = 124, kExec = 126, kSink = 128, kScalars = 160 };

// Operand types: how inline constants and float modifiers are read.
enum class Ty : u8 {
  none,
  b32,
  f32,
  b64,
  i64,
  f64,
  b16,
  f16,
  bf16,
  pk_b16,
  pk_f16,
  pk_bf16,
  pk_f32,
  mask,
  b96,
  b128,
  b192,
  b256,
  b512,
  b1024
};

enum OperandKind : u8 { O_NONE, O_VGPR, O_SGPR, O_CONST, O_SCC, O_VCCZ, O_EXECZ, O_LDS };
enum OperandMods : u8 { M_ABS = 1, M_NEG = 2, M_SEXT = 4, M_DPP = 8 };

struct Operand {
  const u32 *k = nullptr; // O_CONST: 64 equal lanes, then 64 lanes of the high half
  u16 reg = 0;
  OperandKind kind = O_NONE;
  u8 words = 0;  // 32-bit registers
  u8 mods = 0;
  u8 sel = 6;    // SDWA select: 0-3 byte, 4-5 half, 6 all; op_sel uses 4 and 5
  Ty ty = Ty::none;
  bool slow = false; // mods or sel need a pass over the lanes
};

enum InstFlags : u32 {
  F_CLAMP = 1,
  F_DPP8 = 2,
  F_DPP16 = 4,
  F_SDWA = 8,
  F_SIMPLE = 16,     // the result goes to whole registers, unmodified
  F_OPSEL_HI = 32,   // 16-bit result into the high half
  F_MERGE16 = 64,    // 16-bit result keeps the other half
  F_FI = 128,        // DPP fetches from inactive lanes
  F_BOUND = 256,     // DPP bound_ctrl: 0 for lanes without source
  F_GLC = 512,       // atomics return the old value
  F_SADDR = 1024,    // memory: scalar base
  F_VADDR = 2048,    // scratch: vector offset
  F_OFFEN = 4096,
  F_IDXEN = 8192,
  F_LDS = 16384,     // memory to LDS
  F_TFE = 32768,
  F_D16HI = 65536,
  F_WRITES_EXEC = 1 << 17,
  F_F32 = 1 << 18,   // arithmetic under the f32 mode bits
  F_F64 = 1 << 19,   // arithmetic under the f64/f16 mode bits
  F_TRANS = 1 << 20,
  F_TID = 1 << 21,   // memory: the lane's number makes the address
  F_GDS = 1 << 22,   // DS: global data share
  F_DEVICE = 1 << 23, // memory: seen by all work-groups of the device, past caches that are not
};

// The kinds of instructions that the profile counts.
enum class Class : u8 {
  salu,
  valu,
  trans,
  mul32,
  matrix,
  smem,
  global_load,
  global_store,
  global_atomic,
  flat,
  scratch,
  lds_read,
  lds_write,
  lds_atomic,
  branch,
  barrier,
  wait,
  other,
  cache, // written back, or dropped
  count
};

struct Inst {
  Handler fn = nullptr;
  Handler rounded = nullptr; // f16 arithmetic under rounding other than nearest even
  const void *aux = nullptr; // Dual, MatrixPair or DppTable
  Operand dst, sdst, src[4];
  u32 flags = 0;
  i32 imm = 0;     // offset of memory instructions, simm16, literal of fmaak
  u32 pc = 0;      // byte offset in the program's code
  u32 target = 0;  // branch: instruction index
  u32 dpp = 0;     // DPP control word, SDWA word or VOP3P modifiers
  u8 size = 0;     // bytes
  u8 omod = 0;
  Class cls = Class::other;
  u8 neg_lo = 0, neg_hi = 0, op_sel = 0, op_sel_hi = 0;
  u8 cbsz = 0, abid = 0, blgp = 0;
  u16 name = 0;    // index in Program::names
};

// A dual instruction. Both halves read before either writes: where the second
// reads what the first writes, the first result goes by way of kTempVgpr.
struct Dual {
  Inst x, y;
  u32 x_dst = 0;
  bool conflict = false;
};

// A DPP control word worked out for wave32 and wave64.
struct DppTable {
  u8 from[2][kLanes];    // source lane
  u64 valid[2];          // lanes that have one
  u64 enabled[2];        // by row_mask and bank_mask
};

struct MatrixOp;
struct MatrixPair { // a WMMA has one opcode for both wave sizes
  const MatrixOp *w32 = nullptr, *w64 = nullptr;
};

// Decoded code of one code object.
struct Program {
  const Chip *chip = nullptr;
  u64 base = 0;               // device address of the first code byte
  u64 bytes = 0;
  std::vector<Inst> code;
  std::vector<u32> index;     // (address - base) / 4 -> instruction, ~0 if none
  std::vector<std::string> names; // mnemonics
  std::map<u64, std::unique_ptr<u32[]>> constants;
  std::vector<std::unique_ptr<Dual>> duals;
  std::vector<std::unique_ptr<MatrixPair>> matrices;
  std::map<u64, std::unique_ptr<DppTable>> dpp;
  bool uses_agprs = false;
  const Inst *at(u64 address) const {
    u64 o = address - base;
    if (o >= bytes || (o & 3)) return nullptr;
    u32 i = index[o / 4];
    return i == ~0u ? nullptr : &code[i];
  }
};

struct KernelDescriptor {
  u32 group_bytes = 0, private_bytes = 0, kernarg_bytes = 0;
  i64 entry_offset = 0;
  u32 rsrc1 = 0, rsrc2 = 0, rsrc3 = 0;
  u16 properties = 0, preload = 0;
};

//===-- Handler table -----------------------------------------------------===//

struct OpInfo {
  Handler fn = nullptr, rounded = nullptr; // as in Inst
  Ty dst = Ty::none;
  Ty src[4] = {Ty::none, Ty::none, Ty::none, Ty::none};
  u8 nsrc = 0;
  u32 flags = 0;     // InstFlags the op always has
  Class cls = Class::valu;
  u8 kind = 0;       // for families with shared handlers (memory width, ...)
  bool sdst = false; // VOP3B carry out or VOPC
  bool reads_dst = false;
  bool reads_vcc = false; // third source is VCC in VOP2 form
};
// Names as LLVM prints them, without encoding suffix.
using OpTable = std::map<std::string, OpInfo, std::less<>>;
const OpTable &op_table(); // for the instruction set of the running machine

//===-- Run-time state ----------------------------------------------------===//

struct Group;
struct Probe;  // profile mode
struct Strict; // strict mode

enum class Stop : u8 { none, end, barrier, yield, fault };

struct CachedRange {
  u64 base = 0, size = 0;
};

struct alignas(64) Wave {
  u32 s[kScalars];
  u32 *v;            // kVgprs registers of 64 lanes
  const Inst *pc;
  u32 lanes;         // 32 or 64
  u64 all;           // one bit for each lane
  u32 scc;
  Stop stop;
  bool special_mode; // the mode differs from the default in a way that arithmetic sees
  u32 mode;          // MODE register
  alignas(64) u32 lane_mask[kLanes]; // EXEC spread over lanes, for mask_of
  u64 mask_of;
  u64 wmask;         // lanes a DPP instruction may write
  u8 *scratch;       // dword-interleaved, as the hardware swizzles it
  u64 scratch_base;  // where the kernel was told that it lies
  u32 scratch_bytes; // of one lane
  u8 *lds;
  u32 lds_bytes;
  Group *group;
  const Memory *memory;
  const Program *program;
  const Chip *chip;
  CachedRange cache[8];
  u64 count;         // executed instructions
  u32 id;            // in the work-group
  bool at_barrier, ended;
  u32 waits_for, wait_phase;   // at_barrier: until that barrier leaves this phase
  u32 seen_phase;              // of the work-group's barrier when the wave signalled
  u32 joined, joined_phase;    // named barrier, 0: none
  bool in_grid_barrier;
  u32 grid_phase;              // that it left waiting
  Probe *probe;
  Strict *strict;
  // Set with stop == fault.
  Fault::Kind fault_kind;
  int fault_lane;
  u64 fault_address;
  const char *fault_text;

  u32 *vgpr(u32 r) { return v + size_t(r) * kLanes; }
};

constexpr u32 kBarriers = 17; // the work-group's own, then 16 named ones
struct Barrier {
  u32 members = 0; // named barriers; the work-group's has all live waves
  u32 signals = 0, phase = 0;
};
// A barrier between the work-groups of a dispatch, for cooperative launches.
struct GridBarrier {
  std::atomic<u32> arrived{0}, phase{0}, ended{0}; // ended: work-groups that will not come
  u32 groups = 0;
  bool cooperative = false;
};
struct Group {
  u32 id[3];
  GridBarrier *grid = nullptr;
  u32 waves_total = 0;
  Barrier barriers[kBarriers];
  u32 epoch = 0;   // barriers passed, of any kind
  u32 live = 0;
  u64 clock_base = 0;
};

MGX_INLINE u64 exec_of(const Wave &w) {
  u64 e;
  std::memcpy(&e, &w.s[kExec], 8);
  return e & w.all;
}
MGX_INLINE u64 s64(const Wave &w, u32 r) { return u64(w.s[r + 1]) << 32 | w.s[r]; }
MGX_INLINE void set_s64(Wave &w, u32 r, u64 x) {
  w.s[r] = u32(x);
  w.s[r + 1] = u32(x >> 32);
}
// Lane masks are one scalar register in wave32, two in wave64.
MGX_INLINE void set_mask(Wave &w, u32 r, u64 x) {
  w.s[r] = u32(x);
  if (w.lanes == 64) w.s[r + 1] = u32(x >> 32);
}
MGX_INLINE u64 get_mask(const Wave &w, u32 r) { return w.lanes == 64 ? s64(w, r) : w.s[r]; }

// Nearest even, denormals kept and overflow to infinity is what plain arithmetic does.
MGX_INLINE bool is_special_mode(u32 mode) { return (mode & 0xff) != 0xf0 || mode >> 23 & 1; }
// The part of it that f16 depends on.
MGX_INLINE bool is_special_half_mode(u32 mode) { return (mode & 0xcc) != 0xc0 || mode >> 23 & 1; }

inline void raise_fault(Wave &w, Fault::Kind kind, int lane, u64 address, const char *text) {
  if (w.stop == Stop::fault) return;
  w.stop = Stop::fault;
  w.fault_kind = kind;
  w.fault_lane = lane;
  w.fault_address = address;
  w.fault_text = text;
}

// The private and shared apertures of flat addresses. The values are those the
// Linux driver programs into SH_MEM_BASES on gfx9 and later.
constexpr u64 kSharedBase = u64(1) << 48, kPrivateBase = u64(2) << 48;
constexpr u64 kApertureSize = u64(1) << 32;

} // namespace mgx::emu
