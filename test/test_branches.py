"""If: the branch that a run takes has to fit its sizes; branches may differ in shape."""

from __future__ import annotations

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import GraphProto, NodeProto, TensorProto, helper, numpy_helper

import mgx_mlir
from mgx_mlir.errors import ModelError
from mgx_mlir.models.staged.check import State, check
from test.importer.agreement import floats

FLOAT = TensorProto.FLOAT
node = helper.make_node


def value(name: str, *shape: int | str, kind: int = FLOAT) -> onnx.ValueInfoProto:
    return helper.make_tensor_value_info(name, kind, shape)


def result(name: str) -> onnx.ValueInfoProto:
    return helper.make_tensor_value_info(name, FLOAT, None)


def branch(*nodes: NodeProto) -> GraphProto:
    return helper.make_graph(nodes, "branch", [], [result(nodes[-1].output[0])])


def choice(then: GraphProto, other: GraphProto, condition: str = "c", y: str = "y") -> NodeProto:
    return node("If", [condition], [y], "choice", then_branch=then, else_branch=other)


def model(nodes: list[NodeProto], inputs: list, **weights: np.ndarray) -> onnx.ModelProto:
    held = [numpy_helper.from_array(array, name) for name, array in weights.items()]
    graph = helper.make_graph(nodes, "g", inputs, [result(nodes[-1].output[0])], held)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def assert_as_onnxruntime(made: onnx.ModelProto, *runs: dict[str, np.ndarray]) -> mgx_mlir.Model:
    session = onnxruntime.InferenceSession(made.SerializeToString())
    runner = mgx_mlir.Model(made)
    for feeds in runs:
        (want,) = session.run(None, feeds)
        (got,) = runner.run(feeds).values()
        assert np.shape(got) == want.shape
        np.testing.assert_allclose(got, want, rtol=1e-4, atol=1e-5)
    return runner


WIDE = branch(node("MatMul", ["x", "wide"], ["p"], "of four"))
NARROW = branch(node("MatMul", ["x", "narrow"], ["q"], "of two"))
SUMS = branch(node("ReduceSum", ["x"], ["s"], keepdims=0))
WEIGHTS = {"wide": floats(4, 3), "narrow": floats(2, 3, seed=1)}
X, C = value("x", "b", "t"), value("c", kind=TensorProto.BOOL)


def feeds(width: int, condition: bool, rows: int = 2) -> dict[str, np.ndarray]:
    return {"x": floats(rows, width), "c": np.array(condition)}


def test_the_branch_that_is_not_taken_need_not_fit():
    made = model([choice(WIDE, NARROW)], [X, C], **WEIGHTS)
    runner = assert_as_onnxruntime(
        made, feeds(4, True), feeds(2, False), feeds(4, True, 5), feeds(2, False, 7)
    )
    assert runner.compiled == 0  # the host chooses, and each branch has its one program


def test_truths_of_few_numbers_and_copies_need_no_program():
    nodes = [
        node("Equal", ["rate", "high"], ["same"]),
        node("Not", ["same"], ["c"]),
        choice(WIDE, NARROW, y="chosen"),
        node("Identity", ["chosen"], ["y"]),
    ]
    rate = value("rate", 1, kind=TensorProto.INT64)
    made = model(nodes, [X, rate], **WEIGHTS, high=np.array([8000]))
    runs = [{"x": floats(2, w), "rate": np.array([r])} for w, r in ((4, 16000), (2, 8000))]
    assert assert_as_onnxruntime(made, *runs, *runs).compiled == 0


def test_a_copy_is_not_what_it_copies():
    made = model([choice(branch(node("Identity", ["x"], ["i"])), NARROW)], [X, C], **WEIGHTS)
    inputs = feeds(3, True)
    (got,) = mgx_mlir.Model(made).run(inputs).values()
    got[:] = 0
    assert inputs["x"].all()


