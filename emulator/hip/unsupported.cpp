// Every other HIP function that a program can look up exists and answers hipErrorNotSupported.
//
// The definitions are weak: a function that this library implements replaces its own here. They
// take no parameters, which the C calling convention allows a callee to ignore, so the list is
// of names only. The real prototypes must not be visible in this file.
#include "api.h"

#ifndef MGX_HIP_REAL_HEADER

#define MGX_SYMBOL(name)                                                                         \
  extern "C" __attribute__((weak, visibility("default"))) hipError_t name() {                    \
    return mgx::hip::api(#name, mgx::hip::kPlain, [] { mgx::hip::fail(hipErrorNotSupported); }); \
  }
#include "symbols.inc"
#undef MGX_SYMBOL

#endif
