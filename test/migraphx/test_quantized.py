"""quantize_int8 and quantize_fp8: parsed, built, edited and loaded programs."""

from __future__ import annotations

import logging

import numpy as np
import onnx
import pytest

from mgx_mlir import Calibration, Precision, migraphx, quantize
from mgx_mlir.errors import UnsupportedError, UsageError
from mgx_mlir.quantization import quantize_program
from mgx_mlir.tools.mgx import main

from ..onnx_models import small

CPU = migraphx.get_target("cpu")
BOTH = pytest.mark.parametrize(
    ("quantized", "kind"), [(migraphx.quantize_int8, "int8"), (migraphx.quantize_fp8, "fp8")]
)


def normal(*sizes, seed=0):
    return np.random.default_rng(seed).normal(0, 1, sizes).astype(np.float32)


def inputs_of(p, count=3):
    shapes = p.get_parameter_shapes().items()
    return [
        {n: np.array(migraphx.generate_argument(s, seed)) for n, s in shapes}
        for seed in range(count)
    ]


def outputs(p, given, target=CPU):
    p.compile(target)
    return [np.array(found) for found in p.run(given)]


def noise(found, expected):
    """The energy of the errors beside that of the results."""
    return np.square(found - expected).sum() / np.square(expected).sum()


def launches(p):
    return len(p._state.compiled.artifact.plan.steps)


def names_in(p):
    return [instruction.name() for instruction in p.get_main_module()]


def built():
    """x -> convolution -> relu -> max pooling -> dot with a broadcast matrix -> dot."""
    p = migraphx.program()
    m = p.get_main_module()
    x = m.add_parameter("x", migraphx.shape(lens=[2, 8, 8, 8]))
    kernels = m.add_literal(normal(16, 8, 3, 3) / 8)
    y = m.add_instruction(migraphx.op("convolution", padding=[1, 1]), [x, kernels])
    y = m.add_instruction(migraphx.op("relu"), [y])
    y = m.add_instruction(migraphx.op("pooling", mode="max", lengths=[2, 2], stride=[2, 2]), [y])
    y = m.add_instruction(migraphx.op("reshape", dims=[2, 16, 16]), [y])
    first = m.add_literal(normal(16, 32, seed=1) / 4)
    first = m.add_instruction(migraphx.op("multibroadcast", out_lens=[2, 16, 32]), [first])
    y = m.add_instruction(migraphx.op("dot"), [y, first])
    y = m.add_instruction(migraphx.op("reshape", dims=[1, 32, 32]), [y])
    turned = m.add_literal(normal(1, 8, 32, seed=2) / 4)
    turned = m.add_instruction(migraphx.op("transpose", permutation=[0, 2, 1]), [turned])
    m.add_return([m.add_instruction(migraphx.op("dot"), [y, turned])])
    return p


@BOTH
def test_programs_of_operators_are_quantized(quantized, kind):
    p = built()
    given = inputs_of(p)
    (expected,) = outputs(p, given[0])
    p, shapes = built(), p.get_parameter_shapes()
    quantized(p, CPU, given)
    assert p.get_parameter_shapes() == shapes and not p.is_compiled()
    assert names_in(p).count("dequantizelinear") == 9  # x, 3 tensors of one scale, 2, weights
    (found,) = outputs(p, given[0])
    assert 0 < noise(found, expected) < {"int8": 1e-3, "fp8": 1e-2}[kind]
    (walked,) = outputs(p, given[0], migraphx.get_target("ref"))
    np.testing.assert_allclose(found, walked, atol=1e-3 * np.abs(walked).max())
    before = repr(p)
    quantized(p, CPU, given)
    assert repr(p) == before  # nothing is quantized twice


@BOTH
@pytest.mark.parametrize("name", ["gpt2", "resnet"])
def test_parsed_programs_are_quantized_as_their_models(quantized, kind, name):
    data = small(name).SerializeToString()
    p = migraphx.parse_onnx_buffer(data)
    given = inputs_of(p)
    expected = outputs(p, given[0])
    p = migraphx.parse_onnx_buffer(data)
    quantized(p, CPU, [{n: migraphx.argument(a) for n, a in one.items()} for one in given])
    made = quantize(data, Precision(kind), Calibration(given)).proto()
    model = migraphx.parse_onnx_buffer(made.SerializeToString())
    for own, of_model, plain in zip(
        outputs(p, given[0]), outputs(model, given[0]), expected, strict=True
    ):
        assert 0 < noise(own, plain) < 1.3 * noise(of_model, plain)
    assert launches(p) == launches(model)


