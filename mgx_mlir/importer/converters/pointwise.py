"""Operators on each element: arithmetic, comparisons, activations, conversions."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import reduce
from typing import Any

import ml_dtypes
import numpy as np
from mlir import ir
from onnx import helper

from mgx_mlir.dialects import mgx
from mgx_mlir.errors import ModelError, UnsupportedError
from mgx_mlir.importer import element_types, emit, folding, tensors
from mgx_mlir.importer.node import Node
from mgx_mlir.importer.registry import operator

# ONNX name, oldest and newest version, mgx op.
_UNARY = (
    ("Abs", 6, 13, "abs"),
    ("Acos", 7, 22, "acos"),
    ("Acosh", 9, 22, "acosh"),
    ("Asin", 7, 22, "asin"),
    ("Asinh", 9, 22, "asinh"),
    ("Atan", 7, 22, "atan"),
    ("Atanh", 9, 22, "atanh"),
    ("BitwiseNot", 18, 18, "bitwise_not"),
    ("Ceil", 6, 13, "ceil"),
    ("Cos", 7, 22, "cos"),
    ("Cosh", 9, 22, "cosh"),
    ("Erf", 9, 13, "erf"),
    ("Exp", 6, 13, "exp"),
    ("Floor", 6, 13, "floor"),
    ("IsNaN", 9, 20, "isnan"),
    ("Log", 6, 13, "log"),
    ("Neg", 6, 13, "neg"),
    ("Not", 1, 1, "not_"),
    ("Reciprocal", 6, 13, "recip"),
    ("Relu", 6, 14, "relu"),
    ("Round", 11, 22, "nearbyint"),
    ("Sigmoid", 6, 13, "sigmoid"),
    ("Sign", 9, 13, "sign"),
    ("Sin", 7, 22, "sin"),
    ("Sinh", 9, 22, "sinh"),
    ("Sqrt", 6, 13, "sqrt"),
    ("Tan", 7, 22, "tan"),
    ("Tanh", 6, 13, "tanh"),
)
_BINARY = (
    ("Add", 6, 14, "add"),
    ("And", 1, 7, "logical_and"),
    ("BitwiseAnd", 18, 18, "bitwise_and"),
    ("BitwiseOr", 18, 18, "bitwise_or"),
    ("BitwiseXor", 18, 18, "bitwise_xor"),
    ("Div", 6, 14, "div"),
    ("Equal", 1, 19, "equal"),
    ("Greater", 1, 13, "greater"),
    ("Less", 1, 13, "less"),
    ("Mul", 6, 14, "mul"),
    ("Or", 1, 7, "logical_or"),
    ("Sub", 6, 14, "sub"),
    ("Xor", 1, 7, "logical_xor"),
)
_VARIADIC = (
    ("Max", 6, 13, "max"),
    ("Min", 6, 13, "min"),
    ("Sum", 6, 13, "add"),
)


def _unary(build: Callable[[ir.Value], ir.Value]) -> Callable[[Node], ir.Value]:
    return lambda node: build(node.tensor(0))


def _binary(build: emit.Binary) -> Callable[[Node], ir.Value]:
    return lambda node: emit.binary(build, *_operands(node))


def _operands(node: Node) -> tuple[ir.Value, ir.Value]:
    """Both operands. Before version 7, `axis` says where the second lies in the first."""
    a, b = node.tensor(0), node.tensor(1)
    if node.version >= 7:
        return a, b
    axis = node.attribute("axis")
    if not node.attribute("broadcast", 0) or axis is None:
        return a, b
    behind = tensors.rank(a) - tensors.axis_in(int(axis), tensors.rank(a)) - tensors.rank(b)
    return a, emit.reshape(b, (*tensors.dims(b), *[1] * max(behind, 0)))


def _variadic(build: emit.Binary) -> Callable[[Node], ir.Value]:
    return lambda node: reduce(build, emit.broadcast_together(*emit.in_one_type(*node.tensors())))


for _table, _kind in ((_UNARY, _unary), (_BINARY, _binary), (_VARIADIC, _variadic)):
    for _name, _oldest, _newest, _op in _table:
        _converter: Any = _kind(getattr(mgx, _op))
        operator(_name, (_oldest, _newest), _op.rstrip("_"))(_converter)


@operator("Mean", (6, 13), "add mul")
def mean(node: Node) -> ir.Value:
    values = emit.broadcast_together(*node.tensors())
    return emit.div(reduce(mgx.add, values), len(values))


@operator("GreaterOrEqual", (12, 16), "greater equal logical_or")
def greater_or_equal(node: Node) -> ir.Value:
    a, b = emit.broadcast_together(node.tensor(0), node.tensor(1))
    return mgx.logical_or(mgx.greater(a, b), mgx.equal(a, b))


@operator("LessOrEqual", (12, 16), "less equal logical_or")
def less_or_equal(node: Node) -> ir.Value:
    a, b = emit.broadcast_together(node.tensor(0), node.tensor(1))
    return mgx.logical_or(mgx.less(a, b), mgx.equal(a, b))


@operator("Pow", (1, 15), "pow convert")
def power(node: Node) -> ir.Value:
    """The result has the base's type; the two may differ since version 12."""
    x, exponent = _operands(node)
    element = tensors.element(x)
    if tensors.is_float(x) or not tensors.is_float(exponent) or _is_whole(node.known(1)):
        return emit.binary(mgx.pow, x, emit.convert(exponent, element))
    y = emit.binary(mgx.pow, emit.convert(x, "f64"), emit.convert(exponent, "f64"))
    # A library's power may be just below the integer that it should be, and is cut off.
    near, bound = mgx.nearbyint(y), emit.mul(mgx.abs(y), 2.0**-50)
    close = mgx.not_(mgx.greater(mgx.abs(mgx.sub(y, near)), bound))
    return emit.convert(mgx.where(close, near, y), element)


