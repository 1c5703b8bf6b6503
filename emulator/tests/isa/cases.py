"""Which instructions a chip has, with operands LLVM accepts, from AMD's pseudocode tables.

Every name of a table is written with each plausible arrangement of operands; what llvm-mc takes
first becomes a `Case`.
"""

from __future__ import annotations

import importlib
import re
from dataclasses import dataclass, field, replace
from functools import lru_cache

from assembler import assemble, register

# Registers the cases use. Destinations and sources do not overlap.
D, SDST = 8, 16  # v8..., s16...
SOURCES = (32, 40, 48)  # v32.., s32..
MASK = 12  # s[12:13], a mask that VOP3 names
ADDRESS, DATA, DATA2 = 60, 64, 72
BASE = 4  # s[4:5], a scalar address
DESCRIPTOR = 84  # s[84:87], a buffer


@dataclass(frozen=True)
class Operand:
    kind: str  # v, s, c (constant), m (mask in scalar registers), vcc
    index: int = 0
    words: int = 1
    value: int = 0  # constants: the bits
    text: str = ""
    high: bool = False  # the upper half of a register

    def __str__(self) -> str:
        return (self.text or register(self.index, self.words, self.kind)) + (
            ".h" if self.high else ""
        )


@dataclass(frozen=True)
class Case:
    chip: str
    wave: int
    name: str  # of the table
    family: str  # VOP1, VOP2, ...
    text: str  # assembly
    code: bytes
    pcode: str
    dst: Operand | None
    sources: tuple[Operand, ...]
    mask_in: Operand | None = None
    mask_out: Operand | None = None
    extra: dict = field(default_factory=dict, hash=False, compare=False)

    @property
    def id(self) -> str:
        return f"{self.chip}-w{self.wave}-{self.text.split()[0]}{self.extra.get('variant', '')}"


TABLES = {"gfx9": ("cdna",), "gfx10": ("rdna3", "cdna"), "gfx11": ("rdna3",), "gfx12": ("rdna4",)}


def tables_of(chip: str) -> tuple[str, ...]:
    return next(names for prefix, names in TABLES.items() if chip.startswith(prefix))


@lru_cache
def load(table: str) -> dict:
    return importlib.import_module(f"tinygrad.runtime.autogen.amd.{table}.str_pcode").PCODE


def width_of(text: str, name: str) -> int:
    """Words of an operand, from the widest part of it that the text names."""
    text = re.sub(r"//.*", "", text)
    bits = 1
    for match in re.finditer(
        rf"(?<![A-Z_\w]){name}((?:\[[^\[\]]*(?:\[[^\]]*\][^\[\]]*)?\])*)(?:\.(?:bf|fp|[fuib])(\d+))?",
        text,
    ):
        slices, width = match.groups()
        number = re.match(r"\[(\d+) : \d+\]", slices or "")
        if number:
            bits = max(bits, int(number[1]) + 1)
        elif width and not slices:
            bits = max(bits, int(width))
    if "sOffset" in text and name in ("S0", "S1"):  # loops over packed elements
        element = next(
            (n for n in (32, 16, 6) if re.search(rf"{name}\[sOffset \+ {n - 1}\b", text)), 16
        )
        passes = int(re.search(r"0 : (\d+) do", text)[1]) + 1
        bits = element * passes if f"{name}[sOffset" in text else bits
    return (bits + 31) // 32


def scalar_mask(chip: str, wave: int) -> int:
    return 2 if wave == 64 else 1


def used(text: str, name: str) -> bool:
    return re.search(rf"(?<![\w.]){name}\b", re.sub(r"//.*", "", text)) is not None


