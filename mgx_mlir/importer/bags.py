"""Bags of an embedding as exporters of PyTorch write them: a loop whose trips are bags.

    for i in bags: y[i] = sum(table[indices[starts[i] : ends[i]]])               TorchScript
    for i in bags: append(y, sum(rows[offsets[i] : offsets[i + 1]]), or zeros)   torch.export

Either becomes a node of this domain, whose converter takes the rows of all bags at once:

    y = mgx.bags.Bags<reduction = sum, zeros = 1>(rows, offsets)

A loop that is anything else stays as it is.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import onnx
from onnx import GraphProto, NodeProto, helper, numpy_helper

from mgx_mlir.importer import structure

DOMAIN = "mgx.bags"
_REDUCTIONS = {"ReduceSum": "sum", "ReduceMean": "mean", "ReduceMax": "max"}


def replace(model: onnx.ModelProto) -> None:
    """Replaces such loops of a model's graph, in place."""
    graph, whole = model.graph, _Scope(model.graph)
    nodes: list[NodeProto] = []
    found = False
    for node in graph.node:
        made = _of_trips(node, whole) or _of_sequence(node, whole)
        found |= made is not None
        nodes += made or [node]
    if not found:
        return
    kept = _used(nodes, {value.name for value in graph.output})
    del graph.node[:]
    graph.node.extend(kept)
    if all(opset.domain != DOMAIN for opset in model.opset_import):
        model.opset_import.add(domain=DOMAIN, version=1)


class _Scope:
    """The nodes of a graph by their results, and its constants."""

    def __init__(self, graph: GraphProto, outer: _Scope | None = None) -> None:
        self.graph, self.outer = graph, outer
        self.nodes = {name: node for node in graph.node for name in node.output}
        self._tensors = {tensor.name: tensor for tensor in graph.initializer}
        self._own = {value.name for value in graph.input} | self.nodes.keys() | self._tensors.keys()

    def made_by(self, name: str, *kinds: str) -> NodeProto | None:
        """The node of one of these kinds that makes a value; copies are looked through."""
        node = self.nodes.get(name)
        if node is None:
            outer = self.outer if name not in self._own else None
            return outer.made_by(name, *kinds) if outer else None
        if node.op_type == "Identity" and "Identity" not in kinds:
            return self.made_by(node.input[0], *kinds)
        return node if node.op_type in kinds and not node.domain else None

    def origin(self, name: str) -> str:
        """The value that a value is a copy of."""
        node = self.nodes.get(name)
        is_copy = node is not None and node.op_type == "Identity"
        return self.origin(node.input[0]) if node is not None and is_copy else name

    def is_outer(self, name: str) -> bool:
        """Whether a value is none of this graph's."""
        return name not in self._own

    def numbers(self, name: str) -> list[int] | None:
        """The integers of a small constant; None where it is none."""
        node, tensor = self.made_by(name, "Constant", "CastLike"), self._tensors.get(name)
        if node is not None and node.op_type == "CastLike":
            return self.numbers(node.input[0])
        if node is not None:
            value = next((a.t for a in node.attribute if a.name == "value"), None)
            stated = [list(a.ints) or [a.i] for a in node.attribute if a.name.startswith("value_i")]
            if stated:
                return stated[0]
            tensor = value
        if tensor is None:
            if self.outer is not None and name not in self._own:
                return self.outer.numbers(name)
            return None
        if tensor.data_type not in (onnx.TensorProto.INT64, onnx.TensorProto.BOOL):
            return None
        array = numpy_helper.to_array(tensor) if np.prod(tensor.dims) < 9 else np.zeros(9)
        return [int(x) for x in array.reshape(-1)] if array.size < 9 else None

    def more_than(self, name: str, base: str) -> int | None:
        """The constant that is added to `base`: 0 where it is `base` itself."""
        if name == base:
            return 0
        node = self.made_by(name, "Add")
        if node is None or node.input[0] != base:
            return None
        added = self.numbers(node.input[1])
        return added[0] if added is not None and len(added) == 1 else None


def _attributes(node: NodeProto) -> Mapping[str, int]:
    return {a.name: a.i for a in node.attribute}


def _reduced(scope: _Scope, name: str, keepdims: int) -> tuple[str, str] | None:
    """The tensor that a node reduces along its first dimension, and the reduction's name."""
    node = scope.made_by(name, *_REDUCTIONS)
    if node is None or _attributes(node).get("keepdims", 1) != keepdims:
        return None
    stated = next((list(a.ints) for a in node.attribute if a.name == "axes"), None)
    axes = scope.numbers(node.input[1]) if len(node.input) > 1 else stated
    return (node.input[0], _REDUCTIONS[node.op_type]) if axes == [0] else None


