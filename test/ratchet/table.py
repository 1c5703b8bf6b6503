"""The table of kernels: its rows, its file, and the rows of a program as it compiles now."""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Mapping
from dataclasses import astuple, dataclass, fields
from pathlib import Path
from typing import NamedTuple

from mgx_mlir.artifact.code_object import CodeObject
from mgx_mlir.artifact.target import Target
from mgx_mlir.codegen.gpu.builders.binary import disassemble
from mgx_mlir.finalizer import Workers, finalize_all
from mgx_mlir.finalizer.build import llvm_version
from test.ratchet.programs import Source

TABLE = Path(__file__).parent / "kernels.tsv"
PORTABLE = "*"  # in the place of a kernel's name: the portable program
_INSTRUCTION = re.compile(r"^(?: *[0-9a-f]+: *)?\t[a-z]\w*", re.MULTILINE)


class Key(NamedTuple):
    """Whose code a row tells of."""

    program: str
    kernel: str
    target: str


@dataclass(frozen=True)
class Row:
    """The code of a kernel: a hash, and the figures that people compare. Sizes in bytes."""

    code: str
    launches: int = 0
    instructions: int = 0
    vgprs: int = 0
    lds: int = 0
    spills: int = 0
    clocks: int = 0  # 0 where nobody has priced it

    def __str__(self) -> str:
        return ", ".join(f"{field.name} {getattr(self, field.name)}" for field in fields(self))


def read() -> tuple[str, dict[Key, Row]]:
    """The version of LLVM that made the code of the stored table, and its rows."""
    if not TABLE.exists():
        return llvm_version(), {}
    version, _, *lines = TABLE.read_text().splitlines()
    rows = {}
    for line in lines:
        program, kernel, target, code, *numbers = line.split("\t")
        rows[Key(program, kernel, target)] = Row(code, *map(int, numbers))
    return version.removeprefix("# LLVM "), rows


def write(rows: Mapping[Key, Row]) -> None:
    names = [*Key._fields, *(field.name for field in fields(Row))]
    lines = [f"# LLVM {llvm_version()}", "\t".join(names)]
    lines += ["\t".join(map(str, (*key, *astuple(rows[key])))) for key in sorted(rows)]
    TABLE.write_text("\n".join(lines) + "\n")


def rows_of(
    name: str, source: Source, known: Mapping[Key, Row], clocks: bool = False
) -> dict[Key, Row]:
    """The rows of a program, compiled now; `known` ones give the clocks of equal code."""
    artifact = source.compile()
    rows = {Key(name, PORTABLE, "gfxMIGX"): Row(artifact.content_hash[:16])}
    targets = [Target.get(target) for target in source.targets]
    jobs = len(os.sched_getaffinity(0))
    for target, codes in zip(
        targets, finalize_all(artifact.kernels, targets, Workers(jobs)).values(), strict=True
    ):
        for kernel, code in zip(artifact.kernels, codes, strict=True):
            key = Key(name, kernel.name, target.name)
            before = known.get(key)
            digest = _digest(code)
            if before is not None and before.code == digest and (before.clocks or not clocks):
                rows[key] = before
            else:
                rows[key] = _row(code, digest, clocks and source.mode == "default")
    return rows


def _digest(code: CodeObject) -> str:
    """A hash of the machine code and of how it is launched."""
    launches = repr([launch.to_json() for launch in code.launches])
    return hashlib.sha256(code.data + launches.encode()).hexdigest()[:16]


def _row(code: CodeObject, digest: str, clocks: bool) -> Row:
    stats = code.stats.values()
    return Row(
        digest,
        len(code.launches),
        len(_INSTRUCTION.findall(disassemble(code.data))) if code.data else 0,
        max((figures.get("vgpr", 0) for figures in stats), default=0),
        max((figures.get("lds_bytes", 0) for figures in stats), default=0),
        sum(figures.get(f"{kind}_spills", 0) for figures in stats for kind in ("vgpr", "sgpr")),
        _clocks(code) if clocks and code.data and code.arch.startswith("gfx") else 0,
    )


def _clocks(code: CodeObject) -> int:
    """The profile model's clocks of all launches of a kernel, each on as many work-groups as
    one compute unit holds; 0 where zeros are no input that it can be run on."""
    from benchmarks.kernel_makers import Kernel
    from benchmarks.kernels import profile

    total = 0.0
    for launch in code.launches:
        pointers = (None,) * len(launch.arguments)
        kernel = Kernel(code.data, launch.function, launch.grid, launch.block, pointers)
        try:
            total += profile(kernel, code.arch.partition(":")[0])["modelled_clocks"]
        except RuntimeError:
            return 0
    return round(total)