def _is_whole(exponents: np.ndarray | None) -> bool:
    """Whether these are numbers that are integers, which an i32 holds."""
    if exponents is None:
        return False
    numbers = exponents.astype(np.float64)
    return bool((np.isfinite(numbers) & (numbers % 1 == 0) & (np.abs(numbers) < 2**31)).all())


@operator("Mod", (10, 28), "mod fmod")
def modulo(node: Node) -> ir.Value:
    build = mgx.fmod if node.attribute("fmod") else mgx.mod
    a, b = node.tensor(0), node.tensor(1)
    if tensors.is_float(a) != tensors.is_float(b):  # MIGraphX takes a float's remainder by integers
        element = tensors.element(a if tensors.is_float(a) else b)
        a, b = emit.convert(a, element), emit.convert(b, element)
    return emit.binary(build, a, b)


@operator("BitShift", (11, 28), "shift_left shift_right")
def bit_shift(node: Node) -> ir.Value:
    left = node.attribute("direction") == "LEFT"
    build = mgx.shift_left if left else mgx.shift_right
    return emit.binary(build, node.tensor(0), node.tensor(1))


@operator("Where", (9, 16), "where")
def where(node: Node) -> ir.Value:
    condition, *values = node.tensors()
    return emit.where(_as_bool(condition), *emit.in_one_type(*values))


def _as_bool(x: ir.Value) -> ir.Value:
    return x if tensors.element_name(x) == "i1" else mgx.not_(mgx.equal(x, emit.like(x, 0)))


@operator("IsInf", (10, 20), "isinf")
def is_inf(node: Node) -> ir.Value:
    return mgx.isinf(
        node.tensor(0),
        detect_negative=bool(node.attribute("detect_negative")),
        detect_positive=bool(node.attribute("detect_positive")),
    )


@operator("Clip", (6, 13), "clip max min")
def clip(node: Node) -> ir.Value:
    """Bounds are attributes before version 11, optional inputs since."""
    x = node.tensor(0)
    if node.version < 11:
        stated = [n if node.has_attribute(n) else None for n in ("min", "max")]
        low, high = (emit.like(x, node.attribute(n)) if n else None for n in stated)
    else:
        low, high = (
            emit.broadcast(emit.convert(b, tensors.element(x)), tensors.dims(x)) if b else None
            for b in (node.optional(1), node.optional(2))
        )
    if low and high:
        return mgx.clip(x, low, high)
    if low:
        return mgx.max(x, low)
    return mgx.min(x, high) if high else x


# The addend to an f32's bits after which cutting off the fraction rounds it.
_HALFWAY = {"up": 0x7FFFFF, "down": 0, "nearest": 0x400000}


