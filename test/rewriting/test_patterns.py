"""The driver of local rewrites: order, fixed point, erasure, notes, and errors."""

from __future__ import annotations

import pytest
from mlir import ir

from mgx_mlir.dialects import context, mgx
from mgx_mlir.errors import CompilerError
from mgx_mlir.rewriting.graph import main_function
from mgx_mlir.rewriting.pass_base import PassContext
from mgx_mlir.rewriting.patterns import Pattern, PatternPass, rewrites
from mgx_mlir.rewriting.queries import blocks, definition, has_one_use

CHAIN = """
func.func @main(%x: tensor<2xf32>) -> tensor<2xf32> {
  %0 = mgx.neg %x : tensor<2xf32> loc("first")
  %1 = mgx.relu %0 : tensor<2xf32> loc("second")
  %2 = mgx.abs %1 : tensor<2xf32> loc("third")
  return %2 : tensor<2xf32>
}
"""


@rewrites(mgx.ReluOp)
def relu_as_sqrt(op: mgx.ReluOp, context: PassContext) -> ir.Value:
    return mgx.sqrt(op.x)


@rewrites(mgx.SqrtOp)
def sqrt_as_tanh(op: mgx.SqrtOp, context: PassContext) -> ir.Value:
    return mgx.tanh(op.x)


@rewrites(mgx.TanhOp)
def tanh_as_sqrt(op: mgx.TanhOp, context: PassContext) -> ir.Value:
    return mgx.sqrt(op.x)


@rewrites(mgx.AbsOp)
def drop_abs(op: mgx.AbsOp, context: PassContext) -> ir.Value:
    return op.x


@rewrites(mgx.NegOp)
def below_one_relu(op: mgx.NegOp, context: PassContext) -> ir.Value | None:
    inner = definition(op.x)
    alone = isinstance(inner, mgx.ReluOp) and has_one_use(op.x)
    return mgx.floor(inner.x) if alone else None


def rewritten(text: str, *patterns: Pattern) -> tuple[list[str], list[tuple[str, str, str]]]:
    """The names of the ops of the program after the patterns, and what was noted."""

    class Rewrites(PatternPass):
        name = "mgx-rewrites"

    Rewrites.patterns = patterns
    run = PassContext(current=Rewrites.name)
    with context(), ir.Location.unknown():
        module = ir.Module.parse(text)
        Rewrites().apply(module, run)
        module.operation.verify()
        names = [
            op.operation.name.removeprefix("mgx.")
            for block in blocks(main_function(module))
            for op in block.operations
        ]
    return names, run.fired


def test_names_a_pattern_after_its_function():
    assert relu_as_sqrt.name == "relu-as-sqrt"
    assert relu_as_sqrt.ops == (mgx.ReluOp,)


def test_rewrites_new_ops_and_notes_the_node_that_they_come_from():
    names, fired = rewritten(CHAIN, sqrt_as_tanh, relu_as_sqrt)
    assert names == ["neg", "tanh", "abs", "func.return"]
    assert fired == [
        ("mgx-rewrites", "relu-as-sqrt", "second"),
        ("mgx-rewrites", "sqrt-as-tanh", "second"),
    ]


def test_takes_the_first_pattern_that_matches():
    @rewrites(mgx.ReluOp)
    def never(op: mgx.ReluOp, context: PassContext) -> None:
        return None

    @rewrites(mgx.ReluOp, mgx.NegOp)
    def as_exp(op: mgx.ReluOp | mgx.NegOp, context: PassContext) -> ir.Value:
        return mgx.exp(op.x)

    assert rewritten(CHAIN, never, as_exp, relu_as_sqrt)[0][:2] == ["exp", "exp"]


def test_erases_what_nothing_uses_any_more():
    @rewrites(mgx.AbsOp)
    def as_constant(op: mgx.AbsOp, context: PassContext) -> ir.Value:
        return mgx.splat(0, op.result.type)

    assert rewritten(CHAIN, as_constant)[0] == ["constant", "func.return"]


def test_tries_a_user_again_when_the_operand_lost_its_other_user():
    text = """
    func.func @main(%x: tensor<2xf32>) -> (tensor<2xf32>, tensor<2xf32>) {
      %0 = mgx.relu %x : tensor<2xf32>
      %1 = mgx.neg %0 : tensor<2xf32>
      %2 = mgx.ceil %0 : tensor<2xf32>
      return %1, %2 : tensor<2xf32>, tensor<2xf32>
    }
    """

    @rewrites(mgx.CeilOp)
    def of_the_input(op: mgx.CeilOp, context: PassContext) -> ir.Value:
        return mgx.exp(definition(op.x).x)

    assert rewritten(text, below_one_relu)[0] == ["relu", "neg", "ceil", "func.return"]
    names, _ = rewritten(text, below_one_relu, of_the_input)
    assert names == ["floor", "exp", "func.return"]


