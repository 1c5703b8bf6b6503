"""The self-test of a GPU: every kernel family in each type beside the CPU, and the runtime.

The device is used by a process of its own. Where a case hangs or kills it, that is the case's
outcome, and another process goes on with the next one.
"""

from __future__ import annotations

import json
import queue
import statistics
import subprocess
import sys
import threading
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from mgx_mlir.errors import DeviceError
from mgx_mlir.tools.selftest.trial import Outcome
from mgx_mlir.tools.selftest.worker import names

# Cases whose times are shown as the farthest from the model.
_WORST = 10
# Seconds in which the process has found the device.
_STARTS_WITHIN = 120
_BAD = ("wrong", "error", "hang", "died")

Progress = Callable[[str, int, int], None]


@dataclass
class Results:
    """What a self-test found. `device` is HIP's record of the device."""

    target: str = ""
    library: str = ""
    device: dict[str, Any] = field(default_factory=dict)
    outcomes: list[Outcome] = field(default_factory=list)

    @property
    def failed(self) -> list[Outcome]:
        return [outcome for outcome in self.outcomes if outcome.status in _BAD]

    @property
    def counts(self) -> Counter[str]:
        return Counter(outcome.status for outcome in self.outcomes)

    def timed(self) -> list[Outcome]:
        return [o for o in self.outcomes if o.milliseconds > 0 and o.estimate > 0]

    def rank_correlation(self) -> float | None:
        """Spearman's, of the times with the estimates; None for too few."""
        timed = self.timed()
        if len(timed) < 3:
            return None
        found = [_ranks([o.milliseconds for o in timed]), _ranks([o.estimate for o in timed])]
        if any(len({*ranks}) == 1 for ranks in found):
            return None
        return statistics.correlation(*found)

    def worst(self) -> list[tuple[float, Outcome]]:
        """The cases whose time is most above the estimate, of what is usual here."""
        timed = self.timed()
        if not timed:
            return []
        usual = statistics.median(o.milliseconds / o.estimate for o in timed)
        ratios = [(o.milliseconds / o.estimate / usual, o) for o in timed]
        return sorted(ratios, key=lambda pair: -pair[0])[:_WORST]


def selftest(
    target: str,
    wanted: Sequence[str],
    limit: float,
    progress: Progress = lambda text, done, total: None,
) -> Results:
    """Tries the cases. `limit`: seconds for each, after which its process is ended.

    Raises DeviceError where no device answers.
    """
    results, left = Results(), list(wanted)
    while left:
        before = len(left)
        for outcome in _round(target, left, limit, results):
            results.outcomes.append(outcome)
            left.remove(outcome.case)
            progress(outcome.case, len(wanted) - len(left), len(wanted))
        if len(left) == before:
            raise DeviceError("the self-test's process ended before its first case; mgx doctor")
    return results


def command_of(target: str) -> list[str]:
    """The command of the process that uses the device."""
    return [sys.executable, "-m", "mgx_mlir.tools.selftest.worker", target]


def _round(target: str, left: list[str], limit: float, results: Results) -> Iterator[Outcome]:
    """The outcomes of one process: until all cases are through, or one takes it along."""
    pipes: dict[str, Any] = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    process = subprocess.Popen(command_of(target), stderr=subprocess.PIPE, **pipes)
    assert process.stdin is not None and process.stdout is not None
    process.stdin.write(json.dumps(left))
    process.stdin.close()
    lines: queue.Queue[str] = queue.Queue()
    errors: list[str] = []
    readers = [
        threading.Thread(target=_read, args=(process.stdout, lines.put), daemon=True),
        threading.Thread(target=_read, args=(process.stderr, errors.append), daemon=True),
    ]
    for reader in readers:
        reader.start()
    current = ""
    try:
        while True:
            try:
                line = lines.get(timeout=limit if current else max(limit, _STARTS_WITHIN))
            except queue.Empty:
                if not current:
                    raise DeviceError("no device answers; mgx doctor says more") from None
                yield Outcome(current, "hang", f"it did not end within {limit:g} s")
                return
            if not line:
                break
            said = _value(line)
            if "fault" in said:
                raise DeviceError(str(said["fault"]))
            if "device" in said:
                results.device, results.library = said["device"], said["library"]
                results.target = said["target"]
            current = said.get("begins", current)
            if "outcome" in said:
                current = ""
                yield Outcome(**said["outcome"])
        process.wait()
        if current:
            ended = f"signal {-process.returncode}" if process.returncode < 0 else "an error"
            last = "".join(errors).strip().splitlines()[-1:]
            yield Outcome(current, "died", ": ".join([f"its process ended by {ended}", *last]))
    finally:
        process.kill()
        process.wait()


def _value(line: str) -> dict[str, Any]:
    try:
        value = json.loads(line)
    except ValueError:  # what a library printed
        return {}
    return value if isinstance(value, dict) else {}


def _read(stream: Any, take: Callable[[str], object]) -> None:
    for line in stream:
        take(line)
    take("")


def _ranks(values: Sequence[float]) -> list[float]:
    """The place of each value among all; equal ones share the mean of theirs."""
    order = sorted(values)
    first = {value: order.index(value) for value in {*values}}
    count = Counter(values)
    return [first[value] + (count[value] - 1) / 2 for value in values]


__all__ = ["Outcome", "Results", "names", "selftest"]
