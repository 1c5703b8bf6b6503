"""`Program` on the host: the inputs that it takes or refuses, and its results."""

from __future__ import annotations

import threading
from collections.abc import Sequence

import numpy as np
import pytest
from host_programs import BYTES, SIZE, elementwise, kernel

from mgx_mlir.artifact.code_object import CodeObject
from mgx_mlir.artifact.plan import Buffer, Plan, Step, TensorSpec
from mgx_mlir.errors import ArtifactError, UsageError
from mgx_mlir.runtime.program import Program

X = TensorSpec("x", "float32", (SIZE,))
Y = TensorSpec("y", "float32", (SIZE,))
IN = Buffer("input", BYTES, index=0)
OUT = Buffer("output", BYTES, index=0)
WEIGHT = Buffer("weight", BYTES, key="w")
FIRST = Buffer("arena", BYTES, offset=0)
SECOND = Buffer("arena", BYTES, offset=4096)


def make(
    buffers: Sequence[Buffer],
    steps: Sequence[Step],
    code: Sequence[CodeObject] = (),
    threads: int = 2,
    weights: dict[str, np.ndarray] | None = None,
) -> Program:
    plan = Plan((X,), (Y,), 8192, tuple(buffers), tuple(steps))
    return Program(plan, code, weights or {}, threads)


def chain(threads: int = 2) -> Program:
    """y = (x + w) * w, through the arena."""
    w = np.arange(SIZE, dtype=np.float32)
    return make(
        (IN, WEIGHT, FIRST, OUT),
        (Step(0, (0, 1, 2)), Step(1, (2, 1, 3))),
        (elementwise("add"), elementwise("mul")),
        threads,
        {"w": w},
    )


def test_steps_pass_values_through_the_arena():
    x = np.linspace(-1, 1, SIZE, dtype=np.float32)
    w = np.arange(SIZE, dtype=np.float32)
    np.testing.assert_array_equal(chain().run({"x": x})["y"], (x + w) * w)


@pytest.mark.parametrize("threads", [1, 2, 3, 7])
def test_any_number_of_threads(threads):
    program = chain(threads)
    x = np.ones(SIZE, np.float32)
    want = (x + np.arange(SIZE)) * np.arange(SIZE)
    for _ in range(20):
        np.testing.assert_array_equal(program.run({"x": x})["y"], want)


