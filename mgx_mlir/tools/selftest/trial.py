"""One case of the self-test on a target, beside the CPU."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

import numpy as np

from mgx_mlir.compiler import CompileOptions
from mgx_mlir.errors import CompilerError, DeviceError, MgxError, UnsupportedError
from mgx_mlir.loader import compile
from mgx_mlir.models.specialize import ANY_SIZES
from mgx_mlir.runtime.hip.device import Machine
from mgx_mlir.runtime.hip.profile import step_times
from mgx_mlir.runtime.hip.program import HipProgram
from mgx_mlir.runtime.program import Program
from mgx_mlir.runtime.sized import SizedProgram
from mgx_mlir.runtime.step_time import StepTime
from mgx_mlir.settings import Settings
from mgx_mlir.tools.selftest.cases import Case

# The largest difference from the CPU's f32, as a part of the largest element.
TOLERANCES = {"f32": 2e-4, "f16": 1e-2, "bf16": 6e-2, "i8": 0.0}
_TIMED_RUNS = 5
# Seconds from the end of a launch to the start of the next one; ordering.cpp of libmgx has it too.
_LAUNCH = 3e-6

Arrays = Mapping[str, np.ndarray]


@dataclass
class Outcome:
    """How a case ended: `ok`, `wrong`, `refused`, `error`, `hang` or `died`.

    `milliseconds` are those of its kernels in the median run, `estimate` those that its work and
    the device's rates give. `why` are the schedules.
    """

    case: str
    status: str = "ok"
    said: str = ""
    milliseconds: float = 0.0
    estimate: float = 0.0
    kernels: int = 0
    why: list[str] = field(default_factory=list)
    seconds: float = 0.0


def tried(case: Case, target: str, settings: Settings, reference: Reference) -> Outcome:
    """The case's outcome. Raises no error of the package but where the device is lost."""
    outcome, started = Outcome(case.name), time.perf_counter()
    try:
        program = _program(case, target, settings)
        found = program.run(case.inputs())
        outcome.said = difference(found, reference(case), TOLERANCES[case.type])
        outcome.status = "wrong" if outcome.said else "ok"
        _measure(program, case.inputs(), outcome)
    except MgxError as error:
        outcome.status, outcome.said = status_of(error), str(error)
    outcome.seconds = time.perf_counter() - started
    return outcome


def status_of(error: MgxError) -> str:
    """The word for an error: kernels that do not end are HIP's time-outs."""
    if isinstance(error, DeviceError):
        return "hang" if "TimeOut" in error.name or "hung" in str(error) else "error"
    if isinstance(error, UnsupportedError):
        return "refused"
    return "error" if isinstance(error, CompilerError) else "refused"


def _program(case: Case, target: str, settings: Settings, type_: str = "") -> Program:
    model = case.model(type_)
    options = CompileOptions(mode=ANY_SIZES)
    if not case.symbolic:
        sizes = {name: array.shape for name, array in case.inputs().items()}
        options = CompileOptions(input_dims=sizes)
    return compile(model, target, options, settings=settings)


class Reference:
    """The results of the CPU for the values of a case, in f32 where they are narrower."""

    def __init__(self, settings: Settings) -> None:
        self._settings = replace(settings, jobs=1)
        self._programs: dict[str, Program] = {}

    def __call__(self, case: Case) -> Arrays:
        type_ = "i8" if case.type == "i8" else "f32"
        # Weights are rounded to the type of the case.
        key = f"{case.form.family} {case.form.name} {case.type}"
        if key not in self._programs:
            self._programs = {key: _program(case, "cpu", self._settings, type_)}
        inputs = case.inputs()
        if type_ == "f32":
            narrow = {"float16", "bfloat16"}
            inputs = {
                n: a.astype(np.float32) if a.dtype.name in narrow else a for n, a in inputs.items()
            }
        return self._programs[key].run(inputs)


def difference(found: Arrays, wanted: Arrays, tolerance: float) -> str:
    """How results differ, in words; '' where they agree. NaN and infinity are results too."""
    for name, array in wanted.items():
        result = found[name]
        if result.shape != array.shape:
            return f"{name} is {list(result.shape)}, not {list(array.shape)}"
        a, b = result.astype(np.float64), array.astype(np.float64)
        if array.dtype.kind in "iu" and tolerance:
            share = float(np.mean(a != b)) if a.size else 0.0
            if share > 0.02:  # indices of what rounding makes equal
                return f"{name}: {share:.0%} of the integers differ"
            continue
        bound = tolerance * float(np.abs(b[np.isfinite(b)]).max(initial=0.0))
        both = (a == b) | (np.isnan(a) & np.isnan(b))
        apart = np.where(both, 0.0, np.abs(a - b))
        if not (apart <= bound).all():
            place = np.unravel_index(int(np.nanargmax(np.nan_to_num(apart, nan=np.inf))), a.shape)
            return (
                f"{name}{list(map(int, place))} is {a[place]:.6g}, not {b[place]:.6g}; "
                f"{int((~(apart <= bound)).sum())} of {a.size} differ by more than {bound:.2g}"
            )
    return ""


def _measure(program: Program, inputs: Arrays, outcome: Outcome) -> None:
    """Adds the time of the kernels, and the estimate, of a program on a GPU."""
    own = program.program(inputs) if isinstance(program, SizedProgram) else program
    if not isinstance(own, HipProgram):
        return
    steps = step_times(own, inputs, _TIMED_RUNS)
    outcome.milliseconds = sum(step.median for step in steps)
    outcome.estimate = sum(estimate(step, own.device.machine) for step in steps)
    outcome.kernels = sum(step.kernel >= 0 for step in steps)
    outcome.why = [why for why in own.reasons if why]


def estimate(step: StepTime, machine: Machine) -> float:
    """Milliseconds of a step by its bytes, its operations and its launches."""
    work = max(step.bytes / machine.bytes_per_second, step.flops / machine.flops_per_second)
    return 1e3 * (work * max(step.times, 1) + _LAUNCH * max(step.launches, 1))
