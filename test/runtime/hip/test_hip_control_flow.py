"""Branches and loops on emulated devices: decisions, graphs between them, errors, threads."""

from __future__ import annotations

import gc
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hip_programs import CHIPS, used_bytes

import mgx_mlir
from mgx_mlir import emulator
from mgx_mlir.compiler import CompileOptions
from mgx_mlir.errors import ArtifactError, DeviceError, ModelError
from mgx_mlir.models.staged import Model
from mgx_mlir.reference import evaluate
from mgx_mlir.runtime.hip.program import HipProgram
from mgx_mlir.runtime.hip.tensor import DeviceTensor
from test.passes.graphs import parse, random_graph, random_inputs

sys.path.insert(0, str(Path(__file__).parents[1]))

import control_flow_models as models
import loop_models


def program(name: str, chip: str = "gfx942", graph: bool = True) -> HipProgram:
    found = mgx_mlir.compile(models.artifact(name, *CHIPS), chip, graph=graph)
    assert isinstance(found, HipProgram)
    return found


def on_device(given: dict[str, np.ndarray], ordinal: int = 0) -> dict[str, Any]:
    return {name: DeviceTensor.from_numpy(np.asarray(a), ordinal) for name, a in given.items()}


def count_calls() -> None:
    """Begins to count the calls of HIP by name; programs of other tests make none meanwhile."""
    gc.collect()
    emulator.set_failures("hipMalloc:1000000")


def waits() -> int:
    """How often runs have waited for the device since."""
    return emulator.call_count("hipStreamSynchronize")


@pytest.fixture(autouse=True)
def no_failures() -> Iterator[None]:
    yield
    emulator.set_failures("")


@pytest.mark.parametrize("name", models.MODELS)
@pytest.mark.parametrize("chip", CHIPS)
def test_models_give_what_the_reference_gives(chip: str, name: str) -> None:
    replayed, plain = program(name, chip), program(name, chip, graph=False)
    for seed in range(1 if name == "rows" else 8):
        given = models.inputs(name, seed)
        found, other = replayed.run(given), plain.run(on_device(given, CHIPS.index(chip)))
        models.check(name, found, given)
        for output, array in found.items():
            np.testing.assert_array_equal(array, other[output])


@pytest.mark.parametrize(
    "seed", [0, *(pytest.param(n, marks=pytest.mark.slow) for n in range(1, 12))]
)
def test_random_programs(seed: int) -> None:
    graph, twin = (random_graph(seed, 8, True) for _ in range(2))
    given = random_inputs(graph)
    with np.errstate(all="ignore"):
        want = evaluate(twin.module, twin.weights, given)
    found = mgx_mlir.compile(mgx_mlir.compile_to_bytecode(graph), "gfx942").run(given)
    for name, array in want.items():
        np.testing.assert_allclose(found[name], array, 1e-3, 1e-5, err_msg=name)


@pytest.mark.parametrize("graph", [True, False], ids=["graph", "plain"])
def test_many_runs_with_changing_inputs_and_addresses(graph: bool) -> None:
    search = program("search", graph=graph)
    given = [models.inputs("search", seed) for seed in range(6)]
    want = [models.expected("search", one) for one in given]
    tensors = [on_device(one) for one in given]
    own = [DeviceTensor.empty((models.SIDE, models.SIDE), np.float32) for _ in range(4)]
    for number in range(200):
        which = number * 5 % 6
        inputs = tensors[which] if number % 3 else given[which]
        outputs = {"z": own[number % 2], "found": own[2 + number % 2]} if number % 4 < 2 else {}
        found = search.run(inputs, outputs)
        for name, array in want[which].items():
            value = found[name].numpy() if outputs else found[name]
            np.testing.assert_allclose(value, array, rtol=1e-4, atol=1e-5)


def test_what_the_host_knows_needs_no_waiting() -> None:
    nested = program("nested")
    given = {**models.inputs("nested", 1), "n": np.array(3), "m": np.array(1)}
    count_calls()
    handle = nested.run_async(given, results="device")
    assert not waits()
    models.check("nested", handle.result(), given)
    tensors = on_device(given)
    count_calls()
    models.check("nested", nested.run(tensors, results="device"), given)
    # The condition and the outer count once, the inner one's at each of three trips.
    assert waits() > 5


