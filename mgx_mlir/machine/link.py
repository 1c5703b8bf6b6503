"""A relocatable object made loadable, as `ld.lld -shared` does it, in this process.

Objects of this compiler are simple: code, constants, the metadata note of a gpu.module, and on
CPUs calls of libm and memcpy. They have no writable data. So the work is to lay out three
segments, the dynamic symbols with their hash tables, and a few relocations. A function of a
library has a stub, which jumps through a pointer that the loader writes. For AMD GPUs every byte
that is loaded is that of lld 22. A process for each kernel would cost more than compiling it.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import dataclass, field

from mgx_mlir.machine import elf
from mgx_mlir.machine.elf_architectures import ARCHITECTURES, STUB_SIZE, UnsupportedObjectError
from mgx_mlir.sizes.arithmetic import ceil_div

_READ, _RUN = elf.SHF_ALLOC, elf.SHF_ALLOC | elf.SHF_EXECUTE
_WRITE = elf.SHF_ALLOC | elf.SHF_WRITE


@dataclass
class _Symbol:
    name: bytes
    info: int
    other: int
    section: int  # in the object; an index from elf.SHN_ABSOLUTE on stays as it is
    value: int
    size: int

    @property
    def local(self) -> bool:
        return self.info >> 4 == elf.STB_LOCAL


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
    def length(self) -> int:
        return len(self.data) if self.size < 0 else self.size

    def append(self, data: bytes, alignment: int) -> int:
        """Adds data, and gives its offset."""
        self.alignment = max(self.alignment, alignment)
        self.data += bytes(-len(self.data) % alignment) + data
        return len(self.data) - len(data)


def link(data: bytes) -> bytes:
    """The loadable form (ELF shared object) of one relocatable object.

    The same object gives the same bytes. Raises UnsupportedObjectError for an object with writable
    data, with relocations that this compiler does not make, or with undefined symbols where the
    architecture has no stubs.
    """
    return _Linker(data).run()


class _Linker:
    def __init__(self, data: bytes) -> None:
        self._data = data
        self._header = elf.HEADER.unpack_from(data)
        machine, table, count = self._header[2], self._header[6], self._header[12]
        if machine not in ARCHITECTURES:
            raise UnsupportedObjectError(f"machine {machine}")
        self._architecture = ARCHITECTURES[machine]
        self._sections = [
            elf.SECTION.unpack_from(data, table + number * elf.SECTION.size)
            for number in range(count)
        ]
        self._names = self._content(self._header[13])
        self._symbols = self._read_symbols()
        self._imports = [s for s in self._symbols[1:] if s.section == elf.SHN_UNDEFINED]
        if self._imports and not self._architecture.calls:
            names = ", ".join(s.name.decode() for s in self._imports)
            raise UnsupportedObjectError(f"the code calls what is not there: {names}")

    def run(self) -> bytes:
        note = _Part(b".note", elf.SHT_NOTE, _READ, 4)
        constants = _Part(b".rodata", elf.SHT_PROGBITS, _READ, 64)
        code = _Part(b".text", elf.SHT_PROGBITS, _RUN, 256)
        self._gather({_READ: constants, _RUN: code}, note)
        # Stubs, and the pointers that they jump through, by the import's number.
        stubs = [code.append(bytes(STUB_SIZE), STUB_SIZE) for _ in self._imports]
        pointers = _Part(b".got", elf.SHT_PROGBITS, _WRITE, 8, bytearray(8 * len(stubs)))
        exported = _hash_order([s for s in self._symbols[1:] if _is_exported(s)])
        tables = _dynamic_parts(self._imports, exported)
        dynamic = _Part(
            b".dynamic", elf.SHT_DYNAMIC, _WRITE, 8, bytearray(_dynamic(tables)),
            link=b".dynstr", entry_size=elf.DYNAMIC.size,
        )  # fmt: skip
        padding = _Part(b".relro_padding", elf.SHT_NOBITS, _WRITE, 1)
        read = [part for part in (note, *tables, constants) if part.data]
        written = [dynamic, *([pointers] if stubs else []), padding]
        page, headers = self._architecture.page, 7 + bool(note.data)
        self._place([read, [code], written], headers)
        padding.size = -padding.address % page
        parts = [*read, code, *written]
        self._import(code, stubs, pointers, tables[-1])
        targets = {s.name: code.address + at for s, at in zip(self._imports, stubs, strict=True)}
        self._relocate(parts, targets)
        dynamic.data[:] = _dynamic(tables)
        tables[0].data[:] = self._symbol_table([*self._imports, *exported], parts)
        parts += self._unloaded(parts, padding.offset)
        return self._write(parts, _segments(read[-1], code, dynamic, padding, page, note))

    # Reading -----------------------------------------------------------------------------

    def _content(self, number: int) -> bytes:
        section = self._sections[number]
        return self._data[section[4] : section[4] + section[5]]

    def _read_symbols(self) -> list[_Symbol]:
        (number,) = (n for n, s in enumerate(self._sections) if s[1] == elf.SHT_SYMTAB)
        names = self._content(self._sections[number][6])
        entries = elf.SYMBOL.iter_unpack(self._content(number))
        return [_Symbol(elf.text(names, name), *rest) for name, *rest in entries]

    def _gather(self, parts: dict[int, _Part], note: _Part) -> None:
        """Joins the object's sections into the result's."""
        for number, section in enumerate(self._sections):
            kind, flags, size, alignment = section[1], section[2], section[5], section[8]
            part = note if kind == elf.SHT_NOTE else parts.get(flags & 7)
            if not flags & elf.SHF_ALLOC or (part is not note and size == 0):
                continue
            name = elf.text(self._names, section[0])
            if name == b".eh_frame":  # nothing unwinds through a kernel
                continue
            if part is None or kind not in (elf.SHT_PROGBITS, elf.SHT_NOTE):
                raise UnsupportedObjectError(f"a section {name.decode()} has no place in it")
            part.sources[number] = part.append(self._content(number), alignment)

    # Laying out --------------------------------------------------------------------------

    def _place(self, segments: Sequence[list[_Part]], headers: int) -> None:
        page = self._architecture.page
        offset = address = elf.HEADER.size + headers * elf.SEGMENT.size
        for number, parts in enumerate(segments):
            if number:
                # A new page in memory for other permissions, the same bytes in the file.
                address = _aligned(address, page) + address % page
            for part in parts:
                address = _aligned(address, part.alignment)
                offset = _aligned(offset, part.alignment)
                part.address, part.offset = address, offset
                address += part.length * (part.kind != elf.SHT_NOBITS)
                offset += len(part.data)

    def _import(
        self, code: _Part, stubs: Sequence[int], pointers: _Part, relocations: _Part
    ) -> None:
        """Writes the stub of each import, and the loader's relocation of its pointer."""
        for number, at in enumerate(stubs):
            pointer = pointers.address + 8 * number
            stub = self._architecture.stub(code.address + at, pointer)
            code.data[at : at + len(stub)] = stub
            kind = number + 1 << 32 | self._architecture.pointer
            place = number * elf.RELOCATION.size
            elf.RELOCATION.pack_into(relocations.data, place, pointer, kind, 0)

    def _relocate(self, parts: list[_Part], targets: dict[bytes, int]) -> None:
        """Relocates the contents of sections. targets: addresses of the imports' stubs."""
        places = {number: (part, at) for part in parts for number, at in part.sources.items()}
        architecture = self._architecture
        for section in self._sections:
            if section[1] != elf.SHT_RELA or section[7] not in places:
                continue
            part, start = places[section[7]]
            content = self._data[section[4] : section[4] + section[5]]
            for offset, info, addend in elf.RELOCATION.iter_unpack(content):
                kind, symbol = info & 0xFFFFFFFF, self._symbols[info >> 32]
                value = targets.get(symbol.name) if kind in architecture.calls else None
                if symbol.section in places:
                    target, at = places[symbol.section]
                    value = target.address + at + symbol.value
                if value is None or kind not in architecture.fields:
                    name = symbol.name.decode()
                    raise UnsupportedObjectError(f"relocation {kind} of '{name}' is not supported")
                format_ = "<Q" if kind in architecture.long else "<I"
                at, place = start + offset, part.address + start + offset
                (word,) = struct.unpack_from(format_, part.data, at)
                word = architecture.fields[kind](word, value + addend, place)
                struct.pack_into(format_, part.data, at, word)

    def _symbol_table(self, symbols: Sequence[_Symbol], parts: list[_Part]) -> bytes:
        """The entries of `symbols`, whose names follow one another, after an empty one."""
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

    def _unloaded(self, parts: list[_Part], offset: int) -> list[_Part]:
        """The table of all symbols, for tools, and the names of sections, from `offset` on."""
        kept = [s for s in self._symbols[1:] if s.info & 15 != elf.STT_SECTION]
        ordered = sorted(kept, key=lambda s: not s.local)
        symbols = _Part(
            b".symtab", elf.SHT_SYMTAB, 0, 8, bytearray(self._symbol_table(ordered, parts)),
            link=b".strtab", info=1 + sum(s.local for s in kept), entry_size=elf.SYMBOL.size,
        )  # fmt: skip
        names = _Part(b".shstrtab", elf.SHT_STRTAB, 0, 1)
        texts = _Part(b".strtab", elf.SHT_STRTAB, 0, 1, _strings(ordered))
        unloaded = [symbols, names, texts]
        names.data += b"\0" + b"".join(p.name + b"\0" for p in [*parts, *unloaded])
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
            elf.HEADER.size, elf.SEGMENT.size, len(segments), elf.SECTION.size, len(parts) + 1,
            len(parts) - 1,
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
                name_at, part.kind, part.flags, part.address, part.offset, part.length,
                numbers.get(part.link, 0), part.info, part.alignment, part.entry_size,
            )  # fmt: skip
            name_at += len(part.name) + 1
        return bytes(output)


