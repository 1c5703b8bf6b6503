"""How a decoder keeps its keys and values, and the model changed so that they stay in place."""

from __future__ import annotations

import enum
from collections.abc import Collection, Mapping

from onnx import GraphProto, NodeProto, helper

from mgx_mlir.importer.loading import Source
from mgx_mlir.importer.structure import subgraphs, uses_of
from mgx_mlir.models.generation.signature import Signature


class Form(enum.Enum):
    """How the past and the new entries of a decoder's caches lie."""

    PLACED = "a cache of fixed length; all sequences have their entries at the same places"
    GROUPED = "a cache of fixed length; each sequence has its entries from the first place on"
    APPENDED = "the new entries come behind the cache, and are what the model gives"
    GROWING = "the new entries come behind the cache; the model gives both"


def arrange(source: Source, signature: Signature, fixed: Collection[str]) -> Form:
    """The form of a decoder's caches, after changes to the source's graph.

    Caches of GroupQueryAttention with an open length get that of the mask, unless either is one
    of the names `fixed`, whose sizes are given. Others, where masks and positions tell entries
    apart, give the new entries alone.
    """
    graph = source.model.graph
    readers = {name: node for node in graph.node for name in node.input}
    kinds = {readers[name].op_type for name in signature.caches if name in readers}
    if kinds == {"GroupQueryAttention"}:
        _share_length(graph, signature, fixed)
        return Form.GROUPED
    if signature.fixed_length:
        return Form.PLACED
    if signature.has("attention_mask") and signature.has("position_ids"):
        cuts = _joins(graph, signature.caches)
        if cuts is not None:
            _cut(graph, cuts)
            return Form.APPENDED
    return Form.GROWING


def _share_length(graph: GraphProto, signature: Signature, fixed: Collection[str]) -> None:
    """Gives caches of an open length that of the mask: they have room for all entries."""
    values = {value.name: value.type.tensor_type.shape.dim for value in graph.input}
    if not signature.has("attention_mask") or signature.fixed_length:
        return
    total = values["attention_mask"][-1]
    lengths = [values[name][len(values[name]) - 2] for name in signature.caches]
    if {total.dim_param, *(d.dim_param for d in lengths)} & {"", *fixed}:
        return
    for length in lengths:
        length.dim_param = total.dim_param
    del graph.value_info[:]


def _joins(graph: GraphProto, caches: Mapping[str, str]) -> dict[str, NodeProto] | None:
    """The Concat of each cache with new entries, by the output that it gives; None: not so."""
    makers = {name: node for node in graph.node for name in node.output}
    inner = {name for node in graph.node for body in subgraphs(node)
             for n in body.node for name in uses_of(n)}  # fmt: skip
    found = {}
    for past, present in caches.items():
        node = makers.get(present)
        while node is not None and node.op_type == "Identity":
            node = makers.get(node.input[0])
        if node is None or node.op_type != "Concat" or list(node.input)[:1] != [past]:
            return None
        axis = next((a.i for a in node.attribute if a.name == "axis"), 0)
        if len(node.input) != 2 or axis not in (-2, _rank(graph, past) - 2) or present in inner:
            return None
        found[present] = node
    return found


def _rank(graph: GraphProto, name: str) -> int:
    return next(len(v.type.tensor_type.shape.dim) for v in graph.input if v.name == name)


def _cut(graph: GraphProto, joins: Mapping[str, NodeProto]) -> None:
    """Makes each output the new entries alone."""
    for node in list(graph.node):
        if node.op_type == "Identity" and node.output[0] in joins:
            graph.node.remove(node)
    for present, join in joins.items():
        whole = f"{present}/all"
        for old in {present, join.output[0]}:
            for node in graph.node:
                for index, name in enumerate(node.input):
                    if name == old:
                        node.input[index] = whole
        join.output[0] = whole
        name = f"{present}/new"
        graph.node.append(helper.make_node("Identity", [join.input[1]], [present], name))
    for value in graph.output:
        if value.name in joins:
            value.type.tensor_type.ClearField("shape")
    del graph.value_info[:]
