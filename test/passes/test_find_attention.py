"""Attention in the forms that exporters write it: one op is left, with the same results."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import numpy as np
import pytest
from onnx import ModelProto

from mgx_mlir.artifact.weights import WeightStore
from mgx_mlir.compiler import CompileOptions, Report, import_model, optimize
from mgx_mlir.passes.find_attention import FindAttention
from mgx_mlir.pipelines.planning import build_plan
from mgx_mlir.rewriting.graph import Graph
from test.onnx_models import bert, gpt2, vit
from test.passes.graphs import check_keeps_results, parse

Q, S = "tensor<2x3x5x4xf32>", "tensor<2x3x5x5xf32>"
LOW = "%l = mgx.constant dense<-3.40282347E+38> : " + S


def attention(scores: str, arguments: str = "", weights: WeightStore | None = None) -> Graph:
    """A program whose scores %s the lines in `scores` turn into %u."""
    return parse(source(scores, arguments), weights)


def source(scores: str, arguments: str = "") -> str:
    """The program of `attention` as text."""
    return f"""
func.func @main(%q: {Q} {{mgx.name = "q"}}, %k: {Q} {{mgx.name = "k"}},
    %v: {Q} {{mgx.name = "v"}}{arguments}) -> ({Q} {{mgx.name = "y"}}) {{
  %t = mgx.transpose %k permutation = [0, 1, 3, 2] : {Q} -> tensor<2x3x4x5xf32>
  %s = mgx.dot %q, %t : {Q}, tensor<2x3x4x5xf32> -> {S}
  {scores}
  %p = mgx.softmax %u axis = 3 : {S}
  %y = mgx.dot %p, %v : {S}, {Q} -> {Q}
  return %y : {Q}
}}"""


def masked(mask: np.ndarray, op: str) -> Graph:
    weights = WeightStore()
    element = "i1" if mask.dtype == np.bool_ else "f32"
    kept = f"tensor<{'x'.join(map(str, mask.shape))}x{element}>"
    lines = f"""%w = mgx.literal "{weights.add_array(mask)}" : {kept}
  %m = mgx.multibroadcast %w : {kept} -> tensor<2x3x5x5x{element}>
  {LOW}
  {op}"""
    return attention(lines, weights=weights)


WHERE = f"%u = mgx.where %m, %s, %l : tensor<2x3x5x5xi1>, {S}, {S} -> {S}"
ADD = f"%u = mgx.add %m, %s : {S}, {S} -> {S}"
TRIL = np.tril(np.ones((5, 5), bool))


def found(graph: Graph) -> str:
    after = check_keeps_results(lambda: graph, [FindAttention()], again=False)
    text = str(after.module)
    assert text.count("mgx.attention") == 1
    assert "mgx.softmax" not in text and "mgx.dot" not in text
    return text


@pytest.mark.parametrize(
    ("scores", "arguments"),
    [
        (f"%c = mgx.constant dense<2.0> : {S}\n%u = mgx.div %s, %c : {S}, {S} -> {S}", ""),
        (f"%u = mgx.add %s, %b : {S}, {S} -> {S}", f', %b: {S} {{mgx.name = "b"}}'),
        (
            f"%c = mgx.constant dense<9.0> : {S}\n%d = mgx.div %s, %c : {S}, {S} -> {S}\n"
            f"%h = mgx.tanh %d : {S}\n%u = mgx.mul %h, %c : {S}, {S} -> {S}",
            "",
        ),
        (
            "%g = mgx.isinf %b : tensor<5x5xf32> -> tensor<5x5xi1>\n"
            "%n = mgx.not %g : tensor<5x5xi1>\n"
            f"%m = mgx.multibroadcast %n : tensor<5x5xi1> -> tensor<2x3x5x5xi1>\n{LOW}\n{WHERE}",
            ', %b: tensor<5x5xf32> {mgx.name = "b"}',
        ),
        (
            f"%m = mgx.multibroadcast %b : tensor<1x3x5x5xf32> -> {S}\n"
            f"%n = mgx.multibroadcast %c : tensor<2x1x1x5xf32> -> {S}\n"
            f"%d = mgx.add %m, %n : {S}, {S} -> {S}\n%u = mgx.add %s, %d : {S}, {S} -> {S}",
            ', %b: tensor<1x3x5x5xf32> {mgx.name = "b"}, %c: tensor<2x1x1x5xf32> {mgx.name = "c"}',
        ),
    ],
    ids=["scaled", "bias", "capped", "mask", "T5"],
)
def test_pointwise_work_on_scores_goes_into_the_body(scores: str, arguments: str) -> None:
    assert "causal" not in found(attention(scores, arguments))


@pytest.mark.parametrize(
    ("mask", "op"),
    [
        (TRIL, WHERE),
        (TRIL[None, None], WHERE),
        (np.where(TRIL, 0, np.finfo(np.float32).min).astype(np.float32), ADD),
        (np.where(TRIL, 0, -np.inf).astype(np.float32), ADD),
    ],
    ids=["where", "where of rank 4", "add", "add of infinity"],
)
def test_constant_masks_of_later_keys_become_causal(mask: np.ndarray, op: str) -> None:
    text = found(masked(mask, op))
    assert "causal = 0" in text and "extras" not in text


@pytest.mark.parametrize(
    ("mask", "attributes"),
    [
        (np.triu(TRIL + True), "{earliest = 0 : i64}"),
        (TRIL & ~np.tril(TRIL, -2), "{causal = 0 : i64, earliest = -1 : i64}"),
        (np.tril(TRIL + True, 2) & np.triu(TRIL + True, -1), "{causal = 2 : i64, earliest = -1"),
    ],
    ids=["upper", "window", "both sides"],
)
def test_constant_masks_of_neighbours_become_a_window(mask: np.ndarray, attributes: str) -> None:
    text = found(masked(mask, WHERE))
    assert attributes in text and "extras" not in text


@pytest.mark.parametrize(
    "mask",
    [
        np.tril(TRIL, -1) | (np.arange(5) == 0),
        TRIL & (np.arange(5) != 2),
        np.triu(TRIL + True, 2) | (np.arange(5) == 4),
    ],
    ids=["shifted", "holes", "bent"],
)
def test_other_constant_masks_stay_masks(mask: np.ndarray) -> None:
    text = found(masked(mask, WHERE))
    assert "causal" not in text and "earliest" not in text and "extras" in text


def test_penalties_that_leave_a_share_stay() -> None:
    mask = np.where(TRIL, 0, -100).astype(np.float32)
    assert "causal" not in found(masked(mask, ADD))


PADDED = f"""%w = mgx.literal "{{0}}" : tensor<5x5xi1>
  %wb = mgx.multibroadcast %w : tensor<5x5xi1> -> tensor<2x1x5x5xi1>
  %pb = mgx.multibroadcast %p0 : tensor<2x1x1x5xi1> -> tensor<2x1x5x5xi1>
  %j = mgx.logical_and %pb, %wb : tensor<2x1x5x5xi1>, tensor<2x1x5x5xi1> -> tensor<2x1x5x5xi1>
  %m = mgx.multibroadcast %j : tensor<2x1x5x5xi1> -> tensor<2x3x5x5xi1>
  {LOW}
  {WHERE}"""
INFINITE = PADDED.replace("-3.40282347E+38", "0xFF800000")
PADDING = ', %p0: tensor<2x1x1x5xi1> {mgx.name = "p"}'


def test_a_window_leaves_a_mask_that_it_is_joined_with() -> None:
    weights = WeightStore()
    key = weights.add_array(TRIL & ~np.tril(TRIL, -2))
    text = found(attention(INFINITE.format(key), PADDING, weights))
    assert "{causal = 0 : i64, earliest = -1 : i64}" in text
    assert "logical_and" not in text and "tensor<2x1x1x5xi1> -> tensor<2x3x5x5xi1>" in text


def test_a_query_whose_keys_are_hidden_by_finite_numbers_sees_all_alike() -> None:
    weights = WeightStore()
    key = weights.add_array(TRIL)
    assert "causal" not in found(attention(PADDED.format(key), PADDING, weights))


def test_a_mask_that_others_read_is_made_for_them() -> None:
    weights = WeightStore()
    key = weights.add_array(TRIL)
    text = source(INFINITE.format(key), PADDING)
    text = text.replace(f"return %y : {Q}", f"return %y, %j : {Q}, tensor<2x1x5x5xi1>")
    text = text.replace(
        '{mgx.name = "y"})', '{mgx.name = "y"}, tensor<2x1x5x5xi1> {mgx.name = "z"})'
    )
    after = found(parse(text, weights))
    assert "logical_and" in after and "causal" in after


def test_work_on_a_mask_is_done_with_the_scores_and_rounded_as_before() -> None:
    """ONNX Attention: no bool of the mask leaves the kernel."""
    S16, M = S.replace("f32", "f16"), "tensor<2x1x5x5xf32>"
    text = f"""
