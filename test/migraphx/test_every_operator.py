"""MIGraphX's operators with its attributes, all in one program, against numpy."""

from __future__ import annotations

import math

import numpy as np
import pytest

from mgx_mlir import migraphx
from mgx_mlir.errors import UsageError

from .test_programs import results

X = np.array([[0.3, -0.7, 0.9], [-0.2, 0.5, 0.1]], np.float32)
Y = np.array([[0.4, 0.6, -0.5], [0.3, 0.5, 2.0]], np.float32)
P, BIG = np.abs(X), 1 + np.abs(X)
WHOLE = np.array([[7, -7, 5], [3, -2, 9]], np.int32)
PARTS = np.array([[2, 3, -3], [-2, 5, 4]], np.int32)
BITS = np.array([[True, False, True], [False, False, True]])
BYTES = np.array([[3, -4], [5, 6], [-7, 1]], np.int8)
ROW = np.array([1, 2, 3], np.float32)
EVEN = np.array([[0.5, 1.5, -2.5], [2.4, -0.6, 3.5]], np.float32)
ERF = np.vectorize(math.erf)(X).astype(np.float32)
IMAGE = np.arange(16, dtype=np.float32).reshape(1, 1, 4, 4)
INDICES = np.array([[1, 0, 1]], np.int64)
PLACES = np.array([[1, 2], [0, 0], [1, 2]], np.int64)
EXP = np.exp(X)
SOFTMAX = EXP / EXP.sum(1, keepdims=True)
SHIFTS = [(x, y) for x in range(2) for y in range(2)]


def scattered(update, along):
    """X after the updates ROW, at INDICES along dimension 0 or at PLACES."""
    found = X.copy()
    rows = enumerate(INDICES[0]) if along else None
    places = [(i, n) for n, i in rows] if rows is not None else [tuple(p) for p in PLACES]
    for place, value in zip(places, ROW, strict=True):
        found[place] = update(found[place], value)
    return found


def upsampled():
    """A convolution backwards of IMAGE with stride 2 by a 2x2 kernel of 1 to 4."""
    found = np.zeros((1, 1, 8, 8), np.float32)
    for number, (i, j) in enumerate(SHIFTS, 1):
        found[..., i::2, j::2] = number * IMAGE
    return found


