"""ONNX nodes as mgx ops, by the importer's converters: macros, and operators of `by_onnx`."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import onnx
from mlir import ir
from onnx import helper

from mgx_mlir.dialects import mgx
from mgx_mlir.dialects.constants import constant_array
from mgx_mlir.errors import UnsupportedError
from mgx_mlir.importer.conversion import Conversion, Limits
from mgx_mlir.importer.converters.bounded import DOMAIN as BOUNDED
from mgx_mlir.importer.scope import Scope
from mgx_mlir.importer.values import Constants, Value
from mgx_mlir.migraphx.by_onnx import OnnxNode

_OPSET = onnx.defs.onnx_opset_version()


def converted(
    constants: Constants, what: str, made: OnnxNode, values: Sequence[ir.Value]
) -> list[ir.Value]:
    """The results of an ONNX node, at the insertion point.

    Raises UnsupportedError, which names `what`, for a node that the importer refuses.
    """
    places = range(len(values)) if made.operands is None else made.operands
    outputs = [f"y{i}" for i in range(made.outputs)]
    names = ["" if place is None else f"x{i}" for i, place in enumerate(places)]
    node = helper.make_node(
        made.operator, names, outputs, made.operator, domain=made.domain, **made.attributes
    )
    results = [helper.make_value_info(name, onnx.TypeProto()) for name in outputs]
    graph = helper.make_graph([node], "made", [], results)
    scope = Scope({"": _OPSET, "com.microsoft": 1, BOUNDED: 1}, frozenset({*names, *outputs}))
    for name, place in zip(names, places, strict=True):
        if isinstance(place, np.ndarray):
            scope.values[name] = Value(name, array=place)
        elif place is not None:
            scope.values[name] = _operand(name, values[place])
    conversion = Conversion(constants, {}, frozenset(), Limits(0, {}))
    found = conversion.graph(graph, scope)
    if conversion.unsupported:
        raise UnsupportedError(f"{what}: {conversion.unsupported[0].reason}")
    return [constants.materialise(value) for value in found]


def _operand(name: str, value: ir.Value) -> Value:
    """An operand for the importer, which sees the elements of small constants."""
    defining = None if isinstance(value.owner, ir.Block) else value.owner.opview
    if isinstance(defining, mgx.ConstantOp):
        return Value(name, array=np.array(constant_array(defining)))
    return Value(name, tensor=value)
