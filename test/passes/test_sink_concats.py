"""Pointwise work on the parts of concats: results stay, and the concat is not read for it."""

from __future__ import annotations

import numpy as np
from mlir import ir

from mgx_mlir.artifact.weights import WeightStore
from mgx_mlir.passes.fold_constants import FoldConstants
from mgx_mlir.passes.fuse_pointwise import FusePointwise
from mgx_mlir.passes.merge_pointwise import MergePointwise
from mgx_mlir.passes.sink_concats import SinkConcats
from mgx_mlir.rewriting.graph import Graph
from test.passes.graphs import check_keeps_results, parse

# Layers that each read what all before them made.
DENSE = """
func.func @main(%x: tensor<2x3x4xf32> {{mgx.name = "x"}})
    -> (tensor<2x7x4xf32> {{mgx.name = "y"}}) {{
  %s = mgx.literal "{s}" : tensor<7x1xf32>
  %k = mgx.constant dense<0.5> : tensor<2x5x4xf32>
  %a = mgx.tanh %x : tensor<2x3x4xf32>
  %b = mgx.slice %a axes = [1] starts = [0] ends = [2] : tensor<2x3x4xf32> -> tensor<2x2x4xf32>
  %c = mgx.exp %b : tensor<2x2x4xf32>
  %ac = mgx.concat %a, %c axis = 1 : tensor<2x3x4xf32>, tensor<2x2x4xf32> -> tensor<2x5x4xf32>
  %m = mgx.mul %ac, %k : tensor<2x5x4xf32>, tensor<2x5x4xf32> -> tensor<2x5x4xf32>
  %r = mgx.relu %m : tensor<2x5x4xf32>
  %v = mgx.reverse %r axes = [1] : tensor<2x5x4xf32> -> tensor<2x5x4xf32>
  %d = mgx.slice %v axes = [1] starts = [1] ends = [3] : tensor<2x5x4xf32> -> tensor<2x2x4xf32>
  %e = mgx.neg %d : tensor<2x2x4xf32>
  %ace = mgx.concat %ac, %e axis = 1 : tensor<2x5x4xf32>, tensor<2x2x4xf32> -> tensor<2x7x4xf32>
  %t = mgx.multibroadcast %s : tensor<7x1xf32> -> tensor<2x7x4xf32>
  %y = mgx.add %ace, %t : tensor<2x7x4xf32>, tensor<2x7x4xf32> -> tensor<2x7x4xf32>
  return %y : tensor<2x7x4xf32>
}}
"""


def dense() -> Graph:
    weights = WeightStore()
    array = np.random.default_rng(0).normal(size=(7, 1)).astype(np.float32)
    return parse(DENSE.format(s=weights.add_array(array)), weights)


def test_work_moves_above_concats_of_concats() -> None:
    graph = check_keeps_results(dense, [SinkConcats()])
    with graph.module.context:
        block = graph.main.operation.regions[0].blocks[0]
        for op in block.operations:
            for value in op.operation.operands if op.operation.name == "mgx.add" else ():
                assert ir.RankedTensorType(value.type).shape[1] < 7


def test_parts_are_made_with_all_that_is_read_of_them() -> None:
    steps = [SinkConcats(), FoldConstants(), FusePointwise(), MergePointwise()]
    text = str(check_keeps_results(dense, steps, again=False).module)
    # One loop for each part, as before.
    assert text.count("mgx.pointwise(") == 3
