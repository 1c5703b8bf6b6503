"""resize: each result element reads its neighbours in the input, weighted along each dimension.

The coordinate of each result is computed in f32 without contraction, operation by operation as
ONNX's runtimes compute it: the nearest element of a tie depends on that rounding.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any

import numpy as np
from mlir import ir
from mlir.dialects import arith
from mlir.dialects import math as mlir_math

from mgx_mlir.codegen.loops.body import Body, Indices, Lazy
from mgx_mlir.codegen.loops.kernel import Kernel, lowers
from mgx_mlir.codegen.loops.ops.movement import word
from mgx_mlir.codegen.loops.value import LazyView, reshape
from mgx_mlir.codegen.meaning.arithmetic import Arithmetic
from mgx_mlir.codegen.meaning.convert import change, convert, load
from mgx_mlir.codegen.meaning.element import F32, I32, sizes_of
from mgx_mlir.codegen.meaning.index import Index, fixed, real, value_of
from mgx_mlir.dialects import mgx
from mgx_mlir.errors import UnsupportedError
from mgx_mlir.sizes.arithmetic import Number, exact


@dataclass(frozen=True)
class Axis:
    """How one dimension is resized. An infinite scale is the ratio of sizes that a run knows."""

    size: Number
    wanted: Number
    scale: float
    coordinates: str
    start: float = 0.0
    end: float = 1.0

    @property
    def is_identity(self) -> bool:
        return self.size == self.wanted and self.scale == 1.0 and not self.crops

    @property
    def crops(self) -> bool:
        """Whether results may fall outside of the input."""
        return self.coordinates == "tf_crop_and_resize"

    def steps(self) -> list[tuple[str, Any]]:
        """The coordinate in the input as operations on the result's index, in order."""
        f32: Any = np.float32
        size, wanted = real(self.size), real(self.wanted)
        scale = f32(self.scale) if self.scale < math.inf else wanted / size
        mode = self.coordinates
        if mode == "asymmetric":
            return [("div", scale)]
        if self.wanted != 0 and not isinstance(self.wanted, int):
            return self._steps_at_run(size, wanted, scale)
        if mode == "align_corners":
            return (
                [("mul", size - f32(1)), ("div", wanted - f32(1))] if wanted > 1 else [("mul", 0.0)]
            )
        if mode == "pytorch_half_pixel" and wanted <= 1:
            return [("mul", 0.0)]
        if mode == "half_pixel_symmetric":
            offset = size / f32(2) * (f32(1) - wanted / (scale * size))
            return [("add", 0.5), ("div", scale), ("add", offset), ("add", -0.5)]
        if mode == "tf_crop_and_resize":
            start, end = f32(self.start), f32(self.end)
            if wanted <= 1:
                return [("add", f32(0.5) * (start + end) * (size - f32(1)))]
            return [
                ("mul", (end - start) * (size - f32(1)) / (wanted - f32(1))),
                ("add", start * (size - f32(1))),
            ]
        return [("add", 0.5), ("div", scale), ("add", -0.5)]

    def _steps_at_run(self, size: Any, wanted: Any, scale: Any) -> list[tuple[str, Any]]:
        """As `steps`, where a run knows whether there is more than one result index."""
        one, mode = np.float32(1), self.coordinates
        steps: list[tuple[str, Any]] = [("add", 0.5), ("div", scale), ("add", -0.5)]
        if mode == "align_corners":
            return [("mul", size - one), ("div", (wanted - one).at_least(1.0))]
        if mode == "pytorch_half_pixel":
            return [*steps, ("mul", (wanted - one).at_least(0.0).at_most(1.0))]
        if mode == "half_pixel_symmetric":
            offset = size / np.float32(2) * (one - wanted / (scale * size))
            return [*steps[:2], ("add", offset), ("add", -0.5)]
        if mode == "tf_crop_and_resize":
            raise UnsupportedError(f"{mode} has no form for sizes that only a run knows")
        return steps

    def places(self) -> np.ndarray[Any, Any]:
        """The coordinate in the input of each result index, as f32."""
        value = np.arange(fixed(self.wanted), dtype=np.float32)
        for name, number in self.steps():
            operation = {"add": np.add, "mul": np.multiply, "div": np.divide}[name]
            value = operation(value, np.float32(number))
        return value

    def nearest(self, mode: str) -> np.ndarray[Any, Any]:
        """The input index that is nearest to each result index."""
        value, half = self.places(), np.float32(0.5)
        whole = {
            "round_prefer_floor": np.ceil(value - half),
            "round_prefer_ceil": np.floor(value + half),
            "floor": np.floor(value),
            "ceil": np.ceil(value),
        }
        return np.clip(whole[mode], 0, fixed(self.size) - 1).astype(np.int64)


