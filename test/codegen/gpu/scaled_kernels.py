"""Products of blocks with scales (OCP MX) for the GPU tests, and numpy's word on them."""

from __future__ import annotations

from dataclasses import dataclass

import ml_dtypes
import numpy as np
from contraction_kernels import DTYPES, Array, tensor
from mlir import ir

from mgx_mlir.artifact.target import Target
from mgx_mlir.codegen.gpu.families.contraction.space import ProductSchedule
from mgx_mlir.dialects import context

BLOCK = 32
PACKED = "f4E2M1FN"


@dataclass(frozen=True)
class ScaledProduct:
    """C = A B with M, N, K of `shape`: codes of `element`, a scale for 32 of them along k.

    B is stored transposed where `transposed`; codes of 4 bits lie two in a byte, along k. `second`:
    B's element where it is another one. `spread`: each of A's codes has a byte for itself.
    """

    shape: tuple[int, int, int]
    element: str = "f8E4M3FN"
    transposed: bool = True
    schedule: ProductSchedule | None = None
    result: str = "f32"
    second: str = ""
    spread: bool = False

    @property
    def name(self) -> str:
        order = "nt" if self.transposed else "nn"
        kinds = self.element + self.second + "-spread" * self.spread
        return f"scaled-{'x'.join(map(str, self.shape))}-{order}-{kinds}"

    def packed(self, name: str) -> bool:
        return self.elements[name] == PACKED and not (name == "a" and self.spread)

    @property
    def elements(self) -> dict[str, str]:
        return {"a": self.element, "b": self.second or self.element}

    def text(self) -> str:
        """The mgx.kernel."""
        M, N, K = self.shape
        sizes = {"a": (M, K), "b": (N, K) if self.transposed else (K, N)}
        lines, arguments, operands = [], [], []
        for name, (rows, columns) in sizes.items():
            along_rows = name == "b" and not self.transposed
            element = self.elements[name]
            codes = tensor((rows, columns), element)
            packed = self.packed(name)
            if packed:
                stored = tensor((rows, columns // 2), "ui8")
                lines.append(f"%{name}c = mgx.unpack %{name} : {stored} -> {codes}")
            else:
                stored = codes
            blocks = (rows // BLOCK, 1, columns) if along_rows else (rows, columns // BLOCK, 1)
            spread = (blocks[0], BLOCK, columns) if along_rows else (*blocks[:2], BLOCK)
            scale, wide = (tensor(x, "f8E8M0FNU") for x in (blocks, spread))
            flat, floats = (tensor((rows, columns), x) for x in ("f8E8M0FNU", "f32"))
            code = f"%{name}c" if packed else f"%{name}"
            lines += [
                f"%{name}w = mgx.multibroadcast %{name}s : {scale} -> {wide}",
                f"%{name}f = mgx.reshape %{name}w : {wide} -> {flat}",
                f"%{name}d = mgx.pointwise({code}, %{name}f) : ({codes}, {flat}) -> {floats} {{",
                f"^bb0(%p: {element}, %q: f8E8M0FNU):",
                f"%r = mgx.dequantizelinear %p scale %q : {element}, f8E8M0FNU -> f32",
                "mgx.yield %r : f32\n}",
            ]
            arguments += [f"%{name}: {stored}", f"%{name}s: {scale}"]
            operands.append(f"%{name}d")
        a, c = tensor((M, K), "f32"), tensor((M, N), "f32")
        b = tensor((K, N), "f32")
        if self.transposed:
            lines.append(
                f"%bt = mgx.transpose %bd permutation = [1, 0] : {tensor((N, K), 'f32')} -> {b}"
            )
            operands[1] = "%bt"
        lines.append(f"%c = mgx.dot {operands[0]}, {operands[1]} : {a}, {b} -> {c}")
        body = "\n".join(lines)
        return (
            f"mgx.kernel @k({', '.join(arguments)}) -> ({c}) "
            f'attributes {{arch = #mgx.arch<"gfxMIGX">}} {{\n'
            f"{body}\nmgx.return %c : {c}\n}}"
        )

    def kernel(self) -> tuple[ir.Module, ir.OpView]:
        with context(), ir.Location.unknown():
            module = ir.Module.parse(self.text())
            return module, next(iter(module.body.operations))

    def arrays(self) -> list[Array]:
        M, N, K = self.shape
        rng = np.random.default_rng(5)
        made: list[Array] = []
        for rows, along_rows, (name, element) in zip(
            (M, N), (False, not self.transposed), self.elements.items(), strict=True
        ):
            codes = rng.uniform(-4, 4, (rows, K)).astype(_dtype(element))
            scales = rng.integers(122, 131, (rows, K // BLOCK)).astype(np.uint8)
            scales = scales.view(ml_dtypes.float8_e8m0fnu)
            if along_rows:
                made += [codes.T.copy(), scales.T.copy().reshape(K // BLOCK, 1, rows)]
                continue
            if self.packed(name):
                codes = codes.view(np.uint8)
                codes = codes[:, 0::2] | codes[:, 1::2] << 4
            made += [codes, scales.reshape(rows, K // BLOCK, 1)]
        return made

    def meaning(self, *inputs: Array) -> tuple[Array, Array]:
        """The result in f64, and the bound of its error."""
        a, b = (
            self._wide("a", *inputs[:2]),
            self._wide("b", *inputs[2:], transposed=not self.transposed),
        )
        c, bound = a @ b.T, np.abs(a) @ np.abs(b.T)
        return c, bound * 2**-20

    def _wide(self, name: str, codes: Array, scales: Array, transposed: bool = False) -> Array:
        """Rows along k in f64."""
        if transposed:
            codes, scales = codes.T, scales.reshape(scales.shape[0], -1).T
        if self.packed(name):
            nibbles = np.stack([codes & 15, codes >> 4], axis=-1).astype(np.uint8)
            codes = nibbles.reshape(codes.shape[0], -1).view(ml_dtypes.float4_e2m1fn)
        wide = codes.astype(np.float64)
        return wide * np.repeat(scales.reshape(len(wide), -1).astype(np.float64), BLOCK, axis=1)


def _dtype(element: str) -> type:
    return ml_dtypes.float4_e2m1fn if element == PACKED else DTYPES[element]


def emulated(target: Target) -> list[ScaledProduct]:
    """The cases that the emulated device computes; most chips expand the operands."""
    found = [
        ScaledProduct((40, 32, 256)),
        ScaledProduct((17, 48, 128), "f8E5M2"),
        ScaledProduct((33, 64, 384), "f4E2M1FN"),
        ScaledProduct((20, 64, 256), transposed=False),
        ScaledProduct((20, 32, 256), second="f8E5M2"),
        ScaledProduct((24, 32, 256), second=PACKED),
        ScaledProduct((24, 48, 96)),
        ScaledProduct((24, 48, 256), PACKED, spread=True),
    ]
    if "mx" in target.features:
        found += [
            ScaledProduct((70, 96, 640), schedule=ProductSchedule(2, 2, 2, 2)),
            ScaledProduct((130, 130, 512), schedule=ProductSchedule(1, 1, 8, 4)),
            ScaledProduct((64, 64, 512), "f4E2M1FN", schedule=ProductSchedule(1, 1, 4, 4, 2)),
        ]
    return found


def varied(target: Target, count: int) -> list[ScaledProduct]:
    """None but those."""
    del target, count
    return []
