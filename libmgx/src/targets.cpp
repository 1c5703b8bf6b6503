//===- targets.cpp - which code a machine runs ----------------------------------------===//
//
// The part of mgx_mlir/artifact/target.py and mgx_mlir/machine/host.py that a runtime needs; tests
// compare the tables.
//
//===------------------------------------------------------------------------------===//
#include "targets.h"
#include "error.h"
#include "mapping.h"
#include "settings.h"

#include <algorithm>
#include <set>

#include <sys/utsname.h>

namespace mgx {

namespace {

using Flags = std::set<std::string>;

struct Level {
  const char *name;
  const char *cpu_features; // LLVM's, beyond the name; "" for none.
  const char *machine;
  const char *needs; // Linux's flags, beyond those of the level before it in `after`.
  const char *after;
};

constexpr Level levels[] = {
    {"x86-64-v2", "", "x86_64", "cx16 lahf_lm popcnt pni sse4_1 sse4_2 ssse3", ""},
    {"x86-64-v3", "", "x86_64", "abm avx avx2 bmi1 bmi2 f16c fma movbe", "x86-64-v2"},
    {"x86-64-v4", "", "x86_64", "avx512bw avx512cd avx512dq avx512f avx512vl", "x86-64-v3"},
    {"x86-64-v4-vnni", "x86-64-v4+avx512vnni", "x86_64", "avx512_vnni", "x86-64-v4"},
    {"x86-64-v4-amx", "x86-64-v4+avx512vnni+avx512bf16+amx-tile+amx-int8+amx-bf16", "x86_64",
     "avx512_vnni avx512_bf16 amx_tile amx_int8 amx_bf16", "x86-64-v4"},
    {"aarch64", "generic", "aarch64", "asimd", ""},
    {"aarch64-sve", "generic+sve", "aarch64", "asimd sve", ""},
};

// Linux's flags of the features that code can use, by LLVM's names where they differ.
constexpr const char *same_names =
    "adx aes avx avx2 avx512bw avx512cd avx512dq avx512f avx512ifma avx512vbmi avx512vl bmi2 cmov "
    "cx16 f16c fma gfni movbe popcnt sse4a ssse3 vaes vpclmulqdq xop";
constexpr std::pair<const char *, const char *> x86_names[] = {
    {"abm", "lzcnt"},
    {"amx_bf16", "amx-bf16"},
    {"amx_int8", "amx-int8"},
    {"amx_tile", "amx-tile"},
    {"avx512_bf16", "avx512bf16"},
    {"avx512_bitalg", "avx512bitalg"},
    {"avx512_fp16", "avx512fp16"},
    {"avx512_vbmi2", "avx512vbmi2"},
    {"avx512_vnni", "avx512vnni"},
    {"avx512_vpopcntdq", "avx512vpopcntdq"},
    {"avx_vnni", "avxvnni"},
    {"bmi1", "bmi"},
    {"lahf_lm", "sahf"},
    {"pclmulqdq", "pclmul"},
    {"pni", "sse3"},
    {"sha_ni", "sha"},
    {"sse4_1", "sse4.1"},
    {"sse4_2", "sse4.2"},
};
constexpr std::pair<const char *, const char *> aarch64_names[] = {
    {"asimd", "neon"},     {"asimddp", "dotprod"}, {"asimdfhm", "fp16fml"}, {"asimdhp", "fullfp16"},
    {"asimdrdm", "rdm"},   {"atomics", "lse"},     {"bf16", "bf16"},        {"crc32", "crc"},
    {"fcma", "complxnum"}, {"fp", "fp-armv8"},     {"i8mm", "i8mm"},        {"sve", "sve"},
    {"sve2", "sve2"},
};

struct Chip {
  const char *name, *generic;
};
constexpr Chip chips[] = {
    {"gfx1030", "gfx10-3-generic"}, {"gfx1100", "gfx11-generic"}, {"gfx1101", "gfx11-generic"},
    {"gfx1102", "gfx11-generic"},   {"gfx1103", "gfx11-generic"}, {"gfx1150", "gfx11-generic"},
    {"gfx1151", "gfx11-generic"},   {"gfx1152", "gfx11-generic"}, {"gfx1153", "gfx11-generic"},
    {"gfx1200", "gfx12-generic"},   {"gfx1201", "gfx12-generic"}, {"gfx942", "gfx9-4-generic"},
    {"gfx950", "gfx9-4-generic"},
};

Flags words(std::string_view text) {
  Flags found;
  constexpr std::string_view spaces = " \t";
  for (size_t first = 0; (first = text.find_first_not_of(spaces, first)) != text.npos;) {
    size_t end = std::min(text.find_first_of(spaces, first), text.size());
    found.emplace(text.substr(first, end - first));
    first = end;
  }
  return found;
}

// The architecture and features of this machine's processor, as Linux names them.
Flags machine_flags() {
  Flags found;
  int error;
  std::string text = read_file("/proc/cpuinfo", size_t(1) << 20, error);
  for (size_t first = 0; first < text.size();) {
    size_t end = std::min(text.find('\n', first), text.size());
    auto line = std::string_view(text).substr(first, end - first);
    first = end + 1;
    size_t colon = line.find(':');
    if (colon != line.npos && (line.starts_with("flags") || line.starts_with("Features"))) {
      found = words(line.substr(colon + 1));
      break;
    }
  }
  utsname names;
  found.insert(uname(&names) == 0 ? names.machine : "");
  return found;
}

const Level *level_of(const std::string &name) {
  for (const Level &level : levels)
    if (level.name == name)
      return &level;
  return nullptr;
}

// What a level needs and a machine lacks, with ", " between them.
std::string missing(const Level &level, const Flags &flags) {
  if (!flags.contains(level.machine))
    return cat("the architecture ", level.machine);
  Flags needed;
  for (const Level *one = &level; one; one = level_of(one->after))
    needed.merge(words(one->needs));
  std::string text;
  for (const std::string &flag : needed)
    if (!flags.contains(flag))
      text += cat(text.empty() ? "" : ", ", flag);
  return text;
}

std::vector<const Level *> runnable(const Flags &flags) {
  std::vector<const Level *> found;
  for (size_t i = std::size(levels); i-- > 0;)
    if (missing(levels[i], flags).empty())
      found.push_back(&levels[i]);
  return found;
}

std::string identity(const Level &level) {
  return *level.cpu_features ? cat(level.name, ":", level.cpu_features) : level.name;
}

// The identity of code that is made for this machine alone.
std::string own_identity(const Flags &flags) {
  bool arm = flags.contains("aarch64");
  Flags features;
  auto add = [&](const char *flag, const char *name) {
    if (flags.contains(flag))
      features.insert(name);
  };
  if (arm) {
    for (auto [flag, name] : aarch64_names)
      add(flag, name);
  } else {
    for (const std::string &name : words(same_names))
      add(name.c_str(), name.c_str());
    for (auto [flag, name] : x86_names)
      add(flag, name);
  }
  std::string processor = arm ? "generic" : "x86-64";
  if (!arm)
    for (const Level *level : runnable(flags))
      if (!*level->cpu_features) {
        processor = level->name;
        break;
      }
  std::string text = cat(arm ? "aarch64:" : "x86-64:", processor);
  for (const std::string &feature : features)
    text += cat("+", feature);
  return text;
}

} // namespace

std::vector<std::string> cpu_identities() {
  Flags flags = machine_flags();
  std::string wanted = variable("MGX_CPU");
  if (!wanted.empty()) {
    const Level *level = level_of(wanted);
    if (!level)
      fail(MGX_ERROR_USAGE, "MGX_CPU is '", wanted, "', which is no level of CPUs");
    if (std::string lacks = missing(*level, flags); !lacks.empty())
      fail(MGX_ERROR_TARGET, "this machine cannot run code for ", wanted, ": its processor lacks ",
           lacks);
    return {identity(*level)};
  }
  if (!flags.contains("x86_64") && !flags.contains("aarch64"))
    fail(MGX_ERROR_TARGET, "the cpu target needs x86-64 or aarch64; this machine is neither");
  std::vector<std::string> found{own_identity(flags)};
  for (const Level *level : runnable(flags))
    found.push_back(identity(*level));
  return found;
}

std::string cpu_level() {
  Flags flags = machine_flags();
  auto found = runnable(flags);
  return found.empty() ? (flags.contains("aarch64") ? "aarch64" : "x86-64") : found[0]->name;
}

std::string cpu_levels_text() {
  std::string text;
  for (const Level *level : runnable(machine_flags()))
    text += cat(text.empty() ? "" : ", ", level->name);
  return text.empty() ? "no level" : text;
}

std::vector<std::string> gpu_identities(const std::string &chip) {
  std::vector<std::string> found{chip};
  for (const Chip &one : chips)
    if (one.name == chip)
      found.push_back(one.generic);
  return found;
}

bool is_gpu(const std::string &identity) { return identity.starts_with("gfx"); }

} // namespace mgx
