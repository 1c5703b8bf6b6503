"""The instructions of cases.py again, with other kinds of operands."""

from __future__ import annotations

import re
from dataclasses import replace
from functools import lru_cache

from assembler import assemble
from cases import Case, Operand, cases, plain
from inputs import kind_of

# How an assembler spells a constant, and its bits as each kind of operand.
CONSTANTS = (
    (
        "0.5",
        {
            "f64": 0x3FE0000000000000,
            "f32": 0x3F000000,
            "f16": 0x3800,
            "bf16": 0x3F00,
            "i": 0x3F000000,
        },
    ),
    (
        "-4",
        {
            "f64": 0xFFFFFFFFFFFFFFFC,
            "f32": 0xFFFFFFFC,
            "f16": 0xFFFC,
            "bf16": 0xFFFC,
            "i": 0xFFFFFFFFFFFFFFFC,
        },
    ),
    ("0x40490fdb", {"f64": 0x40490FDB00000000, "f32": 0x40490FDB, "f16": 0x0FDB, "i": 0x40490FDB}),
)


@lru_cache
def operand_variants(chip: str, wave: int) -> tuple[Case, ...]:
    """Vector instructions with a scalar, an inline constant or a literal for their first source."""
    tried = []
    for case in cases(chip, wave):
        if (
            not case.family.startswith("VOP")
            or case.extra.get("wave")
            or not case.sources
            or case.sources[0].kind != "v"
        ):
            continue
        if (
            "VGPR[" in case.pcode
            or "DIV_SCALE" in case.name
            or "SWAP" in case.name
            or "sOffset" in case.pcode
        ):
            continue
        first = case.sources[0]
        kind = kind_of(case, "S0")
        scalar = Operand("s", first.index, first.words)
        replacements = [("scalar", scalar)]
        for spelling, bits in CONSTANTS:
            # Packed operands treat constants by rules of their own; 64-bit integers take no literal
            # here. Compilers leave float constants of 16-bit integers alone (LLVM, issue 46302).
            if kind == "i" and spelling == "0.5" and re.search(r"\bS0\.[uib]16", case.pcode):
                continue
            if (
                kind in bits
                and case.family != "VOP3P"
                and not re.search(r"V_PK_|DOT\d", case.name)
                and not (first.words > 1 and kind != "f64" and spelling != "-4")
            ):
                value = bits[kind] if first.words > 1 else bits[kind] & 0xFFFFFFFF
                replacements.append(
                    (spelling, Operand("c", words=first.words, value=value, text=spelling))
                )
        for label, operand in replacements:
            text = case.text.replace(str(first), str(operand), 1)
            tried.append(
                replace(
                    case,
                    text=text,
                    sources=(operand, *case.sources[1:]),
                    extra={**case.extra, "variant": f"-{label}"},
                )
            )
    got = assemble(chip, wave, [case.text for case in tried])
    return tuple(
        replace(case, code=encoded[1])
        for case, encoded in zip(tried, got, strict=False)
        if encoded and plain(encoded[0]) == plain(case.text)
    )


@lru_cache
def half_variants(chip: str, wave: int) -> tuple[Case, ...]:
    """16-bit operations on upper halves of registers: by name on gfx11 and later, else op_sel."""
    tried = []
    for case in cases(chip, wave):
        if (
            not case.family.startswith("VOP")
            or case.family == "VOP3P"
            or case.extra.get("wave")
            or not case.sources
            or not re.search(r"\.[fbiu]16", case.pcode)
        ):
            continue
        if (
            "OPSEL" in case.pcode
            or any(o.words > 1 for o in (case.dst, *case.sources) if o)
            or "VGPR" in case.pcode
            or "V_PK_" in case.name
        ):
            continue
        operands = [*case.sources, *([case.dst] if case.dst else [])]
        for chosen in dict.fromkeys(
            [
                (True,) * len(operands),
                (True, *(False,) * (len(operands) - 1)),
                (*(True,) * len(case.sources), *(False,) * (len(operands) - len(case.sources))),
            ]
        ):
            narrow = [
                re.search(rf"\b{name}\.[fbiu]16\b", case.pcode)
                and not re.search(rf"\b{name}(\[[^\]]*\]|\.[fbiu](32|64))", case.pcode)
                for name in ("S0", "S1", "S2")[: len(case.sources)] + (("D0",) if case.dst else ())
            ]
            if "CMP_CLASS" in case.name and not chip.startswith(("gfx9", "gfx10")):
                narrow[1] = True  # the mask has ten bits
            renamed = [
                replace(o, high=bool(h and o.kind == "v" and n))
                for o, h, n in zip(operands, chosen, narrow, strict=False)
            ]
            if not any(o.high for o in renamed):
                continue
            if chip.startswith(("gfx9", "gfx10")):
                text = case.text + " op_sel:[" + ",".join("01"[o.high] for o in renamed) + "]"
            else:
                text = case.text
                for old, new in zip(operands, renamed, strict=False):
                    text = re.sub(
                        rf"\b{re.escape(str(old))}\b(?!\.)",
                        f"{old}.{'h' if new.high else 'l'}",
                        text,
                        count=1,
                    )
            sources, dst = tuple(renamed[: len(case.sources)]), renamed[-1] if case.dst else None
            label = "".join("lh"[o.high] for o in renamed)
            tried.append(
                replace(
                    case,
                    text=text,
                    sources=sources,
                    dst=dst,
                    extra={**case.extra, "variant": f"-{label}"},
                )
            )
    got = assemble(chip, wave, [case.text for case in tried], true16=True)
    return tuple(
        replace(case, code=encoded[1])
        for case, encoded in zip(tried, got, strict=False)
        if encoded and plain(encoded[0]) == plain(case.text)
    )


QUAD_PERM = (1, 0, 3, 2)


@lru_cache
def dpp_variants(chip: str, wave: int) -> tuple[Case, ...]:
    """Vector instructions whose first source comes from another lane of the quad."""
    tried = []
    control = f" quad_perm:[{','.join(map(str, QUAD_PERM))}] row_mask:0xf bank_mask:0xf"
    for case in cases(chip, wave):
        wide = any(o.words > 1 for o in (case.dst, *case.sources) if o)
        if (
            not case.family.startswith("VOP")
            or case.extra.get("wave")
            or not case.sources
            or case.sources[0].kind != "v"
            or wide
        ):
            continue
        if "VGPR[" in case.pcode or "SWAP" in case.name or "CMPX" in case.name:
            continue
        first, _, rest = case.text.partition(" ")
        names = (
            [re.sub("_e32$", "_dpp", first)]
            if first.endswith("_e32")
            else [re.sub("_e64$", "", first) + "_e64_dpp"]
        )
        tried += [
            replace(
                case, text=f"{name} {rest}{control}", extra={**case.extra, "quad_perm": QUAD_PERM}
            )
            for name in names
        ]
    got = assemble(chip, wave, [case.text for case in tried])
    return tuple(
        replace(case, code=encoded[1])
        for case, encoded in zip(tried, got, strict=False)
        if encoded and "quad_perm" in encoded[0]
    )
