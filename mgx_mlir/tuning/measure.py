"""The times of two schedules of a problem, taken in turn on one device.

A process of its own calls `measure`: a kernel that crashes or hangs ends that process alone.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache

import numpy as np

from mgx_mlir import emulator
from mgx_mlir.artifact.code_object import CodeObject
from mgx_mlir.artifact.element_types import numpy_dtype
from mgx_mlir.artifact.plan import Buffer, Plan, Step, TensorSpec
from mgx_mlir.artifact.target import Target
from mgx_mlir.loader import hip_device
from mgx_mlir.runtime.hip.device import Current, Device
from mgx_mlir.runtime.hip.library import call, library_kind
from mgx_mlir.runtime.hip.memory import DeviceMemory
from mgx_mlir.runtime.hip.profile import StepTimer
from mgx_mlir.runtime.hip.program import HipProgram
from mgx_mlir.settings import Settings
from mgx_mlir.tuning.problem import Problem

# Instructions of a wave on the emulated device: far more than a kernel of a model takes.
BUDGET = 1 << 27
# Copies of the tensors that runs go round, so that caches do not hold those of the run before.
COPIES = 4
# Bytes that are written between runs where caches are to be empty: more than any of them holds.
FLUSHED = 512 << 20
# Rounds after which a candidate is given up whose best time is that many times the default's worst.
EARLY, HOPELESS = 3, 1.5
# Roundings of the largest element, by the bytes of a float, that two orders of sums may differ by.
_ROUNDINGS = {1: 2, 2: 8, 4: 64, 8: 64}


@dataclass(frozen=True)
class Timing:
    """How to time on a GPU: `rounds` of default and candidate in turn, after a first of each.

    flush: whether caches are emptied before each run.
    """

    rounds: int = 15
    flush: bool = False


@dataclass(frozen=True)
class Where:
    """The device of the times. modelled: whether they are clocks of the emulated device's model."""

    modelled: bool
    device: str
    driver: str
    units: int


@dataclass(frozen=True)
class Times:
    """Times of one schedule, one a run: nanoseconds, or modelled clocks."""

    values: tuple[float, ...]

    @property
    def median(self) -> float:
        return statistics.median(self.values)

    @property
    def spread(self) -> float:
        """The distance of the quartiles."""
        if len(self.values) < 2:
            return 0.0
        low, _, high = statistics.quantiles(self.values, n=4)
        return high - low


@dataclass(frozen=True)
class Measured:
    """The times of the default and of the candidate. `wrong`: how results differ, if they do."""

    default: Times
    candidate: Times
    wrong: str = ""


@dataclass
class _Bench:
    """One problem on a device, with the default's results."""

    problem: Problem
    device: Device
    inputs: Mapping[str, np.ndarray]
    outputs: Mapping[str, np.ndarray] = field(default_factory=dict)
    default: Times | None = None


_benches: dict[tuple[str, str], _Bench] = {}


@cache
def _device(target: Target, settings: Settings, sample: bool = False) -> Device:
    emulator.model_times(BUDGET, sample)
    return hip_device(target, settings)


def where(target: Target, settings: Settings) -> Where:
    """The device that `measure` uses. Raises TargetError or DeviceError."""
    device = _device(target, settings)
    modelled = library_kind() == "emulated"
    name = f"{device.product} ({'emulated' if modelled else device.target_id})"
    return Where(modelled, name, str(call("hipDriverGetVersion")), device.compute_units)


def measure(
    problem: Problem,
    default: CodeObject,
    candidate: CodeObject,
    target: Target,
    timing: Timing,
    settings: Settings,
) -> Measured:
    """Times the candidate beside the default, whose results the candidate's have to be.

    Raises DeviceError where a kernel faults; the process is of no more use then.
    """
    bench = _bench(problem, default, _device(target, settings))
    if library_kind() == "emulated":
        if bench.default is None:
            bench.default, bench.outputs = _modelled(bench, default)
        if candidate.sha256 == default.sha256:
            return Measured(bench.default, bench.default)
        times, found = _modelled(bench, candidate)
        return Measured(bench.default, times, _difference(bench.outputs, found))
    if not bench.outputs:
        bench.outputs = _program(bench, default).run(bench.inputs)
    wrong = _difference(bench.outputs, _program(bench, candidate).run(bench.inputs))
    if wrong:
        return Measured(Times((0.0,)), Times((0.0,)), wrong)
    return Measured(*_in_turn(bench, default, candidate, timing))


