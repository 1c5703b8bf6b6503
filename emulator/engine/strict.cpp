#include "strict.h"

#include "hooks.h"

namespace mgx::emu {

struct Strict {};

void strict_start(const Launch &, GroupState &) {}
bool strict_before(Wave &, const Inst &) { return true; }
void strict_after(Wave &, const Inst &) {}
bool strict_group_check(Wave &, GroupState &) { return true; }
std::optional<Fault> strict_finish(const Launch &, GroupState &) { return std::nullopt; }

} // namespace mgx::emu
