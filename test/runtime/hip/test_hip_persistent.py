"""Resident kernels: many launches as one, on emulated chips, and schedules that are refused."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hip_programs import CHIPS
from persistent import given, layers

import mgx_mlir
from mgx_mlir.artifact.code_object import Resident
from mgx_mlir.artifact.record import Artifact
from mgx_mlir.errors import ArtifactError, UsageError
from mgx_mlir.finalizer import residents
from mgx_mlir.finalizer.cache import Cache
from mgx_mlir.loader import finalize
from mgx_mlir.settings import Settings

PROGRAM = Path(__file__).with_name("persistent.py")
# The code is one for all chips; the barriers are not.
SLOW_CHIPS = tuple(pytest.param(chip, marks=pytest.mark.slow) for chip in ("gfx1100", "gfx1201"))


def run(chip: str, *arguments: str, order: str = "forward", program: Path = PROGRAM) -> list[str]:
    environment = os.environ | {
        "PYTHONPATH": str(PROGRAM.parents[3]),
        "MGX_EMULATED_DEVICES": chip,
        "MGX_EMULATOR_BUDGET": str(1 << 24),
        "MGX_EMULATOR_ORDER": order,
        "MGX_EMULATOR_STRICT": "1",
        "MGX_HIP": "emulated",
    }
    done = subprocess.run(
        [sys.executable, str(program), chip, *arguments],
        env=environment, capture_output=True, text=True, check=False, timeout=600,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout.split()


@pytest.mark.every(3)
@pytest.mark.parametrize("order", ["reversed", "random:1", "forward", "random:2"])
@pytest.mark.parametrize("chip", CHIPS)
def test_the_bits_are_those_of_launches_in_any_order(chip: str, order: str) -> None:
    launches, wanted = run(chip, "launches", "layers")
    assert int(launches) >= 6
    assert run(chip, "persistent", "layers", order=order) == ["1", wanted]


@pytest.mark.parametrize("chip", ["gfx942", *SLOW_CHIPS])
def test_idle_waves_join_the_barriers_of_smaller_work_groups(chip: str) -> None:
    launches, wanted = run(chip, "launches", "decoder")
    assert int(launches) >= 16
    for order in ("forward", "random:1"):
        assert run(chip, "persistent", "decoder", order=order) == ["1", wanted]


@pytest.mark.parametrize("chip", ["gfx942", *SLOW_CHIPS])
@pytest.mark.parametrize("order", ["forward", "reversed", "random:1"])
def test_idle_waves_join_tiles_without_barriers(chip: str, order: str) -> None:
    program = PROGRAM.with_name("joined.py")
    for flags in ("000000000000", "110101100011"):
        run(chip, flags, order=order, program=program)


@pytest.fixture(scope="module")
def artifact() -> Artifact:
    return mgx_mlir.finalize(mgx_mlir.compile_to_bytecode(layers(3), persistent=True), "gfx942")


def resident_of(artifact: Artifact) -> Resident:
    (found,) = (one.resident for one in artifact.code_objects["gfx942"] if one.resident)
    return found


def test_layers_share_their_code(artifact: Artifact) -> None:
    found = resident_of(artifact)
    assert found.first == 0 and found.steps == len(artifact.plan.steps)
    assert len(found.bodies) <= len(found.phases) // 2
    (launch,) = artifact.code_objects["gfx942"][-1].launches
    assert artifact.plan.launches(artifact.code_objects["gfx942"]) == 1
    assert launch.arguments == ()
    assert f"resident      1 kernels of {len(found.phases)} launches" in artifact.summary()


def test_a_saved_artifact_has_them(artifact: Artifact, tmp_path: Path) -> None:
    path = tmp_path / "layers.mgx"
    artifact.save(path)
    program = mgx_mlir.compile(path, "gfx942", trust_code=True)
    wanted = mgx_mlir.compile(layers(3), "gfx942").run(given())
    for name, array in program.run(given()).items():
        np.testing.assert_array_equal(array, wanted[name])
    assert len(program.launches) == 1
    with pytest.raises(UsageError, match="cannot hold"):
        artifact.save(path, version=(1, 0))


def never_waits(found: Resident) -> Resident:
    return replace(found, phases=tuple((body, 0) for body, _ in found.phases))


def waits_late(found: Resident) -> Resident:
    first = next(i for i, (_, waits) in enumerate(found.phases) if waits)
    phases = list(found.phases)
    phases[first], phases[first + 1] = (phases[first][0], 0), (phases[first + 1][0], 1)
    return replace(found, phases=tuple(phases))


def other_code(found: Resident) -> Resident:
    (body, waits), *others = found.phases
    return replace(found, phases=(((body + 1) % len(found.bodies), waits), *others))


BROKEN: dict[str, tuple[Callable[[Resident], Resident], str]] = {
    "never waits": (never_waits, "does not wait for"),
    "waits late": (waits_late, "does not wait for"),
    "other code": (other_code, "has the code of another launch"),
    "a phase too few": (lambda one: replace(one, phases=one.phases[:-1]), "phases for"),
    "a step too few": (lambda one: replace(one, steps=one.steps - 1), "phases for"),
    "beyond the plan": (lambda one: replace(one, first=one.first + 1), "out of range"),
}


@pytest.mark.parametrize("case", BROKEN)
def test_schedules_that_are_not_safe_are_refused(artifact: Artifact, case: str) -> None:
    spoil, said = BROKEN[case]
    *others, last = artifact.code_objects["gfx942"]
    assert last.resident is not None
    broken = (*others, replace(last, resident=spoil(last.resident)))
    spoiled = replace(artifact, code_objects={"gfx942": broken})
    with pytest.raises(ArtifactError, match=said):
        mgx_mlir.compile(spoiled, "gfx942")


def test_open_sizes_stay_launches(caplog: pytest.LogCaptureFixture) -> None:
    model = layers(1)
    for value in (*model.graph.input, *model.graph.output):
        value.type.tensor_type.shape.dim[0].dim_param = "rows"
    program = mgx_mlir.compile(model, "gfx942", mode="full-dynamic", persistent=True)
    assert program.run(given())
    assert "nothing is persistent" in caplog.text


def test_its_code_is_kept_in_the_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    portable, cache = mgx_mlir.compile_to_bytecode(layers(1), persistent=True), Cache(tmp_path)
    made = finalize(portable, "gfx942", cache=cache)
    monkeypatch.setattr(residents, "TIME_LIMIT", 0.01)
    again = finalize(portable, "gfx942", cache=cache)
    assert again.code_objects == made.code_objects
    # Other layers are other arguments: code of its own, for which there is no time.
    other = mgx_mlir.compile_to_bytecode(layers(2), persistent=True)
    found = finalize(other, "gfx942", cache=cache).code_objects["gfx942"]
    assert all(one.resident is None for one in found)


def test_a_resident_kernel_that_takes_too_long_stays_launches(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(residents, "TIME_LIMIT", 0.01)
    portable = mgx_mlir.compile_to_bytecode(layers(1), persistent=True)
    settings = Settings.from_environment({"MGX_CACHE_DIR": "none"})
    artifact = mgx_mlir.finalize(portable, "gfx942", settings=settings)
    found = artifact.code_objects["gfx942"]
    assert all(one.resident is None for one in found)
    assert "stay launches: it took more than 0.01 seconds" in caplog.text
