"""Models that the host runs in part: between islands that compile."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from mgx_mlir.artifact.record import Artifact
from mgx_mlir.errors import ModelError, UnsupportedError, UsageError
from mgx_mlir.models.compile import compile_to_bytecode
from mgx_mlir.models.staged import Model
from mgx_mlir.settings import Settings

FLOAT, INT64, BOOL, STRING = (
    TensorProto.FLOAT,
    TensorProto.INT64,
    TensorProto.BOOL,
    TensorProto.STRING,
)


def tensor(name: str, kind: int = FLOAT, dims=None) -> onnx.ValueInfoProto:
    return helper.make_tensor_value_info(name, kind, dims)


def model_of(nodes, inputs, outputs, constants=(), opset=20) -> onnx.ModelProto:
    values = [v if isinstance(v, onnx.ValueInfoProto) else tensor(*v) for v in inputs]
    results = [onnx.ValueInfoProto(name=n) for n in outputs]
    weights = [numpy_helper.from_array(np.asarray(a), n) for n, a in dict(constants).items()]
    graph = helper.make_graph(nodes, "test", values, results, weights)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=9)


@pytest.fixture(params=["model", "artifact"])
def staged(request, tmp_path_factory):
    """Makes a Model of a model, or of its artifact as a file holds it."""
    cache = tmp_path_factory.getbasetemp() / "kernel-cache"

    def make(*args, **options) -> Model:
        settings = Settings(cache_dir=cache, jobs=1, threads=1)
        model = model_of(*args)
        if request.param == "artifact":
            try:
                model = Artifact.from_bytes(compile_to_bytecode(model).to_bytes())
            except UnsupportedError:
                pytest.skip("only a run shows how it compiles")
        return Model(model, settings=settings, **options)

    return make


def host_nodes(model: Model) -> list[str]:
    return [entry.operator for entry in model.host_nodes]


def node(kind: str, inputs: str, outputs: str, **attributes) -> onnx.NodeProto:
    return helper.make_node(kind, inputs.split(), outputs.split(), **attributes)


def test_a_model_of_tensors_compiles_as_a_whole(staged):
    model = staged([node("Relu", "x", "y")], [("x", FLOAT, ["n"])], ["y"])
    for n in (1, 3):
        x = np.arange(-1, n - 1, dtype=np.float32)
        np.testing.assert_array_equal(model.run({"x": x})["y"], np.maximum(x, 0))
    assert not model.host_nodes


def test_sizes_that_the_data_decide(staged):
    """The tensors around NonZero compile; only it runs on the host."""
    nodes = [
        node("Relu", "x", "positive"),
        node("NonZero", "positive", "places"),
        node("Transpose", "places", "rows"),
        node("GatherND", "x rows", "kept"),
        node("Mul", "kept kept", "y"),
    ]
    model = staged(nodes, [("x", FLOAT, [2, 3])], ["y", "rows"])
    for x in ([[1, -2, 3], [0, 5, -6]], [[-1, -2, -3]] * 2, [[1, 2, 3]] * 2):
        x = np.array(x, np.float32)
        found = model.run({"x": x})
        np.testing.assert_array_equal(found["y"], x[x > 0] ** 2)
        np.testing.assert_array_equal(found["rows"], np.argwhere(x > 0))
    assert host_nodes(model) == ["NonZero"]


@pytest.mark.parametrize("target", ["x86-64-v2", "cpu"])
def test_sizes_that_the_data_decide_on_a_level_of_cpus(target):
    made = Model(
        model_of([node("NonZero", "x", "y")], [tensor("x", INT64, [6, 4])], ["y"]), target=target
    )
    x = np.arange(24).reshape(6, 4) % 5
    np.testing.assert_array_equal(made.run({"x": x})["y"], np.stack(np.nonzero(x)))


def test_a_k_that_is_computed(staged):
    nodes = [
        node("ReduceMax", "x", "top", keepdims=0),
        node("Cast", "top", "count", to=INT64),
        node("Reshape", "count one", "k"),
        node("TopK", "x k", "y places"),
        node("Add", "y y", "twice"),
    ]
    model = staged(nodes, [("x", FLOAT, [6])], ["twice"], {"one": np.array([1])})
    for k in (1, 4):
        x = np.array([0, k, -1, 0.5, 0.25, -3], np.float32)
        np.testing.assert_array_equal(model.run({"x": x})["twice"], 2 * np.sort(x)[::-1][:k])
    assert host_nodes(model) == ["TopK"]


def test_values_that_no_host_node_takes_are_built_in(staged):
    """The axes of a sum come from the data: the sum is cut off, and compiles for their values."""
    nodes = [
        node("ReduceMax", "x", "top", keepdims=0),
        node("Cast", "top", "axis", to=INT64),
        node("Reshape", "axis one", "axes"),
        node("ReduceSum", "x axes", "y", keepdims=0),
    ]
    model = staged(nodes, [("x", FLOAT, [2, 3])], ["y"], {"one": np.array([1])})
    for axis in (0, 1, 0):
        x = np.full((2, 3), -1, np.float32)
        x[1, 1] = axis
        np.testing.assert_array_equal(model.run({"x": x})["y"], x.sum(axis=axis))
    assert not model.host_nodes


def growing_loop() -> onnx.NodeProto:
    """The carried tensor gets one row more at each trip, until the rows are `limit`."""
    body = helper.make_graph(
        [
            node("Reshape", "i one", "first"),
            node("Add", "first one", "after"),
            node("Slice", "x first after", "row"),
            node("Mul", "row factor", "scaled"),
            node("Concat", "grown scaled", "longer", axis=0),
            node("Shape", "longer", "shape"),
            node("Slice", "shape zero one", "rows"),
            node("Less", "rows limit", "fewer"),
            node("Squeeze", "fewer zero", "again"),
            node("ReduceSum", "scaled", "total", keepdims=0),
        ],
        "body",
        [tensor("i", INT64, []), tensor("go", BOOL, []), tensor("grown")],
        [onnx.ValueInfoProto(name=n) for n in ("again", "longer", "total")],
    )
    return helper.make_node("Loop", ["", "go0", "start"], ["grown0", "totals"], body=body)


def test_a_loop_whose_values_grow(staged):
    constants = {
        "zero": np.array([0]),
        "one": np.array([1]),
        "go0": np.array(True),
        "start": np.zeros((0, 3), np.float32),
        "factor": np.array(2, np.float32),
    }
    inputs = [("x", FLOAT, [8, 3]), ("limit", INT64, [1])]
    model = staged([growing_loop()], inputs, ["grown0", "totals"], constants)
    x = np.arange(24, dtype=np.float32).reshape(8, 3)
    for limit in (3, 5):
        found = model.run({"x": x, "limit": np.array([limit])})
        np.testing.assert_array_equal(found["grown0"], 2 * x[:limit])
        np.testing.assert_array_equal(found["totals"], 2 * x[:limit].sum(axis=1))


def test_a_loop_without_trips_gives_no_entries(staged):
    body = helper.make_graph(
        [node("Relu", "v", "w"), node("NonZero", "w", "places"), node("Identity", "go", "on")],
        "body",
        [tensor("i", INT64, []), tensor("go", BOOL, []), tensor("v", FLOAT, [3])],
        [tensor("on", BOOL, []), tensor("w", FLOAT, [3]), tensor("places", INT64, [1, None])],
    )
    loop = helper.make_node("Loop", ["trips", "", "x"], ["last", "all"], body=body)
    model = staged([loop], [("trips", INT64, []), ("x", FLOAT, [3])], ["last", "all"])
    x = np.array([1, -2, 3], np.float32)
    found = model.run({"trips": np.array(0), "x": x})
    np.testing.assert_array_equal(found["last"], x)
    assert found["all"].shape == (0, 1, 0) and found["all"].dtype == np.int64
    found = model.run({"trips": np.array(2), "x": x})
    np.testing.assert_array_equal(found["last"], [1, 0, 3])
    np.testing.assert_array_equal(found["all"], [[[0, 2]]] * 2)


def test_branches_of_different_sizes(staged):
    branches = {
        f"{name}_branch": helper.make_graph(
            nodes, name, [], [onnx.ValueInfoProto(name=f"{name}_y")]
        )
        for name, nodes in {
            "then": [node("Concat", "x x", "then_y", axis=0)],
            "else": [node("Neg", "x", "else_y")],
        }.items()
    }
    nodes = [
        node("ReduceMax", "x", "top", keepdims=0),
        node("Greater", "top zero", "large"),
        helper.make_node("If", ["large"], ["y"], **branches),
    ]
    model = staged(nodes, [("x", FLOAT, [70])], ["y"], {"zero": np.array(0, np.float32)})
    x = np.arange(70, dtype=np.float32)
    np.testing.assert_array_equal(model.run({"x": x})["y"], np.concatenate([x, x]))
    np.testing.assert_array_equal(model.run({"x": -x})["y"], x)
    assert host_nodes(model) == ["If"]


def test_strings(staged):
    nodes = [
        node("StringSplit", "text", "words count", delimiter=" "),
        node("Equal", "words wanted", "found"),
        node("Cast", "found", "numbers", to=FLOAT),
        node("ReduceSum", "numbers", "total", keepdims=0),
    ]
    constants = {"wanted": np.array("to", object)}
    model = staged(nodes, [("text", STRING, ["n"])], ["total", "words"], constants)
    found = model.run({"text": np.array(["to be", "or not to be"])})
    assert found["total"] == 2
    assert found["words"].tolist() == [["to", "be", "", ""], ["or", "not", "to", "be"]]
    assert host_nodes(model) == ["StringSplit", "Equal"]


def test_sequences_in_and_out(staged):
    sequence = helper.make_tensor_sequence_value_info("parts", FLOAT, None)
    body = helper.make_graph(
        [node("Add", "part x", "sum")], "body", [tensor("part")], [onnx.ValueInfoProto(name="sum")]
    )
    nodes = [
        helper.make_node("SequenceMap", ["parts"], ["sums"], body=body),
        node("SequenceAt", "sums last", "y"),
        node("SequenceErase", "sums last", "rest"),
    ]
    constants = {"last": np.array(-1)}
    model = staged(nodes, [sequence, ("x", FLOAT, [])], ["y", "rest"], constants)
    parts = [np.arange(n, dtype=np.float32) for n in (1, 2, 3)]
    found = model.run({"parts": parts, "x": np.array(4, np.float32)})
    np.testing.assert_array_equal(found["y"], [4, 5, 6])
    assert [part.tolist() for part in found["rest"]] == [[4], [4, 5]]


def test_a_loop_from_an_absent_optional_sequence():
    """As case loop16_seq_none of onnx's suite, whose runner cannot compare the results."""
    model = onnx.parser.parse_model("""
        <ir_version: 8, opset_import: ["": 16]>
        grow (int64 trips, bool go, optional(seq(float)) start) => (seq(float) result) {
            result = Loop (trips, go, start) <body = b (int64 i, bool go_in, optional(seq(float)) s)
                => (bool go_out, seq(float) longer) {
                go_out = Identity (go_in)
                some = OptionalHasElement (s)
                items = If (some) <
                    then_branch = t () => (seq(float) held) { held = OptionalGetElement (s) },
                    else_branch = e () => (seq(float) new) {
                        nought = Constant <value_float = 0.0> ()
                        new = SequenceConstruct (nought)
                    }>
                number = Cast <to = 1> (i)
                longer = SequenceInsert (items, number)
            }>
        }""")
    model = Model(model, settings=Settings(cache_dir=None, jobs=1, threads=1))
    for start, expected in ((None, [0, 0, 1, 2]), ([np.float32(7)], [7, 0, 1, 2])):
        found = model.run({"trips": np.array(3), "go": np.array(True), "start": start})
        assert [float(item) for item in found["result"]] == expected


