"""Normalisations, written as reductions and pointwise ops, which fuse."""

from __future__ import annotations

from typing import Any

from mlir import ir

from mgx_mlir.dialects import mgx
from mgx_mlir.errors import ModelError
from mgx_mlir.importer import emit, tensors
from mgx_mlir.importer.node import Node
from mgx_mlir.importer.registry import operator


@operator("BatchNormalization", (7, 15), "rsqrt mul add")
def batch_normalization(node: Node) -> Any:
    """x times one number for each channel, plus another: both fold into a convolution."""
    momentum = node.attribute("momentum")
    training = node.version >= 14 and bool(node.attribute("training_mode"))
    x, scale, bias, mean, variance = (node.tensor(i) for i in range(5))
    epsilon = node.attribute("epsilon")
    if node.version < 9 and not node.attribute("spatial") and tensors.rank(scale) > 1:
        return _normalised_each(x, scale, bias, mean, variance, epsilon)
    flat = tensors.rank(x) == 1
    x = emit.unsqueeze(x, [1]) if flat else x  # a batch of one channel
    running: list[ir.Value] = []
    if training:
        # The batch's own mean and variance count, and move the running ones.
        axes = [i for i in range(tensors.rank(x)) if i != 1]
        of_batch = mgx.reduce_mean(x, axes)
        centred = emit.sub(x, of_batch)
        spread = emit.squeeze(mgx.reduce_mean(mgx.mul(centred, centred), axes), axes)
        of_batch = emit.squeeze(of_batch, axes)
        for old, new in ((mean, of_batch), (variance, spread)):
            new = emit.convert(new, tensors.element(old))
            running.append(mgx.add(emit.mul(old, momentum), emit.mul(new, 1 - momentum)))
        mean, variance = of_batch, spread
    parameters = (scale, bias, mean, variance)
    scale, bias, mean, variance = (emit.convert(p, tensors.element(x)) for p in parameters)
    factor = mgx.mul(scale, mgx.rsqrt(emit.add(variance, epsilon)))
    offset = mgx.sub(bias, mgx.mul(mean, factor))
    y = mgx.mul(x, emit.along(x, factor, 1))
    y = mgx.add(y, emit.along(x, offset, 1))
    return [emit.squeeze(y, [1]) if flat else y, *running]


def _normalised_each(
    x: ir.Value,
    scale: ir.Value,
    bias: ir.Value,
    mean: ir.Value,
    variance: ir.Value,
    epsilon: float,
) -> ir.Value:
    """x, with parameters of its own for each element of an image: `spatial` is 0."""
    for parameter in (scale, bias, mean, variance):
        if tensors.dims(parameter) != tensors.dims(x)[1:]:
            raise ModelError(
                f"spatial = 0 and a parameter {tensors.show(tensors.dims(parameter))} for "
                f"{tensors.show(tensors.dims(x))}"
            )
    factor = mgx.mul(scale, mgx.rsqrt(emit.add(variance, epsilon)))
    return emit.add(emit.mul(x, factor), mgx.sub(bias, mgx.mul(mean, factor)))


def standardised(
    x: ir.Value, axes: list[int], epsilon: float
) -> tuple[ir.Value, ir.Value, ir.Value]:
    """(x - mean) / sqrt(variance + epsilon) along axes, the mean, and 1 / sqrt(...)."""
    mean = mgx.reduce_mean(x, axes)
    centred = emit.sub(x, mean)
    variance = mgx.reduce_mean(mgx.mul(centred, centred), axes)
    inverse = mgx.rsqrt(emit.add(variance, epsilon))
    return emit.mul(centred, inverse), mean, inverse


@operator("InstanceNormalization", (6, 22), "reduce_mean sub mul rsqrt add")
def instance_normalization(node: Node) -> ir.Value:
    x, scale, bias = node.tensors()
    if tensors.rank(x) < 3:
        raise ModelError(
            f"an input {tensors.show(tensors.dims(x))}; (batch, channels, ...) is needed"
        )
    axes = list(range(2, tensors.rank(x)))
    y, _, _ = standardised(emit.widened(x), axes, node.attribute("epsilon"))
    y = emit.convert(y, tensors.element(x))
    return mgx.add(mgx.mul(y, emit.along(y, scale, 1)), emit.along(y, bias, 1))