def _slice(scope: _Scope, name: str) -> tuple[str, str, str] | None:
    """The tensor that a Slice cuts along its first dimension by steps of 1, its start, its end."""
    node = scope.made_by(name, "Slice")
    if node is None or len(node.input) < 3:
        return None
    axes, steps = (scope.numbers(x) if x else [n] for x, n in zip(
        (*node.input[3:], "", "")[:2], (0, 1), strict=True))  # fmt: skip
    return (node.input[0], node.input[1], node.input[2]) if (axes, steps) == ([0], [1]) else None


def _body(node: NodeProto, outer: _Scope) -> _Scope | None:
    graphs = list(structure.subgraphs(node)) if node.op_type == "Loop" and not node.domain else []
    return _Scope(graphs[0], outer) if graphs else None


def _of_trips(node: NodeProto, outer: _Scope) -> list[NodeProto] | None:
    """The nodes for a loop that gathers and reduces the rows of a bag in each trip."""
    body = _body(node, outer)
    if body is None or len(node.input) != 2 or len(body.graph.output) != 2:
        return None
    trip, condition = (value.name for value in body.graph.input)
    again = body.made_by(body.graph.output[0].name, "Cast", "Identity")
    reduced = _reduced(body, body.graph.output[1].name, 0)
    if reduced is None:
        return None
    product = body.made_by(reduced[0], "Mul")
    gather = body.made_by(product.input[0] if product else reduced[0], "Gather")
    cut = _slice(body, gather.input[1]) if gather is not None else None
    if gather is None or cut is None or again is None:
        return None
    if _attributes(gather).get("axis", 0) or outer.numbers(node.input[1]) != [1]:
        return None
    if again.input[0] not in (node.input[1], condition):
        return None
    indices, *ends = cut
    offsets = [_taken(body, name, trip) for name in ends]
    if not all(body.is_outer(name) for name in (gather.input[0], indices)) or None in offsets:
        return None
    first, second = offsets
    behind = _slice(outer, str(second))
    if behind is None or behind[0] != first or outer.numbers(behind[1]) != [1]:
        return None
    last = outer.numbers(behind[2])
    if last is None or last[0] < 1 << 31 or not _counts(outer, node.input[0], str(second)):
        return None
    rows = f"{node.output[0]}/rows"
    made = [helper.make_node("Gather", [gather.input[0], indices], [rows], f"{node.name}/rows")]
    if product is not None:
        column = body.made_by(product.input[1], "Unsqueeze")
        factors = _slice(body, column.input[0]) if column is not None else None
        if column is None or factors is None or list(factors[1:]) != ends:
            return None
        if not body.is_outer(factors[0]):
            return None
        axes, whole = f"{rows}/axes", f"{rows}/factors"
        copy = NodeProto.FromString(column.SerializeToString())
        if len(column.input) > 1:
            made.append(helper.make_node("Constant", [], [axes], axes, value_ints=[1]))
            if body.numbers(column.input[1]) != [1]:
                return None
            copy.input[1] = axes
        elif [list(a.ints) for a in column.attribute] != [[1]]:
            return None
        copy.name, copy.input[0], copy.output[0] = whole, factors[0], whole
        made += [copy, helper.make_node("Mul", [rows, whole], [f"{rows}/scaled"], f"{rows}/scaled")]
    return [*made, _bags(node, made[-1].output[0], str(first), reduced[1])]


def _taken(body: _Scope, name: str, trip: str) -> str | None:
    """The outer tensor whose element number `trip` a value is, as a vector."""
    vector = body.made_by(name, "Unsqueeze")
    element = body.made_by(vector.input[0], "Gather") if vector is not None else None
    if element is None or element.input[1] != trip or _attributes(element).get("axis", 0):
        return None
    return element.input[0] if body.is_outer(element.input[0]) else None


def _counts(outer: _Scope, name: str, vector: str) -> bool:
    """Whether a value is the number of elements of a vector."""
    node = outer.made_by(name, "Gather", "Squeeze", "Reshape")
    if node is not None and (node.op_type != "Gather" or outer.numbers(node.input[1]) == [0]):
        name = node.input[0]
    size = outer.made_by(name, "Shape", "Size")
    return size is not None and outer.origin(size.input[0]) == outer.origin(vector)


