"""Slices and ranges in loops whose places are those of the loop's counter."""

from __future__ import annotations

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import parser

import mgx_mlir
from mgx_mlir.errors import UnsupportedError
from test.dynamic_models import inputs_of
from test.test_full_dynamic import FULL, check

SIZES = [{"n": 2, "t": 5}, {"n": 1, "t": 1}, {"n": 3, "t": 70}]
# The nodes of a body that make `part`, [n, k], of x [n, t + 3] in trip `at` of t.
PLACED = {
    "a column": "part = Slice(x, at, next, one)",
    "a column, within": "within = Min(wide, next) part = Slice(x, at, within, one)",
    "some columns": "end = Add(at, four) part = Slice(x, at, end, one)",
    "backwards": "back = Sub(size, next) end = Add(back, one) part = Slice(x, back, end, one)",
    "every other": "twice = Mul(at, two) half = Div(twice, two) part = Slice(x, half, next, one)",
    "a row and a column": "s = Concat <axis = 0> (zero, at) e = Concat <axis = 0> (one, next) "
    "a = Constant <value_ints = [0, 1]> () row = Slice(x, s, e, a) part = Expand(row, shape)",
    "counted": "f = Cast <to = 1> (at) g = Add(f, flat) h = Cast <to = 7> (g) "
    "part = Slice(x, at, h, one)",
    "a range": "s = Squeeze(at) m = Add(at, four) e = Squeeze(m) i = Range(s, e, d) "
    "part = Gather <axis = 1> (x, i)",
}
# The same where the size is another in some trips.
OF_OTHER_SIZES = {
    "up to the counter": "part = Slice(x, zero, next, one)",
    "over the end": "l = Constant <value_ints = [5]> () end = Add(at, l) "
    "part = Slice(x, at, end, one)",
    "before the start": "s = Sub(at, one) part = Slice(x, s, at, one)",
    "a longer range": "s = Squeeze(zero) e = Squeeze(next) i = Range(s, e, d) "
    "part = Gather <axis = 1> (x, i)",
}


def looping(part: str, trips: str = "size", inner: bool = False) -> onnx.ModelProto:
    """Sums of the parts of x, each less the one before; `inner`: n times, by a loop inside."""
    total = f"{part} sums = ReduceSum <keepdims = 0> (part, one)"
    if inner:
        total = f"""
            go2 = Constant <value_int = 1> ()
            go3 = Cast <to = 9> (go2)
            rows = Shape <end = 1> (x)
            times = Squeeze(rows)
            start = Mul(h1, nil)
            sums = Loop <body = inner (int64 j, bool going, float[n] s1) => (go4, s2) {{
                {part}
                more = ReduceSum <keepdims = 0> (part, one)
                s2 = Add(s1, more)
                go4 = Identity(going)
            }}> (times, go3, start)
        """
    return parser.parse_model(f"""
        <ir_version: 9, opset_import: ["" : 17]>
        g (float[n, t] short) => (h, all)
        <int64 most = {{1000}}, int64[1] zero = {{0}}, int64[1] one = {{1}}, int64[1] two = {{2}},
         int64[1] four = {{4}}, float[1] flat = {{1}}, float nil = {{0}}, int64 d = {{1}},
         int64[4] pads = {{0, 0, 0, 3}}, int64[1] few = {{3}}>
        {{
            x = Pad(short, pads)
            shape = Shape(x)
            size = Shape <start = 1, end = 2> (short)
            wide = Shape <start = 1, end = 2> (x)
            h0 = ReduceMax <keepdims = 0, axes = [1]> (x)
            first = Less(zero, {trips})
            k, h, all = Loop <body = body (
                int64 trip, bool[1] go, int64[1] at, float[n] h1
            ) => (again, next, h2, y) {{
                next = Add(at, one)
                {total}
                h2 = Sub(sums, h1)
                y = Identity(h2)
                again = Less(next, {trips})
            }}> (most, first, zero, h0)
        }}
    """)


@pytest.mark.parametrize("inner", [False, True], ids=["", "in a loop of its own"])
@pytest.mark.parametrize("name", PLACED)
def test_a_part_at_a_counter_is_compiled_for_any_sizes(name: str, inner: bool) -> None:
    model = looping(PLACED[name], inner=inner)
    check(model, mgx_mlir.compile(model, "cpu", FULL), SIZES)


@pytest.mark.parametrize("name", OF_OTHER_SIZES)
def test_a_part_of_another_size_in_some_trips_is_right_too(name: str) -> None:
    model = looping(OF_OTHER_SIZES[name])
    session = onnxruntime.InferenceSession(model.SerializeToString())
    program = mgx_mlir.Model(model, "cpu")
    for sizes in SIZES:
        inputs = inputs_of(model, sizes)
        for found, wanted in zip(
            program.run(inputs).values(), session.run(None, inputs), strict=True
        ):
            np.testing.assert_allclose(found, wanted, rtol=1e-4, atol=1e-5)


def test_more_trips_than_columns_do_not_read_beyond_them() -> None:
    model = looping(PLACED["a column"], trips="many")
    model.graph.initializer.append(onnx.numpy_helper.from_array(np.array([900]), "many"))
    with pytest.raises(UnsupportedError, match="Slice"):
        mgx_mlir.compile(model, "cpu", FULL)
