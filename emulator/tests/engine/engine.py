"""The engine through ctypes: compile or assemble a kernel, run it on numpy arrays."""

from __future__ import annotations

import ctypes
import hashlib
import os
import pathlib
import shutil
import struct
import subprocess
import tempfile

import numpy as np

CHIPS = ("gfx90a", "gfx942", "gfx950", "gfx1030", "gfx1100", "gfx1151", "gfx1200", "gfx1201")
CDNA = CHIPS[:3]
RDNA = CHIPS[3:]

_FAULTS = (
    "out_of_bounds",
    "misaligned",
    "lds_out_of_bounds",
    "invalid_instruction",
    "barrier",
    "hang",
    "trap",
    "uninitialized",
    "missing_wait",
    "race",
    "launch",
)


def _library_path() -> pathlib.Path:
    """The engine's test library: in the folder that MGX_EMULATOR_BUILD names, else the newest."""
    name = "libengine_harness.so"
    named = os.environ.get("MGX_EMULATOR_BUILD")
    if named:
        return pathlib.Path(named) / name
    build = pathlib.Path(__file__).parents[3] / "build"
    # Built alone, or with the project.
    found = [*build.glob(f"emulator*/{name}"), *build.glob(f"*/emulator/{name}")]
    if not found:
        raise FileNotFoundError(f"no {name} below {build}; run `make emulator`")
    return max(found, key=lambda path: path.stat().st_mtime_ns)


def _tool(*names: str) -> str | None:
    for name in names:
        found = shutil.which(name) or shutil.which(f"/usr/lib/llvm-22/bin/{name}")
        if found:
            return found
    return None


CLANG = _tool("clang-22")
LLVM_MC = _tool("llvm-mc-22", "llvm-mc")
LLD = _tool("ld.lld-22", "ld.lld")


class Fault(Exception):
    def __init__(self, kind: str, text: str):
        super().__init__(text)
        self.kind = kind


class LoadError(Exception):
    pass


class _Library:
    def __init__(self):
        lib = ctypes.CDLL(str(_library_path()))
        p, u64, u32, text = ctypes.c_void_p, ctypes.c_uint64, ctypes.c_uint32, ctypes.c_char_p
        for name, result, arguments in (
            ("engine_text", text, []),
            ("engine_allocate", p, [u64]),
            ("engine_free", ctypes.c_bool, [p]),
            ("engine_allocated", u64, []),
            ("engine_threads", None, [ctypes.c_uint]),
            ("engine_load", p, [p, ctypes.c_size_t, text]),
            ("engine_unload", None, [p]),
            ("engine_global", u64, [p, text, ctypes.POINTER(u64)]),
            ("engine_kernels", text, [p]),
            ("engine_arguments", ctypes.c_int, [p, text, ctypes.POINTER(u32), ctypes.c_int]),
            (
                "engine_run",
                ctypes.c_int,
                [
                    p,
                    text,
                    ctypes.POINTER(u32),
                    ctypes.POINTER(u32),
                    u32,
                    p,
                    ctypes.c_size_t,
                    ctypes.c_uint,
                    u64,
                    ctypes.POINTER(u64),
                ],
            ),
        ):
            function = getattr(lib, name)
            function.restype, function.argtypes = result, arguments
        self.lib = lib


_library: ctypes.CDLL | None = None


def library() -> ctypes.CDLL:
    global _library
    if _library is None:
        _library = _Library().lib
    return _library


class Array:
    """Device memory with a numpy view: the emulated device's addresses are the host's."""

    def __init__(self, source):
        source = np.ascontiguousarray(source)
        self.address = library().engine_allocate(max(source.nbytes, 1))
        buffer = (ctypes.c_uint8 * max(source.nbytes, 1)).from_address(self.address)
        self.view = (
            np.frombuffer(buffer, dtype=np.uint8, count=source.nbytes)
            .view(source.dtype)
            .reshape(source.shape)
        )
        self.view[...] = source

    def free(self):
        self.view = None
        library().engine_free(self.address)