def test_a_branch_that_is_taken_and_does_not_fit_is_named():
    made = model([choice(WIDE, NARROW)], [X, C], **WEIGHTS)
    with pytest.raises(ModelError, match="of two"):
        mgx_mlir.Model(made).run(feeds(4, False))
    both = model([choice(NARROW, NARROW)], [value("x", 2, 4), C], **WEIGHTS)
    with pytest.raises(ModelError, match="of two"):
        mgx_mlir.Model(both).run(feeds(4, True))


def test_given_sizes_that_fit_one_branch_alone():
    made, inputs = model([choice(WIDE, NARROW)], [value("x", 2, 4), C], **WEIGHTS), feeds(4, True)
    got = mgx_mlir.Model(made).run(inputs)["y"]
    np.testing.assert_allclose(got, inputs["x"] @ WEIGHTS["wide"], rtol=1e-4)
    assert check(made).state is State.PARTS


def test_a_constant_condition_leaves_its_branch_alone():
    made = model([choice(WIDE, NARROW, "k")], [X], **WEIGHTS, k=np.array(True))
    assert_as_onnxruntime(made, {"x": floats(2, 4)}, {"x": floats(5, 4)})


def test_a_condition_that_follows_from_the_shape():
    nodes = [
        node("Shape", ["x"], ["sizes"]),
        node("Gather", ["sizes", "one"], ["width"]),
        node("Equal", ["width", "four"], ["c"]),
        choice(WIDE, NARROW),
    ]
    made = model(nodes, [X], **WEIGHTS, one=np.array(1), four=np.array(4))
    assert_as_onnxruntime(made, *({"x": floats(3, width)} for width in (4, 2, 4)))


def test_a_condition_that_the_data_decide_and_nodes_around():
    nodes = [
        node("ReduceMax", ["x"], ["most"], keepdims=0),
        node("Greater", ["most", "limit"], ["c"]),
        choice(WIDE, NARROW, y="chosen"),
        node("Relu", ["chosen"], ["y"]),
    ]
    made = model(nodes, [X], **WEIGHTS, limit=np.float32(10))
    high, low = floats(3, 4) + 20, floats(3, 2)
    assert_as_onnxruntime(made, {"x": high}, {"x": low})


def test_branches_within_branches():
    inner = branch(choice(WIDE, NARROW, "d", "inner"))
    made = model([choice(inner, SUMS)], [X, C, value("d", kind=TensorProto.BOOL)], **WEIGHTS)
    runs = [(4, True, True), (2, True, False), (3, False, True)]
    assert_as_onnxruntime(made, *({**feeds(width, c), "d": np.array(d)} for width, c, d in runs))


def test_branches_of_other_ranks_and_sizes():
    flat = branch(node("Flatten", ["x"], ["f"], axis=0))
    twice = branch(node("Concat", ["x", "x"], ["t"], axis=0))
    for other in (flat, twice, SUMS):
        made = model([choice(branch(node("Relu", ["x"], ["r"])), other)], [X, C])
        assert_as_onnxruntime(made, *(feeds(4, c, rows) for c in (True, False) for rows in (2, 3)))


def test_what_follows_branches_of_other_ranks():
    """The nodes behind them have a program for each rank that runs meet."""
    apart = [choice(SUMS, branch(node("Abs", ["x"], ["same"])), y="chosen")]
    after = [node("Exp", ["chosen"], ["e"]), node("MatMul", ["one", "one"], ["square"])]
    made = model(
        [*apart, *after, node("Add", ["e", "square"], ["y"])], [X, C], one=floats(4, 4, seed=3)
    )
    runs = [{"x": floats(4, 4, seed=n), "c": np.array(n % 2 == 0)} for n in range(4)]
    assert_as_onnxruntime(made, *runs)


