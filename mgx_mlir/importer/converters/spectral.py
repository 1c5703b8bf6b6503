"""Fourier transforms, written as products with the matrices of sines and cosines.

A long transform of N1 * N2 numbers is N2 of N1 numbers, then N1 of N2 numbers.
"""

from __future__ import annotations

import math

import numpy as np
from mlir import ir

from mgx_mlir.dialects import mgx
from mgx_mlir.errors import ModelError
from mgx_mlir.importer import budget, element_types, emit, tensors
from mgx_mlir.importer.node import Node
from mgx_mlir.importer.registry import operator
from mgx_mlir.sizes.arithmetic import Size

# A transform of at least _LONG numbers has two steps, each of at least _SHORT.
_LONG, _SHORT = 2048, 8


@operator("DFT", (17, 20), "dot add sub slice pad")
def dft(node: Node) -> ir.Value:
    """The axis is an attribute in version 17, an input since; the last one holds (re, im)."""
    x = node.tensor(0)
    rank = tensors.rank(x)
    if node.version < 20:
        axis = int(node.attribute("axis"))
    else:
        axis = node.integers(2, "axis")[0] if node.given(2) else -2
    axis = tensors.axis_in(axis, rank)
    if axis == rank - 1:
        raise ModelError("a transform along the axis of real and imaginary parts")
    length = node.integers(1, "dft_length")[0] if node.given(1) else None
    inverse, onesided = bool(node.attribute("inverse")), bool(node.attribute("onesided"))
    return transform(node, x, axis, length, inverse=inverse, onesided=onesided)


