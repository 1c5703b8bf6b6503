"""The nodes of a graph that cannot compile whatever the sizes are: rows of the host's table."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import replace

import onnx
from onnx import NodeProto, TypeProto

from mgx_mlir.errors import Unsupported, UnsupportedError
from mgx_mlir.importer import loading, registry, structure
from mgx_mlir.importer.converters.bounded import DOMAIN as BOUNDED
from mgx_mlir.models import host
from mgx_mlir.models.host.values import is_compiled_type


def static_rows(
    graph: onnx.GraphProto, types: Mapping[str, TypeProto], known: Collection[str]
) -> dict[int, host.HostOperator]:
    """The nodes that cannot compile whatever the sizes are: by their types, by their operator.

    Raises UnsupportedError for those that the host does not run either, also inside bodies.
    """
    rows: dict[int, host.HostOperator] = {}
    refused: list[Unsupported] = []
    for index, node in enumerate(graph.node):
        if not node.output or node.output[0] in known:
            continue
        refused += [
            _not_known(inner)
            for body in structure.subgraphs(node)
            for inner in structure.all_nodes(body)
            if is_strange(inner)
        ]
        names = [n for n in (*structure.uses_of(node), *node.output) if n]
        other = [n for n in names if n in types and not is_compiled_type(types[n])]
        if not other and registry.find(node.domain, node.op_type) is not None:
            continue
        strings = any(types[n].HasField("tensor_type") for n in other)
        row = host.find(node.domain, node.op_type, strings=strings)
        if row is None:
            entry = _not_known(node)
            if other:
                entry = replace(entry, reason=f"'{other[0]}' is no tensor of numbers")
            refused.append(entry)
        else:
            rows[index] = row
    if refused:
        lines = "".join(f"\n  {entry}" for entry in refused)
        message = f"nodes that neither compile nor run on the host:{lines}"
        raise UnsupportedError(message, entries=tuple(refused))
    return rows


def data_decide(model: loading.AnySource) -> bool:
    """Whether a model has a node whose data decide the size of its results."""
    nodes = structure.all_nodes(loading.load(model).model.graph)
    rows = [host.find(node.domain, node.op_type) for node in nodes]
    return any(row is not None and row.kind is host.Kind.DATA for row in rows)


def is_strange(node: NodeProto) -> bool:
    """Whether nothing here knows the operator."""
    if registry.find(node.domain, node.op_type) is not None or node.domain == BOUNDED:
        return False
    return host.find(node.domain, node.op_type, strings=True) is None


def _not_known(node: NodeProto) -> Unsupported:
    operator = structure.operator_name(node)
    return Unsupported(node.name, operator, "this operator is not known")
