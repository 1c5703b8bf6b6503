"""Rotary embeddings as exporters write them: results stay, and each is one kernel."""

from __future__ import annotations

import pytest

from mgx_mlir.passes.rewrite_rotations import RewriteRotations
from mgx_mlir.pipelines.phases import PIPELINES
from test.passes.graphs import check_keeps_results, parse

X, HALF = "tensor<1x7x3x8xf32>", "tensor<1x7x3x4xf32>"
ROTATED = """
func.func @main(%x: {X} {{mgx.name = "x"}}, %cos: {T} {{mgx.name = "c"}},
    %sin: {T} {{mgx.name = "s"}}) -> ({X} {{mgx.name = "y"}}) {{
  %a = mgx.slice %x axes = [3] starts = [0] ends = [4] : {X} -> {HALF}
  %b = mgx.slice %x axes = [3] starts = [4] ends = [8] : {X} -> {HALF}
  %n = mgx.neg %b : {HALF}
  %r = mgx.concat %n, %a axis = 3 : {HALF}, {HALF} -> {X}
  %c = mgx.multibroadcast %cos : {T} -> {X}
  %s = mgx.multibroadcast %sin : {T} -> {X}
  %p = mgx.mul %x, %c : {X}, {X} -> {X}
  %q = mgx.mul %r, %s : {X}, {X} -> {X}
  %y = mgx.add %p, %q : {X}, {X} -> {X}
  return %y : {X}
}}"""


@pytest.mark.parametrize("table", ["tensor<8xf32>", "tensor<1x7x1x8xf32>", "tensor<1x7x3x1xf32>"])
def test_signs_go_to_the_other_factor(table: str) -> None:
    text = ROTATED.format(X=X, HALF=HALF, T=table)
    after = str(check_keeps_results(lambda: parse(text), [RewriteRotations()]).module)
    assert "mgx.concat" not in after and "mgx.reverse" in after


def test_a_rotation_is_one_kernel_of_its_tensor() -> None:
    text = ROTATED.format(X=X, HALF=HALF, T="tensor<1x7x1x8xf32>")
    steps = [step for pipeline in PIPELINES.values() for step in pipeline.passes]
    after = str(check_keeps_results(lambda: parse(text), steps, again=False).module)
    # The sines with their signs, which a model's weights have from compile time on.
    assert after.count("mgx.launch @") == 2 and "concat" not in after


def test_halves_that_are_rotated_one_by_one_are_one_kernel() -> None:
    text = f"""
func.func @main(%x: {X} {{mgx.name = "x"}}, %c: {HALF} {{mgx.name = "c"}},
    %s: {HALF} {{mgx.name = "s"}}) -> ({X} {{mgx.name = "y"}}) {{
  %a = mgx.slice %x axes = [3] starts = [0] ends = [4] : {X} -> {HALF}
  %b = mgx.slice %x axes = [3] starts = [4] ends = [8] : {X} -> {HALF}
  %d = mgx.mul %a, %c : {HALF}, {HALF} -> {HALF}
  %e = mgx.mul %b, %s : {HALF}, {HALF} -> {HALF}
  %f = mgx.sub %d, %e : {HALF}, {HALF} -> {HALF}
  %g = mgx.mul %a, %s : {HALF}, {HALF} -> {HALF}
  %h = mgx.mul %b, %c : {HALF}, {HALF} -> {HALF}
  %i = mgx.add %g, %h : {HALF}, {HALF} -> {HALF}
  %y = mgx.concat %f, %i axis = 3 : {HALF}, {HALF} -> {X}
  return %y : {X}
}}"""
    steps = [step for pipeline in PIPELINES.values() for step in pipeline.passes]
    after = str(check_keeps_results(lambda: parse(text), steps, again=False).module)
    assert after.count("mgx.launch @") == 1 and "concat" not in after
