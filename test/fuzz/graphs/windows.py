"""Convolutions, pooling, resizing and what stands around them in image models."""

from __future__ import annotations

from operator import gt
from typing import Any

import numpy as np

from test.fuzz.graphs.elements import partner
from test.fuzz.graphs.graph import BF16, F16, Graph, UnsoundError, Value
from test.fuzz.graphs.kinds import kind


def image(g: Graph, least: int = 1) -> Value:
    """Images with channels: N x C x D..., of one to three spatial dimensions."""
    found = g.pick(
        lambda v: (
            v.is_float
            and v.rank in (3, 4, 4, 5)
            and 0 < v.exact.size <= g.most_elements
            and min(v.shape[2:]) >= least
        )
    )
    if found is not None and g.chance(0.85):
        return found
    space = g.rng.choice((1, 2, 2, 2, 2, 3))
    batch, channels = (
        g.rng.choice((1, 1, 2, 3)),
        g.rng.choice((1, 2, 3, 3, 4, 8, 12, 16, 17, 32, 64, 96)),
    )
    left = max(g.most_elements // (batch * channels), 1)
    most = max(least, int(left ** (1 / space)))
    sizes = [max(least, g.size(most)) for _ in range(space)]
    return g.fresh((batch, channels, *sizes), weight=False)


def window(g: Graph, x: Value) -> dict[str, Any]:
    """Random attributes of a window over x that fits."""
    space = x.rank - 2
    kernel = [
        min(g.rng.choice((1, 1, 2, 3, 3, 3, 5, 7)), 7 if space < 3 else 3) for _ in range(space)
    ]
    if g.chance(0.6):
        kernel = [kernel[0]] * space
    strides = (
        [g.rng.choice((1, 1, 1, 2, 3))] * space
        if g.chance(0.8)
        else [g.rng.choice((1, 2, 3)) for _ in range(space)]
    )
    dilations = [1] * space if g.chance(0.8) else [g.rng.choice((1, 2, 3)) for _ in range(space)]
    made: dict[str, Any] = {"kernel_shape": kernel, "strides": strides}
    if any(d != 1 for d in dilations):
        made["dilations"] = dilations
    reach = [(k - 1) * d for k, d in zip(kernel, dilations, strict=True)]
    if g.chance(0.15) and dilations == [1] * space:
        made["auto_pad"] = g.rng.choice(("SAME_UPPER", "SAME_LOWER", "VALID"))
        if made["auto_pad"] != "VALID" and any(map(gt, strides, kernel)):
            raise UnsoundError(
                "padding would be negative, which every implementation reads otherwise"
            )
        before = after = [0] * space
    elif g.chance(0.5):
        before = after = [r // 2 for r in reach]
    else:
        before = [g.rng.randint(0, k - 1) for k in kernel]
        after = [g.rng.randint(0, k - 1) for k in kernel]
    if "auto_pad" not in made and (any(before) or any(after)):
        made["pads"] = [*before, *after]
    if made.get("auto_pad", "VALID") == "VALID":
        for size, r, a, b in zip(x.shape[2:], reach, before, after, strict=True):
            if size + a + b <= r:
                raise UnsoundError("the window is larger than the image")
    return made


@kind(7)
def convolution(g: Graph) -> Value:
    x = image(g)
    channels = x.shape[1]
    attributes = window(g, x)
    out = g.rng.choice((1, 3, 4, 8, 16, 17, 32, 64))
    how = g.rng.randrange(5)
    group = 1
    if how == 0:
        group, out = channels, channels * g.rng.choice((1, 1, 2))
    elif how == 1:
        group = g.rng.choice([d for d in range(1, channels + 1) if channels % d == 0])
        out = group * g.rng.choice((1, 2, 4, 5))
    each = channels // group
    scale = float(1 / np.sqrt(each * np.prod(attributes["kernel_shape"])))
    w = g.fresh((out, each, *attributes["kernel_shape"]), x.dtype, g.chance(0.9), scale)
    b = g.fresh((out,), x.dtype, True, 0.1) if g.chance(0.5) else None
    y = g.op("Conv", x, w, b, group=group, **attributes)
    if g.chance(0.3):
        y = batch_norm(g, y)
    if g.chance(0.5):
        y = g.op(g.rng.choice(("Relu", "HardSwish", "Sigmoid", "LeakyRelu", "Mish", "Gelu")), y)
    if g.chance(0.2):
        y = g.op("Add", y, partner(g, y))
    return y


def batch_norm(g: Graph, x: Value) -> Value:
    c = x.shape[1]
    scale, bias, mean = (g.fresh((c,), x.dtype, True) for _ in range(3))
    variance = g.hold(np.abs(g.numpy.normal(1, 0.2, c)).astype(x.dtype) + np.asarray(0.1, x.dtype))
    return g.op("BatchNormalization", x, scale, bias, mean, variance, epsilon=1e-3)


@kind(1)
def normalized_batch(g: Graph) -> Value:
    return batch_norm(g, image(g))


@kind(3)
def transposed_convolution(g: Graph) -> Value:
    x = image(g)
    channels, space = x.shape[1], x.rank - 2
    group = (
        g.rng.choice([d for d in range(1, channels + 1) if channels % d == 0])
        if g.chance(0.4)
        else 1
    )
    each = g.rng.choice((1, 2, 3, 8, 16))
    kernel = [g.rng.choice((1, 2, 3, 4, 5)) for _ in range(space)]
    strides = [g.rng.choice((1, 2, 2, 3)) for _ in range(space)]
    attributes: dict[str, Any] = {"kernel_shape": kernel, "strides": strides, "group": group}
    if g.chance(0.5):
        attributes["pads"] = [g.rng.randint(0, (k - 1) // 2) for k in kernel * 2]
    if g.chance(0.3):
        attributes["output_padding"] = [g.rng.randint(0, s - 1) for s in strides]
    if g.chance(0.2):
        attributes["dilations"] = [g.rng.choice((1, 2)) for _ in range(space)]
    scale = float(1 / np.sqrt(channels / group * np.prod(kernel)))
    w = g.fresh((channels, each, *kernel), x.dtype, g.chance(0.9), scale)
    b = g.fresh((each * group,), x.dtype, True, 0.1) if g.chance(0.5) else None
    return g.op("ConvTranspose", x, w, b, **attributes)


@kind(4)
def pooling(g: Graph) -> Value:
    x = image(g)
    name = g.rng.choice(
        (
            "MaxPool",
            "AveragePool",
            "MaxPool",
            "AveragePool",
            "LpPool",
            "GlobalAveragePool",
            "GlobalMaxPool",
        )
    )
    if name.startswith("Global"):
        return g.op(name, x)
    attributes = window(g, x)
    if g.chance(0.3) and "auto_pad" not in attributes:
        attributes["ceil_mode"] = 1
    if name == "AveragePool":
        attributes["count_include_pad"] = g.rng.randrange(2)
    if name == "LpPool":
        attributes["p"] = g.rng.choice((1, 2))
        x = g.op("Add", g.op("Abs", x), g.number(0.25, x.dtype))
    if name == "MaxPool" and g.chance(0.15):
        return g.op("MaxPool", x, outputs=2, **attributes)[0]
    return g.op(name, x, **attributes)


@kind(2)
def resize(g: Graph) -> Value:
    x = image(g)
    mode = g.rng.choice(("nearest", "nearest", "linear", "cubic"))
    attributes: dict[str, Any] = {"mode": mode}
    attributes["coordinate_transformation_mode"] = g.rng.choice(
        ("half_pixel", "asymmetric", "align_corners", "pytorch_half_pixel")
    )
    if mode == "nearest":
        attributes["nearest_mode"] = g.rng.choice(
            ("round_prefer_floor", "floor", "ceil", "round_prefer_ceil")
        )
    if mode == "cubic" and x.rank != 4:
        raise UnsoundError("cubic is for images")
    if g.chance(0.5):
        factors = [1.0, 1.0, *(g.rng.choice((2.0, 2.0, 0.5, 1.5, 3.0, 1.0)) for _ in x.shape[2:])]
        parts = any(size * factor % 1 for size, factor in zip(x.shape, factors, strict=True))
        if parts and attributes["coordinate_transformation_mode"] == "align_corners":
            raise UnsoundError("onnx's evaluator takes a size that is no whole number")
        return g.op("Resize", x, None, g.hold(np.array(factors, np.float32)), **attributes)
    sizes = [*x.shape[:2], *(max(1, int(s * g.rng.choice((2, 0.5, 1.3, 1)))) for s in x.shape[2:])]
    return g.op("Resize", x, None, None, g.ints(*sizes), **attributes)


@kind(1)
def blocks(g: Graph) -> Value:
    x = image(g)
    if x.rank != 4:
        raise UnsoundError("not an image")
    b = g.rng.choice((2, 3))
    if x.shape[1] % (b * b) == 0 and g.chance(0.7):
        return g.op("DepthToSpace", x, blocksize=b, mode=g.rng.choice(("DCR", "CRD")))
    return g.op("SpaceToDepth", x, blocksize=b)


@kind(1)
def local_response(g: Graph) -> Value:
    return g.op("LRN", image(g), size=g.rng.choice((1, 3, 5)), alpha=0.1, beta=0.75, bias=1.0)


@kind(1)
def grid_sample(g: Graph) -> Value:
    x = image(g)
    if x.rank != 4 or x.dtype in (F16, BF16):
        raise UnsoundError("sampled in f32")
    grid = g.hold(
        g.numpy.uniform(-1.1, 1.1, (x.shape[0], g.size(9), g.size(9), 2)).astype(x.dtype), False
    )
    # Cubic beyond the border: onnxruntime does not do what onnx's own evaluator does.
    mode, padding = g.rng.choice(
        (("linear", "zeros"), ("linear", "border"), ("linear", "reflection"), ("cubic", "zeros"))
    )
    return g.op(
        "GridSample", x, grid, mode=mode, padding_mode=padding, align_corners=g.rng.randrange(2)
    )


@kind(2)
def residual(g: Graph) -> Value:
    """Squeeze-and-excitation beside a bottleneck, as efficient nets have it."""
    x = image(g)
    if x.rank != 4:
        raise UnsoundError("not an image")
    c, few, dtype = x.shape[1], g.rng.choice((1, 4, 8)), x.dtype
    scale = float(c**-0.5)
    y = g.op("Conv", x, g.fresh((c, c, 1, 1), dtype, True, scale), g.fresh((c,), dtype, True, 0.1))
    y = g.op("Conv", y, g.fresh((c, 1, 3, 3), dtype, True, 0.33), group=c, pads=[1] * 4)
    y = g.op("Mul", y, g.op("Sigmoid", y))
    s = g.op("GlobalAveragePool", y) if g.chance(0.5) else g.op("ReduceMean", y, g.ints(2, 3))
    s = g.op("Relu", g.op("Conv", s, g.fresh((few, c, 1, 1), dtype, True, scale)))
    s = g.op("Sigmoid", g.op("Conv", s, g.fresh((c, few, 1, 1), dtype, True)))
    return g.op("Add", x, g.op("Mul", y, s))


@kind(1)
def turned_filter(g: Graph) -> Value:
    """A convolution whose filter is an input seen another way round."""
    x = image(g)
    space = x.rank - 2
    kernel = [min(g.rng.choice((1, 2, 3, 4)), s) for s in x.shape[2:]]
    perm = list(range(x.rank))
    g.rng.shuffle(perm)
    wanted = (g.rng.choice((3, 4, 8, 17)), x.shape[1], *kernel)
    shape = [wanted[perm.index(i)] for i in range(x.rank)]
    scale = float(1 / np.sqrt(np.prod(wanted[1:])))
    w = g.op("Transpose", g.fresh(shape, x.dtype, False, scale), perm=perm)
    if g.chance(0.5):
        over = g.rng.sample(range(x.rank), g.rng.randint(1, x.rank))
        back = [-1] * len(over)
        w = g.op(
            "Slice", w, g.ints(*back), g.ints(*([-1000] * len(over))), g.ints(*over), g.ints(*back)
        )
    return g.op(
        "Conv",
        x,
        w,
        strides=[g.rng.choice((1, 2))] * space,
        pads=[g.rng.choice((0, 1))] * 2 * space,
    )
