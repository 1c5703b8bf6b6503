"""The shapes that inference gives, against numpy's."""

import numpy as np
import pytest
from mlir import ir

from mgx_mlir.dialects import context, mgx
from mgx_mlir.dialects.types import element_type, tensor_type


@pytest.fixture(autouse=True)
def _module():
    with context(), ir.Location.unknown():
        module = ir.Module.create()
        with ir.InsertionPoint(module.body):
            yield


def _value(*shape: int, dtype: str = "float32") -> ir.Value:
    return mgx.literal("x", tensor_type(shape, element_type(dtype)))


def _shape(value: ir.Value) -> tuple[int, ...]:
    return tuple(value.type.shape)


UNARY = """abs acos acosh asin asinh atan atanh ceil contiguous cos cosh elu erf exp floor identity
leaky_relu log log1p log2 nearbyint neg recip relu rsqrt sigmoid sign sin sinh sqrt tan
tanh""".split()
BINARY = "add div fmod max min mod mul pow prelu sqdiff sub".split()


@pytest.mark.parametrize("name", UNARY)
def test_unary_keeps_the_type(name):
    x = _value(2, 3)
    assert getattr(mgx, name)(x).type == x.type


@pytest.mark.parametrize("name", BINARY)
def test_binary_keeps_the_type(name):
    x = _value(2, 3)
    assert getattr(mgx, name)(x, x).type == x.type


@pytest.mark.parametrize("name", ["equal", "greater", "less"])
def test_comparisons_are_bool(name):
    x = _value(2, 3)
    assert str(getattr(mgx, name)(x, x).type) == "tensor<2x3xi1>"


@pytest.mark.parametrize("name", ["isinf", "isnan"])
def test_predicates_are_bool(name):
    assert str(getattr(mgx, name)(_value(2, 3)).type) == "tensor<2x3xi1>"


@pytest.mark.parametrize(
    "name",
    ["bitwise_and", "bitwise_or", "bitwise_xor", "shift_left", "shift_right"],
)
def test_bit_operations_keep_the_type(name):
    x = _value(2, 3, dtype="uint8")
    assert getattr(mgx, name)(x, x).type == x.type


@pytest.mark.parametrize("name", ["logical_and", "logical_or", "logical_xor"])
def test_logical_operations_keep_the_type(name):
    x = _value(2, 3, dtype="bool")
    assert getattr(mgx, name)(x, x).type == mgx.not_(x).type == x.type


def test_where_and_clip_have_the_type_of_their_values():
    x = _value(2, 3)
    assert mgx.where(_value(2, 3, dtype="bool"), x, x).type == mgx.clip(x, x, x).type == x.type


@pytest.mark.parametrize("axes", [[0], [1, 2], [-1], []])
@pytest.mark.parametrize("name", ["sum", "mean", "max", "min", "prod"])
def test_reductions_keep_dimensions(name, axes):
    expected = np.sum(np.empty((2, 3, 4)), axis=tuple(axes), keepdims=True).shape
    assert _shape(getattr(mgx, f"reduce_{name}")(_value(2, 3, 4), axes)) == expected


@pytest.mark.parametrize("name", ["any", "all"])
def test_logical_reductions_keep_dimensions(name):
    made = getattr(mgx, f"reduce_{name}")(_value(2, 3, dtype="bool"), [1])
    assert str(made.type) == "tensor<2x1xi1>"


@pytest.mark.parametrize("name", ["argmax", "argmin"])
def test_arg_is_an_index_along_the_axis(name):
    assert str(getattr(mgx, name)(_value(2, 3, 4), axis=-2).type) == "tensor<2x1x4xi64>"


@pytest.mark.parametrize("name", ["softmax", "logsoftmax", "prefix_scan_prod", "prefix_scan_sum"])
def test_rows_keep_the_type(name):
    x = _value(2, 3)
    assert getattr(mgx, name)(x, axis=-1).type == x.type


def test_topk_has_values_and_indices():
    values, indices = mgx.topk(_value(2, 9), 3)
    assert str(values.type) == "tensor<2x3xf32>" and str(indices.type) == "tensor<2x3xi64>"


