"""Operators that sample images, and those of signals."""

from __future__ import annotations

from typing import Any

import numpy as np

from test.fuzz.operators.draw import F16, F32, F64, I8, I32, I64, U8, Draw, Fixed
from test.fuzz.operators.form import Form, Input, operator

_COORDINATES = (
    "align_corners",
    "asymmetric",
    "half_pixel",
    "half_pixel_symmetric",
    "pytorch_half_pixel",
    "tf_crop_and_resize",
)


@operator("Resize")
def _resize(draw: Draw) -> Form:
    rank = draw.pick(1, 2, 2, 3)
    shape = [draw.pick(1, 2), draw.pick(1, 3)] + [draw.between(2, 6) for _ in range(rank)]
    modes = ("nearest", "linear", "cubic") if rank == 2 else ("nearest", "linear")
    mode, places = draw.among(modes), draw.among(_COORDINATES)
    stated: dict[str, Any] = {"mode": mode, "coordinate_transformation_mode": places}
    if mode == "nearest":
        rounds = ("round_prefer_floor", "round_prefer_ceil", "floor", "ceil")
        stated["nearest_mode"] = draw.among(rounds)
    if mode == "cubic":
        stated |= {"cubic_coeff_a": draw.pick(-0.75, -0.5), "exclude_outside": draw.pick(0, 1)}
    if mode != "nearest" and draw.chance(0.2):
        stated["antialias"] = 1
    roi = None
    if places == "tf_crop_and_resize":
        roi = Fixed(np.array([0, 0, *[0.1] * rank, 1, 1, *[0.8] * rank], np.float32))
        stated["extrapolation_value"] = draw.pick(0.0, 3.0)
    inputs: list[Input] = [draw.plain(shape, draw.pick(F32, F32, F32, F16, I32, I8, U8)), roi]
    if draw.chance(0.5):
        scales = [1, 1, *(draw.pick(0.5, 1, 1.5, 2, 2.7, 0.6) for _ in range(rank))]
        return Form([*inputs, Fixed(np.array(scales, np.float32))], stated)
    if draw.chance(0.2) and roi is None:
        stated["keep_aspect_ratio_policy"] = draw.pick("not_larger", "not_smaller")
        stated["axes"] = list(range(2, 2 + rank))
        return Form([*inputs, None, draw.ints([draw.between(2, 9) for _ in range(rank)])], stated)
    sizes = [*shape[:2], *(draw.between(1, 9) for _ in range(rank))]
    return Form([*inputs, None, draw.ints(sizes)], stated)


@operator("Upsample")
def _upsample(draw: Draw) -> Form:
    scales = [1, 1, draw.pick(1, 2, 1.5), draw.pick(1, 2, 3.0)]
    values = draw.plain(draw.shape(4, 4, empty=False))
    return Form(
        [values, Fixed(np.array(scales, np.float32))], {"mode": draw.pick("nearest", "linear")}
    )


@operator("GridSample")
def _grid_sample(draw: Draw) -> Form:
    rank, batch, dtype = draw.pick(2, 2, 3), draw.pick(1, 2), draw.pick(F32, F64)
    modes = ("linear", "nearest", "cubic") if rank == 2 else ("linear", "nearest")
    stated = {"mode": draw.among(modes), "align_corners": draw.pick(0, 1)}
    stated["padding_mode"] = draw.pick("zeros", "border", "reflection")
    values = draw.plain([batch, draw.pick(1, 2), *(draw.between(2, 5) for _ in range(rank))], dtype)
    places = [batch, *(draw.between(1, 4) for _ in range(rank)), rank]
    return Form([values, draw.array(places, dtype, -1.5, 1.5)], stated)


@operator("RoiAlign")
def _roi_align(draw: Draw) -> Form:
    batch, count = draw.pick(1, 2), draw.between(1, 3)
    corner = draw.numpy.uniform(0, 4, (count, 2))
    boxes = np.concatenate([corner, corner + draw.numpy.uniform(0.5, 5, (count, 2))], 1)
    stated = {"mode": draw.pick("avg", "max"), "sampling_ratio": draw.pick(0, 1, 2)}
    stated |= {"output_height": draw.pick(1, 2, 3), "output_width": draw.pick(1, 2)}
    stated |= {"spatial_scale": draw.pick(1.0, 0.5)}
    if draw.chance(0.7):
        stated["coordinate_transformation_mode"] = draw.pick("half_pixel", "output_half_pixel")
    images = draw.array([count], I64, 0, batch - 1)
    return Form([draw.plain([batch, 2, 6, 7]), boxes.astype(np.float32), images], stated)


@operator("AffineGrid")
def _affine_grid(draw: Draw) -> Form:
    batch, rank = draw.pick(1, 2), draw.pick(2, 3)
    sizes = draw.ints([batch, 1, 2, 3, 4][: rank + 2])
    return Form([draw.plain([batch, rank, rank + 1]), sizes], {"align_corners": draw.pick(0, 1)})


@operator("DFT")
def _dft(draw: Draw) -> Form:
    shape = [*draw.shape(1, 3, empty=False), draw.pick(1, 2)]
    axis, inverse = draw.rng.randrange(len(shape) - 1), draw.pick(0, 0, 1)
    onesided = draw.pick(0, 1) if shape[-1] == 1 and not inverse else 0
    length = draw.ints(draw.between(1, 9)) if draw.chance(0.5) else None
    axes = draw.ints(axis - draw.pick(0, len(shape)))
    values = draw.plain(shape, draw.pick(F32, F64))
    return Form([values, length, axes], {"inverse": inverse, "onesided": onesided})


@operator("STFT")
def _stft(draw: Draw) -> Form:
    length, window = draw.pick(4, 7, 8), draw.chance(0.5)
    inputs: list[Input] = [draw.plain([draw.pick(1, 2), draw.between(16, 30), 1])]
    inputs.append(draw.ints(draw.pick(2, 3, 4)))
    inputs.append(Fixed(draw.plain([length])) if window else None)
    if not window or draw.chance(0.5):
        inputs.append(draw.ints(length))
    return Form(inputs, {"onesided": draw.pick(0, 1)})


@operator("BlackmanWindow", "HammingWindow", "HannWindow")
def _window(draw: Draw, name: str) -> Form:
    size = np.asarray(draw.between(1, 20), draw.pick(I32, I64))
    return Form([draw.fixed(size, 0.7)], {"periodic": draw.pick(0, 1)})