def candidates(chip: str, wave: int, name: str, family: str, pcode: str) -> list[Case]:
    """Lines to try, best first."""
    low = name.lower()
    base = re.sub(r"_e(32|64)$", "", low)
    words = {s: width_of(pcode, s) for s in ("D0", "S0", "S1", "S2")}
    srcs = [s for s in ("S0", "S1", "S2") if used(pcode, s)]
    if base.startswith("v_cmp") and not srcs:  # always true, always false
        srcs = ["S0", "S1"]
        words.update(S0=2 if "64" in base else 1, S1=2 if "64" in base else 1)
    if "_mix" in base:
        srcs = ["S0", "S1", "S2"]
    if "SRC0" in pcode and "laneId" in pcode:  # reads its source as VGPR[laneId][SRC0]
        srcs = ["S0", *srcs]
    mask = scalar_mask(chip, wave)
    vcc = "vcc" if wave == 64 else "vcc_lo"
    blank = Case(chip, wave, name, family, "", b"", pcode, None, ())
    vector = tuple(Operand("v", SOURCES[n], words[s]) for n, s in enumerate(srcs))
    scalar = tuple(Operand("s", SOURCES[n], words[s]) for n, s in enumerate(srcs))
    dst = Operand("v", D, words["D0"])
    sdst = Operand("s", SDST, words["D0"])
    vcc_operand = Operand("vcc", words=mask, text=vcc)
    mask_operand = Operand("s", MASK, mask)
    mask_dst = Operand("s", SDST, mask)
    line = lambda m, *operands: m + (" " if operands else "") + ", ".join(str(o) for o in operands)  # noqa: E731
    result: list[Case] = []

    def add(text: str, **changes) -> None:
        result.append(replace(blank, text=text, **changes))

    if family in ("SOP1", "SOP2"):
        add(line(base, sdst, *scalar), dst=sdst, sources=scalar)
        add(line(base, *scalar), sources=scalar)
        add(line(base, sdst), dst=sdst)
    elif family == "SOPC":
        add(line(base, *scalar), sources=scalar)
    elif family == "SOPK":
        for constant in (0x1234, -7):
            add(
                f"{base} {sdst}, {constant & 0xFFFF:#x}",
                dst=sdst,
                extra={"simm16": constant & 0xFFFF},
            )
    elif family == "VOP1":
        if "VGPR" in pcode and not vector:
            for target in (dst, sdst):
                add(
                    line(f"{base}_e32", target, Operand("v", SOURCES[0])),
                    dst=target,
                    extra={"wave": True},
                )
        add(line(f"{base}_e32", dst, *vector), dst=dst, sources=vector)
        add(line(f"{base}_e32", sdst, *vector), dst=sdst, sources=vector)
        if any(s.words > 1 for s in vector) or dst.words > 1:
            add(line(f"{base}_e32", Operand("v", D), *vector), dst=Operand("v", D), sources=vector)
    elif family == "VOP2":
        add(
            line(f"{base}_e32", dst, vcc_operand, *vector, vcc_operand),
            dst=dst,
            sources=vector,
            mask_in=vcc_operand,
            mask_out=vcc_operand,
        )
        add(
            line(f"{base}_e32", dst, vcc_operand, *vector),
            dst=dst,
            sources=vector,
            mask_out=vcc_operand,
        )
        add(
            line(f"{base}_e32", dst, *vector, vcc_operand),
            dst=dst,
            sources=vector,
            mask_in=vcc_operand,
        )
        add(line(f"{base}_e32", dst, *vector), dst=dst, sources=vector)
        literal = Operand("c", value=0x40490FDB, text="0x40490fdb")
        if "SIMM32" in pcode:
            order = (
                (vector[0], vector[1], literal)
                if "fmaak" in low or "madak" in low
                else (vector[0], literal, *vector[1:2])
            )
            add(line(base, dst, *order), dst=dst, sources=vector, extra={"simm32": 0x40490FDB})
    elif family == "VOPC":
        add(line(f"{base}_e32", vcc_operand, *vector), sources=vector, mask_out=vcc_operand)
        add(line(f"{base}_e32", *vector), sources=vector)
    elif family in ("VOP3", "VOP3P", "VOP3SD"):
        for mnemonic in (f"{base}_e64", base):
            if "laneId]" in pcode and re.search(r"(VCC|D0|EXEC)\.u64\[laneId\]", pcode):
                add(line(mnemonic, mask_dst, *vector), sources=vector, mask_out=mask_dst)
                add(line(mnemonic, *vector), sources=vector)
                add(
                    line(mnemonic, dst, mask_dst, *vector, mask_operand),
                    dst=dst,
                    sources=vector,
                    mask_in=mask_operand,
                    mask_out=mask_dst,
                )
                add(
                    line(mnemonic, dst, *vector, mask_operand),
                    dst=dst,
                    sources=vector,
                    mask_in=mask_operand,
                )
                if "DIV_FMAS" in name:
                    add(line(mnemonic, dst, *vector), dst=dst, sources=vector, mask_in=vcc_operand)
            add(line(mnemonic, dst, mask_dst, *vector), dst=dst, sources=vector, mask_out=mask_dst)
            add(line(mnemonic, dst, *vector), dst=dst, sources=vector)
            if "PK_MOV" in name:
                add(
                    line(
                        mnemonic,
                        Operand("v", D, 2),
                        Operand("v", SOURCES[0], 2),
                        Operand("v", SOURCES[1], 2),
                    ),
                    dst=Operand("v", D, 2),
                    sources=(Operand("v", SOURCES[0], 2), Operand("v", SOURCES[1], 2)),
                )
            if "READLANE" in name:
                add(
                    line(
                        mnemonic,
                        sdst,
                        vector[0] if vector else Operand("v", SOURCES[0]),
                        Operand("s", SOURCES[1]),
                    ),
                    dst=sdst,
                    extra={"wave": True},
                )
            if "WRITELANE" in name:
                add(
                    line(mnemonic, dst, Operand("s", SOURCES[0]), Operand("s", SOURCES[1])),
                    dst=dst,
                    sources=(Operand("s", SOURCES[0]), Operand("s", SOURCES[1])),
                    extra={"wave": True},
                )
            if "READFIRSTLANE" in name:
                add(line(mnemonic, sdst, Operand("v", SOURCES[0])), dst=sdst, extra={"wave": True})
            if vector and any(
                o.kind == "v" for o in vector
            ):  # scalar transcendental functions of gfx12
                add(line(mnemonic, sdst, *scalar), dst=sdst, sources=scalar)
            if len(vector) == 3:
                add(
                    line(
                        mnemonic,
                        dst,
                        vector[0],
                        vector[1],
                        Operand("s", SOURCES[2], vector[2].words),
                    ),
                    dst=dst,
                    sources=(vector[0], vector[1], Operand("s", SOURCES[2], vector[2].words)),
                )
            if "PERMLANE" in name:
                pair = (
                    Operand("v", SOURCES[0]),
                    Operand("s", SOURCES[1]),
                    Operand("s", SOURCES[2]),
                )
                add(line(mnemonic, dst, *pair), dst=dst, sources=pair, extra={"wave": True})
                pair = (Operand("v", SOURCES[0]), Operand("v", SOURCES[1]))
                add(line(mnemonic, dst, *pair), dst=dst, sources=pair, extra={"wave": True})
    elif family == "DS":
        result += ds_candidates(blank, base)
    elif family in ("FLAT", "GLOBAL", "VFLAT", "VGLOBAL"):
        result += flat_candidates(blank, base)
    elif family in ("MUBUF", "VBUFFER"):
        result += buffer_candidates(blank, base)
    elif family == "SMEM" and "LOAD" in name:
        target = Operand("s", SDST, max(width_of(pcode, "SDATA"), 1))
        base_register = register(DESCRIPTOR, 4, "s") if "BUFFER" in name else register(BASE, 2, "s")
        add(
            f"{base} {target}, {base_register}, 0x10",
            dst=target,
            extra={"memory": "scalar", "offset": 16},
        )
    return result


