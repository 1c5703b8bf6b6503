"""Programs that are built from MIGraphX's operators, against numpy."""

from __future__ import annotations

import copy
import pickle
import sys

import numpy as np
import onnx
import pytest

from mgx_mlir import migraphx
from mgx_mlir.errors import ArtifactError, UnsupportedError, UsageError

F = migraphx.shape(type="float", lens=[2, 3])


def built(name, *shapes, **attributes):
    """A program of one operator, whose inputs are x0, x1, ..."""
    p = migraphx.program()
    m = p.get_main_module()
    inputs = [m.add_parameter(f"x{i}", s) for i, s in enumerate(shapes)]
    m.add_return([m.add_instruction(migraphx.op(name, **attributes), inputs)])
    return p


def results(p, target="ref", **params):
    p.compile(migraphx.get_target(target))
    return [np.array(found) for found in p.run(params)]


def inputs_of(p, seed=0):
    shapes = p.get_parameter_shapes()
    return {n: migraphx.generate_argument(s, seed + i) for i, (n, s) in enumerate(shapes.items())}


def find(m, name):
    (found,) = [ins for ins in m if ins.name() == name]
    return found


@pytest.mark.parametrize("target", ["ref", "cpu", "gfx942"])
def test_targets_compute_the_same(target):
    p = built("add", F, F)
    x, y = np.ones((2, 3), np.float32), np.arange(6, dtype=np.float32).reshape(2, 3)
    (found,) = results(p, target, x0=x, x1=migraphx.argument(y))
    np.testing.assert_array_equal(found, x + y)


def test_a_program_without_a_return_gives_its_last_instruction():
    p = migraphx.program()
    m = p.get_main_module()
    x = m.add_parameter("x", F)
    m.add_instruction(migraphx.op("neg"), [x])
    (found,) = results(p, x=np.ones((2, 3), np.float32))
    assert (found == -1).all()


X = np.arange(6, dtype=np.float32).reshape(2, 3)
I8 = migraphx.shape(type="int8", lens=[2, 3])


@pytest.mark.parametrize(
    ("name", "attributes", "expected"),
    [
        ("transpose", {"permutation": [1, 0]}, X.T),
        ("reshape", {"dims": [3, 2]}, X.reshape(3, 2)),
        ("reshape", {"dims": [0, -1, 1]}, X.reshape(2, 3, 1)),
        ("multibroadcast", {"out_lens": [4, 2, 3]}, np.broadcast_to(X, (4, 2, 3))),
        ("slice", {"axes": [1], "starts": [-2], "ends": [9]}, X[:, 1:]),
        ("pad", {"pads": [0, 1, 0, 1], "value": 7.0}, np.pad(X, [(0, 0), (1, 1)], constant_values=7.0)),  # noqa: E501
        ("pad", {"pads": [0, 1, 0, 1], "mode": "edge"}, np.pad(X, [(0, 0), (1, 1)], "edge")),
        ("convert", {"target_type": "int32"}, X.astype(np.int32)),
        ("reduce_sum", {"axes": [1]}, X.sum(1, keepdims=True)),
        ("argmax", {"axis": 1}, X.argmax(1).reshape(2, 1)),
        ("squeeze", {"axes": []}, X),
        ("unsqueeze", {"axes": [0]}, X[None]),
        ("flatten", {"axis": 0}, X.reshape(1, 6)),
        ("clip", None, np.clip(X, 1, 4)),
        ("isnan", {}, np.isnan(X)),
        ("step", {"axes": [1], "steps": [2]}, X[:, ::2]),
    ],
)  # fmt: skip
def test_operators_take_the_attributes_of_migraphx(name, attributes, expected):
    if attributes is None:
        p = built(name, F, F, F)
        found = results(p, x0=X, x1=np.full_like(X, 1), x2=np.full_like(X, 4))[0]
    else:
        (found,) = results(built(name, F, **attributes), x0=X)
    assert found.dtype == expected.dtype
    np.testing.assert_array_equal(found, expected)