def test_edited_and_loaded_programs_are_quantized_alike():
    data = small("resnet").SerializeToString()
    plain, edited, loaded = (migraphx.parse_onnx_buffer(data) for _ in range(3))
    given = inputs_of(plain)
    m = edited.get_main_module()
    (last,) = m._results()
    m.replace_return([m.add_instruction(migraphx.op("neg"), [migraphx.instruction_ref(m, [last])])])
    loaded = migraphx.load_buffer(migraphx.save_buffer(loaded))
    found = []
    for p in (plain, edited, loaded):
        migraphx.quantize_int8(p, CPU, given)
        found.append(outputs(p, given[0])[0])
    np.testing.assert_array_equal(found[1], -found[0])
    np.testing.assert_array_equal(found[2], found[0])


def test_int8_and_f16_come_in_any_order_and_for_some_operators(capfd):
    expected = None
    for steps in ((), ("int8", "fp16"), ("fp16", "int8")):
        p = built()
        given = inputs_of(p)
        for step in steps:
            if step == "int8":
                migraphx.quantize_int8(p, CPU, given, ins_names=["convolution"])
            else:
                migraphx.quantize_fp16(p, ["dot"])
        kinds = [i.shape().type_string() for i in p.get_main_module() if i.name() == "dot"]
        (found,) = outputs(p, given[0])
        if expected is None:
            expected = found
            continue
        assert names_in(p).count("quantizelinear") == 1 and kinds == ["half_type"] * 2
        assert found.dtype == np.float32 and 0 < noise(found, expected) < 1e-3
    assert capfd.readouterr() == ("", "")


def test_f16_products_become_products_of_integers():
    p = built()
    given = inputs_of(p)
    (expected,) = outputs(p, given[0])
    p = built()
    migraphx.quantize_fp16(p)
    migraphx.quantize_int8(p, CPU, given)
    assert names_in(p).count("quantizelinear") == 6
    assert 0 < noise(outputs(p, given[0])[0], expected) < 1e-3


def test_bodies_are_quantized_by_the_values_of_each_run():
    def made():
        p = migraphx.program()
        m = p.get_main_module()
        condition = m.add_parameter("condition", migraphx.shape(type="bool_type", lens=[1]))
        x = m.add_parameter("x", migraphx.shape(lens=[4, 32]))
        weight = m.add_literal(normal(32, 8))
        bodies = []
        for name, operator in (("then", "relu"), ("else", "neg")):
            body = p.create_module(name)
            y = body.add_instruction(migraphx.op("dot"), [x, weight])
            body.add_return([body.add_instruction(migraphx.op(operator), [y])])
            bodies.append(body)
        whole = m.add_instruction(migraphx.op("if"), [condition], bodies)
        m.add_return([m.add_instruction(migraphx.op("get_tuple_elem", index=0), [whole])])
        return p

    for condition in (True, False):
        given = {"condition": np.array([condition]), "x": normal(4, 32, seed=3)}
        (expected,) = outputs(made(), given)
        p = made()
        migraphx.quantize_int8(p, CPU)
        assert "quantizelinear" in repr(p)
        assert 0 < noise(outputs(p, given)[0], expected) < 1e-3


def test_programs_of_open_sizes_are_quantized():
    dim = migraphx.shape.dynamic_dimension
    p = migraphx.program()
    m = p.get_main_module()
    x = m.add_parameter("x", migraphx.shape(dyn_dims=[dim(2, 8), dim(64, 64)]))
    weight = normal(64, 32)
    m.add_return([m.add_instruction(migraphx.op("dot"), [x, m.add_literal(weight)])])
    given = {"x": normal(5, 64, seed=4)}
    for calibration in ([given, {"x": normal(3, 64, seed=5)}], []):
        migraphx.quantize_int8(p, CPU, calibration)
        (found,) = outputs(p, given)
        assert 0 < noise(found, given["x"] @ weight) < 1e-3