VIEWS = [
    ((2, 3, 4), lambda x: mgx.reshape(x, [6, -1]), lambda x: x.reshape(6, -1)),
    ((3, 1), lambda x: mgx.multibroadcast(x, [2, 3, 4]), lambda x: np.broadcast_to(x, (2, 3, 4))),
    ((2, 3, 4), mgx.transpose, np.transpose),
    ((2, 3, 4), lambda x: mgx.transpose(x, [1, 2, 0]), lambda x: x.transpose(1, 2, 0)),
    ((1, 3, 1), mgx.squeeze, np.squeeze),
    ((1, 3, 1), lambda x: mgx.squeeze(x, [-1]), lambda x: x.squeeze(-1)),
    ((2, 3), lambda x: mgx.unsqueeze(x, [0, -1]), lambda x: np.expand_dims(x, (0, -1))),
    ((2, 3), lambda x: mgx.reverse(x, [-1]), lambda x: np.flip(x, -1)),
    ((2, 3, 4), lambda x: mgx.flatten(x, 1), lambda x: x.reshape(2, 12)),
    ((2, 3, 4), lambda x: mgx.flatten(x, 0), lambda x: x.reshape(1, 24)),
    ((2, 3, 4), lambda x: mgx.flatten(x, 3), lambda x: x.reshape(24, 1)),
    ((5, 6), lambda x: mgx.slice(x, [1, 0], [2, 0], [5, 4]), lambda x: x[0:4, 2:5]),
    ((5, 7), lambda x: mgx.step(x, [0, 1], [2, 3]), lambda x: x[::2, ::3]),
    ((2, 3), lambda x: mgx.pad(x, [0, 1], [2, 3]), lambda x: np.pad(x, [(0, 2), (1, 3)])),
    ((2, 3), lambda x: mgx.concat([x, x, x], -1), lambda x: np.concatenate([x, x, x], -1)),
    ((2, 3, 4), lambda x: mgx.layout(x, [0, 2, 1]), lambda x: x),
]


@pytest.mark.parametrize(("shape", "build", "reference"), VIEWS)
def test_moves_elements_as_numpy_does(shape, build, reference):
    assert _shape(build(_value(*shape))) == reference(np.empty(shape)).shape


def test_broadcast_places_dimensions_at_the_axis():
    assert _shape(mgx.broadcast(_value(3), [2, 3, 4], 1)) == (2, 3, 4)
    assert _shape(mgx.broadcast(_value(4), [2, 3, 4], -1)) == (2, 3, 4)


@pytest.mark.parametrize(("axis", "indices"), [(0, (2, 3)), (1, ()), (-1, (5,))])
def test_gather_is_take(axis, indices):
    expected = np.take(np.empty((4, 5, 6)), np.zeros(indices, int), axis).shape
    assert _shape(mgx.gather(_value(4, 5, 6), _value(*indices, dtype="int64"), axis)) == expected


def test_gather_elements_is_take_along_axis():
    indices = _value(2, 5, dtype="int32")
    assert _shape(mgx.gather_elements(_value(4, 5), indices, 0)) == (2, 5)


@pytest.mark.parametrize(
    ("indices", "batch_dims", "expected"),
    [((7, 2), 0, (7, 6)), ((7, 3), 0, (7,)), ((4, 3, 1), 1, (4, 3, 6)), ((1,), 0, (5, 6))],
)
def test_gathernd(indices, batch_dims, expected):
    made = mgx.gathernd(_value(4, 5, 6), _value(*indices, dtype="int64"), batch_dims=batch_dims)
    assert _shape(made) == expected


@pytest.mark.parametrize("how", ["none", "add", "mul", "min", "max"])
def test_scatter_has_the_type_of_x(how):
    x, indices = _value(4, 5), _value(2, 5, dtype="int64")
    assert getattr(mgx, f"scatter_{how}")(x, indices, _value(2, 5), -2).type == x.type
    tuples = _value(3, 1, dtype="int64")
    assert getattr(mgx, f"scatternd_{how}")(x, tuples, _value(3, 5)).type == x.type


def test_nonzero_has_a_column_for_each_element_found():
    assert str(mgx.nonzero(_value(2, 3, 4)).type) == "tensor<3x?xi64>"


def test_resize_has_the_shape_stated():
    made = mgx.resize(_value(1, 3, 4, 4), [1, 3, 8, 6], mode="linear")
    assert _shape(made) == (1, 3, 8, 6)
    assert list(made.owner.attributes["scales"]) == [1.0, 1.0, 2.0, 1.5]


def _conv_size(size, kernel, before, after, stride, dilation):
    """The number of windows, counted one by one."""
    extent = dilation * (kernel - 1) + 1
    return len(range(0, size + before + after - extent + 1, stride))


