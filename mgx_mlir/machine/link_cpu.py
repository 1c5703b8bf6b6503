"""A relocatable object made loadable, as `ld.lld -shared` does it, in this process.

Objects of this code generator are simple: code, constants, and calls of libm and memcpy.
So the work is to lay out three segments (constants, code, pointers), the dynamic symbols
and a few relocations. A process for each kernel would cost half as much as compiling it.

    | header, symbols, hash, relocations, constants | code, stubs | dynamic, pointers |
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import Any

from mgx_mlir.machine import elf
from mgx_mlir.machine.elf_architectures import (
    ARCHITECTURES,
    STUB_SIZE,
    Architecture,
    UnsupportedObjectError,
)


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


@dataclass(frozen=True)
class _Offsets:
    """Offsets in the file, of tables and of the segments' ends; those of names in `strings`."""

    names: dict[bytes, int]
    symbols: int
    strings: int
    string_bytes: int
    relocations: int
    constants_end: int
    code: int
    stubs: int
    code_end: int
    dynamic: int
    dynamic_bytes: int
    pointers: int
    end: int


def link(data: bytes) -> bytes:
    """The shared object of a relocatable object. Its undefined symbols stay so.

    Raises UnsupportedObjectError for sections or relocations beyond those of plain code.
    """
    sections, symbols = _read(data)
    number = elf.HEADER.unpack_from(data)[2]
    if number not in ARCHITECTURES:
        raise UnsupportedObjectError(f"machine {number}")
    return _Layout(sections, symbols, ARCHITECTURES[number]).build()


def read_imports(data: bytes) -> list[str]:
    """The names that a shared object of `link` leaves to the loader, sorted."""
    header = elf.HEADER.unpack_from(data)
    start, count = header[6], header[12]
    tables = [elf.SECTION.unpack_from(data, start + i * elf.SECTION.size) for i in range(count)]
    found = []
    for _, kind, _, _, at, size, link_, *_ in tables:
        if kind == elf.SHT_DYNSYM:
            strings = data[tables[link_][4] :][: tables[link_][5]]
            for name, _, _, section, *_ in elf.SYMBOL.iter_unpack(data[at : at + size]):
                if name and section == elf.SHN_UNDEFINED:
                    found.append(elf.text(strings, name).decode())
    return sorted(found)


def _read(data: bytes) -> tuple[list[_Section], list[_Symbol]]:
    header = elf.HEADER.unpack_from(data)
    start, count, names_index = header[6], header[12], header[13]
    raw = [elf.SECTION.unpack_from(data, start + i * elf.SECTION.size) for i in range(count)]
    names = data[raw[names_index][4] :][: raw[names_index][5]]
    sections = [
        _Section(
            kind, flags, max(align, 1), data[at : at + size], link, info, elf.text(names, name)
        )
        for name, kind, flags, _, at, size, link, info, align, _ in raw
    ]
    symbols: list[_Symbol] = []
    for section in sections:
        if section.kind == elf.SHT_SYMTAB:
            strings = sections[section.link].data
            for name, *rest in elf.SYMBOL.iter_unpack(section.data):
                symbols.append(_Symbol(elf.text(strings, name), *rest))
    return sections, symbols


