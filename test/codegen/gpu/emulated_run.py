"""Runs the GPU kernels of `gpu_kernels` through HIP, on chips; prints what went wrong.

A program of its own, because a process that has opened a libamdhip64 keeps it:

    ROCM_PATH=<folder with lib/libamdhip64.so> MGX_EMULATED_DEVICES=gfx942,gfx1100 \
        python emulated_run.py gfx942,gfx1100
"""

from __future__ import annotations

import ctypes
import os
import sys
from collections.abc import Callable, Iterable, Sequence
from operator import attrgetter
from typing import Any, TypeVar

import gpu_kernels
import numpy as np
from hip import hip

from mgx_mlir.artifact.code_object import CodeObject
from mgx_mlir.artifact.target import Target
from mgx_mlir.codegen.gpu.builders.binary import code_object

Array = np.ndarray[Any, Any]
Named = TypeVar("Named")


def selected(
    cases: Iterable[Named], wanted: str, name: Callable[[Named], str] = attrgetter("name")
) -> list[Named]:
    """The cases whose names contain `wanted`; of "1/3", each third one from the second on."""
    first, slash, step = wanted.partition("/")
    if slash and first.isdigit():
        return list(cases)[int(first) :: int(step)]
    return [case for case in cases if wanted in name(case)]


def check(result: Any) -> Any:
    status, *values = result
    if status != hip.hipError_t.hipSuccess:
        raise RuntimeError(str(status))
    return values[0] if len(values) == 1 else values


def upload(array: Array) -> Any:
    memory = check(hip.hipMalloc(max(array.nbytes, 1)))
    check(hip.hipMemcpy(memory, array, array.nbytes, hip.hipMemcpyKind.hipMemcpyHostToDevice))
    return memory


# EF_AMDGPU_MACH of emulated chips (AMDGPUUsage, "Header"), which run the code of siblings.
_MACHINES = {"gfx1100": 0x41, "gfx1151": 0x4A}
_FLAGS_AT = 48  # of an ELF header


def _for_device(code: CodeObject) -> bytes:
    """The bytes of a code object; those for a sibling of the device say the device's name."""
    device = os.environ["MGX_EMULATED_DEVICES"]
    if device == code.arch or device not in _MACHINES or code.arch.endswith("generic"):
        return code.data
    data = bytearray(code.data.replace(f"--{code.arch}".encode(), f"--{device}".encode()))
    data[_FLAGS_AT] = _MACHINES[device]
    return bytes(data)


def run(
    code: CodeObject,
    inputs: Sequence[Array],
    outputs: Sequence[Array],
    over: int | None = None,
) -> None:
    """Runs all launches of a code object; fills `outputs`. `over`: an input that is the output."""
    module = check(hip.hipModuleLoadData(_for_device(code)))
    memory = {
        "input": [upload(np.ascontiguousarray(x)) for x in inputs],
        "output": [upload(y) for y in outputs],
    }
    if over is not None:
        memory["output"] = [memory["input"][over]]
    scratch = int(upload(np.full(code.scratch_bytes, 0xA5, np.uint8)))
    counted = [a.index for one in code.launches for a in one.arguments if a.kind == "counters"]
    zeros = upload(np.zeros(max(counted, default=0), np.int32))
    counters = int(zeros)
    for launch in code.launches:
        function = check(hip.hipModuleGetFunction(module, launch.function.encode()))
        arguments = tuple(
            ctypes.c_void_p(
                a.index
                if a.kind == "size"
                else scratch + a.index
                if a.kind == "scratch"
                else counters
                if a.kind == "counters"
                else int(memory[a.kind][a.index])
            )
            for a in launch.arguments
        )
        check(
            hip.hipModuleLaunchKernel(
                function, *launch.grid, *launch.block,
                sharedMemBytes=0, stream=None, kernelParams=None, extra=arguments,
            )
        )  # fmt: skip
    check(hip.hipDeviceSynchronize())
    left = np.zeros(max(counted, default=0), np.int32)
    check(hip.hipMemcpy(left, zeros, left.nbytes, hip.hipMemcpyKind.hipMemcpyDeviceToHost))
    assert not left.any(), "counters are 0 after a run"
    for array, device in zip(outputs, memory["output"], strict=True):
        kind = hip.hipMemcpyKind.hipMemcpyDeviceToHost
        check(hip.hipMemcpy(array, device, array.nbytes, kind))


def main(chip: str) -> int:
    failed = 0
    for kernel in gpu_kernels.ALL:
        inputs = kernel.arrays()
        want = [np.asarray(y) for y in kernel.meaning(*inputs)]
        have = [np.full(y.shape, 99).astype(y.dtype) for y in want]
        try:
            run(code_object(kernel.program(), Target.get(chip)), inputs, have)
            for w, h in zip(want, have, strict=True):
                np.testing.assert_allclose(h, w, rtol=1e-5, atol=1e-5)
        except (AssertionError, RuntimeError) as error:
            failed += 1
            print(f"{kernel.name} on {chip}: {error}")
    return min(failed, 1)


if __name__ == "__main__":
    failures = 0
    for number, chip in enumerate(sys.argv[1].split(",")):
        check(hip.hipSetDevice(number))
        failures += main(chip)
    sys.exit(min(failures, 1))
