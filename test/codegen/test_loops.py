"""Loops that are a kernel: their results beside the reference's, and which loops they are."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import onnxruntime
import pytest
from onnx import ModelProto, TensorProto, helper, numpy_helper

import mgx_mlir
from mgx_mlir.artifact.plan import Loop, Step
from mgx_mlir.errors import ArtifactError
from mgx_mlir.importer import parse_onnx
from mgx_mlir.reference import evaluate
from mgx_mlir.rewriting.portable import kernel_text

TARGETS = ("cpu", "gfx942", "gfx1100")
F32, I64, BOOL = TensorProto.FLOAT, TensorProto.INT64, TensorProto.BOOL


def _model(nodes: list[Any], x: list[Any], outputs: list[str], **weights: np.ndarray) -> ModelProto:
    graph = helper.make_graph(
        nodes,
        "loops",
        [helper.make_tensor_value_info("x", F32, x)],
        [helper.make_empty_tensor_value_info(name) for name in outputs],
        [numpy_helper.from_array(array, name) for name, array in weights.items()],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)


def recurrent(
    op: str, steps: Any = 70, batch: Any = 1, hidden: int = 8, ways: int = 2, **attributes: Any
) -> ModelProto:
    """One layer of inputs of 6, with peepholes and lengths where `attributes` are not None."""
    gates, generator = {"LSTM": 4, "GRU": 3, "RNN": 1}[op], np.random.default_rng(len(op) + ways)

    def weight(*shape: int) -> np.ndarray:
        return generator.uniform(-0.4, 0.4, shape).astype(np.float32)

    weights = {
        "w": weight(ways, gates * hidden, 6),
        "r": weight(ways, gates * hidden, hidden),
        "b": weight(ways, 2 * gates * hidden),
    }
    names = ["x", *weights]
    if attributes.pop("lengths", False):
        weights["n"] = np.arange(3, 3 + batch, dtype=np.int32) * 20 % (steps + 1)
        names.append("n")
    if attributes.pop("peepholes", False):
        weights["p"] = weight(ways, 3 * hidden)
        names += [""] * (7 - len(names)) + ["p"]
    direction = {1: "forward", 2: "bidirectional"}[ways]
    node = helper.make_node(
        op, names, ["y", "h"], hidden_size=hidden, direction=direction, **attributes
    )
    return _model([node], [steps, batch, 6], ["y", "h"], **weights)


def attending() -> ModelProto:
    """States of two shapes: one reads rows by the trip's number, scores them, keeps the largest."""
    node = helper.make_node
    generator = np.random.default_rng(5)
    body = helper.make_graph(
        [
            node("Gather", ["table", "i"], ["row"], axis=0),
            node("MatMul", ["state", "keys"], ["scores"]),
            node("Softmax", ["scores"], ["shares"], axis=-1),
            node("MatMul", ["shares", "values"], ["context"]),
            node("Add", ["context", "row"], ["sum"]),
            node("Tanh", ["sum"], ["state2"]),
            node("ReduceMax", ["scores"], ["best"], keepdims=0),
            node("Max", ["largest", "best"], ["largest2"]),
            node("Mod", ["i", "two"], ["odd"]),
            node("Cast", ["odd"], ["is_odd"], to=BOOL),
            node("Xor", ["is_odd", "flag"], ["flag2"]),
            node("Concat", ["state", "row"], ["both"], axis=0),
            node("Identity", ["go"], ["again"]),
        ],
        "body",
        [
            helper.make_tensor_value_info("i", I64, []),
            helper.make_tensor_value_info("go", BOOL, []),
            helper.make_tensor_value_info("state", F32, [4, 8]),
            helper.make_tensor_value_info("largest", F32, []),
            helper.make_tensor_value_info("flag", BOOL, []),
        ],
        [
            helper.make_tensor_value_info("again", BOOL, []),
            helper.make_tensor_value_info("state2", F32, [4, 8]),
            helper.make_tensor_value_info("largest2", F32, []),
            helper.make_tensor_value_info("flag2", BOOL, []),
            helper.make_tensor_value_info("both", F32, [5, 8]),
        ],
    )
    outputs = ["last", "most", "which", "rows"]
    return _model(
        [node("Loop", ["n", "", "x", "least", "no"], outputs, body=body)],
        [4, 8],
        outputs,
        n=np.int64(300),
        least=np.float32(-9),
        no=np.bool_(False),
        two=np.int64(2),
        table=generator.random((300, 1, 8), np.float32),
        keys=generator.random((8, 5), np.float32),
        values=generator.random((5, 8), np.float32),
    )


