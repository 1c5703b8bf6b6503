"""Functions of onnxscript: control flow, and functions that call functions of the model."""

from __future__ import annotations

import numpy as np
from onnxscript import BOOL, FLOAT, INT64, script
from onnxscript import opset18 as op
from onnxscript.values import Opset

from test.exported.registry import Made, floats, named

_local = Opset("local", 1)


@script(_local, default_opset=op)
def leaky(x, alpha: float = 0.3):
    return op.LeakyRelu(x, alpha=alpha)


@script(_local, default_opset=op)
def scaled(x, factor: float = 2.5):
    constant = op.Constant(value_float=factor)
    return x * constant


@script(_local, default_opset=op)
def gelu(x):
    half, root = 0.5, 1.4142135
    return x * half * (op.Erf(x / root) + 1.0)


@script(_local, default_opset=op)
def norm(x, axis: int = -1, epsilon: float = 1e-5):
    mean = op.ReduceMean(x, [-1], keepdims=1)
    far = x - mean
    return far / op.Sqrt(op.ReduceMean(far * far, [-1], keepdims=1) + epsilon)


@script(_local, default_opset=op)
def block(x, w):
    return leaky(gelu(op.MatMul(norm(x), w)))


@script(default_opset=op)
def attributes_by_default(x: FLOAT[3, 4]) -> FLOAT[3, 4]:
    return leaky(x) + leaky(x, alpha=0.1)


@script(default_opset=op)
def constants_by_default(x: FLOAT[3, 4]) -> FLOAT[3, 4]:
    return scaled(x) + scaled(x, factor=-1.0)


@script(default_opset=op)
def functions_of_functions(x: FLOAT["N", 4], w: FLOAT[4, 4]) -> FLOAT["N", 4]:
    return block(block(x, w), w)


@script(default_opset=op)
def loop_of_trips(x: FLOAT["N"]) -> FLOAT["N"]:
    y = op.Identity(x)
    for i in range(5):
        y = y * 0.5 + op.Cast(i, to=1)
    return y


@script(default_opset=op)
def loop_with_break(x: FLOAT["N"]) -> FLOAT["N"]:
    y = op.Identity(x)
    for _i in range(10):
        y = y + 1.0
        enough = op.ReduceSum(y) > 6.0
        if enough:
            break
    return y


@script(default_opset=op)
def loop_of_sizes(x: FLOAT["N", "M"]) -> FLOAT["M"]:
    count = op.Squeeze(op.Shape(x, start=0, end=1))
    total = op.ReduceSum(x * 0.0, [0], keepdims=0)
    for i in range(count):
        total = op.Tanh(total) + op.Gather(x, i, axis=0)
    return total


@script(default_opset=op)
def branches(x: FLOAT["N"]) -> FLOAT["N"]:
    positive = op.ReduceSum(x) > 0.0
    if positive:
        y = op.Sqrt(op.Abs(x))
        z = x * 2.0
    else:
        y = op.Exp(x)
        z = y + x
    return y + z


@script(default_opset=op)
def branches_in_a_loop(x: FLOAT["N"]) -> FLOAT["N"]:
    y = op.Identity(x)
    for i in range(4):
        odd = op.Cast(op.Mod(i, 2), to=9)
        if odd:
            y = y * 2.0
        else:
            y = y - 1.0
    return y


@script(default_opset=op)
def loops_in_a_loop(x: FLOAT["N"]) -> FLOAT["N"]:
    y = op.Identity(x)
    for i in range(3):
        for j in range(2):
            y = y + op.Cast(i * 2 + j, to=1) * x
    return y


@script(default_opset=op)
def sequences(x: FLOAT["N", 3]) -> FLOAT["M", 3]:
    parts = op.SequenceEmpty()
    for i in range(3):
        parts = op.SequenceInsert(parts, x * op.Cast(i, to=1))
    return op.ConcatFromSequence(parts, axis=0)


@script(default_opset=op)
def indexing(x: FLOAT[4, 5]) -> FLOAT["A", "B"]:
    return op.Concat(x[1:3, ::2], x[0:2, 0:3], x[-1:, 1:4], axis=0)


@script(default_opset=op)
def kinds_of_numbers(x: FLOAT["N"], n: INT64["N"], flags: BOOL["N"]) -> FLOAT["N"]:
    chosen = op.Where(flags, x, op.CastLike(n, x))
    return op.Clip(chosen, -1.0, 2.0) + op.CastLike(n % 3, x) ** 2.0


_x = floats(5)
_FED = {
    attributes_by_default: [{"x": floats(3, 4)}],
    constants_by_default: [{"x": floats(3, 4)}],
    functions_of_functions: [{"x": floats(n, 4), "w": floats(4, 4, seed=1)} for n in (3, 1)],
    loop_of_trips: [{"x": _x}],
    loop_with_break: [{"x": _x * 0}, {"x": _x[:2]}],
    loop_of_sizes: [{"x": floats(n, 4)} for n in (3, 6)],
    branches: [{"x": np.abs(_x)}, {"x": -np.abs(_x)}],
    branches_in_a_loop: [{"x": _x}],
    loops_in_a_loop: [{"x": _x}],
    sequences: [{"x": floats(2, 3)}],
    indexing: [{"x": floats(4, 5)}],
    kinds_of_numbers: [{"x": _x, "n": np.arange(5), "flags": _x > 0}],
}


def _made(function, inputs) -> Made:
    return function.to_model_proto(), inputs


for _function, _inputs in _FED.items():
    named(_function.name, lambda f=_function, fed=_inputs: _made(f, fed))