def test_networks_of_any_batch_are_quantized():
    model = small("vit")
    for value in (*model.graph.input, *model.graph.output):
        value.type.tensor_type.shape.dim[0].dim_param = "batch"
    data, batch = model.SerializeToString(), {"batch": migraphx.dynamic_dimension(1, 4)}
    p = migraphx.parse_onnx_buffer(data, dim_params=batch)
    (name,) = p.get_parameter_names()
    given = [{name: normal(rows, 3, 32, 32, seed=rows)} for rows in (1, 3)]
    expected = outputs(p, given[1])[0]
    p = migraphx.parse_onnx_buffer(data, dim_params=batch)
    migraphx.quantize_int8(p, CPU, given)
    assert names_in(p).count("dot") > 10 and names_in(p).count("quantizelinear") > 5
    assert 0 < noise(outputs(p, given[1])[0], expected) < 5e-3
    with pytest.raises(UsageError, match="no products of 'int4'"):
        quantize_program(p.graph(), "int4")


def test_programs_whose_sizes_the_data_decide_are_quantized():
    text = """<ir_version: 8, opset_import: ["": 17]> g (float[4, 16] x) => (float[n, 3] y)
        <float[2, 3] w = {1, 0.5, 0.25, 2, 1.5, -3}>
        { a = NonZero(x) b = Transpose(a) c = Cast<to = 1>(b) y = MatMul(c, w) }"""
    p = migraphx.parse_onnx_buffer(onnx.parser.parse_model(text).SerializeToString())
    x = np.maximum(normal(4, 16), 0)
    migraphx.quantize_int8(p, CPU, [{"x": x}])
    assert "quantizelinear" in repr(p)
    weight = np.array([[1, 0.5, 0.25], [2, 1.5, -3]], np.float32)
    assert 0 < noise(outputs(p, {"x": x})[0], np.argwhere(x).astype(np.float32) @ weight) < 1e-3


def test_values_without_a_range_stay_in_f32_and_are_told(caplog):
    p = migraphx.program()
    m = p.get_main_module()
    x = m.add_parameter("x", migraphx.shape(lens=[2, 4]))
    y = m.add_instruction(migraphx.op("log"), [x])
    m.add_return([m.add_instruction(migraphx.op("dot"), [y, m.add_literal(normal(4, 4))])])
    with caplog.at_level(logging.WARNING):
        migraphx.quantize_int8(p, CPU, [{"x": np.zeros((2, 4), np.float32)}])
    assert "'mgx.log' has NaN or Inf for sample 0" in caplog.text
    assert "quantizelinear" not in names_in(p)
    caplog.clear()
    p = migraphx.program()
    m = p.get_main_module()
    given = [m.add_parameter(n, migraphx.shape(lens=[4, 4])) for n in "ab"]
    m.add_return([m.add_instruction(migraphx.op("dot"), given)])
    migraphx.quantize_fp8(p, CPU)
    assert "no convolution or dot of floats has a constant operand" in caplog.text


def test_the_command_line_quantizes_saved_programs(tmp_path, capsys):
    p = built()
    migraphx.save(p, str(tmp_path / "p.mxr"))
    np.savez(tmp_path / "data.npz", x=normal(3, 2, 8, 8, 8))
    (expected,) = outputs(p, {"x": np.ones((2, 8, 8, 8), np.float32)})
    run = ["run", str(tmp_path / "p.mxr"), "--fill1", "x", "--output", str(tmp_path)]
    assert main([*run, "--int8", "--calibrate", str(tmp_path / "data.npz"), "--samples", "2"]) == 0
    (found,) = [np.load(file) for file in tmp_path.glob("*.npy")]
    assert 0 < noise(found, expected) < 1e-2
    capsys.readouterr()
    assert main([*run, "--int8", "--smooth"]) == 2
    assert "'smooth' is for ONNX models" in capsys.readouterr().err


def test_calibration_that_does_not_fit_is_an_error():
    p = built()
    for given, says in (
        ([{"y": normal(2, 8, 8, 8)}], "no input 'x'"),
        ([{"x": normal(2, 8)}], r"has the shape \[2, 8\]; the model takes \[2, 8, 8, 8\]"),
        ([{"x": np.full((2, 8, 8, 8), np.nan, np.float32)}], "holds NaN"),
    ):
        before = repr(p)
        with pytest.raises(UsageError, match=says):
            migraphx.quantize_int8(p, CPU, given)
        assert repr(p) == before
    with pytest.raises(UnsupportedError, match="convolution and dot"):
        migraphx.quantize_int8(p, CPU, ins_names={"add"})
