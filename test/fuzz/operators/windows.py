"""Convolutions and pooling."""

from __future__ import annotations

from typing import Any

from test.fuzz.operators.draw import F16, F32, FLOATS, I8, PLAIN, U8, Draw
from test.fuzz.operators.form import Form, Input, operator

_PADS = ("NOTSET", "NOTSET", "SAME_UPPER", "SAME_LOWER", "VALID")


def _window(draw: Draw) -> tuple[int, list[int], list[int], list[int]]:
    """Number of dimensions, and for each: kernel, stride, dilation."""
    rank = draw.pick(1, 2, 2, 3)
    choices = ((1, 2, 3), (1, 1, 2, 3), (1, 1, 2))
    kernel, strides, dilations = ([draw.among(c) for _ in range(rank)] for c in choices)
    return rank, kernel, strides, dilations


@operator("Conv")
def _conv(draw: Draw) -> Form:
    rank, kernel, strides, dilations = _window(draw)
    groups, dtype = draw.pick(1, 1, 2, 3), draw.among((F32, *FLOATS))
    channels, filters = groups * draw.pick(1, 2, 4), groups * draw.pick(1, 2, 3)
    places = [draw.between(5, 9) for _ in range(rank)]
    stated: dict[str, Any] = {"strides": strides, "dilations": dilations, "group": groups}
    if draw.chance(0.5):
        stated["kernel_shape"] = kernel
    pads = draw.among(_PADS)
    if pads == "NOTSET":
        stated["pads"] = [draw.between(0, 2) for _ in range(2 * rank)]
    else:
        stated["auto_pad"] = pads
    if pads.startswith("SAME"):
        stated["dilations"] = [1] * rank
    weights = draw.plain([filters, channels // groups, *kernel], dtype)
    inputs: list[Input] = [draw.plain([draw.pick(1, 2), channels, *places], dtype)]
    inputs.append(draw.fixed(weights, 0.7))
    if draw.chance(0.5):
        inputs.append(draw.fixed(draw.plain([filters], dtype)))
    return Form(inputs, stated)


@operator("ConvTranspose")
def _conv_transpose(draw: Draw) -> Form:
    rank, kernel, strides, dilations = _window(draw)
    groups, dtype = draw.pick(1, 1, 2), draw.among((F32, *PLAIN))
    channels, filters = groups * draw.pick(1, 2, 3), draw.pick(1, 2, 3)
    places = [draw.between(2, 5) for _ in range(rank)]
    stated: dict[str, Any] = {"strides": strides, "dilations": dilations, "group": groups}
    pads = draw.among((*_PADS, "output_shape"))
    if pads == "NOTSET":
        stated["pads"] = [draw.between(0, min(1, kernel[k % rank] - 1)) for k in range(2 * rank)]
        if draw.chance(0.4):
            most = [max(pair) - 1 for pair in zip(strides, dilations, strict=True)]
            stated["output_padding"] = [draw.between(0, size) for size in most]
    elif pads == "output_shape":
        stated["output_shape"] = [
            strides[k] * (places[k] - 1) + (kernel[k] - 1) * dilations[k] + 1 - draw.pick(0, 1)
            for k in range(rank)
        ]
    else:
        stated["auto_pad"] = pads
    inputs: list[Input] = [draw.plain([draw.pick(1, 2), channels, *places], dtype)]
    inputs.append(draw.fixed(draw.plain([channels, filters, *kernel], dtype), 0.7))
    if draw.chance(0.5):
        inputs.append(draw.fixed(draw.plain([filters * groups], dtype)))
    return Form(inputs, stated)


@operator("AveragePool", "LpPool", "MaxPool")
def _pool(draw: Draw, name: str) -> Form:
    rank, kernel, strides, dilations = _window(draw)
    places, largest = [draw.between(5, 9) for _ in range(rank)], name == "MaxPool"
    stated: dict[str, Any] = {"kernel_shape": kernel, "strides": strides}
    if draw.chance(0.5):
        stated["dilations"] = dilations
    pads = draw.among(_PADS)
    if pads == "NOTSET":
        stated["pads"] = [draw.between(0, kernel[k % rank] - 1) for k in range(2 * rank)]
        stated["ceil_mode"] = draw.pick(0, 1)
    else:
        stated["auto_pad"] = pads
        stated.pop("dilations", None)
    if name == "AveragePool":
        stated["count_include_pad"] = draw.pick(0, 1)
    if name == "LpPool":
        stated["p"] = draw.pick(1, 2, 3)
    outputs = 1
    if largest and draw.chance(0.3):
        outputs, stated["storage_order"] = 2, draw.pick(0, 1)
    dtype = draw.among((*PLAIN, I8, U8) if largest else PLAIN)
    shape = [draw.pick(1, 2), draw.pick(1, 3), *places]
    return Form([draw.array(shape, dtype, special=largest and draw.special)], stated, outputs)


@operator("GlobalAveragePool", "GlobalLpPool", "GlobalMaxPool")
def _global_pool(draw: Draw, name: str) -> Form:
    stated = {"p": draw.pick(1, 2, 3)} if name == "GlobalLpPool" else {}
    return Form([draw.plain(draw.shape(3, 5, empty=False), draw.among((*PLAIN, F16)))], stated)


@operator("DeformConv")
def _deform_conv(draw: Draw) -> Form:
    kernel = [draw.pick(1, 2, 3), draw.pick(1, 2)]
    strides, dilations = ([draw.pick(1, 2) for _ in range(2)] for _ in range(2))
    pads = [draw.between(0, 1) for _ in range(4)]
    group, groups, batch, image = draw.pick(1, 2), draw.pick(1, 2), draw.pick(1, 2), (5, 6)
    places = [
        (image[k] + pads[k] + pads[k + 2] - (kernel[k] - 1) * dilations[k] - 1) // strides[k] + 1
        for k in range(2)
    ]
    elements, filters = groups * kernel[0] * kernel[1], group * draw.pick(1, 3)
    inputs: list[Input] = [draw.plain([batch, 4, *image])]
    inputs.append(draw.fixed(draw.plain([filters, 4 // group, *kernel]), 0.7))
    inputs.append(draw.plain([batch, 2 * elements, *places]))
    inputs.append(draw.fixed(draw.plain([filters])) if draw.chance(0.5) else None)
    inputs.append(draw.plain([batch, elements, *places]) if draw.chance(0.5) else None)
    stated: dict[str, Any] = {"group": group, "offset_group": groups, "kernel_shape": kernel}
    return Form(inputs, stated | {"strides": strides, "dilations": dilations, "pads": pads})
