"""Pooling on the host against the reference."""

from __future__ import annotations

import numpy as np
import pytest
from cpu_kernels import HostKernel, kernel_text, tensor


def pooling(
    mode: str,
    x: tuple[int, ...],
    window: int,
    stride: int,
    pads: int = 0,
    dilation: int = 1,
    attributes: str = "",
    element: str = "f32",
    ceil: bool = False,
) -> str:
    spatial = len(x) - 2
    outputs = []
    for size in x[2:]:
        room = size + 2 * pads - dilation * (window - 1) - 1
        out = (-(-room // stride) if ceil else room // stride) + 1
        if ceil and (out - 1) * stride >= size + pads:
            out -= 1
        outputs.append(out)
    source, result = tensor(x, element), tensor((*x[:2], *outputs), element)
    body = (
        f"%y = mgx.pooling {mode} %x lengths = {[window] * spatial} pads = {[pads] * 2 * spatial} "
        f"strides = {[stride] * spatial} dilations = {[dilation] * spatial} {attributes} "
        f": {source} -> {result}"
    )
    return kernel_text(f"%x: {source}", result, body, "%y")


@pytest.mark.parametrize("mode", ["max", "average"])
@pytest.mark.parametrize("pads", [0, 1])
@pytest.mark.parametrize("stride", [1, 2, 3])
@pytest.mark.parametrize("size", [9, 20, 45])
def test_windows(size, stride, pads, mode):
    HostKernel(pooling(mode, (2, 3, size, size), 3, stride, pads)).check()


@pytest.mark.parametrize("mode", ["max", "average"])
@pytest.mark.parametrize("shape", [(2, 5, 70), (1, 3, 8, 9, 10)], ids=["1d", "3d"])
def test_one_and_three_dimensions(shape, mode):
    HostKernel(pooling(mode, shape, 3, 2, 1)).check()


def test_average_that_counts_padding():
    text = pooling("average", (1, 4, 20, 20), 3, 2, 1, attributes="{count_include_pad = true}")
    HostKernel(text).check()


@pytest.mark.parametrize("mode", ["max", "average"])
@pytest.mark.parametrize("element", ["f32", "f16"])
@pytest.mark.parametrize("stride", [1, 3])
def test_one_line_between_lines_of_padding(stride: int, element: str, mode: str) -> None:
    HostKernel(pooling(mode, (1, 16, 1, 31), 3, stride, 1, element=element)).check()


@pytest.mark.parametrize("mode", ["max", "average"])
@pytest.mark.parametrize(("size", "dilation"), [(24, 1), (6, 3)])
def test_windows_that_reach_behind_the_image(size: int, dilation: int, mode: str) -> None:
    how = {"dilation": dilation, "attributes": "{ceil_mode = true}", "ceil": True}
    HostKernel(pooling(mode, (1, 4, size, size), 3, 2, **how)).check()


@pytest.mark.parametrize("element", ["f32", "f16", "i8"])
@pytest.mark.parametrize("window", [16, 17, 20])
def test_the_largest_of_more_elements_than_a_sum_has(window: int, element: str) -> None:
    HostKernel(pooling("max", (1, 3, 44, 47), window, 2, 3, element=element)).check()


def test_dilated_maximum():
    HostKernel(pooling("max", (1, 4, 30, 30), 3, 1, 2, dilation=2)).check()


def test_norm():
    HostKernel(pooling("lpnorm", (1, 4, 20, 20), 2, 2)).check()


@pytest.mark.parametrize("element", ["f16", "bf16", "f64", "i8"])
def test_element_types(element):
    HostKernel(pooling("max", (1, 4, 20, 20), 3, 2, 1, element=element)).check()


def test_nan_wins_and_infinity_stays():
    kernel = HostKernel(pooling("max", (1, 1, 20, 20), 3, 1, 1))
    x = np.full((1, 1, 20, 20), -np.inf, np.float32)
    x[0, 0, 7, 7] = np.nan
    kernel.check(x)


@pytest.mark.parametrize("mode", ["max", "average"])
@pytest.mark.parametrize("width", [20, 45])
def test_work_on_the_results_is_done_in_the_kernel(mode: str, width: int) -> None:
    x, image, bias = (tensor(s, "f32") for s in ((2, 3, 20, width), (2, 3, 20, width), (3, 1, 1)))
    body = f"""
      %p = mgx.pooling {mode} %x lengths = [3, 3] pads = [1, 1, 1, 1] strides = [1, 1]
          dilations = [1, 1] : {x} -> {image}
      %v = mgx.multibroadcast %b : {bias} -> {image}
      %y = mgx.pointwise(%p, %r, %v) : ({image}, {image}, {image}) -> {image} {{
      ^bb0(%k: f32, %m: f32, %n: f32):
        %s = mgx.add %k, %m : f32, f32 -> f32
        %t = mgx.mul %s, %n : f32, f32 -> f32
        mgx.yield %t : f32
      }}"""
    arguments = f"%x: {x}, %r: {image}, %b: {bias}"
    kernel = HostKernel(kernel_text(arguments, image, body, "%y"))
    kernel.check()
