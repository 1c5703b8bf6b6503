"""Contractions with more around them for the GPU tests: mgx kernels as text.

The wanted result is the reference's on the same kernel in f64; the tolerance is the reference's
result on the magnitudes of all numbers.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from contraction_kernels import DTYPES, TOLERANCE, Array, tensor
from mlir import ir

from mgx_mlir.artifact.target import Target
from mgx_mlir.codegen.gpu.families.contraction.space import ProductSchedule
from mgx_mlir.dialects import context
from mgx_mlir.dialects.types import numpy_dtype
from mgx_mlir.reference import evaluate_kernel
from test.codegen import few_bits


@dataclass(frozen=True)
class Fused:
    """A kernel of inputs %x0, %x1 .. that returns %y.

    In `lines`, E is `element`, and a shape in angle brackets, as in <2x3xE>, a tensor type.
    """

    label: str
    inputs: tuple[tuple[int, ...], ...]
    lines: str
    shape: tuple[int, ...]
    element: str = "f16"
    schedule: ProductSchedule | None = None

    @property
    def name(self) -> str:
        return f"{self.label}-{self.element}"

    @property
    def result(self) -> str:
        return self.element

    def text(self, element: str) -> str:
        """The mgx.kernel."""
        types = [tensor(shape, element) for shape in self.inputs]
        arguments = ", ".join(f"%x{n}: {t}" for n, t in enumerate(types))
        lines = self.lines.replace("<", "tensor<").replace("E", element)
        result = tensor(self.shape, element)
        return (
            f"mgx.kernel @k({arguments}) -> ({result}) "
            f'attributes {{arch = #mgx.arch<"gfxMIGX">}} {{\n'
            f"{lines}\nmgx.return %y : {result}\n}}"
        )

    def kernel(self) -> tuple[ir.Module, ir.OpView]:
        return _parsed(self.text(self.element))

    def arrays(self) -> list[Array]:
        rng = np.random.default_rng(7)
        return [rng.uniform(-1, 1, shape).astype(DTYPES[self.element]) for shape in self.inputs]

    def meaning(self, *inputs: Array) -> tuple[Array, Array]:
        """The result in f64, and the bound of its error."""
        module, kernel = _parsed(self.text("f64"))
        with module.context:
            wide = [x.astype(np.float64) for x in inputs]
            (result,) = evaluate_kernel(kernel, wide)
            (bound,) = evaluate_kernel(kernel, [np.abs(x) for x in wide])
        return result, bound * TOLERANCE[self.element] + 1e-6


@dataclass(frozen=True)
class Weights:
    """x W, where W is computed of `code`s with scales and zero points of blocks along k."""

    shape: tuple[int, int, int]
    block: int
    code: str
    element: str = "f16"
    transposed: bool = True
    schedule: ProductSchedule | None = None

    @property
    def name(self) -> str:
        sizes = "x".join(map(str, self.shape))
        layout = "nt" if self.transposed else "nn"
        return f"weights-{sizes}-{self.block}-{self.code}-{layout}-{self.element}"

    @property
    def result(self) -> str:
        return self.element

    def text(self, element: str) -> str:
        M, N, K = self.shape
        types, lines, result = few_bits.weights(
            M, N, K, self.block, self.code, element, self.transposed
        )
        arguments = ", ".join(f"%x{n}: {t}" for n, t in enumerate(types))
        body = "\n".join(lines)
        return (
            f"mgx.kernel @k({arguments}) -> ({result}) "
            f'attributes {{arch = #mgx.arch<"gfxMIGX">}} {{\n'
            f"{body}\nmgx.return %y : {result}\n}}"
        )

    def kernel(self) -> tuple[ir.Module, ir.OpView]:
        return _parsed(self.text(self.element))

    def arrays(self) -> list[Array]:
        rng = np.random.default_rng(9)
        module, kernel = self.kernel()
        with module.context:
            types = ir.FunctionType(ir.TypeAttr(kernel.attributes["function_type"]).value).inputs
            made = []
            for type_ in types:
                dtype = numpy_dtype(type_)
                numbers = rng.uniform(-1, 1, tuple(type_.shape))
                if dtype.kind in "iu":
                    numbers = rng.integers(0, 256, tuple(type_.shape), np.uint8).view(dtype)
                made.append(numbers.astype(dtype))
        return made

    def meaning(self, *inputs: Array) -> tuple[Array, Array]:
        """The result in f64, and the bound of its error."""
        module, kernel = _parsed(self.text("f64"))
        with module.context:
            wide = [x.astype(np.float64) if i != 1 else x for i, x in enumerate(inputs)]
            (result,) = evaluate_kernel(kernel, wide)
        most = {"ui4": 15, "i4": 8, "f4E2M1FN": 6, "ui2": 3, "i8": 128}.get(self.code, 1)
        x, scales, zeros = (np.abs(wide[i]) for i in (0, 2, 3))
        bound = x.sum(1, keepdims=True) * scales.max() * (most + zeros.max())
        return result, np.broadcast_to(bound, result.shape) * TOLERANCE[self.element] + 1e-6


def _parsed(text: str) -> tuple[ir.Module, ir.OpView]:
    with context(), ir.Location.unknown():
        module = ir.Module.parse(text)
        return module, next(iter(module.body.operations))


def added_dots(
    shape: tuple[int, int], depths: tuple[int, int], layout: str, element: str,
    schedule: ProductSchedule | None = None,
) -> Fused:  # fmt: skip
    """relu(A B + bias + D E); 't' in the layout: B, or E, is stored transposed."""
    M, N = shape
    inputs: list[tuple[int, ...]] = []
    lines = []
    for number, (K, mode) in enumerate(zip(depths, layout, strict=True)):
        inputs += [(M, K), (N, K) if mode == "t" else (K, N)]
        right = f"%x{2 * number + 1}"
        if mode == "t":
            lines.append(
                f"%t{number} = mgx.transpose {right} permutation = [1, 0] "
                f": <{N}x{K}xE> -> <{K}x{N}xE>"
            )
            right = f"%t{number}"
        lines.append(
            f"%c{number} = mgx.dot %x{2 * number}, {right} "
            f": <{M}x{K}xE>, <{K}x{N}xE> -> <{M}x{N}xE>"
        )
    lines.append(f"%w = mgx.multibroadcast %x4 : <{N}xE> -> <{M}x{N}xE>")
    lines.append(_sum("%c0, %c1, %w", f"<{M}x{N}xE>"))
    label = f"added-{M}x{N}x{depths[0]}+{depths[1]}-{layout}"
    return Fused(label, (*inputs, (N,)), "\n".join(lines), shape, element, schedule)


def added_convolutions(batch: int, size: int, window: int, element: str) -> Fused:
    """relu(W * x + bias + V * z), where V is 1x1 with a stride of 2."""
    filters, channels, others, pad = 24, 16, 40, window // 2
    x, z = (batch, channels, size, size), (batch, others, 2 * size, 2 * size)
    y = (batch, filters, size, size)
    ty = f"<{'x'.join(map(str, y))}xE>"
    lines = []
    for number, (image, side, step) in enumerate(((x, window, 1), (z, 1, 2))):
        edge = pad if side > 1 else 0
        lines.append(
            f"%c{number} = mgx.convolution %x{2 * number}, %x{2 * number + 1} "
            f"pads = [{edge}, {edge}, {edge}, {edge}] strides = [{step}, {step}] "
            f"dilations = [1, 1] : <{'x'.join(map(str, image))}xE>, "
            f"<{filters}x{image[1]}x{side}x{side}xE> -> {ty}"
        )
    lines.append(f"%w = mgx.multibroadcast %x4 : <{filters}x1x1xE> -> {ty}")
    lines.append(_sum("%c1, %c0, %w", ty))
    filter_shapes = (filters, channels, window, window), (filters, others, 1, 1)
    inputs = (x, filter_shapes[0], z, filter_shapes[1], (filters, 1, 1))
    return Fused(f"added-conv-{batch}x{size}-{window}", inputs, "\n".join(lines), y, element)


def activated(shape: tuple[int, int, int], element: str, transposed: bool = False) -> Fused:
    """A' B, where A' = (A + bias) * sigmoid(A); `transposed`: A is stored transposed."""
    M, N, K = shape
    stored = (K, M) if transposed else (M, K)
    whole = f"<{stored[0]}x{stored[1]}xE>"
    bias = (K, 1) if transposed else (K,)
    lines = [
        f"%w = mgx.multibroadcast %x2 : <{'x'.join(map(str, bias))}xE> -> {whole}",
        f"%p = mgx.pointwise(%x0, %w) : ({whole}, {whole}) -> {whole} {{",
        "^bb0(%i: E, %j: E):\n%k = mgx.add %i, %j : E, E -> E\n%l = mgx.sigmoid %i : E",
        "%m = mgx.mul %k, %l : E, E -> E\nmgx.yield %m : E\n}",
    ]
    left = "%p"
    if transposed:
        left = "%t"
        lines.append(f"%t = mgx.transpose %p permutation = [1, 0] : {whole} -> <{M}x{K}xE>")
    lines.append(f"%y = mgx.dot {left}, %x1 : <{M}x{K}xE>, <{K}x{N}xE> -> <{M}x{N}xE>")
    label = f"activated-{M}x{N}x{K}{'-t' if transposed else ''}"
    return Fused(label, (stored, (K, N), bias), "\n".join(lines), (M, N), element)


def _sum(operands: str, type_: str) -> str:
    return (
        f"%y = mgx.pointwise({operands}) : ({type_}, {type_}, {type_}) -> {type_} {{\n"
        "^bb0(%p: E, %q: E, %r: E):\n%s = mgx.add %p, %r : E, E -> E\n"
        "%t = mgx.add %s, %q : E, E -> E\n%u = mgx.relu %t : E\nmgx.yield %u : E\n}"
    )


def patches(images: int, side: int, high: int, wide: int, filters: int, element: str) -> Fused:
    """A product of filters with patches of images, whose lines lie apart in memory."""
    depth, count = 3 * side * side, images * high * wide
    image = (images, 3, high, side, wide, side)
    parts = f"<{images}x{high}x{wide}x3x{side}x{side}xE>"
    rows, columns = f"<{count}x{depth}xE>", f"<{depth}x{filters}xE>"
    whole = f"<{'x'.join(map(str, image))}xE>"
    lines = [
        f"%p = mgx.transpose %x0 permutation = [0, 2, 4, 1, 3, 5] : {whole} -> {parts}",
        f"%a = mgx.reshape %p : {parts} -> {rows}",
        f"%b = mgx.transpose %x1 permutation = [1, 0] : <{filters}x{depth}xE> -> {columns}",
        f"%y = mgx.dot %a, %b : {rows}, {columns} -> <{count}x{filters}xE>",
    ]
    shape = (count, filters)
    label = f"patches-{'x'.join(map(str, image))}-{filters}"
    return Fused(label, (image, (filters, depth)), "\n".join(lines), shape, element)


def emulated(target: Target) -> Sequence[Fused | Weights]:
    """The cases that the emulated device computes."""
    prefetch = 2 if target.matrix else 1
    return (
        added_dots((33, 40), (72, 200), "nt", "f16"),
        added_dots((20, 24), (128, 256), "tt", "f16", ProductSchedule(1, 1, 1, 1, prefetch, 2)),
        added_dots((37, 17), (19, 23), "tn", "f32"),
        added_convolutions(1, 6, 1, "f16"),
        added_convolutions(2, 5, 3, "f16"),
        added_convolutions(2, 4, 1, "f32"),
        activated((33, 24, 77), "f16"),
        activated((20, 40, 64), "f32", transposed=True),
        patches(2, 16, 3, 2, 20, "f16"),
        patches(1, 14, 2, 5, 16, "f32"),
        Weights((33, 40, 96), 32, "ui4"),
        Weights((17, 24, 48), 16, "i4", "f32"),
        Weights((20, 32, 64), 32, "f4E2M1FN"),
        Weights((20, 32, 80), 16, "i8", transposed=False),
        Weights((35, 48, 64), 32, "f8E4M3FN"),
        Weights((1, 37, 4096), 64, "ui4"),
        Weights((1, 20, 1376), 16, "i4"),
        Weights((2, 7, 2080), 32, "i8"),
        Weights((3, 6, 2304), 128, "ui8"),
        Weights((4, 5, 4096), 32, "ui4"),
        Weights((3, 10, 1056), 32, "i4", "f32"),
        Weights((2, 12, 1024), 128, "f8E4M3FN"),
        Weights((1, 9, 512), 16, "ui2", "f32"),
    )


def varied(target: Target, count: int) -> Sequence[Fused | Weights]:
    """None: the sums of products vary in no more than products do."""
    return ()
