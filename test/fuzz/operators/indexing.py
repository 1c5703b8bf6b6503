"""Operators whose inputs hold indices or conditions."""

from __future__ import annotations

import numpy as np

from test.fuzz.operators.draw import ALL, BOOL, F32, I8, I32, I64, NUMBERS, U8, Array, Draw
from test.fuzz.operators.form import Form, Input, operator


def _reduced(draw: Draw, opset16: tuple[str, ...] = ("add", "mul", "max", "min")) -> str:
    return draw.pick("none", "none", *opset16)


@operator("Gather")
def _gather(draw: Draw) -> Form:
    shape = draw.shape(1)
    axis = draw.axis(len(shape))
    most = shape[axis]
    places = draw.shape(0, 3) if most else [0]
    index = draw.array(places, draw.pick(I32, I64), -most, max(most - 1, 0))
    return Form([draw.array(shape, draw.among(ALL)), draw.fixed(index, 0.4)], {"axis": axis})


@operator("GatherElements")
def _gather_elements(draw: Draw) -> Form:
    shape = draw.shape(1, empty=False)
    axis = draw.axis(len(shape))
    places = [draw.between(1, size) for size in shape]
    places[axis] = draw.between(1, 7)
    index = draw.array(places, draw.pick(I32, I64), -shape[axis], shape[axis] - 1)
    return Form([draw.array(shape, draw.among(ALL)), index], {"axis": axis})


def _tuples(draw: Draw, places: list[int], sizes: list[int]) -> Array:
    return np.stack([draw.array(places, I64, -size, size - 1) for size in sizes], -1)


@operator("GatherND")
def _gather_nd(draw: Draw) -> Form:
    shape = draw.shape(1, empty=False)
    batches = draw.between(0, len(shape) - 1)
    depth = draw.between(1, len(shape) - batches)
    places = shape[:batches] + draw.shape(0, 2, empty=False)
    index = _tuples(draw, places, shape[batches : batches + depth])
    return Form([draw.array(shape, draw.among(ALL)), index], {"batch_dims": batches})


@operator("ScatterElements")
def _scatter_elements(draw: Draw) -> Form:
    """Without a reduction no place is written twice: the order would be open."""
    shape, how = draw.shape(1, empty=False), _reduced(draw)
    axis, places = draw.axis(len(shape)), [draw.between(1, size) for size in shape]
    dtype = draw.among(ALL if how == "none" else NUMBERS)
    index = draw.array(places, draw.pick(I32, I64), -shape[axis], shape[axis] - 1)
    if how == "none":
        order = np.argsort(draw.numpy.random(shape), axis=axis)
        index = order[tuple(slice(0, size) for size in places)].astype(np.int64)
    stated = {"axis": axis} | ({"reduction": how} if how != "none" or draw.chance(0.5) else {})
    return Form([draw.array(shape, dtype), index, draw.array(places, dtype)], stated)


@operator("ScatterND")
def _scatter_nd(draw: Draw) -> Form:
    shape, how = draw.shape(1, empty=False), _reduced(draw)
    depth, count = draw.between(1, len(shape)), draw.between(1, 4)
    dtype = draw.among(ALL if how == "none" else NUMBERS)
    index = _tuples(draw, [count], shape[:depth])
    if how == "none":
        total = int(np.prod(shape[:depth]))
        chosen = draw.rng.sample(range(total), min(count, total))
        index = np.stack(np.unravel_index(chosen, shape[:depth]), -1).astype(np.int64)
    stated = {"reduction": how} if how != "none" or draw.chance(0.5) else {}
    updates = draw.array([len(index), *shape[depth:]], dtype)
    return Form([draw.array(shape, dtype), index, updates], stated)


@operator("TensorScatter")
def _tensor_scatter(draw: Draw) -> Form:
    new, mode = draw.pick(1, 2, 3), draw.pick("linear", "circular")
    inputs: list[Input] = [draw.array([2, 2, 6, 3], F32), draw.array([2, 2, new, 3], F32)]
    if draw.chance(0.5):
        inputs.append(draw.array([2], I64, 0, 6 - new))
    return Form(inputs, {"mode": mode})


@operator("OneHot")
def _one_hot(draw: Draw) -> Form:
    shape, depth = draw.shape(1, 3), draw.between(1, 6)
    index = np.round(draw.array(shape, draw.pick(I32, I64, F32, U8), 0, 7))
    if index.dtype.kind != "u":
        index = (index - np.asarray(draw.pick(0, 3), index.dtype)).astype(index.dtype)
    depths = draw.ints(depth if draw.chance(0.5) else [depth])
    values = draw.plain([2], draw.among(ALL))
    return Form([index, depths, values], {"axis": draw.axis(len(shape) + 1)})


@operator("Compress")
def _compress(draw: Draw) -> Form:
    shape = draw.shape(1)
    values = draw.array(shape, draw.among(ALL))
    if draw.chance(0.5):
        return Form([values, draw.array([values.size], BOOL)])
    axis = draw.axis(len(shape))
    length = max(0, shape[axis] - draw.pick(0, 1))
    return Form([values, draw.array([length], BOOL)], {"axis": axis})


@operator("Unique")
def _unique(draw: Draw) -> Form:
    shape = draw.shape(1, 3)
    stated = {"sorted": draw.pick(0, 1)}
    if draw.chance(0.5):
        stated["axis"] = draw.axis(len(shape))
    values = np.round(draw.array(shape, draw.pick(F32, I64, I8), 0, 3))
    return Form([values], stated, 4)


@operator("NonMaxSuppression")
def _non_max_suppression(draw: Draw) -> Form:
    batch, boxes, classes = draw.pick(1, 2), draw.between(1, 8), draw.pick(1, 2)
    corner = draw.numpy.uniform(0, 1, (batch, boxes, 2))
    other = corner + draw.numpy.uniform(-0.3, 0.5, (batch, boxes, 2))
    centred = draw.pick(0, 1)
    if centred:  # the other two are sizes
        other = np.abs(other) + 0.01
    places = np.concatenate([corner, other], 2).astype(np.float32)
    inputs: list[Input] = [places, draw.array([batch, classes, boxes], F32, 0, 1)]
    inputs.append(draw.ints([draw.pick(0, 1, 3, 100)], 0.5))
    for options in ((0.0, 0.3, 0.6, 1.0), (0.0, 0.5)):
        inputs.append(draw.fixed(np.asarray([draw.among(options)], np.float32), 0.5))
    return Form(inputs[: draw.pick(3, 4, 5, 5)], {"center_point_box": centred})


@operator("MaxUnpool")
def _max_unpool(draw: Draw) -> Form:
    index = np.asarray([[[[5, 7], [13, 15]]]], np.int64)
    shape = [draw.ints([1, 1, 5, 5])] if draw.chance(0.5) else []
    stated = {"kernel_shape": [2, 2], "strides": [2, 2]}
    return Form([draw.plain([1, 1, 2, 2]), index, *shape], stated)
