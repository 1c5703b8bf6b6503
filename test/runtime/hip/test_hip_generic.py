"""Code for generic processors, on emulated chips of their families."""

from __future__ import annotations

import struct
from collections.abc import Sequence

import numpy as np
import pytest

import mgx_mlir
from mgx_mlir import emulator
from mgx_mlir.artifact.record import Artifact
from mgx_mlir.artifact.target import Target
from mgx_mlir.codegen.gpu.builders.binary import disassemble
from mgx_mlir.settings import Settings
from test.golden.files import VERSIONS, expected

SETTINGS = Settings(jobs=1, hip="emulated")
# EF_AMDGPU_MACH of the generic processor (AMDGPUUsage), its wave size, a matrix instruction.
GENERIC = {
    "gfx9-4-generic": (0x5F, 64, "v_mfma_f32_16x16x16_f16"),
    "gfx10-3-generic": (0x53, 32, ""),
    "gfx11-generic": (0x54, 32, "v_wmma_f32_16x16x16_f16"),
    "gfx12-generic": (0x59, 32, "v_wmma_f32_16x16x16_f16"),
}


def finalized(names: Sequence[str]) -> Artifact:
    path = VERSIONS[1, 0] / "attention.mgx"
    return mgx_mlir.finalize(Artifact.open(path), names, settings=SETTINGS)


@pytest.mark.parametrize("name", GENERIC)
def test_code_is_for_the_family(name: str) -> None:
    mach, wave_size, matrix = GENERIC[name]
    codes = finalized([name]).code_objects_for(Target.get(name))
    for code in codes:
        (flags,) = struct.unpack_from("<I", code.data, 48)
        assert flags & 0xFF == mach
        assert flags >> 24 >= 1  # the generic version
        assert code.data[8] == 4  # code objects of version 6
        assert {figures["wave_size"] for figures in code.stats.values()} == {wave_size}
    assert matrix in "".join(disassemble(code.data) for code in codes)


def test_chips_run_the_code_of_their_family() -> None:
    """The devices of this process: one of CDNA 3, one of RDNA 3."""
    artifact = finalized(["gfx9-4-generic", "gfx11-generic"])
    x, y = expected(VERSIONS[1, 0] / "attention.mgx")
    for chip in ("gfx942", "gfx1100"):
        assert chip in {device.chip for device in emulator.devices()}
        target = Target.get(chip)
        assert not artifact.has_code_objects(target) and artifact.runs_on(target)
        program = mgx_mlir.compile(artifact, target, settings=SETTINGS)
        (found,) = program.run({"x": x}).values()
        np.testing.assert_allclose(found.astype(np.float32), y.astype(np.float32), 4e-3, 4e-3)


def test_a_chip_s_own_code_comes_first() -> None:
    artifact = finalized(["gfx1100", "gfx11-generic"])
    (own, *_) = artifact.code_objects_for(Target.get("gfx1100"))
    (other, *_) = artifact.code_objects_for(Target.get("gfx1151"))
    assert (own.arch, other.arch) == ("gfx1100", "gfx11-generic")
    assert not artifact.runs_on(Target.get("gfx1201"))
