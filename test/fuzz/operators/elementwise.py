"""Operators of each element, of one tensor and of several that broadcast."""

from __future__ import annotations

from typing import Any

import numpy as np
from onnx import helper

from test.fuzz.operators.draw import (
    ALL,
    BOOL,
    FLOATS,
    FLOATS8,
    INTEGERS,
    NUMBERS,
    PLAIN,
    SIGNED,
    UNSIGNED,
    WIDE,
    Draw,
    Fixed,
    Type,
    is_float,
)
from test.fuzz.operators.form import OPERATORS, Form, Input, operator

Choices = dict[str, tuple[Any, ...]]
# Operators of one tensor: their types, and what their attributes may be (None: not stated).
_UNARY: tuple[tuple[str, tuple[Type, ...], Choices], ...] = (
    ("Abs Sign", NUMBERS, {}),
    ("Acos Acosh Asin Asinh Atan Atanh Cos Cosh Sin Sinh Tan", FLOATS, {}),
    ("BitwiseNot", INTEGERS, {}),
    ("Ceil Erf Exp Floor HardSwish Log Mish Reciprocal Round", FLOATS, {}),
    ("Sigmoid Softplus Softsign Sqrt Tanh IsNaN", FLOATS, {}),
    ("Celu", FLOATS, {"alpha": (1.0, 0.5, 2.0)}),
    ("Elu", FLOATS, {"alpha": (1.0, 0.5, -0.3)}),
    ("Gelu", FLOATS, {"approximate": ("none", "tanh", None)}),
    ("HardSigmoid", FLOATS, {"alpha": (0.2, 0.5), "beta": (0.5, 0.1)}),
    ("Identity", ALL + FLOATS8, {}),
    ("IsInf", FLOATS, {"detect_negative": (0, 1, None), "detect_positive": (0, 1, None)}),
    ("LeakyRelu", FLOATS, {"alpha": (0.01, 0.5, 2.0, -0.3)}),
    ("Neg Relu", FLOATS + SIGNED, {}),
    ("NonZero Shape Size", ALL, {}),
    ("Not", (BOOL,), {}),
    ("Selu", FLOATS, {"alpha": (1.0, 0.5), "gamma": (1.0, 2.0)}),
    ("Swish", FLOATS, {"alpha": (1.0, 0.5, None)}),
    ("ThresholdedRelu", FLOATS, {"alpha": (1.0, 0.5, -1.0)}),
)
_BINARY: tuple[tuple[str, tuple[Type, ...]], ...] = (
    ("Add Mul Sub Greater GreaterOrEqual Less LessOrEqual", NUMBERS),
    ("And Or Xor", (BOOL,)),
    ("BitwiseAnd BitwiseOr BitwiseXor", INTEGERS),
    ("Equal", ALL),
)
_VARIADIC = (("Max Min", NUMBERS), ("Mean Sum", FLOATS))


def _chosen(draw: Draw, choices: Choices) -> dict[str, Any]:
    found = {name: draw.among(values) for name, values in choices.items()}
    return {name: value for name, value in found.items() if value is not None}


def _pair(draw: Draw, dtype: Type, nonzero: bool = False) -> list[Input]:
    """Two tensors that broadcast, the second of them perhaps without zeros."""
    shape = draw.shape()
    first = [1 if draw.chance(0.15) else size for size in shape]
    found = [draw.array(first, dtype), draw.array(draw.broadcast(shape), dtype)]
    if draw.chance(0.5):
        found.reverse()
    if nonzero:
        found[1] = np.where(found[1] == 0, np.asarray(3, dtype), found[1]).astype(dtype)
    return list(found)


def _enter() -> None:
    for names, types, choices in _UNARY:
        for name in names.split():
            OPERATORS[name] = lambda d, t=types, c=choices: Form(
                [d.array(d.shape(), d.among(t))], _chosen(d, c)
            )
    for names, types in _BINARY:
        for name in names.split():
            OPERATORS[name] = lambda d, t=types: Form(_pair(d, d.among(t)))
    for names, types in _VARIADIC:
        for name in names.split():
            OPERATORS[name] = lambda d, t=types: _variadic(d, d.among(t))


