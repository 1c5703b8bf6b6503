"""Runs a product whose k several work-groups share, and prints a hash of its results.

A program of its own, because the order of work-groups and strict mode are chosen once a process.
"""

from __future__ import annotations

import hashlib
import sys
from pathlib import Path
from typing import Any

import numpy as np
from onnx import numpy_helper, parser

sys.path.insert(0, str(Path(__file__).parents[3]))

import mgx_mlir

GIVEN = "float16[100, 2048] x", "float16[100, 80] y"
IMAGES = "float16[n, 256, 14, 14] x", "float16[n, 32, 14, 14] y"


def main(chip: str) -> None:
    generator = np.random.default_rng(0)

    def numbers(*shape: int) -> np.ndarray:
        return generator.standard_normal(shape).astype(np.float16)

    results = []
    w, bias = numbers(2048, 80), numbers(80)
    program = _compiled(GIVEN, "p = MatMul(x, w) q = Add(p, b) y = Relu(q)", w, bias, chip)
    assert "parts" in program.reasons[0] and len(program.launches) == 1
    x = numbers(100, 2048)
    want = np.maximum(x.astype(np.float32) @ w.astype(np.float32) + bias, 0)
    for _ in range(2):
        (y,) = program.run({"x": x}).values()
        np.testing.assert_allclose(y, want, rtol=2e-3, atol=0.05)
        results.append(y)
    filters = numbers(32, 256, 1, 1)
    convolution = "y = Conv(x, w, b)"
    program = _compiled(IMAGES, convolution, filters, bias[:32], chip, mode="full-dynamic")
    for count in (1, 3, 1):
        x = numbers(count, 256, 14, 14)
        want = np.einsum("nchw,fc->nfhw", x.astype(np.float32), filters[..., 0, 0].astype("f4"))
        (y,) = program.run({"x": x}).values()
        np.testing.assert_allclose(y, want + bias[:32, None, None], rtol=2e-3, atol=0.05)
        results.append(y)
    np.testing.assert_array_equal(results[0], results[1])
    print(hashlib.sha256(b"".join(y.tobytes() for y in results)).hexdigest())


def _compiled(
    types: tuple[str, str], text: str, w: np.ndarray, b: np.ndarray, chip: str, **options: Any
) -> Any:
    model = parser.parse_model(
        f'<ir_version: 9, opset_import: ["" : 18]> m ({types[0]}) => ({types[1]}) {{ {text} }}'
    )
    model.graph.initializer.extend(
        numpy_helper.from_array(array, name) for name, array in (("w", w), ("b", b))
    )
    return mgx_mlir.compile(model, chip, mgx_mlir.CompileOptions(**options))


if __name__ == "__main__":
    main(*sys.argv[1:])
