"""Ops that become one never depend on each other, and an order that cannot be is an error."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest
from mlir import ir

from mgx_mlir.errors import CompilerError
from mgx_mlir.passes.fuse_pointwise import FusePointwise
from mgx_mlir.passes.fuse_reduce import FuseReduce
from mgx_mlir.passes.merge_pointwise import MergePointwise
from mgx_mlir.passes.yield_products import YieldProducts
from mgx_mlir.rewriting.topology import sort_topologically
from test.passes.graphs import check_keeps_results, parse

T, F = "tensor<4x4xf32>", "tensor<4x1xf32>"
# %p and %q become one op, which then reads %y as %m does; %m depends on that op by way of %t.
MERGED = f"""
func.func @main(%x: {T} {{mgx.name = "x"}}, %y: {T} {{mgx.name = "y"}})
    -> ({T} {{mgx.name = "a"}}, {T} {{mgx.name = "b"}}, {T} {{mgx.name = "c"}}) {{
  %p = mgx.relu %x : {T}
  %t = mgx.transpose %p permutation = [1, 0] : {T} -> {T}
  %m = mgx.mul %t, %y : {T}, {T} -> {T}
  %q = mgx.sub %x, %y : {T}, {T} -> {T}
  return %p, %m, %q : {T}, {T}, {T}
}}
"""
# The same through reductions of one tensor, which become one op as well.
REDUCED = f"""
func.func @main(%x: {T} {{mgx.name = "x"}}, %y: {T} {{mgx.name = "y"}})
    -> ({F} {{mgx.name = "a"}}, {F} {{mgx.name = "b"}}, {F} {{mgx.name = "c"}},
        {F} {{mgx.name = "d"}}) {{
  %p = mgx.reduce_sum %x axes = [1] : {T} -> {F}
  %t = mgx.multibroadcast %p : {F} -> {T}
  %u = mgx.transpose %t permutation = [1, 0] : {T} -> {T}
  %m = mgx.add %u, %y : {T}, {T} -> {T}
  %n = mgx.reduce_max %m axes = [1] : {T} -> {F}
  %q = mgx.reduce_max %x axes = [1] : {T} -> {F}
  %r = mgx.reduce_sum %y axes = [1] : {T} -> {F}
  %z = mgx.add %x, %y : {T}, {T} -> {T}
  %s = mgx.reduce_sum %z axes = [1] : {T} -> {F}
  %e = mgx.add %q, %r : {F}, {F} -> {F}
  return %p, %n, %e, %s : {F}, {F}, {F}, {F}
}}
"""


@pytest.mark.parametrize("text", [MERGED, REDUCED], ids=["merged", "reduced"])
def test_keeps_apart_what_depends_on_a_part(text):
    steps = [FuseReduce(), FusePointwise(), MergePointwise(), YieldProducts()]
    check_keeps_results(lambda: parse(text), steps, again=False)


def test_a_cycle_is_an_error():
    """Ops that read each other's results, sorted in a process of its own, which has to end."""
    command = [sys.executable, "-m", "test.passes.test_cycles"]
    result = subprocess.run(command, capture_output=True, text=True, timeout=120, env=os.environ)
    assert result.returncode == 0, result.stderr
    assert result.stdout == "an op would depend on its own result\n" * 2


def _make_cycles() -> None:
    for readers in ({"relu": "neg", "neg": "relu"}, {"abs": "abs"}):
        graph = parse(
            f'func.func @main(%x: {T} {{mgx.name = "x"}}) -> ({T} {{mgx.name = "y"}}) {{\n'
            f"  %a = mgx.relu %x : {T}\n  %b = mgx.abs %a : {T}\n  %c = mgx.neg %b : {T}\n"
            f"  return %c : {T}\n}}"
        )
        with graph.module.context, ir.Location.unknown():
            block = graph.main.regions[0].blocks[0]
            ops = {op.operation.name.removeprefix("mgx."): op for op in block.operations}
            for reader, source in readers.items():
                ops[reader].operation.operands[0] = ops[source].operation.results[0]
            try:
                sort_topologically(block)
            except CompilerError as error:
                print(str(error).rpartition(": ")[2])


if __name__ == "__main__":
    _make_cycles()
