"""perf: time a model: whole runs, and each kernel of a compiled program.

A model that runs in parts (`mgx check` says so) has times of whole runs only.

On an emulated GPU the kernels' times come from the emulator's model of the chip, and are
marked so; what a run takes there is the emulator's own time.

--report writes one page with a verdict, the graph, a timeline, a roofline, the arena and, of each
kernel, its ONNX nodes, schedule, registers, portable IR and instructions; --trace a trace for
Perfetto. Where roctx's library is there, each step is a range.

On the CPU, `peak` is the share of the machine's rate of multiply-adds of f32, which is measured.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from mgx_mlir.text import name_text
from mgx_mlir.tools import options as shared
from mgx_mlir.tools import quantizing, saving
from mgx_mlir.tools.files import written
from mgx_mlir.tools.numbers import whole
from mgx_mlir.tools.tuning_options import add_tuning_options

if TYPE_CHECKING:
    from mgx_mlir.compiler import Report
    from mgx_mlir.models.staged import Model
    from mgx_mlir.runtime.hip.program import HipProgram
    from mgx_mlir.runtime.program import Program
    from mgx_mlir.runtime.step_time import StepTime
    from mgx_mlir.tools.console import Tick

PERCENTILES = (50, 90, 99)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    shared.add_model(parser, "an .onnx model, or a .mgx artifact")
    shared.add_shape_options(parser)
    shared.add_target_options(parser, "what to time")
    shared.add_trust_option(parser)
    add = parser.add_argument
    add(
        "--runs",
        type=whole(1),
        default=20,
        metavar="N",
        help="timed runs of each kind (default 20)",
    )
    add("--only-runs", action="store_true", help="time whole runs, and no single kernels")
    add(
        "--totals",
        action="store_true",
        help="end with the lines 'Rate:' and 'Total time:', as MIGraphX's perf does; a run has the "
        "samples of --batch",
    )
    shared.add_input_options(parser)
    add("--report", type=written, metavar="FILE.html", help="write a page about the run")
    add("--trace", type=written, metavar="FILE.json", help="write a trace for Perfetto")
    add(
        "--compare",
        type=Path,
        metavar="OLD.json",
        help="show the times beside those of an older run, as perf --json printed them",
    )
    shared.add_json(parser)
    add_tuning_options(parser)
    saving.add_save(parser, "the compiled program")
    shared.add_change_options(parser)
    shared.add_compile_options(parser)
    quantizing.add_options(parser)


def run(options: argparse.Namespace) -> int:
    from mgx_mlir import emulator
    from mgx_mlir.compiler import Report
    from mgx_mlir.models.staged import Model
    from mgx_mlir.runtime.sized import SizedProgram
    from mgx_mlir.tools.console import progress
    from mgx_mlir.tools.profile_record import compared, read_record, stages_record
    from mgx_mlir.tools.programs import inputs_of, note_host_nodes, runnable_of

    before = read_record(options.compare) if options.compare else None
    emulator.model_times()
    report = Report()
    with progress("measuring") as tick:
        runnable = runnable_of(options, tick, report)
        inputs = inputs_of(runnable, options)
        program = runnable
        if isinstance(runnable, SizedProgram):
            program = runnable.program(inputs)
        elif isinstance(runnable, Model):
            program = runnable.program(inputs) or runnable
        record = _measure(program, inputs, options, tick)
    note_host_nodes(program)
    record |= {"stages": stages_record(report)} if report.stages else {}
    if before is not None:
        record["compared"] = compared(before, record)
    _write(record, options, report)
    print(json.dumps(record, indent=2) if options.json else _text(record))
    if options.totals and not options.json:
        print("\n".join(_totals(record, options.batch or 1)))
    return 0


def _write(record: Mapping[str, Any], options: argparse.Namespace, report: Report) -> None:
    """Writes the page and the trace that are asked for."""
    from mgx_mlir.artifact.files import write_atomically
    from mgx_mlir.tools.profile_record import trace
    from mgx_mlir.tools.report.profile import page

    if options.report is not None:
        facts = _facts(record, options, report)
        text = page(record, record.get("compared", ()), facts)
        write_atomically(options.report, text.encode())
    if options.trace is not None:
        write_atomically(options.trace, json.dumps(trace(record)).encode())


def _facts(
    record: Mapping[str, Any], options: argparse.Namespace, report: Report
) -> dict[int, dict[str, Any]]:
    """Facts about the timed kernels; none of a model that is compiled for each new size."""
    from mgx_mlir.loader import ready
    from mgx_mlir.tools.console import progress
    from mgx_mlir.tools.report.facts import costliest, kernel_facts

    kernels = costliest(record.get("kernels", ()))
    if report.artifact is None or report.artifact.parts is not None or not kernels:
        return {}
    settings = shared.settings_of(options)
    named = shared.target_of(options)
    target, artifact = ready(report.artifact, named, settings=settings, device=options.device)
    with progress("reading kernels") as tick:
        return kernel_facts(
            artifact, target, kernels, lambda done, total: tick("kernels", done, total)
        )


def _kind_of_times() -> str:
    """Whose times a device's are: 'measured', 'modelled' by the emulated one, or 'emulated': its
    own, where it was opened before it was asked to model them."""
    from mgx_mlir import emulator
    from mgx_mlir.runtime.hip.library import library_kind

    if library_kind() != "emulated":
        return "measured"
    return "modelled" if emulator.models_times() else "emulated"


def _measure(
    program: Program | Model,
    inputs: Mapping[str, np.ndarray],
    options: argparse.Namespace,
    tick: Tick,
) -> dict[str, Any]:
    from mgx_mlir.artifact.target import kind_of
    from mgx_mlir.models.staged import Model
    from mgx_mlir.runtime.sized import SizedProgram

    if isinstance(program, SizedProgram):
        program = program.program(inputs)
    device = getattr(program, "device", None)
    record: dict[str, Any] = {"model": str(options.model), "runs": options.runs}
    if device is None:
        kind = "in parts" if isinstance(program, Model) else "cpu"
        run_ms = {kind: _runs(program, inputs, options.runs, tick, "runs")}
        record |= {"device": shared.target_of(options), "run_ms": run_ms}
        if isinstance(program, Model):
            on_host = kind_of(shared.target_of(options)) == "cpu"
            return record | {"times": "measured" if on_host else _kind_of_times()}
        record |= {"times": "measured"}
        return record if options.only_runs else record | _on_host(program, inputs, options, tick)
    from mgx_mlir.runtime.hip.profile import host_overhead, step_times
    from mgx_mlir.runtime.hip.program import HipProgram

    assert isinstance(program, HipProgram)
    kinds = {"graph": program, "plain": program.without_graph()}
    if options.no_graph:
        del kinds["graph"]
    record |= {
        "device": str(device),
        "times": _kind_of_times(),
        "memory_bytes": program.memory_bytes,
        "run_ms": {
            name: _runs(each, inputs, options.runs, tick, f"runs, {name}")
            for name, each in kinds.items()
        },
    }
    if options.only_runs:
        return record
    record["host_ms"] = {}
    for place, (name, each) in enumerate(kinds.items()):
        tick("the host's part", place + 1, len(kinds))
        record["host_ms"][name] = host_overhead(each, inputs, options.runs)
    found = step_times(
        program, inputs, options.runs, lambda done, total: tick("kernels", done, total)
    )
    record |= {
        "kernels": _by_kernel(found, program.reasons),
        "kernels_ms": _percentiles(_sums(found)),
    }
    return record | _details(program, inputs, found)


def _on_host(
    program: Program, inputs: Mapping[str, np.ndarray], options: argparse.Namespace, tick: Tick
) -> dict[str, Any]:
    """The kernels of a program of the CPU, and the parts of a report beside them."""
    from mgx_mlir.tools.profile_record import (
        arena_record,
        host_record,
        steps_record,
        threads_record,
    )

    found = program.profile(inputs, options.runs, lambda done, total: tick("kernels", done, total))
    # The shortest of the runs: the least disturbed.
    spans = min(
        (program.spans(inputs) for _ in range(options.runs)),
        key=lambda run: max((span.end for span in run), default=0.0),
    )
    machine = host_record(shared.target_of(options), program.threads)
    kernels = _by_kernel(found, program.reasons)
    for row in kernels:
        row["peak"] = row["gflop_per_s"] * 1e9 / machine["fma f32"]
    return {
        "kernels": kernels,
        "kernels_ms": _percentiles(_sums(found)),
        "steps": steps_record(program.plan, found),
        "threads": threads_record(spans, program.threads),
        "arena": arena_record(program.plan),
        "machine": machine,
    }


def _sums(found: list[StepTime]) -> list[float]:
    """The milliseconds of all steps of each run."""
    return [sum(ms) for ms in zip(*(step.milliseconds for step in found), strict=True)]


def _details(
    program: HipProgram, inputs: Mapping[str, np.ndarray], found: list[StepTime]
) -> dict[str, Any]:
    """The parts of a report beside the kernels."""
    from mgx_mlir.runtime.hip.profile import host_calls
    from mgx_mlir.tools.profile_record import arena_record, machine_record, steps_record

    return {
        "steps": steps_record(program.plan, found),
        "arena": arena_record(program.plan),
        "machine": machine_record(program.device),
        "host_calls": host_calls(program.without_graph(), inputs),
    }


def _runs(
    program: Program | Model, inputs: Mapping[str, np.ndarray], runs: int, tick: Tick, what: str
) -> dict[str, float]:
    """Milliseconds of a run from inputs to outputs on the host, after a first one."""
    program.run(inputs)
    times = []
    for number in range(runs):
        started = time.perf_counter()
        program.run(inputs)
        times.append((time.perf_counter() - started) * 1e3)
        tick(what, number + 1, runs)
    return _percentiles(times)


def _percentiles(times: Sequence[float]) -> dict[str, float]:
    if not times:
        return {}
    found = {f"p{p}": float(np.percentile(times, p)) for p in PERCENTILES}
    return {"min": min(times), **found}


def _by_kernel(found: list[StepTime], why: Sequence[str] = ()) -> list[dict[str, Any]]:
    """The time of each kernel in one run, all its steps together; the longest first."""
    total = sum(step.median for step in found) or 1.0
    rows: dict[int, dict[str, Any]] = {}
    for step in found:
        row = rows.setdefault(
            step.kernel,
            {"kernel": step.kernel, "launches": 0, "ms": 0.0, "bytes": 0, "flops": 0, "nodes": []},
        )
        row["launches"] += step.launches
        row["ms"] += step.median
        row["bytes"] += step.bytes * step.times
        row["flops"] += step.flops * step.times
        row["nodes"].append(step.node or "copy")
    for row in rows.values():
        row["share"] = row["ms"] / total
        row["gb_per_s"] = row["bytes"] / row["ms"] / 1e6 if row["ms"] else 0.0
        row["gflop_per_s"] = row["flops"] / row["ms"] / 1e6 if row["ms"] else 0.0
    for row in rows.values():
        row["why"] = why[row["kernel"]] if why and row["kernel"] >= 0 else ""
    return sorted(rows.values(), key=lambda row: -row["ms"])


def _text(record: Mapping[str, Any]) -> str:
    lines = [f"{record['model']} on {record['device']}, {record['runs']} runs of each kind"]
    times = record["times"]
    if "kernels" in record:
        lines += ["", *_table(record["kernels"], times), ""]
        of = "of the kernels" if times == "measured" else f"of the kernels, {times}"
        lines.append(f"{of}: {_figures(record['kernels_ms'])} ms")
    note = "" if times == "measured" else "  (the emulator's own time, not the chip's)"
    for kind, spent in record["run_ms"].items():
        lines.append(f"a run, {kind}: {_figures(spent)} ms{note}")
    runs = record["run_ms"]
    if "graph" in runs and "plain" in runs:
        ratio = runs["graph"]["p50"] / runs["plain"]["p50"]
        lines.append(f"a run replayed as a graph takes {ratio:.2f} of the time without{note}")
    for kind, spent in record.get("host_ms", {}).items():
        lines.append(f"the host beside its HIP calls, {kind}: {spent * 1e3:.1f} us a run")
    for row in record.get("compared", ()):
        ratio = "" if row["ratio"] is None else f", {row['ratio']:.2f} of it"
        name = f"{row['what']} {name_text(row['name'])}"
        lines.append(f"{name}: before {row['before']:.4f} ms, now {row['now']:.4f} ms{ratio}")
    return "\n".join(lines)


def _totals(record: Mapping[str, Any], batch: int) -> list[str]:
    """The lines that scripts for MIGraphX's perf look for; times of kernels where modelled."""
    times = next(iter(record["run_ms"].values()))
    if record["times"] == "modelled":
        times = record.get("kernels_ms") or times
    spent = times["p50"]
    least, median, most = (f"{times[name]:.6f}ms" for name in ("min", "p50", "p99"))
    return [
        f"Batch size: {batch}",
        f"Rate: {batch * 1e3 / spent if spent else 0:.2f} inferences/sec",
        f"Total time: {spent:.6f}ms (Min: {least}, Median: {median}, 99%: {most})",
    ]


