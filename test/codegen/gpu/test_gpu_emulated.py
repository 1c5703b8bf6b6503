"""The code objects executed, instruction by instruction, where the emulated device is built."""

from __future__ import annotations

from pathlib import Path

import pytest
from emulated import run_on

# Chips of a process; the three have another order each (see emulated.ORDERS).
CHIPS = ("gfx90a,gfx942,gfx950", "gfx1030,gfx1100,gfx1151", "gfx1200,gfx1201")


@pytest.mark.parametrize("chips", CHIPS)
def test_emulated_device_computes_what_the_functions_mean(chips: str, tmp_path: Path) -> None:
    run_on(chips, "emulated_run.py", tmp_path)
