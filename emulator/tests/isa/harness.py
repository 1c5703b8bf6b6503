"""Builds harness.cpp with the host's compiler and calls it."""

from __future__ import annotations

import ctypes
import os
import subprocess
from functools import lru_cache
from pathlib import Path

import numpy as np

HERE = Path(__file__).resolve().parent
ENGINE = HERE.parent.parent / "engine"
BUILD = HERE.parents[2] / "build" / "isa"


class Modifiers(ctypes.Structure):
    _fields_ = [
        (name, ctypes.c_int32)
        for name in (
            "cbsz",
            "abid",
            "blgp",
            "neg_lo",
            "neg_hi",
            "op_sel",
            "op_sel_hi",
            "clamp",
            "fp16_ovfl",
            "flush",
            "c_is_constant",
        )
    ] + [("c_constant", ctypes.c_uint64)]


class Shape(ctypes.Structure):
    _fields_ = [
        (name, ctypes.c_int32)
        for name in ("m", "n", "k", "blocks", "a_registers", "b_registers", "acc_registers")
    ]


@lru_cache
def library() -> ctypes.CDLL:
    sources = [HERE / "harness.cpp", *sorted(ENGINE.glob("matrix*.cpp"))]
    inputs = [*sources, *ENGINE.glob("matrix*.h"), *ENGINE.glob("numeric*.h")]
    BUILD.mkdir(parents=True, exist_ok=True)
    target = BUILD / "libharness.so"
    if not target.exists() or target.stat().st_mtime < max(path.stat().st_mtime for path in inputs):
        scratch = (
            BUILD / f"libharness.{os.getpid()}.so"
        )  # tests of several processes may build at once
        command = [
            os.environ.get("CXX", "g++"),
            "-std=c++17",
            "-O2",
            "-ffp-contract=off",
            "-fPIC",
            "-shared",
            "-Wall",
            "-Wextra",
        ]
        subprocess.run([*command, *map(str, sources), "-o", str(scratch)], check=True)
        scratch.rename(target)
    return ctypes.CDLL(str(target))


def matrix_shape(mnemonic: str, gfx: int, wave_size: int) -> Shape | None:
    shape = Shape()
    found = library().mgxTestMatrixShape(mnemonic.encode(), gfx, wave_size, ctypes.byref(shape))
    return shape if found else None


def run_matrix(
    mnemonic: str,
    gfx: int,
    wave_size: int,
    *,
    a,
    b,
    c,
    d,
    index=None,
    scale_a=None,
    scale_b=None,
    **modifiers,
):
    """D's registers after the instruction; all arrays are uint32 of shape (registers, 64)."""
    pointers = [
        None if x is None else np.ascontiguousarray(x, np.uint32)
        for x in (a, b, c, index, scale_a, scale_b)
    ]
    out = np.array(d, np.uint32)
    as_pointer = lambda x: None if x is None else x.ctypes.data_as(ctypes.c_void_p)  # noqa: E731
    found = library().mgxTestMatrix(
        mnemonic.encode(),
        gfx,
        wave_size,
        *map(as_pointer, pointers),
        as_pointer(out),
        ctypes.byref(Modifiers(**modifiers)),
    )
    assert found, mnemonic
    return out


def numeric(name: str, a, b=None, c=None, *, mode: int = 0x3F0) -> np.ndarray:
    """A function of numeric.h over arrays of bit patterns."""
    a = np.ascontiguousarray(a, np.uint64)
    b = np.zeros_like(a) if b is None else np.ascontiguousarray(b, np.uint64)
    c = np.zeros_like(a) if c is None else np.ascontiguousarray(c, np.uint64)
    out = np.zeros_like(a)
    pointers = [x.ctypes.data_as(ctypes.c_void_p) for x in (a, b, c, out)]
    assert library().mgxTestNumeric(name.encode(), mode, *pointers, ctypes.c_size_t(a.size)), name
    return out
