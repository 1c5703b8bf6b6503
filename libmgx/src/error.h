//===- error.h - the library's errors, and texts put together -------------------===//
#pragma once

#include "mgx.h"

#include <concepts>
#include <exception>
#include <string>
#include <string_view>

namespace mgx {

// What a function of the interface gives in place of a result.
struct Error : std::exception {
  Error(mgx_error_kind kind, std::string text) : kind(kind), text(std::move(text)) {}
  const char *what() const noexcept override { return text.c_str(); }

  mgx_error_kind kind;
  std::string text;
  // A failed call of HIP has its error, its function, and the kernel of a launch.
  std::string hip_name, hip_call, hip_kernel;
};

inline void append(std::string &text, std::string_view part) { text += part; }
template <std::integral Number> void append(std::string &text, Number part) {
  text += std::to_string(part);
}

// The parts, texts and whole numbers, as one text.
template <class... Parts> std::string cat(const Parts &...parts) {
  std::string text;
  (append(text, parts), ...);
  return text;
}

template <class... Parts> [[noreturn]] void fail(mgx_error_kind kind, const Parts &...parts) {
  throw Error(kind, cat(parts...));
}

// Throws where an argument of the interface is NULL.
inline void given(const void *pointer, const char *name) {
  if (!pointer)
    fail(MGX_ERROR_USAGE, name, " is NULL");
}

template <class... Parts> [[noreturn]] void bad_artifact(const Parts &...parts) {
  fail(MGX_ERROR_ARTIFACT, parts...);
}

// What to do about a damaged file, at the end of a message.
constexpr auto repair = "; compile the model again, or fetch the file again";

template <class... Parts> [[noreturn]] void damaged(const Parts &...parts) {
  bad_artifact("damaged: ", parts..., repair);
}

// The first `most` characters, so that a hostile name does not fill a message.
std::string clip(std::string_view text, size_t most = 80);

// The text with control characters as escapes: names in messages are anybody's.
std::string printable(std::string_view text);

// What the operating system says about its last error.
std::string system_text(int error);

// A number of bytes for people: "4 TiB".
std::string memory_text(uint64_t bytes);

// Tells whoever listens (mgx_log_to).
void say(mgx_level level, const std::string &text);

} // namespace mgx