def test_comparisons_keep_the_type_of_their_operands():
    p = built("greater", F, F)
    assert p.get_output_shapes() == [F]
    (found,) = results(p, x0=X, x1=np.full_like(X, 2))
    np.testing.assert_array_equal(found, (X > 2).astype(np.float32))


def test_where_takes_any_number_as_condition():
    (found,) = results(built("where", I8, F, F), x0=np.eye(2, 3, dtype=np.int8), x1=X, x2=-X)
    np.testing.assert_array_equal(found, np.where(np.eye(2, 3), X, -X))


def test_nonzero_fills_a_column_for_each_element():
    (found,) = results(built("nonzero", F), x0=X * (X % 2))
    expected = np.zeros((2, 6), np.int64)
    expected[:, :3] = np.nonzero(X % 2)
    np.testing.assert_array_equal(found, expected)


def test_a_convolution_pads_both_sides_alike():
    image = migraphx.shape(lens=[1, 2, 5, 5])
    weights = migraphx.shape(lens=[3, 2, 3, 3])
    p = built("convolution", image, weights, padding=[1, 1], stride=[2, 2], dilation=[1, 1])
    assert p.get_output_shapes()[0].lens() == [1, 3, 3, 3]
    assert built("convolution", image, weights).get_output_shapes()[0].lens() == [1, 3, 3, 3]


@pytest.mark.parametrize(("mode", "first"), [("same_upper", [0, 1]), (1, [1, 0])])
def test_padding_may_keep_the_size(mode, first):
    image, kernel = migraphx.shape(lens=[1, 1, 5, 4]), migraphx.shape(lens=[1, 1, 3, 2])
    given = {"padding": [1, first[0], 1, first[1]]}
    plain = built("convolution", image, kernel, **given)
    same = built("convolution", image, kernel, padding_mode=mode)
    assert same == plain and same.get_output_shapes()[0].lens() == [1, 1, 5, 4]
    pool = built("pooling", image, lengths=[2, 2], stride=[2, 2], padding_mode=mode, mode="max")
    assert pool.get_output_shapes()[0].lens() == [1, 1, 3, 2]
    with pytest.raises(UsageError, match="is for convolution and pooling"):
        built("convolution_backwards", image, kernel, padding_mode=mode)
    with pytest.raises(UsageError, match="none of default"):
        built("convolution", image, kernel, padding_mode=7)


def test_pooling_takes_its_mode_as_text_or_as_enum():
    image = migraphx.shape(lens=[1, 1, 4, 4])
    x = np.arange(16, dtype=np.float32).reshape(1, 1, 4, 4)
    for mode in ("max", migraphx.op.pooling_mode.max):
        p = built("pooling", image, mode=mode, lengths=[2, 2], stride=[2, 2])
        (found,) = results(p, x0=x)
        np.testing.assert_array_equal(found.reshape(-1), [5, 7, 13, 15])


def test_the_parts_of_a_tuple_are_instructions():
    p = migraphx.program()
    m = p.get_main_module()
    x = m.add_parameter("x", F)
    top = m.add_instruction(migraphx.op("topk", k=1, axis=1), [x])
    assert len(top.shape().sub_shapes()) == 2
    parts = [m.add_instruction(migraphx.op("get_tuple_elem", index=i), [top]) for i in (0, 1)]
    m.add_return(parts)
    values, indices = results(p, x=X)
    np.testing.assert_array_equal(values, [[2], [5]])
    np.testing.assert_array_equal(indices, [[2], [2]])


@pytest.mark.parametrize("target", ["ref", "cpu"])
def test_an_if_takes_two_modules_that_use_the_main_one(target):
    p = migraphx.program()
    m = p.get_main_module()
    x = m.add_parameter("x", F)
    condition = m.add_parameter("c", migraphx.shape(type="bool", lens=[1], strides=[0]))
    bodies = []
    for name in ("identity", "neg"):
        body = p.create_module(name)
        body.add_return([body.add_instruction(migraphx.op(name), [x])])
        bodies.append(body)
    chosen = m.add_instruction(migraphx.op("if"), [condition], bodies)
    m.add_return([m.add_instruction(migraphx.op("get_tuple_elem", index=0), [chosen])])
    for value, expected in ((True, X), (False, -X)):
        np.testing.assert_array_equal(results(p, target, x=X, c=np.array([value]))[0], expected)


