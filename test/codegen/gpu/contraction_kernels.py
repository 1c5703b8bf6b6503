"""Matrix products for the GPU tests: mgx kernels as text, and numpy's word on them."""

from __future__ import annotations

import math
import random
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import ml_dtypes
import numpy as np
from mlir import ir

from mgx_mlir.artifact.target import Target
from mgx_mlir.codegen.gpu.families.contraction.space import ProductSchedule
from mgx_mlir.dialects import context

Array = np.ndarray[Any, Any]

DTYPES: dict[str, Any] = {
    "bf16": ml_dtypes.bfloat16,
    "f16": np.float16,
    "f32": np.float32,
    "f64": np.float64,
    "i8": np.int8,
    "ui8": np.uint8,
    "i32": np.int32,
    "f8E4M3FN": ml_dtypes.float8_e4m3fn,
    "f8E4M3FNUZ": ml_dtypes.float8_e4m3fnuz,
    "f8E5M2": ml_dtypes.float8_e5m2,
    "f8E5M2FNUZ": ml_dtypes.float8_e5m2fnuz,
}
# Bounds of the error relative to the sum of the magnitudes of the products.
TOLERANCE = {"bf16": 2**-7, "f16": 2**-10, "f32": 2**-20, "f64": 2**-48, "i32": 0.0}
EPILOGUES = ("", "bias", "gelu", "residual", "row")


def tensor(shape: Sequence[int], element: str) -> str:
    return f"tensor<{'x'.join([*map(str, shape), element])}>"