class _Layout:
    def __init__(
        self, sections: list[_Section], symbols: list[_Symbol], architecture: Architecture
    ) -> None:
        self.sections, self.symbols, self.architecture = sections, symbols, architecture
        # Nothing unwinds through a kernel.
        loaded = [
            s for s in sections if s.flags & elf.SHF_ALLOC and s.data and s.name != b".eh_frame"
        ]
        for section in loaded:
            if section.kind != elf.SHT_PROGBITS or section.flags & elf.SHF_WRITE:
                raise UnsupportedObjectError(section.name.decode())
        self.code = [s for s in loaded if s.flags & elf.SHF_EXECUTE]
        self.constants = [s for s in loaded if not s.flags & elf.SHF_EXECUTE]
        self.relocations = [
            (sections[s.info], *entry)
            for s in sections
            if s.kind == elf.SHT_RELA and sections[s.info] in loaded
            for entry in elf.RELOCATION.iter_unpack(s.data)
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
                if s.section
                and s.info == elf.STB_GLOBAL << 4 | elf.STT_FUNC
                and s.other == elf.STV_DEFAULT
            ),
            key=lambda s: s.name,
        )

    def build(self) -> bytes:
        image = bytearray(elf.HEADER.size + 5 * elf.SEGMENT.size)
        at = self._lay_out(image)
        targets = self._import(image, at)
        for number, symbol in enumerate(self.exports, 1 + len(self.imports)):
            name, address = at.names[symbol.name], self._address(symbol)
            entry = elf.SYMBOL.pack(name, symbol.info, 0, 2, address, symbol.size)
            _put(image, at.symbols + number * elf.SYMBOL.size, entry)
        for section, offset, info, addend in self.relocations:
            self._relocate(image, section, offset, info, addend, targets)
        _put_segments(image, at, self.architecture.page)
        _finish(image, self._section_rows(at), self.architecture.number)
        return bytes(image)

    def _lay_out(self, image: bytearray) -> _Offsets:
        """Appends all that is loaded; symbols, relocations, stubs and pointers stay zero."""
        page, count = self.architecture.page, len(self.imports)
        names = [*self.imports, *(s.name for s in self.exports)]
        strings, places = bytearray(b"\0"), {}
        for name in names:
            places[name] = len(strings)
            strings += name + b"\0"

        # The first segment: constants, and the tables that the loader reads.
        symbols = _reserve(image, (1 + len(names)) * elf.SYMBOL.size, 8)
        hashes = _append(image, _hash_table(names), 4)
        string_table = _append(image, strings, 1)
        relocations = _reserve(image, count * elf.RELOCATION.size, 8)
        for section in self.constants:
            section.address = _append(image, section.data, section.alignment)
        constants_end = len(image)

        # Code and stubs, one page further on in memory than in the file.
        code = _reserve(image, 0, 64)
        for section in self.code:
            section.address = _append(image, section.data, section.alignment) + page
        stubs = _reserve(image, count * STUB_SIZE, 16)
        code_end = len(image)

        # The tables that the loader writes, two pages further on.
        entries = [
            (elf.DT_HASH, hashes),
            (elf.DT_STRTAB, string_table),
            (elf.DT_SYMTAB, symbols),
            (elf.DT_STRSZ, len(strings)),
            (elf.DT_SYMENT, elf.SYMBOL.size),
            (elf.DT_FLAGS, elf.DF_BIND_NOW),
        ]
        if count:
            entries += [
                (elf.DT_RELA, relocations),
                (elf.DT_RELASZ, count * elf.RELOCATION.size),
                (elf.DT_RELAENT, elf.RELOCATION.size),
            ]
        packed = b"".join(elf.DYNAMIC.pack(*entry) for entry in [*entries, (0, 0)])
        dynamic = _append(image, packed, 64)
        pointers = _reserve(image, count * 8, 8)
        return _Offsets(
            places, symbols, string_table, len(strings), relocations, constants_end,
            code, stubs, code_end, dynamic, len(packed), pointers, len(image),
        )  # fmt: skip

    def _import(self, image: bytearray, at: _Offsets) -> dict[bytes, int]:
        """Writes a stub, a relocation and a symbol for each import; gives the stubs' addresses."""
        page = self.architecture.page
        targets: dict[bytes, int] = {}
        for number, name in enumerate(self.imports):
            stub, pointer = at.stubs + number * STUB_SIZE, at.pointers + number * 8
            targets[name], pointer = stub + page, pointer + 2 * page
            _put(image, stub, self.architecture.stub(targets[name], pointer))
            kind = (number + 1) << 32 | self.architecture.pointer
            entry = elf.RELOCATION.pack(pointer, kind, 0)
            _put(image, at.relocations + number * elf.RELOCATION.size, entry)
            entry = elf.SYMBOL.pack(at.names[name], elf.STB_GLOBAL << 4, 0, 0, 0, 0)
            _put(image, at.symbols + (number + 1) * elf.SYMBOL.size, entry)
        return targets

    def _section_rows(self, at: _Offsets) -> list[tuple[Any, ...]]:
        """The sections. They serve disassemblers; the loader does not read them."""
        page, count = self.architecture.page, 1 + len(self.imports) + len(self.exports)
        read, write = elf.SHF_ALLOC, elf.SHF_ALLOC | elf.SHF_WRITE
        run = elf.SHF_ALLOC | elf.SHF_EXECUTE
        size, code_size, last = elf.SYMBOL.size, at.code_end - at.code, elf.DYNAMIC.size
        return [
            (b"", 0, 0, 0, 0, 0, 0, 0, 0, 0),
            (b".dynsym", elf.SHT_DYNSYM, read, at.symbols, at.symbols, count * size, 3, 1, 8, size),
            (b".text", elf.SHT_PROGBITS, run, at.code + page, at.code, code_size, 0, 0, 64, 0),
            (b".dynstr", elf.SHT_STRTAB, read, at.strings, at.strings, at.string_bytes, 0, 0, 1, 0),
            (
                b".dynamic", elf.SHT_DYNAMIC, write, at.dynamic + 2 * page, at.dynamic,
                at.dynamic_bytes, 3, 0, 8, last,
            ),
        ]  # fmt: skip

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
        architecture = self.architecture
        if kind not in architecture.fields or (
            symbol.section == 0 and kind not in architecture.calls
        ):
            raise UnsupportedObjectError(f"relocation {kind} of {symbol.name.decode()}")
        target = self._address(symbol) if symbol.section else targets[symbol.name]
        place = section.address + offset
        at = place - (architecture.page if section.flags & elf.SHF_EXECUTE else 0)
        (word,) = struct.unpack_from("<I", image, at)
        _put(image, at, struct.pack("<I", architecture.fields[kind](word, target + addend, place)))


