"""Kernels that move elements to places found at run time, for the GPU tests."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from element_kernels import Array, ElementKernel, topk
from kernel_text import DTYPES, ROUNDING, first_wrong, kernel_text, parsed, tensor

from mgx_mlir.reference import evaluate_kernel


@dataclass(frozen=True)
class Special(ElementKernel):
    """With infinities, NaN and numbers far apart among its floats."""

    def arrays(self) -> list[Array]:
        rng = np.random.default_rng(3)
        made = super().arrays()
        for array in made:
            if array.dtype.kind == "f" and array.size > 8:
                flat = array.reshape(-1)
                flat *= 2.0 ** rng.integers(-12, 12, flat.size)
                for value in (np.nan, np.inf, -np.inf, -0.0, 0.0):
                    flat[rng.integers(0, flat.size, 2)] = value
        return made

    def problem(self, number: int, want: Array, have: Array, inputs: Any) -> str:
        odd = ~np.isfinite(want)
        same = np.where(odd, (want == have) | (np.isnan(want) & np.isnan(have)), True)
        if not same.all():
            return f"wrong where it is no number: {have[~same][0]}, want {want[~same][0]}"
        finite = [np.where(np.isfinite(x), x, 0) for x in inputs]
        return super().problem(number, np.where(odd, 0, want), np.where(odd, 0, have), finite)


_COMBINE: dict[str, Callable[[Any, Any], Any]] = {
    "none": lambda old, new: new,
    "add": lambda old, new: old + new,
    "mul": lambda old, new: old * new,
    "min": np.minimum,
    "max": np.maximum,
}


def _place(index: Array, size: int) -> Array:
    return np.clip(np.where(index < 0, index + size, index), 0, size - 1)


def _scattered(kind: str, x: Array, pairs: Any) -> Array:
    with np.errstate(all="ignore"):
        y = np.array(x)
        for place, new in pairs:
            y[place] = _COMBINE[kind](y[place], new)
    return y


def scatter(
    kind: str,
    stored: tuple[int, ...],
    chosen: tuple[int, ...],
    axis: int,
    element: str,
    special: bool = False,
) -> ElementKernel:
    """Elements replaced or combined, some of them many times."""
    body = (
        f"%y = mgx.scatter_{kind} %x0[%x1], %x2 axis = {axis} : {tensor(stored, element)}, "
        f"{tensor(chosen, 'i64')}, {tensor(chosen, element)} -> {tensor(stored, element)}"
    )

    def meaning(absolute: bool, x: Array, i: Array, u: Array) -> Array:
        i = _place(i, stored[axis]).astype(int)

        def pairs() -> Any:
            for where in np.ndindex(*chosen):
                yield (*where[:axis], i[where], *where[axis + 1 :]), u[where]

        if absolute:
            x, u = np.abs(x), np.abs(u)
        return _scattered(kind, x, pairs())

    return (Special if special else ElementKernel)(
        f"scatter_{kind}-{'x'.join(map(str, stored))}-{axis}-{element}",
        ((stored, element), (chosen, "i64"), (chosen, element)),
        ((stored, element),),
        body,
        lambda x, i, u: [meaning(False, x, i, u)],
        scale=(lambda x, i, u: meaning(True, x, i, u)) if kind in ("add", "mul") else None,
    )


def scatternd(
    kind: str,
    stored: tuple[int, ...],
    points: tuple[int, ...],
    depth: int,
    element: str,
    special: bool = False,
) -> ElementKernel:
    """Slices replaced or combined, by tuples of indices."""
    chosen, updates = (*points, depth), (*points, *stored[depth:])
    body = (
        f"%y = mgx.scatternd_{kind} %x0[%x1], %x2 : {tensor(stored, element)}, "
        f"{tensor(chosen, 'i32')}, {tensor(updates, element)} -> {tensor(stored, element)}"
    )

    def meaning(absolute: bool, x: Array, i: Array, u: Array) -> Array:
        if absolute:
            x, u = np.abs(x), np.abs(u)

        def pairs() -> Any:
            for where in np.ndindex(*points):
                place = (int(_place(i[(*where, d)], stored[d])) for d in range(depth))
                yield tuple(place), u[where]

        return _scattered(kind, x, pairs())

    return (Special if special else ElementKernel)(
        f"scatternd_{kind}-{'x'.join(map(str, stored))}-{depth}-{element}",
        ((stored, element), (chosen, "i32"), (updates, element)),
        ((stored, element),),
        body,
        lambda x, i, u: [meaning(False, x, i, u)],
        scale=(lambda x, i, u: meaning(True, x, i, u)) if kind in ("add", "mul") else None,
    )


def gather_elements(
    stored: tuple[int, ...], chosen: tuple[int, ...], axis: int, element: str
) -> ElementKernel:
    body = (
        f"%y = mgx.gather_elements %x0[%x1] axis = {axis} : {tensor(stored, element)}, "
        f"{tensor(chosen, 'i64')} -> {tensor(chosen, element)}"
    )

    def meaning(x: Array, i: Array) -> list[Array]:
        cut = tuple(slice(None if d == axis else n) for d, n in enumerate(chosen))
        return [np.take_along_axis(x[cut], _place(i, stored[axis]).astype(int), axis)]

    return ElementKernel(
        f"gather_elements-{'x'.join(map(str, stored))}-{axis}-{element}",
        ((stored, element), (chosen, "i64")),
        ((chosen, element),),
        body,
        meaning,
    )


def gathernd(
    stored: tuple[int, ...], points: tuple[int, ...], depth: int, batch: int, element: str
) -> ElementKernel:
    chosen, result = (*points, depth), (*points, *stored[batch + depth :])
    body = (
        f"%y = mgx.gathernd %x0[%x1] {{batch_dims = {batch} : i64}} : {tensor(stored, element)}, "
        f"{tensor(chosen, 'i32')} -> {tensor(result, element)}"
    )

    def meaning(x: Array, i: Array) -> list[Array]:
        y = np.empty(result, x.dtype)
        for where in np.ndindex(*points):
            named = (_place(i[(*where, d)], stored[batch + d]) for d in range(depth))
            y[where] = x[(*where[:batch], *(int(n) for n in named))]
        return [y]

    return ElementKernel(
        f"gathernd-{'x'.join(map(str, stored))}-{depth}-{batch}-{element}",
        ((stored, element), (chosen, "i32")),
        ((result, element),),
        body,
        meaning,
    )


def cache_update(shape: tuple[int, ...], steps: int, element: str) -> ElementKernel:
    """Entries of a cache, at a place of its own in each batch, as attention writes them."""
    batch, heads, length, width = shape
    update, small = (batch, heads, steps, width), (batch, 1, steps, 1)
    body = (
        f"%i = mgx.multibroadcast %x1 : {tensor(small, 'i64')} -> {tensor(update, 'i64')}\n"
        f"%y = mgx.scatter_none %x0[%i], %x2 axis = 2 : {tensor(shape, element)}, "
        f"{tensor(update, 'i64')}, {tensor(update, element)} -> {tensor(shape, element)}"
    )

    def meaning(x: Array, i: Array, u: Array) -> list[Array]:
        y = np.array(x)
        for b, s in np.ndindex(batch, steps):
            y[b, :, int(_place(i[b, 0, s, 0], length))] = u[b, :, s]
        return [y]

    return ElementKernel(
        f"cache-{'x'.join(map(str, shape))}-{element}",
        ((shape, element), (small, "i64"), (update, element)),
        ((shape, element),),
        body,
        meaning,
    )


@dataclass(frozen=True)
class Exact(ElementKernel):
    """Whose results are rounded once: they depend on no order."""

    def problem(self, number: int, want: Array, have: Array, inputs: Any) -> str:
        return first_wrong(have != want.astype(have.dtype), want, have)


def from_zeros(size: int, count: int, element: str) -> ElementKernel:
    """Sums of segments: what is scattered into is a constant."""
    t = tensor((size,), element)
    body = (
        f"%z = mgx.constant dense<0.0> : {t}\n%y = mgx.scatter_add %z[%x0], %x1 axis = 0 : "
        f"{t}, {tensor((count,), 'i64')}, {tensor((count,), element)} -> {t}"
    )

    def meaning(i: Array, u: Array) -> list[Array]:
        places = _place(i, size)
        return [np.array([math.fsum(u[places == n]) for n in range(size)])]

    return Exact(
        f"segments-{size}-{count}-{element}",
        (((count,), "i64"), ((count,), element)),
        (((size,), element),),
        body,
        meaning,
    )


def beside_constants(rows: int, sizes: tuple[int, ...], element: str) -> ElementKernel:
    """Columns of tensors and, every other one, of a constant."""
    number = {"i1": "true", "f16": "-1.5", "f32": "-1.5"}.get(element, "3")
    lines, operands = [], []
    for place, size in enumerate(sizes):
        operands.append(f"%x{place // 2}" if place % 2 == 0 else f"%c{place}")
        if place % 2:
            constant = f"dense<{number}> : {tensor((rows, size), element)}"
            lines.append(f"%c{place} = mgx.constant {constant}")
    types = ", ".join(tensor((rows, size), element) for size in sizes)
    result = (rows, sum(sizes))
    lines.append(
        f"%y = mgx.concat {', '.join(operands)} axis = 1 : {types} -> {tensor(result, element)}"
    )

    def meaning(*given: Array) -> list[Array]:
        value = True if element == "i1" else float(number)
        parts = [
            np.full((rows, size), value, given[0].dtype) if n % 2 else given[n // 2]
            for n, size in enumerate(sizes)
        ]
        return [np.concatenate(parts, 1)]

    return ElementKernel(
        f"concat-constants-{rows}-{len(sizes)}-{element}",
        tuple(((rows, size), element) for size in sizes[::2]),
        ((result, element),),
        "\n".join(lines),
        meaning,
    )


def converted(sizes: tuple[int, int], source: str, element: str) -> ElementKernel:
    """Rows of two tensors, the first of which has floats of another width."""
    first, second, result = ((3, size, 8) for size in (*sizes, sum(sizes)))
    types = f"{tensor(first, element)}, {tensor(second, element)}"
    body = f"""%c = mgx.pointwise(%x0) : ({tensor(first, source)}) -> {tensor(first, element)} {{
      ^bb0(%a: {source}):
        %b = mgx.convert %a : {source} -> {element}
        mgx.yield %b : {element}
      }}
      %y = mgx.concat %c, %x1 axis = 1 : {types} -> {tensor(result, element)}"""
    return ElementKernel(
        f"concat-converted-{sizes[0]}-{source}-{element}",
        ((first, source), (second, element)),
        ((result, element),),
        body,
        lambda x, y: [np.concatenate([x.astype(y.dtype), y], 1)],
    )


def cumsum(
    shape: tuple[int, ...],
    axis: int,
    element: str,
    exclusive: bool = False,
    reverse: bool = False,
    schedule: Any = None,
) -> ElementKernel:
    """Running sums."""
    flags = {"exclusive": exclusive, "reverse": reverse}
    given = ", ".join(f"{name} = true" for name, set_ in flags.items() if set_)
    body = (
        f"%y = mgx.prefix_scan_sum %x0 axis = {axis} {{{given}}} : {tensor(shape, element)}"
    ).replace(" {}", "")

    def meaning(x: Array) -> Array:
        x = np.flip(x, axis) if reverse else x
        y = np.cumsum(x, axis, dtype=x.dtype)
        y = y - x if exclusive else y
        return np.flip(y, axis) if reverse else y

    return ElementKernel(
        f"cumsum-{'x'.join(map(str, shape))}-{axis}-{element}-{given.replace(' = true', '')}",
        ((shape, element),),
        ((shape, element),),
        body,
        lambda x: [meaning(x)],
        2.0,
        lambda x: meaning(np.abs(x)) + np.abs(x),
        schedule,
    )


def cumprod(
    shape: tuple[int, ...],
    axis: int,
    element: str,
    exclusive: bool = False,
    reverse: bool = False,
) -> ElementKernel:
    flags = {"exclusive": exclusive, "reverse": reverse}
    given = ", ".join(f"{name} = true" for name, set_ in flags.items() if set_)
    body = (
        f"%y = mgx.prefix_scan_prod %x0 axis = {axis} {{{given}}} : {tensor(shape, element)}"
    ).replace(" {}", "")

    def meaning(x: Array) -> list[Array]:
        x = np.flip(x, axis) if reverse else x
        y = np.cumprod(x, axis, dtype=x.dtype)
        if exclusive:
            y = np.roll(y, 1, axis)
            y[(slice(None),) * axis + (0,)] = 1
        return [np.flip(y, axis) if reverse else y]

    return NearOne(
        f"cumprod-{'x'.join(map(str, shape))}-{axis}-{element}-{given.replace(' = true', '')}",
        ((shape, element),),
        ((shape, element),),
        body,
        meaning,
        2.0 + shape[axis] / 8,
        lambda x: np.abs(meaning(x)[0]),
    )


@dataclass(frozen=True)
class NearOne(ElementKernel):
    """Takes factors whose products stay finite."""

    def arrays(self) -> list[Array]:
        return [1 + x / 64 if x.dtype.kind == "f" else x for x in super().arrays()]


@dataclass(frozen=True)
class Boxes(ElementKernel):
    """Takes boxes, crowded around some places, and candidates."""

    def arrays(self) -> list[Array]:
        rng = np.random.default_rng(5)
        (boxes, _), (flags, _) = self.inputs
        low = rng.integers(0, 6, (*boxes[:-1], 2)) * 9.0 + rng.random((*boxes[:-1], 2))
        corners = np.concatenate([low, low + 8 + rng.random(low.shape)], -1)
        corners[..., ::7, :2] = corners[..., ::7, 2:]  # no area
        wanted = rng.random(flags) < 0.8
        wanted[..., flags[-1] * 3 // 4 :] = False
        return [corners.astype(np.float32), wanted]


def suppress(shape: tuple[int, ...], threshold: float, most: int) -> ElementKernel:
    """A kernel of mgx.suppress."""
    inputs, results = (((*shape, 4), "f32"), (shape, "i1")), ((shape, "i1"),)
    text = (
        f"%y = mgx.suppress %x0, %x1 threshold = {threshold} most = {most} : "
        f"{tensor((*shape, 4), 'f32')}, {tensor(shape, 'i1')}"
    )

    def meaning(boxes: Array, flags: Array) -> list[Array]:
        _, kernel = parsed(kernel_text(inputs, results, text))
        return list(evaluate_kernel(kernel, [boxes.astype(np.float32), flags]))

    name = f"suppress-{'x'.join(map(str, shape))}-{threshold}-{most}"
    return Boxes(name, inputs, results, text, meaning)


@dataclass(frozen=True)
class Sparse(ElementKernel):
    """With many zeros."""

    def arrays(self) -> list[Array]:
        rng = np.random.default_rng(4)
        return [x * (rng.random(x.shape) < 0.3) for x in super().arrays()]


def nonzero(shape: tuple[int, ...], columns: int, element: str, schedule: Any = None) -> Sparse:
    rank = len(shape)
    result = (rank, columns)

    def meaning(x: Array) -> list[Array]:
        found = np.stack(np.nonzero(x))[:, :columns]
        return [np.pad(found, ((0, 0), (0, columns - found.shape[1])))]

    return Sparse(
        f"nonzero-{'x'.join(map(str, shape))}-{columns}-{element}",
        ((shape, element),),
        ((result, "i64"),),
        f"%y = mgx.nonzero %x0 : {tensor(shape, element)} -> {tensor(result, 'i64')}",
        meaning,
        schedule=schedule,
    )


def resize(
    stored: tuple[int, ...],
    result: tuple[int, ...],
    element: str,
    mode: str = "nearest",
    axes: tuple[int, ...] = (2, 3),
    **given: Any,
) -> ElementKernel:
    """A resize of NCHW or NHWC, with the reference's result."""
    scales = [float(np.float32(b / a)) for a, b in zip(stored, result, strict=True)]
    attributes = [f"mode = #mgx<resize_mode {mode}>"]
    for name, value in given.items():
        kind = {"coordinate_mode": "coordinate_mode", "nearest_mode": "nearest_mode"}.get(name)
        if kind:
            attributes.append(f"{name} = #mgx<{kind} {value}>")
        elif name == "roi":
            attributes.append(f"roi = array<f32: {', '.join(str(float(v)) for v in value)}>")
        else:
            number = " : f32" if isinstance(value, float) else ""
            attributes.append(f"{name} = {str(value).lower()}{number}")
    text = (
        f"%y = mgx.resize %x0 scales = {scales} {{{', '.join(attributes)}}} : "
        f"{tensor(stored, element)} -> {tensor(result, element)}"
    )
    inputs, results = ((stored, element),), ((result, element),)

    def meaning(x: Array) -> list[Array]:
        _, kernel = parsed(kernel_text(inputs, results, text))
        (found,) = evaluate_kernel(kernel, [x.astype(DTYPES[element])], np.float64)
        return [found.astype(np.float64) if element in ROUNDING else found]

    extra = "-".join(str(v) for k, v in given.items() if k != "roi")
    return ElementKernel(
        f"resize-{mode}-{stored}-{result}-{element}-{extra}".replace(", ", "x"),
        inputs,
        results,
        text,
        meaning,
        8.0,
        lambda x: np.max(np.abs(x)),
    )


