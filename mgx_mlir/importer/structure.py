"""The structure of a graph: every value defined once and before its use, in any order of nodes."""

from __future__ import annotations

from collections.abc import Iterator

import onnx
from onnx import AttributeProto, GraphProto, NodeProto

from mgx_mlir.errors import ModelError
from mgx_mlir.importer.tensor_data import check_size, element_count
from mgx_mlir.text import name_text

# Attributes without influence on the results of an inference.
WITHOUT_EFFECT = frozenset(("consumed_inputs", "is_test"))
# Deeper nesting of If, Loop and Scan than any model has; below Python's own limit.
_MAX_DEPTH = 24


def normalise(model: onnx.ModelProto) -> None:
    """Names every node, sorts nodes by their dependencies and checks names and sizes.

    Raises ModelError for values that are defined twice or never, for cycles, and for
    tensors of impossible size.
    """
    _check_graph(model.graph, frozenset(), 0)


def operator_name(node: NodeProto) -> str:
    """How messages call a node's operator: with its domain, where that is not ONNX's own."""
    return f"{node.domain}::{node.op_type}" if node.domain else node.op_type


def display_name(node: NodeProto) -> str:
    """How messages call a node: by operator and name."""
    return f"{name_text(operator_name(node))} '{name_text(node.name)}'"


def subgraphs(node: NodeProto) -> Iterator[GraphProto]:
    """The graphs among a node's attributes."""
    for attribute in node.attribute:
        if attribute.type == AttributeProto.GRAPH:
            yield attribute.g
        yield from attribute.graphs


def all_nodes(graph: GraphProto) -> Iterator[NodeProto]:
    """The nodes of a graph and of the graphs inside it."""
    for node in graph.node:
        yield node
        for inner in subgraphs(node):
            yield from all_nodes(inner)


def _check_graph(graph: GraphProto, outer: frozenset[str], depth: int) -> None:
    if depth > _MAX_DEPTH:
        raise ModelError(f"graphs are nested more than {_MAX_DEPTH} deep")
    for index, node in enumerate(graph.node):
        if not node.name:
            node.name = f"{node.op_type}_{index}"
        if node.domain == "ai.onnx":
            node.domain = ""
    given = _given(graph)
    defined = _check_definitions(graph, given)
    known = defined | outer
    uses = [uses_of(node) for node in graph.node]
    for node, names in zip(graph.node, uses, strict=True):
        for name in names - known:
            raise ModelError(
                f"{display_name(node)} reads '{name}', which nothing in the model defines"
            )
    for value in graph.output:
        if value.name not in known:
            raise ModelError(f"output '{value.name}' is not computed by any node")
    _sort(graph, given | outer, uses)
    for node in graph.node:
        _check_outputs(node)
        _check_attribute_tensors(node)
        for graph_of_node in subgraphs(node):
            _check_graph(graph_of_node, frozenset(known), depth + 1)


def _given(graph: GraphProto) -> set[str]:
    for what, values in (("inputs", graph.input), ("outputs", graph.output)):
        names: set[str] = set()
        for value in values:
            if not value.name:
                raise ModelError(f"one of the {what} has no name")
            if value.name in names:
                raise ModelError(f"two {what} are called '{value.name}'")
            names.add(value.name)
    initializers = set()
    for tensor in graph.initializer:
        if tensor.name in initializers:
            raise ModelError(f"two initialisers are called '{tensor.name}'")
        initializers.add(tensor.name)
        check_size(tensor, tensor.name)
    sparse = {s.values.name for s in graph.sparse_initializer}
    return initializers | sparse | {v.name for v in graph.input}


def _check_definitions(graph: GraphProto, given: set[str]) -> set[str]:
    defined = dict.fromkeys(given, "an input or initialiser")
    for node in graph.node:
        for name in filter(None, node.output):
            if name in defined:
                raise ModelError(
                    f"{display_name(node)} defines '{name}', which is also "
                    f"{defined[name]}; each value has one definition"
                )
            defined[name] = f"a result of {display_name(node)}"
    return set(defined)


def fresh(name: str, taken: set[str]) -> str:
    """The name, or one like it that nothing has; it is taken then."""
    found, number = name, 0
    while found in taken:
        number += 1
        found = f"{name}_{number}"
    taken.add(found)
    return found


def uses_of(node: NodeProto) -> set[str]:
    """The names that a node reads, those in its subgraphs among them."""
    names = set(filter(None, node.input))
    for graph in subgraphs(node):
        names |= free_names(graph)
    return names


def free_names(graph: GraphProto) -> set[str]:
    """The names that a graph reads from the graphs around it."""
    used = {v.name for v in graph.output}
    defined = {v.name for v in graph.input} | {t.name for t in graph.initializer}
    for node in graph.node:
        used |= uses_of(node)
        defined |= set(node.output)
    return used - defined


def _sort(graph: GraphProto, available: set[str] | frozenset[str], uses: list[set[str]]) -> None:
    """Puts nodes after those they depend on, otherwise keeping their order."""
    producer = {name: i for i, node in enumerate(graph.node) for name in node.output if name}
    waiting = [{producer[n] for n in names if n in producer} for names in uses]
    if all(p < i for i, needed in enumerate(waiting) for p in needed):
        return
    order: list[int] = []
    state = [0] * len(waiting)  # 1 while a node's dependencies are visited, 2 when it is placed
    for root in range(len(waiting)):
        stack = [(root, iter(sorted(waiting[root])))] if not state[root] else []
        while stack:
            index, needed = stack[-1]
            state[index] = 1
            following = next((n for n in needed if state[n] != 2), None)
            if following is None:
                state[index] = 2
                order.append(index)
                stack.pop()
            elif state[following] == 1:
                start = next(i for i, (n, _) in enumerate(stack) if n == following)
                names = [display_name(graph.node[n]) for n, _ in stack[start:]]
                raise ModelError("these nodes depend on each other: " + ", ".join(names))
            else:
                stack.append((following, iter(sorted(waiting[following]))))
    nodes = [NodeProto.FromString(graph.node[i].SerializeToString()) for i in order]
    del graph.node[:]
    graph.node.extend(nodes)


def _check_outputs(node: NodeProto) -> None:
    """onnx's inference ends the process where a Split states another number than it has."""
    for attribute in node.attribute:
        is_number = (node.op_type, attribute.name) == ("Split", "num_outputs")
        if is_number and attribute.i != len(node.output):
            raise ModelError(
                f"{display_name(node)} has num_outputs = {attribute.i} and "
                f"{len(node.output)} outputs"
            )


def _check_attribute_tensors(node: NodeProto) -> None:
    for attribute in node.attribute:
        if attribute.type == AttributeProto.TENSOR:
            what = f"{attribute.name} of {display_name(node)}"
            element_count(attribute.t, what)
            check_size(attribute.t, what)
