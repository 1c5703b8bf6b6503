"""One program for any sizes at once, and programs for sizes that come often, in the background."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from onnx import numpy_helper, parser

import mgx_mlir
from mgx_mlir.errors import CompilerError
from mgx_mlir.models import specialize
from mgx_mlir.models.background import Background
from mgx_mlir.models.handing import Handed
from mgx_mlir.runtime.sized import SizedProgram

TEXT = """<ir_version: 8, opset_import: ["" : 17]>
g (float[n, 3] x) => (float[n, 3] y) { y = Softmax <axis = 1> (x) }"""


@pytest.fixture
def modes(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The modes of the compiles since."""
    found: list[str] = []
    compile_ = specialize.compile_to_bytecode

    def counted(model, options):
        found.append(options.mode)
        return compile_(model, options)

    monkeypatch.setattr(specialize, "compile_to_bytecode", counted)
    return found


def run(model: mgx_mlir.Model, n: int) -> None:
    x = np.random.default_rng(n).normal(size=(n, 3)).astype(np.float32)
    wanted = np.exp(x) / np.exp(x).sum(1, keepdims=True)
    np.testing.assert_allclose(model.run({"x": x})["y"], wanted, rtol=1e-5)


def test_the_second_call_of_any_size_compiles_nothing(modes: list[str]) -> None:
    model = mgx_mlir.Model(parser.parse_model(TEXT), warm=None)
    for n in (2, 5, 1, 5, 9):
        run(model, n)
    assert modes == ["full-dynamic"] and model.compiled == 1


def test_sizes_that_come_often_get_programs(modes: list[str]) -> None:
    model = mgx_mlir.Model(parser.parse_model(TEXT), warm=2, sizes=1)
    for n in (2, 2):
        run(model, n)
    model.wait()
    assert modes == ["full-dynamic"] and model.compiled == 2  # the other one by another process
    x = {"x": np.zeros((2, 3), np.float32)}
    assert not isinstance(model.program(x), SizedProgram)
    run(model, 2)
    for n in (4, 4):
        run(model, n)
    model.wait()
    run(model, 4)
    assert modes == ["full-dynamic"] and model.compiled == 3
    assert isinstance(model.program(x), SizedProgram)  # the one place is another size's


def test_sizes_may_be_compiled_first(modes: list[str]) -> None:
    model = mgx_mlir.Model(parser.parse_model(TEXT), any_after=None)
    for n in (2, 3, 2):
        run(model, n)
    assert modes == ["default", "default"]


def test_errors_in_the_background_reach_no_request(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    model = mgx_mlir.Model(parser.parse_model(TEXT), warm=1)

    def fails(*_: object) -> None:
        raise CompilerError("a fault")

    monkeypatch.setattr(model._whole, "_compiled_beside", fails)
    for n in (2, 2, 3):
        run(model, n)
    model.wait()
    assert "compiling for {'x': [2, 3]}: a fault" in caplog.text


def test_jobs_run_in_order_and_threads_end() -> None:
    background, done = Background(), []
    for number in range(5):
        background.submit("a job", lambda number=number: done.append(number))
    background.wait()
    assert done == [0, 1, 2, 3, 4]


def test_calls_go_to_a_process_of_the_least_priority() -> None:
    background, found = Background(), []
    background.submit("a job", lambda: found.append(background.call(os.getpriority, 0, 0)))
    background.submit("a job", lambda: found.append(background.call(os.sched_getscheduler, 0)))
    background.submit("a job", lambda: found.append(background.call(os.getpid)))
    background.wait()
    assert found[:2] == [19, os.SCHED_IDLE] and found[2] != os.getpid()


def test_a_process_ends_without_the_call_that_runs() -> None:
    code = """
import time
from mgx_mlir.models.background import Background
background = Background()
background.submit("first", lambda: background.call(time.sleep, 300))
time.sleep(0.3)
"""
    subprocess.run([sys.executable, "-c", code], timeout=60, check=True)


def test_a_process_ends_without_the_imports_of_the_other(tmp_path: Path) -> None:
    """Which take minutes, at the least priority, where a machine is busy."""
    (tmp_path / "slow.py").write_text("import time\ntime.sleep(300)\n")
    code = f"""
import sys, time
sys.path.append({str(tmp_path)!r})
from mgx_mlir.models.background import Background
background = Background(["slow"])
background.submit("first", lambda: background.call(time.sleep, 0))
time.sleep(0.3)
"""
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True
    )
    assert (done.stdout, done.stderr) == ("", "")


def test_weights_in_memory_are_mapped_and_come_back_as_they_are() -> None:
    arrays = [np.arange(5.0), np.zeros((3, 4), np.float32), np.ones(2, np.int8)]
    with Handed(arrays) as handed:
        other = Handed.mapped(*handed.places())
        there = other.loads(handed.dumps((arrays[2], arrays[0], np.broadcast_to(3.0, (1 << 20,)))))
        np.testing.assert_array_equal(there[1], arrays[0])
        back = handed.loads(other.dumps([*there, np.float32(7)]))
    assert back[0] is arrays[2] and back[1] is arrays[0]
    assert back[2].strides == (0,) and back[2][9] == 3


def test_a_model_with_weights_is_compiled_beside_requests() -> None:
    """Weights that lie in memory, in files, and that the compiler makes."""
    text = """<ir_version: 8, opset_import: ["" : 17]>
    g (float[n, 64] x) => (float[n, 64] y) { a = MatMul(x, w) y = Add(a, b) }"""
    model = parser.parse_model(text)
    rng = np.random.default_rng(0)
    w, b = rng.normal(size=(64, 64)).astype(np.float32), np.full(64, 2, np.float32)
    held = (numpy_helper.from_array(w, "w"), numpy_helper.from_array(b, "b"))
    model.graph.initializer.extend(held)
    runner = mgx_mlir.Model(model, warm=1)
    x = {"x": rng.normal(size=(3, 64)).astype(np.float32)}
    runner.run(x)
    runner.wait()
    assert not isinstance(runner.program(x), SizedProgram)
    np.testing.assert_allclose(runner.run(x)["y"], x["x"] @ w + b, rtol=1e-4, atol=1e-4)


def test_a_process_ends_without_the_jobs_that_wait() -> None:
    code = """
import time
from mgx_mlir.models.background import Background
background = Background()
background.submit("first", lambda: time.sleep(0.2))
background.submit("second", lambda: print("second"))
"""
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True
    )
    assert (done.stdout, done.stderr) == ("", "")
