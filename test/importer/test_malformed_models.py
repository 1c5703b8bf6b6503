"""Models that are damaged or hostile: a clear ModelError each, and no more."""

from __future__ import annotations

import random
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from mgx_mlir.errors import CompilerError, MgxError, ModelError, UnsupportedError, UserError
from mgx_mlir.importer import parse_onnx
from test.importer.agreement import floats, simple_model
from test.onnx_models import small

DIGITS = Path(__file__).resolve().parents[2] / "examples" / "digits.onnx"


def refused(model: object, message: str) -> None:
    with pytest.raises(ModelError, match=message):
        parse_onnx(model)


def test_missing_file(tmp_path):
    refused(tmp_path / "nothing.onnx", "there is no file")


def test_empty_file(tmp_path):
    (tmp_path / "empty.onnx").touch()
    refused(tmp_path / "empty.onnx", "is empty")


def test_text_is_not_a_model(tmp_path):
    (tmp_path / "page.onnx").write_text("<html><body>404 Not Found</body></html>")
    refused(tmp_path / "page.onnx", "page.onnx: not an ONNX model")


def test_every_truncation_is_noticed():
    data = DIGITS.read_bytes()
    for end in (1, 10, 100, 1000, len(data) // 2, len(data) - 1):
        refused(data[:end], "not an ONNX model|holds|nothing in the model|refuses")


@pytest.mark.parametrize("seed", range(2))
def test_damaged_bytes_never_crash(seed):
    rng = random.Random(seed)
    data = small("lstm").SerializeToString()
    for _ in range(40):
        damaged = bytearray(data)
        for _ in range(rng.choice((1, 2, 8))):
            damaged[rng.randrange(min(len(damaged), 6000))] = rng.randrange(256)
        try:
            parse_onnx(bytes(damaged))
        except CompilerError:
            raise
        except MgxError as error:
            assert isinstance(error, UserError)


def test_no_graph():
    refused(onnx.ModelProto(ir_version=8), "holds no graph")


def test_an_opset_of_the_future_is_unsupported():
    model = simple_model()
    model.opset_import[0].version = 999
    with pytest.raises(UnsupportedError, match="opset 999; opsets up to"):
        parse_onnx(model)


def test_nodes_in_any_order_are_sorted():
    model = simple_model()
    nodes = [helper.make_node("Relu", ["s"], ["y"]), helper.make_node("Add", ["x", "b"], ["s"])]
    del model.graph.node[:]
    model.graph.node.extend(nodes)
    assert "mgx.relu" in str(parse_onnx(model).module)


def test_cycles_are_named():
    nodes = [
        helper.make_node("Add", ["x", "b"], ["s"], "first"),
        helper.make_node("Add", ["s", "t"], ["y"], "second"),
        helper.make_node("Relu", ["y"], ["t"], "third"),
    ]
    refused(simple_model(nodes=nodes), "depend on each other: Add 'second', Relu 'third'")


def test_missing_inputs_are_named():
    nodes = [helper.make_node("Add", ["x", "nowhere"], ["y"], "add")]
    refused(simple_model(nodes=nodes), "Add 'add' reads 'nowhere', which nothing")


def test_missing_outputs_are_named():
    nodes = [helper.make_node("Relu", ["x"], ["z"], "relu")]
    refused(simple_model(nodes=nodes), "output 'y' is not computed")


def test_a_value_has_one_definition():
    nodes = [helper.make_node("Relu", ["x"], ["y"], n) for n in ("one", "two")]
    refused(
        simple_model(nodes=nodes), "Relu 'two' defines 'y', which is also a result of Relu 'one'"
    )
    nodes = [
        helper.make_node("Relu", ["b"], ["x"], "shadow"),
        helper.make_node("Relu", ["x"], ["y"]),
    ]
    refused(simple_model(nodes=nodes), "'x', which is also an input")


def test_initialisers_have_different_names():
    tensors = [numpy_helper.from_array(np.zeros(3, np.float32), "b") for _ in range(2)]
    refused(simple_model(initializer=tensors), "two initialisers are called 'b'")


def test_inputs_have_different_names():
    infos = [helper.make_tensor_value_info("x", TensorProto.FLOAT, [2, 3]) for _ in range(2)]
    refused(simple_model(inputs=infos), "two inputs are called 'x'")


@pytest.mark.parametrize("dims", [[1 << 40, 1 << 40], [3, 3]])
@pytest.mark.parametrize("count", [3, 3000])
def test_sizes_that_do_not_fit_the_data(dims, count):
    tensor = numpy_helper.from_array(np.zeros(count, np.float32), "b")
    del tensor.dims[:]
    tensor.dims.extend(dims)
    refused(simple_model(initializer=[tensor]), "initialiser 'b' declares")


def test_negative_sizes():
    tensor = numpy_helper.from_array(np.zeros(3, np.float32), "b")
    tensor.dims[0] = -3
    refused(simple_model(initializer=[tensor]), "negative size")


def test_absurd_sizes_computed_by_the_model():
    shape = numpy_helper.from_array(np.array([1 << 30, 1 << 30], np.int64), "b")
    nodes = [
        helper.make_node("ConstantOfShape", ["b"], ["z"], "fill"),
        helper.make_node("ReduceMax", ["z"], ["m"], "max", keepdims=0),
        helper.make_node("Add", ["x", "m"], ["y"], "add"),
    ]
    refused(simple_model(nodes=nodes, initializer=[shape]), r"'fill': 'z' of .* needs 4 EiB")


def test_types_that_do_not_fit():
    tensor = numpy_helper.from_array(np.zeros(3, np.int64), "b")
    refused(simple_model(initializer=[tensor]), "add")


def test_shapes_that_do_not_fit():
    tensor = numpy_helper.from_array(np.zeros(4, np.float32), "b")
    refused(simple_model(initializer=[tensor]), r"Add 'add': shapes do not fit: \[2, 3\] and \[4\]")


def test_channels_that_do_not_fit_are_reported_with_the_node():
    weight = numpy_helper.from_array(floats(4, 5, 3, 3), "b")
    nodes = [helper.make_node("Conv", ["x", "b"], ["y"], "the convolution")]
    infos = [helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, 3, 8, 8])]
    outputs = [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)]
    model = simple_model(nodes=nodes, initializer=[weight], inputs=infos, outputs=outputs)
    refused(model, "Conv 'the convolution'.*channels")