def pad(
    stored: tuple[int, ...], low: tuple[int, ...], high: tuple[int, ...], mode: str, element: str
) -> ElementKernel:
    """With elements; negative amounts cut."""
    result = tuple(n + a + b for n, a, b in zip(stored, low, high, strict=True))
    body = (
        f"%y = mgx.pad %x0 low = {list(low)} high = {list(high)} "
        f"{{mode = #mgx<pad_mode {mode}>}} : {tensor(stored, element)} -> {tensor(result, element)}"
    )

    def meaning(x: Array) -> list[Array]:
        sizes = zip(stored, low, high, strict=True)
        cut = tuple(slice(max(-a, 0), n - max(-b, 0)) for n, a, b in sizes)
        widths = [(max(a, 0), max(b, 0)) for a, b in zip(low, high, strict=True)]
        return [np.pad(x[cut], widths, mode)]

    return ElementKernel(
        f"pad-{mode}-{'x'.join(map(str, stored))}-{element}",
        ((stored, element),),
        ((result, element),),
        body,
        meaning,
    )


def emulated() -> list[ElementKernel]:
    """The cases that the emulated device computes in the gate."""
    return [
        scatter("none", (70, 12), (150, 12), 0, "f32"),
        scatter("none", (7, 33), (5, 20), 1, "i1"),
        scatter("none", (3, 40), (3, 9), 1, "f64"),
        scatter("none", (3, 40, 6), (3, 1, 6), 1, "f16"),
        scatter("none", (70, 12), (1, 12), 0, "i1"),
        scatter("add", (70, 12), (150, 9), 0, "f32", special=True),
        scatter("add", (9, 41), (9, 80), 1, "f16"),
        scatter("add", (40, 8), (60, 8), 0, "i8"),
        scatter("add", (40, 8), (60, 8), 0, "i64"),
        scatter("max", (70, 12), (150, 12), 0, "f32", special=True),
        scatter("min", (70, 12), (150, 12), 0, "f32", special=True),
        scatter("min", (5, 30), (5, 70), 1, "bf16"),
        scatter("max", (60,), (90,), 0, "ui8"),
        scatter("max", (60,), (90,), 0, "i64"),
        scatternd("none", (30, 20, 8), (5, 11), 1, "f16"),
        scatternd("none", (30, 20), (200,), 2, "f32"),
        scatternd("add", (50, 64), (130,), 1, "f32"),
        scatternd("add", (50, 3), (130,), 1, "bf16"),
        scatternd("min", (20, 9), (40,), 2, "i32"),
        scatter("mul", (70, 12), (150, 9), 0, "f32", special=True),
        scatter("mul", (9, 41), (9, 20), 1, "f16"),
        scatter("mul", (40, 8), (60, 8), 0, "i8"),
        scatter("mul", (60,), (2500,), 0, "i64"),
        scatter("add", (30, 6), (50, 6), 0, "f64", special=True),
        scatter("max", (60,), (90,), 0, "i1"),
        scatternd("mul", (20, 9), (130,), 1, "bf16"),
        scatternd("min", (20, 8), (4100,), 1, "f64"),
        cache_update((2, 3, 40, 16), 3, "f16"),
        from_zeros(40, 900, "f32"),
        gather_elements((7, 33), (5, 20), 1, "f16"),
        gather_elements((50, 3, 5), (8, 2, 5), 0, "i1"),
        gathernd((30, 20, 8), (5, 11), 1, 0, "f16"),
        gathernd((30, 20), (203,), 2, 0, "f32"),
        gathernd((4, 9, 5, 6), (4, 7), 2, 1, "i8"),
        gathernd((4, 9, 5, 6), (4, 9), 1, 2, "f64"),
        cumsum((5, 600), 1, "f32"),
        cumsum((5, 7), 1, "f32", True),
        cumsum((5, 1000), 1, "f16", reverse=True),
        cumsum((3, 77), 1, "f64", True, True),
        cumsum((2, 70, 12), 1, "f32"),
        cumsum((300, 6), 0, "bf16", True, True),
        cumsum((2, 90, 5), 1, "i64", reverse=True),
        cumsum((3, 64, 4), 1, "f32", reverse=True),
        cumsum((3, 31, 1), 1, "i32"),
        cumsum((1, 20000), 1, "f32"),
        cumsum((1, 20000), 1, "i32", True, True),
        cumsum((5000, 3), 0, "f32", reverse=True),
        cumprod((5, 600), 1, "f32"),
        cumprod((5, 7), 1, "f64", True),
        cumprod((2, 70, 12), 1, "f16", True, True),
        cumprod((1, 9000), 1, "f32", reverse=True),
        cumprod((3, 40), 1, "i64", True),
        cumprod((5000, 3), 0, "f32"),
        beside_constants(9, (8, 16, 3), "f16"),
        beside_constants(5, (4, 1), "i1"),
        beside_constants(6, (2, 4) * 25, "f32"),
        converted((16, 1), "f32", "f16"),
        converted((5, 3), "bf16", "f32"),
        topk((2, 9000), 50, 1, "i8"),
        topk((1, 20001), 64, 1, "f16"),
        topk((1, 8300), 300, 1, "i64", largest=False),
        suppress((2, 3, 150), 0.5, 200),
        suppress((1, 700), 0.25, 30),
        suppress((3, 20), 0.0, 20),
        resize((1, 2, 9, 11), (1, 2, 18, 22), "f32", "linear"),
        resize((1, 2, 9, 11), (1, 2, 18, 22), "f16", "cubic"),
        resize((1, 2, 8, 300), (1, 2, 16, 411), "i1"),
        resize((1, 2, 9, 11), (1, 2, 18, 22), "i8", "linear"),
        resize((1, 2, 9, 11), (1, 2, 13, 5), "f32", "linear", coordinate_mode="align_corners"),
        resize((1, 2, 20, 24), (1, 2, 7, 9), "f32", "cubic", antialias=True),
        resize((1, 2, 20, 24), (1, 2, 10, 12), "f32", "linear", antialias=True),
        resize((1, 1, 64, 50), (1, 1, 3, 2), "f32", "linear", antialias=True),
        resize((1, 6, 7, 16), (1, 12, 13, 16), "f16", "linear", (1, 2)),
        resize((2, 6, 7, 5), (4, 12, 13, 9), "f32", "linear", coordinate_mode="asymmetric"),
        resize((1, 3, 6, 7), (1, 3, 12, 14), "f32", "cubic", exclude_outside=True),
        resize((3, 40), (3, 70), "bf16", "linear", coordinate_mode="pytorch_half_pixel"),
        resize((40,), (70,), "f64", nearest_mode="ceil", coordinate_mode="half_pixel_symmetric"),
        resize(
            (1, 1, 8, 9),
            (1, 1, 10, 12),
            "f32",
            "linear",
            coordinate_mode="tf_crop_and_resize",
            roi=[0, 0, 0.4, -0.1, 1, 1, 1.3, 0.9],
            extrapolation_value=5.0,
        ),
        pad((2, 3, 9, 11), (0, 0, 2, 3), (0, 0, 1, 2), "reflect", "f32"),
        pad((4, 5, 16), (3, 1, 0), (2, 0, 0), "edge", "f16"),
        pad((7, 33), (2, 30), (0, 20), "wrap", "i8"),
        nonzero((9, 20, 7), 1260, "f32"),
        nonzero((9, 20, 7), 100, "i1"),
        nonzero((9000,), 9000, "i32"),
    ]


