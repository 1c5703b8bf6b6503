"""Runs a few instructions on the engine, on one wave with given registers and memory."""

from __future__ import annotations

import ctypes
import os
from functools import lru_cache
from pathlib import Path

import numpy as np

REPOSITORY = Path(__file__).resolve().parents[3]


class EngineMissingError(Exception):
    """The emulator's library has not been built."""


class _Snippet(ctypes.Structure):
    _fields_ = [
        ("chip", ctypes.c_char_p),
        ("wave_size", ctypes.c_uint32),
        ("mode", ctypes.c_uint32),
        ("code", ctypes.c_void_p),
        ("code_size", ctypes.c_uint64),
        ("scc", ctypes.c_uint32),
        ("m0", ctypes.c_uint32),
        ("vcc", ctypes.c_uint64),
        ("exec", ctypes.c_uint64),
        ("sgpr", ctypes.c_void_p),
        ("vgpr", ctypes.c_void_p),
        ("memory", ctypes.c_void_p),
        ("memory_size", ctypes.c_uint64),
        ("lds", ctypes.c_void_p),
        ("lds_size", ctypes.c_uint32),
        ("reserved", ctypes.c_uint32),
        ("error", ctypes.c_char_p),
        ("error_size", ctypes.c_uint64),
    ]


def find_library() -> Path | None:
    named = os.environ.get("MGX_EMULATOR_LIBRARY")
    if named:
        return Path(named)
    build = REPOSITORY / "build"
    found = [
        path
        for path in (
            REPOSITORY / "mgx_mlir" / "emulator" / "lib" / "libamdhip64.so",
            *build.glob("*/libamdhip64.so"),
            *build.glob("*/emulator/libamdhip64.so"),
        )
        if path.is_file()
    ]
    return max(found, key=lambda path: path.stat().st_mtime) if found else None


@lru_cache
def _function():
    path = find_library()
    if path is None:
        raise EngineMissingError(
            "no libamdhip64.so under build/: build the emulator first, or set MGX_EMULATOR_LIBRARY"
        )
    function = ctypes.CDLL(str(path)).mgxEmulatorRunSnippet
    function.argtypes = [ctypes.POINTER(_Snippet)]
    function.restype = ctypes.c_int
    return function


class State:
    """Registers and memories of a wave. VGPRs 256 to 511 are accumulation registers."""

    def __init__(self, wave: int):
        self.wave = wave
        self.sgpr = np.zeros(108, np.uint32)
        self.vgpr = np.zeros((512, 64), np.uint32)
        self.memory = np.zeros(4096, np.uint8)
        self.lds = np.zeros(16384, np.uint8)
        self.scc, self.m0, self.vcc = 0, 0xFFFFFFFF, 0
        self.exec = (1 << wave) - 1
        self.mode = 0x3F0  # denormals kept, IEEE, DX10_CLAMP

    def copy(self) -> State:
        other = State(self.wave)
        for name, value in vars(self).items():
            setattr(other, name, value.copy() if isinstance(value, np.ndarray) else value)
        return other

    @property
    def memory_address(self) -> int:
        return self.memory.ctypes.data


class SnippetError(Exception):
    pass


def run(chip: str, code: bytes, state: State) -> None:
    """Executes `code`, in place. The memory keeps its address, so pointers in registers hold."""
    error = ctypes.create_string_buffer(1024)
    buffer = ctypes.create_string_buffer(code, len(code))
    snippet = _Snippet(
        chip.encode(),
        state.wave,
        state.mode,
        ctypes.cast(buffer, ctypes.c_void_p),
        len(code),
        state.scc,
        state.m0,
        state.vcc,
        state.exec,
        state.sgpr.ctypes.data,
        state.vgpr.ctypes.data,
        state.memory.ctypes.data,
        state.memory.size,
        state.lds.ctypes.data,
        state.lds.size,
        0,
        ctypes.cast(error, ctypes.c_char_p),
        len(error),
    )
    if _function()(ctypes.byref(snippet)):
        raise SnippetError(error.value.decode())
    state.scc, state.m0, state.vcc, state.exec = snippet.scc, snippet.m0, snippet.vcc, snippet.exec
