"""Loops in all four forms: with and without a number of trips, with and without a condition."""

from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np
import onnx
import onnxruntime
from onnx import parser

# The body decides on another trip: by the counter, by an input, by the carried value, or not.
AGAIN = {
    "by the counter": "again = Less(i, three)",
    "by an input": "again = Less(i, limit)",
    "by the value": "s = ReduceMax <keepdims: int = 0> (w) again = Less(s, eight)",
    "always": "t = Constant <value: tensor = bool {1}> () again = Identity(t)",
    "as before": "again = Identity(go)",
}
CASES = [
    case
    for case in product((None, 10, 0), (None, True, False), AGAIN, (True, False), (True, False))
    # These never end.
    if case[0] is not None or case[1] is False or case[2] not in ("always", "as before")
]
FEEDS = {"x": np.array([0, 1], np.float32), "limit": np.array(3)}


def loop_model(
    trips: int | None, condition: bool | None, again: str, known: bool, stacked: bool
) -> tuple[onnx.ModelProto, dict[str, np.ndarray]]:
    """A loop that adds its counter to x; with `stacked`, also the values after each trip.

    `known`: number and condition are constants, else inputs. None is an absent one.
    """
    given: dict[str, Any] = {}
    if trips is not None:
        given["trips"] = np.array(trips)
    if condition is not None:
        given["condition"] = np.array(condition)
    types = {"trips": "int64", "condition": "bool"}
    inputs = "".join(f", {types[n]} {n}" for n in given if not known)
    constants = "".join(
        f", {types[n]} {n} = {{{int(a)}}}" for n, a in given.items() if known
    ).removeprefix(", ")
    rows = ", float[r, 2] rows" if stacked else ""
    model = parser.parse_model(f"""<ir_version: 9, opset_import: ["": 18]>
        g (float[2] x, int64 limit{inputs}) => (float[2] y{rows})
        <int64 three = {{3}}, float eight = {{8.0}} {"," if constants else ""} {constants}> {{
          y{", rows" if stacked else ""} = Loop ({"trips" if trips is not None else '""'},
            {"condition" if condition is not None else '""'}, x) <body = b
            (int64 i, bool go, float[2] v) => (bool again, float[2] w{
        ", float[2] row" if stacked else ""
    }) {{
              number = Cast <to: int = 1> (i)
              w = Add(v, number)
              {AGAIN[again]}
              {"row = Identity(w)" if stacked else ""}
            }}>
        }}""")
    model.graph.node[0].name = "repeat"
    return model, FEEDS | ({} if known else given)


def expected(model: onnx.ModelProto, feeds: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    """The results of onnxruntime."""
    session = onnxruntime.InferenceSession(
        model.SerializeToString(), providers=["CPUExecutionProvider"]
    )
    names = [output.name for output in session.get_outputs()]
    return dict(zip(names, session.run(names, feeds), strict=True))