@lowers(mgx.ResizeOp)
def resize(kernel: Kernel, op: mgx.ResizeOp, operands: Sequence[Lazy]) -> Lazy:
    x, shape = kernel.settled(operands[0], 2), sizes_of(op.result.type)
    axes = axes_of(op, x.shape, shape)
    if repeated := _repeated(op, x, axes):
        return reshape(repeated, shape)
    read = _nearest(op, x, axes) if word(op.mode) == "nearest" else _interpolated(op, x, axes)
    if word(op.coordinate_mode) == "tf_crop_and_resize":
        read = _with_outside(kernel, op, x, axes, read)
    return kernel.result_of(op, read, 16)


def _repeated(op: mgx.ResizeOp, x: Lazy, axes: Sequence[Axis]) -> Lazy | None:
    """The elements with a dimension more behind each that is repeated; None for other results.

    So loops over the result divide no index.
    """
    if word(op.mode) != "nearest":
        return None
    sizes: list[Number] = []
    places: list[int] = []
    for axis in axes:
        places.append(len(sizes))
        sizes.append(axis.size)
        times = 1 if axis.is_identity or axis.size == 0 else exact(axis.wanted, axis.size)
        if not isinstance(times, int):
            return None
        if times != 1:
            if _as_division(axis, word(op.nearest_mode)) != (1, 0, times):
                return None
            sizes.append(times)
    return LazyView(x, sizes, lambda indices: tuple(indices[place] for place in places))


def axes_of(op: mgx.ResizeOp, source: Sequence[Number], shape: Sequence[Number]) -> list[Axis]:
    rank = len(shape)
    roi = list(op.roi) if op.roi is not None else [0.0] * rank + [1.0] * rank
    mode = word(op.coordinate_mode)
    return [
        Axis(source[d], shape[d], op.scales[d], mode, roi[d], roi[rank + d]) for d in range(rank)
    ]


def _coordinate(body: Body, axis: Axis, index: Index) -> ir.Value:
    """The coordinate of the result index in the input, as f32."""

    def build() -> ir.Value:
        narrow = arith.index_cast(I32.storage(), body.scalar(index))
        value = arith.sitofp(F32.storage(), narrow)
        operations = {"add": arith.addf, "mul": arith.mulf, "div": arith.divf}
        for name, number in axis.steps():
            value = operations[name](value, value_of(number))
        return value

    return body.once((axis, index), build)


def _integer(value: ir.Value, size: Number) -> Index:
    """A whole f32 as an index, clamped into the dimension; it is no NaN."""
    value = arith.maxnumf(value, value_of(0.0))
    value = arith.minnumf(value, value_of(real(size - 1)))
    index = arith.index_cast(ir.IndexType.get(), arith.fptosi(I32.storage(), value))
    return Index.runtime(index, 0, size - 1)


# nearest


def _nearest(
    op: mgx.ResizeOp, x: Lazy, axes: Sequence[Axis]
) -> Callable[[Body, Indices], ir.Value]:
    places = [nearest_place(op, axis) for axis in axes]

    def read(body: Body, indices: Indices) -> ir.Value:
        return body.at(x, [place(body, i) for place, i in zip(places, indices, strict=True)])

    return read


def nearest_place(op: mgx.ResizeOp, axis: Axis) -> Callable[[Body, Index], Index]:
    """The index in the input that is nearest to an index of the result, along a dimension."""
    mode = word(op.nearest_mode)
    if axis.is_identity:
        return lambda _body, index: index
    if (division := _as_division(axis, mode)) is not None:
        factor, offset, divisor = division
        return lambda _body, index: (index * factor + offset) // divisor

    def place(body: Body, index: Index) -> Index:
        return _integer(_rounded(_coordinate(body, axis, index), mode), axis.size)

    return place


def _rounded(value: ir.Value, mode: str) -> ir.Value:
    half = Arithmetic().float(0.5, value)
    if mode == "round_prefer_floor":
        return mlir_math.ceil(arith.subf(value, half))
    if mode == "round_prefer_ceil":
        return mlir_math.floor(arith.addf(value, half))
    return (mlir_math.floor if mode == "floor" else mlir_math.ceil)(value)