def _segments(
    last: _Part, code: _Part, dynamic: _Part, padding: _Part, page: int, note: _Part
) -> list[tuple[int, ...]]:
    """The loaded segments, and those within them. last: the last part of the first.

    A row: kind, access, offset, address, bytes in the file and in memory, alignment.
    """
    end, headers = last.address + last.length, elf.SEGMENT.size * (7 + bool(note.data))
    start = dynamic.offset, dynamic.address
    written = padding.offset - start[0], padding.address + padding.length - start[1]
    rows = [
        (elf.PT_PHDR, elf.READ, elf.HEADER.size, elf.HEADER.size, headers, headers, 8),
        (elf.PT_LOAD, elf.READ, 0, 0, end, end, page),
        (elf.PT_LOAD, elf.READ_EXECUTE, code.offset, code.address, *[code.length] * 2, page),
        (elf.PT_LOAD, elf.READ_WRITE, *start, *written, page),
        (elf.PT_DYNAMIC, elf.READ_WRITE, *start, *[dynamic.length] * 2, 8),
        (elf.PT_GNU_RELRO, elf.READ, *start, *written, 1),
        (elf.PT_GNU_STACK, elf.READ_WRITE, 0, 0, 0, 0, 0),
    ]
    if note.data:
        sizes = note.length, note.length, note.alignment
        rows.append((elf.PT_NOTE, elf.READ, note.offset, note.address, *sizes))
    return rows


