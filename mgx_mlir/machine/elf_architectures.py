"""The architectures that the linker knows: relocations, stubs and pages, as one table.

Facts: the System V ABI's x86-64 supplement, chapters 4 and 5; ELF for the Arm 64-bit
Architecture, chapter 5.7; https://llvm.org/docs/AMDGPUUsage.html#amdgpu-relocation-records.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from mgx_mlir.errors import CompilerError
from mgx_mlir.machine import elf

# Bytes of a jump through a pointer, padded to its alignment.
STUB_SIZE = 16


class UnsupportedObjectError(CompilerError):
    """The object holds something that this linker does not know."""


# field(word, value, place): bytes of code or data at address `place` that refer to `value`.
_Field = Callable[[int, int, int], int]


@dataclass(frozen=True)
class Architecture:
    """The facts about an architecture that linking needs.

    `page`: the largest page that its systems use. `fields`: by relocation, of four bytes, or of
    eight where `long` has it. `calls` are the relocations that may refer to a stub; `pointer` is
    the loader's relocation of a pointer to a symbol.
    """

    number: int
    page: int
    fields: Mapping[int, _Field]
    long: frozenset[int] = frozenset()
    calls: frozenset[int] = frozenset()
    pointer: int = 0
    stub: Callable[[int, int], bytes] = lambda stub, pointer: b""


def _distance(_: int, value: int, place: int) -> int:
    return _signed(value - place, 32)


def _signed(number: int, bits: int) -> int:
    """The two's complement of a number, where it fits."""
    if not -(1 << (bits - 1)) <= number < 1 << (bits - 1):
        raise UnsupportedObjectError(f"a distance of {number} bytes")
    return number & ((1 << bits) - 1)


def _x86_stub(stub: int, pointer: int) -> bytes:
    """jmp *disp(%rip)"""
    return b"\xff\x25" + struct.pack("<i", pointer - (stub + 6))


def _branch(word: int, value: int, place: int) -> int:
    return word & ~0x3FFFFFF | _signed(value - place >> 2, 26)


def _page_distance(word: int, value: int, place: int) -> int:
    """adrp: the two lowest bits of the distance in pages of 4 KiB stand apart."""
    pages = _signed((value >> 12) - (place >> 12), 21)
    return word & 0x9F00001F | (pages & 3) << 29 | pages >> 2 << 5


def _low_bits(scale: int) -> _Field:
    """The offset within its page of 4 KiB, in units of 1 << scale bytes."""

    def field(word: int, value: int, _: int) -> int:
        return word & ~(0xFFF << 10) | (value & 0xFFF) >> scale << 10

    return field


def _arm_stub(stub: int, pointer: int) -> bytes:
    """adrp x16, pointer; ldr x17, [x16, pointer]; br x17"""
    words = _page_distance(0x90000010, pointer, stub), _low_bits(3)(0xF9400211, pointer, 0)
    return struct.pack("<3I", *words, 0xD61F0220)


def _distance_word(number: int) -> _Field:
    """A word of the distance, without its sign."""
    return lambda _, value, place: value - place >> 32 * number & 0xFFFFFFFF


_X86 = Architecture(
    elf.EM_X86_64,
    0x1000,
    {2: _distance, 4: _distance},
    calls=frozenset((4,)),
    pointer=6,
    stub=_x86_stub,
)
_ARM = Architecture(
    elf.EM_AARCH64,
    0x10000,
    {
        261: _distance,
        275: _page_distance,
        277: _low_bits(0),
        278: _low_bits(0),
        282: _branch,
        283: _branch,
        284: _low_bits(1),
        285: _low_bits(2),
        286: _low_bits(3),
        299: _low_bits(4),
    },
    calls=frozenset((282, 283)),
    pointer=1025,
    stub=_arm_stub,
)
_AMDGPU = Architecture(
    elf.EM_AMDGPU,
    0x1000,
    {
        4: _distance,
        5: lambda _, value, place: value - place & (1 << 64) - 1,
        10: _distance_word(0),
        11: _distance_word(1),
    },
    long=frozenset((5,)),
)
ARCHITECTURES = {machine.number: machine for machine in (_X86, _ARM, _AMDGPU)}