def _as_division(axis: Axis, mode: str) -> tuple[int, int, int] | None:
    """(factor, offset, divisor) where the input index is (i * factor + offset) / divisor for every
    result index i, if such numbers exist. No float is needed then, and a factor of two is a
    division by two."""
    if not (isinstance(axis.wanted, int) and isinstance(axis.size, int)):
        return _as_repeats(axis, mode)
    if axis.wanted == 0:
        return 1, 0, 1
    table = axis.nearest(mode)
    ratio = Fraction(axis.size, axis.wanted)
    positions = np.arange(axis.wanted, dtype=np.int64) * ratio.numerator
    for offset in range(ratio.denominator + ratio.numerator):
        if np.array_equal((positions + offset) // ratio.denominator, table):
            return ratio.numerator, offset, ratio.denominator
    return None


def _as_repeats(axis: Axis, mode: str) -> tuple[int, int, int] | None:
    """As `_as_division`, of an axis of any size that is repeated so many times."""
    if not repeats_exactly(axis):
        return None
    return _as_division(replace(axis, size=16, wanted=16 * int(axis.scale)), mode)


def repeats_exactly(axis: Axis) -> bool:
    """Whether an axis of any size is repeated so many times that few elements are as many are: all
    steps are exact in f32, up to the most that it counts."""
    times = exact(axis.wanted, axis.size)
    if not isinstance(times, int) or axis.scale != times or times & (times - 1):
        return False
    return axis.coordinates not in ("align_corners", "tf_crop_and_resize")


# linear and cubic


def _interpolated(
    op: mgx.ResizeOp, x: Lazy, axes: Sequence[Axis]
) -> Callable[[Body, Indices], ir.Value]:
    element = x.element.computed()
    wide = element if element.is_float else F32

    def read(body: Body, indices: Indices) -> ir.Value:
        a = body.arithmetic
        choices: list[list[tuple[Index, ir.Value | None]]] = []
        for axis, index in zip(axes, indices, strict=True):
            choices.append([(index, None)] if axis.is_identity else taps_of(body, op, axis, index))
        total: ir.Value | None = None
        for taps in itertools.product(*choices):
            value = load(a, x.element, body.at(x, [index for index, _ in taps]))
            value = change(a, element, wide, value)
            weights = [w for _, w in taps if w is not None]
            for weight in weights:
                value = a.mul(value, change(a, F32, wide, weight))
            total = value if total is None else a.add(total, value)
        assert total is not None
        if not element.is_float:
            total = a.math("roundeven", total)
        return convert(a, wide, x.element, total)

    return read


def taps_of(
    body: Body, op: mgx.ResizeOp, axis: Axis, index: Index
) -> list[tuple[Index, ir.Value | None]]:
    """The input indices that a result index reads along a dimension, and their weights (f32)."""
    a = Arithmetic()
    where = _coordinate(body, axis, index)
    base = mlir_math.floor(where)
    cubic = word(op.mode) == "cubic"
    stretch = min(axis.scale, 1.0) if op.antialias.value else 1.0
    reach = math.ceil((2 if cubic else 1) / stretch)
    taps: list[tuple[Index, ir.Value]] = []
    for offset in range(1 - reach, reach + 1):
        position = arith.addf(base, a.float(float(offset), base))
        distance = mlir_math.absf(arith.subf(position, where))
        if stretch != 1.0:
            distance = arith.mulf(distance, a.float(stretch, distance))
        if cubic:
            weight = _cubic(a, distance, op.cubic_coeff_a.value)
        else:
            near = arith.subf(a.float(1.0, distance), distance)
            weight = arith.maxnumf(near, a.float(0.0, distance))
        if op.exclude_outside.value:
            weight = a.select(_is_inside(position, axis.size), weight, a.float(0.0, weight))
        taps.append((_integer(position, axis.size), weight))
    if op.exclude_outside.value or op.antialias.value:
        total = taps[0][1]
        for _, weight in taps[1:]:
            total = arith.addf(total, weight)
        taps = [(place, arith.divf(weight, total)) for place, weight in taps]
    return list(taps)


def _is_inside(position: ir.Value, size: Number) -> ir.Value:
    a = Arithmetic()
    low = a.compare("oge", position, a.float(0.0, position))
    high = a.compare("ole", position, value_of(real(size - 1)))
    return arith.andi(low, high)


def _cubic(a: Arithmetic, d: ir.Value, coefficient: float) -> ir.Value:
    """Keys' kernel: ((a + 2) d - (a + 3)) d^2 + 1 up to 1, ((a d - 5a) d + 8a) d - 4a up to 2."""

    def horner(*factors: float) -> ir.Value:
        value = a.float(factors[0], d)
        for factor in factors[1:]:
            value = arith.addf(arith.mulf(value, d), a.float(factor, d))
        return value

    c = coefficient
    near, far = horner(c + 2, -(c + 3), 0.0, 1.0), horner(c, -5 * c, 8 * c, -4 * c)
    far = a.select(a.compare("olt", d, a.float(2.0, d)), far, a.float(0.0, d))
    return a.select(a.compare("ole", d, a.float(1.0, d)), near, far)


def _with_outside(
    kernel: Kernel,
    op: mgx.ResizeOp,
    x: Lazy,
    axes: Sequence[Axis],
    read: Callable[[Body, Indices], ir.Value],
) -> Callable[[Body, Indices], ir.Value]:
    """A reader that gives the extrapolation value outside of the input, `read`'s value inside."""

    def guarded(body: Body, indices: Indices) -> ir.Value:
        value = read(body, indices)
        for axis, index in zip(axes, indices, strict=True):
            inside = _is_inside(_coordinate(body, axis, index), axis.size)
            fill = kernel.scalar(x.element, op.extrapolation_value.value)
            value = arith.select(inside, value, fill)
        return value

    return guarded
