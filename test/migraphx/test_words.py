"""The names, keywords and numbers that scripts written for MIGraphX use."""

from __future__ import annotations

import copy
import inspect
import struct
from pathlib import Path

import numpy as np
import pytest

from mgx_mlir import migraphx
from mgx_mlir.errors import UsageError

from .test_programs import results

DIM = migraphx.shape.dynamic_dimension
# The names of parameters by which callers give arguments.
KEYWORDS = {
    "allocate_gpu": "s host",
    "argument.load": "filename",
    "argument.save": "arg filename",
    "argument_from_pointer": "shape address",
    "autocast_fp8": "prog",
    "fill_argument": "s value",
    "generate_argument": "s seed",
    "load": "filename format",
    "load_buffer": "b",
    "module.add_instruction": "op args mod_args debug_symbols",
    "module.add_literal": "data debug_symbols",
    "module.add_macro": "macro args mod_args debug_symbols",
    "module.add_parameter": "name shape debug_symbols",
    "module.add_return": "args debug_symbols",
    "module.insert_macro": "ins macro args mod_args debug_symbols",
    "module.replace_instruction": "ins op args mod_args",
    "module.replace_return": "args debug_symbols",
    "parse_onnx": "filename default_dim_value default_dyn_dim_value dim_params map_input_dims "
    "map_dyn_input_dims skip_unknown_operators print_program_on_error max_loop_iterations "
    "limit_max_iterations use_debug_symbols use_symbolic_shapes",
    "parse_onnx_buffer": "filename default_dim_value default_dyn_dim_value dim_params "
    "map_input_dims map_dyn_input_dims skip_unknown_operators print_program_on_error "
    "external_data_path use_debug_symbols use_symbolic_shapes",
    "parse_tf": "filename is_nhwc batch_size map_input_dims output_names",
    "program.compile": "t offload_copy fast_math exhaustive_tune compile_mode",
    "program.create_module": "name",
    "quantize_fp16": "prog ins_names",
    "quantize_fp8": "prog t calibration",
    "quantize_int8": "prog t calibration ins_names",
    "save": "p filename format",
    "save_buffer": "p",
    "to_gpu": "arg host",
}


@pytest.mark.parametrize("name", KEYWORDS)
def test_arguments_have_the_names_of_migraphx(name):
    found = migraphx
    for part in name.split("."):
        found = getattr(found, part)
    there = [word for word in inspect.signature(found).parameters if word in KEYWORDS[name].split()]
    assert there == KEYWORDS[name].split()


def test_enums_are_numbers_with_names():
    kinds = migraphx.shape.type_t
    assert [int(kinds.bool_type), int(kinds.float_type), int(kinds.int8_type)] == [0, 2, 5]
    assert str(kinds.float_type) == "type_t.float_type" and kinds(2) is kinds.float_type
    assert migraphx.shape(type=5) == migraphx.shape(type=kinds.int8_type)
    assert int(migraphx.op.pooling_mode.max) == 1 and migraphx.op.rnn_direction.reverse == 1


def test_a_dimension_without_arguments_is_empty():
    made = DIM()
    assert (made.min, made.max, made.is_fixed()) == (0, 0, True)
    named = DIM(expression="2*n", symbols={"n": DIM(1, 4)})
    assert named.is_symbolic() and (named.min, named.max) == (2, 8)
    with pytest.raises(UsageError, match="cannot go from 3 to None"):
        DIM(3)


def test_an_argument_is_a_buffer():
    a = migraphx.argument(np.arange(6, dtype=np.float32).reshape(2, 3).T)
    view = memoryview(a)
    assert (view.shape, view.strides, view.format) == ((3, 2), (4, 12), "f")
    row = migraphx.argument(np.arange(4, dtype=np.float32))
    assert struct.unpack_from("f", row, 8) == (2,) and bytes(row)[4:8] == struct.pack("f", 1)
    assert copy.deepcopy(a) == a and copy.deepcopy(a).get_shape() == a.get_shape()


def test_a_buffer_keeps_the_memory():
    view = memoryview(migraphx.argument(np.full(3, 7, np.int16)))
    assert view.tolist() == [7, 7, 7]