UPDATES = {
    "none": lambda a, b: b, "add": lambda a, b: a + b, "mul": lambda a, b: a * b,
    "min": min, "max": max,
}  # fmt: skip
KERNEL = np.arange(1, 5, dtype=np.float32).reshape(1, 1, 2, 2)
UNARY = {
    "acos": np.arccos, "asin": np.arcsin, "asinh": np.arcsinh, "atan": np.arctan,
    "atanh": np.arctanh, "ceil": np.ceil, "cos": np.cos, "cosh": np.cosh, "exp": np.exp,
    "floor": np.floor, "recip": np.reciprocal, "sign": np.sign, "sin": np.sin, "sinh": np.sinh,
    "tan": np.tan,
}  # fmt: skip
POSITIVE = {
    "log": np.log, "log2": np.log2, "rsqrt": lambda x: 1 / np.sqrt(x), "sqrt": np.sqrt,
}  # fmt: skip
BINARY = {
    "div": np.divide, "min": np.minimum, "sqdiff": lambda a, b: (a - b) ** 2,
    "prelu": lambda a, b: np.where(a < 0, a * b, a),
    "equal": lambda a, b: (a == b).astype(np.float32),
}  # fmt: skip
LOGICAL = {
    "logical_and": np.logical_and, "logical_or": np.logical_or, "logical_xor": np.logical_xor,
}  # fmt: skip
REDUCED = {"max": np.max, "mean": np.mean, "min": np.min, "prod": np.prod}
# Name, attributes, arrays, the result.
ROWS = [
    *((name, {}, [X], f(X)) for name, f in UNARY.items()),
    *((name, {}, [P], f(P)) for name, f in POSITIVE.items()),
    *((name, {}, [X, Y], f(X, Y)) for name, f in BINARY.items()),
    *((name, {}, [BITS, BITS[::-1].copy()], f(BITS, BITS[::-1])) for name, f in LOGICAL.items()),
    *((f"reduce_{name}", {"axes": [0]}, [X], f(X, axis=0, keepdims=True))
      for name, f in REDUCED.items()),
    *((f"scatter_{name}", {"axis": 0}, [X, INDICES, ROW[None]], scattered(f, True))
      for name, f in UPDATES.items()),
    *((f"scatternd_{name}", {}, [X, PLACES, ROW], scattered(f, False))
      for name, f in UPDATES.items() if name != "none"),
    ("scatternd_none", {}, [X, PLACES[:2], ROW[:2]],
     np.array([[2, *X[0, 1:]], [*X[1, :2], 1]], np.float32)),
    ("acosh", {}, [BIG], np.arccosh(BIG)),
    ("argmin", {"axis": 1}, [X], X.argmin(1)[:, None]),
    ("bit_cast", {"target_type": "int32_type"}, [X], X.view(np.int32)),
    ("bitwise_and", {}, [WHOLE, PARTS], WHOLE & PARTS),
    ("broadcast", {"axis": 1, "out_lens": [2, 3]}, [ROW], np.broadcast_to(ROW, (2, 3))),
    ("concat", {"axis": 1}, [X, Y], np.concatenate([X, Y], 1)),
    ("contiguous", {}, [X], X),
    ("convolution_backwards", {"stride": [2, 2], "padding": [0, 0]}, [IMAGE, KERNEL], upsampled()),
    ("elu", {"alpha": 0.5}, [X], np.where(X > 0, X, 0.5 * (EXP - 1))),
    ("erf", {}, [X], ERF),
    ("fmod", {}, [WHOLE, PARTS], np.fmod(WHOLE, PARTS)),
    ("gather", {"axis": 1}, [X, INDICES[0]], X[:, INDICES[0]]),
    ("gathernd", {}, [X, PLACES], X[tuple(PLACES.T)]),
    ("isinf", {}, [X * np.float32([np.inf, 1, 1])], np.array([[True, False, False]] * 2)),
    ("layout", {"permutation": [1, 0]}, [X], X),
    ("leaky_relu", {"alpha": 0.1}, [X], np.where(X > 0, X, np.float32(0.1) * X)),
    ("logsoftmax", {"axis": 1}, [X], np.log(SOFTMAX)),
    ("lrn", {"alpha": 0.3, "beta": 0.5, "bias": 1.0, "size": 1}, [X[:, :, None, None]],
     (X / np.sqrt(1 + np.float32(0.3) * X * X))[:, :, None, None]),
    ("mod", {}, [WHOLE, PARTS], np.mod(WHOLE, PARTS)),
    ("nearbyint", {}, [EVEN], np.rint(EVEN)),
    ("not", {}, [BITS], ~BITS),
    ("pow", {}, [P, Y], P**Y),
    ("prefix_scan_sum", {"axis": 1, "exclusive": False, "reverse": False}, [X], X.cumsum(1)),
    ("quant_convolution", {"padding": [0, 0], "stride": [1, 1]},
     [BYTES.reshape(1, 3, 2, 1), BYTES.reshape(2, 3, 1, 1)],
     np.einsum("chw,oc->ohw", BYTES.reshape(3, 2, 1).astype(np.int32),
               BYTES.reshape(2, 3).astype(np.int32))[None]),
    ("quant_dot", {}, [BYTES, BYTES.T.copy()], BYTES.astype(np.int32) @ BYTES.T.astype(np.int32)),
    ("reduce_all", {"axes": [1]}, [BITS], BITS.all(1, keepdims=True)),
    ("reduce_any", {"axes": [1]}, [BITS], BITS.any(1, keepdims=True)),
    ("reshape_lazy", {"dims": [3, -1]}, [X], X.reshape(3, 2)),
    ("resize", {"sizes": [1, 1, 8, 8], "mode": "nearest", "nearest_mode": "floor",
                "coordinate_transformation_mode": "asymmetric"}, [IMAGE],
     IMAGE.repeat(2, 2).repeat(2, 3)),
    ("scalar", {"scalar_bcst_dims": [2, 2]}, [ROW[:1]], np.ones((2, 2), np.float32)),
    ("softmax", {"axis": 1}, [X], SOFTMAX),
]  # fmt: skip