def test_runs_from_many_python_threads_at_once():
    program, wrong = chain(), []
    w = np.arange(SIZE, dtype=np.float32)

    def work(number: int) -> None:
        x = np.full(SIZE, number, np.float32)
        for _ in range(50):
            if not np.array_equal(program.run({"x": x})["y"], (x + w) * w):
                wrong.append(number)

    threads = [threading.Thread(target=work, args=(n,)) for n in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


def test_runs_on_a_thread_with_a_small_stack():
    program, results = chain(1), []
    old = threading.stack_size(128 << 10)
    try:
        x = np.ones(SIZE, np.float32)
        thread = threading.Thread(target=lambda: results.append(program.run({"x": x})["y"]))
        thread.start()
        thread.join()
    finally:
        threading.stack_size(old)
    assert results[0][3] == 12


def test_runs_in_a_forked_child():
    import multiprocessing

    program = chain()
    x = np.ones(SIZE, np.float32)
    program.run({"x": x})
    context = multiprocessing.get_context("fork")
    queue = context.SimpleQueue()
    child = context.Process(target=lambda: queue.put(float(program.run({"x": x})["y"][3])))
    child.start()
    child.join(20)
    assert child.exitcode == 0
    assert queue.get() == 12


def test_copy_steps():
    x = np.arange(SIZE, dtype=np.float32)
    program = make((IN, FIRST, OUT), (Step(-1, (0, 1)), Step(-1, (1, 2))))
    np.testing.assert_array_equal(program.run({"x": x})["y"], x)


def test_scratch_belongs_to_one_run():
    text = (
        "mgx.kernel @s(%x: tensor<300x640xf32>) -> tensor<300x640xf32> "
        'attributes {arch = #mgx.arch<"gfxMIGX">} {\n'
        "%y = mgx.softmax %x axis = 0 : tensor<300x640xf32>\n"
        "mgx.return %y : tensor<300x640xf32>\n}"
    )
    code = kernel(text)
    assert code.scratch_bytes
    size = 4 * 300 * 640
    specs = [TensorSpec(name, "float32", (300, 640)) for name in "xy"]
    buffers = (Buffer("input", size, index=0), Buffer("output", size, index=0))
    plan = Plan((specs[0],), (specs[1],), 0, buffers, (Step(0, (0, 1)),))
    program = Program(plan, [code], {}, 2)
    x = np.random.default_rng(0).normal(size=(300, 640)).astype(np.float32)
    np.testing.assert_allclose(program.run({"x": x})["y"].sum(0), np.ones(640), rtol=1e-5)


def test_inputs_are_copied_only_when_they_must_be():
    program = chain()
    w = np.arange(SIZE, dtype=np.float32)
    strided = np.ones(2 * SIZE, np.float32)[::2]
    np.testing.assert_array_equal(program.run({"x": strided})["y"], (1 + w) * w)
    shifted = np.ones(4 * SIZE + 1, np.uint8)[1:].view(np.float32)
    got = program.run({"x": shifted})["y"]
    np.testing.assert_allclose(got, (shifted + w) * w)


def test_results_go_into_given_arrays():
    y = np.zeros(SIZE, np.float32)
    result = chain().run({"x": np.ones(SIZE, np.float32)}, {"y": y})
    assert result["y"] is y
    assert y[3] == 12


@pytest.mark.parametrize(
    ("inputs", "message"),
    [
        ({}, "input 'x' is missing; the program's inputs: 'x'"),
        ({"x": np.zeros(SIZE, np.float32), "z": 1}, "no input 'z'; its inputs: 'x'"),
        ({"x": np.zeros(SIZE)}, r"'x' is float32\[1000\]; got float64\[1000\]"),
        ({"x": np.zeros(7, np.float32)}, r"'x' is float32\[1000\]; got float32\[7\]"),
    ],
    ids=["missing", "unknown", "type", "shape"],
)
def test_refuses_inputs_that_do_not_fit(inputs, message):
    with pytest.raises(UsageError, match=message):
        chain().run(inputs)


def test_refuses_outputs_that_do_not_fit():
    x = np.zeros(SIZE, np.float32)
    with pytest.raises(UsageError, match="no output 'q'"):
        chain().run({"x": x}, {"q": x})
    with pytest.raises(UsageError, match="not contiguous"):
        chain().run({"x": x}, {"y": np.zeros(2 * SIZE, np.float32)[::2]})
    with pytest.raises(UsageError, match=r"output 'y' is float32\[1000\]; got float32\[5\]"):
        chain().run({"x": x}, {"y": np.zeros(5, np.float32)})
    with pytest.raises(UsageError, match="'y' overlaps that of 'x'"):
        chain().run({"x": x}, {"y": x})


def test_refuses_parts_that_do_not_fit():
    with pytest.raises(ArtifactError, match="weight 'w', which is missing"):
        make((WEIGHT, OUT), (Step(-1, (0, 1)),))
    with pytest.raises(ArtifactError, match="has 8 bytes; the plan says 4000"):
        make((WEIGHT, OUT), (Step(-1, (0, 1)),), weights={"w": np.zeros(2, np.float32)})
    with pytest.raises(ArtifactError, match="kernel 3, which is missing"):
        make((IN, OUT), (Step(3, (0, 1)),))
    with pytest.raises(ArtifactError, match="too few for its kernel"):
        make((IN, OUT), (Step(0, (0, 1)),), [elementwise("add")])
    with pytest.raises(ArtifactError, match="copies between buffers of two sizes"):
        make((IN, Buffer("arena", 8, offset=0)), (Step(-1, (0, 1)),))
    damaged = CodeObject("x86-64", b"\x7fELF, not really", (), 0, {})
    with pytest.raises(ArtifactError, match="does not load"):
        make((IN, OUT), (), [damaged])


def test_weights_are_used_where_they_lie():
    w = np.ones(SIZE, np.float32)
    program = make((IN, WEIGHT, OUT), (Step(0, (0, 1, 2)),), [elementwise("add")], weights={"w": w})
    x = np.zeros(SIZE, np.float32)
    assert program.run({"x": x})["y"][0] == 1
    w[0] = 5
    assert program.run({"x": x})["y"][0] == 5


def test_takes_arrays_that_nobody_may_write():
    x = np.linspace(-1, 1, SIZE, dtype=np.float32)
    w = np.arange(SIZE, dtype=np.float32)
    x.flags.writeable = False
    program = chain()
    for given in (x, x.copy(), np.concatenate([x, x])[SIZE:]):
        np.testing.assert_array_equal(program.run({"x": given})["y"], (x + w) * w)


@pytest.mark.parametrize("threads", [1, 2, 3])
def test_spans_say_which_thread_worked_on_which_step(threads):
    program = chain(threads)
    x = np.ones(SIZE, np.float32)
    spans = program.spans({"x": x})
    assert {span.step for span in spans} == {0, 1} and len(spans) <= 2 * threads
    assert all(0 <= span.thread < threads for span in spans)
    assert len({(span.thread, span.step) for span in spans}) == len(spans)
    ends = [max(span.end for span in spans if span.step == step) for step in (0, 1)]
    starts = [min(span.start for span in spans if span.step == step) for step in (0, 1)]
    assert 0 <= starts[0] <= ends[0] <= starts[1] <= ends[1]


def test_a_profile_after_spans_and_spans_again_stand_alone():
    program, x = chain(), {"x": np.ones(SIZE, np.float32)}
    assert len(program.spans(x)) >= 2
    assert [step.launches for step in program.profile(x)] == [1, 1]
    assert {span.step for span in program.spans(x)} == {0, 1}
