"""Sequences and optionals: lists, and None for an empty optional."""

from __future__ import annotations

from typing import Any

import numpy as np

from mgx_mlir.errors import ModelError
from mgx_mlir.models.host.table import Call, Kind, host_operator


def _position(call: Call, index: int, count: int) -> int:
    """An input as a position among `count`. Raises ModelError where it is out of range."""
    place = int(call.scalar(index, -1))
    if not -count <= place < count:
        raise ModelError(f"position {place} in a sequence of {count}")
    return place % count


@host_operator("SequenceEmpty", Kind.SEQUENCES)
def sequence_empty(call: Call) -> Any:
    return [[]]


@host_operator("SequenceConstruct", Kind.SEQUENCES)
def sequence_construct(call: Call) -> Any:
    return [list(call.inputs)]


@host_operator("SequenceInsert", Kind.SEQUENCES)
def sequence_insert(call: Call) -> Any:
    """Inserts in front of the element at the position, by default after the last."""
    items = list(call.sequence())
    place = len(items)
    if call.given(2) and int(call.scalar(2, 0)) != place:
        place = _position(call, 2, len(items))
    items.insert(place, call.array(1))
    return [items]


@host_operator("SequenceErase", Kind.SEQUENCES)
def sequence_erase(call: Call) -> Any:
    items = list(call.sequence())
    del items[_position(call, 1, len(items))]
    return [items]


@host_operator("SequenceAt", Kind.SEQUENCES)
def sequence_at(call: Call) -> Any:
    items = call.sequence()
    return [items[_position(call, 1, len(items))]]


@host_operator("SequenceLength", Kind.SEQUENCES)
def sequence_length(call: Call) -> Any:
    return [np.array(len(call.sequence()), np.int64)]


@host_operator("ConcatFromSequence", Kind.SEQUENCES)
def concat_from_sequence(call: Call) -> Any:
    items = call.sequence()
    if not items:
        raise ModelError("its sequence is empty: the shape of the result is not known")
    join = np.stack if call.attribute("new_axis") else np.concatenate
    return [join(items, axis=call.attribute("axis"))]


@host_operator("SplitToSequence", Kind.SEQUENCES)
def split_to_sequence(call: Call) -> Any:
    """Parts of size 1, of one size but for the last, or of the sizes given."""
    x, axis = call.array(0), call.attribute("axis")
    size = x.shape[axis]
    if not call.given(1):
        parts = np.split(x, np.arange(1, size), axis) if size else []
        keep = call.attribute("keepdims")
        return [parts if keep else [np.squeeze(part, axis) for part in parts]]
    split = call.array(1)
    if split.ndim == 0:
        if split < 1:
            raise ModelError(f"parts of size {int(split)}")
        return [np.split(x, np.arange(int(split), size, int(split)), axis) if size else []]
    if split.sum() != size or (split < 0).any():
        raise ModelError(f"parts of {split.tolist()} in a dimension of size {size}")
    return [np.split(x, np.cumsum(split)[:-1], axis)]


@host_operator("Optional", Kind.SEQUENCES)
def optional(call: Call) -> Any:
    return [call.inputs[0] if call.inputs else None]


@host_operator("OptionalHasElement", Kind.SEQUENCES)
def optional_has_element(call: Call) -> Any:
    return [np.array(call.given(0))]


@host_operator("OptionalGetElement", Kind.SEQUENCES)
def optional_get_element(call: Call) -> Any:
    if not call.given(0):
        raise ModelError("its optional value is empty")
    return [call.inputs[0]]


@host_operator("Identity", Kind.SEQUENCES)
def identity(call: Call) -> Any:
    return [call.inputs[0]]
