// Addresses of a vector memory instruction, resolved to host pointers.
#pragma once

#include "decode_fields.h"
#include "hooks.h"
#include "valu.h"

namespace mgx::emu {
inline namespace MGX_ISA {

struct Access {
  u8 *p[kLanes];      // every lane has a readable pointer; inactive ones to zeros
  u64 mask = 0;       // active lanes
  u64 staged = 0;     // lanes whose bytes are not contiguous: p[i] is in `stage`
  bool load = false, store = false;
  u32 bytes = 0;
  u8 *home[kLanes];   // staged: first byte in memory (partial), or null (private)
  u32 valid[kLanes];  // staged: bytes in range (partial), or private offset
  alignas(16) u8 stage[kLanes][16];
};

// False if the access faulted. Buffer lanes out of range read zeros and their
// stores go nowhere. `bytes` is the size of one lane's access.
bool resolve(Wave &w, const Inst &in, u32 bytes, bool load, bool store, Access &a);
// Writes staged lanes back after a store or an atomic.
void finish_store(Wave &w, Access &a);

template <class F> MGX_INLINE void each_lane(u64 mask, F f) {
  while (mask) {
    u32 i = u32(__builtin_ctzll(mask));
    mask &= mask - 1;
    f(i);
  }
}

} // namespace MGX_ISA
} // namespace mgx::emu