def swapping() -> ModelProto:
    """Two states change places, one of which reads its neighbours."""
    node = helper.make_node
    states = [helper.make_tensor_value_info(name, F32, [3, 4]) for name in ("a", "b")]
    body = helper.make_graph(
        [
            node("Transpose", ["a"], ["turned"], perm=[1, 0]),
            node("MatMul", ["a", "turned"], ["square"]),
            node("MatMul", ["square", "b"], ["whole"]),
            node("Mul", ["whole", "small"], ["product"]),
            node("Sin", ["product"], ["a2"]),
            node("Identity", ["a"], ["b2"]),
            node("Add", ["row", "a2"], ["sum"]),
        ],
        "body",
        [*states, helper.make_tensor_value_info("row", F32, [4])],
        [helper.make_tensor_value_info(name, F32, [3, 4]) for name in ("a2", "b2", "sum")],
    )
    return _model(
        [
            node("Neg", ["y0"], ["y"]),
            node("Scan", ["y0", "y", "x"], ["p", "q", "z"], body=body, num_scan_inputs=1),
        ],
        [700, 4],
        ["p", "q", "z"],
        small=np.float32(0.05),
        y0=np.random.default_rng(2).random((3, 4), np.float32),
    )


def joining() -> ModelProto:
    """A state beside a row: the place where they meet lies within a vector of the CPU."""
    node = helper.make_node
    body = helper.make_graph(
        [
            node("Concat", ["state", "row"], ["both"], axis=0),
            node("Mul", ["both", "weights"], ["scaled"]),
            node("Slice", ["scaled", "first", "last"], ["middle"]),
            node("Tanh", ["middle"], ["state2"]),
        ],
        "body",
        [
            helper.make_tensor_value_info(name, F32, [size])
            for name, size in (("state", 37), ("row", 41))
        ],
        [
            helper.make_tensor_value_info(name, F32, [size])
            for name, size in (("state2", 37), ("scaled", 78))
        ],
    )
    generator = np.random.default_rng(8)
    return _model(
        [node("Scan", ["start", "x"], ["last_state", "all"], body=body, num_scan_inputs=1)],
        [1100, 41],
        ["last_state", "all"],
        start=generator.random(37, np.float32),
        weights=generator.uniform(0.2, 0.9, 78).astype(np.float32),
        first=np.array([23]),
        last=np.array([60]),
    )


def nearest() -> ModelProto:
    """The nearest points of each row, as skl2onnx writes them: a scan, whose state stays."""
    node = helper.make_node
    body = helper.make_graph(
        [
            node("Sub", ["points", "row"], ["between"]),
            node("ReduceSumSquare", ["between"], ["distance"], axes=[1], keepdims=0),
            node("Identity", ["points"], ["points2"]),
        ],
        "body",
        [
            helper.make_tensor_value_info("points", F32, [30, 2]),
            helper.make_tensor_value_info("row", F32, [2]),
        ],
        [
            helper.make_tensor_value_info("points2", F32, [30, 2]),
            helper.make_tensor_value_info("distance", F32, [30]),
        ],
    )
    scan = node("Scan", ["known", "x"], ["last", "all"], body=body, num_scan_inputs=1)
    top = node("TopK", ["all", "three"], ["best", "places"], largest=0)
    known = np.random.default_rng(3).random((30, 2), np.float32)
    model = _model([scan, top], [40, 2], ["best", "places"], known=known, three=np.array([3]))
    model.opset_import[0].version = 16
    return model


MODELS = {
    "nearest": nearest(),
    "lstm of few steps": recurrent("LSTM", steps=3, batch=2),
    "joining": joining(),
    "lstm": recurrent("LSTM"),
    "lstm of some batches": recurrent("LSTM", batch=3, ways=1, peepholes=True, lengths=True),
    "lstm of many rows": recurrent("LSTM", steps=9, batch=7, hidden=48),
    "gru": recurrent("GRU", batch=2, hidden=19, linear_before_reset=1),
    "gru of one way": recurrent("GRU", batch=2, ways=1, lengths=True),
    "rnn": recurrent("RNN", hidden=10, activations=["Tanh", "Sigmoid"]),
    "attending": attending(),
    "swapping": swapping(),
}


def _given(shape: tuple[int, ...]) -> dict[str, np.ndarray]:
    return {"x": np.random.default_rng(1).uniform(-1, 1, shape).astype(np.float32)}


@pytest.mark.parametrize("name", MODELS)
def test_results(name: str) -> None:
    model = MODELS[name]
    artifact = mgx_mlir.compile_to_bytecode(model)
    assert any("loop" in kernel.name for kernel in artifact.kernels)
    shape = tuple(d.dim_value for d in model.graph.input[0].type.tensor_type.shape.dim)
    given, graph = _given(shape), parse_onnx(model)
    want = evaluate(graph.module, graph.weights, given)
    for target in TARGETS:
        found = mgx_mlir.compile(artifact, target).run(given)
        for output, array in want.items():
            np.testing.assert_allclose(found[output], array, 1e-4, 1e-5, err_msg=target)


def test_launches_do_not_grow_with_steps() -> None:
    artifact = mgx_mlir.compile_to_bytecode(recurrent("LSTM", steps=200, hidden=64))
    steps = artifact.plan.steps
    assert len(steps) <= 8 and all(isinstance(step, Step) for step in steps)