def test_branches_within_loops():
    step = [
        node("Mod", ["i", "two"], ["odd"]),
        node("Cast", ["odd"], ["c"], to=TensorProto.BOOL),
        choice(branch(node("MatMul", ["s", "wide"], ["p"])), branch(node("Relu", ["s"], ["q"])),
               y="next"),
        node("Identity", ["go"], ["again"]),
    ]  # fmt: skip
    body = helper.make_graph(
        step,
        "body",
        [value("i", kind=TensorProto.INT64), value("go", kind=TensorProto.BOOL), result("s")],
        [value("again", kind=TensorProto.BOOL), result("next")],
    )
    trips = value("trips", kind=TensorProto.INT64)
    made = model([node("Loop", ["trips", "", "x"], ["y"], body=body)], [X, trips],
                 wide=floats(4, 4), two=np.array(2))  # fmt: skip
    assert_as_onnxruntime(
        made,
        {"x": floats(2, 4), "trips": np.array(3)},
        {"x": floats(2, 3), "trips": np.array(1)},
    )


def test_sizes_that_both_branches_need_are_those_of_one_program():
    twice = [branch(node("MatMul", ["x", "wide"], [n]), node(op, [n], [n + n]))
             for op, n in (("Relu", "a"), ("Neg", "b"))]  # fmt: skip
    made = model([choice(*twice)], [X, C], **WEIGHTS)
    runner = assert_as_onnxruntime(made, feeds(4, True), feeds(4, False, 3))
    assert runner.compiled == 1


@pytest.mark.parametrize("rows", ["b", 2])
def test_an_artifact_has_both_branches(rows):
    made = model([choice(WIDE, NARROW)], [value("x", rows, "t"), C], **WEIGHTS)
    artifact = mgx_mlir.compile_to_bytecode(made, mode="full-dynamic")
    runner = mgx_mlir.Model(artifact)
    for width, taken in ((4, True), (2, False)):
        inputs = feeds(width, taken)
        weight = WEIGHTS["wide" if taken else "narrow"]
        np.testing.assert_allclose(runner.run(inputs)["y"], inputs["x"] @ weight, rtol=1e-4)


def test_sizes_that_choose_between_ranks_have_a_program_for_each_branch() -> None:
    model = onnx.parser.parse_model("""
        <ir_version: 9, opset_import: ["" : 17]> g (float[n, t] x) => (y) <int64 one = {1}> {
            whole = Shape(x) size = Gather(whole, one) is_one = Equal(size, one)
            last = Constant <value_ints = [-1]> ()
            rows = If (is_one) <then_branch = t () => (s) { s = Squeeze(x, last) },
                                else_branch = e () => (i) { i = Neg(x) }>
            y = Relu(rows)
        }
    """)
    compiled = mgx_mlir.Model(model, warm=None)
    for shape in ((2, 1), (3, 1), (2, 4), (5, 7), (1, 1)):
        x = np.random.default_rng(shape[0]).normal(size=shape).astype(np.float32)
        wanted = x[:, 0] if shape[1] == 1 else -x
        np.testing.assert_array_equal(compiled.run({"x": x})["y"], np.maximum(wanted, 0))
    assert compiled.compiled == 2


@pytest.mark.parametrize("sizes", [(1, 4, 2, 1), (4, 1, 3)])
def test_a_branch_of_one_size_alone_is_not_for_others(sizes: tuple[int, ...]) -> None:
    """Where the first run has it, its program has no open size left."""
    model = onnx.parser.parse_model("""
        <ir_version: 9, opset_import: ["" : 17]> g (float[2, t] x) => (y) <int64 one = {1}> {
            whole = Shape(x) size = Gather(whole, one) is_one = Equal(size, one)
            last = Constant <value_ints = [-1]> ()
            y = If (is_one) <then_branch = t () => (s) { s = Squeeze(x, last) },
                             else_branch = e () => (i) { i = Neg(x) }>
        }
    """)
    compiled = mgx_mlir.Model(model, warm=None)
    for size in sizes:
        x = np.random.default_rng(size).normal(size=(2, size)).astype(np.float32)
        wanted = x[:, 0] if size == 1 else -x
        np.testing.assert_array_equal(compiled.run({"x": x})["y"], wanted)
    assert compiled.compiled == 2
