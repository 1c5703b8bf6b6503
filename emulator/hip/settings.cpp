#include "settings.h"

#include <cctype>
#include <cerrno>
#include <cstdio>
#include <cstdlib>

namespace mgx::hip {
namespace {

std::string text(const char* name, const char* fallback) {
  const char* value = std::getenv(name);
  return value ? value : fallback;
}

bool flag(const char* name) {
  std::string value = text(name, "0");
  return !value.empty() && value != "0" && value != "off" && value != "false";
}

// 0 where the variable is not set, or no number of at most `most`.
uint64_t number(const char* name, uint64_t most) {
  const std::string value = text(name, "");
  if (value.empty()) return 0;
  char* end = nullptr;
  errno = 0;
  const uint64_t found = std::strtoull(value.c_str(), &end, 0);
  if (std::isdigit(static_cast<unsigned char>(value[0])) && !*end && !errno && found <= most)
    return found;
  std::fprintf(stderr,
               "mgx emulator: %s is '%s'; it takes a whole number of at most %llu; "
               "the default is taken\n",
               name, value.c_str(), static_cast<unsigned long long>(most));
  return 0;
}

emu::Order order() {
  const std::string name = text("MGX_EMULATOR_ORDER", "forward"), random = "random:";
  if (name.empty() || name == "forward") return {};
  if (name == "reversed") return {emu::Order::reversed, 0};
  if (name == "random") return {emu::Order::random, 0};
  char* end = nullptr;
  if (name.compare(0, random.size(), random) == 0 && name.size() > random.size()) {
    const uint64_t seed = std::strtoull(name.c_str() + random.size(), &end, 0);
    if (!*end) return {emu::Order::random, seed};
  }
  std::fprintf(stderr,
               "mgx emulator: MGX_EMULATOR_ORDER is '%s'; use forward, reversed, random or "
               "random:SEED; forward is taken\n",
               name.c_str());
  return {};
}

Settings read() {
  Settings s;
  s.devices = text("MGX_EMULATED_DEVICES", "gfx942");
  s.async = flag("MGX_EMULATOR_ASYNC");
  s.strict = flag("MGX_EMULATOR_STRICT");
  s.profile = flag("MGX_EMULATOR_PROFILE");
  s.sample = text("MGX_EMULATOR_PROFILE", "") == "sample";
  s.order = order();
  s.threads = unsigned(number("MGX_EMULATOR_THREADS", 1024));
  s.budget = number("MGX_EMULATOR_BUDGET", UINT64_MAX);
  s.fail = text("MGX_EMULATOR_FAIL", "");
  return s;
}

}  // namespace

const Settings& settings() {
  static const Settings* values = new Settings(read());
  return *values;
}

}  // namespace mgx::hip
