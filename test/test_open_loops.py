"""Loops that count up to an open size, as frameworks with `while` export recurrent layers."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from onnx import parser

import mgx_mlir
from mgx_mlir.compiler import CompileOptions
from mgx_mlir.errors import UsageError
from test.test_full_dynamic import FULL, check

SIZES = [{"n": 2, "t": 5}, {"n": 1, "t": 1}, {"n": 3, "t": 70}]
ENDLESS = "int64 most = {9223372036854775807}"

# Conditions after a trip: `next` is the counter then, `size` the number of steps.
CONDITIONS = {
    "less": "again = Less(next, size)",
    "greater": "again = Greater(size, next)",
    "not past": "p = GreaterOrEqual(next, size) again = Not(p)",
    "at most the last": "l = Sub(size, one) again = LessOrEqual(next, l)",
    "two of them": "p = Less(next, size) q = Less(trips, size) again = And(p, q)",
    "as a number": "p = Less(next, size) q = Cast <to = 6> (p) again = Cast <to = 9> (q)",
    "as floats": "p = Cast <to = 1> (next) q = Cast <to = 1> (size) again = Less(p, q)",
    "not there yet": "p = Equal(next, size) again = Not(p)",
}


def counting(
    condition: str,
    most: str = ENDLESS,
    count: str = "most",
    kept: str = "",
    start: int = 0,
    first: str = "first = Less(zero, size)",
) -> onnx.ModelProto:
    """Sums of rows so far, stacked. `kept` is a carried tensor that grows by concatenation."""
    more = {
        "": ("", "", "", "stacked"),
        "behind": ("float[z, n] made", "made2", "made2 = Concat <axis = 0> (made, row)", "made3"),
        "before": ("float[z, n] made", "made2", "made2 = Concat <axis = 0> (row, made)", "made3"),
    }[kept]
    argument, result, node, last = more
    empty = "rows = Concat <axis = 0> (nothing, batch) empty = Expand(zeros, rows)" if kept else ""
    text = f"""
        <ir_version: 9, opset_import: ["" : 17]>
        g (float[n, t] x) => (y, last)
        <{most}, int32 zero = {{{start}}}, int32 one = {{1}}, int64[1] nothing = {{0}},
         float[1] f = {{0}}, float[1, 1] zeros = {{0}}>
        {{
            columns = Transpose <perm = [1, 0]> (x)
            shape = Shape <start = 0, end = 1> (columns)
            sized = Cast <to = 6> (shape)
            size = Squeeze(sized)
            batch = Shape <start = 0, end = 1> (x)
            h0 = Expand(f, batch)
            {empty}
            {first}
            last, unused, h, {last} = Loop <body = body (
                int64 i, bool go, int32 at, int32 unchanged, float[n] h1
                {", " + argument if argument else ""}
            ) => (again, next, same, h2, {result or "row"}) {{
                same = Identity(unchanged)
                wide = Cast <to = 7> (at)
                column = Gather <axis = 0> (columns, wide)
                h2 = Add(h1, column)
                next = Add(at, one)
                short = Cast <to = 6> (i)
                trips = Add(short, one)
                axes = Constant <value_ints = [0]> ()
                {"row = Unsqueeze(h2, axes)" if kept else "row = Identity(h2)"}
                {node}
                {condition}
            }}> ({count}, first, zero, one, h0 {", empty" if kept else ""})
            y = Identity({last})
        }}
    """
    return parser.parse_model(text)


@pytest.mark.parametrize("name", CONDITIONS)
def test_a_condition_on_the_counter_gives_the_trips(name: str) -> None:
    model = counting(CONDITIONS[name])
    check(model, mgx_mlir.compile(model, "cpu", FULL), SIZES)


@pytest.mark.parametrize(
    "model",
    [
        counting(CONDITIONS["less"], "int32 unused", ""),
        counting(CONDITIONS["less"], "int64 most = {2147483647}", start=1),
        counting(CONDITIONS["less"], "int64 most = {3}"),
        counting(CONDITIONS["less"], kept="behind"),
        counting(CONDITIONS["greater"], kept="before"),
        counting(
            CONDITIONS["as floats"],
            first="nil = Squeeze(f) large = Cast <to = 1> (size) first = Less(nil, large)",
        ),
    ],
    ids=["no number", "from the second", "or three", "rows behind", "rows before", "floats"],
)
def test_loops_end_with_a_size(model: onnx.ModelProto) -> None:
    sizes = [{**size, "t": size["t"] + 1} for size in SIZES]
    check(model, mgx_mlir.compile(model, "cpu", FULL), sizes)


def test_a_new_length_compiles_nothing() -> None:
    model = mgx_mlir.Model(counting(CONDITIONS["less"]))
    for length in (5, 1, 12):
        x = np.random.default_rng(length).normal(size=(2, length)).astype(np.float32)
        np.testing.assert_allclose(model.run({"x": x})["y"], np.cumsum(x, 1).T, rtol=1e-4)
    assert model.compiled == 1


def test_a_carried_value_may_have_its_size_in_runs_that_are_long_enough() -> None:
    model = parser.parse_model("""
        <ir_version: 9, opset_import: ["" : 17]>
        g (float[n, t] x) => (y, last)
        <int64[1] zero = {0}, int64[1] three = {3}, int64[1] one = {1},
         int64[1] end = {9223372036854775807}>
        {
            first = Slice(x, zero, three, one)
            rest = Slice(x, three, end, one)
            last, y = Scan <num_scan_inputs = 1, scan_input_axes = [1], scan_output_axes = [1],
                body = body (float[n, 3] kept, float[n] next) => (after, window) {
                    column = Unsqueeze(next, one)
                    window = Concat <axis = 1> (kept, column)
                    after = Slice(window, one, end, one)
                }> (first, rest)
        }
    """)
    program = mgx_mlir.compile(model, "cpu", FULL)
    check(model, program, [{"n": 2, "t": 5}, {"n": 1, "t": 4}, {"n": 3, "t": 70}])
    with pytest.raises(UsageError):
        program.run({"x": np.zeros((2, 2), np.float32)})


@pytest.mark.parametrize(
    "condition", ["Greater(next, zero)", "Less(next, size)"], ids=["sign", "size"]
)
def test_a_counter_of_eight_bits_wraps(condition: str) -> None:
    """Behind 127 comes -128; a size of 200 is -56 in eight bits."""
    model = parser.parse_model(f"""
        <ir_version: 9, opset_import: ["" : 17]>
        g (float[n] x) => (last, trips)
        <int8 zero = {{0}}, int8 one = {{1}}, bool yes = {{1}}, int64 none = {{0}},
         int64 each = {{1}}, int64 most = {{300}}>
        {{
            sizes = Shape(x)
            long = Squeeze(sizes)
            size = Cast <to = 3> (long)
            last, trips = Loop <body = body (int64 i, bool go, int8 at, int64 before) => (
                again, next, after
            ) {{
                next = Add(at, one)
                after = Add(before, each)
                again = {condition}
            }}> (most, yes, zero, none)
        }}
    """)
    program = mgx_mlir.compile(model, "cpu", FULL)
    for size in (5, 200):
        results = program.run({"x": np.zeros(size, np.float32)})
        trips = 128 if "zero" in condition else {5: 5, 200: 1}[size]
        assert results["trips"] == trips
        assert results["last"] == np.int64(trips).astype(np.int8)


@pytest.mark.parametrize("target", ["cpu", "gfx942"])
@pytest.mark.parametrize("axis", [0, 1])
def test_rows_that_steps_multiply_in_turn_are_one_product(axis: int, target: str) -> None:
    x = ("t, m", "m, t")[axis]
    model = parser.parse_model(f"""
        <ir_version: 9, opset_import: ["" : 17]>
        g (float[{x}, 6] x, float[m, 5] h, float[6, 5] w, float[5, 5] r) => (last, y)
        {{
            last, y = Scan <num_scan_inputs = 1, scan_input_axes = [{axis}],
                body = body (float[m, 5] before, float[m, 6] row) => (after, all) {{
                    p = MatMul(row, w)
                    q = MatMul(before, r)
                    s = Add(p, q)
                    after = Tanh(s)
                    all = Identity(after)
                }}> (h, x)
        }}
    """)
    check(model, mgx_mlir.compile(model, target, FULL), [{"t": 7, "m": 3}, {"t": 1, "m": 2}])
    given = CompileOptions(dim_params={"t": 40, "m": 1})
    check(model, mgx_mlir.compile(model, target, given), [{"t": 40, "m": 1}])


def test_trips_fewer_than_rows_are_none_of_none() -> None:
    model = parser.parse_model("""
        <ir_version: 9, opset_import: ["" : 17]>
        g (float[t, 5] x, float[5] h) => (last, number, stacked)
        <int64 zero = {0}, int64 one = {1}>
        {
            size = Shape <start = 0, end = 1> (x)
            all = Squeeze(size)
            trips = Sub(all, one)
            last, number, stacked = Loop <
                body = body (int64 i, bool go, float[5] before, int64 at) => (again, after, next, y)
                {
                    again = Identity(go)
                    row = Gather <axis = 0> (x, i)
                    after = Add(before, row)
                    next = Add(at, one)
                    y = Neg(after)
                }> (trips, , h, zero)
        }
    """)
    for target in ("cpu", "gfx942"):
        check(model, mgx_mlir.compile(model, target, FULL), [{"t": t} for t in (0, 1, 4)])
