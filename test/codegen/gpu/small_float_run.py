"""Converts between fp8 and wider floats on one chip, every bit checked; prints what is wrong.

A program of its own, as `emulated_run` is:

    ... python small_float_run.py gfx942
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import Any

import ml_dtypes
import numpy as np
from emulated_run import run
from kernel_text import DTYPES, first_wrong, kernel_text, parsed, tensor

from mgx_mlir.artifact.target import Target
from mgx_mlir.codegen.gpu.kernel import compiler

Array = np.ndarray[Any, Any]
KINDS: dict[str, Any] = {
    "f8E4M3FN": ml_dtypes.float8_e4m3fn,
    "f8E4M3FNUZ": ml_dtypes.float8_e4m3fnuz,
    "f8E5M2": ml_dtypes.float8_e5m2,
    "f8E5M2FNUZ": ml_dtypes.float8_e5m2fnuz,
}
TRUE, FALSE = "true", "false"


def patterns(element: str, kind: str) -> Array:
    """All numbers of 16 bits; of f32, those where rounding to `kind` changes, and their
    neighbours, beside special ones."""
    if element != "f32":
        return np.arange(1 << 16, dtype=np.uint16).view(DTYPES[element])
    codes = np.arange(256, dtype=np.uint8).view(KINDS[kind]).astype(np.float64)
    finite = np.unique(codes[np.isfinite(codes)])
    beyond = [finite[-1] + (finite[-1] - finite[-2]) * step for step in (0.5, 1, 2)]
    middles = (finite[1:] + finite[:-1]) / 2
    edges = np.concatenate([finite, middles, beyond, np.negative(beyond)]).astype(np.float32)
    near = [np.nextafter(edges, np.float32(side), dtype=np.float32) for side in (-np.inf, np.inf)]
    special = np.array([0.0, -0.0, np.inf, -np.inf, np.nan, -np.nan, 1e38, -1e38, 1e-45, -1e-40])
    return np.concatenate([edges, *near, special.astype(np.float32)])


def encoded(x: Array, kind: str, saturate: str) -> Array:
    """The codes that ONNX's Cast makes of x."""
    wide = x.astype(np.float32)
    if saturate == TRUE:
        largest = np.float32(ml_dtypes.finfo(KINDS[kind]).max)
        wide = np.where(np.isnan(wide), wide, np.clip(wide, -largest, largest))
    return wide.astype(KINDS[kind]).view(np.uint8)


def cases(kind: str) -> Iterator[tuple[str, Array, str, Array, str]]:
    """The input and its element, the result and its element, and attributes of the conversion."""
    for element in ("f32", "f16", "bf16"):
        x = patterns(element, kind)
        for saturate in (TRUE, FALSE):
            odd = (x[:149], x[-3:]) if element == "f32" else ()
            for array in (x, *odd):
                yield element, array, kind, encoded(array, kind, saturate), saturate
        codes = np.arange(256, dtype=np.uint8)
        for array in (codes, codes[:251]):
            wide = array.view(KINDS[kind]).astype(np.float32).astype(DTYPES[element])
            yield kind, array, element, wide, TRUE


def bits(x: Array, element: str) -> Array:
    """The bits of numbers; one pattern for all NaN."""
    values = x.view(KINDS[element]) if element in KINDS else x
    raw = x.view(f"u{x.dtype.itemsize}")
    return np.where(np.isnan(values.astype(np.float32)), -1, raw.astype(np.int64))


def main(chip: str) -> int:
    failed = 0
    for kind in KINDS:
        for source, x, result, want, saturate in cases(kind):
            body = (
                f"%y = mgx.convert %x0 {{saturate = {saturate}}} : "
                f"{tensor(x.shape, source)} -> {tensor(x.shape, result)}"
            )
            text = kernel_text([(x.shape, source)], [(x.shape, result)], body)
            _module, op = parsed(text)
            code = compiler(op)(Target.get(chip))
            have = np.full_like(want, 99)
            run(code, [x], [have])
            wrong = bits(have, result) != bits(want, result)
            problem = first_wrong(wrong, want, have)
            if "generic path" in code.why:
                problem = "no family takes it"
            if problem:
                failed += 1
                at = np.argwhere(wrong).ravel()[:5]
                print(f"{chip}: {source} to {result}, saturate {saturate}: {problem}; {x[at]}")
    return min(failed, 1)


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