def test_inputs_are_checked(staged):
    nodes = [node("StringConcat", "a a", "c"), node("Neg", "x", "y")]
    inputs = [("a", STRING, ["n"]), ("x", FLOAT, [2])]
    model = staged(nodes, inputs, ["c", "y"])
    a, x = np.array(["b"]), np.ones(2, np.float32)
    with pytest.raises(UsageError, match="input 'x' is missing; the model's inputs: 'a', 'x'"):
        model.run({"a": a})
    with pytest.raises(UsageError, match="no input 'z'"):
        model.run({"a": a, "x": x, "z": x})
    with pytest.raises(UsageError, match=r"input 'x' is float32\[2\]; got float32\[3\]"):
        model.run({"a": a, "x": np.ones(3, np.float32)})
    with pytest.raises(UsageError, match=r"input 'a' is string\[n\]; got float32\[2\]"):
        model.run({"a": x, "x": x})


def test_faults_of_the_host_name_the_node(staged):
    nodes = [node("SequenceConstruct", "x x", "s"), node("SequenceAt", "s place", "y", name="at")]
    model = staged(nodes, [("x", FLOAT, [2]), ("place", INT64, [])], ["y"])
    x = np.ones(2, np.float32)
    np.testing.assert_array_equal(model.run({"x": x, "place": np.array(1)})["y"], x)


