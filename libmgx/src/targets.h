//===- targets.h - which code a machine runs ------------------------------------------===//
#pragma once

#include <string>
#include <vector>

namespace mgx {

// The identities of the targets whose code the CPU runs, best first: its own, then levels. With
// MGX_CPU the level that it names alone, or an error.
std::vector<std::string> cpu_identities();

// The best level of the CPU, by name; its architecture where it has none.
std::string cpu_level();

// The levels of the CPU by name, best first, with ", " between them.
std::string cpu_levels_text();

// The identities of the targets whose code a GPU runs, best first.
std::vector<std::string> gpu_identities(const std::string &chip);

// Whether a target, by its identity, is a GPU.
bool is_gpu(const std::string &identity);

} // namespace mgx
