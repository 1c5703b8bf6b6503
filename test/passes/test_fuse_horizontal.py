"""Contractions side by side: results stay, and one contraction is left."""

from __future__ import annotations

import numpy as np
import pytest

from mgx_mlir.artifact.weights import WeightStore
from mgx_mlir.passes.fold_constants import FoldConstants
from mgx_mlir.passes.fuse_horizontal import FuseHorizontal
from mgx_mlir.rewriting.graph import Graph
from test.passes.graphs import check_keeps_results, parse

DOTS = """
func.func @main(%x: tensor<8x4xf32> {{mgx.name = "x"}})
    -> (tensor<6x1xf32> {{mgx.name = "p"}}, tensor<8x1xf32> {{mgx.name = "q"}}) {{
  %v = mgx.literal "{v}" : tensor<4x6xf32>
  %w = mgx.literal "{w}" : tensor<4x2xf32>
  %b = mgx.literal "{b}" : tensor<6xf32>
  %c = mgx.constant dense<2.0> : tensor<8x2xf32>
  %bb = mgx.multibroadcast %b : tensor<6xf32> -> tensor<8x6xf32>
  %d = mgx.dot %x, %v : tensor<8x4xf32>, tensor<4x6xf32> -> tensor<8x6xf32>
  %e = mgx.dot %x, %w : tensor<8x4xf32>, tensor<4x2xf32> -> tensor<8x2xf32>
  %f = mgx.add %d, %bb : tensor<8x6xf32>, tensor<8x6xf32> -> tensor<8x6xf32>
  %g = mgx.add %e, %c : tensor<8x2xf32>, tensor<8x2xf32> -> tensor<8x2xf32>
  %h = mgx.relu %f : tensor<8x6xf32>
  %i = mgx.relu %g : tensor<8x2xf32>
  %t = mgx.transpose %h permutation = [1, 0] : tensor<8x6xf32> -> tensor<6x8xf32>
  %p = mgx.reduce_sum %t axes = [1] : tensor<6x8xf32> -> tensor<6x1xf32>
  %q = mgx.reduce_max %i axes = [1] : tensor<8x2xf32> -> tensor<8x1xf32>
  return %p, %q : tensor<6x1xf32>, tensor<8x1xf32>
}}
"""
CONVOLUTIONS = """
func.func @main(%x: tensor<2x3x4x4xf32> {{mgx.name = "x"}})
    -> (tensor<2x5x1x1xf32> {{mgx.name = "p"}}, tensor<2x2x1x1xf32> {{mgx.name = "q"}}) {{
  %v = mgx.literal "{v}" : tensor<5x3x3x3xf32>
  %w = mgx.literal "{w}" : tensor<2x3x3x3xf32>
  %d = mgx.convolution %x, %v pads = [1, 1, 1, 1] strides = [1, 1] dilations = [1, 1]
    : tensor<2x3x4x4xf32>, tensor<5x3x3x3xf32> -> tensor<2x5x4x4xf32>
  %e = mgx.convolution %x, %w pads = [1, 1, 1, 1] strides = [1, 1] dilations = [1, 1]
    : tensor<2x3x4x4xf32>, tensor<2x3x3x3xf32> -> tensor<2x2x4x4xf32>
  %p = mgx.reduce_sum %d axes = [2, 3] : tensor<2x5x4x4xf32> -> tensor<2x5x1x1xf32>
  %q = mgx.reduce_sum %e axes = [2, 3] : tensor<2x2x4x4xf32> -> tensor<2x2x1x1xf32>
  return %p, %q : tensor<2x5x1x1xf32>, tensor<2x2x1x1xf32>
}}
"""


def make(text: str, shapes: dict[str, tuple[int, ...]]) -> Graph:
    generator, weights = np.random.default_rng(0), WeightStore()
    keys = {
        name: weights.add_array(generator.normal(size=shape).astype(np.float32))
        for name, shape in shapes.items()
    }
    return parse(text.format(**keys), weights)


@pytest.mark.parametrize(
    ("text", "shapes", "op"),
    [
        (DOTS, {"v": (4, 6), "w": (4, 2), "b": (6,)}, "mgx.dot"),
        (CONVOLUTIONS, {"v": (5, 3, 3, 3), "w": (2, 3, 3, 3)}, "mgx.convolution"),
    ],
)
def test_one_contraction_is_left(text: str, shapes: dict[str, tuple[int, ...]], op: str) -> None:
    check_keeps_results(lambda: make(text, shapes), [FuseHorizontal()])
    steps = [FuseHorizontal(), FoldConstants()]
    graph = check_keeps_results(lambda: make(text, shapes), steps, again=False)
    assert str(graph.module).count(f"{op} ") == 1


def test_large_weights_stay_apart() -> None:
    shapes = {"v": (4, 6), "w": (4, 2), "b": (6,)}
    graph = check_keeps_results(lambda: make(DOTS, shapes), [FuseHorizontal(max_bytes=64)])
    assert str(graph.module).count("mgx.dot ") == 2