@dataclass(frozen=True)
class Product:
    """C = A B with M, N, K of `shape`, for each of `batch`.

    't' in the layout: the operand is stored transposed and read through a view; 'h' (A only):
    stored [M, heads, K], where the last batch dimension is the heads; 's' (A only): stored
    [M, 2, K / 2], whose halves' elements alternate. `second`: B's element where it is another one.
    """

    shape: tuple[int, int, int]
    layout: str = "nn"
    element: str = "f16"
    batch: tuple[int, ...] = ()
    epilogue: str = ""
    schedule: ProductSchedule | None = None
    second: str = ""

    @property
    def name(self) -> str:
        sizes = "x".join(map(str, (*self.batch, *self.shape)))
        return "-".join(
            filter(None, (sizes, self.layout, self.element, self.second, self.epilogue))
        )

    @property
    def result(self) -> str:
        if self.element.startswith("f8"):
            return "f32"
        return "i32" if self.element in ("i8", "ui8") else self.element

    def stored(self) -> list[tuple[tuple[int, ...], str]]:
        """Shapes and types of the kernel's inputs."""
        M, N, K = self.shape
        a = (K, M) if self.layout[0] == "t" else (M, K)
        b = (N, K) if self.layout[1] == "t" else (K, N)
        first = (*self.batch, *a)
        if self.layout[0] == "h":
            first = (*self.batch[:-1], M, self.batch[-1], K)
        elif self.layout[0] == "s":
            first = (*self.batch, M, 2, K // 2)
        inputs = [(first, self.element), ((*self.batch, *b), self.second or self.element)]
        extra = {"bias": (N,), "gelu": (N,), "residual": (*self.batch, M, N), "row": (M, 1)}
        if self.epilogue:
            inputs.append((extra[self.epilogue], self.result))
        return inputs

    def text(self) -> str:
        """The mgx.kernel."""
        M, N, K = self.shape
        rank = len(self.batch)
        swap = [*range(rank), rank + 1, rank]
        heads = [*range(rank - 1), rank, rank - 1, rank + 1]
        a, b = (
            tensor((*self.batch, *shape), element)
            for shape, element in (((M, K), self.element), ((K, N), self.second or self.element))
        )
        c = tensor((*self.batch, M, N), self.result)
        types = [tensor(*x) for x in self.stored()]
        op = "mgx.dot" if self.result == self.element else "mgx.quant_dot"
        lines = []
        names = ["%x0", "%x1"]
        for number, wanted in enumerate((a, b)):
            mode = self.layout[number]
            if mode == "s":
                order = [*range(rank + 1), rank + 2, rank + 1]
                mixed = tensor((*self.batch, M, K // 2, 2), self.element)
                lines.append(
                    f"%t = mgx.transpose %x0 permutation = {order} : {types[0]} -> {mixed}"
                )
                lines.append(f"%v0 = mgx.reshape %t : {mixed} -> {wanted}")
                names[0] = "%v0"
            elif mode != "n":
                order = swap if mode == "t" else heads
                lines.append(
                    f"%v{number} = mgx.transpose %x{number} permutation = {order} "
                    f": {types[number]} -> {wanted}"
                )
                names[number] = f"%v{number}"
        lines.append(f"%c = {op} {names[0]}, {names[1]} : {a}, {b} -> {c}")
        returned = "%c"
        if self.epilogue:
            lines += self._epilogue(types[2], c)
            returned = "%y"
        arguments = ", ".join(f"%x{n}: {t}" for n, t in enumerate(types))
        body = "\n".join(lines)
        return (
            f"mgx.kernel @k({arguments}) -> ({c}) "
            f'attributes {{arch = #mgx.arch<"gfxMIGX">}} {{\n'
            f"{body}\nmgx.return {returned} : {c}\n}}"
        )

    def _epilogue(self, type_: str, c: str) -> list[str]:
        lines, extra = [], "%x2"
        if type_ != c:
            extra = "%w"
            lines.append(f"%w = mgx.multibroadcast %x2 : {type_} -> {c}")
        e = self.result
        inner, last = [f"%s = mgx.add %p, %q : {e}, {e} -> {e}"], "%s"
        if self.epilogue == "gelu":
            inner += [f"%h = mgx.erf %s : {e}", f"%g = mgx.mul %s, %h : {e}, {e} -> {e}"]
            last = "%g"
        body = "\n".join(inner)
        lines.append(
            f"%y = mgx.pointwise(%c, {extra}) : ({c}, {c}) -> {c} {{\n"
            f"^bb0(%p: {e}, %q: {e}):\n{body}\nmgx.yield {last} : {e}\n}}"
        )
        return lines

    def kernel(self) -> tuple[ir.Module, ir.OpView]:
        with context(), ir.Location.unknown():
            module = ir.Module.parse(self.text())
            return module, next(iter(module.body.operations))

    def arrays(self) -> list[Array]:
        rng = np.random.default_rng(3)
        made = []
        for shape, element in self.stored():
            dtype = DTYPES[element]
            if element in ("i8", "ui8", "i32"):
                low = 0 if element == "ui8" else -100
                made.append(rng.integers(low, 101, shape).astype(dtype))
            else:
                made.append(rng.uniform(-1, 1, shape).astype(dtype))
        return made

    def meaning(self, *inputs: Array) -> tuple[Array, Array]:
        """The result in f64, and the bound of its error."""
        wide = [x.astype(np.float64) for x in inputs]
        a, b = wide[:2]
        if self.layout[0] == "t":
            a = a.swapaxes(-1, -2)
        elif self.layout[0] == "h":
            a = a.swapaxes(-2, -3)
        elif self.layout[0] == "s":
            a = a.swapaxes(-1, -2).reshape(*self.batch, *self.shape[::2])
        if self.layout[1] == "t":
            b = b.swapaxes(-1, -2)
        c, bound = a @ b, np.abs(a) @ np.abs(b)
        if self.epilogue:
            c, bound = c + wide[2], bound + np.abs(wide[2])
        if self.epilogue == "gelu":
            c = c * np.vectorize(math.erf)(c)
            bound = 3 * bound
        return c, bound * TOLERANCE[self.result] + (0 if self.result in ("i32", "f64") else 1e-6)


def _parted(target: Target, splits: int) -> ProductSchedule:
    return ProductSchedule(1, 1, 1, 1, 2 if target.matrix else 1, splits)


def _sharing(rows: int, columns: int, prefetch: int, splits: int = 1) -> ProductSchedule:
    return ProductSchedule(1, 1, rows, columns, prefetch, splits, waves_k=4)


def emulated(target: Target) -> list[Product]:
    """The cases that the emulated device computes: few sizes that meet many cases."""
    found = [
        Product((16, 16, 64), "nt"),
        Product((33, 40, 200), "nn", schedule=ProductSchedule(2, 1, 1, 2)),
        Product((24, 64, 136), "tn", epilogue="bias"),
        Product((70, 90, 100), "tt", epilogue="residual", schedule=ProductSchedule(2, 2, 2, 2)),
        Product((13, 17, 19), "nt", epilogue="gelu"),
        Product((13, 17, 37), "nn", epilogue="row"),
        Product((5, 130, 300), "nt", "bf16", epilogue="bias"),
        Product((31, 16, 40), "tn", "bf16"),
        Product((2, 40, 4100), "nn", "bf16", epilogue="bias"),
        Product((40, 36, 44), "nn", "f32", epilogue="bias"),
        Product((19, 23, 29), "tt", "f32"),
        Product((64, 32, 96), "nt", "f32", epilogue="residual"),
        Product((20, 24, 64), "ht", batch=(2, 3)),
        Product((16, 24, 32), "nn", batch=(3,), epilogue="bias"),
        Product((1, 70, 200), "nt"),
        Product((70, 1, 200), "nn"),
        Product((16, 16, 1500), "nt", "f16"),
        Product((1, 23, 1000), "nt", "f16", epilogue="gelu"),
        Product((3, 13, 2056), "nt", "f32", epilogue="residual"),
        Product((30, 1, 1024), "nn", "f16", (2,), epilogue="row"),
        # A's neighbours along k lie apart in memory.
        Product((2, 300, 1024), "st", "f32"),
        Product((1, 64, 2048), "st", "f16", (2,)),
        Product((20, 24, 96), "st"),
        # Few rows, and B's columns side by side in memory.
        Product((1, 40, 2056), "nn", epilogue="bias"),
        Product((1, 72, 100), "nn", "f16", epilogue="bias"),
        Product((3, 48, 4100), "nn", epilogue="gelu"),
        Product((4, 20, 4100), "nn", batch=(2,), epilogue="residual"),
        Product((2, 20, 4098), "nn", "f32", epilogue="row"),
        Product((2, 4900, 72), "nn"),
        Product((24, 2, 4096), "tt", epilogue="residual"),
        Product((20, 24, 384), "nt", batch=(2,), epilogue="bias", schedule=_parted(target, 4)),
        Product((1, 37, 768), "nn", epilogue="gelu", schedule=_parted(target, 3)),
        Product((16, 32, 32), "nt", schedule=ProductSchedule(1, 1, 1, 2)),
        Product((16, 128, 96), "nt", schedule=ProductSchedule(1, 1, 1, 8)),
        # Threads bring more rows to LDS than the work-group has, the last ones beyond the matrix.
        Product((96, 128, 96), "nt", epilogue="residual", schedule=ProductSchedule(1, 4, 3, 1)),
        Product((96, 70, 100), "tt", epilogue="bias", schedule=ProductSchedule(1, 4, 3, 1)),
        # Rows of tiles go through a loop.
        Product((57, 40, 40), "nn", "bf16", epilogue="gelu", schedule=ProductSchedule(1, 1, 4, 2)),
    ]
    found += [
        Product((33, 40, 200), "nn", "i8"),
        Product((32, 64, 128), "nn", "i8", schedule=ProductSchedule(1, 2, 2, 2)),
        Product((17, 19, 23), "nt", "i8", epilogue="residual"),
        # Few rows of bytes, whose waves share columns where these are few.
        Product((1, 70, 200), "nt", "i8"),
        Product((3, 13, 2056), "nt", "i8", epilogue="residual"),
        Product((30, 1, 1024), "nn", "i8", (2,)),
        Product((2, 9, 16384), "nt", "i8"),
    ]
    if target.matrix:
        # Waves share k, and read fragments without LDS; in the last two, steps are a loop.
        found += [
            Product((40, 50, 512), "nt", epilogue="residual", schedule=_sharing(2, 2, 3)),
            Product((20, 24, 1024), "nt", "bf16", (2,), "bias", schedule=_sharing(1, 1, 2, 2)),
            Product((40, 72, 1024), "nt", epilogue="gelu", schedule=_sharing(2, 4, 2, 2)),
            Product((33, 40, 1024), "nt", "i8", schedule=_sharing(3, 1, 8)),
            Product((32, 32, 4096), "nt", schedule=_sharing(2, 2, 2)),
            Product((32, 40, 6144), "nt", "i8", epilogue="residual", schedule=_sharing(2, 3, 2)),
        ]
    if target.matrix == "mfma":
        found += [
            Product((33, 40, 200), "nt", "f64", epilogue="bias"),
            Product((17, 19, 23), "tn", "f64"),
        ]
    if target.matrix != "mfma":
        found += [Product((33, 40, 200), "tt", "ui8")]
    kind = "FN" if "fp8-ocp" in target.features else "FNUZ"
    suffix = "" if kind == "FN" else kind
    found += [
        Product((33, 40, 200), "nn", f"f8E4M3{kind}"),
        Product((32, 64, 128), "nt", f"f8E5M2{suffix}", epilogue="bias"),
        Product((24, 40, 200), "nt", f"f8E4M3{kind}", second=f"f8E5M2{suffix}"),
        Product((24, 40, 130), "nn", f"f8E5M2{suffix}", second=f"f8E4M3{kind}", epilogue="bias"),
        Product((24, 32, 80), "nt", "f8E4M3FN", second="f8E5M2FNUZ"),
        # fp8 of the kind that a chip lacks is converted to bf16.
        Product((24, 32, 80), "nn", "f8E4M3FN" if suffix else "f8E4M3FNUZ", epilogue="row"),
        Product((24, 32, 80), "tt", "f8E5M2" if suffix else "f8E5M2FNUZ"),
    ]
    return found


def elements_of(target: Target) -> list[str]:
    """Operand types that a chip multiplies, f16 more often than others."""
    found = ["f16", "f16", "f32"]
    if "bf16" in target.features:
        found.append("bf16")
    return [*found, "i8"]


def varied(target: Target, count: int) -> list[Product]:
    """Products of any sizes and layouts; the cost model chooses their schedules."""
    rng = random.Random(11)
    found = []
    for _ in range(count):
        shape = (rng.choice((1, 7, 16, 33, 80)), rng.randint(2, 90), rng.randint(8, 300))
        if rng.random() < 0.3:
            shape = (*shape[:2], rng.choice((256, 512, 1024)))
        layout, element = rng.choice("nt") + rng.choice("nt"), rng.choice(elements_of(target))
        batch = rng.choice(((), (), (3,), (2, 2)))
        epilogue = rng.choice(EPILOGUES) if element != "i8" else ""
        found.append(Product(shape, layout, element, batch, epilogue))
    return found
