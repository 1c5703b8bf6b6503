"""A part of a model's nodes as the model: `--trim` and `--trim-size`."""

from __future__ import annotations

from collections.abc import Sequence

import onnx

from mgx_mlir.errors import UsageError
from mgx_mlir.importer import loading, prepare, structure

# The operators whose results follow from sizes alone; the nodes that read them want these.
_OF_SIZES = ("Shape", "Size")


def trim(model: onnx.ModelProto, inputs: Sequence[str], count: int, size: int) -> tuple[str, ...]:
    """Drops the last `count` nodes, and all but `size` of the others; the inputs that are left.

    `size` 0: all. Results that the nodes before those made are inputs, but for constants and
    sizes, whose nodes stay. Raises UsageError where no node is left, or a type is unknown.
    """
    graph = model.graph
    if count >= len(graph.node):
        raise UsageError(f"--trim {count}: the model has {len(graph.node)} nodes, and one stays")
    end = len(graph.node) - count
    start = max(end - size, 0) if size else 0
    types = prepare.infer(loading.load(model).model) if start else {}
    kept = [*_needed(graph.node[:start], graph.node[start:end], inputs), *graph.node[start:end]]
    made_before = {name for node in graph.node[:start] for name in node.output}
    nodes = [onnx.NodeProto.FromString(node.SerializeToString()) for node in kept]
    del graph.node[:]
    graph.node.extend(nodes)
    if not start:
        return tuple(inputs)
    read = {name for node in nodes for name in structure.uses_of(node)}
    made = {name for node in nodes for name in node.output}
    for place in reversed(range(len(graph.input))):
        name = graph.input[place].name
        if name in inputs and name not in read:
            del graph.input[place]
    new = sorted((made_before & read) - made)
    for name in new:
        if name not in types:
            raise UsageError(f"--trim-size {size}: the type of '{name}', then an input, is unknown")
        graph.input.append(onnx.ValueInfoProto(name=name, type=types[name]))
    return (*(name for name in inputs if name in read), *new)


def _needed(
    before: Sequence[onnx.NodeProto], after: Sequence[onnx.NodeProto], inputs: Sequence[str]
) -> list[onnx.NodeProto]:
    """The nodes before others whose constants and sizes these read, directly or not."""
    variable = {*inputs}
    fixed = []
    for node in before:
        if node.op_type in _OF_SIZES or not structure.uses_of(node) & variable:
            fixed.append(node)
        else:
            variable |= set(node.output)
    read = {name for node in after for name in structure.uses_of(node)}
    needed = []
    for node in reversed(fixed):
        if read & set(node.output):
            needed.append(node)
            read |= structure.uses_of(node)
    return needed[::-1]
