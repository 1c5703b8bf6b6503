// The emulated device's own C functions, beside the HIP API of the same library.
//
// Returned texts belong to the calling thread and stay valid until its next call of the same
// function.
#pragma once

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

// The last fault of any device: kernel, work-group, wave, lane, pc, address. "" if none.
const char* mgxEmulatorLastFault(void);

// Counts and modelled times of the kernels launched on a device since its last reset, as JSON;
// empty without MGX_EMULATOR_PROFILE=1. Null for a device that does not exist.
const char* mgxEmulatorProfileJson(int device);
int mgxEmulatorProfileReset(int device);
// 1 where events give modelled times: MGX_EMULATOR_PROFILE was set at the first call.
int mgxEmulatorModelsTimes(void);

// The devices and the facts of their chips, as JSON.
const char* mgxEmulatorDevicesJson(void);

// Adds a device of a chip ("gfx1100") to those of MGX_EMULATED_DEVICES and gives its ordinal;
// hipGetDeviceCount grows, other devices and their streams stay as they are. A hipError_t:
// hipErrorInvalidValue for a chip that is not emulated, hipErrorOutOfMemory beyond 64 devices.
int mgxEmulatorAddDevice(const char* chip, int* ordinal);

// As hipDeviceReset, for any device: frees all its memory, clears its fault. A hipError_t.
int mgxEmulatorResetDevice(int device);

// Makes HIP calls fail, as MGX_EMULATOR_FAIL does: "hipMalloc:3", "any:17", "hipFree:1:719",
// comma-separated; counting starts anew. "" stops it. A hipError_t.
int mgxEmulatorSetFailures(const char* spec);
// HIP calls since the last mgxEmulatorSetFailures; by name only while failures are set, "any"
// for all.
uint64_t mgxEmulatorCallCount(const char* function);

#ifdef __cplusplus
}
#endif
