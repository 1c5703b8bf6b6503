#include "settings.h"

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

uint64_t number(const char* name) { return std::strtoull(text(name, "0").c_str(), nullptr, 0); }

Settings read() {
  Settings s;
  s.devices = text("MGX_EMULATED_DEVICES", "gfx942");
  s.async = flag("MGX_EMULATOR_ASYNC");
  s.strict = flag("MGX_EMULATOR_STRICT");
  s.profile = flag("MGX_EMULATOR_PROFILE");
  s.sample = text("MGX_EMULATOR_PROFILE", "") == "sample";
  s.threads = unsigned(number("MGX_EMULATOR_THREADS"));
  s.budget = number("MGX_EMULATOR_BUDGET");
  s.fail = text("MGX_EMULATOR_FAIL", "");
  return s;
}

}  // namespace

const Settings& settings() {
  static const Settings* values = new Settings(read());
  return *values;
}

}  // namespace mgx::hip
