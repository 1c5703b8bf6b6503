"""Convolutions for the GPU tests: mgx kernels as text, and numpy's word on them."""

from __future__ import annotations

import itertools
import math
import random
from dataclasses import dataclass, replace

import numpy as np
from contraction_kernels import DTYPES, TOLERANCE, Array, elements_of, tensor
from mlir import ir

from mgx_mlir.artifact.target import Target
from mgx_mlir.codegen.gpu.families.contraction.space import ProductSchedule
from mgx_mlir.dialects import context


@dataclass(frozen=True)
class Convolution:
    """`filters` filters over images of `shape` [batch, channels, *spatial].

    `window`, `strides`, `dilations`: a number for each spatial dimension; `pads`: those
    before, then those after. `last`: the image is stored with channels last, and so are the
    filters, and read through views; `native`: channels are last in the op itself, whose
    filters, where each is of one channel, are stored with their numbers last.
    `epilogue`: '', 'relu' (with a bias), or 'add' of an image.
    `prologue`: '', 'norm' (each channel scaled and shifted, then sigmoid), 'gate' (each channel of
    each image times a number, plus an image), 'bytes' (a scale times a byte and a shift), 'filters'
    (the same of the filters, with numbers for each), or 'cast' (of an image in f32). The first
    makes no zeros of zeros, which is what lies beyond an image's edges all the same. `wide`: taps
    of filters are stored as neighbours, each with four channels, of which those that the image has
    not are NaN.
    """

    shape: tuple[int, ...]
    filters: int
    window: tuple[int, ...]
    strides: tuple[int, ...] = ()
    dilations: tuple[int, ...] = ()
    pads: tuple[int, ...] = ()
    group: int = 1
    element: str = "f16"
    epilogue: str = ""
    prologue: str = ""
    last: bool = False
    native: bool = False
    wide: bool = False
    schedule: ProductSchedule | None = None

    @property
    def name(self) -> str:
        sizes = ["x".join(map(str, x)) for x in (self.shape, (self.filters, *self.window))]
        marks = [
            f"{letter}{'.'.join(map(str, x))}"
            for letter, x in zip("sdp", (self.strides, self.dilations, self.pads), strict=True)
            if x
        ]
        group = f"g{self.group}" if self.group > 1 else ""
        last = "last" if self.last else "native" if self.native else ""
        wide = "wide" if self.wide else ""
        parts = ["conv", *sizes, *marks, group, last, wide, self.element]
        parts += [self.prologue, self.epilogue]
        return "-".join(filter(None, parts))

    @property
    def result(self) -> str:
        return "i32" if self.element in ("i8", "ui8") else self.element

    @property
    def geometry(self) -> tuple[tuple[int, ...], tuple[int, ...], tuple[int, ...]]:
        """Strides, dilations and pads."""
        rank = len(self.window)
        ones = (1,) * rank
        return self.strides or ones, self.dilations or ones, self.pads or (0,) * 2 * rank

    @property
    def outputs(self) -> tuple[int, ...]:
        strides, dilations, pads = self.geometry
        rank = len(self.window)
        return tuple(
            (size + pads[i] + pads[rank + i] - (self.window[i] - 1) * dilations[i] - 1)
            // strides[i] + 1
            for i, size in enumerate(self.shape[2:])
        )  # fmt: skip

    def logical(self) -> list[tuple[int, ...]]:
        """Shapes of image, filters and result as the op has them."""
        shapes = [
            self.shape,
            (self.filters, self.shape[1] // self.group, *self.window),
            (self.shape[0], self.filters, *self.outputs),
        ]
        return [(x[0], *x[2:], x[1]) for x in shapes] if self.native else shapes

    @property
    def numbered(self) -> bool:
        """Whether filters are stored with their numbers last."""
        own = self.shape[1] == self.group == self.filters > 1
        return self.native and own and not self.prologue

    def stored(self) -> list[tuple[tuple[int, ...], str]]:
        """Shapes and types of the kernel's inputs."""
        *shapes, result = self.logical()
        if self.last:
            shapes = [(x[0], *x[2:], x[1]) for x in shapes]
        if self.numbered:
            filters, *window, depth = shapes[1]
            shapes[1] = (*window, depth, filters)
        if self.wide:
            shapes[1] = (*self.window, self.filters, 4)
        inputs = [(x, self.element) for x in shapes]
        if self.epilogue == "relu":
            bias = (self.filters, *(1 for _ in self.window))
            inputs.append(((self.filters,) if self.native else bias, self.result))
        if self.epilogue == "add":
            inputs.append((result, self.result))
        image, ones = self.logical()[0], (1,) * len(self.window)
        channels = (*ones, self.shape[1]) if self.native else (self.shape[1], *ones)
        if self.prologue == "norm":
            inputs += [((1, *channels), self.element)] * 2
        if self.prologue == "gate":
            inputs += [((self.shape[0], *channels), self.element), (image, self.element)]
        if self.prologue == "cast":
            inputs[0] = (inputs[0][0], "f32")
        if self.prologue == "bytes":
            inputs[0] = (inputs[0][0], "i8")
            inputs += [((1,), self.element)] * 2
        if self.prologue == "filters":
            inputs[1] = (inputs[1][0], "i8")
            inputs += [((self.filters, 1, *ones), self.element)] * 2
        return inputs

    def text(self) -> str:
        """The mgx.kernel."""
        strides, dilations, pads = self.geometry
        *operands, result = self.logical()
        x, w = (tensor(shape, self.element) for shape in operands)
        y = tensor(result, self.result)
        types = [tensor(*stored) for stored in self.stored()]
        lines, names = [], ["%x0", "%x1"]
        if self.last:
            rank = len(self.shape)
            order = [0, rank - 1, *range(1, rank - 1)]
            first = tensor(operands[0], self.stored()[0][1])
            for i, wanted in enumerate((first, w)):
                names[i] = f"%v{i}"
                lines.append(
                    f"%v{i} = mgx.transpose %x{i} permutation = {order} : {types[i]} -> {wanted}"
                )
        if self.numbered:
            names[1], order = "%v1", [len(self.shape) - 1, *range(len(self.shape) - 1)]
            lines.append(f"%v1 = mgx.transpose %x1 permutation = {order} : {types[1]} -> {w}")
        if self.wide:
            taps = (*self.window, self.filters, self.shape[1])
            cut = tensor(taps, self.element)
            order = [2, 0, 1, 3] if self.native else [2, 3, 0, 1]
            lines.append(
                f"%k = mgx.slice %x1 axes = [3] starts = [0] ends = [{taps[3]}] : "
                f"{types[1]} -> {cut}\n%v1 = mgx.transpose %k permutation = {order} : {cut} -> {w}"
            )
            names[1] = "%v1"
        if self.prologue:
            number = int(self.prologue == "filters")
            lines += self._prologue(names[number], types, (x, w)[number])
            names[number] = "%f"
        form = "channels_last, " if self.native else ""
        op = "mgx.quant_convolution" if self.result == "i32" else "mgx.convolution"
        lines.append(
            f"%c = {op} {names[0]}, {names[1]} pads = {list(pads)} strides = {list(strides)} "
            f"dilations = {list(dilations)} {{{form}group = {self.group} : i64}} : {x}, {w} -> {y}"
        )
        returned = "%c"
        if self.epilogue:
            returned, e = "%y", self.result
            extra = "%x2"
            if types[2] != y:
                extra = "%w"
                lines.append(f"%w = mgx.multibroadcast %x2 : {types[2]} -> {y}")
            relu = f"%r = mgx.relu %s : {e}\n" if self.epilogue == "relu" else ""
            last = "%r" if relu else "%s"
            lines.append(
                f"%y = mgx.pointwise(%c, {extra}) : ({y}, {y}) -> {y} {{\n"
                f"^bb0(%p: {e}, %q: {e}):\n%s = mgx.add %p, %q : {e}, {e} -> {e}\n"
                f"{relu}mgx.yield {last} : {e}\n}}"
            )
        arguments = ", ".join(f"%x{n}: {t}" for n, t in enumerate(types))
        body = "\n".join(lines)
        return (
            f"mgx.kernel @k({arguments}) -> ({y}) "
            f'attributes {{arch = #mgx.arch<"gfxMIGX">}} {{\n'
            f"{body}\nmgx.return {returned} : {y}\n}}"
        )

    def _prologue(self, image: str, types: list[str], x: str) -> list[str]:
        """%f: what is computed of the image, or of the filters."""
        e, n = self.element, len(types) - 2
        number = int(self.prologue == "filters")
        kind = self.stored()[number][1]
        first = tensor(self.logical()[number], kind)
        if self.prologue == "cast":
            return [
                f"%f = mgx.pointwise({image}) : ({first}) -> {x} {{\n^bb0(%p: {kind}):\n"
                f"%u = mgx.convert %p : {kind} -> {e}\nmgx.yield %u : {e}\n}}"
            ]
        body = {
            "norm": "%s = mgx.mul %p, %q : {e}, {e} -> {e}\n%t = mgx.add %s, %r : {e}, {e} -> {e}\n"
            "%u = mgx.sigmoid %t : {e}",
            "gate": "%s = mgx.mul %p, %q : {e}, {e} -> {e}\n%u = mgx.add %s, %r : {e}, {e} -> {e}",
            "bytes": "%o = mgx.convert %p : i8 -> {e}\n%s = mgx.mul %o, %q : {e}, {e} -> {e}\n"
            "%u = mgx.add %s, %r : {e}, {e} -> {e}",
        }["bytes" if kind == "i8" else self.prologue].replace("{e}", e)
        lines, others = [], []
        for i in (n, n + 1):
            others.append(f"%x{i}")
            if types[i] != x:
                others[-1] = f"%b{i}"
                lines.append(f"%b{i} = mgx.multibroadcast %x{i} : {types[i]} -> {x}")
        return [
            *lines,
            f"%f = mgx.pointwise({image}, {', '.join(others)}) : ({first}, {x}, {x}) -> {x} {{\n"
            f"^bb0(%p: {kind}, %q: {e}, %r: {e}):\n{body}\nmgx.yield %u : {e}\n}}",
        ]

    def kernel(self) -> tuple[ir.Module, ir.OpView]:
        with context(), ir.Location.unknown():
            module = ir.Module.parse(self.text())
            return module, next(iter(module.body.operations))

    def arrays(self) -> list[Array]:
        rng = np.random.default_rng(5)
        made = []
        for shape, element in self.stored():
            if element in ("i8", "ui8", "i32"):
                low = 0 if element == "ui8" else -100
                made.append(rng.integers(low, 101, shape).astype(DTYPES[element]))
            else:
                made.append(rng.uniform(-1, 1, shape).astype(DTYPES[element]))
        if self.wide:
            made[1][..., self.shape[1] :] = np.nan
        return made

    def meaning(self, *inputs: Array) -> tuple[Array, Array]:
        """The result in f64, and the bound of its error."""
        if self.prologue == "cast":
            inputs = (inputs[0].astype(DTYPES[self.element]), *inputs[1:])
        wide = [x.astype(np.float64) for x in inputs]
        x, w = wide[:2]
        if self.numbered:
            w = np.moveaxis(w, -1, 0)
        if self.wide:
            order = (2, 0, 1, 3) if self.native else (2, 3, 0, 1)
            w = w[..., : self.shape[1]].transpose(order)
        magnitude, weight = np.abs(x), np.abs(w)
        if self.prologue == "filters":
            w, weight = w * wide[-2] + wide[-1], weight * np.abs(wide[-2]) + np.abs(wide[-1])
        elif self.prologue and self.prologue != "cast":
            q, r = wide[-2:]
            if self.last and self.prologue == "gate":
                r = np.moveaxis(r, 1, -1)
            if self.last and self.prologue != "bytes":
                q = np.moveaxis(q, 1, -1)
                r = np.moveaxis(r, 1, -1) if self.prologue == "norm" else r
            x, magnitude = x * q + r, np.abs(x * q) + np.abs(r)
            if self.prologue == "norm":
                x, magnitude = 1 / (1 + np.exp(-x)), 1 + magnitude
        if self.last or self.native:
            x, w = np.moveaxis(x, -1, 1), np.moveaxis(w, -1, 1)
            magnitude, weight = np.moveaxis(magnitude, -1, 1), np.moveaxis(weight, -1, 1)
        y, bound = self._windows(x, w), self._windows(magnitude, weight)
        if self.native:
            y, bound = np.moveaxis(y, 1, -1), np.moveaxis(bound, 1, -1)
        if self.epilogue:
            y, bound = y + wide[2], bound + np.abs(wide[2])
        if self.epilogue == "relu":
            y = np.maximum(y, 0)
        return y, bound * TOLERANCE[self.result] + (1e-6 if self.result != "i32" else 0)

    def _windows(self, x: Array, w: Array) -> Array:
        strides, dilations, pads = self.geometry
        rank = len(self.window)
        x = np.pad(x, [(0, 0), (0, 0), *zip(pads[:rank], pads[rank:], strict=True)])
        y = np.zeros((x.shape[0], self.filters, *self.outputs))
        channels, filters = self.shape[1] // self.group, self.filters // self.group
        for g in range(self.group):
            for tap in itertools.product(*map(range, self.window)):
                here = tuple(
                    slice(t * d, t * d + (o - 1) * s + 1, s)
                    for t, d, o, s in zip(tap, dilations, self.outputs, strides, strict=True)
                )
                part = x[(slice(None), slice(g * channels, (g + 1) * channels), *here)]
                rows = slice(g * filters, (g + 1) * filters)
                y[:, rows] += np.einsum("nc...,mc->nm...", part, w[(rows, slice(None), *tap)])
        return y


def emulated(target: Target) -> list[Convolution]:
    """The cases that the emulated device computes: few sizes that meet many cases."""
    pads = (1, 1, 1, 1)
    found = [
        Convolution((1, 16, 8, 8), 16, (3, 3), pads=pads, epilogue="relu"),
        Convolution((2, 32, 5, 7), 20, (3, 3), pads=pads, epilogue="add"),
        Convolution((1, 24, 9, 8), 17, (3, 2), (2, 1), (1, 2), (0, 1, 2, 1)),
        Convolution((2, 12, 7, 6), 8, (2, 3), element="f32", pads=(1, 0, 0, 2)),
        Convolution((1, 3, 16, 16), 16, (7, 7), (2, 2), pads=(3, 3, 3, 3), epilogue="relu"),
        Convolution((2, 16, 30), 12, (5,), (2,), (2,), (3, 4)),
        Convolution((1, 8, 4, 5, 6), 16, (3, 3, 3), pads=(1,) * 6),
        Convolution((2, 16, 6, 6), 12, (3, 3), pads=pads, group=2, epilogue="relu"),
        Convolution((1, 32, 7, 7), 16, (1, 1), (2, 2)),
        Convolution((3, 16, 7, 7), 24, (1, 1), epilogue="relu"),
        Convolution((2, 16, 6, 8), 16, (3, 3), last=True, epilogue="relu"),
        Convolution((1, 16, 6, 8), 16, (3, 3), pads=pads, last=True),
    ]
    found += [
        Convolution((2, 6, 9, 16), 6, (3, 3), pads=pads, group=6, epilogue="relu"),
        Convolution((1, 4, 13, 14), 8, (3, 3), (2, 2), pads=(1, 0, 1, 1), group=4),
        Convolution((1, 4, 12, 8), 4, (5, 3), (1, 1), (2, 2), (4, 2, 4, 2), 4, "f32", "add"),
        Convolution((2, 3, 40), 3, (5,), (2,), pads=(2, 2), group=3),
        Convolution((1, 1, 10, 12), 5, (3, 3), element="f32"),
        Convolution((1, 2, 4, 5, 6), 2, (3, 2, 3), pads=(1, 0, 1, 1, 1, 1), group=2),
        Convolution((1, 5, 8, 9), 5, (3, 3), pads=pads, group=5, element="i8"),
    ]
    found += [
        Convolution((1, 16, 8, 8), 16, (3, 3), pads=pads, native=True, epilogue="relu"),
        # So few steps that all are ahead of the loop, at places known but for the row.
        Convolution((3, 32, 9, 8), 16, (3, 2), (2, 2), pads=(0, 1, 1, 0), native=True),
        Convolution((2, 32, 5, 7), 20, (3, 3), pads=pads, native=True, epilogue="add"),
        Convolution((1, 24, 9, 8), 17, (3, 2), (2, 1), (1, 2), (0, 1, 2, 1), native=True),
        Convolution((2, 40, 9, 6), 24, (3, 3), (2, 1), (2, 2), (1, 3, 2, 0), native=True),
        Convolution((2, 12, 7, 6), 8, (2, 3), element="f32", pads=(1, 0, 0, 2), native=True),
        Convolution((1, 3, 16, 16), 16, (7, 7), (2, 2), pads=(3, 3, 3, 3), native=True),
        Convolution((2, 16, 30), 12, (5,), (2,), (2,), (3, 4), native=True, epilogue="relu"),
        Convolution((1, 8, 4, 5, 6), 16, (3, 3, 3), pads=(1,) * 6, native=True),
        Convolution((2, 16, 6, 6), 24, (3, 3), pads=pads, group=2, native=True, epilogue="add"),
        Convolution((2, 32, 7, 7), 16, (1, 1), (2, 2), native=True),
        Convolution((3, 16, 7, 7), 24, (1, 1), native=True, epilogue="relu"),
        Convolution((2, 8, 9, 16), 8, (3, 3), pads=pads, group=8, native=True, epilogue="relu"),
        Convolution((1, 4, 13, 14), 8, (3, 3), (2, 2), pads=(1, 0, 1, 1), group=4, native=True),
        Convolution((2, 24, 9, 7), 24, (3, 3), (2, 2), (2, 1), (1, 1, 2, 1), 24, native=True),
        Convolution((1, 6, 10, 9), 6, (5, 5), pads=(2,) * 4, group=6, element="f32", native=True),
        Convolution((3, 8, 5, 6), 8, (3, 3), pads=(0, 2, 3, 1), group=8, native=True),
        Convolution((2, 20, 31), 20, (5,), (2,), (2,), (3, 4), 20, epilogue="relu", native=True),
        Convolution((1, 8, 4, 5, 6), 8, (3, 2, 3), pads=(1, 0, 1, 1, 1, 1), group=8, native=True),
        Convolution((1, 12, 7, 8), 12, (1, 1), (2, 1), group=12, epilogue="add", native=True),
        Convolution((1, 16, 9, 8), 16, (7, 7), pads=(3,) * 4, group=16, element="i8", native=True),
        # Enough images for several pixels a thread.
        Convolution((97, 16, 13, 15), 16, (3, 3), pads=pads, group=16, native=True),
        Convolution(
            (67, 12, 14, 13),
            12,
            (5, 3),
            (2, 2),
            pads=(2, 1, 2, 1),
            group=12,
            element="f32",
            epilogue="add",
            native=True,
        ),
    ]
    # Few channels: a row of a window is one run.
    found += [
        Convolution((2, 2, 13, 12), 16, (5, 6), pads=(2, 3, 1, 0), epilogue="relu"),
        Convolution((1, 4, 12, 15), 24, (3, 7), (2, 1), pads=(0, 3, 1, 3), native=True),
    ]
    # Few enough results for blocks that keep their pixels in LDS.
    found += [
        Convolution((1, 32, 9, 17), 32, (3, 3), pads=pads, native=True, epilogue="relu"),
        Convolution((2, 64, 7, 6), 16, (2, 3), pads=(0, 1, 2, 1), native=True, epilogue="add"),
        Convolution((1, 16, 6, 33), 48, (3, 2), element="f32", native=True),
    ]
    found += computed(target) + narrow(target)
    if "bf16" in target.features:
        found.append(Convolution((1, 32, 6, 8), 16, (3, 3), element="bf16", native=True))
        found.append(Convolution((1, 8, 6, 6), 16, (3, 3), pads=pads, element="bf16"))
        found.append(
            Convolution((5, 8, 9, 7), 8, (3, 3), pads=pads, group=8, element="bf16", native=True)
        )
    if target.matrix:
        found.append(Convolution((1, 20, 6, 6), 16, (3, 3), pads=pads, element="i8"))
        found.append(Convolution((1, 32, 6, 6), 16, (3, 3), pads=pads, element="i8", native=True))
        found.append(Convolution((1, 64, 6, 6), 16, (3, 3), pads=pads, element="i8", native=True))
    return found


def computed(target: Target) -> list[Convolution]:
    """Images that are computed as they are read."""
    pads = (1, 1, 1, 1)
    return [
        # Plain products.
        Convolution((1, 16, 6, 8), 24, (1, 1), prologue="norm", epilogue="relu"),
        Convolution((2, 32, 5, 7), 24, (1, 1), prologue="norm", native=True, epilogue="add"),
        Convolution((2, 32, 5, 8), 17, (1, 1), prologue="gate", native=True),
        Convolution((2, 20, 4, 4), 16, (1, 1), prologue="bytes", group=2),
        Convolution((2, 32, 5, 6), 20, (1, 1), prologue="filters"),
        Convolution((3, 64, 5, 5), 32, (1, 1), prologue="filters", native=True, epilogue="relu"),
        # Packed.
        Convolution((2, 16, 6, 8), 16, (3, 3), pads=pads, prologue="norm", epilogue="relu"),
        Convolution((2, 12, 7, 6), 8, (2, 3), pads=(1, 0, 0, 2), prologue="gate", element="f32"),
        Convolution((1, 3, 16, 16), 16, (7, 7), (2, 2), pads=(3,) * 4, prologue="norm"),
        Convolution((1, 10, 5, 6), 12, (3, 3), pads=pads, prologue="norm", native=True),
        # Images of one channel, as plain sums.
        Convolution((2, 1, 9, 12), 16, (3, 3), pads=pads, prologue="cast", epilogue="relu"),
        Convolution((1, 1, 8, 8), 6, (3, 2), (2, 1), prologue="cast", native=True),
        # By windows.
        Convolution((2, 32, 5, 7), 20, (3, 3), pads=pads, prologue="gate", native=True),
        Convolution(
            (3, 40, 9, 6), 24, (3, 3), (2, 1), (2, 2), (1, 3, 2, 0), prologue="norm", native=True
        ),
        Convolution((1, 24, 9, 8), 17, (3, 2), prologue="norm", native=True, epilogue="relu"),
        Convolution((2, 16, 6, 6), 24, (3, 3), pads=pads, prologue="bytes", last=True),
        Convolution(
            (2, 16, 6, 6), 24, (3, 3), pads=pads, group=2, prologue="norm", native=True,
            element="f32",
        ),
        Convolution((1, 8, 4, 5, 6), 16, (3, 3, 3), pads=(1,) * 6, prologue="norm", native=True),
    ]  # fmt: skip


def narrow(target: Target) -> list[Convolution]:
    """Images of three or four channels whose filters are stored so that each tap is one read."""
    two, three = (2, 2), (3, 3, 3, 3)
    found = [
        Convolution((1, 3, 32, 40), 64, (7, 7), two, pads=three, epilogue="relu"),
        Convolution((2, 3, 24, 32), 64, (7, 7), two, pads=three, native=True, epilogue="relu"),
        Convolution((1, 3, 17, 72), 32, (3, 3), two, pads=(1, 1, 1, 1), native=True),
        Convolution((2, 3, 18, 64), 32, (3, 3), two, pads=(0, 0, 1, 1), epilogue="add"),
        Convolution((1, 3, 9, 24), 24, (3, 3), pads=(1, 1, 1, 1), native=True, epilogue="add"),
        Convolution((1, 4, 16, 16), 48, (4, 4), (4, 4), native=True),
        Convolution((2, 3, 20, 24), 16, (5, 3), (3, 1), (1, 2), (2, 3, 1, 1), native=True),
        Convolution((1, 3, 14, 48), 96, (5, 5), (1, 3), pads=(2, 2, 2, 2), native=True),
        Convolution((1, 3, 12, 32), 16, (7, 7), two, pads=three, element="f32"),
        Convolution((2, 4, 11, 40), 40, (3, 3), two, element="f32", native=True),
        Convolution((1, 3, 16, 40), 64, (7, 7), two, pads=three, prologue="cast", epilogue="relu"),
        Convolution((2, 3, 17, 36), 32, (3, 3), two, pads=(1,) * 4, prologue="cast", native=True),
        Convolution((1, 4, 9, 24), 24, (3, 3), pads=(1,) * 4, prologue="cast"),
    ]
    if "bf16" in target.features:
        found.append(Convolution((1, 3, 16, 32), 32, (3, 3), two, element="bf16", native=True))
    return [replace(x, wide=True) for x in found]


def varied(target: Target, count: int) -> list[Convolution]:
    """Convolutions of any shape; the cost model chooses their schedules."""
    rng = random.Random(13)
    found: list[Convolution] = []
    while len(found) < count:
        rank = rng.choice((1, 2, 2, 2, 3))
        group = rng.choice((1, 1, 1, 2, 6))
        channels = group * rng.choice((1, 3, 8, 10, 16, 32))
        if depthwise := rng.random() < 0.15:
            group = channels
        largest = {1: 60, 2: 14, 3: 6}[rank]

        def numbers(low: int, high: int, rank: int = rank) -> tuple[int, ...]:
            return tuple(rng.randint(low, high) for _ in range(rank))

        made = Convolution(
            (rng.randint(1, 3), channels, *numbers(largest // 2, largest)),
            group * (1 if depthwise else rng.choice((1, 5, 16, 20))),
            numbers(1, 3),
            numbers(1, 2),
            numbers(1, 2),
            (*numbers(0, 2), *numbers(0, 2)),
            group,
            rng.choice(elements_of(target)),
            rng.choice(("", "relu", "add")),
            last=rng.random() < 0.3,
        )
        if not made.last and (depthwise or rng.random() < 0.5):
            made = replace(made, native=True)
        if made.result != "i32" and rng.random() < 0.3:
            made = replace(made, prologue=rng.choice(("norm", "gate", "bytes")))
        work = math.prod(made.outputs) * made.filters * channels // group
        if (
            min(made.outputs) > 0
            and work
            and (depthwise or channels * math.prod(made.window) >= 8 * group)
            and made.shape[0] * work * math.prod(made.window) < 4e6
        ):
            found.append(made)
    return found
