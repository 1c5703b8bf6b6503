// The strict mode's state of a work-group: which values were written, which accesses are under
// way, and which waves touched which memory.
#pragma once

#include "decode_fields.h"
#include "strict.h"

#include <algorithm>
#include <unordered_map>

namespace mgx::emu {

enum Counter : u8 { kNone, kVm, kLds, kSmem, kCounters };

struct Pending {
  u32 sequence = 0;
  Counter counter = kNone;
};

// How an instruction hands on that nobody wrote a value.
enum class Rule : u8 {
  plain,        // a result is defined where all sources are
  low_from_low, // 64 bits whose low half depends on the low halves: compilers leave others unset
  pairs,        // two registers, each from one half of each source
  halves,       // two registers, each from the same half of the source
  two_halves,   // the first register from a half of the first source, the other from the second
  select,       // one of two sources, by a mask
  first,        // bits of the first source move between lanes
  second,       // those of the second source do
  swap,         // lanes change places with the source's
  bitwise,      // each bit of a scalar depends on the same bit of the sources
  write_lane,   // a scalar goes to one lane
};

// Facts of a mnemonic for the strict mode, derived once a dispatch.
struct Facts {
  Rule rule = Rule::plain;
  bool dual = false, exchange = false, asks_scc = false, asks_vcc = false;
  bool reads_scc = false, keeps_scc = false, reads_result = false; // scalar instructions
  explicit Facts(const std::string &mnemonic);
};

// The number of a wave of a dispatch, and how far its accesses are ordered before something: those
// that it made at this clock, and earlier.
using Clocks = std::unordered_map<u64, u32>;

// A wave's accesses to global memory are ordered with those of other waves by the chip's memory
// model: a release makes stores visible to the device and is followed by an atomic, an acquire
// drops what caches hold, after an atomic. Barriers of the work-group order its own waves.
struct Ordering {
  u64 self = 0;
  u32 clock = 1;
  u32 stored = 0;       // the clock before stores that may not be visible yet; 0: there are none
  bool cached = false; // some of those may stay in the cache of one die of the chip
  Clocks known;         // of waves of other work-groups: what lies before this wave's next access
  Clocks visible;       // of waves of its own: what lies before it, and is visible to others
  Clocks seen;          // what atomics told, before the acquire
  std::vector<u64> words; // of the atomics under way
  u32 epoch = 0;        // of the work-group, at the last instruction
};

struct WaveShadow {
  Pending v[kVgprs], s[kScalars];
  u64 defined[kVgprs] = {};   // lanes
  u32 sdefined[kScalars] = {}; // bits
  bool scc_defined = false;
  u32 issued[kCounters] = {}, done[kCounters] = {};
  u32 told_lds = 0; // accesses to LDS that were done when the wave last came to a barrier
  u64 undefined_load = 0;     // lanes whose LDS bytes nobody wrote
  Ordering order;
  u64 exec = 0;               // before the present instruction
  // Of the present instruction: lanes of its result, and of its source, whose moved bits nobody
  // wrote; bits of a scalar result, of EXEC and of SCC.
  bool moved = false;
  u64 moved_result[4] = {}, moved_source = 0;
  u64 moved_bits = 0, moved_exec = 0;
  bool moved_scc = false;
  std::vector<u8> scratch; // bits are ones where nobody wrote
};

struct LdsWord {
  u32 epoch = ~0u;
  i16 writer = -1, reader = -1; // the last ones, and the numbers of these accesses
  u32 written = 0, read = 0;
  bool atomic = false;
  u32 readers = 0; // waves
};

struct GlobalWord {
  u32 group = ~0u, epoch = 0;
  i16 wave = -1;
  u8 kind = 0; // 1 read, 2 write, 4 atomic
  u32 clock = 0;
};

// Belongs to one dispatch; shared by its threads.
struct GlobalShadow {
  static constexpr u32 kShards = 64;
  struct Shard {
    std::mutex mutex;
    std::unordered_map<u64, GlobalWord> reads, writes;
    std::unordered_map<u64, Clocks> told; // by atomics, to others of the same word
  } shards[kShards];
  std::vector<Facts> facts; // by Inst::name
};

// A barrier of a work-group keeps, for one epoch, what the waves that arrived know.
struct Arrived {
  u32 epoch = ~0u;
  Clocks known, visible, seen;
};

struct Strict {
  std::vector<std::unique_ptr<WaveShadow>> waves;
  std::vector<LdsWord> words;
  std::vector<u8> lds; // bits are ones where nobody wrote
  GlobalShadow *global = nullptr;
  Arrived arrived[2];
  u32 group = 0;
  Footprint *footprint = nullptr;
  Footprint::Line *line = nullptr; // last touched
  u64 line_number = ~u64(0);
  u64 own = 0, own_bytes = 0; // the dispatch's arguments: no memory of the program

  void note(u64 address, u64 bytes, Touch how);
};

inline bool is_vmem(Class c) {
  return c == Class::global_load || c == Class::global_store || c == Class::global_atomic ||
         c == Class::flat || c == Class::scratch;
}

// A general scalar register, VCC or M0: their state is tracked.
inline bool tracked(u32 reg) { return reg < kTtmp || reg == kM0; }
inline bool tracked(const Operand &o) { return o.kind == O_SGPR && tracked(o.reg); }

// An operand of a matrix instruction in this wave: decoded are the registers of wave32.
Operand of_wave(const Wave &w, const Inst &in, Operand o, u8 MatrixOp::*registers);
// Which registers of an operand take part: M0 says so for a block of them.
u32 chosen(const Wave &w, const Inst &in, const Operand &o);
// Lanes in which all registers of the operand are defined.
u64 defined(const Wave &w, const WaveShadow &s, const Operand &o, u32 registers = ~0u);
// Private memory by way of a buffer.
bool is_private_buffer(const Wave &w, const Inst &in);
// At most so many accesses of the kind are still on their way.
void complete(WaveShadow &s, Counter c, u32 outstanding);

inline const Facts &facts_of(const Wave &w, const Inst &in) {
  return w.strict->global->facts[in.name];
}
// What only moves bits is executed on bits that say whether somebody wrote them; before the
// instruction itself. False after a fault.
bool mirror(Wave &w, const Inst &in);
// Before each instruction: waits, barriers and caches that order accesses to global memory.
void strict_order(Wave &w, const Inst &in);
// A barrier between all work-groups.
void strict_grid_barrier(Wave &w);
// After an atomic: what it read may be of atomics that came between its look at them and itself.
void strict_told(Wave &w);
// Definedness of the results; after the instruction.
void define_results(Wave &w, const Inst &in);

} // namespace mgx::emu
