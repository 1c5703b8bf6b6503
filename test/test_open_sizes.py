"""Operators whose inputs have open sizes: one program, several sizes, beside onnxruntime."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from mlir import ir
from onnx import TensorProto, helper, numpy_helper, parser

import mgx_mlir
from mgx_mlir.artifact.target import Target
from mgx_mlir.codegen.cpu.kernel import compile_kernel
from mgx_mlir.dialects import context
from mgx_mlir.errors import OpenError, UnsupportedError, UsageError
from mgx_mlir.sizes.range import Range
from test.dynamic_models import inputs_of
from test.open_size_models import MODELS, SIZES, SMALL, model_of
from test.test_full_dynamic import FULL, check


@pytest.mark.parametrize(
    "target", ["cpu", *(pytest.param(c, marks=pytest.mark.slow) for c in ("gfx942", "gfx1100"))]
)
@pytest.mark.parametrize("name", MODELS)
def test_one_program_serves_all_sizes(name: str, target: str) -> None:
    model = model_of(name)
    check(model, mgx_mlir.compile(model, target, FULL), SIZES.get(name, SMALL))


def recurrent(
    kind: str, gates: int, direction: str, lengths: bool = False, hidden: int = 3
) -> onnx.ModelProto:
    """A layer of 4 inputs; symbols: length, batch."""
    rng = np.random.default_rng(0)
    ways = 2 if direction == "bidirectional" else 1
    rows = gates * hidden
    shapes = {"w": (ways, rows, 4), "r": (ways, rows, hidden), "b": (ways, 2 * rows)}
    arrays = {n: rng.normal(size=shape).astype(np.float32) for n, shape in shapes.items()}
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, ["length", "batch", 4])
    inputs, names = [x], ["x", "w", "r", "b"]
    if lengths:
        inputs.append(helper.make_tensor_value_info("n", TensorProto.INT32, ["batch"]))
        names.append("n")
    results = ["y", "h", "c"][: 3 if kind == "LSTM" else 2]
    node = helper.make_node(kind, names, results, hidden_size=hidden, direction=direction)
    outputs = [helper.make_tensor_value_info(n, TensorProto.FLOAT, None) for n in results]
    held = [numpy_helper.from_array(array, name) for name, array in arrays.items()]
    graph = helper.make_graph([node], "g", inputs, outputs, held)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


@pytest.mark.parametrize(
    ("kind", "gates", "direction"),
    [("LSTM", 4, "bidirectional"), ("GRU", 3, "reverse"), ("RNN", 1, "forward")],
)
def test_sequences_of_any_length(kind: str, gates: int, direction: str) -> None:
    model = recurrent(kind, gates, direction)
    sizes = [{"length": 5, "batch": 2}, {"length": 1, "batch": 3}, {"length": 70, "batch": 1}]
    check(model, mgx_mlir.compile(model, "cpu", FULL), sizes)


def test_the_steps_of_any_length_are_one_kernel() -> None:
    """The host counts no trips, whatever the length."""
    program = mgx_mlir.compile(recurrent("LSTM", 4, "bidirectional"), "cpu", FULL)
    assert not program.plan.has_control_flow
    assert program.plan.step_count <= 8


def test_long_sequences_are_a_loop() -> None:
    """Some kernels, whatever the length; sequences may end before."""
    model = recurrent("LSTM", 4, "bidirectional", lengths=True)
    for value, sizes in zip(model.graph.input, ((200, 2, 4), (2,)), strict=True):
        for dim, size in zip(value.type.tensor_type.shape.dim, sizes, strict=True):
            dim.dim_value = size
    program = mgx_mlir.compile(model, "cpu")
    assert program.plan.step_count < 20
    x = np.random.default_rng(1).normal(size=(200, 2, 4)).astype(np.float32)
    inputs = {"x": x, "n": np.array([200, 77], np.int32)}
    import onnxruntime

    wanted = onnxruntime.InferenceSession(model.SerializeToString()).run(None, inputs)
    for array, other in zip(program.run(inputs).values(), wanted, strict=True):
        np.testing.assert_allclose(array, other, rtol=1e-4, atol=1e-5)


def test_weights_that_are_folded_in_a_loop_are_passed_to_its_kernel() -> None:
    model = recurrent("GRU", 3, "bidirectional", hidden=5)
    for dim, size in zip(model.graph.input[0].type.tensor_type.shape.dim, (2, 2, 4), strict=True):
        dim.dim_value = size
    check(model, mgx_mlir.compile(model, "cpu", FULL), [{}])


def test_sizes_that_the_model_needs_are_asked_for() -> None:
    model = model_of("equal by the model")
    program = mgx_mlir.compile(model, "cpu", FULL)
    with pytest.raises(UsageError, match=r"which is \[2, 5\] with a = 2, b = 5|both are 'a'"):
        program.run(inputs_of(model, {"a": 2, "b": 5, "c": 3}))
    program = mgx_mlir.compile(model_of("from the end"), "cpu", FULL)
    with pytest.raises(UsageError, match=r"no run with a = 2, b = 2: 'b-3' is -1"):
        program.run({"x": np.zeros((2, 2), np.float32)})
    program = mgx_mlir.compile(model_of("halves and back"), "cpu", FULL)
    with pytest.raises(UsageError, match=r"no run with a = 5, b = 6: .* is -1"):
        program.run({"x": np.zeros((1, 1, 5, 6), np.float32)})


def test_what_the_data_decide_is_refused() -> None:
    model = parser.parse_model(
        """<ir_version: 8, opset_import: ["" : 17]>
        g (float[a, b] x) => (int64[2, n] y) { y = NonZero(x) }"""
    )
    with pytest.raises(OpenError, match="a size that is known only when the model runs"):
        mgx_mlir.compile(model, "cpu", FULL)


def test_made_up_names_are_no_sizes() -> None:
    """An import ends where a size should equal one that onnx's inference only gave a name."""
    model = parser.parse_model(
        """<ir_version: 8, opset_import: ["" : 17]>
        g (float[a, 4] x, int64[2] s) => (y) { r = Reshape(x, s) y = Add(x, r) }"""
    )
    with pytest.raises(UnsupportedError):
        mgx_mlir.compile_to_bytecode(model, FULL)


