"""Sums along rows, searches, top-k and scatters of any sizes, by generators for GPUs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import parser

import mgx_mlir
from mgx_mlir import CompileOptions, Model, compile_to_bytecode
from mgx_mlir.artifact.target import Target
from mgx_mlir.codegen.gpu.kernel import compiler
from mgx_mlir.compiler import Report, import_model, optimize
from mgx_mlir.models.staged.bounded import first_halves
from mgx_mlir.rewriting.graph import kernels

FULL = CompileOptions(mode="full-dynamic")
Feeds = dict[str, Any]
RNG = np.random.default_rng(7)


def floats(*shape: int) -> Any:
    return RNG.normal(size=shape).astype(np.float32)


def numbers(low: int, high: int, *shape: int) -> Any:
    return RNG.integers(low, high, shape)


def model_of(signature: str, nodes: str) -> onnx.ModelProto:
    text = f'<ir_version: 9, opset_import: ["" : 18]> g ({signature}) {{ {nodes} }}'
    return parser.parse_model(text)


def many(make: Callable[..., Feeds], *sizes: Sequence[int]) -> list[Feeds]:
    return [make(*size) for size in sizes]


ZERO, ONE = "zero = Constant <value_int = 0> ()", "one = Constant <value_int = 1> ()"
# Each case has a signature, nodes, and inputs of several sizes.
CASES: dict[str, tuple[str, str, list[Feeds]]] = {
    "rows": (
        "float[a, b] x) => (float[a, b] y",
        f"{ONE} y = CumSum(x, one)",
        many(lambda a, b: {"x": floats(a, b)}, (1, 5), (3, 700), (70, 33), (400, 512), (2, 1040)),
    ),
    "rows from the end": (
        "int64[a, b] x) => (int64[a, b] y",
        f"{ONE} y = CumSum <reverse = 1, exclusive = 1> (x, one)",
        many(lambda a, b: {"x": numbers(-5, 5, a, b)}, (1, 5), (3, 700), (1, 3000)),
    ),
    "one long row": (
        "int64[a] x) => (int64[a] y",
        f"{ZERO} y = CumSum(x, zero)",
        many(lambda a: {"x": numbers(-5, 5, a)}, (1,), (70,), (50000,)),
    ),
    "neighbouring rows": (
        "int32[a, 16] x) => (int32[a, 16] y",
        f"{ZERO} y = CumSum(x, zero)",
        many(lambda a: {"x": numbers(-5, 5, a, 16).astype(np.int32)}, (1,), (70,), (5000,)),
    ),
    "top k of rows of given length": (
        "float[a, 64] x) => (float[a, 8] y, int64[a, 8] i",
        "k = Constant <value_ints = [8]> () y, i = TopK(x, k)",
        many(lambda a: {"x": floats(a, 64)}, (1,), (7,), (300,)),
    ),
    "top k of long rows": (
        "float[a, 8400] x) => (float[a, 300] y, int64[a, 300] i",
        "k = Constant <value_ints = [300]> () y, i = TopK(x, k)",
        many(lambda a: {"x": floats(a, 8400)}, (1,), (3,)),
    ),
    "top k of any rows": (
        "float[a, b] x) => (float[a, 5] y, int64[a, 5] i",
        "k = Constant <value_ints = [5]> () y, i = TopK(x, k)",
        many(lambda a, b: {"x": numbers(-50, 50, a, b).astype(np.float32)},
             (1, 5), (9, 128), (5, 129), (2, 300), (3, 1024), (2, 1025), (2, 4096), (1, 4097),
             (2, 8192), (3, 9000), (1, 70001)),
    ),
    "the least along another axis": (
        "int64[40, a] x) => (int64[3, a] y, int64[3, a] i",
        "k = Constant <value_ints = [3]> () y, i = TopK <axis = 0, largest = 0> (x, k)",
        many(lambda a: {"x": numbers(-5, 5, 40, a)}, (1,), (7,), (300,)),
    ),
    "all in order": (
        "float[a, b] x) => (float[a, b] y, int64[a, b] i",
        "k = Shape <start = 1> (x) y, i = TopK <largest = 0> (x, k)",
        many(lambda a, b: {"x": numbers(-500, 500, a, b).astype(np.float32)},
             (1, 1), (2, 300), (3, 9000), (1, 2048), (1, 4097)),
    ),
    "wide numbers in order": (
        "int64[a] x) => (int64[a] y, int64[a] i",
        "k = Shape(x) y, i = TopK(x, k)",
        many(lambda a: {"x": numbers(-500, 500, a) << 40}, (1,), (300,), (9000,)),
    ),
    **{
        f"scatter {reduction} along an axis": (
            "float[a, b] x, int64[a, c] k, float[a, c] u) => (float[a, b] y",
            f'y = ScatterElements <axis = 1, reduction = "{reduction}"> (x, k, u)',
            many(lambda a, b, c: {"x": floats(a, b), "k": numbers(-b, b, a, c), "u": floats(a, c)},
                 (1, 5, 5), (3, 70, 30), (4, 900, 333)),
        )
        for reduction in ("add", "max", "min")
    },
    "scatter of rows": (
        "float16[a, 6] x, int64[c, 1] k, float16[c, 6] u) => (float16[a, 6] y",
        "y = ScatterND(x, k, u)",
        many(lambda a, c: {"x": floats(a, 6).astype(np.float16),
                           "k": RNG.permutation(a)[:c, None].copy(),
                           "u": floats(c, 6).astype(np.float16)},
             (5, 5), (70, 30), (900, 333)),
    ),
    "one update": (
        "int32[a, b] x, int64[a, 1] k, int32[a, 1] u) => (int32[a, b] y",
        "y = ScatterElements <axis = 1> (x, k, u)",
        many(lambda a, b: {"x": numbers(0, 9, a, b).astype(np.int32), "k": numbers(-b, b, a, 1),
                           "u": numbers(10, 99, a, 1).astype(np.int32)}, (1, 5), (3, 70)),
    ),
}  # fmt: skip


@pytest.mark.parametrize("target", ["cpu", "gfx942", "gfx1100"])
@pytest.mark.parametrize("name", CASES)
def test_one_program_serves_all_sizes(name: str, target: str) -> None:
    signature, nodes, feeds = CASES[name]
    model = model_of(signature, nodes)
    artifact = compile_to_bytecode(model, FULL)
    program = mgx_mlir.compile(artifact, target=target)
    session = onnxruntime.InferenceSession(model.SerializeToString())
    for inputs in feeds:
        wanted = session.run(None, inputs)
        for array, other in zip(program.run(inputs).values(), wanted, strict=True):
            close = 1e-5 if other.dtype == np.float32 and "y, i" not in nodes else 0
            np.testing.assert_allclose(array, other, rtol=close, atol=10 * close)


@pytest.mark.parametrize("name", CASES)
def test_generators_take_them(name: str) -> None:
    """No thread has a whole row."""
    signature, nodes, _ = CASES[name]
    graph = import_model(model_of(signature, nodes), FULL)
    optimize(graph, FULL, Report())
    ways = [compiler(kernel)(Target.get("gfx942")).why for kernel in kernels(graph.module)]
    assert ways
    assert all("any sizes, " in way for way in ways)


@pytest.mark.every(2)
@pytest.mark.parametrize("target", ["cpu", "gfx942", "gfx1100"])
@pytest.mark.parametrize("shape", [["a", "b", "c"], ["a"], ["a", "3"]])
def test_searches_of_any_sizes(shape: list[str], target: str) -> None:
    model = model_of(f"float[{', '.join(shape)}] x) => (int64[{len(shape)}, r] y", "y = NonZero(x)")
    program = mgx_mlir.compile(first_halves(model), target, FULL)
    for scale in (1, 4, 19):
        sizes = [int(n) if n.isdigit() else scale + d for d, n in enumerate(shape)]
        x = (RNG.uniform(size=sizes) < 0.5).astype(np.float32)
        found = program.run({"x": x})
        wanted = np.stack(np.nonzero(x))
        (count,) = found["y/count"]
        np.testing.assert_array_equal(found["y/most"][:, :count], wanted)
        assert not found["y/most"][:, count:].any()


@pytest.mark.every(5)
@pytest.mark.parametrize("target", ["cpu", "gfx942", "gfx1100"])
@pytest.mark.parametrize(
    ("most", "least"), [(20, None), (20, 0.2), (2**63 - 1, None), (20000, 0.5)]
)
def test_any_number_of_boxes(most: int, least: float | None, target: str) -> None:
    """Boxes that overlap no better one are kept; numbers of up to 20000 do not fit into LDS."""
    model = boxes_of("n, k", "n, c, k", most, least)
    session = onnxruntime.InferenceSession(model.SerializeToString())
    boxes = Model(model, target=target)
    for sizes in ((1, 1, 1), (1, 3, 40), (2, 2, 300), (1, 1, 2500)):
        inputs = some_boxes(*sizes)
        np.testing.assert_array_equal(boxes.run(inputs)["y"], session.run(None, inputs)[0])
    assert boxes.compiled == 1  # for any sizes


@pytest.mark.parametrize("target", ["cpu", "gfx942"])
def test_more_boxes_than_a_thread_has_room_for(target: str) -> None:
    model = boxes_of("1, 2500", "1, 3, 2500", 50, 0.5)
    inputs = some_boxes(1, 3, 2500)
    (wanted,) = onnxruntime.InferenceSession(model.SerializeToString()).run(None, inputs)
    np.testing.assert_array_equal(Model(model, target=target).run(inputs)["y"], wanted)


def boxes_of(boxes: str, scores: str, most: int, least: float | None) -> onnx.ModelProto:
    """NonMaxSuppression of boxes [.., 4] and scores of these shapes."""
    limit = "" if least is None else f"l = Constant <value_floats = [{least}]> ()"
    return model_of(
        f"float[{boxes}, 4] b, float[{scores}] s) => (int64[r, 3] y",
        f"m = Constant <value_ints = [{most}]> () t = Constant <value_floats = [0.4]> () {limit} "
        f"y = NonMaxSuppression(b, s, m, t{', l' if limit else ''})",
    )


def some_boxes(batch: int, classes: int, count: int) -> Feeds:
    corners = RNG.uniform(size=(batch, count, 4)).astype(np.float32)
    corners[..., 2:] = corners[..., :2] + 0.1 * corners[..., 2:]
    return {"b": corners, "s": floats(batch, classes, count)}
