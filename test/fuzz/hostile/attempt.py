"""Compiles and runs a model in a process whose memory and time are limited."""

from __future__ import annotations

import math
import re
import resource
import time
import traceback
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import onnx
from onnx import helper

from mgx_mlir.errors import UserError
from mgx_mlir.finalizer.worker import WorkerError, WorkerPool
from test.fuzz.hostile.rows import Row

# One model may take so much: seconds, and bytes beyond what the compiler itself takes.
SECONDS = 20.0
MEMORY = 2 << 30
_WITH_LIBRARIES = 6 << 30
# Inputs of more elements are not made.
_MOST_ELEMENTS = 1 << 20
NOT_RUN = "not run: its inputs cannot be made"


@dataclass
class Result:
    """The words of each way of running a model, and the finding: '' where all is well."""

    said: list[str] = field(default_factory=list)
    finding: str = ""


class Attempts:
    """One worker, replaced where a model ends it."""

    def __init__(self, seconds: float = 2 * SECONDS) -> None:
        """`seconds`: a model that takes longer ends with the worker."""
        self._seconds = seconds

    def __enter__(self) -> Attempts:
        self._pool = WorkerPool(1, self._seconds)
        return self

    def __exit__(self, *rest: object) -> None:
        self._pool.shutdown(cancel_futures=True)

    def on(self, data: bytes, *ways: str) -> Result:
        """The outcome of a model in each of the ways."""
        try:
            result: Result = self._pool.submit(attempt, data, *([ways] if ways else [])).result()
        except WorkerError as error:
            return Result([], str(error))
        return result

    def of(self, row: Row) -> Result:
        """The outcome of a model, and whether the refusal holds the words."""
        made = row.make()
        data = made if isinstance(made, bytes) else made.SerializeToString()
        result = self.on(data)
        if not result.finding and row.words:
            bad = [t for t in result.said if t != NOT_RUN and not re.search(row.words, t)]
            ran = [text for text in result.said if text.startswith("ran")]
            if ran or bad:
                result.finding = f"without the words '{row.words}': " + "; ".join(ran or bad)
        return result


def attempt(data: bytes, ways: Sequence[str] = ("compile", "run")) -> Result:
    """Compiles and runs the model of these bytes, as a program and as a `Model`."""
    resource.setrlimit(resource.RLIMIT_AS, (_WITH_LIBRARIES, _WITH_LIBRARIES))
    result = Result()
    before = _peak()
    for way in ways:
        started = time.process_time()
        try:
            found = _WAYS[way](data)
        except UserError as error:
            found = f"{type(error).__name__}: {error}"
        except Exception as error:
            frame = traceback.extract_tb((error.__cause__ or error).__traceback__)[-1]
            place = f"{frame.filename}:{frame.lineno}"
            found = f"{type(error).__name__}: {error} ({place})"
            result.finding = result.finding or found
        result.said.append(found[:2000])
        taken = time.process_time() - started
        if taken > SECONDS:
            result.finding = result.finding or f"{taken:.0f} seconds"
    if _peak() - before > MEMORY:
        result.finding = result.finding or f"{(_peak() - before) / 2**30:.1f} GB"
    return result


def _peak() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss << 10


def _import(data: bytes) -> str:
    import mgx_mlir

    mgx_mlir.parse_onnx(data)
    return "imported"


def _compile(data: bytes) -> str:
    import mgx_mlir

    program = mgx_mlir.compile(data, "cpu", settings=_settings())
    if all(np.prod([float(d) for d in spec.shape]) <= _MOST_ELEMENTS for spec in program.inputs):
        program.run(
            {
                s.name: np.ones([max(d, 2) if d < 0 else d for d in s.shape], s.dtype)
                for s in program.inputs
            }
        )
    return "ran as a program"


def _run(data: bytes) -> str:
    from mgx_mlir.models.staged import Model

    model = Model(data, settings=_settings())
    if any(not _can_be_made(type_) for type_ in model.input_types.values()):
        return NOT_RUN
    model.run({name: _value(type_) for name, type_ in model.input_types.items()})
    return "ran as a model"


_WAYS: dict[str, Callable[[bytes], str]] = {
    "import": _import,
    "compile": _compile,
    "run": _run,
}


def _can_be_made(type_: onnx.TypeProto) -> bool:
    dims = type_.tensor_type.shape.dim
    return len(dims) <= 64 and _elements(type_) <= _MOST_ELEMENTS


def _elements(type_: onnx.TypeProto) -> float:
    return math.prod(float(d.dim_value) for d in type_.tensor_type.shape.dim if d.dim_value > 0)


def _settings() -> Any:
    from mgx_mlir.settings import Settings

    return Settings(cache_dir=None, jobs=1, threads=1)


def _value(type_: onnx.TypeProto) -> Any:
    """A value of a type; of sizes that are open, 2."""
    dims = [d.dim_value if d.dim_value > 0 else 2 for d in type_.tensor_type.shape.dim]
    dims = [
        0 if d.HasField("dim_value") and d.dim_value == 0 else n
        for d, n in zip(type_.tensor_type.shape.dim, dims, strict=True)
    ]
    kind = type_.tensor_type.elem_type
    if kind == onnx.TensorProto.STRING:
        return np.full(dims, "a", object)
    known = kind in helper.get_all_tensor_dtypes() and kind
    return np.ones(dims, helper.tensor_dtype_to_np_dtype(kind) if known else np.float32)