def test_replaces_every_result_of_an_op():
    text = """
    func.func @main(%x: tensor<3xf32>) -> (tensor<2xf32>, tensor<2xi64>) {
      %v, %i = mgx.topk %x k = 2 axis = 0 : tensor<3xf32> -> tensor<2xf32>, tensor<2xi64>
      return %v, %i : tensor<2xf32>, tensor<2xi64>
    }
    """

    @rewrites(mgx.TopkOp)
    def as_zeros(op: mgx.TopkOp, context: PassContext) -> list[ir.Value]:
        return [mgx.splat(0, result.type) for result in op.results]

    assert rewritten(text, as_zeros)[0] == ["constant", "constant", "func.return"]


CONTROL = """
func.func @main(%c: tensor<i1>, %x: tensor<2xf32>) -> tensor<2xf32> {
  %0 = mgx.neg %x : tensor<2xf32>
  %1 = mgx.if %c : tensor<i1> -> tensor<2xf32> {
    %2 = mgx.relu %0 : tensor<2xf32>
    mgx.yield %2 : tensor<2xf32>
  } else {
    %2 = mgx.abs %x : tensor<2xf32>
    mgx.yield %2 : tensor<2xf32>
  }
  return %1 : tensor<2xf32>
}
"""


def test_enters_the_bodies_of_control_flow():
    names, _ = rewritten(CONTROL, relu_as_sqrt, drop_abs)
    assert names == ["neg", "if", "func.return", "sqrt", "yield", "yield"]


def test_forgets_the_bodies_of_control_flow_that_is_replaced():
    @rewrites(mgx.IfOp)
    def as_input(op: mgx.IfOp, context: PassContext) -> ir.Value:
        return op.operation.block.arguments[1]

    assert rewritten(CONTROL, as_input, relu_as_sqrt, drop_abs)[0] == ["func.return"]


def test_does_not_enter_fused_ops():
    text = """
    func.func @main(%x: tensor<2xf32>) -> tensor<2xf32> {
      %0 = mgx.pointwise(%x) : (tensor<2xf32>) -> tensor<2xf32> {
      ^bb0(%a: f32):
        %b = mgx.relu %a : f32
        mgx.yield %b : f32
      }
      %1 = mgx.relu %0 : tensor<2xf32>
      return %1 : tensor<2xf32>
    }
    """
    names, fired = rewritten(text, relu_as_sqrt)
    assert names == ["pointwise", "sqrt", "func.return"]
    assert len(fired) == 1


def test_patterns_that_undo_each_other_are_an_error_that_names_one():
    with pytest.raises(CompilerError, match=r"'(sqrt-as-tanh|tanh-as-sqrt)'.*node 'second'"):
        rewritten(CHAIN, relu_as_sqrt, sqrt_as_tanh, tanh_as_sqrt)


def test_a_result_that_is_the_ops_own_is_an_error_that_names_the_pattern():
    @rewrites(mgx.ReluOp)
    def keep(op: mgx.ReluOp, context: PassContext) -> ir.Value:
        return op.result

    with pytest.raises(CompilerError, match=r"'keep'.*mgx.relu of node 'second'"):
        rewritten(CHAIN, keep)


def test_an_op_that_moves_up_a_chain_takes_a_step_for_each_op():
    steps: list[str] = []

    @rewrites(mgx.AbsOp)
    def above_neg(op: mgx.AbsOp, context: PassContext) -> ir.Value | None:
        steps.append(op.operation.name)
        inner = definition(op.x)
        return mgx.neg(mgx.abs(inner.x)) if isinstance(inner, mgx.NegOp) else None

    n = 200
    lines = [f"%{i + 1} = mgx.neg %{i} : tensor<2xf32>" for i in range(n)]
    lines += [f"%{n + 1} = mgx.abs %{n} : tensor<2xf32>", f"return %{n + 1} : tensor<2xf32>"]
    text = f"func.func @main(%0: tensor<2xf32>) -> tensor<2xf32> {{\n{chr(10).join(lines)}\n}}"
    names, fired = rewritten(text, above_neg)
    assert names == ["abs", *["neg"] * n, "func.return"]
    assert len(fired) == n
    assert len(steps) <= 3 * n