def _figures(times: Mapping[str, float]) -> str:
    return ", ".join(f"{name} {value:.3f}" for name, value in times.items())


def _table(kernels: list[dict[str, Any]], times: str) -> list[str]:
    unit = "ms" if times == "measured" else f"ms ({times})"
    peak = "peak" if kernels and "peak" in kernels[0] else ""
    lines = [
        f"{'kernel':>6} {'launches':>8} {unit:>13} {'share':>6} {'MB':>9} {'GB/s':>8} "
        f"{'MFLOP':>9} {'GFLOP/s':>9} {peak:>5}  nodes"
    ]
    for row in kernels:
        name = "copy" if row["kernel"] < 0 else str(row["kernel"])
        nodes = row["nodes"][0] + (f" and {len(row['nodes']) - 1} more" if row["nodes"][1:] else "")
        lines.append(f"{name:>6} {_cells(row)} {name_text(nodes)}")
    total: dict[str, Any] = {
        key: sum(row[key] for row in kernels) for key in ("launches", "ms", "bytes", "flops")
    }
    spent = total["ms"] or 1.0
    total |= {"share": 1.0, "gb_per_s": total["bytes"] / spent / 1e6}
    total |= {"gflop_per_s": total["flops"] / spent / 1e6}
    marked = {
        "measured": "kernels alone",
        "modelled": "modelled from the chip's facts, not measured",
        "emulated": "the emulator's own time, not the chip's",
    }[times]
    return [*lines, f"{'all':>6} {_cells(total)} {marked}"]


def _cells(row: Mapping[str, Any]) -> str:
    peak = f"{row['peak']:.0%}" if "peak" in row else ""
    return (
        f"{row['launches']:8d} {row['ms']:13.4f} {row['share']:6.1%} "
        f"{row['bytes'] / 1e6:9.3f} {row['gb_per_s']:8.1f} "
        f"{row['flops'] / 1e6:9.3f} {row['gflop_per_s']:9.1f} {peak:>5} "
    )
