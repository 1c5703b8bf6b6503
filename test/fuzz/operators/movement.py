"""Operators that move elements, and those that make tensors of sizes."""

from __future__ import annotations

from typing import Any

import numpy as np
from onnx import helper, numpy_helper

from test.fuzz.operators.draw import ALL, F32, F64, FLOATS8, I16, I32, I64, NUMBERS, Draw, is_float
from test.fuzz.operators.form import Form, Input, operator


@operator("Transpose")
def _transpose(draw: Draw) -> Form:
    shape = draw.shape()
    order = draw.rng.sample(range(len(shape)), len(shape))
    stated = {"perm": order} if order and draw.chance(0.8) else {}
    return Form([draw.array(shape, draw.among(ALL + FLOATS8))], stated)


@operator("Reshape")
def _reshape(draw: Draw) -> Form:
    values, zero = draw.array(draw.shape(), draw.among(ALL + FLOATS8)), draw.pick(0, 0, 1)
    left, wanted = values.size, []
    if not left:
        wanted = list(values.shape) if zero else [0] * values.ndim
    while left > 1:
        divisors = [k for k in range(1, left + 1) if left % k == 0]
        wanted.append(draw.among(divisors) if len(wanted) < 4 else left)
        left //= wanted[-1]
    if wanted and values.size and draw.chance(0.5):
        wanted[draw.rng.randrange(len(wanted))] = -1
    stated = {"allowzero": zero} if zero or draw.chance(0.3) else {}
    return Form([values, draw.ints(wanted, 0.8)], stated)


@operator("Flatten")
def _flatten(draw: Draw) -> Form:
    shape = draw.shape()
    axis = draw.between(-len(shape), len(shape))
    return Form([draw.array(shape, draw.among(ALL))], {"axis": axis})


@operator("Squeeze")
def _squeeze(draw: Draw) -> Form:
    shape = draw.shape()
    ones = [k for k, size in enumerate(shape) if size == 1]
    inputs: list[Input] = [draw.array(shape, draw.among(ALL))]
    if ones and draw.chance(0.7):
        chosen = draw.rng.sample(ones, draw.between(1, len(ones)))
        inputs.append(draw.ints([k - draw.pick(0, len(shape)) for k in chosen], 0.8))
    return Form(inputs)


@operator("Unsqueeze")
def _unsqueeze(draw: Draw) -> Form:
    shape, count = draw.shape(), draw.pick(1, 2)
    rank = len(shape) + count
    axes = [k - draw.pick(0, rank) for k in draw.rng.sample(range(rank), count)]
    return Form([draw.array(shape, draw.among(ALL)), draw.ints(axes, 0.8)])


@operator("Concat")
def _concat(draw: Draw) -> Form:
    shape, dtype = draw.shape(1), draw.among(ALL)
    axis, inputs = draw.axis(len(shape)), []
    for _ in range(draw.between(1, 4)):
        part = list(shape)
        part[axis] = draw.pick(0, 1, 2, 3, 7)
        inputs.append(draw.array(part, dtype))
    return Form(inputs, {"axis": axis})