def _is_exported(symbol: _Symbol) -> bool:
    hidden = symbol.other & 3 not in (elf.STV_DEFAULT, elf.STV_PROTECTED)
    return not symbol.local and symbol.section != elf.SHN_UNDEFINED and not hidden


def _dynamic_parts(imports: Sequence[_Symbol], exported: Sequence[_Symbol]) -> list[_Part]:
    """.dynsym (to be filled), .gnu.hash, .hash, .dynstr and .rela.dyn (to be filled)."""
    symbols = [*imports, *exported]
    table = bytearray(elf.SYMBOL.size * (1 + len(symbols)))
    gnu, sysv = _gnu_hash_table(exported, 1 + len(imports)), _sysv_hash_table(symbols)
    size = elf.RELOCATION.size
    return [
        _Part(
            b".dynsym", elf.SHT_DYNSYM, _READ, 8, table,
            link=b".dynstr", info=1, entry_size=elf.SYMBOL.size,
        ),
        _Part(b".gnu.hash", elf.SHT_GNU_HASH, _READ, 8, gnu, link=b".dynsym"),
        _Part(b".hash", elf.SHT_HASH, _READ, 4, sysv, link=b".dynsym", entry_size=4),
        _Part(b".dynstr", elf.SHT_STRTAB, _READ, 1, _strings(symbols)),
        _Part(
            b".rela.dyn", elf.SHT_RELA, _READ, 8, bytearray(size * len(imports)),
            link=b".dynsym", entry_size=size,
        ),
    ]  # fmt: skip


def _dynamic(tables: Sequence[_Part]) -> bytes:
    """The entries of .dynamic, which name the places of `_dynamic_parts`."""
    symbols, gnu_hash, hash_, strings, relocations = tables
    entries = [
        (elf.DT_SYMTAB, symbols.address),
        (elf.DT_SYMENT, elf.SYMBOL.size),
        (elf.DT_STRTAB, strings.address),
        (elf.DT_STRSZ, strings.length),
        (elf.DT_GNU_HASH, gnu_hash.address),
        (elf.DT_HASH, hash_.address),
    ]
    if relocations.data:
        entries += [
            (elf.DT_FLAGS, elf.DF_BIND_NOW),
            (elf.DT_RELA, relocations.address),
            (elf.DT_RELASZ, relocations.length),
            (elf.DT_RELAENT, relocations.entry_size),
        ]
    return b"".join(elf.DYNAMIC.pack(*entry) for entry in [*entries, (0, 0)])


def _strings(symbols: Sequence[_Symbol]) -> bytearray:
    return bytearray(b"\0" + b"".join(symbol.name + b"\0" for symbol in symbols))


def _buckets(symbols: Sequence[_Symbol]) -> int:
    return max(len(symbols) // 4, 1)


def _hash_order(symbols: Sequence[_Symbol]) -> list[_Symbol]:
    """The symbols in the order that a GNU hash table asks for: by bucket."""
    count = _buckets(symbols)
    return sorted(symbols, key=lambda symbol: _gnu_hash(symbol.name) % count)


def _gnu_hash_table(symbols: Sequence[_Symbol], start: int) -> bytearray:
    """https://flapenguin.me/elf-dt-gnu-hash describes the table; sizes are lld's.

    start: the number of the first of `symbols`.
    """
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
        first[bucket] = first[bucket] or start + number
        last = number + 1 == len(hashes) or hashes[number + 1] % count != bucket
        chain.append(value | 1 if last else value & ~1)
    head = struct.pack("<4I", count, start, words, shift)
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