def _convert(node: Node, element: element_types.ElementType) -> ir.Value:
    saturate = bool(node.attribute("saturate")) if node.version >= 19 else True
    if element.name == "float8e8m0":
        return _to_powers_of_two(node, saturate)
    x = node.tensor(0)
    if element.bits < 8 and "int" in element.name and tensors.is_float(x):
        # ONNX leaves floats out of range open; its own cases drop the upper bits.
        x = emit.convert(x, "i32")
    return emit.convert(x, mgx.element_type(element.numpy), saturate)


def _to_powers_of_two(node: Node, saturate: bool) -> ir.Value:
    """float8e8m0 holds the exponent of an f32 and no more: by round_mode, the next one or not."""
    mode = node.attribute("round_mode", "up")
    if mode not in _HALFWAY:
        raise UnsupportedError(f"round_mode = {mode}; up, down and nearest are supported")
    bits = mgx.bit_cast(emit.convert(node.tensor(0), "f32"), np.dtype(np.uint32))
    exponent = emit.binary(mgx.shift_right, emit.add(bits, _HALFWAY[mode]), 23)
    infinite = emit.binary(mgx.equal, bits, 0x7F800000)
    if saturate:
        exponent = emit.where(mgx.greater(exponent, emit.like(exponent, 254)), 254, exponent)
    # NaN and negative numbers have bits above those of infinity.
    bad = mgx.greater(bits, emit.like(bits, 0x7F800000))
    if not saturate:
        bad = mgx.logical_or(bad, infinite)
    exponent = emit.where(bad, 255, exponent)
    return mgx.bit_cast(emit.convert(exponent, "ui8"), np.dtype(ml_dtypes.float8_e8m0fnu))


@operator("Cast", (6, 28), "convert")
def cast(node: Node) -> ir.Value:
    return _convert(node, element_types.of_onnx(node.attribute("to")))


@operator("CastLike", (15, 25), "convert")
def cast_like(node: Node) -> Any:
    """Only the type of the second input matters: the first may be constant."""
    element = element_types.of_numpy(node.value(1).dtype)
    known = node.known(0)
    if known is not None:
        cast_node = helper.make_node("Cast", ["x"], ["y"], to=element.onnx)
        folded = folding.fold(cast_node, [known], max(node.version, 13))
        if folded is not None:
            return folded[0]
    return _convert(node, element)


@operator("BitCast", (26, 26), "bit_cast")
def bit_cast(node: Node) -> ir.Value:
    x = node.tensor(0)
    element = element_types.of_onnx(node.attribute("to"))
    source = element_types.of_numpy(node.value(0).dtype)
    if (source.name, element.name) == ("bool", "uint8"):
        return emit.convert(x, "ui8")
    if element.bits != source.bits or "bool" in (element.name, source.name):
        raise UnsupportedError(f"from {source.name} to {element.name}, whose bits differ in number")
    return mgx.bit_cast(x, element.numpy)


@operator("Identity", (1, 25), "")
def identity(node: Node) -> Any:
    return node.value(0)


@operator("Dropout", (7, 22), "")
def dropout(node: Node) -> Any:
    """At inference the input, and a mask that keeps every element."""
    for name in ("ratio", "seed") if node.version < 12 else ("seed",):
        node.attribute(name)
    if node.given(2) and node.constant(2, "training_mode").any():
        ratio = node.constant(1, "ratio") if node.given(1) else np.array(0.5)
        if ratio.any():
            raise UnsupportedError("training_mode is true, and a ratio that is not 0")
    x = node.value(0)
    dtype = x.dtype if node.version < 10 else np.dtype(bool)
    mask = emit.filled(np.ones((), dtype), x.dims) if node.wanted(1) else None
    return [x, mask]


@operator("LeakyRelu", (6, 16), "leaky_relu")
def leaky_relu(node: Node) -> ir.Value:
    return mgx.leaky_relu(node.tensor(0), alpha=node.attribute("alpha"))


@operator("PRelu", (7, 16), "prelu")
def prelu(node: Node) -> ir.Value:
    x = node.tensor(0)
    return mgx.prelu(x, emit.broadcast(node.tensor(1), tensors.dims(x)))


@operator("Elu", (6, 22), "elu")
def elu(node: Node) -> ir.Value:
    return mgx.elu(node.tensor(0), alpha=node.attribute("alpha"))


