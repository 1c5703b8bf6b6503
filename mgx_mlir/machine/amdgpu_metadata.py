"""The metadata of an AMDGPU code object's functions: the msgpack note in the ELF file.

https://llvm.org/docs/AMDGPUUsage.html#code-object-v5-metadata. Reads only; every offset is
checked, so that a damaged file gives ValueError and nothing else.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import Any

from mgx_mlir.machine import elf

NT_AMDGPU_METADATA = 32

# Our name of a figure, and the note's.
_FIGURES: dict[str, str] = {
    "agpr": ".agpr_count",
    "kernarg_bytes": ".kernarg_segment_size",
    "lds_bytes": ".group_segment_fixed_size",
    "scratch_bytes": ".private_segment_fixed_size",
    "sgpr": ".sgpr_count",
    "sgpr_spills": ".sgpr_spill_count",
    "vgpr": ".vgpr_count",
    "vgpr_spills": ".vgpr_spill_count",
    "wave_size": ".wavefront_size",
}


def kernel_stats(data: bytes) -> dict[str, dict[str, int]]:
    """Registers, LDS, private memory (bytes), spills and wave size, by function name.

    ValueError when `data` is not an AMDGPU code object.
    """
    kernels = code_object_metadata(data).get("amdhsa.kernels", [])
    return {
        kernel[".name"]: {name: int(kernel.get(key, 0)) for name, key in _FIGURES.items()}
        for kernel in kernels
    }


def code_object_metadata(data: bytes) -> dict[str, Any]:
    """The metadata note as Python values; ValueError when there is none."""
    try:
        for kind, name, content in _notes(data):
            if kind == NT_AMDGPU_METADATA and name == b"AMDGPU":
                value = _Msgpack(content).read()
                if isinstance(value, dict):
                    return value
    except (struct.error, IndexError, UnicodeDecodeError) as error:
        raise ValueError(f"damaged code object: {error}") from error
    raise ValueError("not an AMDGPU code object: it has no metadata note")


def _notes(data: bytes) -> Iterator[tuple[int, bytes, bytes]]:
    if data[:6] != b"\x7fELF\x02\x01" or elf.HEADER.unpack_from(data)[2] != elf.EM_AMDGPU:
        raise ValueError("not an AMDGPU code object: it is no 64-bit ELF file for AMDGPU")
    header = elf.HEADER.unpack_from(data)
    table, entry_size, count = header[6], header[11], header[12]
    for number in range(count):
        section = elf.SECTION.unpack_from(data, table + number * entry_size)
        kind, offset, size = section[1], section[4], section[5]
        if kind != elf.SHT_NOTE or offset + size > len(data):
            continue
        position = offset
        while position + 12 <= offset + size:
            name_size, content_size, note = struct.unpack_from("<III", data, position)
            name_at = position + 12
            content_at = name_at + _aligned(name_size)
            position = content_at + _aligned(content_size)
            name = data[name_at : name_at + name_size].rstrip(b"\0")
            yield note, name, data[content_at : content_at + content_size]


def _aligned(size: int) -> int:
    return (size + 3) & ~3


class _Msgpack:
    """A reader of the msgpack types that code objects use (all but extensions)."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._at = 0

    def read(self, depth: int = 0) -> Any:
        if depth > 16:
            raise ValueError("damaged code object: metadata nested too deeply")
        code = self._number("B")
        if code < 0x80:
            return code
        if code < 0x90:
            return self._map(code & 15, depth)
        if code < 0xA0:
            return self._array(code & 15, depth)
        if code < 0xC0:
            return self._text(code & 31)
        if code >= 0xE0:
            return code - 256
        if code in _CONSTANTS:
            return _CONSTANTS[code]
        if code in _NUMBERS:
            return self._number(_NUMBERS[code])
        if code in _SIZED:
            kind, size = _SIZED[code]
            length = self._number(size)
            if kind == "map":
                return self._map(length, depth)
            if kind == "array":
                return self._array(length, depth)
            return self._text(length) if kind == "text" else self._bytes(length)
        raise ValueError(f"damaged code object: metadata has an unknown type 0x{code:02x}")

    def _number(self, format_: str) -> Any:
        (value,) = struct.unpack_from(">" + format_, self._data, self._at)
        self._at += struct.calcsize(format_)
        return value

    def _bytes(self, length: int) -> bytes:
        if self._at + length > len(self._data):
            raise ValueError("damaged code object: metadata is cut short")
        self._at += length
        return self._data[self._at - length : self._at]

    def _text(self, length: int) -> str:
        return self._bytes(length).decode()

    def _array(self, length: int, depth: int) -> list[Any]:
        return [self.read(depth + 1) for _ in range(length)]

    def _map(self, length: int, depth: int) -> dict[Any, Any]:
        pairs = [(self.read(depth + 1), self.read(depth + 1)) for _ in range(length)]
        return {key: value for key, value in pairs if isinstance(key, str)}


_CONSTANTS: dict[int, Any] = {0xC0: None, 0xC2: False, 0xC3: True}
_NUMBERS = {
    0xCA: "f",
    0xCB: "d",
    0xCC: "B",
    0xCD: "H",
    0xCE: "I",
    0xCF: "Q",
    0xD0: "b",
    0xD1: "h",
    0xD2: "i",
    0xD3: "q",
}
_SIZED = {
    0xC4: ("bytes", "B"),
    0xC5: ("bytes", "H"),
    0xC6: ("bytes", "I"),
    0xD9: ("text", "B"),
    0xDA: ("text", "H"),
    0xDB: ("text", "I"),
    0xDC: ("array", "H"),
    0xDD: ("array", "I"),
    0xDE: ("map", "H"),
    0xDF: ("map", "I"),
}
