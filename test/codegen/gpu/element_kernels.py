"""Pointwise kernels and copies for the GPU tests: mgx text, and numpy's word on them."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from kernel_text import DTYPES, ROUNDING, SMALLEST, Type, first_wrong, kernel_text, parsed, tensor
from mlir import ir

from mgx_mlir.codegen.gpu.families.pointwise.match import PointwiseSchedule
from mgx_mlir.codegen.gpu.families.pooling import PoolingSchedule

Array = np.ndarray[Any, Any]


@dataclass(frozen=True)
class ElementKernel:
    """A kernel of inputs (shape, element); `meaning` takes and gives arrays in f64."""

    name: str
    inputs: tuple[Type, ...]
    results: tuple[Type, ...]
    body: str
    meaning: Callable[..., list[Array]]
    units: float = 1.0  # halves of a unit in the last place that a result may be off,
    scale: Callable[..., Array] | None = None  # of the result or, where larger, of this
    schedule: Any = None

    def text(self) -> str:
        return kernel_text(self.inputs, self.results, self.body)

    def kernel(self) -> tuple[ir.Module, ir.OpView]:
        return parsed(self.text())

    def arrays(self) -> list[Array]:
        rng = np.random.default_rng(11)
        made = []
        for shape, element in self.inputs:
            dtype = DTYPES[element]
            if element == "i1":
                made.append(rng.integers(0, 2, shape).astype(bool))
            elif element in ROUNDING:
                made.append(rng.normal(0, 3, shape).astype(dtype))
            else:
                low = 0 if element.startswith("u") else -100
                made.append(rng.integers(low, 100, shape).astype(dtype))
        return made

    def wanted(self, *inputs: Array) -> list[Array]:
        wide = [x.astype(np.float64) if x.dtype.kind in "fV" else x for x in inputs]
        return [np.asarray(y) for y in self.meaning(*wide)]

    def problem(self, number: int, want: Array, have: Array, inputs: Sequence[Array]) -> str:
        """The difference of a result from the wanted one; '' where there is none."""
        element = self.results[number][1]
        if element not in ROUNDING:
            wrong = have != want
        else:
            size = np.abs(want)
            if self.scale is not None:
                size = np.maximum(size, self.scale(*[x.astype(np.float64) for x in inputs]))
            bound = self.units * ROUNDING[element] * size + SMALLEST.get(element, 1e-37)
            wrong = ~(np.abs(have.astype(np.float64) - want) <= bound)
        return first_wrong(wrong, want, have)


def _copy(
    name: str, element: str, stored: tuple[int, ...], body: str, meaning: Any
) -> ElementKernel:
    array = meaning(np.broadcast_to(0.0, stored))
    text = body.format(source=tensor(stored, element), result=tensor(array.shape, element))
    return ElementKernel(
        f"{name}-{'x'.join(map(str, stored))}-{element}",
        ((stored, element),),
        ((array.shape, element),),
        text,
        lambda x: [meaning(x)],
    )


def transpose(stored: tuple[int, ...], order: tuple[int, ...], element: str) -> ElementKernel:
    body = f"%y = mgx.transpose %x0 permutation = {list(order)} : {{source}} -> {{result}}"
    name = "transpose" + "".join(map(str, order))
    return _copy(name, element, stored, body, lambda x: x.transpose(order))


def _pointwise(operands: str, types: str, result: str, scalars: str, body: str) -> str:
    return (
        f"%y = mgx.pointwise({operands}) : ({types}) -> {result} {{\n^bb0({scalars}):\n{body}\n}}"
    )


_erf = np.vectorize(math.erf)


def gelu(
    shape: tuple[int, ...],
    element: str,
    units: float = 2.0,
    schedule: PointwiseSchedule | None = None,
) -> ElementKernel:
    """x + b, then gelu by erf, as a model writes it."""
    t, e = tensor(shape, element), element
    body = (
        f"%s = mgx.add %a, %b : {e}, {e} -> {e}\n%c = mgx.constant 0.70710678118 : {e}\n"
        f"%d = mgx.mul %s, %c : {e}, {e} -> {e}\n%f = mgx.erf %d : {e}\n"
        f"%one = mgx.constant 1.0 : {e}\n%g = mgx.add %f, %one : {e}, {e} -> {e}\n"
        f"%h = mgx.mul %s, %g : {e}, {e} -> {e}\n%half = mgx.constant 0.5 : {e}\n"
        f"%o = mgx.mul %h, %half : {e}, {e} -> {e}\nmgx.yield %o : {e}"
    )
    text = _pointwise("%x0, %x1", f"{t}, {t}", t, f"%a: {e}, %b: {e}", body)

    def meaning(x: Array, y: Array) -> list[Array]:
        s = x + y
        return [0.5 * s * (1 + _erf(s * math.sqrt(0.5)))]

    return ElementKernel(
        f"gelu-{'x'.join(map(str, shape))}-{element}",
        ((shape, e), (shape, e)),
        ((shape, e),),
        text,
        meaning,
        units,
        lambda x, y: np.abs(x + y),
        schedule,
    )


def bias(
    shape: tuple[int, ...], axis: int, element: str, schedule: PointwiseSchedule | None = None
) -> ElementKernel:
    """x + b broadcast from one dimension, and whether it is positive."""
    small = tuple(n if d == axis else 1 for d, n in enumerate(shape))
    t, p, e = tensor(shape, element), tensor(shape, "i1"), element
    body = (
        f"%w = mgx.multibroadcast %x1 : {tensor(small, e)} -> {t}\n"
        f"%y:2 = mgx.pointwise(%x0, %w) : ({t}, {t}) -> ({t}, {p}) {{\n"
        f"^bb0(%a: {e}, %b: {e}):\n%s = mgx.add %a, %b : {e}, {e} -> {e}\n"
        f"%z = mgx.constant 0.0 : {e}\n%g = mgx.greater %s, %z : {e}, {e} -> i1\n"
        f"mgx.yield %s, %g : {e}, i1\n}}"
    )
    return ElementKernel(
        f"bias-{'x'.join(map(str, shape))}-{axis}-{element}",
        ((shape, e), (small, e)),
        ((shape, e), (shape, "i1")),
        body,
        lambda x, b: [x + b, x + b > 0],
        2.0,
        schedule=schedule,
    )


def slices(shape: tuple[int, ...], start: int, end: int) -> ElementKernel:
    """The product of a slice of f32 and a mask of bytes, through a reshape."""
    cut = (shape[0], end - start)
    t, m = tensor(cut, "f32"), tensor(cut, "i1")
    flat = (cut[0] * cut[1],)
    body = (
        f"%v = mgx.slice %x0 axes = [1] starts = [{start}] ends = [{end}] : "
        f"{tensor(shape, 'f32')} -> {t}\n"
        f"%p = mgx.pointwise(%v, %x1) : ({t}, {m}) -> {t} {{\n^bb0(%a: f32, %b: i1):\n"
        "%z = mgx.constant 0.0 : f32\n%s = mgx.where %b, %a, %z : i1, f32, f32 -> f32\n"
        f"mgx.yield %s : f32\n}}\n%y = mgx.reshape %p : "
        f"{t} -> {tensor(flat, 'f32')}"
    )
    return ElementKernel(
        f"slices-{'x'.join(map(str, shape))}-{start}-{end}",
        ((shape, "f32"), (cut, "i1")),
        ((flat, "f32"),),
        body,
        lambda x, m: [np.where(m, x[:, start:end], 0).reshape(-1)],
    )


def residual(shape: tuple[int, int], element: str) -> ElementKernel:
    """The sum of a transposed input, one as it lies and a bias of each row."""
    stored, bias = shape[::-1], (shape[0], 1)
    t, e = tensor(shape, element), element
    body = (
        f"%v = mgx.transpose %x0 permutation = [1, 0] : {tensor(stored, e)} -> {t}\n"
        f"%w = mgx.multibroadcast %x2 : {tensor(bias, e)} -> {t}\n"
        f"%y = mgx.pointwise(%v, %x1, %w) : ({t}, {t}, {t}) -> {t} {{\n"
        f"^bb0(%a: {e}, %b: {e}, %c: {e}):\n%s = mgx.add %a, %b : {e}, {e} -> {e}\n"
        f"%r = mgx.add %s, %c : {e}, {e} -> {e}\nmgx.yield %r : {e}\n}}"
    )
    return ElementKernel(
        f"residual-{'x'.join(map(str, shape))}-{element}",
        ((stored, e), (shape, e), (bias, e)),
        ((shape, e),),
        body,
        lambda x, y, b: [x.T + y + b],
        2.0,
        lambda x, y, b: np.abs(x.T) + np.abs(y) + np.abs(b),
    )


def gather(
    stored: tuple[int, ...], chosen: tuple[int, ...], axis: int, element: str
) -> ElementKernel:
    """Slices by indices, some of which count from the end."""
    result = (*stored[:axis], *chosen, *stored[axis + 1 :])
    body = (
        f"%y = mgx.gather %x0[%x1] axis = {axis} : {tensor(stored, element)}, "
        f"{tensor(chosen, 'i64')} -> {tensor(result, element)}"
    )

    def meaning(x: Array, i: Array) -> list[Array]:
        i = np.clip(np.where(i < 0, i + stored[axis], i), 0, stored[axis] - 1)
        return [np.take(x, i, axis)]

    return ElementKernel(
        f"gather-{'x'.join(map(str, stored))}-{axis}-{element}",
        ((stored, element), (chosen, "i64")),
        ((result, element),),
        body,
        meaning,
    )


def concat(shapes: Sequence[tuple[int, ...]], axis: int, element: str) -> ElementKernel:
    """Tensors beside each other; the first is read transposed."""
    first = shapes[0][::-1]
    result = list(shapes[0])
    result[axis] = sum(shape[axis] for shape in shapes)
    order = list(reversed(range(len(first))))
    names = ["%v", *(f"%x{n}" for n in range(1, len(shapes)))]
    types = ", ".join(tensor(shape, element) for shape in shapes)
    body = (
        f"%v = mgx.transpose %x0 permutation = {order} : {tensor(first, element)} -> "
        f"{tensor(shapes[0], element)}\n"
        f"%y = mgx.concat {', '.join(names)} axis = {axis} : {types} -> "
        f"{tensor(result, element)}"
    )
    return ElementKernel(
        f"concat-{'-'.join('x'.join(map(str, s)) for s in shapes)}-{axis}-{element}",
        tuple((shape, element) for shape in (first, *shapes[1:])),
        ((tuple(result), element),),
        body,
        lambda x, *more: [np.concatenate([x.T, *more], axis)],
    )


def pad(
    stored: tuple[int, ...], low: tuple[int, ...], high: tuple[int, ...], value: float, element: str
) -> ElementKernel:
    result = tuple(n + a + b for n, a, b in zip(stored, low, high, strict=True))
    body = (
        f"%y = mgx.pad %x0 low = {list(low)} high = {list(high)} "
        f"{{value = {float(value)} : f64}} : {tensor(stored, element)} -> {tensor(result, element)}"
    )

    def meaning(x: Array) -> list[Array]:
        sizes = zip(stored, low, high, strict=True)
        cut = tuple(slice(max(-a, 0), n - max(-b, 0)) for n, a, b in sizes)
        widths = [(max(a, 0), max(b, 0)) for a, b in zip(low, high, strict=True)]
        return [np.pad(x[cut], widths, constant_values=value)]

    return ElementKernel(
        f"pad-{'x'.join(map(str, stored))}-{''.join(map(str, low))}-{value}-{element}",
        ((stored, element),),
        ((result, element),),
        body,
        meaning,
    )


def pooling(
    mode: str,
    shape: tuple[int, ...],
    window: tuple[int, int, int],
    pads: tuple[int, int],
    element: str,
    padded: bool = False,
    schedule: Any = None,
    biased: bool = False,
) -> ElementKernel:
    """PoolingSchedule of (length, stride, dilation) and padding (before, after) along H and W.

    `biased`: a number for each channel, and an image, are added to the results.
    """
    length, stride, dilation = window
    low, high = pads
    reach = (length - 1) * dilation + 1
    outputs = tuple((n + low + high - reach) // stride + 1 for n in shape[2:])
    result = (*shape[:2], *outputs)
    flag = " {count_include_pad = true}" if padded else ""
    body = (
        f"%y = mgx.pooling {mode} %x0 lengths = {[length] * 2} pads = {[low, low, high, high]} "
        f"strides = {[stride] * 2} dilations = {[dilation] * 2}{flag} : "
        f"{tensor(shape, element)} -> {tensor(result, element)}"
    )

    stored = [shape]
    if biased:
        stored += [(shape[1], 1, 1), result]
        image, bias = tensor(result, element), tensor(stored[1], element)
        body = body.replace("%y", "%p") + (
            f"\n%b = mgx.multibroadcast %x1 : {bias} -> {image}\n"
            f"%y = mgx.pointwise(%p, %x2, %b) : ({image}, {image}, {image}) -> {image} {{\n"
            f"^bb0(%k: {element}, %m: {element}, %n: {element}):\n"
            f"%s = mgx.add %k, %m : {element}, {element} -> {element}\n"
            f"%t = mgx.add %s, %n : {element}, {element} -> {element}\n"
            f"mgx.yield %t : {element}\n}}"
        )

    def meaning(x: Array, *more: Array) -> list[Array]:
        wide = x.astype(np.float64)
        fill = -np.inf if mode == "max" else 0.0
        widths = [(0, 0), (0, 0), (low, high), (low, high)]
        data = np.pad(wide, widths, constant_values=fill)
        ones = np.pad(np.ones_like(wide), widths, constant_values=float(padded))
        y, count = np.full(result, fill), np.zeros(result)
        for i in range(length):
            for j in range(length):
                rows = slice(i * dilation, i * dilation + (outputs[0] - 1) * stride + 1, stride)
                columns = slice(j * dilation, j * dilation + (outputs[1] - 1) * stride + 1, stride)
                part = data[:, :, rows, columns]
                part = part * part if mode == "lpnorm" else part
                y = np.maximum(y, part) if mode == "max" else y + part
                count += ones[:, :, rows, columns]
        y = y / count if mode == "average" else np.sqrt(y) if mode == "lpnorm" else y
        if more:
            y = y + more[0].astype(np.float64) + more[1].astype(np.float64)
        return [np.trunc(y).astype(x.dtype) if x.dtype.kind in "iu" else y]

    name = f"pooling-{mode}-{'x'.join(map(str, shape))}-{length}{stride}{dilation}-{element}"
    return ElementKernel(
        name + "-biased" * biased,
        tuple((x, element) for x in stored),
        ((result, element),),
        body,
        meaning,
        4.0,
        lambda x, *more: sum(np.max(np.abs(y)) for y in (x, *more)),
        schedule,
    )


def lrn(shape: tuple[int, ...], size: int, beta: float, element: str) -> ElementKernel:
    t = tensor(shape, element)
    body = (
        f"%y = mgx.lrn %x0 size = {size} "
        f"{{alpha = 0.1 : f32, beta = {beta} : f32, bias = 1.5 : f32}} : {t}"
    )

    def meaning(x: Array) -> list[Array]:
        before, channels = (size - 1) // 2, shape[1]
        widths = [(0, 0), (before, size - 1 - before), *[(0, 0)] * (len(shape) - 2)]
        squares = np.pad(x * x, widths)
        sums = sum(squares[:, n : n + channels] for n in range(size))
        return [x / (1.5 + 0.1 / size * sums) ** beta]

    return ElementKernel(
        f"lrn-{'x'.join(map(str, shape))}-{size}-{element}",
        ((shape, element),),
        ((shape, element),),
        body,
        meaning,
        8.0,
    )


def topk(
    shape: tuple[int, ...], k: int, axis: int, element: str, largest: bool = True
) -> ElementKernel:
    """With many equal elements, so that their order matters."""
    result = (*shape[:axis], k, *shape[axis + 1 :])
    flag = "" if largest else " {largest = false}"
    body = (
        f"%y:2 = mgx.topk %x0 k = {k} axis = {axis}{flag} : {tensor(shape, element)} -> "
        f"{tensor(result, element)}, {tensor(result, 'i64')}"
    )

    def meaning(x: Array) -> list[Array]:
        order = np.argsort(-x if largest else x, axis=axis, kind="stable")
        chosen = np.take(order, range(k), axis)
        return [np.take_along_axis(x, chosen, axis), chosen]

    return ElementKernel(
        f"topk-{'x'.join(map(str, shape))}-{k}-{axis}-{element}",
        ((shape, element),),
        ((result, element), (result, "i64")),
        body,
        lambda x: meaning(x.astype(np.int64) if x.dtype.kind in "iu" else x),
    )


def integers(size: int) -> ElementKernel:
    t, w = tensor((size,), "i8"), tensor((size,), "i64")
    body = (
        "%s = mgx.convert %a : i8 -> i64\n%c = mgx.constant 3 : i64\n"
        "%m = mgx.mul %s, %c : i64, i64 -> i64\nmgx.yield %m : i64"
    )
    text = _pointwise("%x0", t, w, "%a: i8", body)
    return ElementKernel(
        f"integers-{size}",
        (((size,), "i8"),),
        (((size,), "i64"),),
        text,
        lambda x: [x.astype(np.int64) * 3],
    )


def emulated() -> list[ElementKernel]:
    """The cases that the emulated device computes in the gate: few sizes that meet many cases."""
    return [
        gelu((40, 100), "f16"),
        gelu((40, 100), "f16", schedule=PointwiseSchedule(256, 8, 2)),
        gelu((4099,), "bf16"),
        gelu((1000,), "f32", schedule=PointwiseSchedule(64, 4, 4)),
        bias((5, 12, 36), 1, "f32"),
        bias((5, 12, 36), 1, "f32", PointwiseSchedule(64, 4, 2)),
        bias((3, 12, 8), 2, "f16", PointwiseSchedule(64, 8, 1)),
        bias((6, 198), 1, "f16", PointwiseSchedule(64, 4, 1)),
        bias((6, 197), 1, "f16"),
        bias((6, 198), 0, "f32"),
        bias((3, 7, 5), 2, "f32"),
        slices((9, 40), 8, 32),
        slices((9, 41), 3, 20),
        integers(1003),
        transpose((33, 50), (1, 0), "f16"),
        transpose((3, 64, 40), (0, 2, 1), "f32"),
        transpose((2, 5, 3, 8), (0, 2, 1, 3), "f16"),
        transpose((4, 6, 5), (2, 0, 1), "i8"),
        transpose((7, 9), (1, 0), "f64"),
        transpose((2, 12, 3, 40), (0, 2, 3, 1), "f16"),
        transpose((2, 3, 40, 12), (0, 3, 1, 2), "f32"),
        transpose((128, 128), (1, 0), "f32"),
        transpose((1, 197, 64), (0, 2, 1), "f32"),
        residual((24, 40), "f16"),
        pooling("max", (1, 3, 16, 24), (3, 2, 1), (1, 1), "f32"),
        pooling("max", (1, 3, 16, 24), (3, 2, 1), (1, 1), "f16", schedule=PoolingSchedule(4, 8)),
        pooling("max", (1, 3, 16, 24), (3, 2, 1), (1, 0), "f32", schedule=PoolingSchedule(4, 4)),
        pooling("average", (2, 2, 9, 16), (3, 1, 1), (1, 1), "f32", schedule=PoolingSchedule(4, 4)),
        pooling("average", (2, 2, 9, 16), (3, 1, 1), (1, 1), "f32", True, PoolingSchedule(8, 4)),
        pooling("average", (1, 2, 8, 12), (2, 2, 1), (0, 0), "f16", schedule=PoolingSchedule(2, 4)),
        pooling("average", (1, 1, 11, 13), (3, 2, 2), (1, 2), "i32"),
        pooling("max", (1, 2, 7, 7), (2, 1, 3), (0, 1), "ui8"),
        pooling("lpnorm", (1, 2, 9, 12), (3, 2, 1), (1, 1), "f32"),
        pooling("lpnorm", (1, 2, 8, 16), (2, 2, 1), (0, 0), "f16"),
        pooling("average", (2, 3, 16, 24), (8, 4, 1), (2, 2), "f32"),
        pooling("max", (1, 2, 17, 19), (9, 2, 1), (4, 4), "i8"),
        pooling("max", (1, 1, 30, 32), (23, 3, 1), (1, 1), "f32"),
        pooling("average", (1, 1, 50, 52), (40, 3, 1), (2, 3), "f32"),
        pooling("max", (1, 1, 45, 50), (37, 2, 1), (5, 5), "f16"),
        pooling("average", (1, 1, 70, 72), (34, 2, 2), (0, 0), "f32"),
        pooling("max", (2, 3, 16, 24), (3, 2, 1), (1, 1), "f16", biased=True),
        pooling("average", (1, 2, 9, 13), (3, 1, 1), (1, 1), "f32", biased=True),
        pooling(
            "average", (2, 2, 9, 16), (3, 1, 1), (1, 1), "f32", True, PoolingSchedule(8, 4), True
        ),
        lrn((2, 12, 5, 8), 5, 0.75, "f32"),
        lrn((1, 7, 9), 4, 0.6, "f16"),
        topk((5, 40), 6, 1, "f16"),
        topk((3, 100), 100, 1, "i8", largest=False),
        topk((2, 7, 5), 3, 1, "f32", largest=False),
        topk((1, 5000), 20, 1, "f32"),
        topk((2, 9001), 1000, 1, "f16", largest=False),
        topk((2, 5000), 3000, 1, "f32"),
        topk((6145, 2), 6145, 0, "i8"),
        topk((9, 3), 1, 1, "ui8"),
        topk((3, 300), 200, 1, "i64"),
        topk((2, 2500), 9, 1, "f64", largest=False),
        topk((64, 16), 2, 1, "f64", largest=False),
        topk((7, 3), 2, 1, "i64"),
        topk((1, 5000), 4000, 1, "i64", largest=False),
        gather((300, 64), (2, 7), 0, "f16"),
        gather((3, 50, 5), (4,), 1, "f32"),
        gather((6, 40), (9,), 1, "i8"),
        concat([(3, 8, 16), (3, 5, 16), (3, 1, 16)], 1, "f32"),
        concat([(5, 7), (5, 3)], 1, "f16"),
        concat([(40, 8), (64, 8)], 0, "f16"),
        pad((2, 3, 8, 8), (0, 0, 1, 1), (0, 0, 1, 1), 0.0, "f32"),
        pad((4, 24), (1, 8), (2, 8), 1.5, "f16"),
        pad((5, 9), (0, -2), (1, 3), -3.0, "i32"),
    ]