def test_strings_are_unsupported_not_malformed():
    infos = [helper.make_tensor_value_info("x", TensorProto.STRING, [2])]
    nodes = [helper.make_node("Identity", ["x"], ["y"], "same")]
    outputs = [helper.make_tensor_value_info("y", TensorProto.STRING, [2])]
    model = simple_model(nodes=nodes, inputs=infos, outputs=outputs, initializer=[])
    with pytest.raises(UnsupportedError, match="input 'x': tensors of string elements"):
        parse_onnx(model)


def external(tmp_path: Path, **entries: str) -> Path:
    tensor = TensorProto(name="b", data_type=TensorProto.FLOAT, dims=[3])
    tensor.data_location = TensorProto.EXTERNAL
    for key, value in entries.items():
        tensor.external_data.add(key=key, value=value)
    path = tmp_path / "models" / "model.onnx"
    path.parent.mkdir()
    path.write_bytes(simple_model(initializer=[tensor]).SerializeToString())
    (tmp_path / "secret").write_bytes(bytes(100))
    (path.parent / "data").write_bytes(bytes(12))
    return path


@pytest.mark.parametrize("location", ["../secret", "/etc/passwd", "a/../../secret", "", ".."])
def test_external_data_may_not_leave_the_folder(tmp_path, location):
    refused(external(tmp_path, location=location), "outside the model's folder")


def test_external_data_may_not_leave_through_a_link(tmp_path):
    path = external(tmp_path, location="link")
    (path.parent / "link").symlink_to(tmp_path / "secret")
    refused(path, "links to .*, outside the model's folder")


