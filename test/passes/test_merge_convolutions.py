"""Merged convolutions give what the two gave, for all kinds of channels and groups."""

from __future__ import annotations

import numpy as np
import pytest

from mgx_mlir.artifact.weights import WeightStore
from mgx_mlir.passes.merge_convolutions import MergeConvolutions
from mgx_mlir.rewriting.graph import Graph
from test.passes.graphs import check_keeps_results, parse


def pair(
    channels: tuple[int, int, int],
    groups: tuple[int, int],
    kernels: tuple[int, int],
    pads: tuple[int, int],
    strides: tuple[int, int],
    bias: bool,
) -> Graph:
    """Two convolutions of a 9x9 image, one of its sizes after another."""
    store, generator = WeightStore(), np.random.default_rng(3)
    size, lines, name = 9, [], "%x"
    last = f"tensor<2x{channels[0]}x9x9xf32>"
    for i, (kernel, group) in enumerate(zip(kernels, groups, strict=True)):
        shape = (channels[i + 1], channels[i] // group, kernel, kernel)
        key = store.add_array(generator.uniform(-1, 1, shape).astype(np.float32))
        w_type = f"tensor<{'x'.join(map(str, shape))}xf32>"
        size = (size + 2 * pads[i] - kernel) // strides[i] + 1
        result = f"tensor<2x{channels[i + 1]}x{size}x{size}xf32>"
        lines.append(f'%w{i} = mgx.literal "{key}" : {w_type}')
        lines.append(
            f"%c{i} = mgx.convolution {name}, %w{i} pads = {[pads[i]] * 4} "
            f"strides = {[strides[i]] * 2} dilations = [1, 1] {{group = {group} : i64}} "
            f": {last}, {w_type} -> {result}"
        )
        name, last = f"%c{i}", result
        if bias and i == 0:
            shape = (1, channels[1], 1, 1)
            key = store.add_array(generator.uniform(-1, 1, shape).astype(np.float32))
            b_type = f"tensor<1x{channels[1]}x1x1xf32>"
            lines.append(f'%b = mgx.literal "{key}" : {b_type}')
            lines.append(f"%bb = mgx.multibroadcast %b : {b_type} -> {result}")
            lines.append(f"%s = mgx.add %c0, %bb : {result}, {result} -> {result}")
            name = "%s"
    body = "\n".join(lines)
    return parse(
        f"""
        func.func @main(%x: tensor<2x{channels[0]}x9x9xf32> {{mgx.name = "x"}})
            -> ({last} {{mgx.name = "y"}}) {{
          {body}
          return {name} : {last}
        }}""",
        store,
    )


@pytest.mark.parametrize("bias", [False, True])
@pytest.mark.parametrize(
    ("channels", "groups", "kernels", "pads", "strides", "merges"),
    [
        ((2, 8, 3), (1, 1), (3, 1), (1, 0), (1, 1), True),
        ((2, 8, 3), (1, 1), (3, 1), (0, 0), (2, 2), True),
        ((4, 8, 6), (2, 2), (3, 1), (1, 0), (1, 1), True),
        ((2, 8, 2), (2, 1), (3, 1), (1, 0), (1, 1), True),
        ((2, 8, 2), (1, 2), (3, 1), (1, 0), (1, 1), True),
        ((8, 8, 8), (8, 1), (3, 1), (1, 0), (1, 1), False),
        ((4, 8, 4), (1, 1), (1, 3), (0, 0), (1, 2), True),
        ((8, 2, 8), (1, 1), (1, 3), (0, 0), (1, 1), False),
        ((4, 8, 4), (1, 1), (1, 3), (0, 0), (2, 1), False),
        ((4, 8, 4), (1, 1), (3, 1), (1, 1), (1, 1), False),
    ],
)
def test_results_stay(
    channels: tuple[int, int, int],
    groups: tuple[int, int],
    kernels: tuple[int, int],
    pads: tuple[int, int],
    strides: tuple[int, int],
    merges: bool,
    bias: bool,
) -> None:
    after = check_keeps_results(
        lambda: pair(channels, groups, kernels, pads, strides, bias),
        (MergeConvolutions(),),
        rtol=1e-4,
    )
    assert str(after.module).count("mgx.convolution ") == (1 if merges else 2)


@pytest.mark.parametrize(("bias", "count"), [(False, 1), (True, 2)])
def test_a_bias_does_not_pass_below_padding(bias: bool, count: int) -> None:
    after = check_keeps_results(
        lambda: pair((4, 8, 4), (1, 1), (1, 3), (0, 1), (1, 1), bias),
        (MergeConvolutions(),),
        rtol=1e-4,
    )
    assert str(after.module).count("mgx.convolution ") == count
