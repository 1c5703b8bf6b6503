"""Short forms for tests that call the emulated HIP library through hip-python."""

from __future__ import annotations

import ctypes
import os
import shutil
import struct
import subprocess
import sys
import textwrap
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hip import hip

from mgx_mlir import emulator

HERE = Path(__file__).parent
DEVICES = ("gfx942", "gfx1100")
E = hip.hipError_t
K = hip.hipMemcpyKind
CAPTURE = hip.hipStreamCaptureMode

# For functions whose hip-python wrapper cannot pass what the C function takes.
raw = ctypes.CDLL(str(emulator.library_path()))

HOST_FN = ctypes.CFUNCTYPE(None, ctypes.c_void_p)
CALLBACK = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int, ctypes.c_void_p)


def entry(function: Any) -> int:
    """The address of a ctypes function; hip-python would take the object for a buffer."""
    address = ctypes.cast(function, ctypes.c_void_p).value
    assert address is not None
    return address


def ok(result: tuple[Any, ...]) -> Any:
    """The results of a call that has to succeed: none, the only one, or a tuple."""
    assert result[0] == E.hipSuccess, f"{result[0].name}; {emulator.last_fault()}"
    rest = result[1:]
    return rest[0] if len(rest) == 1 else rest or None


def code(result: tuple[Any, ...]) -> hip.hipError_t:
    """The error code of a call."""
    return result[0]


def raw_code(value: int) -> hip.hipError_t:
    """The error code of a call through `raw`."""
    return E(value)


def void(value: Any) -> ctypes.c_void_p:
    """A handle or an address, for `raw`."""
    return ctypes.c_void_p(int(value))


def handles(*values: Any) -> ctypes.Array[ctypes.c_void_p]:
    """A C array of handles."""
    return (ctypes.c_void_p * len(values))(*[int(v) for v in values])


def used_bytes() -> int:
    """Bytes in use on the current device."""
    free, total = ok(hip.hipMemGetInfo())
    return total - free


def upload(array: np.ndarray) -> Any:
    """A device copy of an array."""
    pointer = ok(hip.hipMalloc(array.nbytes))
    ok(hip.hipMemcpy(pointer, np.ascontiguousarray(array), array.nbytes, K.hipMemcpyHostToDevice))
    return pointer


def download(pointer: Any, shape: int | tuple[int, ...], dtype: Any = np.float32) -> np.ndarray:
    """A host copy of device memory."""
    array = np.empty(shape, dtype)
    ok(hip.hipMemcpy(array, pointer, array.nbytes, K.hipMemcpyDeviceToHost))
    return array


class Arguments:
    """Kernel arguments as an array of pointers to values; keeps the values alive.

    ints become 32-bit, floats single precision, anything else with __int__ an address.
    """

    def __init__(self, *values: Any) -> None:
        self.values = [self._value(v) for v in values]
        self.addresses = [ctypes.addressof(v) for v in self.values]
        self.array = (ctypes.c_void_p * max(len(self.addresses), 1))(*self.addresses)

    @staticmethod
    def _value(value: Any) -> Any:
        if isinstance(value, ctypes._SimpleCData | ctypes.Structure):
            return value
        if isinstance(value, int):
            return ctypes.c_int(value)
        if isinstance(value, float):
            return ctypes.c_float(value)
        return ctypes.c_void_p(int(value))


def launch(
    function: Any,
    arguments: Sequence[Any] = (),
    grid: int | tuple[int, int, int] = 1,
    block: int | tuple[int, int, int] = 64,
    lds: int = 0,
    stream: Any = None,
) -> hip.hipError_t:
    """Launches with pointers to values; returns the code."""
    packed = Arguments(*arguments)
    g = (grid, 1, 1) if isinstance(grid, int) else grid
    b = (block, 1, 1) if isinstance(block, int) else block
    return code(
        hip.hipModuleLaunchKernel(
            function, *g, *b, lds, stream or 0, packed.addresses or None, None
        )
    )


def kernel_params(
    function: Any, arguments: Arguments, grid: int = 1, block: int = 64, lds: int = 0
) -> hip.hipKernelNodeParams:
    """Parameters of a kernel node; `arguments` must outlive the call that uses them."""
    params = hip.hipKernelNodeParams()
    params.func = int(function)
    params.gridDim.x, params.gridDim.y, params.gridDim.z = grid, 1, 1
    params.blockDim.x, params.blockDim.y, params.blockDim.z = block, 1, 1
    params.sharedMemBytes = lds
    params.kernelParams = ctypes.addressof(arguments.array)
    params.extra = None
    return params


def clang() -> str:
    """A clang that compiles for AMDGPU, or the test is skipped."""
    for name in ("clang-22", "clang"):
        if path := shutil.which(name):
            return path
    pytest.skip("no clang-22: apt-get install clang-22 lld-22")


def compile_kernels(chip: str, source: Path, output: Path) -> Path:
    """Compiles device code only, without any header or device library."""
    command = [clang(), "-x", "hip", "--offload-device-only", f"--offload-arch={chip}"]
    command += ["--no-gpu-bundle-output", "-nogpuinc", "-nogpulib", "-O2"]
    subprocess.run([*command, str(source), "-o", str(output)], check=True)
    return output


def bundle(images: dict[str, bytes]) -> bytes:
    """An offload bundle: code objects of several chips behind a table, each on a page."""
    entries = {"host-x86_64-unknown-linux-gnu-": b""}
    entries |= {f"hipv4-amdgcn-amd-amdhsa--{chip}": data for chip, data in images.items()}
    head = b"__CLANG_OFFLOAD_BUNDLE__" + struct.pack("<Q", len(entries))
    offset, table, body = 4096, b"", b""
    for name, data in entries.items():
        table += struct.pack("<QQQ", offset + len(body), len(data), len(name)) + name.encode()
        body += data + b"\0" * (-len(data) % 4096)
    return (head + table).ljust(offset, b"\0") + body


def run_python(script: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """Runs a script in a process of its own, for settings that are read once a process."""
    prelude = (
        f"import sys; sys.path[:0] = {[str(HERE), str(HERE.parents[2])]!r}\n"
        "from mgx_mlir import emulator\nemulator.enable()\nfrom hip_support import *\n"
    )
    variables = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith("MGX_EMULAT") or name == "MGX_EMULATOR_LIBRARY"
    }
    return subprocess.run(
        [sys.executable, "-c", prelude + textwrap.dedent(script)],
        env=variables | environment,
        capture_output=True,
        text=True,
        timeout=120,
    )


def passes(result: subprocess.CompletedProcess[str]) -> str:
    """The output of a script that has to succeed."""
    assert result.returncode == 0, result.stdout + result.stderr
    return result.stdout


def all_nodes(query: Callable[..., int], owner: Any) -> list[int]:
    """The answer of a list query that is asked for the number first."""
    count = ctypes.c_size_t()
    assert query(void(owner), None, ctypes.byref(count)) == 0
    found = (ctypes.c_void_p * max(count.value, 1))()
    assert query(void(owner), found, ctypes.byref(count)) == 0
    return [found[i] for i in range(count.value)]
