"""Operators whose results are numbers in order: ranges, and diagonals."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import numpy as np
from mlir import ir

from mgx_mlir.dialects import mgx
from mgx_mlir.errors import ModelError, OpenError, UnsupportedError
from mgx_mlir.importer import element_types, emit, tensors, trips
from mgx_mlir.importer.node import Node
from mgx_mlir.importer.registry import operator
from mgx_mlir.sizes.arithmetic import Size, ceil_div


@operator("Range", (11, 27), "constant iota mul add convert")
def range_(node: Node) -> Any:
    if node.version >= 27:
        node.attribute("stash_type")
    if node.known(0) is None or node.known(1) is None:
        return _range_of_size(node)
    start, limit = (node.constant(i, n).reshape(()) for i, n in enumerate(("start", "limit")))
    delta = node.constant(2, "delta").reshape(()) if node.given(2) else np.ones((), start.dtype)
    if not delta or not all(map(np.isfinite, (start, limit, delta))):
        raise ModelError(f"a range from {start} to {limit} in steps of {delta}")
    count = max(math.ceil((float(limit) - float(start)) / float(delta)), 0)
    if count > 1 << 24:
        raise UnsupportedError(f"a range of {count} elements")
    return (start + np.arange(count) * delta).astype(start.dtype)


def _range_of_size(node: Node) -> ir.Value:
    """The numbers from a start to a limit, formulas of the inputs' sizes, in constant steps.

    Of trips too, where there are as many numbers in all of them.
    """
    start, limit = (node.sizes(i) or trips.places(node, i) for i in range(2))
    step = float(node.constant(2, "delta").reshape(())) if node.given(2) else 1.0
    if start is None or limit is None or not step:
        node.constant(0 if start is None else 1, "start" if start is None else "limit")
        raise ModelError(f"a range in steps of {step}")
    delta, (first,), (last,) = int(step), start, limit
    if isinstance(first, Fraction) and delta == 1:
        first = math.floor(first)  # as many numbers below a limit that is whole
    if delta != step or not all(isinstance(bound, int | Size) for bound in (first, last)):
        raise OpenError(f"the number of its elements, from {first} to {last} in steps of {step}")
    span = trips.same_in_all((last - first) * (1 if delta > 0 else -1), node.conversion.trips)
    if span is None:
        raise OpenError(
            f"the number of its elements, from {first} to {last}, which differs in trips"
        )
    node.require(span)
    wide = mgx.iota(tensors.named([ceil_div(span, abs(delta))])[0], np.int64)
    if delta != 1:
        wide = emit.mul(wide, delta)
    wide = emit.convert(wide, mgx.element_type(node.value(1).dtype))
    return wide if start == [0] else emit.add(wide, node.tensor(0))


@operator("EyeLike", (9, 22), "constant iota add equal convert")
def eye_like(node: Node) -> Any:
    rows, columns = tensors.dims(node.tensor(0))
    stated = node.attribute("dtype")
    dtype = node.value(0).dtype if stated is None else element_types.of_onnx(stated).numpy
    diagonal = int(node.attribute("k"))
    if not isinstance(rows, int) or not isinstance(columns, int):
        row = emit.unsqueeze(emit.add(emit.counted(rows), diagonal), [1])
        column = emit.unsqueeze(emit.counted(columns), [0])
        return emit.convert(emit.binary(mgx.equal, row, column), mgx.element_type(dtype))
    if rows * columns > 1 << 24:
        raise UnsupportedError(f"a matrix of {rows} by {columns}")
    return np.eye(rows, columns, diagonal).astype(dtype)