@pytest.mark.parametrize("target", ["ref", "cpu"])
def test_operators_are_those_of_numpy(target):
    p = migraphx.program()
    m = p.get_main_module()
    made, given = [], {}
    for number, (name, attributes, arrays, _) in enumerate(ROWS):
        arguments = {f"{name}{number}_{i}": np.ascontiguousarray(a) for i, a in enumerate(arrays)}
        given |= arguments
        inputs = [m.add_parameter(n, migraphx.argument(a).get_shape())
                  for n, a in arguments.items()]  # fmt: skip
        made.append(m.add_instruction(migraphx.op(name, **attributes), inputs))
    m.add_return(made)
    for (name, *_, expected), found in zip(ROWS, results(p, target, **given), strict=True):
        assert found.dtype == np.asarray(expected).dtype, name
        np.testing.assert_allclose(found, expected, rtol=2e-5, atol=1e-6, err_msg=name)


def test_sizes_are_tensors_too():
    p = migraphx.program()
    m = p.get_main_module()
    x = m.add_parameter("x", migraphx.shape(lens=[2, 3]))
    sizes = m.add_instruction(migraphx.op("dimensions_of", start=0, end=2), [x])
    wide = m.add_instruction(
        migraphx.op("broadcast_with_dims"), [x, m.add_literal(np.array([4, 2, 3]))]
    )
    m.add_return([sizes, wide])
    found = results(p, x=X)
    assert found[0].tolist() == [2, 3]
    np.testing.assert_array_equal(found[1], np.broadcast_to(X, (4, 2, 3)))


def test_more_macros_are_those_of_numpy():
    p = migraphx.program()
    m = p.get_main_module()
    x = m.add_parameter("x", migraphx.shape(lens=[2, 3]))
    bytes_ = [m.add_literal(a) for a in (BYTES, BYTES.T.copy())]
    erf = X * (1 + np.vectorize(math.erf)(X / math.sqrt(2))) / 2
    tanh = X * (1 + np.tanh(math.sqrt(2 / math.pi) * (X + 0.044715 * X**3))) / 2
    rows = [
        (migraphx.macro("celu", alpha=0.5), [x], np.where(X > 0, X, 0.5 * (np.exp(X / 0.5) - 1))),
        (migraphx.macro("gelu_erf"), [x], erf),
        (migraphx.macro("gelu_quick", alpha=1.702), [x], X / (1 + np.exp(-1.702 * X))),
        (migraphx.macro("gelu_tanh"), [x], tanh),
        (migraphx.macro("mean_variance_normalization", axes=[1]), [x],
         (X - X.mean(1, keepdims=True)) / X.std(1, keepdims=True)),
        (migraphx.macro("quant_dot"), bytes_, BYTES.astype(np.int32) @ BYTES.T),
    ]  # fmt: skip
    made = [m.add_macro(macro, args)[0] for macro, args, _ in rows]
    (first,) = m.insert_macro(made[0], migraphx.macro("gelu_erf"), [x])
    m.add_return([*made, first])
    found = results(p, x=X)
    for (macro, _, expected), one in zip([*rows, rows[1]], found, strict=True):
        np.testing.assert_allclose(one, expected, rtol=1e-4, atol=1e-5, err_msg=macro.name())


