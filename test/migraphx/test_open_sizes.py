"""Programs of open sizes: their listings, and operators on them."""

from __future__ import annotations

import sys

import numpy as np
import onnx
import pytest

from mgx_mlir import migraphx
from mgx_mlir.errors import UsageError

DIM = migraphx.shape.dynamic_dimension
MODELS = {
    "a bias, a resized image": "(float[n, 2, 4, 4] x) => (float[n, 2, 8, 8] y)"
    "<float[2] b = {1, 2}, float[2, 2, 1, 1] w = {1, 2, 3, 4}, float[4] s = {1, 1, 2, 2}>"
    "{ a = Conv(x, w, b) y = Resize<mode = \"linear\">(a, , s) }",
    "two inputs of one size": "(float[n, 3] x, float[n, 4] z) => (float[m] y)"
    "<float[3, 4] w = {1, 2, 3, 4, 5, 6, 7, 8, 9, 1, 2, 3}, int64[1] all = {-1}>"
    "{ a = MatMul(x, w) b = Add(a, z) c = Softmax(b) y = Reshape(c, all) }",
    "scalars, and sizes of a shape": "(float[n, 3] x) => (float[n, 6, 2] y)"
    "<float two = {2}, int64[3] to = {0, 3, 1}, int64[3] times = {1, 2, 2}>"
    "{ a = Mul(x, two) b = Reshape(a, to) y = Tile(b, times) }",
    "an expanded row": "(float[n, 3] x, float[1, 3] z) => (float[n, 3] y)"
    "{ s = Shape(x) a = Expand(z, s) y = Sub(a, x) }",
}  # fmt: skip


def ran(p, given):
    p.compile(migraphx.get_target("cpu"))
    return [np.array(y) for y in p.run(given)]


def listed(p, monkeypatch):
    monkeypatch.setitem(sys.modules, "migraphx", migraphx)
    names = {}
    exec(compile(p.to_py(), "listing", "exec"), names)
    return names["p"]


@pytest.mark.parametrize("name", MODELS)
def test_the_listing_computes_the_same_at_any_size(name, monkeypatch):
    model = onnx.parser.parse_model(f'<ir_version: 8, opset_import: ["": 17]> g {MODELS[name]}')
    p = migraphx.parse_onnx_buffer(model.SerializeToString(), dim_params={"n": DIM(1, 8, {4})})
    again = listed(p, monkeypatch)
    assert again.get_parameter_shapes() == p.get_parameter_shapes()
    for rows in (1, 5):
        shapes = {
            n: [rows if size == DIM(1, 8, {4}) else size.min for size in s.dyn_dims()] or s.lens()
            for n, s in p.get_parameter_shapes().items()
        }
        given = {n: np.random.default_rng(0).random(s, np.float32) for n, s in shapes.items()}
        for one, other in zip(ran(again, given), ran(p, given), strict=True):
            np.testing.assert_array_equal(one, other, strict=True)


def test_operators_take_tensors_of_open_sizes():
    p = migraphx.program()
    m = p.get_main_module()
    x = m.add_parameter("x", migraphx.shape(dyn_dims=[DIM(1, 8, name="n"), DIM(4, 4)]))
    row = m.add_literal(np.arange(4, dtype=np.float32))
    of_x = m.add_instruction(migraphx.op("multibroadcast"), [row, x])
    by_axis = m.add_instruction(migraphx.op("broadcast", axis=1), [row, x])
    stated = migraphx.op("multibroadcast", out_lens=[DIM(1, 8, name="n"), 4])
    total = m.add_instruction(stated, [row])
    for other in (of_x, by_axis):
        total = m.add_instruction(migraphx.op("add"), [total, other])
    (total,) = m.add_macro(migraphx.macro("add"), [total, x])
    folded = m.add_instruction(migraphx.op("reshape", dims=[0, 2, -1]), [total])
    flat = m.add_instruction(migraphx.op("reshape", dims=[-1]), [folded])
    m.add_return([folded, flat])
    assert [s.ndim() for s in p.get_output_shapes()] == [3, 1]
    given = np.ones((3, 4), np.float32)
    expected = given + 3 * np.arange(4, dtype=np.float32)
    first, second = ran(p, {"x": given})
    np.testing.assert_array_equal(first, expected.reshape(3, 2, 2))
    np.testing.assert_array_equal(second, expected.reshape(-1))
    for operator, says in (
        (migraphx.op("slice", axes=[0], starts=[0], ends=[1]), r"axes \[0\] have open sizes"),
        (migraphx.op("multibroadcast", out_lens=[DIM(1, 8), 4]), "has no name"),
    ):
        with pytest.raises(UsageError, match=says):
            m.add_instruction(operator, [x])
    with pytest.raises(UsageError, match="not known to be equal"):
        y = m.add_parameter("y", migraphx.shape(dyn_dims=[DIM(1, 8), DIM(4, 4)]))
        m.add_macro(migraphx.macro("add"), [x, y])


