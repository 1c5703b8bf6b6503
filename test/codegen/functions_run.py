"""Runs functions of floats over the whole range of a type on one target; prints what is far off.

A program of its own, as emulated chips belong to a process:

    python -m test.codegen.functions_run gfx942 f32
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable

import ml_dtypes
import numpy as np
import onnx
from onnx import TensorProto, helper

import mgx_mlir

TYPES = {
    "bf16": (np.dtype(ml_dtypes.bfloat16), TensorProto.BFLOAT16),
    "f16": (np.dtype(np.float16), TensorProto.FLOAT16),
    "f32": (np.dtype(np.float32), TensorProto.FLOAT),
    "f64": (np.dtype(np.float64), TensorProto.DOUBLE),
}
# Units of the last place that a result may be off by. Two roundings may make one of f16 and bf16.
ULPS = {"bf16": 0.6, "f16": 0.6, "f32": 4.0, "f64": 4.0}
_erf = np.vectorize(math.erf, otypes=[np.longdouble])

UNARY: dict[str, Callable[[np.ndarray], np.ndarray]] = {
    "Acos": np.arccos, "Acosh": np.arccosh, "Asinh": np.arcsinh, "Atan": np.arctan,
    "Atanh": np.arctanh, "Ceil": np.ceil, "Cos": np.cos, "Cosh": np.cosh, "Erf": _erf,
    "Exp": np.exp, "Floor": np.floor, "Log": np.log, "Reciprocal": np.reciprocal, "Round": np.rint,
    "Sigmoid": lambda x: 1 / (1 + np.exp(-x)), "Sin": np.sin, "Sinh": np.sinh, "Sqrt": np.sqrt,
    "Tan": np.tan, "Tanh": np.tanh,
}  # fmt: skip
BINARY = {"Mod": np.fmod, "Pow": np.power}
# In one kernel they take the generic path of GPUs; a few take the generators.
GROUPS = ([*UNARY, *BINARY], ["Exp", "Sigmoid"])


def main(target: str, name: str) -> int:
    if target != "cpu":
        from mgx_mlir import emulator

        emulator.enable([target])
    dtype, _ = TYPES[name]
    with np.errstate(all="ignore"):
        x, y = numbers(dtype)
    return sum(checked(target, name, group, x, y) for group in GROUPS)


def checked(target: str, name: str, operators: list[str], x: np.ndarray, y: np.ndarray) -> int:
    """How many of the functions, in one kernel, are far off somewhere."""
    dtype, _ = TYPES[name]
    program = mgx_mlir.compile(model(name, operators, x.size), target=target)
    found = program.run({spec.name: {"x": x, "y": y}[spec.name] for spec in program.inputs})
    failed = 0
    with np.errstate(all="ignore"):
        wide = [a.astype(np.float64).astype(np.longdouble) for a in (x, y)]
        for operator in operators:
            function = UNARY.get(operator)
            want = function(wide[0]) if function else BINARY[operator](*wide)
            wrong = far_off(found[operator], want, dtype, ULPS[name])
            # x86, MLIR's exp and the hardware's make a subnormal result 0; so does a large divisor.
            hardware = operator == "Exp" and name in ("bf16", "f16")
            if target == "cpu" or hardware or operator == "Sigmoid":
                wrong &= ~((np.abs(want) < smallest(dtype)) & (found[operator] == 0))
            if operator == "Erf":  # whose sign of 0 nobody asks for
                wrong &= found[operator] != want
            for i in np.flatnonzero(wrong)[:3]:
                got, given = float(found[operator][i]), (float(x[i]), float(y[i]))
                print(f"{name} {operator} of {given} is {got!r}, wanted {float(want[i])!r}")
            failed += bool(wrong.any())
    return failed


def model(name: str, operators: list[str], size: int) -> onnx.ModelProto:
    """All functions of 'x', or of 'x' and 'y', each a result."""
    kind = TYPES[name][1]
    nodes = [
        helper.make_node(
            o, ["x"] if o in UNARY else ["x", "y"], [o], **({"fmod": 1} if o == "Mod" else {})
        )
        for o in operators
    ]
    names = ("x", "y") if BINARY.keys() & {*operators} else ("x",)
    inputs = [helper.make_tensor_value_info(n, kind, [size]) for n in names]
    results = [helper.make_tensor_value_info(o, kind, [size]) for o in operators]
    graph = helper.make_graph(nodes, "functions", inputs, results)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 22)], ir_version=10)


def numbers(dtype: np.dtype) -> tuple[np.ndarray, np.ndarray]:
    """Bases and exponents: of all magnitudes, near what is special, and what is special."""
    rng = np.random.default_rng(0)
    limits = ml_dtypes.finfo(dtype)
    most = math.log2(float(limits.max))
    sizes = [
        2.0 ** rng.uniform(-most - 8, most, 700),
        10.0 ** rng.uniform(-8, 2, 500),
        rng.uniform(0, 20, 300),
        most * math.log(2) + rng.uniform(-1, 1, 100),
        1 + 10.0 ** rng.uniform(-7, 0, 50),
        1 - 10.0 ** rng.uniform(-7, 0, 50),
        np.pi / 2 * np.arange(1, 100),
        2.0 ** np.arange(0, 60),
        np.arange(10) + 0.5,
    ]
    sizes = np.concatenate(sizes)
    x = sizes * rng.choice([-1, 1], sizes.size)
    y = np.where(rng.random(x.size) < 0.5, rng.integers(-9, 10, x.size), rng.uniform(-9, 9, x.size))
    values = [0.0, 0.5, 1.0, 2.0, 3.0, 7.25, math.inf]
    special = np.array([*values, *(-v for v in values), math.nan, float(limits.max)])
    pairs = np.meshgrid(special, special)
    x, y = (np.concatenate([a, pair.ravel()]) for a, pair in zip((x, y), pairs, strict=True))
    return x.astype(dtype), y.astype(dtype)


def far_off(got: np.ndarray, want: np.ndarray, dtype: np.dtype, ulps: float) -> np.ndarray:
    """Which results are neither close to what is wanted nor the same NaN, infinity or zero."""
    limits = ml_dtypes.finfo(dtype)
    rounded = want.astype(np.float64).astype(dtype).astype(np.longdouble)
    got = got.astype(np.float64).astype(np.longdouble)
    exponent = np.floor(np.log2(np.maximum(np.abs(want), np.longdouble(smallest(dtype)))))
    unit = np.exp2(exponent - limits.nmant)
    near = np.abs(got - want) <= ulps * unit
    same = (got == rounded) | (np.isnan(got) & np.isnan(want))
    # Next to the largest number, rounding may go either way.
    edge = (np.abs(want) > 0.9999999 * np.longdouble(float(limits.max))) & (np.abs(got) > 1)
    sign = (want == 0) & (got == 0) & (np.signbit(got) != np.signbit(want))
    return ~(near | same | edge) | sign


def smallest(dtype: np.dtype) -> float:
    """The smallest normal number."""
    return float(ml_dtypes.finfo(dtype).smallest_normal)


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