@pytest.mark.parametrize("target", ["ref", "cpu"])
def test_a_loop_carries_values_and_stops_by_its_condition(target):
    p = migraphx.program()
    m = p.get_main_module()
    one = migraphx.shape(type="int64", lens=[1])
    truth = migraphx.shape(type="bool", lens=[1])
    trips, again = m.add_parameter("trips", one), m.add_parameter("again", truth)
    start = m.add_parameter("start", one)
    body = p.create_module("body")
    number, _, carried = (
        body.add_parameter(n, s) for n, s in (("number", one), ("go", truth), ("value", one))
    )
    summed = body.add_instruction(migraphx.op("add"), [carried, number])
    limit = body.add_literal(np.array([6], np.int64))
    less = body.add_instruction(migraphx.op("less"), [summed, limit])
    go = body.add_instruction(migraphx.op("convert", target_type="bool"), [less])
    body.add_return([go, summed, summed])
    loop = m.add_instruction(migraphx.op("loop", max_iterations=10), [trips, again, start], [body])
    m.add_return(
        [m.add_instruction(migraphx.op("get_tuple_elem", index=i), [loop]) for i in (0, 1)]
    )
    given = {"again": np.array([True]), "start": np.array([0])}
    last, scanned = results(p, target, trips=np.array([100]), **given)
    assert last == [6]
    np.testing.assert_array_equal(scanned, [[0], [1], [3], [6], [0], [0], [0], [0], [0], [0]])
    assert results(p, target, trips=np.array([3]), **given)[0] == [3]


@pytest.mark.parametrize(
    ("name", "attributes", "shapes", "expected"),
    [
        (
            "gemm",
            {"alpha": 0.5, "transB": 1},
            ([2, 3], [4, 3], [2, 4]),
            lambda a, b, c: 0.5 * a @ b.T + c,
        ),
        ("dot", {}, ([2, 3], [3, 4]), lambda a, b: a @ b),
        ("einsum", {"equation": "ij,kj->ik"}, ([2, 3], [4, 3]), lambda a, b: a @ b.T),
        ("clip", {}, ([2, 3], [], []), lambda x, low, high: np.clip(x, low, high)),
        (
            "convolution",
            {"paddings": [0, 0], "strides": [1, 1]},
            ([1, 1, 2, 2], [1, 1, 1, 1], [1]),
            lambda x, w, b: x * w + b.reshape(1, 1, 1, 1),
        ),
        (
            "batchnorm",
            {"epsilon": 0.0},
            ([1, 2, 3], [2], [2], [2], [2]),
            lambda x, scale, bias, mean, var: (
                (x - mean[:, None]) / np.sqrt(np.abs(var))[:, None] * scale[:, None] + bias[:, None]
            ),
        ),
    ],
)
def test_macros_are_built_of_operators(name, attributes, shapes, expected):
    p = migraphx.program()
    m = p.get_main_module()
    given = [m.add_parameter(f"x{i}", migraphx.shape(lens=s)) for i, s in enumerate(shapes)]
    m.add_return(m.add_macro(migraphx.macro(name, **attributes), given))
    arrays = {n: np.abs(np.array(a)) for n, a in inputs_of(p).items()}
    if name == "clip":
        arrays["x1"], arrays["x2"] = np.float32(0.2), np.float32(0.5)
    (found,) = results(p, **arrays)
    np.testing.assert_allclose(found, expected(*arrays.values()), rtol=1e-5, atol=1e-6)


def test_instructions_tell_what_they_are():
    p = built("add", F, F)
    x, y, add = p.get_main_module()
    assert (x.name(), add.name(), add.op().name()) == ("@param", "add", "add")
    assert add.inputs() == [x, y] and x.outputs() == [add] and add.shape() == F
    literal = p.get_main_module().add_literal(X)
    assert literal.name() == "@literal" and np.array_equal(np.array(literal.get_literal()), X)
    with pytest.raises(UsageError, match="@param is no literal"):
        x.get_literal()


