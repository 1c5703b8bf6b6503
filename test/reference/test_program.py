"""Whole programs: launches, regions, control flow, weights, observers."""

import ml_dtypes
import numpy as np
import pytest
from mlir import ir

from mgx_mlir.dialects import context
from mgx_mlir.errors import UnsupportedError, UsageError
from mgx_mlir.reference import evaluate, evaluate_op

LAUNCHES = """
mgx.kernel @double(%a: tensor<2x3xf32>) -> tensor<2x3xf32>
    attributes {arch = #mgx.arch<"gfxMIGX">} {
  %b = mgx.pointwise(%a) : (tensor<2x3xf32>) -> tensor<2x3xf32> {
  ^bb0(%x: f32):
    %two = mgx.constant 2.0 : f32
    %y = mgx.mul %x, %two : f32, f32 -> f32
    mgx.yield %y : f32
  }
  mgx.return %b : tensor<2x3xf32>
}
func.func @main(%x: tensor<2x3xf32> {mgx.name = "x"}) -> (tensor<2x1xf32> {mgx.name = "y"}) {
  %w = mgx.literal "w" : tensor<2x3xf32>
  %d = mgx.launch @double(%x) : (tensor<2x3xf32>) -> tensor<2x3xf32>
  %s = mgx.add %d, %w : tensor<2x3xf32>, tensor<2x3xf32> -> tensor<2x3xf32>
  %r = mgx.fused_reduce(%s) axes = [1] : (tensor<2x3xf32>) -> tensor<2x1xf32> {
  ^bb0(%a: tensor<2x3xf32>):
    %t = mgx.reduce_sum %a axes = [1] : tensor<2x3xf32> -> tensor<2x1xf32>
    mgx.yield %t : tensor<2x1xf32>
  }
  return %r : tensor<2x1xf32>
}
"""

LOOP = """
func.func @main(%n: tensor<i64> {mgx.name = "n"}, %x: tensor<2xf32> {mgx.name = "x"})
    -> (tensor<2xf32> {mgx.name = "last"}, tensor<?x2xf32> {mgx.name = "all"}) {
  %go = mgx.constant dense<true> : tensor<i1>
  %big = mgx.constant dense<100.0> : tensor<2xf32>
  %y, %ys = mgx.loop %n, %go init(%x) : tensor<i64>, tensor<i1>, (tensor<2xf32>)
      -> tensor<2xf32>, tensor<?x2xf32> {
  ^bb0(%i: tensor<i64>, %c: tensor<i1>, %v: tensor<2xf32>):
    %d = mgx.add %v, %v : tensor<2xf32>, tensor<2xf32> -> tensor<2xf32>
    %l = mgx.less %d, %big : tensor<2xf32>, tensor<2xf32> -> tensor<2xi1>
    %a = mgx.reduce_all %l axes = [0] : tensor<2xi1> -> tensor<1xi1>
    %k = mgx.squeeze %a axes = [0] : tensor<1xi1> -> tensor<i1>
    mgx.yield %k, %d, %v : tensor<i1>, tensor<2xf32>, tensor<2xf32>
  }
  return %y, %ys : tensor<2xf32>, tensor<?x2xf32>
}
"""

BRANCH = """
func.func @main(%c: tensor<i1> {mgx.name = "c"}, %x: tensor<2xf32> {mgx.name = "x"})
    -> (tensor<2xf32> {mgx.name = "y"}) {
  %r = mgx.if %c : tensor<i1> -> tensor<2xf32> {
    %n = mgx.neg %x : tensor<2xf32>
    mgx.yield %n : tensor<2xf32>
  } else {
    mgx.yield %x : tensor<2xf32>
  }
  return %r : tensor<2xf32>
}
"""


def test_launches_and_regions_run_their_bodies() -> None:
    x, w = np.arange(6, dtype=np.float32).reshape(2, 3), np.ones((2, 3), np.float32)
    seen = []
    with context() as ctx:
        module = ir.Module.parse(LAUNCHES, ctx)
        outputs = evaluate(
            module, {"w": w}, {"x": x}, observe=lambda op, arrays: seen.append(op.operation.name)
        )
    np.testing.assert_array_equal(outputs["y"], (2 * x + w).sum(1, keepdims=True))
    assert seen == ["mgx.literal", "mgx.launch", "mgx.add", "mgx.fused_reduce"]


def test_a_loop_ends_by_its_condition_or_its_count() -> None:
    with context() as ctx:
        module = ir.Module.parse(LOOP, ctx)
        x = np.array([1, 2], np.float32)
        three = evaluate(module, {}, {"n": np.array(3), "x": x})
        most = evaluate(module, {}, {"n": np.array(99), "x": x})
        none = evaluate(module, {}, {"n": np.array(0), "x": x})
    np.testing.assert_array_equal(three["last"], x * 8)
    np.testing.assert_array_equal(three["all"], [x, x * 2, x * 4])
    np.testing.assert_array_equal(most["last"], x * 64)
    assert none["all"].shape == (0, 2)


def test_a_branch_sees_the_values_around_it() -> None:
    x = np.array([1, 2], np.float32)
    with context() as ctx:
        module = ir.Module.parse(BRANCH, ctx)
        assert evaluate(module, {}, {"c": np.array(True), "x": x})["y"][0] == -1
        assert evaluate(module, {}, {"c": np.array(False), "x": x})["y"][0] == 1


def test_inputs_that_do_not_fit_are_refused() -> None:
    with context() as ctx:
        module = ir.Module.parse(BRANCH, ctx)
        with pytest.raises(UsageError, match="no array for the input 'x'"):
            evaluate(module, {}, {"c": np.array(True)})
        with pytest.raises(UsageError, match="float64"):
            evaluate(module, {}, {"c": np.array(True), "x": np.zeros(2)})


def op_of(text: str, ctx: ir.Context) -> tuple[ir.Module, ir.OpView]:
    module = ir.Module.parse(text, ctx)
    return module, module.body.operations[0].regions[0].blocks[0].operations[0]


def test_sums_can_be_kept_in_f64() -> None:
    text = """func.func @f(%x: tensor<1x3xf32>) {
      %y = mgx.reduce_sum %x axes = [1] : tensor<1x3xf32> -> tensor<1x1xf32>
      return
    }"""
    x = np.array([[1e8, 1, -1e8]], np.float32)
    with context() as ctx:
        _module, op = op_of(text, ctx)
        assert evaluate_op(op, [x])[0] != 1
        assert evaluate_op(op, [x], accumulate=np.float64)[0] == 1


def test_one_pointwise_op_takes_operands_of_any_shape() -> None:
    text = """func.func @f(%x: tensor<4xbf16>) {
      %y = mgx.add %x, %x : tensor<4xbf16>, tensor<4xbf16> -> tensor<4xbf16>
      return
    }"""
    scalar = np.array(1.5, ml_dtypes.bfloat16)
    with context() as ctx:
        _module, op = op_of(text, ctx)
        (result,) = evaluate_op(op, [scalar, scalar])
    assert result.shape == () and result.dtype == ml_dtypes.bfloat16 and result == 3


def test_an_unknown_op_is_refused_by_name() -> None:
    text = """func.func @f(%x: tensor<4xf32>) {
      return
    }"""
    with context() as ctx:
        _module, op = op_of(text, ctx)
        with pytest.raises(UnsupportedError, match=r"func\.return"):
            evaluate_op(op, [])