@pytest.mark.parametrize("size", [7, 8, 9, 16])
@pytest.mark.parametrize("kernel", [1, 2, 3])
@pytest.mark.parametrize("pads", [(0, 0), (1, 1), (0, 2)])
@pytest.mark.parametrize("stride", [1, 2, 3])
@pytest.mark.parametrize("dilation", [1, 2])
def test_convolution_and_pooling_count_windows(size, kernel, pads, stride, dilation):
    count = _conv_size(size, kernel, *pads, stride, dilation)
    x, w = _value(2, 4, size), _value(6, 2, kernel)
    window = {"pads": list(pads), "strides": stride, "dilations": dilation}
    assert _shape(mgx.convolution(x, w, **window, group=2)) == (2, 6, count)
    assert _shape(mgx.pooling(x, "max", kernel, **window)) == (2, 4, count)
    if size + sum(pads) == dilation * (kernel - 1) + 1 + (count - 1) * stride:
        back = mgx.convolution_backwards(
            _value(2, 6, count), _value(6, 2, kernel), **window, group=2
        )
        assert _shape(back) == (2, 4, size)


@pytest.mark.parametrize("size", range(4, 12))
@pytest.mark.parametrize("pads", [(0, 0), (1, 1), (0, 2)])
@pytest.mark.parametrize("stride", [2, 3])
def test_ceil_mode_takes_a_last_window_that_starts_inside(size, pads, stride):
    kernel = 3
    before, after = pads
    starts = [s for s in range(0, size + before, stride) if s + kernel <= size + before + after]
    following = starts[-1] + stride
    ends_short = starts[-1] + kernel < size + before + after
    count = len(starts) + (ends_short and following < size + before)
    made = mgx.pooling(_value(1, 1, size), "average", kernel, list(pads), stride, ceil_mode=True)
    assert _shape(made) == (1, 1, count)


def test_convolution_of_more_dimensions():
    made = mgx.convolution(_value(1, 3, 8, 9, 10), _value(4, 3, 3, 2, 1), pads=1, strides=[1, 2, 3])
    assert _shape(made) == (1, 4, 8, 5, 4)


@pytest.mark.parametrize(("a", "b"), [((3, 4), (4, 5)), ((2, 3, 4), (2, 4, 5))])
def test_dot_is_matmul(a, b):
    expected = np.matmul(np.empty(a), np.empty(b)).shape
    assert _shape(mgx.dot(_value(*a), _value(*b))) == expected


@pytest.mark.parametrize(("dtype", "result"), [("int8", "i32"), ("float8_e4m3fn", "f32")])
def test_quantized_products_are_summed_in_32_bits(dtype, result):
    dot = mgx.quant_dot(_value(3, 4, dtype=dtype), _value(4, 5, dtype=dtype))
    assert str(dot.type) == f"tensor<3x5x{result}>"
    x, w = _value(1, 3, 8, 8, dtype=dtype), _value(4, 3, 3, 3, dtype=dtype)
    assert str(mgx.quant_convolution(x, w).type) == f"tensor<1x4x6x6x{result}>"


def test_quantization_takes_its_element_types_from_the_operands():
    x, scale = _value(2, 3), _value(2, 3)
    assert str(mgx.quantizelinear(x, scale).type) == "tensor<2x3xui8>"
    assert str(mgx.quantizelinear(x, scale, _value(2, 3, dtype="int8")).type) == "tensor<2x3xi8>"
    assert str(mgx.dequantizelinear(_value(2, 3, dtype="int8"), scale).type) == "tensor<2x3xf32>"


def test_convert_and_bit_cast_change_elements_only():
    assert str(mgx.convert(_value(2, 3), "float16").type) == "tensor<2x3xf16>"
    assert str(mgx.bit_cast(_value(2, 3), "int32").type) == "tensor<2x3xi32>"


def test_sizes_are_a_tensor():
    assert str(mgx.dimensions_of(_value(2, 3, 4), 1, 3).type) == "tensor<2xi64>"


def test_shapes_at_run_time():
    dims = _value(2, dtype="int64")
    assert str(mgx.reshape_to(_value(6), dims, [None, 3]).type) == "tensor<?x3xf32>"
    assert str(mgx.broadcast_with_dims(_value(6), dims, [None, 6]).type) == "tensor<?x6xf32>"


def test_lrn_keeps_the_type():
    x = _value(1, 8, 4, 4)
    assert mgx.lrn(x, 5).type == x.type
