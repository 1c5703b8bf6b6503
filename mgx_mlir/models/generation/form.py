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
    kinds = {_reader(name, readers) for name in signature.caches if name in readers}
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


def _reader(name: str, readers: Mapping[str, NodeProto]) -> str:
    """The operator that reads a cache, as it is or through a Cast."""
    node = readers[name]
    while node.op_type == "Cast" and node.output[0] in readers:
        node = readers[node.output[0]]
    return node.op_type


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
    """The Concat of each cache with new entries, by the output that it gives; None: not so.

    Casts may stand between, of caches that have another type than the model's entries.
    """
    makers = {name: node for node in graph.node for name in node.output}
    read = {name for node in graph.node for name in uses_of(node)}
    inner = {name for node in graph.node for body in subgraphs(node)
             for n in body.node for name in uses_of(n)}  # fmt: skip
    kinds = {v.name: v.type.tensor_type.elem_type for v in (*graph.input, *graph.output)}
    found = {}
    for past, present in caches.items():
        node, cast = makers.get(present), False
        while node is not None and node.op_type in ("Cast", "Identity"):
            cast = cast or node.op_type == "Cast"
            node = makers.get(node.input[0])
        if node is None or node.op_type != "Concat" or len(node.input) != 2:
            return None
        first = node.input[0]
        if first in makers and makers[first].op_type == "Cast":
            first = makers[first].input[0]
        axis = next((a.i for a in node.attribute if a.name == "axis"), 0)
        if first != past or axis not in (-2, _rank(graph, past) - 2) or present in inner:
            return None
        if kinds[past] != kinds[present] or (cast and present in read):
            return None
        found[present] = node
    return found


def _rank(graph: GraphProto, name: str) -> int:
    return next(len(v.type.tensor_type.shape.dim) for v in graph.input if v.name == name)


def _cut(graph: GraphProto, joins: Mapping[str, NodeProto]) -> None:
    """Makes each output the new entries alone."""
    kinds = {v.name: v.type.tensor_type.elem_type for v in graph.output}
    cast = set()
    for node in list(graph.node):
        if node.op_type in ("Cast", "Identity") and node.output[0] in joins:
            graph.node.remove(node)
            cast |= {node.output[0]} if node.op_type == "Cast" else set()
    for present, join in joins.items():
        whole = f"{present}/all"
        for old in {present, join.output[0]}:
            for node in graph.node:
                for index, name in enumerate(node.input):
                    if name == old:
                        node.input[index] = whole
        join.output[0] = whole
        form = {"op_type": "Cast", "to": kinds[present]} if present in cast else {}
        new = {"op_type": "Identity", "name": f"{present}/new", **form}
        graph.node.append(helper.make_node(inputs=[join.input[1]], outputs=[present], **new))
    for value in graph.output:
        if value.name in joins:
            value.type.tensor_type.ClearField("shape")
    del graph.value_info[:]
