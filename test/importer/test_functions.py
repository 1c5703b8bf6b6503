"""Model-local functions are inlined with their attributes, opsets and names."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from onnx import parser

from mgx_mlir.errors import ModelError, UnsupportedError
from mgx_mlir.importer import parse_onnx
from test.importer.agreement import assert_agrees, assert_close, outputs_of

X = {"x": np.array([-1, 2, 3], np.float32)}
LEAKY = "y = LeakyRelu <alpha: float = @alpha> (x)"


def model_of(body: str, *functions: str, opset: int = 20) -> onnx.ModelProto:
    """y, computed of x by `body`; each function is its header and its body."""
    head = f'<ir_version: 10, opset_import: ["": {opset}, "l": 1]>'
    model = parser.parse_model(f"{head} g (float[3] x) => (float[3] y) {{ {body} }}")
    model.functions.extend(parser.parse_function(text) for text in functions)
    return model


def function(header: str, body: str, opset: int = 20) -> str:
    return f'<domain: "l", opset_import: ["": {opset}, "l": 1]> {header} {{ {body} }}'


@pytest.mark.parametrize("call", ["l.F(x)", "l.F <alpha: float = 0.5> (x)"])
def test_a_default_of_an_attribute(call):
    leaky = function("F <alpha: float = 0.3> (x) => (y)", LEAKY)
    assert_agrees(model_of(f"y = {call}", leaky), X)


def test_a_default_that_makes_a_constant():
    body = "c = Constant <value_float: float = @alpha> () y = Mul(x, c)"
    assert_agrees(model_of("y = l.F(x)", function("F <alpha: float = 0.3> (x) => (y)", body)), X)


def test_an_attribute_that_nobody_states_is_that_of_the_inner_definition():
    inner = function("G <alpha: float = 0.5> (x) => (y)", LEAKY)
    outer = function("F <alpha> (x) => (y)", "y = l.G <alpha: float = @alpha> (x)")
    assert_agrees(model_of("y = l.F(x)", outer, inner), X)
    assert_agrees(model_of("y = l.F(x)", function("F <alpha> (x) => (y)", LEAKY)), X)


def test_one_function_called_with_several_attributes():
    leaky = function("F <alpha: float = 0.3> (x) => (y)", LEAKY)
    body = "a = l.F(x) b = l.F <alpha: float = 0.9> (a) c = l.F(b) y = Add(b, c)"
    assert_agrees(model_of(body, leaky), X)


def test_attributes_inside_of_branches():
    inner = function(
        "G <alpha: float = 0.5, beta: float = 0.7> (x) => (y)",
        "a = LeakyRelu <alpha: float = @alpha> (x) "
        "c = Constant <value_float: float = @beta> () y = Mul(a, c)",
    )
    outer = function(
        "F <alpha: float = 0.3> (x) => (y)",
        """s = ReduceMax <keepdims: int = 0> (x)
        z = Constant <value_float: float = 0.0> ()
        b = Greater(s, z)
        y = If (b) <then_branch = t () => (p) { p = l.G <beta: float = @alpha> (x) },
                    else_branch = e () => (q) { q = LeakyRelu <alpha: float = @alpha> (x) }>""",
    )
    model = model_of("y = l.F(x)", outer, inner)
    for x in (X["x"], -(X["x"] ** 2)):
        assert_agrees(model, {"x": x})


def test_overloads_are_functions_of_their_own():
    model = model_of(
        "a = l.F(x) b = l.F(x) y = Sub(a, b)",
        function("F (x) => (y)", "y = Neg(x)"),
        function("F (x) => (y)", "y = Abs(x)"),
    )
    for number, name in enumerate(("negative", "absolute")):
        model.functions[number].overload = model.graph.node[number].overload = name
    assert_agrees(model, X)


def test_absent_inputs_and_outputs():
    clip = function("F (x, low, high) => (y, z)", "y = Clip(x, low, high) z = Neg(x)")
    one = 'c = Constant <value_float = 1.0> () y, "" = l.F(x, "", c)'
    for body in (one, 'y, "" = l.F(x)', '"", y = l.F(x)'):
        assert_agrees(model_of(body, clip), X)


def test_results_that_are_an_input_or_another_result():
    same = function("F (x) => (x, y, y)", "y = Neg(x)")
    graph = parse_onnx(model_of("a, b, c = l.F(x) d = Sub(a, b) y = Sub(d, c)", same))
    assert_close(outputs_of(graph, X), [X["x"] * 3])


@pytest.mark.parametrize(("model", "inner"), [(20, 12), (12, 20), (20, 20)])
def test_functions_of_another_opset_are_converted(model, inner):
    """The axes of ReduceSum are an attribute before opset 13, then an input."""
    axes = "k = Constant <value_ints = [0]> () a = ReduceSum <keepdims = 1> (x, k)"
    total = "a = ReduceSum <axes = [0], keepdims = 1> (x)" if inner < 13 else axes
    outer = function("F (x) => (y)", "y = l.G(x)", model)
    sums = function("G (x) => (y)", f"{total} y = Add(x, a)", inner)
    made = model_of(
        "b = ReduceMax <keepdims = 1> (x) c = Sub(x, b) y = l.F(c)", outer, sums, opset=model
    )
    centred = X["x"] - 3
    assert_close(outputs_of(parse_onnx(made), X), [centred + centred.sum()])


def test_an_opset_that_does_not_convert_is_named():
    outer = function("F (x) => (y)", "a = Softmax(x) b = l.G(a) y = Softmax(b)", 11)
    inner = function("G (x) => (y)", "y = Neg(x)", 11)
    with pytest.raises(UnsupportedError, match=r"function 'l::F' 11"):
        parse_onnx(model_of("y = l.F(x)", outer, inner))


def test_domains_that_only_functions_import():
    body = '<domain: "l", opset_import: ["": 20, "com.microsoft": 1]> F (x) => (y) {'
    assert_agrees(model_of("y = l.F(x)", body + " y = com.microsoft.Gelu(x) }"), X)


def test_a_function_that_calls_itself_is_named():
    loop = [function("F (x) => (y)", "y = l.G(x)"), function("G (x) => (y)", "y = l.F(x)")]
    with pytest.raises(ModelError, match="calls itself"):
        parse_onnx(model_of("y = l.F(x)", *loop))


def test_a_call_with_too_many_inputs_is_named():
    with pytest.raises(ModelError, match=r"l::F .* has 2 inputs; function 'l::F' has 1"):
        parse_onnx(model_of("y = l.F(x, x)", function("F (x) => (y)", "y = Neg(x)")))
