"""The programs whose plans are changed: one for each feature of plans, and small."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from pathlib import Path

import numpy as np
import onnx
from onnx import helper, numpy_helper, parser

import mgx_mlir
from mgx_mlir.artifact.record import Artifact
from mgx_mlir.compiler import CompileOptions
from mgx_mlir.settings import Settings
from mgx_mlir.sizes.range import Range
from test.fuzz import mutate
from test.runtime import cache_models, control_flow_models

_OPSET = '<ir_version: 9, opset_import: ["": 18]>'
_MLP = "a = MatMul (x, v) b = Softmax <axis = -1> (a) c = MatMul (b, w) d = Relu (c)"


def _model(text: str, **weights: np.ndarray) -> onnx.ModelProto:
    model = parser.parse_model(_OPSET + text)
    model.graph.initializer.extend(numpy_helper.from_array(a, n) for n, a in weights.items())
    return model


def _weights() -> dict[str, np.ndarray]:
    rng = np.random.default_rng(0)
    shapes = {"v": (24, 40), "w": (40, 24)}
    return {n: rng.standard_normal(shape, np.float32) for n, shape in shapes.items()}


def _several() -> Artifact:
    """Several kernels with an arena, and a concat in it."""
    text = f"""g (float[6, 24] x, float[6, 24] u) => (float[6, 24] d, float[6, 48] e)
        {{ {_MLP} s = CumSum (d, one) m = Mul (s, u) t = Add (m, d)
          e = Concat <axis = 1> (t, s) }}"""
    return mgx_mlir.compile_to_bytecode(_model(text, one=np.array(1), **_weights()))


def _any_sizes() -> Artifact:
    text = f"""g (float[n, m, 24] x) => (float[n, m, 24] y)
        {{ {_MLP} s = CumSum (d, one) y = Add (s, x) }}"""
    model = _model(text, one=np.array(1), **_weights())
    return mgx_mlir.compile_to_bytecode(model, CompileOptions(mode="full-dynamic"))


def _by_size(mode: str) -> Artifact:
    text = f"g (float[n, 24] x) => (float[n, 24] y) {{ {_MLP} y = LayerNormalization (d, s) }}"
    options = CompileOptions(mode=mode, dim_params={"n": Range(1, 16, (2, 5))})
    model = _model(text, s=np.ones(24, np.float32), **_weights())
    return mgx_mlir.compile_to_bytecode(model, options)


def _quantized() -> Artifact:
    rng = np.random.default_rng(1)
    nodes = [
        helper.make_node(
            "MatMulNBits", ["x", "q", "s"], ["a"], domain="com.microsoft", K=64, N=16, bits=4,
            block_size=32,
        ),
        helper.make_node("DynamicQuantizeLinear", ["a"], ["b", "bs", "bz"]),
        helper.make_node("MatMulInteger", ["b", "i", "bz"], ["c"]),
        helper.make_node("Cast", ["c"], ["y"], to=1),
    ]  # fmt: skip
    given = {
        "q": rng.integers(0, 255, (16, 2, 16), np.uint8),
        "s": rng.random(32, np.float32),
        "i": rng.integers(-9, 9, (16, 8), np.int8),
    }
    value = helper.make_tensor_value_info
    graph = helper.make_graph(
        nodes,
        "quantized",
        [value("x", 1, [4, 64])],
        [value("y", 1, [4, 8])],
        [numpy_helper.from_array(a, n) for n, a in given.items()],
    )
    opsets = [helper.make_opsetid("", 18), helper.make_opsetid("com.microsoft", 1)]
    model = helper.make_model(graph, opset_imports=opsets, ir_version=9)
    return mgx_mlir.compile_to_bytecode(model)


def _indices() -> Artifact:
    """Kernels whose addresses follow from data: gathers, scatters, sorting."""
    text = """g (float[8, 12] x, int64[5] i, int64[4, 12] j) => (float[5, 12] y, float[8, 12] z,
        float[8, 3] t, int64[8, 3] k) <int64[1] three = {3}>
        { y = Gather (x, i) u = GatherElements (x, j)
          z = ScatterElements <reduction = "add"> (x, j, u) t, k = TopK (x, three) }"""
    return mgx_mlir.compile_to_bytecode(_model(text))


def _in_parts() -> Artifact:
    text = """g (float[r, 3] x, float[3] b) => (float[c] y) { m = Add (x, b) p = Relu (m)
        n = NonZero (p) i = Transpose (n) q = GatherND (p, i) y = Mul (q, q) }"""
    return mgx_mlir.compile_to_bytecode(_model(text))


PROGRAMS: dict[str, Callable[[], Artifact]] = {
    "several kernels": _several,
    "any sizes": _any_sizes,
    "some sizes": lambda: _by_size("default"),
    "some sizes and any": lambda: _by_size("full-dynamic"),
    "caches in place": lambda: mgx_mlir.compile_to_bytecode(cache_models.model(0)[0]),
    "search": lambda: mgx_mlir.compile_to_bytecode(control_flow_models.search()),
    "rows of a loop": lambda: mgx_mlir.compile_to_bytecode(control_flow_models.rows(7)),
    "nested loops": lambda: mgx_mlir.compile_to_bytecode(control_flow_models.nested()),
    "quantized weights": _quantized,
    "indices": _indices,
    "weights beside": _several,
    "parts": _in_parts,
}


def seeds(
    folder: Path, target: str, settings: Settings, names: Iterable[str] = tuple(PROGRAMS)
) -> dict[str, bytes]:
    """The file of each program, with code for the target; in `folder` lie weights of one."""
    found = {}
    for name in names:
        make = PROGRAMS[name]
        artifact = mgx_mlir.finalize(make(), target, settings=settings)
        weights = "inside"
        if name == "weights beside":
            artifact, weights = _beside(artifact, folder), "beside"
        path = folder / "seed.mgx"
        artifact.save(path, weights=weights)
        found[name] = mutate.uncounted(path.read_bytes())
    return found


def _beside(artifact: Artifact, folder: Path) -> Artifact:
    """The artifact with its weights in one file of the folder."""
    placed, end = {}, 0
    with (folder / "weights.bin").open("wb") as file:
        for key, weight in artifact.weights.items():
            data = weight.array().tobytes()
            file.write(data)
            placed[key] = replace(weight, data=None, file=folder / "weights.bin", offset=end)
            end += len(data)
    return replace(artifact, weights=placed)