def test_an_operator_goes_before_another_or_takes_its_place():
    p = built("add", F, F)
    m = p.get_main_module()
    x, y, add = m
    twice = m.insert_instruction(add, migraphx.op("mul"), [x, x])
    m.replace_instruction(add, migraphx.op("sub"), [twice, y])
    (found,) = results(p, x0=X, x1=X)
    np.testing.assert_array_equal(found, X * X - X)


def test_replace_return_gives_other_results():
    p = built("add", F, F)
    m = p.get_main_module()
    x, y, _ = m
    m.replace_return([y, x])
    found = results(p, x0=X, x1=-X)
    np.testing.assert_array_equal(found, [-X, X])


def test_sort_puts_operands_first():
    p = built("add", F, F)
    m = p.get_main_module()
    x, _, add = m
    late = m.add_instruction(migraphx.op("neg"), [x])
    m.replace_return([m.insert_instruction(add, migraphx.op("abs"), [late])])
    p.sort()
    np.testing.assert_array_equal(results(p, x0=-X, x1=X)[0], X)


def test_programs_are_equal_when_their_operators_are():
    assert built("add", F, F) == built("add", F, F)
    assert built("add", F, F) != built("sub", F, F)


def test_a_clone_is_changed_alone():
    p = built("add", F, F)
    p.compile(migraphx.get_target("cpu"))
    for made in (p.clone(), copy.copy(p), copy.deepcopy(p)):
        assert made == p and made.is_compiled()
        m = made.get_main_module()
        m.add_return([m.add_instruction(migraphx.op("neg"), [list(m)[-1]])])
        assert made != p and not made.is_compiled() and p.is_compiled()
        np.testing.assert_array_equal(results(made, x0=X, x1=X)[0], -2 * X)
        np.testing.assert_array_equal(np.array(p.run({"x0": X, "x1": X})[0]), 2 * X)


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("concat", X),
        ("convert", X.astype(np.float16)),
        ("leaky_relu", np.where(X > 0, X, np.float32(0.01) * X)),
        ("prefix_scan_sum", X.cumsum(0)),
        ("reduce_sum", X.sum(keepdims=True)),
        ("softmax", np.exp(X) / np.exp(X).sum(1, keepdims=True)),
    ],
)
def test_operators_have_the_attributes_that_migraphx_has_untold(name, expected):
    (found,) = results(built(name, F), x0=X)
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-6, strict=True)


def test_a_program_and_a_module_print_their_instructions(capsys):
    p = built("add", F, F)
    p.print()
    p.get_main_module().print()
    assert capsys.readouterr().out.count("add") == 2


LISTED = {
    "types": "(float[2, 3] x) => (uint8[2, 3] y, bool[2, 3] z) "
    "{ s = Constant<value_float = 0.5>() y = QuantizeLinear(x, s) z = Greater(x, s) }",
    "infinite values": "(float[2, 3] x) => (float[4, 3] y) "
    "{ p = Constant<value_ints = [1, 0, 1, 0]>() "
    "v = Constant<value_float = -inf>() y = Pad(x, p, v) }",
    "rows of a loop": """(float[2, 3] x) => (float[3] y, float[12, 3] rows) {
    n = Constant<value = int64 {12}>() c = Constant<value = bool {1}>()
    z = Constant<value_int = 0>() a = Gather(x, z)
    y, rows = Loop(n, c, a) <body =
    b (int64 i, bool k, float[3] v) => (bool k2, float[3] w, float[3] o)
    { k2 = Identity(k) f = Cast<to = 1>(i) w = Add(v, f) o = Identity(w) }> }""",
    "more rows of a convolution": "(float[1, 1, 4, 4] x) => (float[1, 1, 9, 9] y) "
    "<float[1, 1, 2, 2] w = {1, 2, 3, 4}> "
    "{ y = ConvTranspose<strides = [2, 2], output_padding = [1, 1]>(x, w) }",
}


