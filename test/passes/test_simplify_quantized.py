"""Contractions of quantized tensors give what they gave before, by 8-bit products."""

from __future__ import annotations

import numpy as np
import pytest

from mgx_mlir.artifact.weights import WeightStore
from mgx_mlir.passes.fold_constants import FoldConstants
from mgx_mlir.passes.fold_pad_values import FoldPadValues
from mgx_mlir.passes.simplify_quantized import SimplifyQuantized
from mgx_mlir.rewriting.graph import Graph
from test.passes.graphs import check_keeps_results, parse


def product(text: str, weights: np.ndarray, x_type: str, result: str) -> Graph:
    """A program of one input x, in which `W` stands for the weights' literal."""
    store = WeightStore()
    key = store.add_array(weights)
    shape = "x".join(map(str, weights.shape))
    element = {"int8": "i8", "uint8": "ui8"}[weights.dtype.name]
    body = text.replace("W_TYPE", f"tensor<{shape}x{element}>").replace("W_KEY", key)
    module = f"""
    func.func @main(%x: {x_type} {{mgx.name = "x"}}) -> ({result} {{mgx.name = "y"}}) {{
      %w = mgx.literal "{key}" : tensor<{shape}x{element}>
      {body}
      return %y : {result}
    }}"""
    return parse(module, store)


def dequantized(x_type: str, x_zero: int, w_shape: str, w_element: str, w_zero: int) -> str:
    floats = x_type.replace("ui8", "f32").replace("i8", "f32")
    return f"""
      %xs = mgx.constant dense<0.125> : {floats}
      %xz = mgx.constant dense<{x_zero}> : {x_type}
      %ws = mgx.multibroadcast %scales : SCALES -> tensor<{w_shape}xf32>
      %wz = mgx.constant dense<{w_zero}> : tensor<{w_shape}x{w_element}>
      %a = mgx.dequantizelinear %x scale %xs zero_point %xz
          : {x_type}, {floats}, {x_type} -> {floats}
      %b = mgx.dequantizelinear %w scale %ws zero_point %wz
          : tensor<{w_shape}x{w_element}>, tensor<{w_shape}xf32>, tensor<{w_shape}x{w_element}>
          -> tensor<{w_shape}xf32>
    """


def weights(shape: tuple[int, ...], dtype: type) -> np.ndarray:
    generator = np.random.default_rng(7)
    low, high = np.iinfo(dtype).min, np.iinfo(dtype).max
    return generator.integers(low, high + 1, shape).astype(dtype)


def count(graph: Graph, name: str) -> int:
    return str(graph.module).count(f"{name} ")


@pytest.mark.parametrize("kind", ["gpu", "cpu"])
@pytest.mark.parametrize("x_element", ["i8", "ui8"])
@pytest.mark.parametrize(("w_dtype", "w_zero"), [(np.int8, 0), (np.uint8, 128), (np.uint8, 5)])
@pytest.mark.parametrize("x_zero", [0, 9, 100])
def test_a_product_with_scales_by_column(
    x_element: str, w_dtype: type, w_zero: int, x_zero: int, kind: str
) -> None:
    w = weights((6, 5), w_dtype)
    element = "i8" if w_dtype is np.int8 else "ui8"
    x_type = f"tensor<4x6x{x_element}>"
    text = (
        "%scales = mgx.constant dense<[0.5, 0.25, 2.0, 1.0, 0.75]> : tensor<5xf32>"
        + dequantized(x_type, x_zero, "6x5", element, w_zero).replace("SCALES", "tensor<5xf32>")
        + "%y = mgx.dot %a, %b : tensor<4x6xf32>, tensor<6x5xf32> -> tensor<4x5xf32>"
    )
    after = check_keeps_results(
        lambda: product(text, w, x_type, "tensor<4x5xf32>"),
        (SimplifyQuantized(),),
        rtol=1e-4,
        kind=kind,
    )
    assert count(after, "mgx.quant_dot") == 1 and count(after, "mgx.dot") == 0
    unsigned = kind == "cpu" and x_element == "ui8" and x_zero == 0
    assert (": tensor<4x6xui8>, tensor<6x5xi8>" in str(after.module)) == unsigned