@pytest.mark.parametrize("interleaved", [False, True])
@pytest.mark.parametrize("starts", [[[1, 3], [0, 2]], [1]])
def test_rotations_are_at_the_positions(interleaved, starts):
    """A position each, or the first of all; operands in MIGraphX's order."""
    rng = np.random.default_rng(0)
    x, angles = rng.normal(size=(2, 3, 2, 8)).astype("f4"), rng.normal(size=(6, 4))
    p = migraphx.program()
    m = p.get_main_module()
    given = m.add_parameter("x", migraphx.shape(lens=x.shape))
    caches = [m.add_literal(f(angles).astype("f4")) for f in (np.cos, np.sin)]
    rotation = migraphx.macro("rotary_embedding", interleaved=interleaved)
    m.add_return(m.add_macro(rotation, [given, m.add_literal(np.array(starts)), *caches]))
    places = np.array(starts) if len(starts) > 1 else np.array([[1, 2], [1, 2]])
    a, b = (x[..., 0::2], x[..., 1::2]) if interleaved else (x[..., :4], x[..., 4:])
    turned = (a + 1j * b) * np.exp(1j * angles[places][:, None])
    parts = [turned.real, turned.imag]
    expected = np.stack(parts, -1).reshape(x.shape) if interleaved else np.concatenate(parts, -1)
    np.testing.assert_allclose(results(p, x=x)[0], expected, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize(
    ("name", "attributes", "operands", "expected"),
    [
        ("gelu_split", {}, [np.array([[2.0, 1.0], [3.0, 0.0]], "f4")], [[[2 * 0.8413447], [0]]]),
        ("bias_uint8", {"has_bias": True}, [np.array([130, 255], "u1"), np.array([128], "u1")],
         [[2, 127], [2, 127]]),
        ("bias_uint8", {}, [np.array([130, 0], "u1"), np.array([7], "u1")], [[2, -128]] * 2),
        ("bias_uint8", {"has_bias": True}, [np.array([5, -3], "i1"), np.array([2], "i1")],
         [[5, -3], [3, -5]]),
        ("sub", {"broadcasted_axis": 0}, [np.arange(3, dtype="f4"), np.ones((3, 2), "f4")], None),
        *((name, {}, [X[0], X], None) for name in ("add", "mul", "div", "sub", "sqdiff")),
        ("pow", {}, [np.abs(X) + 1, X[:, :1]], None),
        ("prelu", {}, [X, np.full((1, 3), 0.5, "f4")], [np.where(X > 0, X, X / 2)]),
        *((name, {}, [X > 0, X[0] > 0], None) for name in
          ("logical_and", "logical_or", "logical_xor")),
        ("bitwise_and", {}, [np.array([[6], [5]]), np.array([3, 4])], [[[2, 4], [1, 4]]]),
    ],
)  # fmt: skip
def test_macros_of_several_operators(name, attributes, operands, expected):
    p = migraphx.program()
    m = p.get_main_module()
    given = [
        m.add_parameter(f"x{i}", migraphx.argument(x).get_shape()) for i, x in enumerate(operands)
    ]
    m.add_return(m.add_macro(migraphx.macro(name, **attributes), given))
    if expected is None:
        function = {"div": np.divide, "mul": np.multiply, "pow": np.power, "sub": np.subtract,
                    "sqdiff": lambda a, b: (a - b) ** 2}.get(name) or getattr(np, name)  # fmt: skip
        a, b = operands
        expected = [function(b, a[:, None]) if attributes else function(a, b)]
    found = results(p, **{f"x{i}": x for i, x in enumerate(operands)})
    for one, wanted in zip(found, expected, strict=True):
        np.testing.assert_allclose(one, wanted, rtol=1e-5)


def test_macros_name_what_does_not_fit():
    m = migraphx.program().get_main_module()
    x = m.add_parameter("x", migraphx.shape(lens=[2, 3]))
    with pytest.raises(UsageError, match=r"gelu_split.*no halves"):
        m.add_macro(migraphx.macro("gelu_split"), [x])
    with pytest.raises(UsageError, match="has no attribute 'axis'"):
        m.add_macro(migraphx.macro("add", axis=1), [x, x])
