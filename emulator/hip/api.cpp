#include "api.h"

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <mutex>
#include <new>
#include <string>
#include <vector>

#include "capture.h"
#include "runtime.h"
#include "settings.h"

namespace mgx::hip {
namespace {

thread_local hipError_t last_error = hipSuccess;
thread_local hipError_t last_result = hipSuccess;

struct Rule {
  std::string name;
  uint64_t call = 0;
  hipError_t code = hipSuccess;  // success: chosen by the function's kind
};

struct Injection {
  std::mutex mutex;
  std::vector<Rule> rules;
  std::map<std::string, uint64_t, std::less<>> calls;
  std::atomic<uint64_t> total{0};
  std::atomic<bool> armed{false};  // rules present: count by name as well
};

bool parse_rules(const std::string& spec, std::vector<Rule>& rules) {
  size_t at = 0;
  while (at < spec.size()) {
    size_t comma = std::min(spec.find(',', at), spec.size());
    std::string part = spec.substr(at, comma - at);
    at = comma + 1;
    if (part.empty()) continue;
    size_t colon = part.find(':');
    if (colon == std::string::npos || colon == 0) return false;
    char* end = nullptr;
    Rule rule;
    rule.name = part.substr(0, colon);
    rule.call = std::strtoull(part.c_str() + colon + 1, &end, 10);
    if (rule.call == 0) return false;
    if (*end == ':') rule.code = hipError_t(std::strtol(end + 1, &end, 10));
    if (*end != 0) return false;
    rules.push_back(std::move(rule));
  }
  return true;
}

Injection& injection() {
  static Injection* state = [] {
    auto* made = new Injection;
    const std::string& spec = settings().fail;
    if (!parse_rules(spec, made->rules)) {
      made->rules.clear();
      std::fprintf(stderr,
                   "mgx emulator: MGX_EMULATOR_FAIL=%s is not understood; "
                   "write name:call or any:call, comma-separated\n",
                   spec.c_str());
    }
    made->armed = !made->rules.empty();
    return made;
  }();
  return *state;
}

// The error of a real device when this function fails for a reason of its own.
hipError_t natural_failure(const char* name) {
  for (const char* part : {"Malloc", "Alloc", "Create", "Load", "Instantiate", "Add"})
    if (std::strstr(name, part)) return hipErrorOutOfMemory;
  return hipErrorUnknown;
}

hipError_t injected_failure(const char* name) {
  Injection& state = injection();
  uint64_t total = ++state.total;
  if (!state.armed.load(std::memory_order_acquire)) return hipSuccess;
  std::lock_guard lock(state.mutex);
  uint64_t mine = ++state.calls[name];
  for (const Rule& rule : state.rules) {
    bool hit = rule.name == "any" ? rule.call == total : rule.name == name && rule.call == mine;
    if (!hit) continue;
    return rule.code != hipSuccess ? rule.code : natural_failure(name);
  }
  return hipSuccess;
}

}  // namespace

bool set_failures(const char* spec) {
  std::vector<Rule> rules;
  if (spec && !parse_rules(spec, rules)) return false;
  Injection& state = injection();
  std::lock_guard lock(state.mutex);
  state.rules = std::move(rules);
  state.calls.clear();
  state.total = 0;
  state.armed = spec && *spec;
  return true;
}

uint64_t call_count(const char* name) {
  Injection& state = injection();
  if (!name || !*name || std::strcmp(name, "any") == 0) return state.total;
  std::lock_guard lock(state.mutex);
  auto it = state.calls.find(name);
  return it == state.calls.end() ? 0 : it->second;
}

namespace detail {

hipError_t enter(const char* name, unsigned traits, hipError_t& injected) {
  if (traits & kQuiet) return hipSuccess;
  try {
    hipError_t code = injected_failure(name);
    if (code != hipSuccess && !(traits & kRelease)) return code;
    injected = code;
    if (runtime().devices.empty()) return hipErrorNoDevice;
    if (traits & kUnsafeInCapture) refuse_in_capture();
    return hipSuccess;
  } catch (...) {
    return current_exception_code(name);
  }
}

hipError_t leave(const char*, unsigned traits, hipError_t code) {
  if (traits & kQuiet) return code;
  last_result = code;
  // "Not ready" is an answer, not an error, and does not become the last error.
  if (code != hipSuccess && code != hipErrorNotReady) last_error = code;
  return code;
}

hipError_t current_exception_code(const char* name) noexcept {
  try {
    throw;
  } catch (const Failure& failure) {
    return failure.code;
  } catch (const std::bad_alloc&) {
    return hipErrorOutOfMemory;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "mgx emulator: %s: internal error: %s\n", name, error.what());
  } catch (...) {
    std::fprintf(stderr, "mgx emulator: %s: internal error\n", name);
  }
  return hipErrorUnknown;
}

}  // namespace detail

hipError_t last_call_result() { return last_result; }

hipError_t peek_last_error() {
  if (last_error != hipSuccess) return last_error;
  return sticky_error_of_current_device();
}

hipError_t take_last_error() {
  hipError_t code = peek_last_error();
  last_error = hipSuccess;
  return code;
}

}  // namespace mgx::hip
