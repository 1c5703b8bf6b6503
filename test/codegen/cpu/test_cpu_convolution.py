"""Convolutions on the host against the reference."""

from __future__ import annotations

import pytest
from cpu_kernels import HostKernel, kernel_text, tensor

from mgx_mlir.artifact.target import Target
from mgx_mlir.codegen.cpu import schedule


def convolution(
    x: tuple[int, ...],
    w: tuple[int, ...],
    pads: int = 0,
    stride: int = 1,
    dilation: int = 1,
    group: int = 1,
    element: str = "f32",
) -> str:
    spatial = len(x) - 2
    outputs = [
        (size + 2 * pads - dilation * (k - 1) - 1) // stride + 1
        for size, k in zip(x[2:], w[2:], strict=True)
    ]
    result = "i32" if element in ("i8", "ui8") else element
    op = "mgx.quant_convolution" if result == "i32" else "mgx.convolution"
    types = tensor(x, element), tensor(w, element), tensor((x[0], w[0], *outputs), result)
    body = (
        f"%y = {op} %x, %w pads = {[pads] * 2 * spatial} strides = {[stride] * spatial} "
        f"dilations = {[dilation] * spatial} {{group = {group} : i64}} "
        f": {types[0]}, {types[1]} -> {types[2]}"
    )
    return kernel_text(f"%x: {types[0]}, %w: {types[1]}", types[2], body, "%y")


@pytest.mark.parametrize("stride", [1, 2, 3])
@pytest.mark.parametrize("pads", [0, 1, 2])
@pytest.mark.parametrize("size", [7, 20, 33])
def test_strides_and_pads(size, pads, stride):
    HostKernel(convolution((1, 5, size, size), (6, 5, 3, 3), pads, stride)).check()


@pytest.mark.parametrize(
    ("x", "w"),
    [((2, 4, 37), (6, 4, 3)), ((1, 2, 400), (5, 2, 9)), ((2, 3, 6, 7, 9), (4, 3, 3, 1, 2))],
    ids=["1d", "long 1d", "3d"],
)
@pytest.mark.parametrize("stride", [1, 2])
def test_one_and_three_dimensions(x, w, stride):
    HostKernel(convolution(x, w, 1, stride)).check()


def test_rows_wider_than_a_block():
    HostKernel(convolution((1, 2, 3, 600), (5, 2, 3, 3), 1)).check()


def test_dilation():
    HostKernel(convolution((1, 3, 15, 15), (4, 3, 3, 3), 2, 1, dilation=2)).check()


def test_pointwise_kernel_is_a_matrix_product():
    HostKernel(convolution((2, 20, 9, 9), (30, 20, 1, 1))).check()


def test_one_output_from_the_whole_image():
    HostKernel(convolution((2, 6, 5, 5), (40, 6, 5, 5))).check()


def test_one_pixel_of_one_image():
    HostKernel(convolution((1, 4, 1), (16, 4, 3), 1)).check()