@pytest.mark.parametrize("name", LISTED)
def test_the_listing_of_a_parsed_model_computes_the_same(name, monkeypatch):
    text = f'<ir_version: 8, opset_import: ["": 17]> g {LISTED[name]}'
    p = migraphx.parse_onnx_buffer(onnx.parser.parse_model(text).SerializeToString())
    monkeypatch.setitem(sys.modules, "migraphx", migraphx)
    names = {}
    exec(compile(p.to_py(), "listing", "exec"), names)
    given = inputs_of(p)
    for one, other in zip(results(p, **given), results(names["p"], **given), strict=True):
        np.testing.assert_array_equal(one, other, strict=True)


def test_a_listing_with_sizes_that_the_data_decide_is_refused():
    text = '<ir_version: 8, opset_import: ["": 17]> g (float[4] x) => (int64[1, n] y) '
    model = onnx.parser.parse_model(text + "{ y = NonZero(x) }")
    p = migraphx.parse_onnx_buffer(model.SerializeToString())
    with pytest.raises(UnsupportedError, match="nonzero has sizes"):
        p.to_py()


def test_the_listing_builds_the_same_program(monkeypatch):
    image, weights = migraphx.shape(lens=[1, 2, 5, 5]), migraphx.shape(lens=[3, 2, 3, 3])
    p = built("convolution", image, weights, padding=[1, 1], stride=[2, 2])
    m = p.get_main_module()
    y = m.add_instruction(
        migraphx.op("pooling", mode="average", lengths=[2, 2], stride=[1, 1]),
        [find(m, "convolution")],
    )
    y = m.add_instruction(migraphx.op("reshape", dims=[3, 4]), [y])
    y = m.add_instruction(migraphx.op("mul"), [y, m.add_literal(np.eye(3, 4, dtype=np.float32))])
    y = m.add_instruction(migraphx.op("pad", pads=[0, 1, 0, 0]), [y])
    top = m.add_instruction(migraphx.op("topk", k=2, axis=1), [y])
    m.replace_return([m.add_instruction(migraphx.op("get_tuple_elem", index=1), [top])])
    monkeypatch.setitem(sys.modules, "migraphx", migraphx)
    names = {}
    exec(compile(p.to_py(), "listing", "exec"), names)
    again = names["p"]
    assert again == p
    given = inputs_of(p)
    np.testing.assert_array_equal(results(again, **given)[0], results(p, **given)[0])


@pytest.mark.parametrize(
    ("act", "said"),
    [
        (lambda: migraphx.op("convolutoin"), "did you mean 'convolution'"),
        (lambda: migraphx.macro("gem"), "did you mean 'gemm'"),
        (lambda: built("transpose", F, permutations=[1, 0]), "no attribute 'permutations'"),
        (lambda: built("add", F, I8), "add"),
        (lambda: built("add", F, F).run({}), "not compiled"),
        (lambda: results(built("add", F, F), x0=X), "no array for the input 'x1'"),
        (lambda: migraphx.program().compile(migraphx.get_target("ref")), "has no instructions"),
        (lambda: built("get_tuple_elem", F, index=1), "has no element 1"),
    ],
)
def test_mistakes_are_named(act, said):
    with pytest.raises(UsageError, match=said):
        act()


def test_a_program_goes_to_a_file_and_back_before_it_is_compiled(tmp_path):
    p = built("add", F, F)
    m = p.get_main_module()
    large = np.random.default_rng(0).normal(size=(2, 3, 50)).astype(np.float32)
    weights = m.add_literal(large)
    summed = m.add_instruction(migraphx.op("reduce_sum", axes=[2]), [weights])
    flat = m.add_instruction(migraphx.op("reshape", dims=[2, 3]), [summed])
    m.replace_return([m.add_instruction(migraphx.op("mul"), [flat, find(m, "add")])])
    file = str(tmp_path / "p.mxr")
    migraphx.save(p, file)
    again = migraphx.load(file)
    assert again == p and not again.is_compiled()
    assert migraphx.save_buffer(again) == migraphx.save_buffer(p)
    np.testing.assert_allclose(results(again, "cpu", x0=X, x1=X)[0], large.sum(2) * 2 * X, 1e-5)