@pytest.mark.parametrize("machine", ["cpu", "gfx942"])
def test_sizes_get_programs_of_their_own(machine):
    text = "(float[n, 3] x) => (float[n, 3] y) { y = Neg(x) }"
    model = onnx.parser.parse_model(f'<ir_version: 8, opset_import: ["": 17]> g {text}')
    p = migraphx.parse_onnx_buffer(
        model.SerializeToString(), dim_params={"n": DIM(1, 8)}, use_symbolic_shapes=True
    )
    p.compile(migraphx.get_target(machine), split_sizes=[4, 1], compile_mode=0)
    compiled = migraphx.load_buffer(migraphx.save_buffer(p))
    assert compiled.get_parameter_shapes() == {
        "x": migraphx.shape(dyn_dims=[DIM(1, 8, {1, 4}), DIM(3, 3)])
    }
    assert compiled.get_output_shapes()[0].dyn_dims()[0].is_symbolic()
    for q in (p, compiled):
        for rows in (1, 2, 4):
            given = np.ones((rows, 3), np.float32)
            np.testing.assert_array_equal(np.array(q.run({"x": given})[0]), -given)
    programs = p._state.compiled.artifact.plan.programs
    assert [sizes for sizes, _ in programs] == [{"n": 1}, {"n": 4}]


def test_sizes_that_get_no_programs_are_refused():
    p = migraphx.program()
    m = p.get_main_module()
    x = m.add_parameter("x", migraphx.shape(dyn_dims=[DIM(1, 8, name="n"), DIM(4, 4)]))
    m.add_return([m.add_instruction(migraphx.op("neg"), [x])])
    cpu, ref = migraphx.get_target("cpu"), migraphx.get_target("ref")
    for target, arguments, says in (
        (cpu, {"split_sizes": [9]}, r"\[9\] are not from 1 to 8"),
        (ref, {"split_sizes": [1]}, "split_sizes is not for the target 'ref'"),
        (cpu, {"compile_mode": 101}, "'101' is no compile mode"),
    ):
        with pytest.raises(UsageError, match=says):
            p.compile(target, **arguments)
    y = m.add_parameter("y", migraphx.shape(dyn_dims=[DIM(1, 8, name="k")]))
    m.add_return([m.add_instruction(migraphx.op("neg"), [one]) for one in (x, y)])
    with pytest.raises(UsageError, match="the program has 2"):
        p.compile(cpu, split_sizes=[1])


@pytest.mark.parametrize(
    ("name", "types", "shapes"),
    [
        ("add", [[DIM(1, 64), DIM(4, 4)]] * 2, [(8, 4), (2, 4)]),
        ("dot", [[DIM(2, 2), DIM(1, 64)], [DIM(5, 5), DIM(3, 3)]], [(2, 64), (5, 3)]),
        ("dot", [[DIM(2, 2), DIM(1, 64)], [DIM(1, 64), DIM(3, 3)]], [(2, 4), (5, 3)]),
        (
            "convolution",
            [[DIM(1, 1), DIM(1, 64), *[DIM(8, 8)] * 2], [DIM(*2 * (n,)) for n in (3, 2, 3, 3)]],
            [(1, 1, 8, 8), (3, 2, 3, 3)],
        ),
        ("concat", [[DIM(1, 64), DIM(4, 4)]] * 2, [(8, 4), (2, 4)]),
    ],
)
def test_open_sizes_that_have_to_be_equal_are_compared_in_each_run(name, types, shapes):
    """MIGraphX's types give bounds, and no names by which sizes would be known to be equal."""
    p = migraphx.program()
    m = p.get_main_module()
    values = [
        m.add_parameter(key, migraphx.shape(type="float_type", dyn_dims=dims))
        for key, dims in zip("xy", types, strict=True)
    ]
    attributes = {"axis": 1} if name == "concat" else {}
    m.add_return([m.add_instruction(migraphx.op(name, **attributes), values)])
    p.compile(migraphx.get_target("cpu"))
    given = {key: np.ones(shape, np.float32) for key, shape in zip("xy", shapes, strict=True)}
    with pytest.raises(UsageError, match="no run with x_"):
        p.run(given)