@operator("LayerNormalization", (17, 17), "reduce_mean sub mul rsqrt add")
def layer_normalization(node: Node) -> Any:
    x = node.tensor(0)
    axes = list(range(node.axis(), tensors.rank(x)))
    element = tensors.element(x)
    wide = _stashed(node, x)
    y, mean, inverse = standardised(wide, axes, node.attribute("epsilon"))
    y = emit.mul(emit.convert(y, element), node.tensor(1))
    if node.given(2):
        y = emit.add(y, node.tensor(2))
    return [y, mean, inverse]


# ONNX's numbers of types; onnxruntime takes 0, undefined, as f32 at least.
_STASH_TYPES = {0: "f32", 1: "f32", 10: "f16", 11: "f64", 16: "bf16"}


def _stashed(node: Node, x: ir.Value) -> ir.Value:
    """x in the type that the statistics are computed in."""
    stash = node.choice("stash_type", *_STASH_TYPES)
    if stash == 0 and emit.numpy_type(x).itemsize > 4:
        return x
    return emit.convert(x, _STASH_TYPES[stash])


@operator("GroupNormalization", (18, 21), "reduce_mean sub mul rsqrt add reshape")
def group_normalization(node: Node) -> ir.Value:
    """Scale and bias are for each group in version 18, for each channel since 21.

    Models of newer opsets have those of groups too, which their sizes say.
    """
    x, scale, bias = node.tensors()
    wide = _stashed(node, x) if node.version >= 21 else emit.widened(x)
    groups = int(node.attribute("num_groups"))
    y = emit.convert(grouped_norm(wide, groups, node.attribute("epsilon")), tensors.element(x))
    if node.version < 21 or tensors.dims(scale) == (groups,):
        channels = tensors.size_of(x, 1, "the number of channels")
        scale, bias = (_for_channels(p, groups, channels) for p in (scale, bias))
    return mgx.add(mgx.mul(y, emit.along(y, scale, 1)), emit.along(y, bias, 1))


def grouped_norm(x: ir.Value, groups: int, epsilon: float) -> ir.Value:
    """x (batch, channels, ...) standardised over each group of channels."""
    sizes, channels = tensors.dims(x), tensors.size_of(x, 1, "the number of channels")
    if groups < 1 or channels % groups:
        raise ModelError(f"{channels} channels in {groups} groups")
    grouped = emit.reshape(x, (sizes[0], groups, channels // groups, *sizes[2:]))
    y, _, _ = standardised(grouped, list(range(2, len(sizes) + 1)), epsilon)
    return emit.reshape(y, sizes)


def _for_channels(parameter: ir.Value, groups: int, channels: int) -> ir.Value:
    """A number for each group as one for each of its channels."""
    if tensors.dims(parameter) != (groups,):
        raise ModelError(f"{tensors.show(tensors.dims(parameter))} numbers for {groups} groups")
    wide = emit.broadcast(emit.unsqueeze(parameter, [1]), (groups, channels // groups))
    return emit.reshape(wide, (channels,))


@operator("MeanVarianceNormalization", (9, 13), "reduce_mean sub mul sqrt add div")
def mean_variance_normalization(node: Node) -> ir.Value:
    element = tensors.element(node.tensor(0))
    x = emit.widened(node.tensor(0))
    stated = node.attribute("axes") or [0, 2, 3]
    axes = sorted({tensors.axis_in(a, tensors.rank(x)) for a in stated})
    centred = emit.sub(x, mgx.reduce_mean(x, axes))
    deviation = mgx.sqrt(mgx.reduce_mean(mgx.mul(centred, centred), axes))
    return emit.convert(emit.div(centred, emit.add(deviation, 1e-9)), element)


def root_mean_square(x: ir.Value, axes: list[int], epsilon: float) -> tuple[ir.Value, ir.Value]:
    """x / sqrt(mean(x^2) + epsilon) along axes, and 1 / sqrt(...)."""
    inverse = mgx.rsqrt(emit.add(mgx.reduce_mean(mgx.mul(x, x), axes), epsilon))
    return emit.mul(x, inverse), inverse


@operator("RMSNormalization", (23, 23), "mul reduce_mean rsqrt")
def rms_normalization(node: Node) -> ir.Value:
    x = node.tensor(0)
    axes = list(range(node.axis(), tensors.rank(x)))
    y, _ = root_mean_square(_stashed(node, x), axes, node.attribute("epsilon"))
    return emit.mul(emit.convert(y, tensors.element(x)), node.tensor(1))