def test_sizes_that_a_run_has_to_divide() -> None:
    text = (
        '<ir_version: 10, opset_import: ["": 18]> g (float[a, 4] x) => (float[] y) '
        "<int64[4] s = {32, 2, -1, 1}, int64[2] j = {-2, 0}> "
        "{ v = Reshape(x, s) y = Gather <axis = 2> (v, j) }"
    )
    program = mgx_mlir.compile(parser.parse_model(text), "cpu", FULL)
    for rows in (96, 32):
        x = np.arange(rows * 4, dtype=np.float32).reshape(rows, 4)
        wanted = x.reshape(32, 2, -1, 1)[:, :, [-2, 0]]
        np.testing.assert_array_equal(program.run({"x": x})["y"], wanted)
    with pytest.raises(UsageError, match=r"no run with a = 5: .* out of range"):
        program.run({"x": np.zeros((5, 4), np.float32)})


@pytest.mark.parametrize(("start", "end"), [(0, 10**9), (-(10**9), 2**31 - 1)])
def test_a_slice_beyond_all_sizes_is_no_slice(start: int, end: int) -> None:
    text = (
        '<ir_version: 10, opset_import: ["": 18]> g (float[a, b] x) => (float[] y) '
        f"<int64[2] s = {{{start}, {start}}}, int64[2] e = {{{end}, {end}}}> "
        "{ v = Slice(x, s, e) y = Relu(v) }"
    )
    program = mgx_mlir.compile(parser.parse_model(text), "cpu", FULL)
    assert program.outputs[0].shape == program.inputs[0].shape  # each size is one formula
    x = np.ones((2, 3), np.float32)
    np.testing.assert_array_equal(program.run({"x": x})["y"], x)


def test_sizes_that_no_input_has_are_refused_with_words() -> None:
    a, q = "tensor<?xf32, #mgx.dims<[a : 1 ... ?]>>", "tensor<?xf32>"
    text = (
        f"mgx.kernel @k(%x: {a}) -> ({q}) attributes "
        '{arch = #mgx.arch<"gfxMIGX">} {\n'
        f"%y = mgx.reshape %x : {a} -> {q}\nmgx.return %y : {q}\n}}"
    )
    with context(), ir.Location.unknown():
        module = ir.Module.parse(text)
        kernel = next(iter(module.body.operations))
        with pytest.raises(UnsupportedError, match="does not follow from those of the inputs"):
            compile_kernel(kernel, Target.host_cpu())


def test_parts_of_what_may_be_nothing_are_refused_where_it_is() -> None:
    """Symbols are at least 1 elsewhere: what that proves does not hold here."""
    model = model_of("a part of what is longer")
    program = mgx_mlir.compile(
        model, "cpu", mode="full-dynamic", dim_params={"a": Range(0, 8), "b": Range(0, 8)}
    )
    check(model, program, [{"a": 2, "b": 3}, {"a": 0, "b": 1}])
    with pytest.raises(UsageError, match="is -1, which is out of range"):
        program.run(inputs_of(model, {"a": 2, "b": 0}))