def test_external_data_have_a_name_of_a_file(tmp_path):
    refused(external(tmp_path, location="data\0.bin"), "holds no NUL")


def test_external_data_must_exist(tmp_path):
    refused(external(tmp_path, location="gone"), "there is no such file")


@pytest.mark.parametrize(
    ("entries", "message"),
    [
        ({"offset": "8"}, "needs bytes 8 to 20, but the file has 12"),
        ({"length": "8"}, "takes 12 bytes, and holds 8"),
        ({"offset": "-4"}, "its offset is '-4'"),
        ({"offset": "9" * 30}, "not a number of bytes"),
    ],
)
def test_external_data_must_have_the_right_size(tmp_path, entries, message):
    refused(external(tmp_path, location="data", **entries), message)


def test_external_data_in_place_is_read(tmp_path):
    parse_onnx(external(tmp_path, location="data"))


def test_deep_nesting_is_refused():
    info = helper.make_tensor_value_info("x", 1, [2, 3])
    inner = helper.make_graph([], "g", [], [info])
    for _ in range(28):
        inner = helper.make_graph(
            [helper.make_node("If", ["x"], ["z"], then_branch=inner)], "g", [], [info]
        )
    nodes = [helper.make_node("If", ["x"], ["y"], "top", then_branch=inner)]
    refused(simple_model(nodes=nodes), "nested|refuses|not an ONNX model")


def malformed(text: str, message: str) -> None:
    refused(onnx.parser.parse_model(f'<ir_version: 9, opset_import: ["": 20]> {text}'), message)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            "g (float[2] x) => (float[2] y) { y = If (x) <then_branch = t () => (float[2] z) "
            "{ z = Relu (x) }> }",
            "else_branch",
        ),
        (
            "g (bool c, float[2] x) => (float[2] y) { y = If (c) <then_branch = t () => "
            "(float[2] z) { z = Relu (nowhere) }, else_branch = e () => (float[2] w) "
            "{ w = Neg (x) }> }",
            "reads 'nowhere', which nothing in the model defines",
        ),
        (
            "g (float[2] x) => (float[2] y) { a = Relu (y) y = Relu (a) }",
            "depend on each other",
        ),
        ("g (float[2,3] x) => (y) { y = Split <num_outputs = 3> (x) }", "num_outputs = 3 and 1"),
        ("g (float[2,3] x) => (y) { y = Transpose <perm = [0, 2]> (x) }", "Transpose"),
        ("g (float[2,3] x) => (y) { y = Concat <axis = 5> (x, x) }", "Concat"),
        ("g (float[2,3] x, int64[2] i) => (y) { y = Add (x, i) }", "operands of f32 and i64"),
        ("g (bool[2,3] x) => (y) { y = Max (x, x) }", "its input data_0 is of type bool,"),
        ("g (float[2,3] x) => (y) { y = And (x, x) }", "its input A is of type float,"),
        ("g (float[2,3] x) => (y) { y = Cast <to = 99> (x) }", "Cast"),
        (
            "g (float[1,1,4,4] x, float[1,2,2,3] i) => (y) { y = GridSample (x, i) }",
            r"grid is \[1, 2, 2, 3\]; \[\?, \?, \?, 2\] is needed",
        ),
        (
            "g (float[1,1,4,4] x) => (y) { y = MaxPool <kernel_shape = [2, 2], "
            f"pads = [{2**63 - 1}, 0, {2**63 - 1}, 0]> (x) }}",
            "overflow",
        ),
        ("g (float[1,2,2] x) => (y) { y = Gemm (x, x) }", r"A is \[1, 2, 2\]; \[\?, \?\] is"),
        ('g (float[2,3] x) => (y) { y = Einsum <equation = "ij,jk"> (x) }', "Einsum"),
    ],
)  # fmt: skip
def test_contradictions_are_explained(text, message):
    malformed(text, message)
