"""Runs products whose rows the last work-group normalises, or whose work-groups normalise those
that they multiply, and prints a hash of their results.

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
from mgx_mlir.compiler import CompileOptions
from mgx_mlir.runtime.hip.profile import step_times

# Rows, k, columns, launches: one row, few, and tiles of rows, the last one of which is not whole;
# more rows than one work-group should reduce.
SHAPES = (1, 2048, 2048, 1), (3, 512, 1000, 1), (40, 256, 64, 1), (256, 64, 768, 2)
# For one program of any sizes: texts, tokens, launches. A run of one row takes one launch.
RUNS = (1, 1, 1), (1, 5, 2), (2, 1, 2), (3, 30, 2), (1, 0, 0)

# Rows, k, columns, launches, and how the rows are normalised before the product: tiles of which the
# last one is not whole; fewer work-groups than steps along k; a depth that waves do not share.
CENTRED = "y = LayerNormalization<epsilon: float = 0.00001>(x, s, b)"
SQUARES = "q = Mul(x, x) m = ReduceMean(q, axis) r = Sqrt(m) n = Div(x, r) y = Mul(s, n)"
BEFORE = (
    (37, 256, 80, 1, CENTRED),
    (16, 512, 16, 1, SQUARES),
    (20, 100, 48, 2, CENTRED),
)


def main(chip: str) -> None:
    generator = np.random.default_rng(0)
    results = []
    for count, depth, columns, launches in SHAPES:

        def numbers(*shape: int) -> np.ndarray:
            return generator.standard_normal(shape).astype(np.float16)

        x, residual = numbers(count, depth), numbers(count, columns)
        weights = {"w": numbers(depth, columns), "s": numbers(columns), "b": numbers(columns)}
        program = _compiled(f"{count}, {depth}", f"{count}, {columns}", weights, chip)
        reason = program.reasons[0]
        assert ("the last work-group of rows reduces them" in reason) == (launches == 1), reason
        for _ in range(2):
            results += _checked(program, x, residual, weights)
        np.testing.assert_array_equal(results[-1], results[-3])
    for count, depth, columns, launches, body in BEFORE:
        # Far from 0, as the variance has to be exact.
        x = (numbers(count, depth) + 40 * numbers(count, 1)).astype(np.float16)
        weights = {"w": numbers(depth, columns), "s": numbers(depth), "b": numbers(depth)}
        program = _before(count, columns, weights, body, chip)
        assert sum(step.launches for step in step_times(program, {"x": x}, 1)) == launches
        for _ in range(2):
            found = program.run({"x": x})
            results += [found["y"], found["z"]]
        np.testing.assert_array_equal(results[-1], results[-3])
        exact = x.astype(np.float64)
        exact -= exact.mean(-1, keepdims=True) if body == CENTRED else 0
        want = exact / np.sqrt((exact**2).mean(-1, keepdims=True) + 1e-5) * weights["s"]
        want += weights["b"] if body == CENTRED else 0
        np.testing.assert_allclose(found["y"], want, rtol=2e-3, atol=5e-3)
        want = found["y"].astype(np.float64) @ weights["w"]
        np.testing.assert_allclose(found["z"], want, rtol=2e-3, atol=0.1)
    depth, columns, mode = 256, 512, CompileOptions(mode="full-dynamic")
    weights = {"w": numbers(depth, columns), "s": numbers(columns), "b": numbers(columns)}
    for total in (", float16[t, n, 512] z", ""):  # in the result's memory, or in scratch memory
        program = _compiled("t, n, 256", "t, n, 512", weights, chip, total, mode)
        for texts, tokens, launches in RUNS:
            x, residual = numbers(texts, tokens, depth), numbers(texts, tokens, columns)
            given = {"x": x, "r": residual}
            steps = step_times(program.program(given), given, 1)
            assert sum(step.launches for step in steps) == launches, (texts, tokens, steps)
            for _ in range(2):
                results += _checked(program, x, residual, weights)
    # A product that no generator takes: both are of the generic path.
    weights = {"w": numbers(4, 3), "s": numbers(3), "b": numbers(3)}
    program = _compiled("t, n, 4", "t, n, 3", weights, chip, "", mode)
    for texts, tokens in (1, 1), (5, 30):
        x, residual = numbers(texts, tokens, 4), numbers(texts, tokens, 3)
        results += _checked(program, x, residual, weights)
    print(hashlib.sha256(b"".join(y.tobytes() for y in results)).hexdigest())


def _checked(
    program: Any, x: np.ndarray, residual: np.ndarray, weights: dict[str, np.ndarray]
) -> list[np.ndarray]:
    """The results of a run, which are near those of numpy."""
    total = x.astype(np.float32) @ weights["w"].astype(np.float32) + residual
    centred = total - total.mean(-1, keepdims=True)
    want = centred / np.sqrt((centred**2).mean(-1, keepdims=True) + 1e-5)
    want = want * weights["s"] + weights["b"]
    found = program.run({"x": x, "r": residual})
    np.testing.assert_allclose(found["y"], want, rtol=1e-2, atol=0.02)
    if "z" in found:
        np.testing.assert_allclose(found["z"], total, rtol=2e-3, atol=0.2)
    return [*found.values()]


def _before(rows: int, columns: int, weights: dict[str, np.ndarray], body: str, chip: str) -> Any:
    depth = weights["s"].size
    model = parser.parse_model(
        f'<ir_version: 9, opset_import: ["" : 18]> m (float16[{rows}, {depth}] x) => '
        f"(float16[{rows}, {columns}] z, float16[{rows}, {depth}] y) {{ {body} z = MatMul(y, w) }}"
    )
    model.graph.initializer.extend(
        numpy_helper.from_array(array, name)
        for name, array in {**weights, "axis": np.array([-1])}.items()
    )
    return mgx_mlir.compile(model, chip)


def _compiled(
    x: str,
    y: str,
    weights: dict[str, np.ndarray],
    chip: str,
    total: str | None = None,
    options: CompileOptions | None = None,
) -> Any:
    total = f", float16[{y}] z" if total is None else total
    model = parser.parse_model(
        f'<ir_version: 9, opset_import: ["" : 18]> m (float16[{x}] x, float16[{y}] r) '
        f"=> (float16[{y}] y{total}) {{ p = MatMul(x, w) z = Add(p, r) "
        "y = LayerNormalization<epsilon: float = 0.00001>(z, s, b) }"
    )
    model.graph.initializer.extend(
        numpy_helper.from_array(array, name) for name, array in weights.items()
    )
    return mgx_mlir.compile(model, chip, options)


if __name__ == "__main__":
    main(*sys.argv[1:])
