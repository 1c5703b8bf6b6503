"""Loops over the bags of an embedding, in both forms of PyTorch's exporters."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import parser

from mgx_mlir import Model
from mgx_mlir.importer.loading import load
from mgx_mlir.importer.prepare import prepare
from test.importer.agreement import floats

CONSTANTS = """
    zero = Constant <value_int = 0> () one = Constant <value_int = 1> ()
    zeros = Constant <value_ints = [0]> () ones = Constant <value_ints = [1]> ()
    twos = Constant <value_ints = [2]> () rest = Constant <value_ints = [-1]> ()
    end = Constant <value_ints = [9223372036854775807]> () yes = Constant <value = bool {1}> ()
"""


def of_trips(reduction: str = "ReduceSum", weighted: bool = False, **changes: str) -> str:
    """A trip gathers the rows of its bag from the table, and reduces them."""
    forms = {"first": "1", "begin": "all", "keep": "0"} | changes
    scaled = "f = Slice(w, u, v, zeros) g = Unsqueeze(f, ones) q = Mul(r, g)"
    return f"""
        <ir_version: 9, opset_import: ["" : 18]>
        bags (int64[n] ids, int64[b] offsets, float[n] w, float[20, 6] table) => (float[p, q] y) {{
            {CONSTANTS}
            size = Shape(ids) all = Concat <axis = 0> (offsets, size)
            k = Constant <value_ints = [{forms["first"]}]> ()
            ends = Slice(all, k, end, zeros, ones)
            m = Shape(ends) trips = Gather(m, zero)
            y = Loop (trips, yes) <body = one (int64 i, bool c) => (bool d, float[s] z) {{
                s = Gather({forms["begin"]}, i) t = Gather(ends, i)
                u = Unsqueeze(s, zeros) v = Unsqueeze(t, zeros)
                part = Slice(ids, u, v, zeros) r = Gather(table, part)
                {scaled if weighted else "q = Identity(r)"}
                z = {reduction} <keepdims = {forms["keep"]}> (q, zeros) d = Cast <to = 9> (yes)
            }}>
        }}"""


def of_sequence(reduction: str = "ReduceSum", last: bool = False, with_end: bool = False) -> str:
    """A trip appends the sum of its bag to a sequence, or zeros."""
    body = f"rows = Slice(scaled, s, t) r = {reduction} <keepdims = 1> (rows, zeros)"
    if last:
        body = f"""
            before = Sub(count, one) final = Equal(i, before)
            rows = If (final) <
                then_branch = a () => (float[e, 6] f) {{ f = Slice(scaled, s, size) }},
                else_branch = b () => (float[e, 6] g) {{ g = Slice(scaled, s, t) }}>
            r = {reduction} <keepdims = 1> (rows, zeros)"""
    ends = "all = Identity(offsets) whole = Size(offsets) count = Sub(whole, one)"
    added = "all = Concat <axis = 0> (offsets, size) count = Size(offsets)"
    return f"""
        <ir_version: 9, opset_import: ["" : 18]>
        bags (int64[n] ids, int64[b] offsets, float[n] w, float[20, 6] table) => (float[p, q] y) {{
            {CONSTANTS}
            size = Shape(ids) {ends if with_end else added}
            rows_of = Gather(table, ids) column = Unsqueeze(w, ones) scaled = Mul(rows_of, column)
            empty = SequenceEmpty() go = Less(zero, count)
            made, at = Loop (, go, empty, zero) <body = one (int64 trip, bool c, seq(float) h,
                    int64 i) => (bool d, seq(float) l, int64 j) {{
                k = Reshape(i, rest) o = CastLike(ones, k) n = Add(k, o) s = Slice(all, k, n)
                x = CastLike(twos, k) m = Add(k, x) t = Slice(all, n, m) same = Equal(s, t)
                row = If (same) <then_branch = e () => (float[1, 6] z) {{
                    z = Constant <value = float[1, 6] {{0, 0, 0, 0, 0, 0}}> () }},
                    else_branch = f () => (float[1, 6] r) {{ {body} }}>
                l = SequenceInsert(h, row) j = Add(i, one) d = Less(j, count)
            }}>
            y = ConcatFromSequence <axis = 0> (made)
        }}"""


def inputs_of(points: int, bags: int, with_end: bool = False) -> dict[str, Any]:
    rng = np.random.default_rng(points)
    offsets = np.sort(rng.integers(0, points + 1, bags))
    offsets[0] = 0
    if with_end:
        offsets[-1] = points
    return {"ids": rng.integers(0, 20, points), "offsets": offsets, "w": floats(points),
            "table": floats(20, 6, seed=1)}  # fmt: skip


FORMS = {
    **{f"trips, {r}": (of_trips(r), False) for r in ("ReduceSum", "ReduceMean", "ReduceMax")},
    "trips, with factors": (of_trips(weighted=True), False),
    "a sequence": (of_sequence(), False),
    "a sequence of largest": (of_sequence("ReduceMax", last=True), False),
    "a sequence with the end": (of_sequence(with_end=True), True),
}
# Loops that look alike, and do other things.
OTHERS = {
    "rows of another start": (of_trips(begin="ends"), False),
    "from the second bag on": (of_trips(first="2"), False),
    "one row is kept": (of_trips(keep="1").replace("float[p, q] y", "float[p, o, q] y"), False),
}


def nodes_of(model: onnx.ModelProto) -> list[str]:
    source = load(model)
    prepare(source, {}, {}, None)
    return [node.op_type for node in source.model.graph.node]


@pytest.mark.every(3)
@pytest.mark.parametrize("target", ["cpu", "gfx942"])
@pytest.mark.parametrize("name", FORMS)
def test_all_bags_are_one_program(name: str, target: str) -> None:
    text, with_end = FORMS[name]
    model = parser.parse_model(text)
    assert "Bags" in nodes_of(model)
    session = onnxruntime.InferenceSession(model.SerializeToString())
    ours = Model(model, target=target)
    for points, bags in ((15, 4), (9, 3), (500, 60)):
        inputs = inputs_of(points, bags, with_end)
        (wanted,) = session.run(None, inputs)
        np.testing.assert_allclose(ours.run(inputs)["y"], wanted, rtol=1e-4, atol=1e-5)
    assert (ours.compiled, ours.host_nodes) == (1, [])


@pytest.mark.parametrize("name", OTHERS)
def test_other_loops_stay(name: str) -> None:
    text, with_end = OTHERS[name]
    model = parser.parse_model(text)
    assert "Bags" not in nodes_of(model)
    inputs = inputs_of(15, 4, with_end)
    (wanted,) = onnxruntime.InferenceSession(model.SerializeToString()).run(None, inputs)
    np.testing.assert_allclose(Model(model).run(inputs)["y"], wanted, rtol=1e-4, atol=1e-5)
