"""The code of kernels changes only with the table that tells of it."""

from __future__ import annotations

import pytest

from mgx_mlir.finalizer.build import llvm_version
from test.ratchet.programs import GATE, programs
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
