"""The details of a timed program, as JSON values: what reports, traces and comparisons are made of.

Steps are in the order of the plan; a step names the steps whose results it reads. The map of the
arena has the buffers with the first and the last step that uses each.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from mgx_mlir.artifact.plan import Plan, Row, Step
from mgx_mlir.errors import UsageError

# Bytes that are copied, and items of the loop, to measure rates.
_COPIED, _LOOPS = 64 << 20, 1 << 17

if TYPE_CHECKING:
    from mgx_mlir.artifact.target import Target
    from mgx_mlir.compiler import Report
    from mgx_mlir.runtime.hip.device import Device
    from mgx_mlir.runtime.step_time import Span, StepTime


def steps_record(plan: Plan, found: Sequence[StepTime]) -> list[dict[str, Any]]:
    """One entry a step: its kernel, nodes, time and work in one run, and the steps it reads."""
    return [
        {
            "kernel": spent.kernel,
            "node": spent.node,
            "ms": spent.median,
            "bytes": spent.bytes * spent.times,
            "flops": spent.flops * spent.times,
            "launches": spent.launches,
            "reads": reads,
        }
        for spent, reads in zip(found, reads_of(plan), strict=True)
    ]


def threads_record(spans: Sequence[Span], threads: int) -> list[dict[str, Any]]:
    """The steps that each thread of a run worked on, in milliseconds of the run."""
    rows: list[list[dict[str, Any]]] = [[] for _ in range(threads)]
    for span in spans:
        rows[span.thread].append(
            {"step": span.step, "start_ms": span.start, "ms": span.end - span.start}
        )
    return [{"name": f"thread {number}", "spans": row} for number, row in enumerate(rows)]


def reads_of(plan: Plan) -> list[list[int]]:
    """For each step of a plan, the numbers of the steps whose results it reads."""
    made: dict[int, int] = {}
    reads = []
    for number, step in enumerate(plan.work()):
        used = _used(step)
        reads.append(sorted({made[buffer] for buffer in used if buffer in made}))
        # A buffer of the program that no step before has made is a result of this one.
        for buffer in used:
            if plan.buffers[buffer].kind in ("arena", "output"):
                made.setdefault(buffer, number)
    return reads


def _used(step: Step | Row) -> tuple[int, ...]:
    """The buffers that a step reads or writes."""
    return (step.source, step.target) if isinstance(step, Row) else step.arguments


def _work(plan: Plan) -> list[Step | Row]:
    return list(plan.work())


def arena_record(plan: Plan) -> dict[str, Any]:
    """The map of the arena: bytes, offset, and the first and the last step of each buffer."""
    lives: dict[int, list[int]] = {}
    for number, step in enumerate(plan.work()):
        for buffer in _used(step):
            lives.setdefault(buffer, [number, number])[1] = number
    buffers = [
        {
            "offset": plan.buffers[n].offset,
            "bytes": plan.buffers[n].bytes,
            "first": first,
            "last": last,
        }
        for n, (first, last) in sorted(lives.items())
        if plan.buffers[n].kind == "arena" and plan.buffers[n].bytes
    ]
    return {"bytes": plan.arena_bytes, "buffers": buffers}


def machine_record(device: Device) -> dict[str, float]:
    """The rates of a device for a roofline: bytes a second, and operations a second by unit."""
    from mgx_mlir.artifact.target import Target
    from mgx_mlir.codegen.gpu.builders.units import units_of

    clocks = device.clock_khz * 1e3 * device.compute_units
    rates = {
        f"{unit.kind} {unit.element}": unit.flops * clocks
        for unit in units_of(Target.get(device.chip))
    }
    return {"memory bytes": device.machine.bytes_per_second, **rates}


def host_record(target: str | Target, threads: int) -> dict[str, float]:
    """The rates of the host's cores for a roofline, measured: bytes a second that one thread copies
    beyond the caches, and operations a second of `threads` loops of multiply-adds."""
    import ctypes

    from mgx_mlir.artifact.target import Target
    from mgx_mlir.codegen.cpu.peak import peak_loop
    from mgx_mlir.runtime.code_library import CodeLibrary

    source, copy = np.ones(_COPIED, np.uint8), np.empty(_COPIED, np.uint8)
    code, operations = peak_loop(target if isinstance(target, Target) else Target.get(target))
    library = CodeLibrary(code)
    loop = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64)(
        library.address(code.launches[0].function)
    )
    sums = np.zeros(1024, np.float32)
    pointers = (ctypes.c_void_p * 1)(sums.ctypes.data)

    def least(work: Callable[[], object]) -> float:
        times = []
        for _ in range(20):
            started = time.perf_counter()
            work()
            times.append(time.perf_counter() - started)
        return min(times)

    copied = 2 * _COPIED / least(lambda: np.copyto(copy, source))
    done = _LOOPS * operations / least(lambda: loop(pointers, 0, _LOOPS))
    return {"memory bytes": copied, "fma f32": done * threads}


def stages_record(report: Report) -> list[dict[str, Any]]:
    """The stages of the compilation, in order, in milliseconds."""
    return [{"stage": name, "ms": seconds * 1e3} for name, seconds in report.stages]


# Two runs of mgx perf -----------------------------------------------------------------------


def read_record(file: Path) -> dict[str, Any]:
    """The record that `mgx perf --json` printed. Raises UsageError for another file."""
    try:
        record = json.loads(file.read_text())
    except (OSError, ValueError, RecursionError) as error:
        raise UsageError(f"--compare {file} cannot be read: {error}") from error
    if not isinstance(record, dict) or not isinstance(record.get("run_ms"), dict):
        raise UsageError(f"--compare {file} is no record; mgx perf --json writes one")
    return record


def compared(before: Mapping[str, Any], now: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The times that both records have: name, milliseconds before and now, their ratio, and what
    changed.

    Runs are compared by their median, steps with equal nodes by the sum of their times; what
    changed is the schedule of their kernel, the bytes that they move, or that one record alone has
    the step.
    """
    rows = []
    runs, old_runs = _medians(now), _medians(before)
    for name in (n for n in runs if n in old_runs):
        rows.append(_row("run", name, old_runs[name], runs[name], ""))
    steps, old_steps = _by_node(now, "ms"), _by_node(before, "ms")
    moved, old_moved = _by_node(now, "bytes"), _by_node(before, "bytes")
    schedules, old_schedules = _schedules(now), _schedules(before)
    for name in {**steps, **old_steps} if steps and old_steps else ():
        if name not in old_steps:
            changed = "not in the other run"
        elif name not in steps:
            changed = "in the other run only"
        else:
            told = [
                _changed(old_schedules.get(name, ""), schedules.get(name, "")),
                _changed(*(f"{sums.get(name, 0) / 1e6:.3g} MB" for sums in (old_moved, moved))),
            ]
            changed = "; ".join(filter(None, told))
        rows.append(_row("step", name, old_steps.get(name, 0.0), steps.get(name, 0.0), changed))
    return rows


