// Profile mode: counts and modelled clocks.
#pragma once

#include "run.h"

namespace mgx::emu {

std::unique_ptr<Probe, void (*)(Probe *)> make_probe(const Launch &launch); // null unless profiling
void probe_instruction(Wave &w, const Inst &in);
void finish_probe(Probe *probe, const GroupState &state); // a group has ended
void collect_probe(Probe *probe, Profile &profile); // adds a thread's counts
u32 held_groups(const Launch &launch); // that one compute unit holds at a time
void finish_profile(const Launch &launch, Profile &profile);

} // namespace mgx::emu
