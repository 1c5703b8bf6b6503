"""A loop ends as its number of trips, its condition and its body say."""

from __future__ import annotations

import signal

import loop_models as models
import numpy as np
import pytest

import mgx_mlir
from mgx_mlir.compiler import CompileOptions
from mgx_mlir.errors import ModelError, UsageError
from mgx_mlir.models.staged import Model


@pytest.mark.parametrize("case", models.CASES, ids=str)
def test_a_loop_gives_what_onnxruntime_gives(case):
    model, feeds = models.loop_model(*case)
    want = models.expected(model, feeds)
    found = [Model(model).run(feeds)]
    if not case[-1]:
        found.append(mgx_mlir.compile(model, "cpu").run(feeds))
    for results in found:
        for name, array in want.items():
            np.testing.assert_array_equal(results[name], array)


@pytest.mark.parametrize("trips", [None, 10, 0])
def test_rows_of_a_known_number_compile(trips):
    case = (trips, False if trips is None else None, "always", True, True)
    model, feeds = models.loop_model(*case)
    found = mgx_mlir.compile(model, "cpu").run(feeds)
    np.testing.assert_array_equal(found["rows"], models.expected(model, feeds)["rows"])


@pytest.mark.parametrize("stacked", [True, False])
@pytest.mark.parametrize("trips", [None, 2**63 - 1])
@pytest.mark.parametrize("known", [True, False])
def test_a_loop_without_end_is_an_error(trips, known, stacked):
    model, feeds = models.loop_model(trips, True, "as before", known, stacked)
    options = CompileOptions(max_loop_iterations=5)
    said = r"'repeat'.* after 5; .*max_loop_iterations"
    with pytest.raises(ModelError, match=said):
        Model(model, options=options).run(feeds)
    if not stacked:
        with pytest.raises(ModelError, match=said):
            mgx_mlir.compile(model, "cpu", options=options).run(feeds)


def test_a_loop_may_make_as_many_trips_as_the_option_says():
    model, feeds = models.loop_model(None, True, "by the counter", False, False)
    for runnable in (Model, mgx_mlir.compile):
        enough, few = (CompileOptions(max_loop_iterations=n) for n in (4, 3))
        found = runnable(model, "cpu", options=enough).run(feeds)
        np.testing.assert_array_equal(found["y"], models.expected(model, feeds)["y"])
        with pytest.raises(ModelError, match="max_loop_iterations"):
            runnable(model, "cpu", options=few).run(feeds)


def test_a_stated_number_of_trips_has_no_limit():
    model, feeds = models.loop_model(10, True, "as before", False, False)
    found = Model(model, options=CompileOptions(max_loop_iterations=2)).run(feeds)
    np.testing.assert_array_equal(found["y"], models.expected(model, feeds)["y"])


def test_the_limit_is_saved_with_the_program():
    model, feeds = models.loop_model(None, True, "as before", False, False)
    options = CompileOptions(max_loop_iterations=5)
    artifact = mgx_mlir.compile_to_bytecode(model, options)
    again = mgx_mlir.Artifact.from_bytes(artifact.to_bytes())
    assert again.plan == artifact.plan
    with pytest.raises(ModelError, match="after 5"):
        mgx_mlir.compile(again, "cpu").run(feeds)


def test_a_limit_below_one_is_refused():
    with pytest.raises(UsageError, match="max_loop_iterations is 0"):
        CompileOptions(max_loop_iterations=0)


def test_a_signal_ends_a_loop_without_end() -> None:
    model, feeds = models.loop_model(None, None, "by an input", False, False)
    program = mgx_mlir.compile(model, "cpu", CompileOptions(max_loop_iterations=1 << 40))

    def stop(*_: object) -> None:
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGALRM, stop)
    signal.setitimer(signal.ITIMER_REAL, 0.05)
    try:
        with pytest.raises(KeyboardInterrupt):
            program.run(feeds | {"limit": np.array(1 << 60)})
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
    np.testing.assert_array_equal(program.run(feeds)["y"], models.expected(model, feeds)["y"])