def _row(what: str, name: str, before: float, now: float, changed: str) -> dict[str, Any]:
    ratio = now / before if before and now else None
    return {"what": what, "name": name, "before": before, "now": now, "ratio": ratio,
            "changed": changed}  # fmt: skip


def _changed(before: str, now: str) -> str:
    return "" if before == now else f"{before or 'no schedule'} -> {now or 'no schedule'}"


def _schedules(record: Mapping[str, Any]) -> dict[str, str]:
    """The schedule of each step's kernel, by its nodes."""
    found: dict[str, str] = {}
    rows = record.get("kernels")
    for row in rows if isinstance(rows, list) else ():
        nodes = row.get("nodes") if isinstance(row, dict) else None
        for node in nodes if isinstance(nodes, list) else ():
            found[str(node)] = str(row.get("why") or "")
    return found


def _medians(record: Mapping[str, Any]) -> dict[str, float]:
    found = {k: _number(v.get("p50")) for k, v in record["run_ms"].items() if isinstance(v, dict)}
    return {str(kind): value for kind, value in found.items() if value is not None}


def _by_node(record: Mapping[str, Any], field: str) -> dict[str, float]:
    """The sums of a field of the steps, by their nodes."""
    sums: dict[str, float] = {}
    steps = record.get("steps")
    for step in steps if isinstance(steps, list) else ():
        spent = _number(step.get(field)) if isinstance(step, dict) else None
        if spent is not None:
            name = str(step.get("node") or "copy")
            sums[name] = sums.get(name, 0.0) + spent
    return sums


def _number(value: Any) -> float | None:
    return float(value) if isinstance(value, int | float) else None


# Traces -------------------------------------------------------------------------------------


def trace(record: Mapping[str, Any]) -> dict[str, Any]:
    """A trace for Perfetto (JSON of Chrome's trace events): host calls, kernels one by one, and the
    threads of a CPU.

    Kernels are laid one after another from the first launch; times are microseconds.
    """
    events: list[dict[str, Any]] = [
        _named(1, "host", record), _named(2, f"kernels, {record['times']}", record)
    ]  # fmt: skip
    start = 0.0
    for call in record.get("host_calls", ()):
        events.append(_event(1, call["name"], call["start_ms"], call["ms"], {}))
        if call["name"] == "launches":
            start = call["start_ms"]
    for step in record.get("steps", ()):
        facts = {key: step[key] for key in ("kernel", "bytes", "flops", "launches")}
        events.append(_event(2, step["node"] or "copy", start, step["ms"], facts))
        start += step["ms"]
    for number, thread in enumerate(record.get("threads", ()), 3):
        events.append(_named(number, thread["name"], record))
        for span in thread["spans"]:
            name = record["steps"][span["step"]]["node"] or "copy"
            events.append(_event(number, name, span["start_ms"], span["ms"], {}))
    return {"displayTimeUnit": "ns", "traceEvents": events}


def _named(thread: int, name: str, record: Mapping[str, Any]) -> dict[str, Any]:
    names = {"name": name, "device": record["device"]}
    return {"ph": "M", "name": "thread_name", "pid": 1, "tid": thread, "args": names}


def _event(
    thread: int, name: str, start: float, spent: float, facts: dict[str, Any]
) -> dict[str, Any]:
    return {"ph": "X", "name": name, "pid": 1, "tid": thread, "ts": start * 1e3,
            "dur": spent * 1e3, "args": facts}  # fmt: skip