def test_a_compiled_program_goes_to_a_file_and_back():
    p = built("add", F, F)
    p.compile(migraphx.get_target("cpu"))
    again = migraphx.load_buffer(migraphx.save_buffer(p))
    assert again.is_compiled() and again.get_parameter_shapes() == {"x0": F, "x1": F}
    np.testing.assert_array_equal(np.array(again.run({"x0": X, "x1": X})[0]), 2 * X)
    with pytest.raises(UsageError, match="has no operators"):
        print(again)


@pytest.mark.parametrize("cut", [1, 40, 400])
def test_a_damaged_file_is_refused(cut):
    data = migraphx.save_buffer(built("add", F, F))
    with pytest.raises(ArtifactError):
        migraphx.load_buffer(data[: len(data) - cut])


def test_dimensions_with_bounds_run_at_any_size():
    dim = migraphx.shape.dynamic_dimension
    p = built("add", *[migraphx.shape(dyn_dims=[dim(1, 8), dim(3, 3)])] * 2)
    assert p.get_output_shapes()[0].dynamic()
    p.compile(migraphx.get_target("cpu"))
    for rows in (1, 5):
        x = np.ones((rows, 3), np.float32)
        np.testing.assert_array_equal(np.array(p.run({"x0": x, "x1": x})[0]), 2 * x)


@pytest.mark.parametrize("quantize", [migraphx.quantize_fp16, migraphx.quantize_bf16])
def test_quantized_programs_keep_their_inputs_and_outputs(quantize):
    p = built("dot", migraphx.shape(lens=[4, 8]), migraphx.shape(lens=[8, 4]))
    given = inputs_of(p)
    (expected,) = results(p, "cpu", **given)
    shapes = p.get_parameter_shapes()
    quantize(p)
    assert p.get_parameter_shapes() == shapes and not p.is_compiled()
    assert "half" in repr(p.get_main_module()) or "bf16" in repr(p.get_main_module())
    (found,) = results(p, "cpu", **given)
    assert found.dtype == np.float32 and 0 < np.abs(found - expected).max() < 0.05


def test_inputs_have_names_of_their_own():
    p = built("neg", F)
    with pytest.raises(UsageError, match="there is a parameter 'x0' already"):
        p.get_main_module().add_parameter("x0", F)
    p.compile(migraphx.get_target("cpu"))
    with pytest.raises(RuntimeError, match="a dict of inputs by name; list is given"):
        p.run([np.ones((2, 3), np.float32)])


def test_one_operator_alone_is_changed_to_f16():
    p = built("dot", migraphx.shape(lens=[2, 4]), migraphx.shape(lens=[4, 3]))
    m = p.get_main_module()
    m.replace_return([m.add_instruction(migraphx.op("relu"), [find(m, "dot")])])
    migraphx.quantize_fp16(p, ins_names=["dot"])
    kinds = {ins.name(): ins.shape().type_string() for ins in p.get_main_module()}
    assert kinds["dot"] == "half_type" and kinds["relu"] == "float_type"
    with pytest.raises(UsageError, match="'dott' is not here; did you mean 'dot'"):
        migraphx.quantize_fp16(p, ins_names=["dott"])


def layer(name, directions=1, **attributes):
    """A program of a recurrent layer of 3 steps, 2 rows, 4 numbers; its states; its arrays."""
    gates = {"gru": 3, "lstm": 4, "rnn": 1}[name]
    p = migraphx.program()
    m = p.get_main_module()
    sizes = [[3, 2, 4], [directions, gates * 5, 4], [directions, gates * 5, 5]]
    given = [m.add_parameter(f"x{i}", migraphx.shape(lens=s)) for i, s in enumerate(sizes)]
    absent = m.add_instruction(migraphx.op("undefined"), [])
    operator = migraphx.op(name, hidden_size=5, **attributes)
    y = m.add_instruction(operator, [*given, absent, absent, absent])
    states = [m.add_instruction(migraphx.op("rnn_last_hs_output"), [y])]
    if name == "lstm":
        states.append(m.add_instruction(migraphx.op("rnn_last_cell_output"), [y]))
    m.add_return([y, *states])
    return p, {n: np.array(a) for n, a in inputs_of(p).items()}


