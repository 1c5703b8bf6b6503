"""Operators whose data decide the size of the result: Compress, Unique, Squeeze, and others.

Operators of the domain mgx.bounded are halves of such nodes: see mgx_mlir.models.staged.bounded.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from mgx_mlir.errors import ModelError
from mgx_mlir.models.host.table import Call, Kind, host_operator


@host_operator("Unique", Kind.DATA)
def unique(call: Call) -> Any:
    """The distinct elements, or slices along an axis, sorted or in the order of their first."""
    x, axis = call.array(0), call.attribute("axis")
    if axis is None:
        x, axis = x.reshape(-1), 0
    compared = x if x.dtype.kind in "biufO" else x.astype(np.float64)  # numpy sorts no ml_dtypes
    if compared.dtype.kind == "O":
        compared = compared.astype(np.str_)
    _, first, inverse, counts = np.unique(compared, True, True, True, axis=axis)
    inverse = inverse.reshape(-1)
    if not call.attribute("sorted"):
        order = np.argsort(first)
        places = np.empty_like(order)
        places[order] = np.arange(len(order))
        first, inverse, counts = first[order], places[inverse], counts[order]
    indices = [a.astype(np.int64) for a in (first, inverse, counts)]
    return [np.take(x, first, axis=axis), *indices]


@host_operator("NonZero", Kind.DATA)
def nonzero(call: Call) -> Any:
    """The indices of the elements that are not 0: a row for each dimension."""
    x = call.array(0)
    if not x.ndim:  # as onnx's reference has it
        return [np.zeros((0, int(x.any())), np.int64)]
    return [np.stack(np.nonzero(x)).astype(np.int64, copy=False)]


@host_operator("Compress", Kind.DATA)
def compress(call: Call) -> Any:
    """The slices along an axis, or elements, that a condition (maybe longer) chooses."""
    x, chosen, axis = call.array(0), call.array(1), call.attribute("axis")
    if axis is None:
        x, axis = x.reshape(-1), 0
    if not -x.ndim <= axis < x.ndim or chosen.ndim != 1:
        raise ModelError(f"a condition {list(chosen.shape)} for axis {axis} of {list(x.shape)}")
    return [np.compress(chosen[: x.shape[axis]], x, axis)]


@host_operator("Cut", Kind.DATA, "mgx.bounded")
def cut(call: Call) -> Any:
    """The elements of the last dimension that the second input counts, moved to an axis."""
    counts = call.array(0)[..., : int(call.array(1)[0])]
    return [np.ascontiguousarray(np.moveaxis(counts, -1, call.attribute("axis")))]


@host_operator("Compress", Kind.DATA, "mgx.bounded")
def bounded_compress(call: Call) -> Any:
    """The chosen elements or slices, along the last dimension, and their number."""
    x, axis = call.array(0), call.attribute("axis")
    found = np.compress(call.array(1), x, axis)
    found = np.moveaxis(found, axis or 0, -1)
    return [found, np.array([found.shape[-1]])]


@host_operator("NonZero", Kind.DATA, "mgx.bounded")
def bounded_nonzero(call: Call) -> Any:
    """The indices, and their number."""
    (found,) = nonzero(call)
    return [found, np.array([found.shape[1]])]


@host_operator("NonMaxSuppression", Kind.DATA, "mgx.bounded")
def bounded_non_max_suppression(call: Call) -> Any:
    """The boxes, and their number."""
    (found,) = non_max_suppression(call)
    return [found.T, np.array([len(found)])]


@host_operator("NonMaxSuppression", Kind.DATA)
def non_max_suppression(call: Call) -> Any:
    """Boxes (batch, boxes, 4) by scores (batch, classes, boxes): rows of batch, class, box.

    Takes boxes from the highest score down, and of boxes that overlap by more than the
    threshold only the first; of equal scores the first box.
    """
    boxes, scores = call.array(0), call.array(1)
    if boxes.ndim != 3 or scores.ndim != 3 or boxes.shape[2] != 4:
        raise ModelError("boxes are [batch, boxes, 4], scores [batch, classes, boxes]")
    if boxes.shape[:2] != (scores.shape[0], scores.shape[2]):
        raise ModelError(f"boxes {list(boxes.shape)} do not fit scores {list(scores.shape)}")
    most = max(int(call.scalar(2, 0)), 0)
    overlap, least = float(call.scalar(3, 0.0)), call.scalar(4, None)
    corners = _corners(boxes.astype(np.float32), bool(call.attribute("center_point_box")))
    found = []
    for batch in range(scores.shape[0]):
        for label in range(scores.shape[1]):
            chosen = _chosen(corners[batch], scores[batch, label], most, overlap, least)
            found += [(batch, label, box) for box in chosen]
    return [np.array(found, np.int64).reshape(-1, 3)]


def _corners(boxes: np.ndarray, centred: bool) -> np.ndarray:
    """The boxes as low and high corners, whichever way round they are written."""
    first, second = boxes[..., :2], boxes[..., 2:]
    if centred:
        first, second = first - second / 2, first + second / 2
    return np.concatenate([np.minimum(first, second), np.maximum(first, second)], -1)


def _chosen(
    corners: np.ndarray, scores: np.ndarray, most: int, overlap: float, least: Any
) -> list[int]:
    order = np.argsort(-scores.astype(np.float64), kind="stable")
    if least is not None:
        order = order[scores[order] > least]
    areas = (corners[:, 2:] - corners[:, :2]).prod(axis=1)
    taken: list[int] = []
    while len(order) and len(taken) < most:
        box, order = order[0], order[1:]
        taken.append(int(box))
        low = np.maximum(corners[order, :2], corners[box, :2])
        high = np.minimum(corners[order, 2:], corners[box, 2:])
        shared = np.maximum(high - low, 0).prod(axis=1)
        both = areas[order] + areas[box] - shared
        with np.errstate(divide="ignore", invalid="ignore"):
            order = order[~((shared > 0) & (shared / both > overlap))]
    return taken


@host_operator("Squeeze", Kind.SIZES)
def squeeze(call: Call) -> Any:
    """x without dimensions of size 1: the given ones, or all where none is given."""
    stated = call.array(1) if call.given(1) else call.attribute("axes")
    axes = () if stated is None else tuple(int(axis) for axis in np.ravel(stated))
    try:
        return [np.squeeze(call.array(0), axes or None)]
    except ValueError as error:
        raise ModelError(str(error)) from None
