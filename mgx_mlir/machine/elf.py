"""Records and numbers of 64-bit ELF files, as this compiler reads and writes them.

The System V ABI, chapters 4 and 5, and its supplements; the GNU extensions are lld's.
"""

from __future__ import annotations

import struct

HEADER = struct.Struct("<16sHHIQQQIHHHHHH")
SECTION = struct.Struct("<IIQQQQIIQQ")
SEGMENT = struct.Struct("<IIQQQQQQ")
SYMBOL = struct.Struct("<IBBHQQ")
RELOCATION = struct.Struct("<QQq")
DYNAMIC = struct.Struct("<QQ")

ET_DYN, EM_X86_64, EM_AARCH64, EM_AMDGPU = 3, 62, 183, 224
SHT_PROGBITS, SHT_SYMTAB, SHT_STRTAB, SHT_RELA, SHT_HASH = 1, 2, 3, 4, 5
SHT_DYNAMIC, SHT_NOTE, SHT_NOBITS, SHT_DYNSYM, SHT_GNU_HASH = 6, 7, 8, 11, 0x6FFFFFF6
SHF_WRITE, SHF_ALLOC, SHF_EXECUTE = 1, 2, 4
SHN_UNDEFINED, SHN_ABSOLUTE = 0, 0xFFF1
STB_LOCAL, STT_SECTION, STV_DEFAULT, STV_PROTECTED = 0, 3, 0, 3
PT_LOAD, PT_DYNAMIC, PT_NOTE, PT_PHDR = 1, 2, 4, 6
PT_GNU_STACK, PT_GNU_RELRO = 0x6474E551, 0x6474E552
READ, READ_EXECUTE, READ_WRITE = 4, 5, 6
DT_HASH, DT_STRTAB, DT_SYMTAB, DT_RELA, DT_RELASZ, DT_RELAENT = 4, 5, 6, 7, 8, 9
DT_STRSZ, DT_SYMENT, DT_FLAGS, DT_GNU_HASH, DF_BIND_NOW = 10, 11, 30, 0x6FFFFEF5, 8


def text(strings: bytes, at: int) -> bytes:
    """The name at an offset of a string table."""
    return strings[at : strings.index(b"\0", at)]