@pytest.mark.parametrize("target", ["ref", "cpu"])
@pytest.mark.parametrize(
    ("name", "directions", "attributes", "more"),
    [
        ("rnn", 1, {"actv_func": [migraphx.op("leaky_relu", alpha=0.3)]},
         {"activations": ["LeakyRelu"], "activation_alpha": [0.3]}),
        ("gru", 1, {"direction": migraphx.op.rnn_direction.reverse, "linear_before_reset": 1},
         {"direction": "reverse", "linear_before_reset": 1}),
        ("lstm", 2, {"direction": 2, "clip": 0.4, "input_forget": 1,
                     "actv_func": ["sigmoid", "tanh", "relu"]},
         {"direction": "bidirectional", "clip": 0.4, "input_forget": 1,
          "activations": ["Sigmoid", "Tanh", "Relu"] * 2}),
    ],
)  # fmt: skip
def test_recurrent_layers_are_those_of_onnx(target, name, directions, attributes, more):
    import onnxruntime
    from onnx import helper

    p, arrays = layer(name, directions, **attributes)
    outputs = ["y", "h", "c"][: len(p.get_output_shapes())]
    kind = lambda n: helper.make_tensor_value_info(n, 1, None)  # noqa: E731
    node = helper.make_node(name.upper(), [*arrays], outputs, hidden_size=5, **more)
    graph = helper.make_graph(
        [node], "g", [helper.make_tensor_value_info(n, 1, a.shape) for n, a in arrays.items()],
        [kind(n) for n in outputs],
    )  # fmt: skip
    model = helper.make_model(
        graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=9
    ).SerializeToString()
    expected = onnxruntime.InferenceSession(model).run(None, arrays)
    for found, one in zip(results(p, target, **arrays), expected, strict=True):
        np.testing.assert_allclose(found, one, rtol=1e-4, atol=1e-5)


def test_only_a_layer_has_a_last_state():
    p = migraphx.program()
    m = p.get_main_module()
    x = m.add_parameter("x", F)
    with pytest.raises(UsageError, match="rnn_last_cell_output takes the result of an lstm"):
        m.add_instruction(migraphx.op("rnn_last_cell_output"), [x])
    with pytest.raises(UsageError, match="lstm has no attribute 'hidden'; there are: actv_func"):
        m.add_instruction(migraphx.op("lstm", hidden=3), [x, x, x])


def test_onehot_takes_its_depth_as_an_operand_or_an_attribute():
    i64 = migraphx.shape(type="int64", lens=[3])
    p = migraphx.program()
    m = p.get_main_module()
    i, values = m.add_parameter("i", i64), m.add_literal(np.array([0, 5], np.float32))
    depth = m.add_literal(np.array(4))
    rows = m.add_instruction(migraphx.op("onehot"), [i, depth, values])
    columns = m.add_instruction(migraphx.op("onehot", axis=0, depth=4), [i, values])
    m.add_return([rows, columns])
    found, other = results(p, i=np.array([1, 0, 3]))
    np.testing.assert_array_equal(found, 5 * np.eye(4)[[1, 0, 3]])
    np.testing.assert_array_equal(other, found.T)


def test_roialign_takes_the_mode_of_migraphx():
    shapes = [migraphx.shape(lens=s) for s in ([1, 1, 4, 4], [1, 4])]
    p = built(
        "roialign", *shapes, migraphx.shape(type="int64", lens=[1]),
        mode=migraphx.op.pooling_mode.max, output_height=2, output_width=2, sampling_ratio=1,
        coordinate_transformation_mode="output_half_pixel",
    )  # fmt: skip
    x = np.arange(16, dtype=np.float32).reshape(1, 1, 4, 4)
    rois = np.array([[0, 0, 4, 4]], np.float32)
    (found,) = results(p, x0=x, x1=rois, x2=np.zeros(1, np.int64))
    assert found.tolist() == [[[[5, 7], [13, 15]]]]


