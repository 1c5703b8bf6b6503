"""The code of kernels changes only with the table that tells of it."""

from __future__ import annotations

import pytest

from mgx_mlir.artifact.target import Target
from mgx_mlir.codegen.gpu.builders.binary import disassemble
from mgx_mlir.finalizer import finalize_all
from mgx_mlir.finalizer.build import llvm_version
from test.isa.waits import missing_waits
from test.ratchet.programs import CHIPS, GATE, programs
from test.ratchet.table import read, rows_of

PROGRAMS = programs()
PARAMETERS = [
    pytest.param(name, marks=() if name in GATE else pytest.mark.slow) for name in PROGRAMS
]


@pytest.mark.parametrize("name", PARAMETERS)
def test_kernels_have_the_code_of_the_table(name: str) -> None:
    version, known = read()
    if version != llvm_version():
        pytest.skip(f"the table is of LLVM {version}, this is {llvm_version()}")
    stored = {key: row for key, row in known.items() if key.program == name}
    found = rows_of(name, PROGRAMS[name], known)
    changed = [key for key in {*stored, *found} if stored.get(key) != found.get(key)]
    assert not changed, "see the change with: python -m test.ratchet; accept it with --update"


@pytest.mark.parametrize("name", PARAMETERS)
def test_waves_wait_for_their_accesses(name: str) -> None:
    """Before a barrier, and before they count; on chips beside those of the table too."""
    source = PROGRAMS[name]
    model = len({*CHIPS} & {*source.targets}) > 1  # a kernel of its own is written for its chip
    chips = {*source.targets} & {*CHIPS} | ({*CHIPS, "gfx950", "gfx1030"} if model else set())
    kernels = source.compile().kernels
    for target, codes in finalize_all(kernels, [*map(Target.get, sorted(chips))]).items():
        for kernel, code in zip(kernels, codes, strict=True):
            missing = missing_waits(disassemble(code.data)) if code.data else []
            assert not missing, f"{kernel.name} on {target}"