def ds_candidates(blank: Case, base: str) -> list[Case]:
    pcode = blank.pcode
    if "VGPR" in pcode:  # between lanes, through no memory
        dst, source = Operand("v", D), Operand("v", DATA)
        return [
            Case(
                blank.chip,
                blank.wave,
                blank.name,
                "DS",
                f"{base} {dst}, {address}, {source} offset:24",
                b"",
                pcode,
                dst,
                (source,),
                extra={"memory": "lds", "offset": 24, "wave": True},
            )
            for address in (Operand("v", ADDRESS),)
        ]
    data = max(width_of(pcode, "DATA"), width_of(pcode, "DATA0"), 1)
    data2 = width_of(pcode, "DATA2")
    back = width_of(pcode, "RETURN_DATA")
    address = Operand("v", ADDRESS)
    two = "OFFSET1" in pcode and ("2addr" in base or re.search(r"(read|write|wrxchg)2", base))
    tail = " offset0:3 offset1:17" if two else " offset:24"
    offsets = {"offset0": 3, "offset1": 17} if two else {"offset": 24}
    result = []
    for dst in (Operand("v", D, back), None):
        for count in dict.fromkeys((data, 1, 2, 3, 4)):
            values = [
                Operand("v", DATA, count),
                Operand("v", DATA2, data2 if "DATA2" in pcode else count),
            ]
            for n in (0, 1, 2):
                operands = [o for o in (dst, address, *values[:n]) if o]
                text = f"{base} " + ", ".join(map(str, operands)) + tail
                result.append(
                    Case(
                        blank.chip,
                        blank.wave,
                        blank.name,
                        "DS",
                        text,
                        b"",
                        pcode,
                        dst,
                        tuple(values[:n]),
                        extra={"memory": "lds", **offsets},
                    )
                )
    fitting = [
        c
        for c in result
        if (c.dst is not None) == ("RETURN_DATA" in pcode and not returns_nothing(base))
        and len(c.sources) == used_data(pcode)
        and all(s.words == (data if n == 0 else data2) for n, s in enumerate(c.sources))
    ]
    return fitting + [
        c
        for c in result
        if c not in fitting
        and (c.dst is not None) == ("RETURN_DATA" in pcode and not returns_nothing(base))
    ]


