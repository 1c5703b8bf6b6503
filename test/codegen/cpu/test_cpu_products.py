"""Products of two activations whose sizes are formulas go through tiles, whatever the sizes are."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import onnx
import pytest
from onnx import parser

import mgx_mlir
from mgx_mlir.artifact.target import Target, executable_levels
from mgx_mlir.compiler import CompileOptions
from mgx_mlir.finalizer.explain import explain
from mgx_mlir.settings import Settings

LEVELS = [target.name for target in executable_levels()]
# Batch, rows, depth and columns: of one, none, few, no whole tiles, more blocks than one.
SIZES = [
    (1, 1, 1, 1), (2, 3, 5, 7), (1, 1, 300, 130), (2, 7, 257, 21), (1, 40, 33, 520),
    (1, 6, 0, 5), (0, 4, 5, 6), (2, 0, 3, 3), (1, 5, 4, 0), (3, 17, 16, 16), (1, 2, 20, 9),
    (1, 10, 18, 70), (2, 11, 300, 40),
]  # fmt: skip
# The shapes of x and w, the nodes, and the same by numpy.
KINDS: dict[str, tuple[str, str, str, Callable[..., np.ndarray]]] = {
    "plain": ("b,m,k", "b,k,n", "y = MatMul(x, w)", np.matmul),
    "columns together": (
        "b,m,k",
        "b,n,k",
        "v = Transpose <perm = [0, 2, 1]> (w) y = MatMul(x, v)",
        lambda x, w: x @ w.swapaxes(1, 2),
    ),
    "rows apart": (
        "b,k,m",
        "k,n",
        "v = Transpose <perm = [0, 2, 1]> (x) p = MatMul(v, w) q = Relu(p) y = Add(q, p)",
        lambda x, w: np.maximum(x.swapaxes(1, 2) @ w, 0) + x.swapaxes(1, 2) @ w,
    ),
    "heads": (
        "b,m,3,k",
        "b,n,3,k",
        'y = Einsum <equation = "bqhd,bkhd->bhqk"> (x, w)',
        lambda x, w: np.einsum("bqhd,bkhd->bhqk", x, w),
    ),
    "then a sum of its rows": (
        "b,m,k",
        "b,k,n",
        "a = Constant <value_ints = [-1]> () p = MatMul(x, w) y = ReduceSum(p, a)",
        lambda x, w: (x @ w).sum(-1, keepdims=True),
    ),
    "a vector": ("m,k", "k", "y = MatMul(x, w)", np.matmul),
}


FULL = CompileOptions(mode="full-dynamic")


def _model(kind: str, dtype: str = "float") -> onnx.ModelProto:
    x, w, nodes, _ = KINDS[kind]
    return parser.parse_model(
        f'<ir_version: 9, opset_import: ["": 17]> g ({dtype}[{x}] x, {dtype}[{w}] w) '
        f"=> ({dtype}[] y) {{ {nodes} }}"
    )


def _check(kind: str, level: str, dtype: type, most: float) -> None:
    x, w, _, wanted = KINDS[kind]
    model = _model(kind, {"float32": "float", "float64": "double"}.get(dtype.__name__, "float16"))
    program = mgx_mlir.compile(model, level, FULL, settings=Settings(threads=2))
    for sizes in SIZES:
        rng, known = np.random.default_rng(sum(sizes)), dict(zip("bmkn", sizes, strict=True))
        operands = [
            rng.standard_normal([known[n] if n in known else int(n) for n in names]).astype(dtype)
            for names in (x.split(","), w.split(","))
        ]
        found = program.run(dict(zip("xw", operands, strict=True)))["y"]
        exact = wanted(*(operand.astype(np.float64) for operand in operands))
        np.testing.assert_allclose(found, exact, rtol=most, atol=most * 20)


@pytest.mark.parametrize("kind", KINDS)
def test_any_sizes(kind: str) -> None:
    _check(kind, "cpu", np.float32, 1e-5)


@pytest.mark.parametrize("kind", KINDS)
def test_none_is_generic(kind: str) -> None:
    artifact = mgx_mlir.finalize(mgx_mlir.compile_to_bytecode(_model(kind), FULL), "x86-64-v3")
    (codes,) = artifact.code_objects.values()
    products = [
        code for kernel, code in zip(artifact.kernels, codes, strict=True) if "dot" in kernel.name
    ]
    assert products and not any("generic" in code.why for code in products)


@pytest.mark.parametrize("level", LEVELS)
def test_of_all_levels(level: str) -> None:
    _check("columns together", level, np.float32, 1e-5)


@pytest.mark.parametrize("dtype", [np.float16, np.float64])
def test_other_floats(dtype: type) -> None:
    _check("plain", "cpu", dtype, 2e-3)


def test_of_bytes() -> None:
    text = (
        '<ir_version: 9, opset_import: ["": 17]> g (uint8[b, m, k] x, int8[b, k, n] w) '
        "=> (int32[] y) { y = MatMulInteger(x, w) }"
    )
    program = mgx_mlir.compile(parser.parse_model(text), "cpu", FULL)
    for b, m, k, n in SIZES:
        rng = np.random.default_rng(k)
        x = rng.integers(0, 256, (b, m, k)).astype(np.uint8)
        w = rng.integers(-128, 128, (b, k, n)).astype(np.int8)
        found = program.run({"x": x, "w": w})["y"]
        np.testing.assert_array_equal(found, x.astype(int) @ w.astype(int))


@pytest.mark.parametrize(("rows", "taken"), [(1, "skinny"), (32, "tiles")])
def test_the_least_estimate_is_taken(rows: int, taken: str) -> None:
    text = (
        f'<ir_version: 9, opset_import: ["": 17]> g (float[{rows}, 64] x, float[64, 512] w) => (y)'
    )
    model = parser.parse_model(f"{text} {{ y = MatMul(x, w) }}")
    (kernel,) = mgx_mlir.compile_to_bytecode(model, kind="cpu").kernels
    told = explain(kernel.bytecode, Target.get("x86-64-v3"))
    assert f"{taken}, taken: " in told and "clocks" in told
    assert told.startswith(f"{taken}: ") and "windows, refused: " in told


@pytest.mark.parametrize(("channels", "side", "taken"), [(3, 224, "lines"), (64, 56, "windows")])
def test_images_of_few_channels_go_by_lines(channels: int, side: int, taken: str) -> None:
    sides = f"float[1, {channels}, {side}, {side}] x, float[64, {channels}, 3, 3] w"
    model = parser.parse_model(
        f'<ir_version: 9, opset_import: ["": 17]> g ({sides}) => (y) '
        "{ y = Conv <pads = [1, 1, 1, 1]> (x, w) }"
    )
    (kernel,) = mgx_mlir.compile_to_bytecode(model, kind="cpu").kernels
    assert f"{taken}, taken: " in explain(kernel.bytecode, Target.get("x86-64-v3"))
