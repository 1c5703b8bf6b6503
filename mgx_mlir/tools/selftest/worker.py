"""The process of a self-test that uses the device: it can hang or die, and another goes on.

    python -m mgx_mlir.tools.selftest.worker TARGET      names of cases in a JSON list on stdin

Before each case it prints its name, after it the outcome, each a JSON value on a line.
"""

from __future__ import annotations

import json
import sys
import time
from dataclasses import asdict, replace
from typing import Any

from mgx_mlir import emulator
from mgx_mlir.artifact.target import Target
from mgx_mlir.errors import MgxError
from mgx_mlir.runtime.hip.device import device, device_for
from mgx_mlir.runtime.hip.library import hip_python, library_kind
from mgx_mlir.settings import Settings
from mgx_mlir.tools.selftest.cases import cases
from mgx_mlir.tools.selftest.runtime_trials import CHECKS
from mgx_mlir.tools.selftest.trial import Outcome, Reference, status_of, tried

# Errors after which the device is of no use to the process.
_LOST = ("hipErrorIllegalAddress", "hipErrorLaunchFailure", "hipErrorLaunchTimeOut")


def names() -> list[str]:
    """All cases: those of the runtime, then the kernels'."""
    return [*(f"runtime: {name}" for name in CHECKS), *(case.name for case in cases())]


def work(target: str, wanted: list[str]) -> None:
    """Prints the device, and tries each case."""
    settings = replace(Settings.from_environment(), jobs=1)
    emulator.model_times()
    hip_python()
    target = device(0).chip if target == "gpu" else target
    own = device_for(Target.get(target))
    _say({"device": vars(own), "library": library_kind(), "target": target})
    known, reference = {case.name: case for case in cases()}, Reference(settings)
    for name in wanted:
        _say({"begins": name})
        if name in known:
            outcome = tried(known[name], target, settings, reference)
        else:
            outcome = _checked(name, target, settings)
        _say({"outcome": asdict(outcome)})
        if any(error in outcome.said for error in _LOST):
            return  # the next process goes on


def _checked(name: str, target: str, settings: Settings) -> Outcome:
    outcome, started = Outcome(name), time.perf_counter()
    try:
        outcome.said = CHECKS[name.removeprefix("runtime: ")](target, settings)
        outcome.status = "wrong" if outcome.said else "ok"
        if outcome.said.startswith("skipped"):
            outcome.status = "skipped"
    except MgxError as error:
        outcome.status, outcome.said = status_of(error), str(error)
    outcome.seconds = time.perf_counter() - started
    return outcome


def _say(value: dict[str, Any]) -> None:
    print(json.dumps(value), flush=True)


if __name__ == "__main__":
    try:
        work(sys.argv[1], json.load(sys.stdin))
    except MgxError as error:
        _say({"fault": str(error)})