@operator("Celu", (12, 28), "max min exp sub div mul add")
def celu(node: Node) -> ir.Value:
    """max(0, x) + min(0, alpha (exp(x / alpha) - 1))"""
    x, alpha = node.tensor(0), float(node.attribute("alpha"))
    if not alpha:
        raise ModelError("alpha = 0, by which it divides")
    below = emit.mul(emit.add(mgx.exp(emit.div(x, alpha)), -1), alpha)
    return mgx.add(mgx.relu(x), mgx.min(below, emit.like(below, 0)))


@operator("Selu", (6, 22), "elu mul where")
def selu(node: Node) -> ir.Value:
    x = node.tensor(0)
    gamma = node.attribute("gamma")
    return emit.mul(mgx.elu(x, alpha=node.attribute("alpha")), gamma)


@operator("Softplus", (1, 22), "relu exp log1p add")
def softplus(node: Node) -> ir.Value:
    return softplus_of(node.tensor(0))


def softplus_of(x: ir.Value) -> ir.Value:
    """log(1 + exp(x)), written so that exp does not overflow."""
    return mgx.add(mgx.relu(x), mgx.log1p(mgx.exp(mgx.neg(mgx.abs(x)))))


@operator("Softsign", (1, 22), "abs add div")
def softsign(node: Node) -> ir.Value:
    return softsign_of(node.tensor(0))


def softsign_of(x: ir.Value) -> ir.Value:
    """x / (1 + |x|)"""
    return mgx.div(x, emit.add(mgx.abs(x), 1))


@operator("ThresholdedRelu", (10, 22), "greater where")
def thresholded_relu(node: Node) -> ir.Value:
    x = node.tensor(0)
    return emit.where(mgx.greater(x, emit.like(x, node.attribute("alpha"))), x, 0)


@operator("Shrink", (9, 9), "convert less greater add sub where")
def shrink(node: Node) -> ir.Value:
    """x + bias below -lambd, x - bias above lambd, 0 between; integers are computed as floats."""
    x = node.tensor(0)
    element = tensors.element(x)
    if not tensors.is_float(x):
        x = emit.convert(x, "f32" if emit.numpy_type(x).itemsize < 4 else "f64")
    bias, bound = node.attribute("bias"), node.attribute("lambd")
    above = emit.where(mgx.greater(x, emit.like(x, bound)), emit.sub(x, bias), 0)
    y = emit.where(mgx.less(x, emit.like(x, -bound)), emit.add(x, bias), above)
    if tensors.is_float(node.tensor(0)):
        return y
    # Integers wrap around below 0.
    wrapped = emit.convert(emit.convert(y, "i64"), element)
    return emit.where(mgx.less(y, emit.like(y, 0)), wrapped, emit.convert(y, element))


@operator("HardSigmoid", (6, 22), "mul add clip")
def hard_sigmoid(node: Node) -> ir.Value:
    return hard_sigmoid_of(node.tensor(0), node.attribute("alpha"), node.attribute("beta"))


def hard_sigmoid_of(x: ir.Value, alpha: float, beta: float) -> ir.Value:
    """max(0, min(1, alpha x + beta))"""
    return emit.clip(emit.add(emit.mul(x, alpha), beta), 0, 1)


@operator("HardSwish", (14, 22), "mul add clip")
def hard_swish(node: Node) -> ir.Value:
    x = node.tensor(0)
    return mgx.mul(x, hard_sigmoid_of(x, 1 / 6, 0.5))


@operator("Gelu", (20, 20), "erf tanh mul add")
def gelu(node: Node) -> ir.Value:
    build = gelu_tanh if node.attribute("approximate") == "tanh" else gelu_erf
    return build(node.tensor(0))


def gelu_erf(x: ir.Value) -> ir.Value:
    """0.5 x (1 + erf(x / sqrt 2))"""
    return mgx.mul(emit.mul(x, 0.5), emit.add(mgx.erf(emit.mul(x, math.sqrt(0.5))), 1))


def gelu_tanh(x: ir.Value) -> ir.Value:
    """0.5 x (1 + tanh(sqrt(2 / pi) (x + 0.044715 x^3)))"""
    cube = mgx.mul(mgx.mul(x, x), x)
    inner = emit.mul(mgx.add(x, emit.mul(cube, 0.044715)), math.sqrt(2 / math.pi))
    return mgx.mul(emit.mul(x, 0.5), emit.add(mgx.tanh(inner), 1))
