"""AMD's device library of math functions (OCML), for the few calls that are not expanded.

Functions on f32 and smaller are expanded into arithmetic before (`passes.expand_math`), so
that only f64 ones are left. The library asks constants for the chip and the float modes that it
is compiled for; they are given here, so that it needs no bitcode file for each chip.
"""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path

from mgx_mlir.errors import TargetError

# The folders of a wheel of this project, of the packages rocm-device-libs (Debian 12) and
# rocm-device-libs-17 (Debian 13, Ubuntu), and ROCm's own.
FOLDERS = (
    str(Path(__file__).parents[1] / "_native"),
    "/usr/lib/x86_64-linux-gnu/amdgcn/bitcode",
    "/usr/lib/amdgcn/bitcode",
    "/usr/lib/llvm-17/lib/clang/17/amdgcn/bitcode",
    "/opt/rocm/amdgcn/bitcode",
)

_CALL = re.compile(r"@(__ocml_\w+)")


def libraries_for(ir_text: str, chip: str, wave_size: int) -> tuple[bytes, ...]:
    """The libraries to link to LLVM IR: none, or OCML and its constants for chip and wave size.

    Raises TargetError naming the functions when OCML is needed and not installed.
    """
    calls = sorted(set(_CALL.findall(ir_text)))
    if not calls:
        return ()
    library = _ocml()
    if library is None:
        raise TargetError(
            f"the kernel needs {', '.join(calls)} of AMD's device library, which is in none of "
            f"{', '.join(FOLDERS)}; install rocm-device-libs, or rocm-device-libs-17"
        )
    return library, _constants(chip, wave_size)


@cache
def _ocml() -> bytes | None:
    paths = (Path(folder, "ocml.bc") for folder in FOLDERS)
    found = next((path for path in paths if path.is_file()), None)
    return found.read_bytes() if found else None


def _constants(chip: str, wave_size: int) -> bytes:
    """The control constants, as rocm-device-libs' doc/OCML.md describes them."""
    values = {
        "__oclc_ISA_version": ("i32", _isa_version(chip)),
        "__oclc_correctly_rounded_sqrt32": ("i8", 1),
        "__oclc_daz_opt": ("i8", 0),
        "__oclc_finite_only_opt": ("i8", 0),
        "__oclc_unsafe_math_opt": ("i8", 0),
        "__oclc_wavefrontsize64": ("i8", int(wave_size == 64)),
    }
    lines = (
        f"@{name} = linkonce_odr hidden addrspace(4) constant {kind} {value}"
        for name, (kind, value) in values.items()
    )
    return "\n".join(lines).encode()


def _isa_version(chip: str) -> int:
    """gfx90a is 9010, gfx1201 is 12001: major, minor, and stepping in hexadecimal."""
    digits = chip.removeprefix("gfx")
    return int(digits[:-2]) * 1000 + int(digits[-2], 16) * 100 + int(digits[-1], 16)