def large() -> list[ElementKernel]:
    """Longer rows, more points, and schedules that the gate leaves out."""
    return [
        scatter("add", (3000, 64), (5000, 64), 0, "f32", special=True),
        scatter("max", (64, 3000), (64, 5000), 1, "f16"),
        scatternd("none", (100, 37, 24), (3001,), 2, "i8"),
        from_zeros(3, 30000, "f32"),
        from_zeros(1000, 30000, "bf16"),
        cumsum((3, 300001), 1, "f32"),
        cumsum((2, 200000), 1, "i64", True, True),
        cumsum((4099, 70), 0, "f16", reverse=True),
        cumsum((3, 1000, 40), 1, "f64", True),
        cumprod((3, 100001), 1, "f64"),
        suppress((2, 9001), 0.6, 9001),
        suppress((5, 3000), 0.3, 100),
        scatter("mul", (400, 300), (150, 300), 0, "f32"),
        nonzero((300, 701), 210300, "f32"),
        topk((2, 70001), 100, 1, "f32"),
        topk((1, 1000003), 1000, 1, "f32"),
        topk((1, 300000), 1, 1, "i8"),
        topk((40, 33000), 50, 1, "bf16"),
        topk((30000, 3), 17, 0, "f64", largest=False),
        topk((1, 30011), 30011, 1, "f16", largest=False),
        topk((3, 9000), 5000, 1, "i32"),
        resize((2, 3, 40, 50), (2, 3, 120, 150), "f32", "cubic"),
        resize((1, 3, 101, 203), (1, 3, 57, 91), "f16", "linear", antialias=True),
        resize((1, 64, 64, 24), (1, 128, 128, 24), "bf16", "cubic", (1, 2)),
        pad((6, 64, 130), (3, 60, 100), (5, 60, 129), "reflect", "f32"),
        gather_elements((300, 257), (300, 1001), 1, "f32"),
        gathernd((50, 60, 40), (50, 300), 1, 1, "f16"),
    ]
