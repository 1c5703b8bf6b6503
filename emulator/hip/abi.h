// The HIP C ABI as this library implements it: types, enumerators and handles.
//
// These are declarations of our own. A test compiles every source of this folder a second
// time with MGX_HIP_REAL_HEADER, against the HIP header of a package, so that a wrong
// prototype is a compile error, and compares every size, offset and enumerator.
#pragma once

#include <cstddef>
#include <cstdint>

#ifdef MGX_HIP_REAL_HEADER
#include <hip/hip_runtime_api.h>
#else
#include "abi_device.h"
#include "abi_graph.h"
#include "abi_launch.h"
#include "abi_memory.h"
#include "abi_types.h"
#endif

#define MGX_EXPORT extern "C" __attribute__((visibility("default")))