func.func @main(%q: {Q} {{mgx.name = "q"}}, %k: tensor<2x3x4x5xf32> {{mgx.name = "k"}},
    %m: tensor<2x1x5x5xi1> {{mgx.name = "m"}}) -> ({Q} {{mgx.name = "y"}}) {{
  %z = mgx.constant dense<0.0> : {M}
  %l = mgx.constant dense<-1.0e+30> : {M}
  %i = mgx.constant dense<0xFC00> : tensor<2x1x5x1xf16>
  %o = mgx.constant dense<0.0> : {S}
  %w = mgx.where %m, %z, %l : tensor<2x1x5x5xi1>, {M}, {M} -> {M}
  %n = mgx.convert %w : {M} -> tensor<2x1x5x5xf16>
  %s = mgx.dot %q, %k : {Q}, tensor<2x3x4x5xf32> -> {S}
  %b = mgx.multibroadcast %n : tensor<2x1x5x5xf16> -> {S16}
  %f = mgx.convert %b : {S16} -> {S}
  %u = mgx.add %s, %f : {S}, {S} -> {S}
  %p = mgx.softmax %u axis = 3 : {S}
  %r = mgx.reduce_max %n axes = [3] : tensor<2x1x5x5xf16> -> tensor<2x1x5x1xf16>
  %e = mgx.equal %r, %i : tensor<2x1x5x1xf16>, tensor<2x1x5x1xf16> -> tensor<2x1x5x1xi1>
  %g = mgx.multibroadcast %e : tensor<2x1x5x1xi1> -> tensor<2x3x5x5xi1>
  %x = mgx.where %g, %o, %p : tensor<2x3x5x5xi1>, {S}, {S} -> {S}
  %y = mgx.dot %x, %q : {S}, {Q} -> {Q}
  return %y : {Q}
}}"""
    after = found(parse(text))
    assert "empty_as_zero" in after and "reduce_max" not in after
    assert ": f32 -> f16" in after
    assert "tensor<2x3x5x5xi1>) ->" in after


def test_a_second_product_in_the_scores_is_an_extra() -> None:
    more = f', %r: {S} {{mgx.name = "r"}}'
    scores = f"%d = mgx.dot %r, %r : {S}, {S} -> {S}\n%u = mgx.add %s, %d : {S}, {S} -> {S}"
    after = check_keeps_results(lambda: attention(scores, more), [FindAttention()])
    assert str(after.module).count("mgx.attention") == 1
    assert str(after.module).count("mgx.dot") == 1


SAFE = f"""%n = mgx.isnan %p : {S} -> tensor<2x3x5x5xi1>
  %o = mgx.constant dense<0.0> : {S}
  %w = mgx.where %n, %o, %p : tensor<2x3x5x5xi1>, {S}, {S} -> {S}
  %y = mgx.dot %w"""


@pytest.mark.parametrize("zero", ["0.0", "1.0"])
def test_shares_that_are_nan_become_zero(zero: str) -> None:
    scores = f"%u = mgx.add %s, %b : {S}, {S} -> {S}"
    text = source(scores, f', %b: {S} {{mgx.name = "b"}}')
    text = text.replace("%y = mgx.dot %p", SAFE.replace("0.0", zero))
    if zero == "0.0":
        assert "nan_as_zero" in found(parse(text))
    else:
        after = check_keeps_results(lambda: parse(text), [FindAttention()])
        assert "mgx.attention" not in str(after.module)


def test_narrow_shares_that_are_nan_become_zero_too() -> None:
    Q16, S16 = Q.replace("f32", "f16"), S.replace("f32", "f16")
    text = f"""
