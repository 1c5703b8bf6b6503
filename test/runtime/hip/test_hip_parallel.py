"""Branches of a program side by side: the right order, graph and plain, and what it costs."""

from __future__ import annotations

import contextlib
import functools
import gc
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hip_programs import used_bytes
from onnx import TensorProto, helper

import mgx_mlir
from mgx_mlir import emulator
from mgx_mlir.artifact.record import Artifact
from mgx_mlir.errors import DeviceError
from mgx_mlir.runtime.hip.program import HipProgram
from test.runtime.accesses import accesses, share
from test.runtime.bound_plans import BoundPlan, bound_plan

PROGRAM = Path(__file__).with_name("race.py")
SIZE = 256


def model(branches: int = 3, length: int = 14) -> bytes:
    """Chains of running sums, none of which needs another, and the sum of their ends."""
    shape = [SIZE]
    nodes, ends = [], []
    for branch in range(branches):
        last = "x"
        for place in range(length):
            name = f"b{branch}_{place}"
            # All different, so that no two branches begin with the same.
            how = {"reverse": place % 2, "exclusive": int(place == branch)}
            nodes.append(helper.make_node("CumSum", [last, "axis"], [name], name, **how))
            last = name
        ends.append(last)
    nodes.append(helper.make_node("Sum", ends, ["y"], "sum"))
    graph = helper.make_graph(
        nodes,
        "branches",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, shape)],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, shape)],
        [helper.make_tensor("axis", TensorProto.INT64, [], [0])],
    )
    opsets = [helper.make_opsetid("", 17)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=8).SerializeToString()


@functools.cache
def artifact() -> Artifact:
    return mgx_mlir.finalize(mgx_mlir.compile_to_bytecode(model()), ["gfx942", "cpu"])


def program(graph: bool) -> HipProgram:
    found = mgx_mlir.compile(artifact(), "gfx942", graph=graph)
    assert isinstance(found, HipProgram)
    return found


def given(seed: int) -> dict[str, Any]:
    return {"x": np.random.default_rng(seed).random(SIZE, np.float32) / 1e35}


@functools.cache
def expected(seed: int) -> np.ndarray:
    return mgx_mlir.compile(artifact(), "cpu").run(given(seed))["y"]


def test_branches_run_on_streams_of_their_own() -> None:
    (schedule,) = bound_steps().schedules
    assert max(schedule.streams) == 2
    emulator.set_failures("hipMalloc:1000000")  # counts calls by name
    program(False).run(given(0))
    # A context's own, and those beside it.
    assert emulator.call_count("hipStreamCreateWithFlags") == 1 + 2
    emulator.set_failures("")


@pytest.mark.parametrize("graph", [True, False], ids=["graph", "plain"])
def test_results_are_the_host_s(graph: bool) -> None:
    found = program(graph)
    for seed in range(4):
        np.testing.assert_allclose(found.run(given(seed))["y"], expected(seed), rtol=1e-4)


def bound_steps() -> BoundPlan:
    code = artifact().code_objects["gfx942"]
    return bound_plan(artifact().plan, code, program(False).device.machine)


@pytest.mark.parametrize("graph", [True, False], ids=["graph", "plain"])
def test_every_call_may_fail(graph: bool) -> None:
    def life() -> None:
        program(graph).run(given(0))

    life()
    gc.collect()
    start = used_bytes()
    emulator.set_failures("")
    life()
    calls = emulator.call_count()
    for number in range(1, calls + 1, 3):
        found = program(graph)
        emulator.set_failures(f"any:{number}:999")
        with contextlib.suppress(DeviceError):
            life()
        emulator.set_failures("")
        np.testing.assert_allclose(found.run(given(1))["y"], expected(1), rtol=1e-4)
        del found
        assert used_bytes() <= start, f"call {number} of {calls} failed and left memory"


def test_every_pair_that_shares_bytes_is_ordered() -> None:
    bound = bound_steps()
    touched = accesses(bound, artifact().code_objects["gfx942"])
    (schedule,) = bound.schedules
    before: list[set[int]] = []
    for own in schedule.before:
        before.append(set(own).union(*(before[number] for number in own)))
    for later, step in enumerate(bound.steps):
        for earlier in range(later):
            scratch = uses_scratch(step) and uses_scratch(bound.steps[earlier])
            together = scratch and schedule.streams[earlier] == schedule.streams[later]
            if together or share(touched[earlier], touched[later]):
                assert earlier in before[later], f"step {later} may overtake step {earlier}"


def uses_scratch(step: Any) -> bool:
    return any(place.kind == "scratch" for place in step.places)


@pytest.fixture(scope="module")
def saved(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("plans") / "branches.mgx"
    artifact().save(path)
    return path


def run_strictly(path: Path, graph: str, threads: str) -> tuple[int, str]:
    """The exit code and the messages of race.py; `threads`: "1" for one for each stream."""
    environment = {
        **os.environ,
        "MGX_EMULATED_DEVICES": "gfx942",
        "MGX_EMULATOR_ASYNC": threads,
        "MGX_EMULATOR_STRICT": "1",
        "MGX_HIP": "emulated",
    }
    done = subprocess.run(
        [sys.executable, str(PROGRAM), str(path), graph],
        env=environment, capture_output=True, text=True, check=False, timeout=300,
    )  # fmt: skip
    return done.returncode, done.stdout + done.stderr


@pytest.mark.parametrize("threads", ["0", "1"], ids=["in turn", "side by side"])
@pytest.mark.parametrize("graph", ["graph", "plain"])
def test_nothing_is_raced_for(graph: str, threads: str, saved: Path) -> None:
    code, messages = run_strictly(saved, graph, threads)
    assert code == 0, messages
