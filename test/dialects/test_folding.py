"""Constants that the folders compute, against numpy."""

import math

import numpy as np
import pytest
from mlir import ir
from mlir.passmanager import PassManager

from mgx_mlir.dialects import context, mgx
from mgx_mlir.dialects.types import DTYPES, element_type, tensor_type


def _folded(build, *arrays: np.ndarray) -> np.ndarray | None:
    """The constant that an op of constants becomes; None where it stays."""
    with context(), ir.Location.unknown():
        module = ir.Module.create()
        with ir.InsertionPoint(module.body):
            kernel = mgx.kernel("k", [], lambda: build(*map(mgx.constant, arrays)))
        PassManager.parse("builtin.module(canonicalize)").run(module.operation)
        kernel = module.body.operations[0]
        returned = kernel.body.blocks[0].operations[-1].operands[0].owner
        return mgx.constant_array(returned).copy() if returned.name == "mgx.constant" else None


POINTS = np.array([0.25, 0.5, 0.75, 0.999], np.float32)
WIDE = np.array([-2.5, -0.5, 0.0, 0.5, 1.5, 7.0], np.float32)
UNARY = {
    "abs": (np.abs, WIDE),
    "acos": (np.arccos, POINTS),
    "acosh": (np.arccosh, 1 + POINTS),
    "asin": (np.arcsin, POINTS),
    "asinh": (np.arcsinh, WIDE),
    "atan": (np.arctan, WIDE),
    "atanh": (np.arctanh, POINTS),
    "ceil": (np.ceil, WIDE),
    "cos": (np.cos, WIDE),
    "cosh": (np.cosh, WIDE),
    "elu": (lambda x: np.where(x > 0, x, np.expm1(x)), WIDE),
    "erf": (np.vectorize(math.erf), WIDE),
    "exp": (np.exp, WIDE),
    "floor": (np.floor, WIDE),
    "leaky_relu": (lambda x: np.where(x > 0, x, np.float32(0.01) * x), WIDE),
    "log": (np.log, POINTS),
    "log1p": (np.log1p, POINTS),
    "log2": (np.log2, POINTS),
    "nearbyint": (np.rint, WIDE),
    "neg": (np.negative, WIDE),
    "recip": (np.reciprocal, POINTS),
    "relu": (lambda x: np.maximum(x, 0), WIDE),
    "rsqrt": (lambda x: 1 / np.sqrt(x), POINTS),
    "sigmoid": (lambda x: 1 / (1 + np.exp(-x)), WIDE),
    "sign": (np.sign, WIDE),
    "sin": (np.sin, WIDE),
    "sinh": (np.sinh, WIDE),
    "sqrt": (np.sqrt, POINTS),
    "tan": (np.tan, WIDE),
    "tanh": (np.tanh, WIDE),
}


@pytest.mark.parametrize("name", UNARY)
def test_unary(name):
    reference, x = UNARY[name]
    expected = reference(x.astype(np.float64)).astype(np.float32)
    np.testing.assert_allclose(_folded(getattr(mgx, name), x), expected, rtol=1e-6)


def test_every_float_unary_is_tested():
    ops = {*mgx.POINTWISE_OPS} - {mgx.NotOp}
    names = {op.OPERATION_NAME.removeprefix("mgx.") for op in ops}
    assert {name for name in names if _takes_one_float(name)} == set(UNARY)


def _takes_one_float(name: str) -> bool:
    with context(), ir.Location.unknown():
        module = ir.Module.create()
        with ir.InsertionPoint(module.body):
            x = mgx.literal("x", tensor_type([2], element_type("float32")))
            try:
                made = getattr(mgx, name)(x)
                return made.owner.verify() and made.type == x.type
            except (TypeError, ir.MLIRError):
                return False


A = np.array([7.5, -7.5, 3.0, -0.5, 9.0], np.float32)
B = np.array([2.0, 2.0, -2.0, 4.0, 3.0], np.float32)
BINARY = {
    "add": np.add,
    "div": np.divide,
    "fmod": np.fmod,
    "max": np.maximum,
    "min": np.minimum,
    "mod": np.mod,
    "mul": np.multiply,
    "prelu": lambda a, b: np.where(a > 0, a, a * b),
    "sqdiff": lambda a, b: (a - b) * (a - b),
    "sub": np.subtract,
}


@pytest.mark.parametrize("name", BINARY)
def test_binary(name):
    np.testing.assert_array_equal(_folded(getattr(mgx, name), A, B), BINARY[name](A, B))


@pytest.mark.parametrize("dtype", [np.int8, np.int32, np.int64, np.uint8, np.uint64])
@pytest.mark.parametrize("name", ["add", "max", "min", "mod", "mul", "pow", "sqdiff", "sub"])
def test_integer_binary(name, dtype):
    a, b = np.array([7, 8, 9, 0], dtype), np.array([2, 3, 5, 4], dtype)
    reference = {**BINARY, "pow": np.power}[name]
    with np.errstate(over="ignore"):
        expected = reference(a, b)
    np.testing.assert_array_equal(_folded(getattr(mgx, name), a, b), expected)


def test_integer_division_truncates():
    a, b = np.array([-7, 7, -7], np.int32), np.array([2, -2, -2], np.int32)
    np.testing.assert_array_equal(_folded(mgx.div, a, b), [-3, -3, 3])
    np.testing.assert_array_equal(_folded(mgx.mod, a, b), np.mod(a, b))
    np.testing.assert_array_equal(_folded(mgx.fmod, a, b), np.fmod(a, b))


@pytest.mark.parametrize("dtype", ["f16", "bf16", "f64"])
def test_results_round_to_the_element_type(dtype):
    wanted = np.dtype(DTYPES[dtype])
    x = np.array([0.1, 1.3, 2.7]).astype(wanted)
    folded = _folded(mgx.exp, x)
    assert folded.dtype == wanted
    np.testing.assert_array_equal(folded, np.exp(x.astype(np.float64)).astype(wanted))


def test_an_overflow_stays():
    assert _folded(mgx.exp, np.array([100.0], np.float16)) is None


def test_many_elements_stay():
    x = np.arange(1025, dtype=np.float32)
    assert _folded(mgx.neg, x) is None
    np.testing.assert_array_equal(_folded(mgx.neg, x[:1024]), -x[:1024])


@pytest.mark.parametrize(
    ("build", "reference"),
    [
        (lambda x: mgx.transpose(x, [2, 0, 1]), lambda x: x.transpose(2, 0, 1)),
        (lambda x: mgx.slice(x, [0, 2], [1, 1], [2, 4]), lambda x: x[1:2, :, 1:4]),
        (lambda x: mgx.step(x, [1, 2], [2, 3]), lambda x: x[:, ::2, ::3]),
        (lambda x: mgx.reverse(x, [0, 2]), lambda x: np.flip(x, (0, 2))),
        (lambda x: mgx.reshape(x, [4, 6]), lambda x: x.reshape(4, 6)),
        (lambda x: mgx.concat([x, x], 1), lambda x: np.concatenate([x, x], 1)),
    ],
)
@pytest.mark.parametrize("dtype", [np.int32, np.float32, np.bool_])
def test_views(build, reference, dtype):
    x = (np.arange(24).reshape(2, 3, 4) % 5).astype(dtype)
    np.testing.assert_array_equal(_folded(build, x), reference(x))