func.func @main(%q: {Q16} {{mgx.name = "q"}}, %k: tensor<2x3x4x5xf16> {{mgx.name = "k"}},
    %b: {S} {{mgx.name = "b"}}) -> ({Q16} {{mgx.name = "y"}}) {{
  %o = mgx.constant dense<0.0> : {S16}
  %s = mgx.dot %q, %k : {Q16}, tensor<2x3x4x5xf16> -> {S16}
  %f = mgx.convert %s : {S16} -> {S}
  %u = mgx.add %f, %b : {S}, {S} -> {S}
  %x = mgx.softmax %u axis = 3 : {S}
  %p = mgx.convert %x : {S} -> {S16}
  %n = mgx.isnan %p : {S16} -> tensor<2x3x5x5xi1>
  %w = mgx.where %n, %o, %p : tensor<2x3x5x5xi1>, {S16}, {S16} -> {S16}
  %y = mgx.dot %w, %q : {S16}, {Q16} -> {Q16}
  return %y : {Q16}
}}"""
    assert "nan_as_zero" in found(parse(text))


def test_queries_without_keys_stay_zero() -> None:
    """ONNX Attention: shares of a query are 0 where its mask leaves no key."""
    text = f"""
func.func @main(%q: {Q} {{mgx.name = "q"}}, %k: tensor<2x3x4x5xf32> {{mgx.name = "k"}},
    %m: tensor<5x1xf32> {{mgx.name = "m"}}) -> ({Q} {{mgx.name = "y"}}) {{
  %z = mgx.constant dense<0.0> : tensor<5x1xf32>
  %o = mgx.constant dense<0.0> : {S}
  %s = mgx.dot %q, %k : {Q}, tensor<2x3x4x5xf32> -> {S}
  %p = mgx.softmax %s axis = 3 : {S}
  %g = mgx.greater %m, %z : tensor<5x1xf32>, tensor<5x1xf32> -> tensor<5x1xi1>
  %b = mgx.multibroadcast %g : tensor<5x1xi1> -> tensor<2x3x5x5xi1>
  %w = mgx.where %b, %o, %p : tensor<2x3x5x5xi1>, {S}, {S} -> {S}
  %y = mgx.dot %w, %q : {S}, {Q} -> {Q}
  return %y : {Q}
}}"""
    assert "mgx.where" in found(parse(text))


@pytest.mark.parametrize(
    "model",
    [
        partial(bert, width=64, heads=2, tokens=16, vocabulary=50),
        partial(gpt2, width=64, heads=2, tokens=16, vocabulary=50),
        partial(vit, width=64, heads=2, image=32, classes=10),
    ],
    ids=["bert", "gpt2", "vit"],
)
def test_a_layer_of_a_transformer_takes_seven_launches(model: Callable[..., ModelProto]) -> None:
    assert launches(model(layers=2)) - launches(model(layers=1)) <= 7


def launches(model: ModelProto) -> int:
    """Steps of the plan of a model."""
    options = CompileOptions()
    graph = import_model(model, options)
    optimize(graph, options, Report())
    with graph.module.context:
        return build_plan(graph).step_count