@pytest.mark.parametrize("x_element", ["i8", "ui8"])
@pytest.mark.parametrize("x_zero", [0, 17])
@pytest.mark.parametrize(
    ("pads", "strides", "dilations", "group"),
    [
        ([0, 0, 0, 0], [1, 1], [1, 1], 1),
        ([1, 1, 1, 1], [1, 1], [1, 1], 1),
        ([0, 1, 2, 1], [2, 1], [1, 2], 1),
        ([1, 1, 1, 1], [2, 2], [1, 1], 2),
    ],
)
def test_a_convolution_whose_padding_is_no_zero_point(
    x_element: str,
    x_zero: int,
    pads: list[int],
    strides: list[int],
    dilations: list[int],
    group: int,
) -> None:
    w = weights((4, 4 // group, 3, 3), np.int8)
    sizes = [(8 + pads[i] + pads[i + 2] - dilations[i] * 2 - 1) // strides[i] + 1 for i in range(2)]
    x_type, result = f"tensor<2x4x8x8x{x_element}>", f"tensor<2x4x{sizes[0]}x{sizes[1]}xf32>"
    w_shape = "x".join(map(str, w.shape))
    text = (
        "%scales = mgx.constant dense<[[[[0.5]]], [[[0.25]]], [[[2.0]]], [[[1.0]]]]>"
        " : tensor<4x1x1x1xf32>"
        + dequantized(x_type, x_zero, w_shape, "i8", 0).replace("SCALES", "tensor<4x1x1x1xf32>")
        + f"%y = mgx.convolution %a, %b pads = {pads} strides = {strides} dilations = {dilations} "
        f"{{group = {group} : i64}} : tensor<2x4x8x8xf32>, tensor<{w_shape}xf32> -> {result}"
    )
    after = check_keeps_results(
        lambda: product(text, w, x_type, result), (SimplifyQuantized(),), rtol=1e-4
    )
    assert count(after, "mgx.convolution") == 0


def test_zero_points_known_at_run_time() -> None:
    w = weights((6, 5), np.int8)
    text = """
      %first = mgx.slice %x axes = [0, 1] starts = [0, 0] ends = [1, 1]
          : tensor<4x6xui8> -> tensor<1x1xui8>
      %wide = mgx.convert %x : tensor<4x6xui8> -> tensor<4x6xi32>
      %z = mgx.convert %first : tensor<1x1xui8> -> tensor<1x1xi32>
      %zero = mgx.multibroadcast %z : tensor<1x1xi32> -> tensor<4x6xi32>
      %a = mgx.sub %wide, %zero : tensor<4x6xi32>, tensor<4x6xi32> -> tensor<4x6xi32>
      %b = mgx.convert %w : W_TYPE -> tensor<6x5xi32>
      %y = mgx.dot %a, %b : tensor<4x6xi32>, tensor<6x5xi32> -> tensor<4x5xi32>
    """
    after = check_keeps_results(
        lambda: product(text, w, "tensor<4x6xui8>", "tensor<4x5xi32>"), (SimplifyQuantized(),)
    )
    assert count(after, "mgx.quant_dot") == 1


@pytest.mark.parametrize("x_zero", [0, 9])
@pytest.mark.parametrize("w_zero", ["3", "[3, 250, 128, 0, 77]"])
def test_unsigned_weights_of_any_zero_point_add_the_sums_of_rows(x_zero: int, w_zero: str) -> None:
    w = weights((6, 5), np.uint8)
    x_type = "tensor<4x6xui8>"
    text = "%scales = mgx.constant dense<0.5> : tensor<f32>" + dequantized(
        x_type, x_zero, "6x5", "ui8", 0
    ).replace("SCALES", "tensor<f32>").replace(
        "%wz = mgx.constant dense<0> : tensor<6x5xui8>",
        f"%points = mgx.constant dense<{w_zero}> : tensor<5xui8>\n"
        "%wz = mgx.multibroadcast %points : tensor<5xui8> -> tensor<6x5xui8>",
    )
    text += "%y = mgx.dot %a, %b : tensor<4x6xf32>, tensor<6x5xf32> -> tensor<4x5xf32>"
    after = check_keeps_results(
        lambda: product(text, w, x_type, "tensor<4x5xf32>"), (SimplifyQuantized(),), rtol=1e-4
    )
    assert count(after, "mgx.quant_dot") == 1 and count(after, "mgx.dot") == 0


def test_both_operands_and_their_zero_points_known_at_run_time() -> None:
    text = """
      %s = mgx.constant dense<0.5> : tensor<2x4x4xf32>
      %z = mgx.constant dense<7> : tensor<2x4x4xui8>
      %t = mgx.transpose %x permutation = [0, 2, 1] : tensor<2x4x4xui8> -> tensor<2x4x4xui8>
      %first = mgx.slice %x axes = [0, 1, 2] starts = [0, 0, 0] ends = [2, 1, 1]
          : tensor<2x4x4xui8> -> tensor<2x1x1xui8>
      %zero = mgx.multibroadcast %first : tensor<2x1x1xui8> -> tensor<2x4x4xui8>
      %a = mgx.dequantizelinear %x scale %s zero_point %z
          : tensor<2x4x4xui8>, tensor<2x4x4xf32>, tensor<2x4x4xui8> -> tensor<2x4x4xf32>
      %b = mgx.dequantizelinear %t scale %s zero_point %zero
          : tensor<2x4x4xui8>, tensor<2x4x4xf32>, tensor<2x4x4xui8> -> tensor<2x4x4xf32>
      %y = mgx.dot %a, %b : tensor<2x4x4xf32>, tensor<2x4x4xf32> -> tensor<2x4x4xf32>
    """
    after = check_keeps_results(
        lambda: product(text, weights((1, 1), np.int8), "tensor<2x4x4xui8>", "tensor<2x4x4xf32>"),
        (SimplifyQuantized(),),
        rtol=1e-4,
    )
    assert count(after, "mgx.quant_dot") == 1 and count(after, "mgx.dot") == 0


def convolved(x_zero: int, w_zero: int, group: int, channels: int, pads: list[int]) -> str:
    """A convolution of 4 filters on an image of 8 x 8; the window has 3 x 3 pixels."""
    each = channels // group
    size = 6 + pads[0] + pads[2]
    x_type = f"tensor<2x{channels}x8x8xui8>"
    parts = dequantized(x_type, x_zero, f"4x{each}x3x3", "ui8", w_zero)
    return (
        "%scales = mgx.constant dense<0.5> : tensor<f32>"
        + parts.replace("SCALES", "tensor<f32>")
        + f"%y = mgx.convolution %a, %b pads = {pads} strides = [1, 1] dilations = [1, 1] "
        f"{{group = {group} : i64}} : tensor<2x{channels}x8x8xf32>, tensor<4x{each}x3x3xf32> "
        f"-> tensor<2x4x{size}x{size}xf32>"
    )


@pytest.mark.parametrize("pads", [[0, 0, 0, 0], [1, 1, 1, 1]])
@pytest.mark.parametrize(("group", "channels"), [(1, 3), (2, 4), (4, 4)])
def test_a_convolution_whose_weights_have_a_zero_point(
    group: int, channels: int, pads: list[int]
) -> None:
    w, size = weights((4, channels // group, 3, 3), np.uint8), 6 + 2 * pads[0]
    text = convolved(9, 100, group, channels, pads)
    types = f"tensor<2x{channels}x8x8xui8>", f"tensor<2x4x{size}x{size}xf32>"
    after = check_keeps_results(lambda: product(text, w, *types), (SimplifyQuantized(),), rtol=1e-4)
    assert count(after, "mgx.convolution") == 0
    depthwise = f"tensor<2x{channels}x8x8xi32>, tensor<4x{channels // group}x3x3xi32>"
    assert (depthwise in str(after.module)) == (group == 4)


def test_windows_of_one_pixel_read_padding_too() -> None:
    """Strides and padding leave an image's size as it was, but not its pixels."""
    x, y = "tensor<1x3x3x3xui8>", "tensor<1x4x3x3xf32>"
    parts = dequantized(x, 9, "4x3x1x1", "ui8", 100).replace("SCALES", "tensor<f32>")
    text = (
        f"%scales = mgx.constant dense<0.5> : tensor<f32>{parts}"
        "%y = mgx.convolution %a, %b pads = [1, 1, 1, 1] strides = [2, 2] dilations = [1, 1] "
        f": tensor<1x3x3x3xf32>, tensor<4x3x1x1xf32> -> {y}"
    )
    w = weights((4, 3, 1, 1), np.uint8)
    check_keeps_results(lambda: product(text, w, x, y), (SimplifyQuantized(),), rtol=1e-4)


@pytest.mark.parametrize(("group", "w_zero"), [(1, 128), (1, 100), (2, 128)])
def test_an_image_is_padded_with_its_zero_point(group: int, w_zero: int) -> None:
    w = weights((4, 4 // group, 3, 3), np.uint8)
    text = convolved(9, w_zero, group, 4, [1, 1, 1, 1])
    after = check_keeps_results(
        lambda: product(text, w, "tensor<2x4x8x8xui8>", "tensor<2x4x8x8xf32>"),
        (SimplifyQuantized(), FoldPadValues()),
        rtol=1e-4,
    )
    assert count(after, "mgx.pad") == 0 and count(after, "mgx.convolution") == 0
    assert "pad_value = -119" in str(after.module)


def test_many_zero_points_and_wide_weights_that_are_stored() -> None:
    """Weights are widened, and a stored vector of zeros is subtracted, before the product."""
    zeros = np.zeros(96, np.int8)
    store = WeightStore()
    key = store.add_array(zeros)

    def graph() -> Graph:
        text = f"""
          %z = mgx.literal "{key}" : tensor<96xi8>
          %wide = mgx.convert %z : tensor<96xi8> -> tensor<96xi32>
          %zero = mgx.multibroadcast %wide : tensor<96xi32> -> tensor<6x96xi32>
          %i = mgx.convert %w : W_TYPE -> tensor<6x96xi32>
          %b = mgx.sub %i, %zero : tensor<6x96xi32>, tensor<6x96xi32> -> tensor<6x96xi32>
          %a = mgx.convert %x : tensor<4x6xi8> -> tensor<4x6xi32>
          %y = mgx.dot %a, %b : tensor<4x6xi32>, tensor<6x96xi32> -> tensor<4x96xi32>
        """
        made = product(text, weights((6, 96), np.int8), "tensor<4x6xi8>", "tensor<4x96xi32>")
        made.weights.add_array(zeros)
        return made

    after = check_keeps_results(graph, (FoldConstants(keep_quantized=True), SimplifyQuantized()))
    assert count(after, "mgx.quant_dot") == 1 and count(after, "mgx.reduce_sum") == 0
    assert "tensor<6x96xi32>" not in str(after.module)


def test_numbers_with_the_least_zero_point_lose_their_sign_on_cpus() -> None:
    """Behind a ReLU this is the zero point of i8; then no border of a convolution is corrected."""
    w = weights((4, 2, 3, 3), np.int8)
    image, floats = "tensor<1x2x8x8xi8>", "tensor<1x2x8x8xf32>"
    text = f"""
      %xs = mgx.constant dense<0.125> : {floats}
      %xz = mgx.constant dense<-128> : {image}
      %ws = mgx.constant dense<0.5> : tensor<4x2x3x3xf32>
      %q = mgx.quantizelinear %x scale %xs zero_point %xz : {floats}, {floats}, {image} -> {image}
      %a = mgx.dequantizelinear %q scale %xs zero_point %xz : {image}, {floats}, {image} -> {floats}
      %b = mgx.dequantizelinear %w scale %ws
          : tensor<4x2x3x3xi8>, tensor<4x2x3x3xf32> -> tensor<4x2x3x3xf32>
      %y = mgx.convolution %a, %b pads = [1, 1, 1, 1] strides = [1, 1] dilations = [1, 1]
          : {floats}, tensor<4x2x3x3xf32> -> tensor<1x4x8x8xf32>
    """
    after = check_keeps_results(
        lambda: product(text, w, floats, "tensor<1x4x8x8xf32>"),
        (SimplifyQuantized(),),
        rtol=1e-4,
        kind="cpu",
    )
    assert count(after, "mgx.quant_convolution") == 1 and count(after, "mgx.sub") == 0
    assert ": tensor<1x2x8x8xui8>, tensor<4x2x3x3xi8>" in str(after.module)