@pytest.mark.parametrize("stride", [1, 2, 3])
@pytest.mark.parametrize("kernel", [1, 3, 5])
def test_depthwise(kernel, stride):
    HostKernel(
        convolution((2, 7, 19, 19), (7, 1, kernel, kernel), kernel // 2, stride, group=7)
    ).check()


def test_depthwise_with_dilation_and_two_outputs_each():
    HostKernel(convolution((1, 6, 20, 20), (12, 1, 3, 3), 2, 1, 2, group=6)).check()


@pytest.mark.parametrize("element", ["f32", "f16"])
@pytest.mark.parametrize(("channels", "filters"), [(32, 2), (5, 3), (17, 4)])
def test_few_filters_of_each_channel_go_by_lines(channels, filters, element):
    """Vectors of the filters of a channel would be nearly empty."""
    w = channels * filters, 1, 3, 3
    kernel = HostKernel(convolution((2, channels, 15, 18), w, 1, group=channels, element=element))
    assert kernel.code.why.startswith("lines")
    kernel.check(rtol=1e-4 if element == "f32" else 1e-2, atol=1e-5 if element == "f32" else 1e-2)


@pytest.mark.parametrize("element", ["f32", "f16", "f64"])
@pytest.mark.parametrize(("groups", "channels"), [(32, 4), (5, 4), (9, 2), (3, 8)])
def test_groups_of_few_channels_go_by_lines(groups, channels, element):
    """Vectors of the filters of a group would be nearly empty."""
    w = groups * channels, channels, 3, 3
    image = 2, groups * channels, 15, 32
    kernel = HostKernel(convolution(image, w, 1, 2, group=groups, element=element))
    assert kernel.code.why.startswith("lines")
    kernel.check(rtol=1e-2 if element == "f16" else 1e-4, atol=1e-2 if element == "f16" else 1e-5)


def test_narrow_images_have_tiles_as_high_as_windows_in_place_may_be():
    """Tiles of three vectors, of which two filters fill two, would go vector by vector."""
    text = convolution((1, 3, 40, 40), (32, 3, 3, 3), 1, 2)
    assert "register tiles 12x32" in HostKernel(text, Target.get("x86-64-v4")).code.why


def test_depthwise_along_one_dimension():
    for size in (5, 31):
        kernel = HostKernel(convolution((1, 8, 70), (8, 1, size), size // 2, group=8))
        kernel.check()
        assert "lines" in kernel.code.why


@pytest.mark.parametrize("group", [2, 4])
def test_groups(group):
    HostKernel(convolution((2, 8, 11, 11), (24, 8 // group, 3, 3), 1, group=group)).check()


@pytest.mark.parametrize(("element", "tolerance"), [("f64", 1e-9), ("f16", 1e-2), ("bf16", 8e-2)])
@pytest.mark.parametrize("stride", [1, 2, 3])
def test_element_types(element, tolerance, stride):
    text = convolution((1, 4, 12, 12), (5, 4, 3, 3), 1, stride, element=element)
    HostKernel(text).check(rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("element", ["i8", "ui8"])
def test_quantized_convolution(element):
    HostKernel(convolution((1, 4, 12, 12), (5, 4, 3, 3), 1, 2, element=element)).check()


@pytest.mark.parametrize("stride", [1, 2, 3])
@pytest.mark.parametrize("pads", [0, 1])
@pytest.mark.parametrize(("channels", "group"), [(5, 1), (32, 1), (8, 2)])
def test_quantized_windows(channels, group, pads, stride):
    text = convolution(
        (2, channels, 20, 33), (6, channels // group, 3, 3), pads, stride, 1, group, "i8"
    )
    HostKernel(text).check()


def test_epilogue_with_a_bias_for_each_channel_and_a_residual():
    x, w, y = tensor((2, 6, 9, 9)), tensor((8, 3, 3, 3)), tensor((2, 8, 9, 9))
    body = (
        "%c = mgx.convolution %x, %w pads = [1, 1, 1, 1] strides = [1, 1] dilations = [1, 1] "
        f"{{group = 2 : i64}} : {x}, {w} -> {y}\n"
        f"%v = mgx.broadcast %bias axis = 1 : {tensor((8,))} -> {y}\n"
        f"%r = mgx.pointwise(%v, %c, %s) : ({y}, {y}, {y}) -> {y} {{\n"
        "^bb0(%p: f32, %q: f32, %t: f32):\n"
        "%m = mgx.add %p, %q : f32, f32 -> f32\n%n = mgx.sub %t, %m : f32, f32 -> f32\n"
        "%o = mgx.relu %n : f32\nmgx.yield %o : f32\n}"
    )
    arguments = f"%x: {x}, %w: {w}, %bias: {tensor((8,))}, %s: {y}"
    HostKernel(kernel_text(arguments, y, body, "%r")).check()


def test_image_read_through_a_transpose():
    stored, x, w, y = (
        tensor((1, 10, 12, 5)),
        tensor((1, 5, 10, 12)),
        tensor((7, 5, 3, 3)),
        tensor((1, 7, 8, 10)),
    )
    body = (
        f"%x = mgx.transpose %s permutation = [0, 3, 1, 2] : {stored} -> {x}\n"
        "%y = mgx.convolution %x, %w pads = [0, 0, 0, 0] strides = [1, 1] dilations = [1, 1] "
        f": {x}, {w} -> {y}"
    )
    HostKernel(kernel_text(f"%s: {stored}, %w: {w}", y, body, "%y")).check()


@pytest.mark.parametrize(("count", "group"), [(1, 1), (2, 1), (1, 2)], ids=str)
def test_windows_packed_once_for_many_rows(count, group, monkeypatch):
    monkeypatch.setattr(schedule, "SHARE_FROM", 0.0)
    text = convolution((count, 64 * group, 10, 10), (300 * group, 64, 3, 3), 1, group=group)
    kernel = HostKernel(text)
    (packing,) = [launch for launch in kernel.code.launches if launch.kept]
    assert kernel.code.scratch_bytes
    assert packing.grid[0] > 1
    kernel.check(atol=1e-3)


@pytest.mark.parametrize(
    ("x", "w", "pads", "group"),
    [
        ((2, 7, 9, 12), (20, 1, 1, 12), 0, 1),
        ((2, 7, 9, 12), (8, 3, 3, 12), 1, 1),
        ((1, 6, 6, 8), (16, 3, 3, 4), 1, 2),
        ((1, 6, 6, 8), (16, 1, 1, 4), 0, 2),
        ((2, 9, 8, 6), (6, 3, 3, 1), 1, 6),
    ],
    ids=["1x1", "3x3", "grouped", "grouped 1x1", "depthwise"],
)
def test_channels_last(x, w, pads, group):
    outputs = [size + 2 * pads - k + 1 for size, k in zip(x[1:3], w[1:3], strict=True)]
    types = tensor(x, "f32"), tensor(w, "f32"), tensor((x[0], *outputs, w[0]), "f32")
    body = (
        f"%y = mgx.convolution %x, %w pads = {[pads] * 4} strides = [1, 1] dilations = [1, 1] "
        f"{{channels_last, group = {group} : i64}} : {types[0]}, {types[1]} -> {types[2]}"
    )
    HostKernel(kernel_text(f"%x: {types[0]}, %w: {types[1]}", types[2], body, "%y")).check()


@pytest.mark.parametrize("last", [False, True])
@pytest.mark.parametrize(
    ("image", "window", "stride"),
    [((2, 8, 6, 7), 3, 1), ((1, 5, 9, 4), 3, 2), ((2, 16, 5, 5), 1, 1), ((1, 24, 1, 1), 1, 1)],
)
def test_pixels_that_are_computed_are_zero_beyond_the_edges(image, window, stride, last):
    """Their operand is zero there, and gives 1."""
    count, channels, *sizes = image
    pad = window // 2
    outputs = [(size + 2 * pad - window) // stride + 1 for size in sizes]

    def laid(channels, sizes):
        return (count, *sizes, channels) if last else (count, channels, *sizes)

    w = (6, window, window, channels) if last else (6, channels, window, window)
    scale = (1, 1, 1, channels) if last else (1, channels, 1, 1)
    x, w, s = (tensor(shape, "f32") for shape in (laid(channels, sizes), w, scale))
    y = tensor(laid(6, outputs), "f32")
    body = f"""%b = mgx.multibroadcast %s : {s} -> {x}
%f = mgx.pointwise(%x, %b) : ({x}, {x}) -> {x} {{
^bb0(%p: f32, %q: f32):
  %m = mgx.mul %p, %q : f32, f32 -> f32
  %e = mgx.exp %m : f32
  mgx.yield %e : f32
}}
%y = mgx.convolution %f, %w pads = {[pad] * 4} strides = {[stride] * 2} dilations = [1, 1] \
{{{"channels_last, " if last else ""}group = 1 : i64}} : {x}, {w} -> {y}"""
    HostKernel(kernel_text(f"%x: {x}, %w: {w}, %s: {s}", y, body, "%y")).check()


@pytest.mark.parametrize(("filters", "group"), [(1, 1), (8, 1), (16, 16)], ids=str)
def test_padding_of_bytes_with_channels_first(filters, group):
    """The image is copied with channels last; the number around it is that of the convolution."""
    x, w = tensor((2, 16, 4, 17), "i8"), tensor((filters, 16 // group, 2, 5), "i8")
    y = tensor((2, filters, 3, 6), "i32")
    body = (
        "%y = mgx.quant_convolution %x, %w pads = [0, 2, 0, 0] strides = [1, 2] dilations = [1, 2] "
        f"{{pad_value = -7 : i64, group = {group} : i64}} : {x}, {w} -> {y}"
    )
    HostKernel(kernel_text(f"%x: {x}, %w: {w}", y, body, "%y")).check()