def returns_nothing(base: str) -> bool:
    """Atomics without "_rtn" keep what they read."""
    return "rtn" not in base and not re.search(
        r"read|load|swizzle|permute|append|consume|pop", base
    )


def used_data(pcode: str) -> int:
    return int(used(pcode, "DATA") or used(pcode, "DATA0")) + int(used(pcode, "DATA2"))


def flat_candidates(blank: Case, base: str) -> list[Case]:
    pcode = blank.pcode
    data = max(width_of(pcode, "DATA"), width_of(pcode, "VDATA") if "store" in base else 1)
    back = max(width_of(pcode, "RETURN_DATA"), width_of(pcode, "VDATA"))
    address = Operand("v", ADDRESS, 2)
    off = ", off" if base.startswith("global") else ""
    result = []
    loads = "load" in base
    for offset in (" offset:32", ""):
        for count in dict.fromkeys((back if loads else data, 1, 2, 3, 4)):
            extra = {"memory": "flat", "offset": 32 if offset else 0}
            value = Operand("v", DATA, count)
            if loads:
                result.append(
                    replace(
                        blank,
                        text=f"{base} {Operand('v', D, count)}, {address}{off}{offset}",
                        dst=Operand("v", D, count),
                        sources=(),
                        extra=extra,
                    )
                )
            else:
                if "atomic" in base:
                    dst = Operand("v", D, back)
                    for bit in ("sc0", "glc", "th:TH_ATOMIC_RETURN"):
                        result.append(
                            replace(
                                blank,
                                text=f"{base} {dst}, {address}, {value}{off}{offset} {bit}",
                                dst=dst,
                                sources=(value,),
                                extra=extra,
                            )
                        )
                result.append(
                    replace(
                        blank,
                        text=f"{base} {address}, {value}{off}{offset}",
                        dst=None,
                        sources=(value,),
                        extra=extra,
                    )
                )
    return result


def buffer_candidates(blank: Case, base: str) -> list[Case]:
    pcode = blank.pcode
    stores = "STORE" in blank.name
    data = max(width_of(pcode, "DATA"), width_of(pcode, "VDATA") if stores else 1)
    back = max(width_of(pcode, "RETURN_DATA"), width_of(pcode, "VDATA"))
    place = f"v{ADDRESS}, {register(DESCRIPTOR, 4, 's')}, "
    result = []
    extra = {"memory": "buffer", "offset": 32}
    for offset in ("0 offen offset:32", "null offen offset:32"):
        for count in dict.fromkeys(
            (data if stores or "ATOMIC" in blank.name else back, 1, 2, 3, 4)
        ):
            if "ATOMIC" in blank.name:
                # The register goes both ways; cmpswap returns half of it.
                value = Operand("v", DATA, count)
                for bit in ("sc0", "glc", "th:TH_ATOMIC_RETURN"):
                    result.append(
                        replace(
                            blank,
                            text=f"{base} {value}, {place}{offset} {bit}",
                            dst=Operand("v", DATA, back if "CMPSWAP" in blank.name else count),
                            sources=(value,),
                            extra=extra,
                        )
                    )
            elif stores:
                value = Operand("v", DATA, count)
                result.append(
                    replace(
                        blank,
                        text=f"{base} {value}, {place}{offset}",
                        sources=(value,),
                        extra=extra,
                    )
                )
            else:
                target = Operand("v", D, count)
                result.append(
                    replace(
                        blank, text=f"{base} {target}, {place}{offset}", dst=target, extra=extra
                    )
                )
    return result


