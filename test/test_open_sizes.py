"""Operators whose inputs have open sizes: one program, several sizes, beside onnxruntime."""

from __future__ import annotations

import re

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper, parser

import mgx_mlir
from mgx_mlir.errors import OpenError, UnsupportedError, UsageError
from test.dynamic_models import inputs_of
from test.test_full_dynamic import FULL, check

Sizes = list[dict[str, int]]
SMALL: Sizes = [{"a": 2, "b": 5}, {"a": 1, "b": 4}, {"a": 7, "b": 6}]

# The signature, and the nodes, of small models.
MODELS: dict[str, tuple[str, str]] = {
    "cumulative sum": ("float[a, b] x => y", "y = CumSum(x, one)"),
    "top k": ("float[a, b] x => y, i", "y, i = TopK <axis = 1> (x, three)"),
    "scatter": ("float[a, b] x, float[a, b] u => y", "y = ScatterElements <axis = 1> (x, k, u)"),
    "reflection": ("float[a, b] x => y", 'y = Pad <mode = "reflect"> (x, pads)'),
    "wrapping": ("float[a, b] x => y", 'y = Pad <mode = "wrap"> (x, pads)'),
    "from the end": ("float[a, b] x => y", "y = Slice(x, minus_three, ends, one_axis)"),
    "between": ("float[a, b] x => y", "y = Slice(x, ones, minus_ones, one_axis)"),
    "backwards": ("float[a, b] x => y", "y = Slice(x, minus_ones, first, one_axis, minus_ones)"),
    "a part of what is longer": (
        "float[a, b] x => y",
        "s = Shape(x) t = Mul(s, four) o = Expand(one_float, t) y = Slice(o, ones, four, one_axis)",
    ),
    "of another": (
        "float[a, b] x, float[c, b] z => y",
        "s = Shape <start = 0, end = 1> (z) e = Add(s, s) y = Slice(x, s, e, zero_axis)",
    ),
    "resize by scales": ("float[a, 2, b, 4] x => y", "y = Resize(x, , scales)"),
    "resize to a size": (
        "float[a, 2, b, 4] x, float[a, 2, c, 9] z => y",
        's = Shape(z) y = Resize <mode = "linear", '
        'coordinate_transformation_mode = "pytorch_half_pixel"> (x, , , s)',
    ),
    "depth to space": ("float[a, 8, b, 3] x => y", "y = DepthToSpace <blocksize = 2> (x)"),
    "padding by sizes": (
        "float[a, b] x => y",
        "s = Shape(x) n = Neg(s) r = Mod(n, two_three) p = Concat <axis = 0> (first_two, r) "
        "y = Pad(x, p, one_float)",
    ),
    **{
        f"padding by sizes, {mode}": (
            "float[a, b] x => y",
            "s = Shape(x) n = Neg(s) r = Mod(n, two_three) p = Concat <axis = 0> (first_two, r) "
            f'y = Pad <mode = "{mode}"> (x, p)',
        )
        for mode in ("reflect", "edge", "wrap")
    },
    "split": ("float[a, b] x => y, z", "y, z = Split <axis = 1, num_outputs = 2> (x)"),
    "split to sizes": ("float[a, b] x => y, z", "y, z = Split <axis = 1> (x, two_three)"),
    "tiles": ("float[a, b] x => y", "y = Tile(x, two_three)"),
    "einsum": (
        "float[a, 2, b] x, float[b, c] z => y",
        'y = Einsum <equation = "abc,cd->dba"> (x, z)',
    ),
    "einsum of equals": (
        "float[a, b] x, float[c, 3] z => y",
        'y = Einsum <equation = "ij,jk->ik"> (x, z)',
    ),
    "reversed sequences": (
        "float[b, a] x => y",
        "s = Shape <start = 1> (x) l = Expand(three, s) "
        "y = ReverseSequence <batch_axis = 1, time_axis = 0> (x, l)",
    ),
    **{
        f"padding of its own, {mode}, {stride}": (
            "float[c, 2, a, b] x => y, z",
            f'y = Conv <auto_pad = "{mode}", strides = [{stride}, {stride}]> (x, filters) '
            f'z = MaxPool <auto_pad = "{mode}", strides = [{stride}, {stride}], '
            "kernel_shape = [3, 4]> (x)",
        )
        for mode, stride in (("SAME_UPPER", 1), ("SAME_UPPER", 2), ("SAME_LOWER", 3))
    },
    **{
        f"samples, {padding}, {corners}": (
            "float[c, 2, a, b] x, float[c, d, 3, 2] z => y",
            f'y = GridSample <padding_mode = "{padding}", align_corners = {corners}> (x, z)',
        )
        for padding, corners in (("zeros", 0), ("border", 1), ("reflection", 0), ("reflection", 1))
    },
    **{
        f"padding of its own, mean, {mode}, {included}": (
            "float[c, 2, a, b] x => y",
            f'y = AveragePool <auto_pad = "{mode}", strides = [2, 3], kernel_shape = [3, 4], '
            f"count_include_pad = {included}> (x)",
        )
        for mode, included in (("SAME_UPPER", 0), ("SAME_LOWER", 1))
    },
    "transposed windows": (
        "float[c, 3, a, b] x => y",
        "y = ConvTranspose <strides = [2, 3], dilations = [2, 1], output_padding = [1, 0], "
        "pads = [1, 0, 2, 1]> (x, filters)",
    ),
    "padding of its own, transposed": (
        "float[c, 3, a, b] x => y",
        'y = ConvTranspose <auto_pad = "SAME_UPPER", strides = [2, 1]> (x, filters)',
    ),
    "columns to images": (
        "float[a, 8, 6] x => y",
        "y = Col2Im(x, three_four, two_two)",
    ),
    **{
        f"regions, {ratio}, {mode}": (
            "float[c, 2, a, b] x, float[n, 4] r, int64[n] i => y",
            "s = Shape <end = 1> (x) own = Mod(i, s) p = Abs(r) q = CumSum(p, one) "
            f'y = RoiAlign <sampling_ratio = {ratio}, mode = "{mode}", output_height = 2, '
            "output_width = 3, spatial_scale = 2.0> (x, q, own)",
        )
        for ratio, mode in ((0, "avg"), (2, "avg"), (2, "max"))
    },
    "frames": ("float[a, b, 1] x => y", "y = STFT(x, step, , eight)"),
    "frames of a window": ("float[a, b, 1] x => y", "y = STFT <onesided = 0> (x, step, window)"),
    "windows rounded up": (
        "float[c, 2, a, b] x => y, z",
        "y = MaxPool <ceil_mode = 1, strides = [2, 2], kernel_shape = [3, 3]> (x) "
        "z = AveragePool <ceil_mode = 1, strides = [2, 2], kernel_shape = [3, 3], "
        "pads = [1, 1, 1, 1]> (x)",
    ),
    "windows rounded up, the last one behind the image": (
        "float[c, 2, 16, b] x => y",
        "y = MaxPool <ceil_mode = 1, strides = [2, 2], kernel_shape = [1, 2]> (x)",
    ),
    "table cut twice": (
        "float[b, a, a] x => y",
        "s = Shape <start = 1, end = 2> (x) p = Slice(square, zero_axis, s, zero_axis) "
        "q = Slice(p, zero_axis, s, one_axis) y = Add(x, q)",
    ),
    "attention with a table read backwards": (
        "float[c, 2, a, 8] x => y",
        "v = Transpose <perm = [0, 1, 3, 2]> (x) p = MatMul(x, v) "
        "s = Shape <start = 2, end = 3> (x) n = Neg(s) t = Slice(heads, n, ends, two_axis) "
        "q = Add(p, t) r = Softmax(q) y = MatMul(r, x)",
    ),
    "attention of columns": (
        "float[c, 2, 8, a] x => y",
        "q = Transpose <perm = [0, 1, 3, 2]> (x) p = MatMul(q, x) r = Softmax(p) y = MatMul(r, q)",
    ),
    "range of two sizes": (
        "float[a, b] x => i",
        "s = Shape(x) f = Gather(s, zero_index) l = Gather(s, one) g = Neg(f) "
        "i = Range(l, g, minus_two)",
    ),
    "identity of sizes": ("float[a, b] x => y", "y = EyeLike <k = 1> (x)"),
    "counted by nonzero": (
        "float[a, b] x => i",
        "s = Shape <start = 1> (x) o = ConstantOfShape <value = int64[1] {1}> (s) i = NonZero(o)",
    ),
    "the smaller size": (
        "float[a, b] x => y",
        "s = Shape <start = 1> (x) m = Min(s, five) n = Add(m, five) "
        "y = Slice(wide, m, n, one_axis)",
    ),
    "padding by sizes, as PyTorch writes it": (
        "float[a, b] x => y",
        "s = Shape(x) n = Neg(s) r = Mod(n, two_three) f = Concat <axis = 0> (r, first_two) "
        "g = Reshape(f, two_columns) h = Slice(g, minus_ones, first, zero_axis, minus_ones) "
        "t = Transpose(h) q = Reshape(t, minus_ones) y = Pad(x, q, one_float)",
    ),
    "windows and a bias": (
        "float[c, 2, a] x => y",
        "h = Conv <strides = [4]> (x, long_filters, biases) s = Shape <start = 2> (x) "
        "w = Div(s, four) e = Concat <axis = 0> (ones, w) o = Expand(one_float, e) "
        "y = Add(h, o)",
    ),
    "floats of sizes": (
        "float[a, b] x => y",
        "s = Shape <start = 1> (x) f = Cast <to = 1> (s) h = Div(f, two_float) u = Ceil(h) "
        "d = Mul(u, two_float) e = Floor(h) g = Cast <to = 7> (d) j = Cast <to = 7> (e) "
        "v = Add(g, j) y = Expand(one_float, v)",
    ),
    "range of floats": (
        "float[a, b] x => y",
        "s = Shape <start = 1> (x) r = Squeeze(s) l = Cast <to = 1> (r) "
        "y = Range(half, l, one_float)",
    ),
    "padding that cuts": ("float[a, b] x => y", "y = Pad(x, shift)"),
    "windows counted by division": (
        "float[c, 2, a] x => y",
        "h = Conv <strides = [4]> (x, long_filters) s = Shape <start = 2> (x) t = Sub(s, four) "
        "w = Div(t, four) n = Add(w, ones) e = Concat <axis = 0> (ones, n) "
        "o = Expand(one_float, e) y = Add(h, o)",
    ),
    "shape of a constant that is spread": (
        "float[a, b] x => y, i",
        "s = Shape <end = 1> (x) w = Concat <axis = 0> (s, ones, ones) v = Expand(table, w) "
        "p = Shape(v) y = Relu(x) q = ReduceMax <keepdims = 0> (x) r = Cast <to = 7> (q) "
        "g = Mod(r, three_of) i = Gather(p, g)",
    ),
    "equal by the model": ("float[a, b] x, float[c, b] z => y", "y = Add(x, z)"),
    "branches": (
        "float[a, b] x => y",
        "m = ReduceMax <keepdims = 0> (x) c = Greater(m, limit) y = If (c) <"
        "then_branch = t () => (float[a, b] p) { p = Relu(x) },"
        "else_branch = e () => (float[a, b] q) { q = Neg(x) }>",
    ),
    "branches in a loop": (
        "float[a, 4] x, float[4] s => y",
        "n = Shape <end = 1> (x) m = ReduceMax <keepdims = 0> (n) y = Loop (m, , s) <body = step "
        "(int64 i, bool c, float[4] p) => (bool d, float[4] q) { d = Identity(c) "
        "r = Gather(x, i) t = ReduceSum <keepdims = 0> (r) g = Greater(t, zero) q = If (g) <"
        "then_branch = e () => (float[4] u) { u = Add(p, r) },"
        "else_branch = f () => (float[4] v) { w = Sub(p, r) v = Tanh(w) }> }>",
    ),
    "scan of scalars": (
        "float[6] s, float[70, 6] x, float[a] z => y, w, v",
        "y, w = Scan <num_scan_inputs = 1, body = step (float[6] p, float[6] q) => "
        "(float[6] r, float[6] t) { r = Add(p, q) l, m, n = DynamicQuantizeLinear(r) "
        "t = DequantizeLinear(l, m, n) }> (s, x) v = Relu(z)",
    ),
    "scan": (
        "float[b] s, float[a, b] x => y, z",
        "y, z = Scan <num_scan_inputs = 1, body = step (float[b] p, float[b] q) => "
        "(float[b] r, float[b] t) { r = Add(p, q) t = Tanh(r) }> (s, x)",
    ),
}
CONSTANTS = {
    "step": np.int64(3), "eight": np.int64(8), "window": np.hanning(6).astype(np.float32),
    "three_four": np.array([3, 4]), "two_two": np.array([2, 2]),
    "one": np.int64(1), "three": np.array([3]), "pads": np.array([0, 3, 0, 2]),
    "two_three": np.array([2, 3]), "first_two": np.array([0, 2]), "one_float": np.float32(1),
    "filters": np.random.default_rng(0).normal(size=(3, 2, 3, 4)).astype(np.float32),
    "minus_three": np.array([-3]), "ends": np.array([1 << 40]), "one_axis": np.array([1]),
    "zero_axis": np.array([0]), "ones": np.array([1]), "minus_ones": np.array([-1]),
    "first": np.array([-(1 << 40)]), "limit": np.float32(1.5), "zero": np.float32(0),
    "three_of": np.int64(3),
    "square": np.arange(64, dtype=np.float32).reshape(8, 8), "zero_index": np.int64(0),
    "heads": np.linspace(-1, 1, 32, dtype=np.float32).reshape(2, 1, 16), "two_axis": np.array([2]),
    "two_float": np.float32(2), "half": np.float32(0.5), "shift": np.array([0, 1, 0, -1]),
    "minus_two": np.int64(-2), "five": np.array([5]), "four": np.array([4]),
    "wide": np.arange(20, dtype=np.float32).reshape(2, 10), "two_columns": np.array([-1, 2]),
    "long_filters": np.ones((3, 2, 4), np.float32), "biases": np.ones(3, np.float32),
    "table": np.ones((1, 3, 4), np.float32),
    "scales": np.array([1, 1, 2, 1.5], np.float32), "k": np.zeros((1, 1), np.int64),
}  # fmt: skip
IMAGES: Sizes = [{"a": 5, "b": 6, "c": 2}, {"a": 8, "b": 7, "c": 1}, {"a": 9, "b": 11, "c": 1}]
SIZES: dict[str, Sizes] = {
    "of another": [{"a": 9, "b": 2, "c": 2}, {"a": 6, "b": 1, "c": 3}],
    "resize to a size": [{"a": 1, "b": 3, "c": 7}, {"a": 2, "b": 6, "c": 4}],
    "split to sizes": [{"a": 2, "b": 5}, {"a": 3, "b": 5}],
    "einsum": [{"a": 2, "b": 3, "c": 4}, {"a": 5, "b": 1, "c": 2}],
    "einsum of equals": [{"a": 2, "b": 3, "c": 3}, {"a": 5, "b": 4, "c": 4}],
    **{n: [known | {"d": 3} for known in IMAGES] for n in MODELS if n.startswith("samples")},
    **dict.fromkeys((name for name in MODELS if "padding of" in name or "rounded" in name), IMAGES),
    **{n: [known | {"n": 3} for known in IMAGES] for n in MODELS if n.startswith("regions")},
    **{n: [{"a": 2, "b": 31}, {"a": 1, "b": 8}] for n in MODELS if n.startswith("frames")},
    "transposed windows": IMAGES,
    **{n: IMAGES for n in MODELS if n.startswith("attention")},
    "windows counted by division": [{"a": 9, "c": 2}, {"a": 4, "c": 1}],
    "windows and a bias": [{"a": 9, "c": 2}, {"a": 4, "c": 1}],
    "padding by sizes, reflect": [{"a": 2, "b": 5}, {"a": 4, "b": 7}],
    "columns to images": [{"a": 2}, {"a": 1}],
    "equal by the model": [{"a": 2, "b": 5, "c": 2}],
}


def model_of(name: str) -> onnx.ModelProto:
    """One of MODELS, with the constants that it names."""
    signature, nodes = MODELS[name]
    inputs, outputs = signature.split(" => ")
    if name == "scatter":
        nodes = "s = Shape(x) w = Expand(k, s) " + nodes.replace("x, k", "x, w")
    kinds = ", ".join(f"{'int64' if o == 'i' else 'float'} {o}" for o in outputs.split(", "))
    text = f'<ir_version: 8, opset_import: ["" : 19]> g ({inputs}) => ({kinds}) {{ {nodes} }}'
    model = parser.parse_model(text)
    read = set(re.findall(r"\w+", nodes))
    held = [numpy_helper.from_array(v, n) for n, v in CONSTANTS.items() if n in read]
    model.graph.initializer.extend(held)
    for value in model.graph.output:
        value.type.tensor_type.ClearField("shape")
    return model


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