def _put_segments(image: bytearray, at: _Offsets, page_size: int) -> None:
    code_size, written = at.code_end - at.code, at.end - at.dynamic
    segments = [
        (elf.PT_LOAD, elf.READ, 0, at.constants_end, page_size, 0),
        (elf.PT_LOAD, elf.READ_EXECUTE, at.code, code_size, page_size, 1),
        (elf.PT_LOAD, elf.READ_WRITE, at.dynamic, written, page_size, 2),
        (elf.PT_DYNAMIC, elf.READ_WRITE, at.dynamic, at.dynamic_bytes, 8, 2),
        (elf.PT_GNU_STACK, elf.READ_WRITE, 0, 0, 16, 0),
    ]
    for number, (kind, flags, offset, size, alignment, page) in enumerate(segments):
        address = offset + page * page_size
        entry = elf.SEGMENT.pack(kind, flags, offset, address, address, size, size, alignment)
        _put(image, elf.HEADER.size + number * elf.SEGMENT.size, entry)


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


def _finish(image: bytearray, rows: list[tuple[Any, ...]], machine: int) -> None:
    """Appends the section table and its names, and writes the file's header."""
    names = bytearray()
    starts = []
    for row in rows:
        starts.append(len(names))
        names += row[0] + b"\0"
    starts.append(len(names))
    names += b".shstrtab\0"
    place = _append(image, names, 1)
    last = (b".shstrtab", elf.SHT_STRTAB, 0, 0, place, len(names), 0, 0, 1, 0)
    table = b"".join(
        elf.SECTION.pack(start, *row[1:]) for start, row in zip(starts, [*rows, last], strict=True)
    )
    start = _append(image, table, 8)
    identification = b"\x7fELF\x02\x01\x01" + bytes(9)
    header = elf.HEADER.pack(
        identification,
        elf.ET_DYN,
        machine,
        1,
        0,
        elf.HEADER.size,
        start,
        0,
        elf.HEADER.size,
        elf.SEGMENT.size,
        5,
        elf.SECTION.size,
        len(rows) + 1,
        len(rows),
    )
    _put(image, 0, header)