def _variadic(draw: Draw, dtype: Type) -> Form:
    shape = draw.shape()
    more = [draw.array(draw.broadcast(shape), dtype) for _ in range(draw.between(0, 3))]
    return Form([draw.array(shape, dtype), *more])


_enter()


@operator("Shrink")
def _shrink(draw: Draw) -> Form:
    """References compute it in floats, which cannot hold the ends of integers."""
    dtype = draw.among((*PLAIN, *INTEGERS))
    values = draw.array(draw.shape(), dtype, special=draw.special and is_float(dtype))
    return Form([values], {"lambd": draw.pick(0.5, 1.5), "bias": draw.pick(0.0, 0.5, 2.0)})


@operator("Div")
def _div(draw: Draw) -> Form:
    dtype = draw.among(NUMBERS)
    return Form(_pair(draw, dtype, nonzero=not is_float(dtype)))


@operator("Mod")
def _mod(draw: Draw) -> Form:
    dtype = draw.among(NUMBERS)
    fmod = 1 if is_float(dtype) else draw.pick(0, 1)
    return Form(_pair(draw, dtype, nonzero=not is_float(dtype)), {"fmod": fmod})


@operator("PRelu")
def _prelu(draw: Draw) -> Form:
    dtype, shape = draw.among(FLOATS + WIDE), draw.shape()
    return Form([draw.array(shape, dtype), draw.array(draw.broadcast(shape), dtype)])


@operator("Pow")
def _pow(draw: Draw) -> Form:
    """Integers to negative powers have no meaning, so that their powers are none."""
    base, power, shape = draw.among((*FLOATS, *SIGNED[2:])), draw.among(NUMBERS), draw.shape()
    real = is_float(base) and is_float(power)
    powers = draw.array(draw.broadcast(shape), power, *(() if real else (0, 3)))
    powers = powers if real else np.round(powers.astype(np.float64)).astype(power)
    return Form([draw.array(shape, base, special=None if real else False), powers])


@operator("BitShift")
def _bit_shift(draw: Draw) -> Form:
    dtype, shape = draw.among(UNSIGNED), draw.shape()
    counts = draw.array(draw.broadcast(shape), dtype, 0, 8 * dtype.itemsize - 1)
    return Form([draw.array(shape, dtype), counts], {"direction": draw.pick("LEFT", "RIGHT")})


@operator("Clip")
def _clip(draw: Draw) -> Form:
    dtype = draw.among(NUMBERS)
    low, high = (draw.fixed(draw.plain([], dtype), 0.6) for _ in range(2))
    bounds = [bound if draw.chance(0.8) else None for bound in (low, high)]
    return Form([draw.array(draw.shape(), dtype), *bounds])


@operator("Where")
def _where(draw: Draw) -> Form:
    dtype, shape = draw.among(ALL), draw.shape()
    condition = draw.array(draw.broadcast(shape), BOOL)
    return Form([condition, draw.array(shape, dtype), draw.array(draw.broadcast(shape), dtype)])


@operator("Cast", "CastLike")
def _cast(draw: Draw, name: str) -> Form:
    """Floats that the integers cannot hold have no meaning, so that there are none."""
    source, target = draw.among(ALL + FLOATS8), draw.among(ALL + FLOATS8)
    values = draw.array(draw.shape(), source)
    if is_float(source) and target.kind in "iu":
        wide = np.nan_to_num(values.astype(np.float64), nan=0, posinf=5, neginf=0)
        values = np.clip(wide, 0 if target.kind == "u" else -100, 100).astype(source)
    if name == "CastLike":
        return Form([values, Fixed(np.zeros([1], target))])
    return Form([values], {"to": helper.np_dtype_to_tensor_dtype(target)})