@pytest.mark.parametrize(
    "nodes",
    [
        "y = Conv(x, w)",
        "y = ConvTranspose(x, w)",
        "r = Reshape(x, rows) y = Gemm(r, square)",
        "q, s, z = DynamicQuantizeLinear(x) y = ConvInteger(q, v, z)",
    ],
)
def test_channels_are_those_of_the_weights(nodes: str) -> None:
    """Else kernels read beyond the input."""
    text = (
        '<ir_version: 8, opset_import: ["": 17]> g (float[n, c, 1] x) => (y) '
        "<int64[2] rows = {0, -1}, float[2, 2, 1] w = {1, 2, 3, 4},"
        "float[2, 2] square = {1, 2, 3, 4},"
        f"uint8[2, 2, 1] v = {{1, 2, 3, 4}}> {{ {nodes} }}"
    )
    program = mgx_mlir.compile(parser.parse_model(text), "cpu", FULL)
    for count in (1, 3):
        with pytest.raises(UsageError, match=r"which is \[5, 2, 1\]"):
            program.run({"x": np.ones((5, count, 1), np.float32)})
    (y,) = program.run({"x": np.ones((5, 2, 1), np.float32)}).values()
    assert y.shape[:2] == (5, 2)


@pytest.mark.parametrize(
    ("name", "sizes"),
    [
        ("transposed windows", {"a": 0, "b": 6, "c": 2}),
        ("resize to a size", {"a": 1, "b": 0, "c": 7}),
    ],
)
def test_nothing_is_made_of_an_empty_image(name: str, sizes: dict[str, int]) -> None:
    """onnxruntime refuses it as well."""
    model = model_of(name)
    ranges = dict.fromkeys(sizes, Range(0, 64))
    program = mgx_mlir.compile(model, "cpu", mode="full-dynamic", dim_params=ranges)
    with pytest.raises(UsageError, match="the program has no run with"):
        program.run(inputs_of(model, sizes))


def test_a_table_that_a_run_may_cut_fixes_no_size() -> None:
    """Positions from the end of a table, as MPT takes them: max(1 - s, 0) of one row, and
    max(8 - s, 0) of 8 columns. That the row is 1 for any s does not say that s is 1."""
    model = parser.parse_model(
        """<ir_version: 10, opset_import: ["": 17]>
        g (float[b, s, 4] x) => (float[b, s, s] y) {
            zero = Constant<value_ints = [0]>() one = Constant<value_ints = [1]>()
            eight = Constant<value_ints = [8]>() two = Constant<value_ints = [2]>()
            far = Constant<value_ints = [9223372036854775807]>()
            shape = Shape(x) n = Gather<axis = 0>(shape, one)
            row = Sub(one, n) first = Max(row, zero)
            column = Sub(eight, n) begin = Max(column, zero)
            rows = Slice(table, first, far, one) cut = Slice(rows, begin, far, two)
            t = Transpose<perm = [0, 2, 1]>(x) products = MatMul(x, t) y = Add(products, cut) }"""
    )
    table = np.arange(8, dtype=np.float32).reshape(1, 1, 8)
    model.graph.initializer.append(numpy_helper.from_array(table, "table"))
    program = mgx_mlir.compile(model, "cpu", FULL)
    for batch, length in ((2, 5), (3, 8), (1, 1)):
        x = np.random.default_rng(length).normal(size=(batch, length, 4)).astype(np.float32)
        wanted = x @ x.transpose(0, 2, 1) + table[:, :, 8 - length :]
        np.testing.assert_allclose(program.run({"x": x})["y"], wanted, rtol=1e-5, atol=1e-6)
    with pytest.raises(UsageError, match="no run with b = 1, s = 9"):
        program.run({"x": np.zeros((1, 9, 4), np.float32)})


@pytest.mark.parametrize("target", ["cpu", "gfx942"])
def test_columns_of_a_symbolic_number_keep_their_own_zero_points(target: str) -> None:
    model = parser.parse_model(
        """<ir_version: 8, opset_import: ["" : 17]>
        g (uint8[m, k] a, uint8[k, n] b, uint8[n] z) => (y) { y = MatMulInteger(a, b, , z) }"""
    )
    program = mgx_mlir.compile(model, target, FULL)
    rng = np.random.default_rng(0)
    for m, k, n in ((3, 8, 5), (33, 17, 40)):
        a, b = (rng.integers(0, 256, size, np.uint8) for size in ((m, k), (k, n)))
        z = rng.integers(0, 9, n, np.uint8)
        got = program.run({"a": a, "b": b, "z": z})["y"]
        np.testing.assert_array_equal(got, a.astype(np.int32) @ (b.astype(np.int32) - z))