def test_an_argument_is_saved_by_its_class(tmp_path):
    a = migraphx.argument(np.arange(3))
    migraphx.argument.save(a, str(tmp_path / "a.npy"))
    assert migraphx.argument.load(filename=str(tmp_path / "a.npy")) == a


def test_operators_and_macros_tell_their_attributes():
    assert migraphx.op("relu").values() == {}
    pooling = migraphx.op("pooling", mode=migraphx.op.pooling_mode.max, lengths=(2, 2)).values()
    assert (pooling["mode"], pooling["lengths"], pooling["ceil_mode"]) == (1, [2, 2], False)
    assert migraphx.op("softmax").values() == {"axis": 1}
    assert migraphx.op("convert", target_type="half").values()["target_type"] == 1
    assert migraphx.macro("gemm", alpha=2.0, transB=True).options() == {
        "alpha": 2.0,
        "transB": True,
    }
    assert migraphx.macro("add").options() == {}


def program_of(operator, *operands):
    """A program of one operator, or macro, on constants, whose result it returns."""
    p = migraphx.program()
    m = p.get_main_module()
    args = [m.add_literal(np.array(operand)) for operand in operands]
    if isinstance(operator, migraphx.macro):
        m.add_return(m.add_macro(operator, args))
    else:
        m.add_return([m.add_instruction(operator, args)])
    return p


IMAGE = np.arange(16, dtype=np.float32).reshape(1, 1, 4, 4)


@pytest.mark.parametrize(
    ("mode", "expected"), [(0, [[2.5, 4.5], [10.5, 12.5]]), (1, [[5, 7], [13, 15]])]
)
def test_a_pool_takes_its_mode_as_a_number(mode, expected):
    operator = migraphx.op("pooling", mode=mode, lengths=[2, 2], stride=[2, 2])
    np.testing.assert_allclose(results(program_of(operator, IMAGE))[0][0, 0], expected)


def test_an_input_is_an_operator_with_a_name():
    p = migraphx.program()
    m = p.get_main_module()
    x = m.add_parameter(name="x", shape=migraphx.shape(lens=[2]))
    literal = m.add_literal(np.ones(2, np.float32))
    assert (x.op().name(), x.op().values()) == ("@param", {"parameter": "x"})
    assert literal.op().name() == "@literal"


def test_an_operator_of_a_program_tells_its_attributes():
    p = program_of(migraphx.op("transpose", permutation=[0, 1, 3, 2]), IMAGE)
    *_, transposed = p.get_main_module()
    assert transposed.op().values() == {"permutation": [0, 1, 3, 2]}


@pytest.mark.parametrize(
    ("given", "same"),
    [
        ({"paddings": [1, 1]}, {"padding": [1, 1]}),
        ({"paddings": [0, 1, 1, 0]}, {"padding": [0, 1, 1, 0]}),
        ({"dilations": [2, 2], "group": 1}, {"dilation": [2, 2]}),
        ({"auto_pad": "SAME_UPPER", "strides": [2, 2]}, {"padding_mode": 2, "stride": [2, 2]}),
        ({"auto_pad": "same_lower"}, {"padding_mode": 1}),
        ({"padding_mode": 2}, {"padding_mode": 2}),
        ({"auto_pad": "NOTSET", "paddings": [1, 1]}, {"padding": [1, 1]}),
        ({}, {}),
    ],
)  # fmt: skip
def test_a_convolution_is_a_macro_with_its_own_names(given, same):
    weights = np.arange(4, dtype=np.float32).reshape(1, 1, 2, 2)
    macro = migraphx.macro("convolution", **given)
    (expected,) = results(program_of(migraphx.op("convolution", **same), IMAGE, weights))
    np.testing.assert_allclose(results(program_of(macro, IMAGE, weights))[0], expected)


def test_a_convolution_of_bytes_subtracts_zero_points():
    image, weights = IMAGE.astype(np.uint8), np.array([[[[1, -2], [3, 4]]]], np.int8)
    macro = migraphx.macro("quant_convolution", strides=[2, 2])
    found = results(program_of(macro, image, weights, np.uint8(2), np.int8(1)))[0]
    windows = (image.astype(int) - 2).reshape(2, 2, 2, 2).transpose(0, 2, 1, 3)
    expected = (windows * (weights.astype(int) - 1)).sum((2, 3))
    np.testing.assert_array_equal(found[0, 0], expected)