# Not about arithmetic or memory: control flow, waiting, hardware state, graphics.
SKIP = re.compile(
    r"S_(BARRIER|SENDMSG|SET_GPR|SETVSKIP|CBRANCH|CALL|RFE|TRAP|ALLOC|SLEEP|WAKEUP|GET_BARRIER|GETREG|SETREG|MOVREL|SETPC|SWAPPC|GETPC"
    r"|WAITCNT|SUBVECTOR|VERSION|DCACHE|ICACHE|MEMTIME|MEMREAL|PREFETCH|ATC|SCRATCH|GET_SHADER|SETKILL|SETHALT)"
    r"|V_INTERP|DS_GWS|DS_.*(GS_REG|ORDERED|BVH|PARAM|ADDTID|CONDXCHG|SRC2)|ADDTID|V_NOP|V_PIPEFLUSH|V_CLREXCP|V_SCREEN|EXP|.*MOVREL|SWAPREL"
    r"|LOAD_LDS|_LDS_|FORMAT|BUFFER_(WBINV|GL0|GL1|GL2|WBL2|INV)|LOAD_TR|BLOCK|ORDERED|INVALIDATE|V_(MFMA|SMFMAC|WMMA|SWMMAC)|V_ACCVGPR|CSUB|S_LOAD_(TM|RT)|_INV$|_WB$|GATHER_MASK"
)
SKIP_EXCEPT = re.compile(r"V_EXP|_EXP_|FREXP")
FAMILIES = (
    "MUBUF",
    "VBUFFER",
    "SOP1",
    "SOP2",
    "SOPC",
    "SOPK",
    "VOP1",
    "VOP2",
    "VOPC",
    "VOP3",
    "VOP3P",
    "VOP3SD",
    "DS",
    "FLAT",
    "GLOBAL",
    "VFLAT",
    "VGLOBAL",
    "SMEM",
)


@lru_cache
def cases(chip: str, wave: int) -> tuple[Case, ...]:
    tried: list[Case] = []
    known: set[tuple[str, str]] = set()
    for table in tables_of(chip):
        for op, pcode in load(table).items():
            family = type(op).__name__.removesuffix("Op")
            if family not in FAMILIES or (SKIP.search(op.name) and not SKIP_EXCEPT.search(op.name)):
                continue
            key = (family.removeprefix("VOP3SD") or "VOP3", op.name)
            if key not in known:
                known.add(key)
                tried += candidates(chip, wave, op.name, family, pcode)
    found: dict[tuple[str, str], Case] = {}
    for case, got in zip(tried, assemble(chip, wave, [case.text for case in tried]), strict=False):
        if not got or (case.family, case.name) in found:
            continue
        if got[0].split()[0] != case.text.split()[0] and plain(got[0]) != plain(case.text):
            continue  # an alias of another instruction
        found[case.family, case.name] = replace(case, code=got[1])
    return tuple(found.values())


def plain(text: str) -> str:
    return re.sub(r"_e(32|64)$", "", text.split()[0])


def unassembled(chip: str, wave: int) -> list[str]:
    have = {(c.family, c.name) for c in cases(chip, wave)}
    return [
        f"{type(op).__name__}.{op.name}"
        for table in tables_of(chip)[:1]
        for op in load(table)
        if (type(op).__name__.removesuffix("Op"), op.name) not in have
        and type(op).__name__.removesuffix("Op") in FAMILIES
        and not (SKIP.search(op.name) and not SKIP_EXCEPT.search(op.name))
    ]
