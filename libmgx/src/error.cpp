//===- error.cpp - texts for people ---------------------------------------------===//
#include "error.h"

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <cstring>
#include <mutex>
#include <utility>
#include <vector>

namespace mgx {

std::string clip(std::string_view text, size_t most) {
  if (text.size() <= most)
    return std::string(text);
  while (most > 0 && (static_cast<unsigned char>(text[most]) & 0xc0) == 0x80)
    --most; // A character is not cut in two.
  return std::string(text.substr(0, most));
}

namespace {
// The bytes of a UTF-8 character from its first byte; 1 for what is none.
size_t length(unsigned char first) {
  return first < 0xc0 ? 1 : first < 0xe0 ? 2 : first < 0xf0 ? 3 : 4;
}

// Controls, separators of lines, marks of writing direction, surrogates.
bool unsafe(uint32_t code) {
  return code < 0x20 || (code >= 0x7f && code < 0xa0) || code == 0x200e || code == 0x200f ||
         (code >= 0x2028 && code <= 0x202e) || (code >= 0x2066 && code <= 0x2069) ||
         (code >= 0xd800 && code <= 0xdfff);
}
} // namespace

std::string printable(std::string_view text) {
  std::string result;
  for (size_t i = 0; i < text.size();) {
    auto first = static_cast<unsigned char>(text[i]);
    size_t bytes = length(first);
    if (i + bytes > text.size())
      bytes = 1;
    uint32_t code = bytes == 1 ? first : first & (0xffu >> (bytes + 1));
    for (size_t k = 1; k < bytes; ++k)
      code = code << 6 | (static_cast<unsigned char>(text[i + k]) & 0x3f);
    if (unsafe(code)) {
      char escape[12];
      std::snprintf(escape, sizeof escape, code < 0x100 ? "\\x%02x" : "\\u%04x", code);
      result += escape;
    } else {
      result += text.substr(i, bytes);
    }
    i += bytes;
  }
  return result;
}

std::string system_text(int error) {
  char buffer[256];
  return strerror_r(error, buffer, sizeof buffer);
}

std::string memory_text(uint64_t bytes) {
  static constexpr const char *units[] = {"MiB", "GiB", "TiB", "PiB", "EiB"};
  for (int i = 4; i >= 0; --i)
    if (int power = 20 + 10 * i; bytes >= uint64_t(1) << power) {
      char text[40];
      std::snprintf(text, sizeof text, "%.4g %s",
                    static_cast<double>(bytes) / static_cast<double>(uint64_t(1) << power),
                    units[i]);
      return text;
    }
  return cat(bytes, " bytes");
}

namespace {
std::recursive_mutex log_lock; // A listener may call the library, mgx_log_end too.
using Listener = std::pair<mgx_log_function, void *>;
std::vector<Listener> listeners;
std::atomic<bool> is_heard{false};
} // namespace

void say(mgx_level level, const std::string &text) {
  if (!is_heard.load(std::memory_order_acquire))
    return;
  std::string words = printable(text);
  std::lock_guard hold(log_lock);
  for (const Listener &one : std::vector(listeners))
    if (std::count(listeners.begin(), listeners.end(), one))
      one.first(one.second, level, words.c_str());
}

} // namespace mgx

void mgx_log_to(mgx_log_function function, void *user) {
  if (!function)
    return;
  mgx_log_end(function, user);
  std::lock_guard hold(mgx::log_lock);
  mgx::listeners.emplace_back(function, user);
  mgx::is_heard = true;
}

void mgx_log_end(mgx_log_function function, void *user) {
  std::lock_guard hold(mgx::log_lock);
  std::erase(mgx::listeners, mgx::Listener(function, user));
  mgx::is_heard = !mgx::listeners.empty();
}