def test_a_quantization_has_the_type_that_is_asked_for():
    for kind in ("int8_type", 5, migraphx.shape.type_t.int8_type):
        macro = migraphx.macro("quantizelinear", axis=0, output_type=kind)
        found = results(program_of(macro, np.array([-3.0, 2.6], "f4"), np.float32(1)))[0]
        assert found.dtype == np.int8 and found.tolist() == [-3, 3]


def test_gelus_have_the_constants_of_migraphx():
    x = np.array([[-1.5, 0.25, 2.0]], np.float32)
    for fast, a, b in ((True, 0.797885, 0.035677), (False, (2 / np.pi) ** 0.5, 0.0356774)):
        found = results(program_of(migraphx.macro("gelu_tanh", fast=fast), x))[0]
        np.testing.assert_allclose(found, x / 2 * (1 + np.tanh(a * x + b * x**3)), rtol=1e-5)
    quick = results(program_of(migraphx.macro("gelu_quick"), x))[0]
    np.testing.assert_allclose(quick, x / (1 + np.exp(-x)), rtol=1e-6)


@pytest.mark.parametrize("interleaved", [False, True])
def test_a_rotation_takes_cosines_and_sines_of_its_shape(interleaved):
    rng = np.random.default_rng(0)
    x, angles = rng.normal(size=(1, 2, 3, 4)).astype("f4"), rng.normal(size=(1, 1, 3, 2))
    both = np.repeat(angles, 2, -1) if interleaved else np.concatenate([angles, angles], -1)
    operands = (x, np.cos(both).astype("f4"), np.sin(both).astype("f4"))
    macro = migraphx.macro("rotary_embedding", interleaved=interleaved)
    found = results(program_of(macro, *operands))
    a, b = (x[..., 0::2], x[..., 1::2]) if interleaved else (x[..., :2], x[..., 2:])
    turned = (a + 1j * b) * np.exp(1j * angles)
    parts = [turned.real, turned.imag]
    expected = np.stack(parts, -1).reshape(x.shape) if interleaved else np.concatenate(parts, -1)
    np.testing.assert_allclose(found[0], expected, rtol=1e-5, atol=1e-6)


def test_macros_take_no_modules():
    p = migraphx.program()
    m = p.get_main_module()
    x = m.add_literal(np.ones(2, np.float32))
    with pytest.raises(UsageError, match="macro 'add' takes no modules"):
        m.add_macro(migraphx.macro("add"), [x, x], mod_args=[p.create_module("body")])


@pytest.mark.parametrize(
    "given",
    [
        {"cubic_coeff_a": -0.5},
        {"exclude_outside": True},
        {"antialias": True, "scales": [1, 1, 0.5, 0.5]},
        {"coordinate_transformation_mode": "tf_crop_and_resize", "extrapolation_value": 9.0,
         "roi": [0, 0, 0.1, 0.1, 1, 1, 1.2, 1.2]},
    ],
)  # fmt: skip
def test_a_resize_has_all_attributes(given):
    words = {"mode": "cubic", "scales": [1, 1, 2, 2]} | given
    plain = results(program_of(migraphx.op("resize", mode="cubic", scales=words["scales"]), IMAGE))
    p = program_of(migraphx.op("resize", **words), IMAGE)
    *_, made = p.get_main_module()
    for name, value in given.items():
        assert made.op().values()[name] == pytest.approx(value)
    assert not np.allclose(results(p)[0], plain[0])


@pytest.mark.parametrize("given", [np.array([1, 1, 8, 8]), np.array([1, 1, 2, 2], np.float32)])
def test_a_resize_takes_sizes_or_scales_as_an_operand(given):
    (found,) = results(
        program_of(migraphx.op("resize", coordinate_transformation_mode="asymmetric"), IMAGE, given)
    )
    np.testing.assert_array_equal(found[0, 0], np.kron(IMAGE[0, 0], np.ones((2, 2))))


