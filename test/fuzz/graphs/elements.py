"""Operators on elements, with broadcasts, and casts."""

from __future__ import annotations

import numpy as np

from test.fuzz.graphs.graph import (
    BF16,
    BOOL,
    F16,
    F32,
    F64,
    I8,
    I32,
    I64,
    U8,
    Graph,
    UnsoundError,
    Value,
)
from test.fuzz.graphs.kinds import kind

# Graphs of f64 stay within what onnxruntime has for them.
_UNARY = """Abs Neg Sigmoid Tanh Erf Softplus Sin Cos Relu Softsign Exp Elu Selu HardSigmoid
    HardSwish Mish LeakyRelu Celu Atan Gelu ThresholdedRelu Ceil Floor Round Sign Identity Asinh
    Sinh Tan Cosh""".split()
_OF_INTEGERS = """Add Sub Mul Div Mod Max Min BitwiseAnd BitwiseOr BitwiseXor Less Abs Neg
    BitwiseNot Clip Equal Pow""".split()


@kind(6)
def unary(g: Graph) -> Value:
    x = g.real()
    name = g.rng.choice(_UNARY)
    if name in ("Ceil", "Floor", "Round", "Sign", "ThresholdedRelu") and x.dtype in (F16, BF16):
        raise UnsoundError("jumps, where few numbers lie between")
    attributes = {}
    if name in ("Elu", "LeakyRelu", "Celu", "ThresholdedRelu"):
        attributes = {"alpha": g.rng.choice((0.1, 0.5, 1.0, 1.7))}
    elif name == "HardSigmoid" and g.chance(0.5):
        attributes = {"alpha": 0.3, "beta": 0.4}
    elif name == "Gelu" and g.chance(0.5):
        attributes = {"approximate": "tanh"}
    if name in ("Exp", "Sinh", "Cosh", "Tan"):
        x = g.op("Tanh", x)
    return g.op(name, x, **attributes)


@kind(2)
def positive(g: Graph) -> Value:
    x = g.op("Abs", g.real())
    x = g.op("Add", x, g.number(0.5, x.dtype))
    return g.op(g.rng.choice(("Sqrt", "Log", "Reciprocal")), x)


@kind(1)
def clip(g: Graph) -> Value:
    x = g.real()
    low = g.number(-0.5, x.dtype) if g.chance(0.7) else None
    return g.op("Clip", x, low, g.number(0.75, x.dtype) if g.chance(0.7) else None)


def partner(g: Graph, x: Value, weight: bool | None = None) -> Value:
    """A tensor that broadcasts with x, and that x may broadcast with."""
    found = g.pick(lambda v: v.dtype == x.dtype and v is not x and _fits(v.shape, x.shape))
    if found is not None and g.chance(0.4):
        return found
    shape = [1 if g.chance(0.25) else s for s in x.shape]
    if g.chance(0.3):
        shape = shape[g.rng.randint(0, len(shape)) :]
    if g.chance(0.08):
        shape = [g.rng.choice((1, 2, 3)), *([1] * (x.rank - len(shape))), *shape]
    for i in range(max(0, len(shape) - x.rank), len(shape)):
        if shape[i] == 1 and x.shape[i - len(shape)] == 1 and g.chance(0.2):
            shape[i] = g.size(9)
    return g.fresh(shape, x.dtype, weight)


def _fits(a: tuple[int, ...], b: tuple[int, ...]) -> bool:
    try:
        np.broadcast_shapes(a, b)
    except ValueError:
        return False
    return True


@kind(8)
def binary(g: Graph) -> Value:
    x = g.real()
    y = partner(g, x)
    name = g.rng.choice(("Add", "Add", "Sub", "Mul", "Mul", "Max", "Min", "PRelu", "Div", "Pow"))
    if name in ("Div", "Pow"):
        positive = g.op("Add", g.op("Abs", y), g.number(0.5, y.dtype))
        if name == "Div":
            return g.op("Div", x, positive)
        other = g.op("Tanh", x)
        if g.chance(0.5):
            return g.op("Pow", other, g.number(g.rng.choice((2, 3, 1)), x.dtype))
        return g.op("Pow", positive, other)
    if name == "PRelu":
        return g.op("PRelu", x, g.fresh([1 if g.chance(0.5) else s for s in x.shape[-2:]], x.dtype))
    return g.op(name, *((x, y) if g.chance(0.5) else (y, x)))


@kind(1)
def several(g: Graph) -> Value:
    x = g.real()
    return g.op(g.rng.choice(("Sum", "Mean", "Max", "Min")), x, partner(g, x), partner(g, x))


@kind(2)
def where(g: Graph) -> Value:
    x = g.real()
    y = partner(g, x)
    if g.chance(0.5):
        name = g.rng.choice(("Less", "Greater", "LessOrEqual", "GreaterOrEqual", "Equal"))
        test = g.op(name, x, g.number(0.01, x.dtype))
        if g.chance(0.3):
            test = g.op("Not", test)
    else:
        test = g.pick(lambda v: v.dtype == BOOL and _fits(v.shape, x.shape)) or g.fresh(
            [1 if g.chance(0.3) else s for s in x.shape], BOOL, None
        )
    return g.op("Where", test, x, y)


@kind(1)
def logic(g: Graph) -> Value:
    x = g.pick(lambda v: v.dtype == BOOL) or g.fresh(g.shape(2), BOOL, False)
    y = partner(g, x)
    return g.op(g.rng.choice(("And", "Or", "Xor", "Equal")), x, y)


@kind(2)
def integers(g: Graph) -> Value:
    x = g.pick(lambda v: v.dtype in (I32, I64, I8, U8)) or g.fresh(
        g.shape(g.rng.choice((1, 2, 3))), g.rng.choice((I32, I64, I8, U8)), False
    )
    name = g.rng.choice(_OF_INTEGERS)
    if name in ("Abs", "BitwiseNot") or (name == "Neg" and x.dtype != U8):
        return g.op(name, x)
    if name == "Clip":
        return g.op("Clip", x, g.number(1, x.dtype), g.number(5, x.dtype))
    shape = x.shape if g.chance(0.5) else x.shape[1:]
    if name in ("Div", "Mod"):
        return g.op(name, x, g.fresh(shape, x.dtype, low=1))
    if name == "Pow":
        return g.op(
            "Pow", g.op("Clip", x, g.number(0, x.dtype), g.number(5, x.dtype)), g.number(2, x.dtype)
        )
    return g.op("Sub" if name == "Neg" else name, x, g.fresh(shape, x.dtype))


@kind(3)
def cast(g: Graph) -> Value:
    from onnx import helper

    x = g.pick(lambda v: True) or g.real()
    to = g.rng.choice((F32, F32, F16, BF16, F64, I32, I64, I8, U8, BOOL, g.float, g.float, g.float))
    if not x.is_float and g.chance(0.7):
        to = g.float
    if x.is_float and to in (I8, U8):
        x = g.op("Clip", x, g.number(0, x.dtype), g.number(100, x.dtype))  # others are not defined
    if x.is_float and to == BOOL and ((x.exact != 0) & (np.abs(x.exact) < 1e-30)).any():
        raise UnsoundError("numbers that rounding makes zero")
    return g.op("Cast", x, to=helper.np_dtype_to_tensor_dtype(to))