def least_clocks(
    problem: Problem, default: CodeObject, code: CodeObject, target: Target, settings: Settings
) -> float:
    """Modelled clocks that a run of `code` takes at least, from the work-groups of one unit.

    A process that calls it calls nothing else of this file. Raises DeviceError.
    """
    bench = _bench(problem, default, _device(target, settings, sample=True))
    return _modelled(bench, code)[0].median


def _bench(problem: Problem, default: CodeObject, device: Device) -> _Bench:
    key = problem.key, default.sha256
    if key not in _benches:
        _benches.clear()  # one problem at a time: tensors may be large
        _benches[key] = _Bench(problem, device, _inputs(problem))
    return _benches[key]


def _modelled(bench: _Bench, code: CodeObject) -> tuple[Times, Mapping[str, np.ndarray]]:
    """The clocks of one run, by the emulated device's model, and its results."""
    ordinal = bench.device.ordinal
    program = _program(bench, code)
    emulator.reset_profile(ordinal)
    found = program.run(bench.inputs)
    kernels = emulator.profile(ordinal)["kernels"]
    clocks = sum(kernel["total_modelled_ms"] for kernel in kernels) * bench.device.clock_khz
    return Times((round(clocks, 3),)), found


def _in_turn(
    bench: _Bench, default: CodeObject, candidate: CodeObject, timing: Timing
) -> tuple[Times, Times]:
    """Times in nanoseconds, run by run in turn, each on the next copy of the tensors."""
    timers = [
        [StepTimer(_program(bench, code), bench.inputs) for _ in range(COPIES)]
        for code in (default, candidate)
    ]
    ordinal = bench.device.ordinal
    room = DeviceMemory(ordinal, FLUSHED, "emptying caches") if timing.flush else None
    found: tuple[list[float], list[float]] = [], []
    for number in range(timing.rounds + 1):
        if number == EARLY + 1 and min(found[1][1:]) > HOPELESS * max(found[0][1:]):
            break
        for copies, times in zip(timers, found, strict=True):
            if room is not None:
                with Current(ordinal):
                    call("hipMemset", room.address, number & 0xFF, FLUSHED)
                    call("hipDeviceSynchronize")
            times.append(copies[number % COPIES].run() * 1e6)
    first, second = (Times(tuple(times[1:])) for times in found)
    return first, second


def _program(bench: _Bench, code: CodeObject) -> HipProgram:
    problem = bench.problem
    buffers = [
        Buffer(kind, math.prod(spec.shape) * numpy_dtype(spec.dtype).itemsize, index=number)
        for kind, specs in (("input", problem.inputs), ("output", problem.outputs))
        for number, spec in enumerate(specs)
    ]
    steps = (Step(0, tuple(range(len(buffers)))),)
    plan = Plan(problem.inputs, problem.outputs, 0, tuple(buffers), steps)
    return HipProgram(plan, [code], {}, bench.device, graph=False)


def _inputs(problem: Problem) -> dict[str, np.ndarray]:
    """Normal floats, and integers that are sound indices of two elements: the same each time."""
    generator = np.random.default_rng(0)

    def one(spec: TensorSpec) -> np.ndarray:
        dtype = numpy_dtype(spec.dtype)
        if dtype.kind in "biu" or "int" in spec.dtype:
            return generator.integers(0, 2, spec.shape).astype(dtype)
        return generator.standard_normal(spec.shape, np.float32).astype(dtype)

    return {spec.name: one(spec) for spec in problem.inputs}


def _difference(want: Mapping[str, np.ndarray], found: Mapping[str, np.ndarray]) -> str:
    """The first result that differs by more than roundings; '' for none."""
    for name, expected in want.items():
        dtype = expected.dtype
        a, b = expected.astype(np.float64), found[name].astype(np.float64)
        finite = a[np.isfinite(a)]
        allowed = 0.0
        if dtype.kind not in "biu" and "int" not in dtype.name and finite.size:
            step = 2.0 ** -_mantissa(dtype)
            allowed = float(np.abs(finite).max()) * step * _ROUNDINGS[dtype.itemsize]
        with np.errstate(invalid="ignore"):
            same = (np.abs(a - b) <= allowed) | (a == b) | (np.isnan(a) & np.isnan(b))
        if not same.all():
            return f"{name}: {np.count_nonzero(~same)} of {a.size} elements differ"
    return ""


def _mantissa(dtype: np.dtype) -> int:
    """Bits of a float's mantissa."""
    import ml_dtypes

    return int(ml_dtypes.finfo(dtype).nmant)