def test_a_run_that_the_device_decides_blocks_nobody() -> None:
    """In a process of its own, where streams work beside the host."""
    modes = {"MGX_EMULATOR_ASYNC": "1", "MGX_EMULATED_DEVICES": "gfx942", "MGX_HIP": "emulated"}
    done = subprocess.run(
        [sys.executable, str(Path(__file__).with_name("decided_in_flight.py"))],
        env=os.environ | modes, capture_output=True, text=True, check=False, timeout=300,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    assert "nobody was blocked" in done.stdout


def test_what_fails_behind_a_decision_is_the_handle_s_to_say() -> None:
    start = used_bytes()
    search, given = program("search"), models.inputs("search", 5)
    want = search.run(given)
    for _ in range(3):
        tensors = on_device(given)
        # The first call behind the copies of inputs: a condition's.
        emulator.set_failures("hipStreamSynchronize:1:999")
        handle = search.run_async(tensors)
        with pytest.raises(DeviceError, match="hipStreamSynchronize"):
            handle.result()
        emulator.set_failures("")
        with pytest.raises(DeviceError):
            handle.result()
        assert handle.done()
        search.run_async(tensors)  # nobody asks
        for name, array in search.run(tensors).items():
            np.testing.assert_array_equal(array, want[name])
    del handle, tensors, search
    gc.collect()
    assert used_bytes() == start


def test_a_loop_of_constant_trips_decides_nothing() -> None:
    given, rows = models.inputs("rows", 0), program("rows")
    count_calls()
    handle = rows.run_async(given)
    assert not waits()
    models.check("rows", handle.result(), given)


def test_sections_between_decisions_are_graphs() -> None:
    search = program("search")
    count_calls()
    search.run(models.inputs("search", 5))
    built = emulator.call_count("hipGraphInstantiateWithFlags")
    assert built > 0 and emulator.call_count("hipGraphLaunch") >= built
    count_calls()
    search.run(models.inputs("search", 5))
    assert emulator.call_count("hipGraphInstantiateWithFlags") == 0
    assert emulator.call_count("hipGraphLaunch") >= built


def test_short_bodies_that_fill_rows_are_launched() -> None:
    """Two rows of six steps: to change both copies takes longer than to launch all."""
    stack = program("rows")
    stack.run(models.inputs("rows", 0))
    count_calls()
    stack.run(models.inputs("rows", 0))
    assert emulator.call_count("hipGraphLaunch") > 0
    assert emulator.call_count("hipGraphExecMemcpyNodeSetParams1D") == 0
    assert emulator.call_count("hipModuleLaunchKernel") > 0


@pytest.mark.parametrize("graph", [True, False], ids=["graph", "plain"])
def test_every_call_may_fail(graph: bool) -> None:
    given = {**models.inputs("search", 5), "n": np.array(2)}
    tensors = on_device(given)

    def life() -> None:
        search = program("search", graph=graph)
        search.run(given)
        search.run_async(tensors, results="device").result()

    life()
    gc.collect()
    start = used_bytes()
    emulator.set_failures("")
    life()
    calls = emulator.call_count()
    failed = 0
    for number in range(1, calls + 1):
        search = program("search", graph=graph) if number % 2 else None
        emulator.set_failures(f"any:{number}:999")
        try:
            life()
        except DeviceError:
            failed += 1
        emulator.set_failures("")
        if search is not None:
            models.check("search", search.run(given), given)
        search = None
        assert used_bytes() <= start, f"call {number} of {calls} failed and left memory"
    assert failed > calls // 3


@pytest.mark.parametrize("graph", [True, False], ids=["graph", "plain"])
def test_a_wrong_number_of_trips_is_an_error_and_no_harm(graph: bool) -> None:
    artifact = mgx_mlir.compile_to_bytecode(parse(models.ROWS))
    found = mgx_mlir.compile(artifact, "gfx942", graph=graph)
    x = np.zeros(4, np.float32)
    for trips in (2, 4):
        with pytest.raises(ArtifactError, match="'repeat'"):
            found.run({"n": np.array(trips), "x": x})
    rows = found.run({"n": np.array(3), "x": x})["y"]
    np.testing.assert_allclose(rows[:, 0], [0, 1, np.e], rtol=1e-5)


def test_a_failed_decision_says_so() -> None:
    search = program("search", graph=False)
    given = on_device({**models.inputs("search", 5), "n": np.array(2)})
    search.run(given)
    # After the copies of the values that the loop begins with: two, and its counter.
    emulator.set_failures("hipMemcpyAsync:4")
    with pytest.raises(DeviceError, match=r"hipMemcpyAsync failed: .*; a condition"):
        search.run(given)
    search.run(given)


def test_threads_take_different_ways() -> None:
    models.check_threads("search", program("search"), runs=3)


@pytest.mark.parametrize("again", ["by an input", "by the value"])
@pytest.mark.parametrize("trips", [None, 10, 0])
def test_loops_that_end_early(trips: int | None, again: str) -> None:
    condition = True if trips is None else None
    for stacked in (False, True):
        model, feeds = loop_models.loop_model(trips, condition, again, False, stacked)
        want = loop_models.expected(model, feeds)
        found = [Model(model, "gfx942").run(feeds)]
        if not stacked:
            found.append(mgx_mlir.compile(model, "gfx942").run(feeds))
        for results in found:
            for name, array in want.items():
                np.testing.assert_array_equal(results[name], array)


def test_a_loop_without_end_leaves_the_program_usable() -> None:
    model, feeds = loop_models.loop_model(None, None, "by an input", False, False)
    options = CompileOptions(max_loop_iterations=5)
    made = mgx_mlir.compile(model, "gfx942", options)
    for _ in range(2):
        with pytest.raises(ModelError, match="after 5"):
            made.run(feeds | {"limit": np.array(100)})
        found = made.run(feeds)
        np.testing.assert_array_equal(found["y"], loop_models.expected(model, feeds)["y"])