@pytest.mark.parametrize(
    "model", [recurrent("LSTM", steps=4, hidden=64), recurrent("RNN", steps=2), nearest()]
)
def test_few_steps_are_a_loop_too(model: ModelProto) -> None:
    steps = mgx_mlir.compile_to_bytecode(model).plan.steps
    assert len(steps) <= 5 and all(isinstance(step, Step) for step in steps)


def test_few_steps_of_much_work_are_written_out() -> None:
    artifact = mgx_mlir.compile_to_bytecode(recurrent("LSTM", steps=4, hidden=512))
    assert len(artifact.plan.steps) > 8
    assert all(isinstance(step, Step) for step in artifact.plan.steps)


def test_any_sizes() -> None:
    hidden = 37  # two vectors and some, of any number of rows
    model = recurrent("GRU", "steps", "batch", hidden)
    artifact = mgx_mlir.compile_to_bytecode(model, mode="full-dynamic")
    for target in TARGETS:
        program = mgx_mlir.compile(artifact, target)
        for steps, batch in ((70, 1), (5, 3), (4, 9)):
            given = _given((steps, batch, 6))
            graph = parse_onnx(recurrent("GRU", steps, batch, hidden))
            for output, array in evaluate(graph.module, graph.weights, given).items():
                found = program.run(given)[output]
                np.testing.assert_allclose(found, array, 1e-4, 1e-5, err_msg=target)


def with_lengths(op: str, ways: int, steps: Any, batch: Any) -> ModelProto:
    """A recurrent layer whose lengths are an input."""
    model = recurrent(op, steps, batch, hidden=5, ways=ways)
    (node,) = model.graph.node
    node.input.append("lengths")
    if ways == 1:
        next(a for a in node.attribute if a.name == "direction").s = b"reverse"
    lengths = helper.make_tensor_value_info("lengths", TensorProto.INT32, [batch])
    model.graph.input.append(lengths)
    return model


@pytest.mark.every(3)
@pytest.mark.parametrize("sizes", [(7, 3), ("steps", "batch")], ids=["given", "symbolic"])
@pytest.mark.parametrize(("op", "ways"), [("LSTM", 2), ("GRU", 1)])
def test_loops_end_with_the_longest_sequence(op: str, ways: int, sizes: tuple[Any, Any]) -> None:
    """Entries beyond a sequence's end are never seen, and results there are zero."""
    model = with_lengths(op, ways, *sizes)
    mode = "default" if isinstance(sizes[0], int) else "full-dynamic"
    artifact = mgx_mlir.compile_to_bytecode(model, mode=mode)
    (kernel,) = (kernel for kernel in artifact.kernels if "loop" in kernel.name)
    assert re.search(r"mgx.loop %arg|= loop %arg", kernel_text(kernel.bytecode))  # no size
    session = onnxruntime.InferenceSession(model.SerializeToString())
    programs = [mgx_mlir.compile(artifact, target) for target in TARGETS]
    for lengths in ([3, 1, 2], [7, 7, 7], [0, 4, 7], [0, 0, 0]):
        given = _given((7, 3, 6)) | {"lengths": np.array(lengths, np.int32)}
        for number, length in enumerate(lengths):
            given["x"][length:, number] = np.nan
        for output, want in zip(("y", "h"), session.run(None, given), strict=True):
            for target, program in zip(TARGETS, programs, strict=True):
                found = program.run(given)[output]
                np.testing.assert_allclose(found, want, 1e-4, 1e-5, err_msg=target)


def test_much_work_stays_in_the_program() -> None:
    artifact = mgx_mlir.compile_to_bytecode(recurrent("LSTM", batch=2, hidden=1600))
    assert any(isinstance(step, Loop) for step in artifact.plan.steps)


KERNEL = """
mgx.kernel @kernel(%n: tensor<i64>, %c: tensor<i1>, %x: tensor<4xf32>) -> tensor<4xf32>
    attributes {arch = #mgx.arch<"gfxMIGX">} {
  %r = mgx.loop %n, %c init(%x) : tensor<i64>, tensor<i1>, (tensor<4xf32>) -> tensor<4xf32> {
  ^bb0(%i: tensor<i64>, %go: tensor<i1>, %v: tensor<4xf32>):
    %w = mgx.exp %v : tensor<4xf32>
    mgx.yield %go, %w : tensor<i1>, tensor<4xf32>
  }
  mgx.return %r : tensor<4xf32>
}"""


def test_a_stored_loop_ends_by_its_number_of_trips() -> None:
    from mlir import ir

    from mgx_mlir.dialects import context
    from mgx_mlir.rewriting.portable import verify_portable

    with context(), pytest.raises(ArtifactError, match="condition is the constant true"):
        verify_portable(ir.Module.parse(KERNEL))
