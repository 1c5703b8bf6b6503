"""Decoding with caches of keys and values, whose steps write them where they lie."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy as np

import mgx_mlir
from mgx_mlir.artifact.record import Artifact
from mgx_mlir.runtime.program import Program
from test.importer.agreement import contributed, expected

BATCH, QUERIES, GROUPS, SIZE, LENGTH = 2, 4, 2, 16, 12
CACHES = {"y1": "pk", "y2": "pv"}


def model(step: int) -> tuple[Any, dict[str, np.ndarray]]:
    """GroupQueryAttention for one more entry of each sequence, and its inputs at a step."""
    generator = np.random.default_rng(step)

    def floats(*shape: int) -> np.ndarray:
        return generator.standard_normal(shape, np.float32)

    ends = np.array([4, 2], np.int32) + step
    inputs = {
        "q": floats(BATCH, 1, QUERIES * SIZE),
        "k": floats(BATCH, 1, GROUPS * SIZE),
        "v": floats(BATCH, 1, GROUPS * SIZE),
        "pk": floats(BATCH, GROUPS, LENGTH, SIZE),
        "pv": floats(BATCH, GROUPS, LENGTH, SIZE),
        "ends": ends,
        "total": np.array(ends.max() + 1, np.int32),
        "cos": np.cos(np.arange(LENGTH * SIZE // 2, dtype=np.float32)).reshape(LENGTH, -1),
        "sin": np.sin(np.arange(LENGTH * SIZE // 2, dtype=np.float32)).reshape(LENGTH, -1),
    }
    heads = {"num_heads": QUERIES, "kv_num_heads": GROUPS, "do_rotary": 1}
    types = (np.float32, np.float32, np.float32)
    return contributed("GroupQueryAttention", inputs, types, ("total",), **heads)


@functools.cache
def artifact(*chips: str) -> Artifact:
    """The model, with the caches at their full length, finalized for chips."""
    return mgx_mlir.finalize(mgx_mlir.compile_to_bytecode(model(0)[0]), list(chips))


def decode(program: Program, place: Callable[[np.ndarray], Any], **options: Any) -> None:
    """Some steps on caches that `place` has put somewhere, each like onnxruntime's."""
    caches = {name: place(model(0)[1][name]) for name in CACHES.values()}
    for step in range(4):
        onnx_model, given = model(step)
        before = {name: np.copy(_host(cache)) for name, cache in caches.items()}
        y, *wanted = expected(onnx_model, given | before)
        outputs = {present: caches[past] for present, past in CACHES.items()}
        found = program.run(given | caches, outputs, **options)
        np.testing.assert_allclose(_host(found["y0"]), y, rtol=1e-3, atol=1e-5)
        for (present, past), want in zip(CACHES.items(), wanted, strict=True):
            assert found[present] is caches[past]
            cache = _host(caches[past])
            for sequence, end in enumerate(given["ends"]):
                seen, rest = np.s_[sequence, :, : end + 1], np.s_[sequence, :, end + 1 :]
                np.testing.assert_allclose(cache[seen], want[seen], rtol=1e-4, atol=1e-5)
                np.testing.assert_array_equal(cache[rest], before[past][rest])


def _host(tensor: Any) -> np.ndarray:
    return tensor if isinstance(tensor, np.ndarray) else tensor.numpy()
