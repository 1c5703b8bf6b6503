"""onnxruntime as it runs on a processor without AVX-512, on one that has it.

onnxruntime asks the processor what it has, and nothing tells it otherwise. Here a copy of its
library asks a handler of signals, which leaves out AVX-512, AVX-VNNI and AMX; no instruction but
`cpuid` differs.
"""

from __future__ import annotations

import importlib.util
import os
import re
import shutil
import struct
import subprocess
from pathlib import Path

_ASK, _STOP = b"\x0f\xa2", b"\x0f\x0b"
# Python runs it as it starts, before the library asks.
_START = """import ctypes, os
ctypes.CDLL(os.path.join(os.path.dirname(__file__), "handler.so")).answer_cpuid()
"""


def make(folder: Path) -> None:
    """Writes the copy to a folder: with that in PYTHONPATH, processes take it.

    Raises SystemExit without the tools for it.
    """
    found = importlib.util.find_spec("onnxruntime")
    disassembler = shutil.which("llvm-objdump-22") or shutil.which("objdump")
    compiler = shutil.which("cc")
    if found is None or found.origin is None or disassembler is None or compiler is None:
        raise SystemExit("onnxruntime, objdump and cc are needed")
    source, handler = Path(__file__).with_suffix(".c"), folder / "handler.so"
    subprocess.run([compiler, "-O1", "-shared", "-fPIC", "-o", handler, source], check=True)
    (folder / "sitecustomize.py").write_text(_START)
    package = folder / "onnxruntime"
    shutil.copytree(Path(found.origin).parent, package, copy_function=os.symlink)
    for library in (package / "capi").glob("onnxruntime_pybind11_state*.so"):
        data = _changed(library, disassembler)
        library.unlink()
        library.write_bytes(data)


def _changed(library: Path, disassembler: str) -> bytes:
    """The library with each `cpuid` replaced by an instruction that raises SIGILL."""
    command = [disassembler, "-d", "--no-show-raw-insn", str(library)]
    text = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    data = bytearray(library.read_bytes())
    places = [int(x, 16) for x in re.findall(r"^\s*([0-9a-f]+):\s+cpuid\b", text, re.MULTILINE)]
    segments = _segments(bytes(data))
    for place in places:
        (offset,) = (place - at + start for start, at, size in segments if 0 <= place - at < size)
        assert data[offset : offset + 2] == _ASK
        data[offset : offset + 2] = _STOP
    assert places
    return bytes(data)


def _segments(data: bytes) -> list[tuple[int, int, int]]:
    """The loaded segments of an ELF file of 64 bits: offset in the file, address, size."""
    (first,) = struct.unpack_from("<Q", data, 32)
    size, count = struct.unpack_from("<HH", data, 54)
    found = []
    for place in range(first, first + count * size, size):
        kind, _, offset, address, _, length = struct.unpack_from("<IIQQQQ", data, place)
        if kind == 1:
            found.append((offset, address, length))
    return found