def _of_sequence(node: NodeProto, outer: _Scope) -> list[NodeProto] | None:
    """The nodes for a sequence of the sums of bags, put together."""
    if node.op_type != "ConcatFromSequence" or _attributes(node) != {"axis": 0}:
        return None
    loop = outer.made_by(node.input[0], "Loop")
    body = _body(loop, outer) if loop is not None else None
    if loop is None or body is None or len(loop.input) != 4 or len(body.graph.output) != 3:
        return None
    # The sequence and the number of the bag are carried, in any order.
    place = 1 + list(loop.output).index(node.input[0])
    other = 3 - place
    index, sequence = body.graph.input[1 + other].name, body.graph.input[1 + place].name
    following, extended = body.graph.output[other].name, body.graph.output[place].name
    insert = body.made_by(extended, "SequenceInsert")
    choice = body.made_by(insert.input[1], "If") if insert is not None else None
    more = body.made_by(body.graph.output[0].name, "Less")
    empty = outer.made_by(loop.input[1 + place], "SequenceEmpty")
    if insert is None or choice is None or more is None or empty is None or loop.input[0]:
        return None
    if insert.input[0] != sequence or len(insert.input) > 2 or more.input[0] != following:
        return None
    if outer.numbers(loop.input[1 + other]) != [0] or body.more_than(following, index) != 1:
        return None
    same = body.made_by(choice.input[0], "Equal")
    branches = {a.name: _Scope(a.g, body) for a in choice.attribute}
    row, name = _usual(branches["else_branch"], branches["else_branch"].graph.output[0].name, index)
    reduced = _reduced(row, name, 1)
    cut = _slice(*_usual(row, reduced[0], index)) if reduced is not None else None
    if same is None or reduced is None or cut is None or not _is_zero(branches["then_branch"]):
        return None
    rows, *ends = cut
    parts = [_slice(body, name) for name in ends]
    if list(same.input) != ends or not body.is_outer(rows):
        return None
    vector = next((n.output[0] for n in body.graph.node
                   if n.op_type == "Reshape" and n.input[0] == index), index)  # fmt: skip
    steps = [[body.more_than(x, vector) for x in part[1:]] for part in parts if part]
    offsets = list({part[0] for part in parts if part})
    if steps != [[0, 1], [1, 2]] or len(offsets) != 1 or not body.is_outer(offsets[0]):
        return None
    if not _is_number(outer, more.input[1], offsets[0]):
        return None
    return [_bags(node, rows, offsets[0], reduced[1], 1)]


def _is_number(outer: _Scope, name: str, offsets: str) -> bool:
    """Whether a value is the number of bags: that of the offsets without the last end."""
    parts = outer.made_by(offsets, "Concat")
    if parts is not None and len(parts.input) == 2:
        return _counts(outer, name, parts.input[0])
    fewer = outer.made_by(name, "Sub")
    return (
        fewer is not None
        and outer.numbers(fewer.input[1]) == [1]
        and _counts(outer, fewer.input[0], offsets)
    )


# Operators of a branch for the last bag alone, which ends with the rows; its mean is a quotient.
_LAST = (
    ["Slice"],
    ["ReduceSum", "Shape", "Sub", "CastLike", "Greater", "If", "Cast", "Div", "Identity"],
)


def _usual(scope: _Scope, name: str, index: str) -> tuple[_Scope, str]:
    """The graph and the name of a value of all bags but the last, where that is told apart."""
    choice = scope.made_by(name, "If")
    same = scope.made_by(choice.input[0], "Equal") if choice is not None else None
    if choice is None or same is None or same.input[0] != index:
        return scope, name
    last = scope.made_by(same.input[1], "Sub")
    branches = {a.name: a.g for a in choice.attribute}
    kinds = [n.op_type for n in structure.all_nodes(branches["then_branch"])]
    if last is None or scope.numbers(last.input[1]) != [1] or kinds not in _LAST:
        return scope, name
    usual = _Scope(branches["else_branch"], scope)
    return usual, usual.graph.output[0].name


def _is_zero(scope: _Scope) -> bool:
    """Whether a graph gives a constant of zeros."""
    name = scope.graph.output[0].name
    held = [t for t in scope.graph.initializer if t.name == name]
    held += [a.t for n in scope.graph.node if name in n.output and n.op_type == "Constant"
             for a in n.attribute if a.name == "value"]  # fmt: skip
    return bool(held) and not numpy_helper.to_array(held[0]).any()


def _bags(node: NodeProto, rows: str, offsets: str, reduction: str, zeros: int = 0) -> NodeProto:
    """zeros: whether the maximum of no rows is 0; else it is -inf."""
    return helper.make_node(
        "Bags", [rows, offsets], [node.output[-1]], node.name, domain=DOMAIN,
        reduction=reduction, zeros=zeros,
    )  # fmt: skip


def _used(nodes: Sequence[NodeProto], read: set[str]) -> list[NodeProto]:
    """Copies of the nodes whose results are read: those named, or by nodes that are used."""
    kept: list[NodeProto] = []
    for node in reversed(nodes):
        if not read.isdisjoint(node.output):
            read |= structure.uses_of(node)
            kept.append(NodeProto.FromString(node.SerializeToString()))
    return kept[::-1]
