"""The execution provider of mgx-mlir for onnxruntime.

onnxruntime.register_execution_provider_library("mgx", get_library_path())
"""

from __future__ import annotations

import ctypes
from pathlib import Path

__all__ = ["counters", "get_ep_name", "get_ep_names", "get_library_path"]


def get_library_path() -> str:
    """The plugin library, for `register_execution_provider_library`."""
    return str(Path(__file__).with_name("libonnxruntime_ep_mgx.so"))


def get_ep_name() -> str:
    """The name of the provider among onnxruntime's devices."""
    return "MGXExecutionProvider"


def get_ep_names() -> list[str]:
    """The names of the library's providers."""
    return [get_ep_name()]


class _Counters(ctypes.Structure):
    _fields_ = [
        (name, ctypes.c_uint64)
        for name in ("compiled", "found", "programs", "runs", "copies", "allocations")
    ]


def counters(library: str | None = None) -> dict[str, int]:
    """How often this process compiled, found a model in the cache, loaded a program, ran one,
    copied a tensor to or from a GPU, and allocated memory of one.

    `library` is the path that was registered, if it is not this package's.
    """
    found = _Counters()
    ctypes.CDLL(library or get_library_path()).MgxEpCounters(ctypes.byref(found))
    return {name: getattr(found, name) for name, _ in _Counters._fields_}
