"""Assembles with LLVM, and finds operands that an instruction accepts."""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
import subprocess
from functools import lru_cache
from pathlib import Path

GFX = {
    "gfx90a": 0x90A,
    "gfx942": 0x942,
    "gfx950": 0x950,
    "gfx1030": 0xA30,
    "gfx1100": 0xB00,
    "gfx1151": 0xB51,
    "gfx1200": 0xC00,
    "gfx1201": 0xC01,
}
CHIPS = tuple(GFX)


def _find_llvm_mc() -> Path:
    for name in (
        os.environ.get("MGX_LLVM_MC"),
        "/usr/lib/llvm-22/bin/llvm-mc",
        shutil.which("llvm-mc-22"),
        shutil.which("llvm-mc"),
    ):
        if name and Path(name).exists():
            return Path(name)
    raise FileNotFoundError("llvm-mc of LLVM 22")


LLVM_MC = _find_llvm_mc()
_ENCODING = re.compile(r"^\s*(.*?)\s*(?:;|//) encoding: \[([0-9a-fx,]+)\]")


def wave_sizes(chip: str) -> tuple[int, ...]:
    return (64,) if chip.startswith("gfx9") else (32, 64)


CACHE = Path(__file__).resolve().parents[3] / "build" / "isa" / "assembled"


def assemble(
    chip: str, wave: int, lines: list[str], *, true16: bool = False
) -> list[tuple[str, bytes] | None]:
    """LLVM's text and bytes of each line; None for a line it refuses. Kept under build/.

    `true16`: the halves of registers have names (gfx11, gfx12).
    """
    if not lines:
        return []
    stamp = f"{LLVM_MC.resolve()}\n{LLVM_MC.stat().st_mtime}\n{chip} {wave} {true16}\n" + "\n".join(
        lines
    )
    kept = CACHE / f"{hashlib.sha256(stamp.encode()).hexdigest()[:24]}.json"
    if kept.exists():
        return [
            (text, bytes.fromhex(code)) if text else None
            for text, code in json.loads(kept.read_text())
        ]
    result = _assemble(chip, wave, lines, true16)
    CACHE.mkdir(parents=True, exist_ok=True)
    scratch = kept.with_suffix(f".{os.getpid()}")
    scratch.write_text(json.dumps([(got[0], got[1].hex()) if got else ("", "") for got in result]))
    scratch.rename(kept)
    return result


def _assemble(
    chip: str, wave: int, lines: list[str], true16: bool
) -> list[tuple[str, bytes] | None]:
    # Each line is followed by a marker, so that refused lines leave a gap.
    source = "".join(f"{line}\ns_nop {n & 7}\n" for n, line in enumerate(lines))
    names = [] if chip.startswith("gfx9") else [f"+wavefrontsize{wave}"]
    if true16 and chip.startswith(("gfx11", "gfx12")):
        names.append("+real-true16")
    features = ["-mattr=" + ",".join(names)] if names else []
    run = subprocess.run(
        [str(LLVM_MC), "-triple=amdgcn-amd-amdhsa", f"-mcpu={chip}", *features, "-show-encoding"],
        input=source,
        capture_output=True,
        text=True,
        check=False,
    )
    result: list[tuple[str, bytes] | None] = []
    pending = None
    for text in run.stdout.splitlines():
        match = _ENCODING.match(text)
        if not match:
            continue
        code = bytes(int(byte, 16) for byte in match[2].split(","))
        if match[1].startswith("s_nop"):
            result.append(pending)
            pending = None
        else:
            pending = (" ".join(match[1].split()), code)
    assert len(result) == len(lines), run.stderr[:500]
    return result


def register(first: int, count: int, letter: str = "v") -> str:
    return f"{letter}{first}" if count == 1 else f"{letter}[{first}:{first + count - 1}]"


@lru_cache
def matrix_encodings(chip: str, wave: int, mnemonics: tuple[str, ...]) -> dict[str, str]:
    """Mnemonics as LLVM prints them, each with a line it accepts."""
    lines = []
    for name in mnemonics:
        sparse = name.startswith(("v_smfmac", "v_swmmac"))
        for d in (1, 2, 4, 8, 16, 32):
            for a in (1, 2, 4, 8):
                for b in (a, 2 * a):
                    third = "v48" if sparse else register(96, d)
                    tail = ", v49, v50" if "_scale_" in name else ""
                    operands = f"{register(64, d)}, {register(0, a)}, {register(16, b)}, {third}"
                    lines.append(f"{name} {operands}{tail}")
    found: dict[str, str] = {}
    for got in assemble(chip, wave, lines):
        if got:
            found.setdefault(got[0].split()[0], got[0])
    return found
