"""Offload bundles, plain and compressed, as clang writes them (ClangOffloadBundler.rst)."""

from __future__ import annotations

import ctypes
import ctypes.util
import struct
import zlib

import engine
import numpy as np
import pytest

pytestmark = pytest.mark.skipif(engine.CLANG is None, reason="needs clang-22")

SOURCE = 'extern "C" __global__ void number(int* x) { *x = NUMBER; }'
HOST = "host-x86_64-unknown-linux-gnu-"


def code(chip: str, number: int) -> bytes:
    """A code object whose kernel stores a number."""
    return engine.hip(SOURCE, chip, f"-DNUMBER={number}")


def bundle(*entries: tuple[str, bytes]) -> bytes:
    """Entries by id; the data starts at multiples of a page, as clang lays it out."""
    at, table, body = 4096, b"", b""
    for name, data in entries:
        table += struct.pack("<QQQ", at + len(body), len(data), len(name)) + name.encode()
        body += data.ljust(-(-len(data) // 4096) * 4096, b"\0")
    head = b"__CLANG_OFFLOAD_BUNDLE__" + struct.pack("<Q", len(entries))
    return (head + table).ljust(4096, b"\0") + body


def hip_entry(target: str) -> str:
    return f"hipv4-amdgcn-amd-amdhsa--{target}"


def zstd(data: bytes) -> bytes:
    library = ctypes.CDLL(ctypes.util.find_library("zstd") or "libzstd.so.1")
    library.ZSTD_compressBound.restype = library.ZSTD_compress.restype = ctypes.c_size_t
    library.ZSTD_compressBound.argtypes = [ctypes.c_size_t]
    room = library.ZSTD_compressBound(len(data))
    out = ctypes.create_string_buffer(room)
    size = library.ZSTD_compress(
        out, ctypes.c_size_t(room), data, ctypes.c_size_t(len(data)), ctypes.c_int(3)
    )
    return out.raw[:size]


def compressed(data: bytes, version: int, method: int) -> bytes:
    """Method 0 is zlib, 1 zstd. Sizes grew with the versions: none, 32 bits, 64 bits."""
    body = zstd(data) if method else zlib.compress(data)
    digest = b"\x11" * 8
    head = b"CCOB" + struct.pack("<HH", version, method)
    if version == 1:
        return head + struct.pack("<I", len(data)) + digest + body
    if version == 2:
        return head + struct.pack("<II", 24 + len(body), len(data)) + digest + body
    return head + struct.pack("<QQ", 32 + len(body), len(data)) + digest + body


def runs(image: bytes, chip: str) -> int:
    module = engine.Module(image, chip)
    x = engine.Array(np.zeros(1, np.int32))
    module.run("number", 1, 1, x)
    module.unload()
    return int(x.view[0])


MANY = (
    (HOST, b""),
    (hip_entry("gfx1100"), ("gfx1100", 11)),
    (hip_entry("gfx90a:xnack+"), ("gfx90a", 1)),
    (hip_entry("gfx90a:xnack-"), ("gfx90a", 2)),
    (hip_entry("gfx942"), ("gfx942", 42)),
    (hip_entry("gfx1200"), ("gfx1200", 12)),
)


def many() -> bytes:
    return bundle(*((name, code(*what) if what else b"") for name, what in MANY))


@pytest.mark.parametrize(("chip", "number"), [("gfx1100", 11), ("gfx942", 42), ("gfx1200", 12)])
def test_each_chip_finds_its_own(chip: str, number: int) -> None:
    assert runs(many(), chip) == number


def test_features_must_be_those_of_the_device() -> None:
    assert runs(many(), "gfx90a") == 2  # whose xnack is off
    only = bundle((HOST, b""), (hip_entry("gfx90a:xnack+"), code("gfx90a", 1)))
    with pytest.raises(engine.LoadError, match=r"gfx90a:sramecc\+:xnack- .*gfx90a:xnack\+"):
        engine.Module(only, "gfx90a")


def test_an_absent_chip_is_named_with_those_present() -> None:
    with pytest.raises(engine.LoadError, match=r"no code object for gfx1030.*gfx1100.*gfx942"):
        engine.Module(many(), "gfx1030")


@pytest.mark.parametrize("version", [1, 2, 3])
@pytest.mark.parametrize("method", [0, 1])
def test_compressed_bundles(version: int, method: int) -> None:
    assert runs(compressed(many(), version, method), "gfx942") == 42


def generic(name: str, number: int) -> bytes:
    return engine.hip(SOURCE, name, f"-DNUMBER={number}", "-mcode-object-version=6")


@pytest.mark.parametrize(
    ("chip", "name"),
    [
        ("gfx942", "gfx9-4-generic"),
        ("gfx1030", "gfx10-3-generic"),
        ("gfx1151", "gfx11-generic"),
        ("gfx1201", "gfx12-generic"),
    ],
)
def test_code_of_a_generic_processor_runs_where_there_is_no_better(chip: str, name: str) -> None:
    common = (hip_entry(name), generic(name, 7))
    assert runs(common[1], chip) == 7
    assert runs(bundle((HOST, b""), common), chip) == 7
    assert runs(bundle(common, (hip_entry(chip), code(chip, 8))), chip) == 8


def test_damage_is_named() -> None:
    good = compressed(many(), 2, 0)
    for image, message in (
        (good[:200], "zlib data is damaged"),
        (compressed(many(), 3, 1)[:-50], "zstd data is damaged"),
        (good[:6] + b"\x07\x00" + good[8:], "unknown method 7"),
        (good[:4] + b"\x09\x00" + good[6:], "unknown header"),
        (good[:12] + b"\xff\xff\xff\x7f" + good[16:], "impossible sizes"),
        (compressed(good, 2, 0), "holds another compressed bundle"),
        (many()[:4000], "entry beyond the end"),
        (b"__CLANG_OFFLOAD_BUNDLE__" + b"\xff" * 40, "impossible entry count"),
        (b"#!/bin/sh" + bytes(80), "neither an ELF image nor an offload bundle"),
    ):
        with pytest.raises(engine.LoadError, match=message):
            engine.Module(image, "gfx942")
