// The boundary of the C ABI: every exported function runs its body inside `api`.
//
// Inside the library an error is a thrown `Failure`. `api` turns it into a return code, keeps
// the thread's last error, and injects failures on request, so no exception leaves the library.
#pragma once

#include <type_traits>

#include "abi.h"

namespace mgx::hip {

struct Failure {
  hipError_t code;
};

[[noreturn]] inline void fail(hipError_t code) { throw Failure{code}; }
inline void require(bool ok, hipError_t code) {
  if (!ok) fail(code);
}

// How an entry point behaves where that is not the common way.
enum Traits : unsigned {
  kPlain = 0,
  // Frees or destroys something: an injected failure is reported after the work is done, as an
  // earlier asynchronous error would be. The caller of a failed hipFree has no second chance.
  kRelease = 1,
  // Not allowed while a stream captures, unless the thread's capture mode is relaxed.
  kUnsafeInCapture = 2,
  // Answers without a device and never fails: not counted for injection.
  kQuiet = 4,
};

namespace detail {
hipError_t enter(const char* name, unsigned traits, hipError_t& injected);
hipError_t leave(const char* name, unsigned traits, hipError_t code);
hipError_t current_exception_code(const char* name) noexcept;
}  // namespace detail

template <class Body>
hipError_t api(const char* name, unsigned traits, Body&& body) noexcept {
  hipError_t injected = hipSuccess;
  hipError_t code = detail::enter(name, traits, injected);
  if (code == hipSuccess) {
    try {
      if constexpr (std::is_void_v<decltype(body())>) body();
      else code = body();
    } catch (...) {
      code = detail::current_exception_code(name);
    }
    if (code == hipSuccess) code = injected;
  }
  return detail::leave(name, traits, code);
}

// The thread's errors, as hipGetLastError and hipExtGetLastError see them.
hipError_t take_last_error();
hipError_t peek_last_error();
hipError_t last_call_result();

// Injection: counters restart at each call; null or "" disarms. False: not understood.
bool set_failures(const char* spec);
uint64_t call_count(const char* name);

const char* error_name(hipError_t code);
const char* error_text(hipError_t code);

}  // namespace mgx::hip

// An exported function: MGX_API(traits) { ... } is the body, returning void or hipError_t.
#define MGX_API(traits, ...) return ::mgx::hip::api(__func__, traits, [&]() __VA_ARGS__)
