"""A relocatable x86-64 object made loadable: what `ld.lld -shared` does, in this process.

Objects of this code generator are simple: code, constants, and calls of libm and memcpy.
So the work is to lay out three segments (constants, code, pointers), the dynamic symbols
and a few relocations. A process for each kernel would cost half as much as compiling it.

    | header, symbols, hash, relocations, constants | code, stubs | dynamic, pointers |

Facts: the System V ABI's x86-64 supplement, chapters 4 and 5.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import Any

PAGE = 0x1000

_HEADER = struct.Struct("<16sHHIQQQIHHHHHH")
_SECTION = struct.Struct("<IIQQQQIIQQ")
_SEGMENT = struct.Struct("<IIQQQQQQ")
_SYMBOL = struct.Struct("<IBBHQQ")
_RELOCATION = struct.Struct("<QQq")
_DYNAMIC = struct.Struct("<QQ")

ET_DYN, EM_X86_64 = 3, 62
SHT_PROGBITS, SHT_SYMTAB, SHT_STRTAB, SHT_RELA, SHT_DYNAMIC, SHT_DYNSYM = 1, 2, 3, 4, 6, 11
SHF_WRITE, SHF_ALLOC, SHF_EXECUTE = 1, 2, 4
PT_LOAD, PT_DYNAMIC, PT_GNU_STACK = 1, 2, 0x6474E551
READ, READ_EXECUTE, READ_WRITE = 4, 5, 6
DT_HASH, DT_STRTAB, DT_SYMTAB, DT_RELA, DT_RELASZ, DT_RELAENT = 4, 5, 6, 7, 8, 9
DT_STRSZ, DT_SYMENT, DT_FLAGS, DF_BIND_NOW = 10, 11, 30, 8
STB_GLOBAL, STT_FUNC, STV_DEFAULT = 1, 2, 0
R_PC32, R_GLOB_DAT, R_PLT32 = 2, 6, 4
# jmp *disp(%rip), padded to its alignment.
_STUB_SIZE = 16


class UnsupportedObjectError(Exception):
    """The object holds something that this linker does not know."""


@dataclass
class _Section:
    kind: int
    flags: int
    alignment: int
    data: bytes
    link: int
    info: int
    name: bytes
    address: int = -1


@dataclass(frozen=True)
class _Symbol:
    name: bytes
    info: int
    other: int
    section: int
    value: int
    size: int


def link(data: bytes) -> bytes:
    """The shared object of a relocatable object. Its undefined symbols stay so.

    Raises UnsupportedObjectError for sections or relocations beyond those of plain code.
    """
    sections, symbols = _read(data)
    return _Layout(sections, symbols).build()


def _read(data: bytes) -> tuple[list[_Section], list[_Symbol]]:
    header = _HEADER.unpack_from(data)
    start, count, names_index = header[6], header[12], header[13]
    raw = [_SECTION.unpack_from(data, start + i * _SECTION.size) for i in range(count)]
    names = data[raw[names_index][4] :][: raw[names_index][5]]
    sections = [
        _Section(kind, flags, max(align, 1), data[at : at + size], link, info, _text(names, name))
        for name, kind, flags, _, at, size, link, info, align, _ in raw
    ]
    symbols: list[_Symbol] = []
    for section in sections:
        if section.kind == SHT_SYMTAB:
            strings = sections[section.link].data
            for name, *rest in _SYMBOL.iter_unpack(section.data):
                symbols.append(_Symbol(_text(strings, name), *rest))
    return sections, symbols


def _text(strings: bytes, at: int) -> bytes:
    return strings[at : strings.index(b"\0", at)]


class _Layout:
    def __init__(self, sections: list[_Section], symbols: list[_Symbol]) -> None:
        self.sections, self.symbols = sections, symbols
        # Nothing unwinds through a kernel.
        loaded = [s for s in sections if s.flags & SHF_ALLOC and s.data and s.name != b".eh_frame"]
        for section in loaded:
            if section.kind != SHT_PROGBITS or section.flags & SHF_WRITE:
                raise UnsupportedObjectError(section.name.decode())
        self.code = [s for s in loaded if s.flags & SHF_EXECUTE]
        self.constants = [s for s in loaded if not s.flags & SHF_EXECUTE]
        self.relocations = [
            (sections[s.info], *entry)
            for s in sections
            if s.kind == SHT_RELA and sections[s.info] in loaded
            for entry in _RELOCATION.iter_unpack(s.data)
        ]
        called = {
            symbols[info >> 32].name
            for _, _, info, _ in self.relocations
            if symbols[info >> 32].section == 0
        }
        self.imports = sorted(called)
        self.exports = sorted(
            (
                s
                for s in symbols
                if s.section and s.info == STB_GLOBAL << 4 | STT_FUNC and s.other == STV_DEFAULT
            ),
            key=lambda s: s.name,
        )

    def build(self) -> bytes:
        image = bytearray(_HEADER.size + 5 * _SEGMENT.size)
        strings = bytearray(b"\0")
        places = {}
        for name in [*self.imports, *(s.name for s in self.exports)]:
            places[name] = len(strings)
            strings += name + b"\0"
        count = 1 + len(self.imports) + len(self.exports)

        # The first segment: what the loader reads, and constants.
        symbol_table = _reserve(image, count * _SYMBOL.size, 8)
        hash_table = _append(
            image, _hash_table([*self.imports, *(s.name for s in self.exports)]), 4
        )
        string_table = _append(image, strings, 1)
        relocation_table = _reserve(image, len(self.imports) * _RELOCATION.size, 8)
        for section in self.constants:
            section.address = _append(image, section.data, section.alignment)
        first_end = len(image)

        # Code and stubs, one page further on in memory than in the file.
        code = _reserve(image, 0, 64)
        for section in self.code:
            section.address = _append(image, section.data, section.alignment) + PAGE
        stubs = _reserve(image, len(self.imports) * _STUB_SIZE, 16)
        code_end = len(image)

        # What the loader writes, two pages further on.
        dynamic_entries = [
            (DT_HASH, hash_table),
            (DT_STRTAB, string_table),
            (DT_SYMTAB, symbol_table),
            (DT_STRSZ, len(strings)),
            (DT_SYMENT, _SYMBOL.size),
            (DT_FLAGS, DF_BIND_NOW),
        ]
        if self.imports:
            dynamic_entries += [
                (DT_RELA, relocation_table),
                (DT_RELASZ, len(self.imports) * _RELOCATION.size),
                (DT_RELAENT, _RELOCATION.size),
            ]
        dynamic_entries.append((0, 0))
        packed = b"".join(_DYNAMIC.pack(*entry) for entry in dynamic_entries)
        dynamic = _append(image, packed, 64)
        pointers = _reserve(image, len(self.imports) * 8, 8)
        end = len(image)

        targets: dict[bytes, int] = {}
        for number, name in enumerate(self.imports):
            stub, pointer = stubs + number * _STUB_SIZE, pointers + number * 8
            distance = (pointer + 2 * PAGE) - (stub + PAGE + 6)
            image[stub : stub + 6] = b"\xff\x25" + struct.pack("<i", distance)
            targets[name] = stub + PAGE
            entry = _RELOCATION.pack(pointer + 2 * PAGE, (number + 1) << 32 | R_GLOB_DAT, 0)
            _put(image, relocation_table + number * _RELOCATION.size, entry)
            entry = _SYMBOL.pack(places[name], STB_GLOBAL << 4, 0, 0, 0, 0)
            _put(image, symbol_table + (number + 1) * _SYMBOL.size, entry)
        for number, symbol in enumerate(self.exports, 1 + len(self.imports)):
            address = self._address(symbol)
            entry = _SYMBOL.pack(places[symbol.name], symbol.info, 0, 2, address, symbol.size)
            _put(image, symbol_table + number * _SYMBOL.size, entry)
        for section, offset, info, addend in self.relocations:
            self._relocate(image, section, offset, info, addend, targets)

        segments = [
            (PT_LOAD, READ, 0, first_end, PAGE, 0),
            (PT_LOAD, READ_EXECUTE, code, code_end - code, PAGE, 1),
            (PT_LOAD, READ_WRITE, dynamic, end - dynamic, PAGE, 2),
            (PT_DYNAMIC, READ_WRITE, dynamic, len(packed), 8, 2),
            (PT_GNU_STACK, READ_WRITE, 0, 0, 16, 0),
        ]
        for number, (kind, flags, at, size, alignment, page) in enumerate(segments):
            address = at + page * PAGE
            entry = _SEGMENT.pack(kind, flags, at, address, address, size, size, alignment)
            _put(image, _HEADER.size + number * _SEGMENT.size, entry)
        # Sections serve disassemblers; the loader does not read them.
        rows = [
            (b"", 0, 0, 0, 0, 0, 0, 0, 0, 0),
            (
                b".dynsym",
                SHT_DYNSYM,
                SHF_ALLOC,
                symbol_table,
                symbol_table,
                count * _SYMBOL.size,
                3,
                1,
                8,
                _SYMBOL.size,
            ),
            (
                b".text",
                SHT_PROGBITS,
                SHF_ALLOC | SHF_EXECUTE,
                code + PAGE,
                code,
                code_end - code,
                0,
                0,
                64,
                0,
            ),
            (
                b".dynstr",
                SHT_STRTAB,
                SHF_ALLOC,
                string_table,
                string_table,
                len(strings),
                0,
                0,
                1,
                0,
            ),
            (
                b".dynamic",
                SHT_DYNAMIC,
                SHF_ALLOC | SHF_WRITE,
                dynamic + 2 * PAGE,
                dynamic,
                len(packed),
                3,
                0,
                8,
                _DYNAMIC.size,
            ),
        ]
        _finish(image, rows)
        return bytes(image)

    def _address(self, symbol: _Symbol) -> int:
        if symbol.section >= len(self.sections) or self.sections[symbol.section].address < 0:
            raise UnsupportedObjectError(symbol.name.decode())
        return self.sections[symbol.section].address + symbol.value

    def _relocate(
        self,
        image: bytearray,
        section: _Section,
        offset: int,
        info: int,
        addend: int,
        targets: dict[bytes, int],
    ) -> None:
        symbol, kind = self.symbols[info >> 32], info & 0xFFFFFFFF
        if kind not in (R_PC32, R_PLT32) or (symbol.section == 0 and kind != R_PLT32):
            raise UnsupportedObjectError(f"relocation {kind} of {symbol.name.decode()}")
        target = self._address(symbol) if symbol.section else targets[symbol.name]
        place = section.address + offset
        at = place - (PAGE if section.flags & SHF_EXECUTE else 0)
        _put(image, at, struct.pack("<i", target + addend - place))


def _reserve(image: bytearray, size: int, alignment: int) -> int:
    return _append(image, bytes(size), alignment)


def _append(image: bytearray, data: bytes | bytearray, alignment: int) -> int:
    image += bytes(-len(image) % alignment)
    place = len(image)
    image += data
    return place


def _put(image: bytearray, place: int, data: bytes) -> None:
    image[place : place + len(data)] = data


def _hash_table(names: list[bytes]) -> bytes:
    """A System V hash table of one bucket: kernels have a handful of symbols."""
    count = len(names) + 1
    chain = [0, *range(2, count), 0] if names else [0]
    return struct.pack(f"<{3 + count}I", 1, count, 1 if names else 0, *chain)


def _finish(image: bytearray, rows: list[tuple[Any, ...]]) -> None:
    """Appends the section table and its names, and writes the file's header."""
    names = bytearray()
    starts = []
    for row in rows:
        starts.append(len(names))
        names += row[0] + b"\0"
    starts.append(len(names))
    names += b".shstrtab\0"
    place = _append(image, names, 1)
    last = (b".shstrtab", SHT_STRTAB, 0, 0, place, len(names), 0, 0, 1, 0)
    table = b"".join(
        _SECTION.pack(start, *row[1:]) for start, row in zip(starts, [*rows, last], strict=True)
    )
    start = _append(image, table, 8)
    identification = b"\x7fELF\x02\x01\x01" + bytes(9)
    header = _HEADER.pack(
        identification,
        ET_DYN,
        EM_X86_64,
        1,
        0,
        _HEADER.size,
        start,
        0,
        _HEADER.size,
        _SEGMENT.size,
        5,
        _SECTION.size,
        len(rows) + 1,
        len(rows),
    )
    _put(image, 0, header)
