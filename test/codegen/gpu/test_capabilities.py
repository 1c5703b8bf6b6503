"""The limits that passes plan with are those that generators keep to."""

from __future__ import annotations

from dataclasses import replace

import pytest

from mgx_mlir.artifact.architecture import ARCHITECTURES
from mgx_mlir.artifact.target import Target
from mgx_mlir.capabilities import DEPTH_STEP
from mgx_mlir.codegen.gpu.builders.units import unit_for, units_of
from mgx_mlir.errors import TargetError

CHIPS = [name for name in Target.names() if name.startswith("gfx")]


@pytest.mark.parametrize("chip", CHIPS)
def test_tiles_of_computed_elements_divide_the_depth_step(chip: str) -> None:
    """Prologues compute floats of 16 bits and more (see rewriting.prologues)."""
    pairs = [("bf16", "f32"), ("f16", "f32"), ("f32", "f32"), ("f64", "f64")]
    units = [unit_for(Target.get(chip), *pair) for pair in pairs]
    found = [unit for unit in units if unit is not None]
    assert found
    assert all(DEPTH_STEP % unit.tile_depth == 0 for unit in found)


@pytest.mark.parametrize("name", ARCHITECTURES)
def test_instructions_have_the_lanes_of_the_architecture(name: str) -> None:
    units = units_of(replace(Target.get("gfx942"), architecture=ARCHITECTURES[name]))
    assert units
    assert {unit.lanes for unit in units} == {ARCHITECTURES[name].wave_size}


def test_an_architecture_without_instructions_is_an_error() -> None:
    later = replace(ARCHITECTURES["rdna4"], name="rdna5")
    chip = replace(Target.get("gfx1201"), name="gfx1301", architecture=later)
    with pytest.raises(TargetError, match=r"gfx1301, of architecture rdna5: add a row"):
        unit_for(chip, "f16", "f32")
    with pytest.raises(TargetError, match="amdgcnspirv is of no known GPU architecture"):
        _ = Target.get("amdgcnspirv").gpu
