"""A relocatable AMDGPU object made loadable, as `ld.lld -shared` does it, in this process.

Objects of this compiler are simple: code, constants and the metadata note of one gpu.module,
without undefined symbols or writable data. So the work is to lay out three segments, the
dynamic symbols with their hash tables, and a few relocations; the layout, and every byte
that is loaded, is that of lld 22. A process for each kernel would cost more than compiling it.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import dataclass, field

from mgx_mlir.errors import CompilerError
from mgx_mlir.machine import elf
from mgx_mlir.sizes.arithmetic import ceil_div

# https://llvm.org/docs/AMDGPUUsage.html#amdgpu-relocation-records: all relative to the field.
_RELATIVE = {4: ("<i", 0), 5: ("<q", 0), 10: ("<I", 0), 11: ("<I", 32)}


@dataclass
class _Symbol:
    name: bytes
    value: int
    size: int
    info: int
    other: int
    section: int  # in the object; an index from elf.SHN_ABSOLUTE on stays as it is


@dataclass
class _Part:
    """A section of the result. `sources` are sections of the object with their offset in it."""

    name: bytes
    kind: int
    flags: int
    alignment: int
    data: bytearray = field(default_factory=bytearray)
    sources: dict[int, int] = field(default_factory=dict)
    link: bytes = b""
    info: int = 0
    entry_size: int = 0
    size: int = -1  # where it is not that of the data
    address: int = 0
    offset: int = 0

    @property
    def bytes(self) -> int:
        return len(self.data) if self.size < 0 else self.size


def link(data: bytes) -> bytes:
    """The loadable form (ELF shared object) of one relocatable object.

    The same object gives the same bytes. Raises CompilerError for an object with undefined
    symbols, writable data or relocations that this compiler does not make.
    """
    return _Linker(data).run()


class _Linker:
    def __init__(self, data: bytes) -> None:
        self._data = data
        self._header = elf.HEADER.unpack_from(data)
        table, count = self._header[6], self._header[12]
        self._sections = [
            elf.SECTION.unpack_from(data, table + number * elf.SECTION.size)
            for number in range(count)
        ]
        self._names = self._content(self._header[13])
        self._symbols = self._read_symbols()

    def run(self) -> bytes:
        note = _Part(b".note", elf.SHT_NOTE, elf.SHF_ALLOC, 4)
        constants = _Part(b".rodata", elf.SHT_PROGBITS, elf.SHF_ALLOC, 64)
        code = _Part(b".text", elf.SHT_PROGBITS, elf.SHF_ALLOC | elf.SHF_EXECUTE, 256)
        self._gather({elf.SHF_ALLOC: constants, elf.SHF_ALLOC | elf.SHF_EXECUTE: code}, note)
        exported = _hash_order([s for s in self._symbols if s.info >> 4 != elf.STB_LOCAL])
        dynamic_parts = _dynamic_parts(exported)
        dynamic = _Part(
            b".dynamic", elf.SHT_DYNAMIC, elf.SHF_ALLOC | elf.SHF_WRITE, 8,
            bytearray(7 * elf.DYNAMIC.size), link=b".dynstr", entry_size=elf.DYNAMIC.size,
        )  # fmt: skip
        padding = _Part(b".relro_padding", elf.SHT_NOBITS, elf.SHF_ALLOC | elf.SHF_WRITE, 1)
        read = [note, *dynamic_parts, *([constants] if constants.data else [])]
        self._place([read, [code], [dynamic, padding]])
        padding.size = -dynamic.bytes - dynamic.address & elf.PAGE - 1
        parts = [*read, code, dynamic, padding]
        self._relocate(parts)
        _fill_dynamic(dynamic, dynamic_parts)
        symbols = dynamic_parts[0]
        symbols.data[:] = self._symbol_table(exported, parts, dynamic_parts[3].data)
        parts += self._unloaded(parts, dynamic)
        end, written = read[-1].address + read[-1].bytes, dynamic.bytes + padding.bytes
        return self._write(parts, _segments(end, code, dynamic, written, note))

    # Reading -----------------------------------------------------------------------------

    def _content(self, number: int) -> bytes:
        section = self._sections[number]
        return self._data[section[4] : section[4] + section[5]]

    def _name(self, number: int) -> bytes:
        return elf.text(self._names, self._sections[number][0])

    def _read_symbols(self) -> list[_Symbol]:
        (number,) = (n for n, s in enumerate(self._sections) if s[1] == elf.SHT_SYMTAB)
        names = self._content(self._sections[number][6])
        symbols = []
        for name, info, other, section, value, size in elf.SYMBOL.iter_unpack(
            self._content(number)
        ):
            symbols.append(_Symbol(elf.text(names, name), value, size, info, other, section))
        undefined = [s.name.decode() for s in symbols[1:] if s.section == elf.SHN_UNDEFINED]
        if undefined:
            raise CompilerError(f"the code calls what is not there: {', '.join(undefined)}")
        return symbols

    def _gather(self, parts: dict[int, _Part], note: _Part) -> None:
        """Joins the object's sections into the result's."""
        for number, section in enumerate(self._sections):
            kind, flags, size, alignment = section[1], section[2], section[5], section[8]
            part = note if kind == elf.SHT_NOTE else parts.get(flags & 7)
            if not flags & elf.SHF_ALLOC or (part is not note and size == 0):
                continue
            if part is None or kind not in (elf.SHT_PROGBITS, elf.SHT_NOTE):
                name = self._name(number).decode()
                raise CompilerError(f"a section {name} has no place in a code object")
            part.alignment = max(part.alignment, alignment)
            part.data += bytes(-len(part.data) % alignment)
            part.sources[number] = len(part.data)
            part.data += self._content(number)

    # Laying out --------------------------------------------------------------------------

    def _place(self, segments: Sequence[list[_Part]]) -> None:
        offset = address = elf.HEADER.size + 8 * elf.SEGMENT.size
        for number, parts in enumerate(segments):
            if number:
                # A new page in memory for other permissions, the same bytes in the file.
                address = _aligned(address, elf.PAGE) + address % elf.PAGE
            for part in parts:
                address = _aligned(address, part.alignment)
                offset = _aligned(offset, part.alignment)
                part.address, part.offset = address, offset
                address += part.bytes * (part.kind != elf.SHT_NOBITS)
                offset += len(part.data)

    def _relocate(self, parts: list[_Part]) -> None:
        places = {number: (part, at) for part in parts for number, at in part.sources.items()}
        for section in self._sections:
            if section[1] != elf.SHT_RELA or section[7] not in places:
                continue
            part, start = places[section[7]]
            content = self._data[section[4] : section[4] + section[5]]
            for offset, info, addend in elf.RELOCATION.iter_unpack(content):
                kind, symbol = info & 0xFFFFFFFF, self._symbols[info >> 32]
                if kind not in _RELATIVE or symbol.section not in places:
                    raise CompilerError(f"relocation {kind} of {symbol.name!r} is not supported")
                format_, shift = _RELATIVE[kind]
                target, at = places[symbol.section]
                place = part.address + start + offset
                value = target.address + at + symbol.value + addend - place
                if format_ == "<I":
                    value = value >> shift & 0xFFFFFFFF
                struct.pack_into(format_, part.data, start + offset, value)

    def _symbol_table(
        self, symbols: Sequence[_Symbol], parts: list[_Part], strings: bytearray
    ) -> bytes:
        """The entries of `symbols`, whose names stand in `strings`, after an empty one."""
        table = bytearray(elf.SYMBOL.size)
        at = 1
        for symbol in symbols:
            section, value = symbol.section, symbol.value
            for number, part in enumerate(parts, 1):
                if symbol.section in part.sources:
                    section = number
                    value += part.address + part.sources[symbol.section]
            table += elf.SYMBOL.pack(at, symbol.info, symbol.other, section, value, symbol.size)
            at += len(symbol.name) + 1
        return bytes(table)

    def _unloaded(self, parts: list[_Part], dynamic: _Part) -> list[_Part]:
        """The table of all symbols, for tools, and the names of sections."""
        kept = [s for s in self._symbols[1:] if s.info & 15 != elf.STT_SECTION]
        local = [s for s in kept if s.info >> 4 == elf.STB_LOCAL]
        ordered = local + [s for s in kept if s.info >> 4 != elf.STB_LOCAL]
        strings = bytearray(b"\0" + b"".join(s.name + b"\0" for s in ordered))
        symbols = _Part(
            b".symtab", elf.SHT_SYMTAB, 0, 8,
            bytearray(self._symbol_table(ordered, parts, strings)),
            link=b".strtab", info=1 + len(local), entry_size=elf.SYMBOL.size,
        )  # fmt: skip
        names = _Part(b".shstrtab", elf.SHT_STRTAB, 0, 1)
        texts = _Part(b".strtab", elf.SHT_STRTAB, 0, 1, strings)
        unloaded = [symbols, names, texts]
        names.data += b"\0" + b"".join(p.name + b"\0" for p in [*parts, *unloaded])
        offset = dynamic.offset + dynamic.bytes
        for part in unloaded:
            part.offset = _aligned(offset, part.alignment)
            offset = part.offset + len(part.data)
        return unloaded

    # Writing -----------------------------------------------------------------------------

    def _write(self, parts: Sequence[_Part], segments: Sequence[tuple[int, ...]]) -> bytes:
        table = _aligned(parts[-1].offset + len(parts[-1].data), 8)
        output = bytearray(table)
        ident, flags = self._header[0], self._header[7]
        elf.HEADER.pack_into(
            output, 0, ident, elf.ET_DYN, *self._header[2:4], 0, elf.HEADER.size, table, flags,
            elf.HEADER.size, elf.SEGMENT.size, 8, elf.SECTION.size, len(parts) + 1, len(parts) - 1,
        )  # fmt: skip
        for number, (kind, access, offset, address, *rest) in enumerate(segments):
            at = elf.HEADER.size + number * elf.SEGMENT.size
            elf.SEGMENT.pack_into(output, at, kind, access, offset, address, address, *rest)
        for part in parts:
            output[part.offset : part.offset + len(part.data)] = part.data
        output += bytes(elf.SECTION.size)
        numbers = {part.name: number for number, part in enumerate(parts, 1)}
        name_at = 1
        for part in parts:
            output += elf.SECTION.pack(
                name_at, part.kind, part.flags, part.address, part.offset, part.bytes,
                numbers.get(part.link, 0), part.info, part.alignment, part.entry_size,
            )  # fmt: skip
            name_at += len(part.name) + 1
        return bytes(output)


def _segments(
    end: int, code: _Part, dynamic: _Part, written: int, note: _Part
) -> tuple[tuple[int, ...], ...]:
    """The loaded segments, which end at `end` in the first, and those within them.

    A row: kind, access, offset, address, bytes in the file and in memory, alignment. `written`:
    bytes of the dynamic section and of its padding.
    """
    headers = elf.SEGMENT.size * 8

    def of(part: _Part) -> tuple[int, int, int]:
        return part.offset, part.address, part.bytes

    return (
        (elf.PT_PHDR, elf.READ, elf.HEADER.size, elf.HEADER.size, headers, headers, 8),
        (elf.PT_LOAD, elf.READ, 0, 0, end, end, elf.PAGE),
        (elf.PT_LOAD, elf.READ_EXECUTE, *of(code), code.bytes, elf.PAGE),
        (elf.PT_LOAD, elf.READ_WRITE, *of(dynamic), written, elf.PAGE),
        (elf.PT_DYNAMIC, elf.READ_WRITE, *of(dynamic), dynamic.bytes, 8),
        (elf.PT_GNU_RELRO, elf.READ, *of(dynamic), written, 1),
        (elf.PT_GNU_STACK, elf.READ_WRITE, 0, 0, 0, 0, 0),
        (elf.PT_NOTE, elf.READ, *of(note), note.bytes, note.alignment),
    )


def _dynamic_parts(symbols: Sequence[_Symbol]) -> list[_Part]:
    """.dynsym (to be filled), .gnu.hash, .hash and .dynstr for the exported symbols."""
    strings = bytearray(b"\0" + b"".join(symbol.name + b"\0" for symbol in symbols))
    table = bytearray(elf.SYMBOL.size * (1 + len(symbols)))
    gnu, sysv = _gnu_hash_table(symbols), _sysv_hash_table(symbols)
    return [
        _Part(
            b".dynsym", elf.SHT_DYNSYM, elf.SHF_ALLOC, 8, table,
            link=b".dynstr", info=1, entry_size=elf.SYMBOL.size,
        ),
        _Part(b".gnu.hash", elf.SHT_GNU_HASH, elf.SHF_ALLOC, 8, gnu, link=b".dynsym"),
        _Part(b".hash", elf.SHT_HASH, elf.SHF_ALLOC, 4, sysv, link=b".dynsym", entry_size=4),
        _Part(b".dynstr", elf.SHT_STRTAB, elf.SHF_ALLOC, 1, strings),
    ]  # fmt: skip


def _fill_dynamic(dynamic: _Part, parts: Sequence[_Part]) -> None:
    symbols, gnu_hash, hash_, strings = parts
    entries = (
        (elf.DT_SYMTAB, symbols.address),
        (elf.DT_SYMENT, elf.SYMBOL.size),
        (elf.DT_STRTAB, strings.address),
        (elf.DT_STRSZ, len(strings.data)),
        (elf.DT_GNU_HASH, gnu_hash.address),
        (elf.DT_HASH, hash_.address),
        (0, 0),
    )
    dynamic.data[:] = b"".join(elf.DYNAMIC.pack(tag, value) for tag, value in entries)


def _buckets(symbols: Sequence[_Symbol]) -> int:
    return max(len(symbols) // 4, 1)


def _hash_order(symbols: Sequence[_Symbol]) -> list[_Symbol]:
    """The symbols in the order that a GNU hash table asks for: by bucket."""
    count = _buckets(symbols)
    return sorted(symbols, key=lambda symbol: _gnu_hash(symbol.name) % count)


def _gnu_hash_table(symbols: Sequence[_Symbol]) -> bytearray:
    """https://flapenguin.me/elf-dt-gnu-hash describes the table; sizes are lld's."""
    count, shift = _buckets(symbols), 26
    # lld: the next power of two above 12 bits a symbol in 64-bit words.
    words = 1 << (len(symbols) * 12 // 64).bit_length()
    hashes = [_gnu_hash(symbol.name) for symbol in symbols]
    bloom = [0] * words
    for value in hashes:
        word = value // 64 & words - 1
        bloom[word] |= 1 << value % 64 | 1 << (value >> shift) % 64
    first = [0] * count
    chain = []
    for number, value in enumerate(hashes):
        bucket = value % count
        if not first[bucket]:
            first[bucket] = number + 1
        last = number + 1 == len(hashes) or hashes[number + 1] % count != bucket
        chain.append(value | 1 if last else value & ~1)
    head = struct.pack("<4I", count, 1, words, shift)
    body = struct.pack(f"<{words}Q{count}I{len(chain)}I", *bloom, *first, *chain)
    return bytearray(head + body)


def _sysv_hash_table(symbols: Sequence[_Symbol]) -> bytearray:
    """The table of the System V ABI, with as many buckets as symbols."""
    size = 1 + len(symbols)
    buckets, chains = [0] * size, [0] * size
    for number, symbol in enumerate(symbols, 1):
        bucket = _sysv_hash(symbol.name) % size
        chains[number], buckets[bucket] = buckets[bucket], number
    return bytearray(struct.pack(f"<{2 + 2 * size}I", size, size, *buckets, *chains))


def _gnu_hash(name: bytes) -> int:
    value = 5381
    for byte in name:
        value = value * 33 + byte & 0xFFFFFFFF
    return value


def _sysv_hash(name: bytes) -> int:
    value = 0
    for byte in name:
        value = (value << 4) + byte
        high = value & 0xF0000000
        value = (value ^ high >> 24) & ~high & 0xFFFFFFFF
    return value


def _aligned(offset: int, alignment: int) -> int:
    return ceil_div(offset, max(alignment, 1)) * max(alignment, 1)
