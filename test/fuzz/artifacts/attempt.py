"""Loads and runs an artifact in a worker, whose memory lies between guard pages."""

from __future__ import annotations

import functools
import gc
import resource
import signal
from pathlib import Path
from typing import Any

import numpy as np

import mgx_mlir
from mgx_mlir.artifact.element_types import numpy_dtype
from mgx_mlir.artifact.formulas import bound, values
from mgx_mlir.artifact.plan import Plan
from mgx_mlir.errors import DeviceError, UserError
from mgx_mlir.settings import Settings
from test.fuzz.artifacts import guarded

# A plan may ask for loops without an end, which is no fault.
SECONDS = 1.0
_MEMORY = 8 << 30
_MOST_BYTES = 1 << 24
_RUNS = 2


class StoppedError(BaseException):
    """The run takes longer than it may. Not an Exception, which the program would explain."""


@functools.cache
def _prepare() -> None:
    resource.setrlimit(resource.RLIMIT_AS, (_MEMORY, _MEMORY))
    guarded.install()

    def stop(*_: Any) -> None:
        raise StoppedError

    signal.signal(signal.SIGALRM, stop)


def attempt(path: Path, target: str, seed: int, cache: Path) -> str:
    """The outcome in words: 'ran', 'refused', ... Any error but a user's is raised."""
    _prepare()
    settings = Settings(cache_dir=cache, jobs=1, threads=1, hip="emulated")
    rng = np.random.default_rng(seed)
    try:
        artifact = mgx_mlir.load(path)
        if artifact.parts is not None:
            model = mgx_mlir.Model(artifact, target, settings=settings)
            return _timed(_run_model, model, rng)
        program = mgx_mlir.compile(artifact, target, settings=settings)
        return _timed(_run, program, rng, target == "cpu")
    except UserError as error:
        return f"refused: {type(error).__name__}"
    except MemoryError:
        return "out of memory"
    except DeviceError as error:
        if "OutOfMemory" in str(error) or "InvalidValue" in str(error):
            return "refused by the device"
        raise


def _timed(run: Any, *arguments: Any) -> str:
    signal.setitimer(signal.ITIMER_REAL, SECONDS)
    try:
        for _ in range(_RUNS):
            run(*arguments)
    except StoppedError:
        return "stopped"
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        gc.collect()
    return "ran"


def _run_model(model: Any, rng: np.random.Generator) -> None:
    x = guarded.array((int(rng.integers(1, 5)), 3), np.dtype(np.float32), True)
    x[:] = rng.standard_normal(x.shape)
    model.run({"x": x, "b": np.ones(3, np.float32)})


def _run(program: Any, rng: np.random.Generator, on_host: bool) -> None:
    plan: Plan = program.plan
    known = {d.name: _size(d.low, d.high, rng) for d in plan.dims}
    if plan.programs and rng.random() < 0.5:
        known = dict(plan.programs[rng.integers(len(plan.programs))][0])
    found = values(plan.formulas, known)
    at_end = bool(rng.integers(4))

    def made(spec: Any) -> np.ndarray:
        shape = [bound(size, found) for size in spec.shape]
        dtype = numpy_dtype(spec.dtype)
        if int(np.prod(shape, dtype=object)) * dtype.itemsize > _MOST_BYTES:
            raise MemoryError
        return guarded.array(shape, dtype, at_end)

    inputs = {spec.name: _filled(made(spec), rng) for spec in plan.inputs}
    outputs = {spec.name: made(spec) for spec in plan.outputs}
    for output, source in plan.in_place if rng.random() < 0.7 else ():
        outputs[plan.outputs[output].name] = inputs[plan.inputs[source].name]
    if on_host:
        program.run(inputs, outputs)
    else:
        program.run(inputs, outputs if rng.random() < 0.5 else None)


def _size(low: int, high: int | None, rng: np.random.Generator) -> int:
    size = low + int(rng.integers(0, 7))
    return size if high is None else max(low, min(size, high))


def _filled(array: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Numbers near 0, or any bytes at all: a plan may give them to any kernel."""
    if rng.random() < 0.4:
        array.reshape(-1).view(np.uint8)[:] = rng.integers(0, 256, array.nbytes, np.uint8)
    else:
        array[...] = rng.integers(-3, 9, array.shape).astype(array.dtype)
    return array
