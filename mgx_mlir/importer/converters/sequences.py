"""Sequences of tensors. They exist while a model is imported; the program has their tensors."""

from __future__ import annotations

import numpy as np
from mlir import ir

from mgx_mlir.errors import ModelError, UnsupportedError
from mgx_mlir.importer import element_types, emit, tensors
from mgx_mlir.importer.node import Node
from mgx_mlir.importer.registry import operator
from mgx_mlir.importer.values import Value


def _items(node: Node) -> list[Value]:
    items = node.value(0).items
    if items is None:
        raise ModelError("its first input is a tensor; it takes a sequence")
    return list(items)


def _sequence(node: Node, items: list[Value]) -> Value:
    return Value(node.name, items=tuple(items))


def _position(node: Node, index: int, count: int) -> int:
    (position,) = node.integers(index, "position")
    if not -count <= position < count:
        raise ModelError(f"position {position} in a sequence of {count}")
    return position % count


@operator("SequenceEmpty", (11, 11), "")
def sequence_empty(node: Node) -> Value:
    element_types.of_onnx(node.attribute("dtype", 1))
    return _sequence(node, [])


@operator("SequenceConstruct", (11, 11), "")
def sequence_construct(node: Node) -> Value:
    return _sequence(node, [node.value(i) for i in range(len(node.inputs))])


@operator("SequenceInsert", (11, 11), "")
def sequence_insert(node: Node) -> Value:
    items = _items(node)
    # One position more than there are elements: after the last.
    place = _position(node, 2, len(items) + 1) if node.given(2) else len(items)
    if node.given(2) and node.integers(2, "position")[0] < 0:
        place = _position(node, 2, len(items))
    return _sequence(node, [*items[:place], node.value(1), *items[place:]])


@operator("SequenceErase", (11, 11), "")
def sequence_erase(node: Node) -> Value:
    items = _items(node)
    del items[_position(node, 1, len(items)) if node.given(1) else -1]
    return _sequence(node, items)


@operator("SequenceAt", (11, 11), "")
def sequence_at(node: Node) -> Value:
    items = _items(node)
    return items[_position(node, 1, len(items))]


@operator("SequenceLength", (11, 11), "constant")
def sequence_length(node: Node) -> np.ndarray:
    return np.array(len(_items(node)), np.int64)


@operator("ConcatFromSequence", (11, 11), "concat unsqueeze")
def concat_from_sequence(node: Node) -> ir.Value:
    parts = [node.constants.materialise(v) for v in _items(node)]
    if not parts:
        raise UnsupportedError("an empty sequence, whose element has no known shape")
    added = bool(node.attribute("new_axis"))
    axis = tensors.axis_in(int(node.attribute("axis")), tensors.rank(parts[0]) + added)
    return emit.stack(parts, axis) if added else emit.concat(parts, axis)


@operator("SplitToSequence", (11, 24), "slice squeeze")
def split_to_sequence(node: Node) -> Value:
    """Parts of size 1, of one size but for the last, or of the sizes given."""
    x = node.tensor(0)
    axis = node.axis()
    size = tensors.size_of(x, axis, "the size of the split dimension")
    keep = bool(node.attribute("keepdims")) or node.given(1)
    sizes = [1] * size
    if node.given(1):
        stated = node.constant(1, "split")
        sizes = [int(n) for n in stated.reshape(-1)]
        if stated.ndim == 0:
            if sizes[0] < 1:
                raise ModelError(f"parts of size {sizes[0]}")
            whole, rest = divmod(size, sizes[0])
            sizes = sizes * whole + ([rest] if rest else [])
    if sum(sizes) != size or min(sizes, default=0) < 0:
        raise ModelError(f"parts of {sizes} in a dimension of size {size}")
    parts, end = [], 0
    for part in sizes:
        taken = emit.take(x, axis, end, end + part)
        end += part
        parts.append(Value(node.name, tensor=taken if keep else emit.squeeze(taken, [axis])))
    return _sequence(node, parts)