def test_a_position_outside_the_sequence_names_the_node(staged):
    sequence = helper.make_tensor_sequence_value_info("s", FLOAT, None)
    at = node("SequenceAt", "s place", "y", name="at")
    model = staged([at], [sequence, ("place", INT64, [])], ["y"])
    with pytest.raises(ModelError, match="SequenceAt 'at': position 3 in a sequence of 1"):
        model.run({"s": [np.ones(2, np.float32)], "place": np.array(3)})


def test_absurd_sizes_are_refused(staged):
    nodes = [
        node("NonZero", "x", "places"),
        node("ReduceMax", "places", "top", keepdims=0),
        node("Mul", "top huge", "n"),
        node("Reshape", "n one", "shape"),
        node("ConstantOfShape", "shape", "y", name="fill"),
    ]
    constants = {"huge": np.array(1 << 50), "one": np.array([1])}
    model = staged(nodes, [("x", FLOAT, [3])], ["y"], constants)
    with pytest.raises(ModelError, match="ConstantOfShape 'fill': 'y' would have the size"):
        model.run({"x": np.ones(3, np.float32)})


def test_absurd_ranges_are_refused(staged):
    nodes = [
        node("NonZero", "x", "places"),
        node("ReduceMax", "places", "top", keepdims=0),
        node("Mul", "top huge", "n"),
        node("Range", "zero n one", "y", name="count"),
    ]
    constants = {"huge": np.array(1 << 31), "zero": np.array(0), "one": np.array(1)}
    model = staged(nodes, [("x", FLOAT, [3])], ["y"], constants)
    with pytest.raises(ModelError, match="Range 'count': 'y' would have the size"):
        model.run({"x": np.ones(3, np.float32)})


def test_what_nothing_runs_is_named(staged):
    nodes = [
        node("StringConcat", "a a", "c"),
        helper.make_node("Mystery", ["x"], ["y"], "riddle", domain="elsewhere"),
    ]
    model = model_of(nodes, [("a", STRING, ["n"]), ("x", FLOAT, [2])], ["c", "y"])
    model.opset_import.add(domain="elsewhere", version=1)
    with pytest.raises(UnsupportedError, match=r"elsewhere::Mystery \(node 'riddle'\)"):
        Model(model).run({"a": np.array(["b"]), "x": np.ones(2, np.float32)})
