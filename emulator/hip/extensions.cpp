// The library's own C functions.
#include "mgx_emulator.h"

#include <cstdio>

#include "memory.h"
#include "runtime.h"
#include "settings.h"

using namespace mgx::hip;
namespace emu = mgx::emu;

namespace {

std::string quoted(const std::string& text) {
  std::string out = "\"";
  for (unsigned char c : text) {
    if (c == '"' || c == '\\') {
      out += '\\';
      out += char(c);
    } else if (c < 0x20) {
      char escape[8];
      std::snprintf(escape, sizeof escape, "\\u%04x", c);
      out += escape;
    } else {
      out += char(c);
    }
  }
  return out + "\"";
}

std::string number(double value) {
  char text[32];
  std::snprintf(text, sizeof text, "%.9g", value);
  return text;
}

std::string triple(const uint32_t (&n)[3]) {
  return "[" + std::to_string(n[0]) + ", " + std::to_string(n[1]) + ", " + std::to_string(n[2]) +
         "]";
}

std::string profile_json(Device& device) {
  std::lock_guard lock(device.state_mutex);
  std::string out = "{\"device\": " + std::to_string(device.ordinal) +
                    ", \"chip\": " + quoted(device.chip.name) + ", \"kernels\": [";
  const char* separator = "";
  for (const auto& [name, entry] : device.profiles) {
    out += separator;
    out += "{\"name\": " + quoted(name) + ", \"launches\": " + std::to_string(entry.launches) +
           ", \"total_modelled_ms\": " + number(entry.total_ms) +
           ", \"grid\": " + triple(entry.grid) + ", \"block\": " + triple(entry.block) +
           ", \"last\": " + entry.last.json() + "}";
    separator = ", ";
  }
  return out + "]}";
}

std::string device_json(Device& device) {
  const emu::Chip& c = device.chip;
  auto field = [](const char* name, uint64_t value) {
    return std::string(", \"") + name + "\": " + std::to_string(value);
  };
  return "{\"ordinal\": " + std::to_string(device.ordinal) + ", \"chip\": " + quoted(c.name) +
         ", \"target_id\": " + quoted(c.target_id) + ", \"product\": " + quoted(c.product) +
         field("wave_size", c.wave_size) + field("compute_units", c.compute_units) +
         field("multiprocessors", c.multiprocessors) + field("simds_per_cu", c.simds_per_cu) +
         field("max_waves_per_simd", c.max_waves_per_simd) + field("lds_bytes", c.lds_bytes) +
         field("max_vgprs", c.max_vgprs) + field("max_sgprs", c.max_sgprs) +
         field("clock_khz", c.clock_khz) + field("memory_clock_khz", c.memory_clock_khz) +
         field("memory_bus_bits", c.memory_bus_bits) + field("memory_bytes", c.memory_bytes) +
         field("used_bytes", device.live_bytes) + field("l2_bytes", c.l2_bytes) +
         field("max_threads_per_multiprocessor", c.max_threads_per_multiprocessor) +
         field("elf_mach", c.elf_mach) + "}";
}

template <class F>
const char* text_of(std::string& storage, F&& make) {
  const char* text = nullptr;
  try {
    storage = make();
    text = storage.c_str();
  } catch (...) {
  }
  return text;
}

template <class F>
int code_of(F&& run) {
  try {
    run();
    return hipSuccess;
  } catch (...) {
    return detail::current_exception_code("mgxEmulator");
  }
}

}  // namespace

#define MGX_EXTENSION __attribute__((visibility("default")))

MGX_EXTENSION const char* mgxEmulatorLastFault(void) {
  thread_local std::string text;
  return text_of(text, [] { return last_fault_text(); });
}

MGX_EXTENSION const char* mgxEmulatorProfileJson(int device) {
  thread_local std::string text;
  return text_of(text, [&] { return profile_json(runtime().device(device)); });
}

MGX_EXTENSION int mgxEmulatorProfileReset(int ordinal) {
  return code_of([&] {
    Device& device = runtime().device(ordinal);
    std::lock_guard lock(device.state_mutex);
    device.profiles.clear();
  });
}

MGX_EXTENSION int mgxEmulatorModelsTimes(void) { return settings().profile ? 1 : 0; }

MGX_EXTENSION const char* mgxEmulatorDevicesJson(void) {
  thread_local std::string text;
  return text_of(text, [] {
    std::string out = "[";
    for (const auto& device : runtime().devices)
      out += (out.size() > 1 ? ", " : "") + device_json(*device);
    return out + "]";
  });
}

MGX_EXTENSION int mgxEmulatorAddDevice(const char* name, int* ordinal) {
  return code_of([&] {
    const emu::Chip* chip = name ? emu::find_chip(name) : nullptr;
    require(chip && ordinal, hipErrorInvalidValue);
    Device* added = runtime().devices.add(*chip);
    require(added != nullptr, hipErrorOutOfMemory);
    map_host_memory(*added);
    *ordinal = added->ordinal;
  });
}

MGX_EXTENSION int mgxEmulatorResetDevice(int device) {
  return code_of([&] { runtime().device(device).reset(); });
}

MGX_EXTENSION int mgxEmulatorSetFailures(const char* spec) {
  return code_of([&] { require(set_failures(spec), hipErrorInvalidValue); });
}

MGX_EXTENSION uint64_t mgxEmulatorCallCount(const char* function) {
  uint64_t count = 0;
  code_of([&] { count = call_count(function); });
  return count;
}
