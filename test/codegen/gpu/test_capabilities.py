"""The limits that passes plan with are those that generators keep to."""

from __future__ import annotations

import pytest

from mgx_mlir.artifact.target import Target
from mgx_mlir.capabilities import DEPTH_STEP
from mgx_mlir.codegen.gpu.families.contraction.specs import unit_for

CHIPS = [name for name in Target.names() if name.startswith("gfx")]


@pytest.mark.parametrize("chip", CHIPS)
def test_tiles_of_computed_elements_divide_the_depth_step(chip: str) -> None:
    """Prologues compute floats of 16 bits and more (see rewriting.prologues)."""
    pairs = [("bf16", "f32"), ("f16", "f32"), ("f32", "f32"), ("f64", "f64")]
    units = [unit_for(Target.get(chip), *pair) for pair in pairs]
    found = [unit for unit in units if unit is not None]
    assert found
    assert all(DEPTH_STEP % unit.tile_depth == 0 for unit in found)