@operator("STFT", (17, 17), "gather mul dot")
def stft(node: Node) -> ir.Value:
    """Transforms of segments of the signal (batch, length, 1 or 2), each times the window.

    PyTorch writes a real signal as (batch, length).
    """
    signal = node.tensor(0)
    if tensors.rank(signal) == 2:
        signal = emit.unsqueeze(signal, [2])
    if tensors.rank(signal) != 3 or tensors.dims(signal)[2] not in (1, 2):
        raise ModelError(
            f"a signal {tensors.show(tensors.dims(signal))}; (batch, length, 1 or 2) is needed"
        )
    (step,) = node.integers(1, "frame_step")
    size = tensors.size(tensors.dims(signal)[1])
    if node.given(3):
        (length,) = node.integers(3, "frame_length")
    elif node.given(2):
        length = tensors.size_of(node.tensor(2), 0, "the length of the window")
    else:
        length = tensors.size_of(signal, 1, "the length of the signal")
    if size is None or step < 1 or length < 1 or size < length:
        raise ModelError(f"frames of {length} every {step} in a signal of {size}")
    node.require(size - length)
    (count,) = tensors.named([(size - length) // step + 1])
    budget.check_made(count if isinstance(count, int) else 1, length)
    starts = emit.unsqueeze(emit.mul(emit.counted(count), step), [1])
    frames = mgx.gather(signal, emit.add(starts, emit.counted(length)), 1)
    if node.given(2):
        window = node.tensor(2)
        missing = length - tensors.size_of(window, 0, "the length of the window")
        if missing > 0:
            window = mgx.pad(window, [missing // 2], [missing - missing // 2])
        frames = emit.mul(frames, emit.reshape(window, (1, 1, length, 1)))
    return transform(node, frames, 2, length, onesided=bool(node.attribute("onesided")))


@operator("MelWeightMatrix", (17, 17), "constant")
def mel_weight_matrix(node: Node) -> np.ndarray:
    """Triangles over the bins of a spectrum, evenly spaced on the mel scale of pitch."""
    names = ("num_mel_bins", "dft_length", "sample_rate", "lower_edge_hertz", "upper_edge_hertz")
    bands, length, rate, low, high = (
        float(node.constant(i, name).reshape(())) for i, name in enumerate(names)
    )
    if min(bands, length, rate) < 1 or not 0 <= low <= high:
        raise ModelError(
            f"{bands:g} bands of a transform of {length:g} at a rate of {rate:g}, "
            f"from {low:g} to {high:g} hertz"
        )
    budget.check_made(int(length) // 2 + 1, int(bands))
    pitches = 2595 * np.log10(1 + np.array([low, high]) / 700)
    steps = np.arange(int(bands) + 2) * (pitches[1] - pitches[0]) / (int(bands) + 2)
    hertz = 700 * (10 ** ((steps + pitches[0]) / 2595) - 1)
    places = ((length + 1) * hertz // rate).astype(np.int64)
    weights = np.zeros((int(length) // 2 + 1, int(bands)))
    bins = np.arange(len(weights))
    for band in range(int(bands)):
        first, centre, last = places[band : band + 3]
        if first == centre:
            weights[centre, band] = 1
        for start, end, towards in ((first, centre + 1, first), (centre, last, last)):
            if centre != towards:
                part = (bins >= start) & (bins < end)
                weights[part, band] = (bins[part] - towards) / (centre - towards)
    element = element_types.of_onnx(int(node.attribute("output_datatype")))
    return weights.astype(element.numpy)


def transform(
    node: Node,
    x: ir.Value,
    axis: int,
    length: int | None,
    *,
    inverse: bool = False,
    onesided: bool = False,
) -> ir.Value:
    """The transform of x (..., 1 or 2) along an axis, which is cut or filled up to `length`.

    onesided: only the first half of the spectrum is made; with inverse, only that half is read.
    """
    if tensors.dims(x)[-1] not in (1, 2):
        raise ModelError(f"{tensors.show(tensors.dims(x))} ends with neither 1 nor 2, (re, im)")
    to_real = inverse and onesided
    found = tensors.sizes(x)[axis]
    if length is None and not to_real and isinstance(found, Size):
        return _of_any_length(x, axis, found, inverse, onesided)
    size = tensors.size_of(x, axis, "the size of the transformed dimension")
    if length is None:
        length = 2 * (size - 1) if to_real else size
    if length < 1:
        raise ModelError(f"a transform of length {length}")
    x, back = emit.moved_to_end(_fitted(x, axis, length // 2 + 1 if to_real else length), axis)
    half, first = length // 2 + 1, _factor(length)
    if length >= _LONG and first >= _SHORT and not to_real:
        y = _in_two(node, x, first, length // first, inverse)
        y = emit.take(y, tensors.rank(y) - 1, 0, half) if onesided else y
        return emit.transpose(y, back)
    rows, columns = (half, length) if to_real else (length, half if onesided else length)
    budget.check_made(rows, columns, itemsize=32)
    divisors = np.full((rows, 1), float(length) if inverse else 1.0)
    if to_real:
        divisors[1 : (length + 1) // 2] /= 2  # their mirror images are not stored
    turns = np.outer(np.arange(rows), np.arange(columns))
    tables = _tables(node, x, turns, length, inverse, divisors)
    return emit.transpose(_stacked(_products(_parts(x), *tables, to_real)), back)


def _of_any_length(x: ir.Value, axis: int, size: Size, inverse: bool, onesided: bool) -> ir.Value:
    """As `transform` of the whole axis, of that size; a run computes the matrices."""
    x, back = emit.moved_to_end(x, axis)
    length = emit.size_of(x, tensors.rank(x) - 1)
    (half,) = tensors.named([size // 2 + 1])
    rows = emit.unsqueeze(emit.counted(tensors.dims(x)[-1]), [1])
    columns = emit.counted(half if onesided else tensors.dims(x)[-1])
    turns = emit.binary(mgx.mod, emit.mul(rows, columns), length)
    length = emit.convert(length, tensors.element(x))
    angles = emit.div(emit.mul(emit.convert(turns, tensors.element(x)), 2 * np.pi), length)
    cos, sin = mgx.cos(angles), mgx.sin(angles)
    if inverse:
        parts = _products(_parts(x), emit.div(cos, length), emit.div(sin, length))
    else:
        parts = _products(_parts(x), cos, mgx.neg(sin))
    return emit.transpose(_stacked(parts), back)


def _factor(length: int) -> int:
    """The largest factor of a number whose square is not larger."""
    return next(n for n in range(math.isqrt(length), 0, -1) if length % n == 0)


def _in_two(node: Node, x: ir.Value, first: int, second: int, inverse: bool) -> ir.Value:
    """The transform of x (..., re and im, first * second), in two steps.

    Number second*i + j of x and number k + first*l of the result: sums over i for each j and k,
    turned by j*k steps, then sums over j.
    """
    length = first * second
    budget.check_made(second, second, itemsize=32)

    def products(parts: list[ir.Value], size: int, divisor: float = 1) -> list[ir.Value]:
        """Along the last dimension but one, which is the last of the results."""
        turns = np.outer(np.arange(size), np.arange(size))
        tables = _tables(node, x, turns, size, inverse, divisor)
        return _products([_swapped(part) for part in parts], *tables)

    parts = [emit.reshape(y, [*tensors.dims(y)[:-1], first, second]) for y in _parts(x)]
    real, imaginary = products(parts, first)
    cos, sin = _tables(node, x, np.outer(np.arange(second), np.arange(first)), length, inverse)
    turned = [
        mgx.sub(emit.mul(real, cos), emit.mul(imaginary, sin)),
        mgx.add(emit.mul(real, sin), emit.mul(imaginary, cos)),
    ]
    y = _swapped(_stacked(products(turned, second, length if inverse else 1), 3))
    return emit.reshape(y, [*tensors.dims(y)[:-2], length])


def _tables(
    node: Node,
    x: ir.Value,
    turns: np.ndarray,
    length: int,
    inverse: bool,
    divisor: np.ndarray | float = 1,
) -> tuple[ir.Value, ir.Value]:
    """Cosines and sines of turns of a circle in `length` steps, divided, of x's element type."""
    angles = 2 * np.pi * (turns % length) / length
    sin = np.sin(angles) * (1 if inverse else -1)
    dtype = emit.numpy_type(x)
    cos, sin = ((table / divisor).astype(dtype) for table in (np.cos(angles), sin))
    return node.make(cos), node.make(sin)


def _swapped(x: ir.Value) -> ir.Value:
    """x with its last two dimensions in the other order."""
    rank = tensors.rank(x)
    return emit.transpose(x, [*range(rank - 2), rank - 1, rank - 2])


def _parts(x: ir.Value) -> list[ir.Value]:
    """The real and the imaginary part, if there is one, of x (..., re and im, size)."""
    last = tensors.rank(x) - 2
    count = tensors.size_of(x, last, "the number of parts")
    return [emit.squeeze(emit.take(x, last, i, i + 1), [last]) for i in range(count)]


def _stacked(parts: list[ir.Value], places: int = 2) -> ir.Value:
    """Parts as a dimension, that many places from the end of the result."""
    return emit.stack(parts, tensors.rank(parts[0]) + 1 - places)


def _products(
    parts: list[ir.Value], cos: ir.Value, sin: ir.Value, to_real: bool = False
) -> list[ir.Value]:
    """Real and imaginary parts (..., size) times the matrices: the parts of the results."""
    real = emit.dot(parts[0], cos)
    if len(parts) == 2:
        real = mgx.sub(real, emit.dot(parts[1], sin))
    if to_real:
        return [real]
    imaginary = emit.dot(parts[0], sin)
    if len(parts) == 2:
        imaginary = mgx.add(imaginary, emit.dot(parts[1], cos))
    return [real, imaginary]


def _fitted(x: ir.Value, axis: int, size: int) -> ir.Value:
    """x cut at the end of an axis, or filled up with zeros."""
    missing = size - tensors.size_of(x, axis, "the size of the transformed dimension")
    if missing <= 0:
        return emit.take(x, axis, 0, size)
    high = [missing if i == axis else 0 for i in range(tensors.rank(x))]
    return mgx.pad(x, [0] * len(high), high)