SIZES = {
    "n": [DIM(1, 4, {2, 4}), DIM(3, 3), DIM(4, 4)],
    "nh": [DIM(1, 4), DIM(1, 1), DIM(4, 16), DIM(8, 8)],
}
FOLLOWING = [
    ("n", "(float[n, 3, 4] x) => (float[a, 12] y) { y = Flatten(x) }", (1, 4)),
    ("n", "(float[n, 3, 4] x) => (float[a, 6] y) <int64[2] s = {-1, 6}> "
     "{ y = Reshape(x, s) }", (2, 8)),
    ("n", "(float[n, 3, 4] x) => (float[a, 3, 4] y) { y = Concat<axis = 0>(x, x, x) }", (3, 12)),
    ("nh", "(float[n, 1, h, 8] x) => (float[n, 1, a, b] y) { y = GlobalMaxPool(x) }", (1, 4)),
    ("n", "(float[n, 3, 4] x) => (float[n, 3, 4] y, float[m] z) "
     "{ y = Relu(x) z = Unique(x) }", (1, 4)),
]  # fmt: skip


@pytest.mark.parametrize(("given", "text", "expected"), FOLLOWING)
def test_outputs_have_the_bounds_that_follow_from_the_inputs(given, text, expected):
    made = onnx.parser.parse_model(f'<ir_version: 8, opset_import: ["": 17]> g {text}')
    p = migraphx.parse_onnx_buffer(made.SerializeToString(), map_dyn_input_dims={"x": SIZES[given]})
    assert bounds(p.get_parameter_shapes()["x"])[0] == (1, 4)
    assert bounds(p.get_output_shapes()[0])[0] == expected
    p.compile(migraphx.get_target("cpu"))
    assert bounds(p.get_output_shapes()[0])[0] == expected
    other = migraphx.load_buffer(migraphx.save_buffer(p))
    assert bounds(other.get_output_shapes()[0])[0] == expected


def bounds(shape):
    return [(d.min, d.max) for d in shape.dyn_dims()]


def test_instructions_have_the_bounds_that_follow():
    text = "(float[n, 1, h, 8] x) => (float[n, 1, a, b] y) "
    text += "{ p = Relu(x) y = MaxPool<kernel_shape = [2, 2], strides = [2, 2]>(p) }"
    made = onnx.parser.parse_model(f'<ir_version: 8, opset_import: ["": 17]> g {text}')
    p = migraphx.parse_onnx_buffer(made.SerializeToString(), map_dyn_input_dims={"x": SIZES["nh"]})
    assert bounds(list(p.get_main_module())[-1].shape())[2] == (2, 8)


@pytest.mark.parametrize("target", ["cpu", "ref"])
def test_axes_may_be_an_input(target):
    text = "(float[3, 4] x, int64[1] a) => (float[b, c] y) { y = ReduceSum<keepdims = 1>(x, a) }"
    made = onnx.parser.parse_model(f'<ir_version: 8, opset_import: ["": 13]> g {text}')
    p = migraphx.parse_onnx_buffer(made.SerializeToString())
    p.compile(migraphx.get_target(target))
    x = np.arange(12, dtype=np.float32).reshape(3, 4)
    for axis in (0, 1):
        (found,) = p.run({"x": x, "a": np.array([axis])})
        np.testing.assert_allclose(np.array(found), x.sum(axis, keepdims=True))
    with pytest.raises(UsageError, match="decide its operators"):
        migraphx.save_buffer(p)