class Module:
    def __init__(self, image: bytes, chip: str):
        self.handle = library().engine_load(image, len(image), chip.encode())
        if not self.handle:
            raise LoadError(library().engine_text().decode(errors="replace"))
        self.chip = chip

    def kernels(self) -> dict[str, list[int]]:
        lines = library().engine_kernels(self.handle).decode().splitlines()
        return {line.split()[0]: [int(x) for x in line.split()[1:]] for line in lines}

    def global_(self, name: str) -> tuple[int, int]:
        size = ctypes.c_uint64()
        return library().engine_global(self.handle, name.encode(), ctypes.byref(size)), size.value

    def unload(self):
        library().engine_unload(self.handle)
        self.handle = None

    def run(
        self,
        kernel,
        grid,
        block,
        *arguments,
        lds=0,
        strict=False,
        profile=False,
        cooperative=False,
        budget=0,
        order="forward",
    ):
        """Launches and waits. An argument is an Array, a numpy scalar, or an int of 4 or 8 bytes.

        order: forward, reversed, or the seed of a random one.
        """
        orders = {"forward": 0, "reversed": 8}
        how = orders[order] if isinstance(order, str) else 16 | order << 8
        grid = tuple(grid) if isinstance(grid, (tuple, list)) else (grid,)
        block = tuple(block) if isinstance(block, (tuple, list)) else (block,)
        places = (ctypes.c_uint32 * 128)()
        count = library().engine_arguments(self.handle, kernel.encode(), places, 64)
        assert count == len(arguments), f"{kernel} takes {count} arguments, {len(arguments)} given"
        packed = bytearray()
        for i, argument in enumerate(arguments):
            offset, size = places[2 * i], places[2 * i + 1]
            if isinstance(argument, Array):
                data = struct.pack("<Q", argument.address)
            elif isinstance(argument, (int, np.bool_)):
                data = int(argument).to_bytes(size, "little", signed=int(argument) < 0)
            elif isinstance(argument, float):
                data = struct.pack("<f" if size == 4 else "<d", argument)
            else:
                data = np.asarray(argument).tobytes()
            packed.extend(b"\0" * (offset + size - len(packed)))
            packed[offset : offset + size] = data[:size]
        u3 = ctypes.c_uint32 * 3
        micros = ctypes.c_uint64()
        raw = (ctypes.c_uint8 * max(len(packed), 1)).from_buffer_copy(bytes(packed) or b"\0")
        status = library().engine_run(
            self.handle,
            kernel.encode(),
            u3(*((*grid, 1, 1))[:3]),
            u3(*((*block, 1, 1))[:3]),
            lds,
            raw,
            len(packed),
            strict | profile << 1 | cooperative << 2 | how,
            budget,
            ctypes.byref(micros),
        )
        self.seconds = micros.value * 1e-6
        if status > 0:
            raise Fault(_FAULTS[status - 1], library().engine_text().decode(errors="replace"))
        return library().engine_text().decode() if profile else None


def _cached(key: str, make) -> bytes:
    folder = pathlib.Path(tempfile.gettempdir()) / "mgx-emulator-tests"
    folder.mkdir(exist_ok=True)
    path = folder / (hashlib.sha256(key.encode()).hexdigest()[:32] + ".hsaco")
    if not path.exists():
        scratch = path.with_suffix(f".{os.getpid()}")
        make(scratch)
        scratch.rename(path)
    return path.read_bytes()


def _run_tool(command, text):
    done = subprocess.run(command, input=text, capture_output=True, text=True)
    if done.returncode:
        raise RuntimeError(" ".join(command) + "\n" + done.stderr)


def assemble(source: str, chip: str, features: str = "") -> bytes:
    """A code object from AMDGPU assembly (with its own directives)."""

    def make(path):
        obj = path.with_suffix(".o")
        _run_tool(
            [
                LLVM_MC,
                "-triple=amdgcn-amd-amdhsa",
                f"-mcpu={chip}",
                f"-mattr={features}",
                "-filetype=obj",
                "-o",
                str(obj),
                "-",
            ],
            source,
        )
        _run_tool([LLD, "-shared", "-o", str(path), str(obj)], None)
        obj.unlink()

    return _cached(f"mc {chip} {features} {source}", make)


_HIP_HEADER = """
#define __global__ __attribute__((global))
#define __device__ __attribute__((device))
#define __shared__ __attribute__((shared))
#define __constant__ __attribute__((constant))
#define __launch_bounds__(n) __attribute__((amdgpu_flat_work_group_size(1, n)))
typedef unsigned int uint; typedef unsigned long ulong; typedef unsigned short ushort; typedef unsigned char uchar;
typedef _Float16 half;
#define TX __builtin_amdgcn_workitem_id_x()
#define TY __builtin_amdgcn_workitem_id_y()
#define TZ __builtin_amdgcn_workitem_id_z()
#define BX __builtin_amdgcn_workgroup_id_x()
#define BY __builtin_amdgcn_workgroup_id_y()
#define BZ __builtin_amdgcn_workgroup_id_z()
#define DX __builtin_amdgcn_workgroup_size_x()
#define GX __builtin_amdgcn_grid_size_x()
#define WAVE __builtin_amdgcn_wavefrontsize()
#define GID (BX * DX + TX)
__device__ inline void barrier() {
  __builtin_amdgcn_fence(__ATOMIC_RELEASE, "workgroup"); __builtin_amdgcn_s_barrier();
  __builtin_amdgcn_fence(__ATOMIC_ACQUIRE, "workgroup");
}
"""


def hip(source: str, chip: str, *flags: str) -> bytes:
    """A code object from HIP C++ without ROCm's headers."""
    text = _HIP_HEADER + source

    def make(path):
        _run_tool(
            [
                CLANG,
                "-x",
                "hip",
                f"--offload-arch={chip}",
                "--cuda-device-only",
                "-nogpulib",
                "-nogpuinc",
                "-O2",
                "-std=c++17",
                "-fuse-ld=lld",
                "-ffp-contract=on",
                "--no-gpu-bundle-output",
                *flags,
                "-o",
                str(path),
                "-",
            ],
            text,
        )

    return _cached(f"hip {chip} {flags} {text}", make)


def opencl(source: str, chip: str, *flags: str) -> bytes:
    def make(path):
        _run_tool(
            [
                CLANG,
                "-x",
                "cl",
                "-cl-std=CL2.0",
                "-target",
                "amdgcn-amd-amdhsa",
                f"-mcpu={chip}",
                "-nogpulib",
                "-O2",
                *flags,
                "-o",
                str(path),
                "-",
            ],
            source,
        )

    return _cached(f"cl {chip} {flags} {source}", make)