def test_instructions_have_debug_symbols():
    p = migraphx.program()
    m = p.get_main_module()
    x = m.add_parameter("x", migraphx.shape(lens=[2]))
    add = m.add_instruction(migraphx.op("add"), [x, x])
    relu = m.add_instruction(migraphx.op("relu"), [add])
    assert not m.has_debug_symbols() and relu.get_debug_symbols() == set()
    m.add_debug_symbols(relu, {"a", "b"})
    m.add_debug_symbols(relu, {"c"})
    assert relu.get_debug_symbols() == {"a", "b", "c"} and add.get_debug_symbols() == set()
    assert p.clone().get_main_module().has_debug_symbols()
    m.remove_debug_symbols(relu)
    assert not m.has_debug_symbols()
    named = m.add_instruction(migraphx.op("neg"), [relu], debug_symbols=["negated"])
    assert {i.name(): i.get_debug_symbols() for i in m if i.get_debug_symbols()} == {
        "neg": {"negated"}
    }
    m.add_return([named], debug_symbols=["end"])


@pytest.mark.parametrize("wanted", [False, True])
def test_nodes_names_are_debug_symbols_where_they_are_wanted(wanted, digits):
    m = migraphx.parse_onnx(digits, use_debug_symbols=wanted).get_main_module()
    assert m.has_debug_symbols() == wanted
    assert ("conv1" in set().union(*(i.get_debug_symbols() for i in m))) == wanted


@pytest.fixture
def digits():
    return str(Path(__file__).resolve().parents[2] / "examples" / "digits.onnx")


def summed(order, first=1.0):
    """x - 1 + y, with inputs and instructions in that order."""
    p = migraphx.program()
    m = p.get_main_module()
    inputs = {name: m.add_parameter(name, migraphx.shape(lens=[2])) for name in order}
    literal = m.add_literal(np.full(2, first, np.float32))
    if order == "yx":
        m.add_instruction(migraphx.op("neg"), [inputs["y"]])  # nothing reads it
    less = m.add_instruction(migraphx.op("sub"), [inputs["x"], literal])
    m.add_return([m.add_instruction(migraphx.op("add"), [less, inputs["y"]])])
    return p


def test_programs_that_compute_the_same_are_equal():
    assert summed("xy") == summed("yx") and summed("xy") != summed("xy", first=2.0)
    other = summed("xy")
    *_, last = other.get_main_module()
    other.get_main_module().replace_instruction(last, migraphx.op("sub"), last.inputs())
    assert other != summed("xy")


def test_programs_with_modules_are_equal_by_their_modules():
    def chosen(then, otherwise):
        p = migraphx.program()
        m = p.get_main_module()
        flag = m.add_parameter("flag", migraphx.shape(type="bool", lens=[1]))
        x = m.add_parameter("x", migraphx.shape(lens=[2]))
        bodies = [p.create_module(name) for name in ("then", "else")]
        for body, name in zip(bodies, (then, otherwise), strict=True):
            body.add_return([body.add_instruction(migraphx.op(name), [x])])
        both = m.add_instruction(migraphx.op("if"), [flag], bodies)
        m.add_return([m.add_instruction(migraphx.op("get_tuple_elem", index=0), [both])])
        return p

    assert chosen("neg", "relu") == chosen("neg", "relu")
    assert chosen("neg", "relu") != chosen("relu", "neg")


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda p, m: p.compile("cpu"), "t is 'cpu', of type str; it takes target"),
        (lambda p, m: m.add_instruction(migraphx.op("relu"), None), "args is None"),
        (lambda p, m: m.add_parameter("x", None), "shape is None"),
        (lambda p, m: migraphx.save(None, "x"), "p is None, of type NoneType; it takes program"),
        (lambda p, m: migraphx.shape(lens=["a"]), "lens is"),
        (lambda p, m: migraphx.generate_argument(None), "s is None"),
        (lambda p, m: migraphx.quantize_fp16(None), "prog is None"),
        (lambda p, m: migraphx.parse_onnx(3), "filename is 3"),
    ],
)
def test_an_argument_of_another_type_is_named(call, words):
    p = migraphx.program()
    with pytest.raises(UsageError, match=words):
        call(p, p.get_main_module())