def test_four_bit_numbers_come_out_of_bytes_along_an_axis():
    bytes_ = np.array([[0x21, 0xFF], [0x7F, 0x08]], np.uint8)
    for kind, expected in (
        ("uint8", [[1, 15], [2, 15], [15, 8], [7, 0]]),
        ("int8", [[1, -1], [2, -1], [-1, -8], [7, 0]]),
    ):
        p = built("unpack_int4", migraphx.shape(type=kind, lens=[2, 2]), axis=0)
        (found,) = results(p, x0=bytes_.view(kind))
        assert found.tolist() == expected and found.dtype == kind


def test_multinomial_draws_by_sums_of_shares():
    p = built(
        "multinomial", migraphx.shape(lens=[2, 3]), migraphx.shape(lens=[2, 4]), dtype="int64"
    )
    sums = np.array([[1, 2, 4], [1, 1, 3]], np.float32)
    random = np.array([[0, 0.3, 0.6, 0.99], [0.1, 0.34, 0.9, 0.2]], np.float32)
    (found,) = results(p, x0=sums, x1=random)
    assert found.tolist() == [[0, 1, 2, 2], [0, 2, 2, 0]]


def test_macros_take_constants_and_quantize():
    p = migraphx.program()
    m = p.get_main_module()
    x = m.add_parameter("x", F)
    scale = m.add_literal(np.float32(0.5))
    (tiled,) = m.add_macro(migraphx.macro("tile", repeats=[2, 1]), [x])
    zero = m.add_literal(np.int8(1))
    (quantized,) = m.add_macro(migraphx.macro("quantizelinear"), [x, scale, zero])
    (back,) = m.add_macro(migraphx.macro("dequantizelinear"), [quantized, scale, zero])
    m.add_return([tiled, quantized, back])
    array = np.array([[0.5, -1, 2], [0, 3, -3]], np.float32)
    found = results(p, x=array)
    np.testing.assert_array_equal(found[0], np.tile(array, (2, 1)))
    assert found[1].tolist() == [[2, -1, 5], [1, 7, -5]] and found[1].dtype == np.int8
    np.testing.assert_array_equal(found[2], array)
    with pytest.raises(UsageError, match="macro 'tile' needs the attribute 'repeats'"):
        m.add_macro(migraphx.macro("tile"), [x])


def test_autocast_gives_inputs_and_outputs_of_fp8_the_type_float():
    p = built("add", *2 * [migraphx.shape(type="fp8e4m3fn_type", lens=[2])])
    migraphx.autocast_fp8(p)
    kinds = [*p.get_parameter_shapes().values(), *p.get_output_shapes()]
    assert [kind.type_string() for kind in kinds] == ["float_type"] * 3
    (found,) = results(p, x0=np.float32([0.3, 2]), x1=np.float32([0, 1]))
    assert found.dtype == np.float32 and found.tolist() == [0.3125, 3]


@pytest.mark.parametrize("axes", [[2, 0], [-1, -2]])
def test_axes_of_a_reduction_may_stand_in_any_order(axes):
    x = np.arange(24, dtype=np.float32).reshape(2, 3, 4)
    p = built("reduce_sum", migraphx.shape(type="float", lens=[2, 3, 4]), axes=axes)
    (found,) = results(p, "cpu", x0=x)
    np.testing.assert_array_equal(found, x.sum(tuple(axes), keepdims=True))


@pytest.mark.parametrize(
    ("name", "attributes", "said"),
    [
        ("softmax", {"axis": 99}, r"mgx.softmax: axis must be in \[0, 2\), got 99"),
        ("reshape", {"dims": [7]}, "mgx.reshape: must keep the number of elements"),
        ("multibroadcast", {"out_lens": [2, 9]}, "mgx.multibroadcast: dimension 1 of x"),
    ],
)
def test_attributes_that_an_operator_does_not_have_are_the_callers_error(name, attributes, said):
    with pytest.raises(UsageError, match=said):
        built(name, F, **attributes).compile(migraphx.get_target("cpu"))


def test_operators_are_pickled():
    made = migraphx.op("pooling", mode="average", lengths=[2, 2])
    assert pickle.loads(pickle.dumps(made)) == made