@operator("Split")
def _split(draw: Draw) -> Form:
    shape, dtype = draw.shape(1), draw.among(ALL)
    axis = draw.axis(len(shape))
    if draw.chance(0.5):
        sizes = [draw.between(0, 3) for _ in range(draw.between(1, 4))]
        shape[axis] = sum(sizes)
        return Form([draw.array(shape, dtype), draw.ints(sizes)], {"axis": axis}, len(sizes))
    count = draw.between(1, max(1, shape[axis]))
    if -(-shape[axis] // count) * (count - 1) > shape[axis]:
        count = 1
    stated = {"axis": axis, "num_outputs": count}
    if shape[axis] % count == 0 and draw.chance(0.5):
        del stated["num_outputs"]
        return Form(
            [draw.array(shape, dtype), draw.ints([shape[axis] // count] * count)], stated, count
        )
    return Form([draw.array(shape, dtype)], stated, count)


@operator("Slice")
def _slice(draw: Draw) -> Form:
    shape = draw.shape(1)
    axes = draw.rng.sample(range(len(shape)), draw.between(1, len(shape)))
    least, most, share = -(1 << 63), (1 << 63) - 1, draw.pick(0, 1, 1, 1)
    starts = [draw.pick(0, 1, -1, 2, -100, 100, least, shape[a] - 1) for a in axes]
    ends = [draw.pick(0, 1, -1, 5, 100, -100, most, least, shape[a]) for a in axes]
    inputs: list[Input] = [draw.array(shape, draw.among(ALL))]
    inputs += [draw.ints(starts, share), draw.ints(ends, share)]
    if draw.chance(0.8):
        inputs.append(draw.ints([a - draw.pick(0, 0, len(shape)) for a in axes], share))
        if draw.chance(0.8):
            inputs.append(
                draw.ints([draw.pick(1, 1, 2, -1, -2, 7, least >> 32) for _ in axes], share)
            )
    return Form(inputs)


@operator("Pad")
def _pad(draw: Draw) -> Form:
    mode, dtype = draw.pick("constant", "reflect", "edge", "wrap"), draw.among(ALL)
    constant = mode == "constant"
    shape = draw.shape(1, empty=constant)
    if not constant:
        shape = [max(2, size) for size in shape]
    rank = len(shape)
    pads = [draw.between(-1 if constant else 0, 2) for _ in range(2 * rank)]
    if not constant:
        pads = [min(pad, shape[k % rank] - 1) for k, pad in enumerate(pads)]
    for axis, size in enumerate(shape):
        if size + min(pads[axis], 0) + min(pads[axis + rank], 0) < 0:
            pads[axis] = pads[axis + rank] = 0
    inputs: list[Input] = [draw.array(shape, dtype), draw.ints(pads)]
    if constant and draw.chance(0.7):
        inputs.append(draw.fixed(draw.array([], dtype), 0.5))
    return Form(inputs, {"mode": mode} if draw.chance(0.8) or not constant else {})


@operator("Expand")
def _expand(draw: Draw) -> Form:
    shape = draw.shape()
    given = [size if draw.chance(0.6) else 1 for size in shape]
    wanted = draw.shape(0, 1) + [draw.pick(1, size) for size in shape]
    return Form([draw.array(given, draw.among(ALL)), draw.ints(wanted, 0.8)])


@operator("Tile")
def _tile(draw: Draw) -> Form:
    shape = draw.shape(1)
    counts = [draw.pick(1, 1, 2, 3, 0) for _ in shape]
    return Form([draw.array(shape, draw.among(ALL)), draw.ints(counts, 0.8)])


@operator("Trilu")
def _trilu(draw: Draw) -> Form:
    inputs: list[Input] = [draw.array(draw.shape(2), draw.among(ALL))]
    if draw.chance(0.7):
        inputs.append(draw.ints(draw.between(-7, 7), 0.8))
    return Form(inputs, {"upper": draw.pick(0, 1)} if draw.chance(0.8) else {})


@operator("EyeLike")
def _eye_like(draw: Draw) -> Form:
    stated: dict[str, Any] = {"k": draw.between(-4, 4)}
    if draw.chance(0.5):
        stated["dtype"] = helper.np_dtype_to_tensor_dtype(draw.among(ALL))
    return Form([draw.array(draw.shape(2, 2), draw.among(NUMBERS))], stated)


@operator("Range")
def _range(draw: Draw) -> Form:
    dtype, share = draw.pick(F32, F64, I16, I32, I64), draw.pick(0, 1)
    step = draw.pick(1, 2, -1, 3, 0.3 if is_float(dtype) else 1)
    values = (draw.between(-5, 5), draw.between(-9, 20), step)
    return Form([draw.fixed(np.asarray(v, dtype), share) for v in values])


@operator("ConstantOfShape")
def _constant_of_shape(draw: Draw) -> Form:
    value = numpy_helper.from_array(draw.array([1], draw.among(ALL)))
    return Form([draw.ints(draw.shape(), 0.5)], {"value": value} if draw.chance(0.5) else {})


@operator("ReverseSequence")
def _reverse_sequence(draw: Draw) -> Form:
    shape, batch = draw.shape(2, empty=False), draw.pick(0, 1)
    lengths = draw.array([shape[batch]], I64, draw.pick(0, 1, 1, 1), shape[1 - batch])
    stated = {"batch_axis": batch, "time_axis": 1 - batch}
    return Form([draw.array(shape, draw.among(ALL)), lengths], stated)


@operator("DepthToSpace")
def _depth_to_space(draw: Draw) -> Form:
    block = draw.pick(1, 2, 3)
    shape = [draw.pick(1, 2), block * block * draw.pick(1, 2), draw.pick(1, 2, 3), draw.pick(1, 3)]
    stated = {"blocksize": block}
    if draw.chance(0.7):
        stated["mode"] = draw.pick("DCR", "CRD")
    return Form([draw.array(shape, draw.among(ALL))], stated)


@operator("SpaceToDepth")
def _space_to_depth(draw: Draw) -> Form:
    block = draw.pick(1, 2, 3)
    shape = [draw.pick(1, 2), draw.pick(1, 2, 3), block * draw.pick(1, 2), block * draw.pick(1, 3)]
    return Form([draw.array(shape, draw.among(ALL))], {"blocksize": block})


@operator("CenterCropPad")
def _center_crop_pad(draw: Draw) -> Form:
    shape = draw.shape(1, empty=False)
    axes = draw.rng.sample(range(len(shape)), draw.between(1, len(shape)))
    sizes = draw.ints([draw.between(1, 8) for _ in axes], 0.5)
    return Form([draw.array(shape, draw.among(ALL)), sizes], {"axes": axes})


@operator("Col2Im")
def _col2im(draw: Draw) -> Form:
    values = draw.plain([draw.pick(1, 2), 2 * 4, 9])
    return Form([values, draw.ints([4, 4]), draw.ints([2, 2])])
