"""selftest: run every kernel family on a GPU beside the CPU, and time it beside the model.

Some 360 small models (products, convolutions, attention, rows, movement, windows, scatters, loops)
in f32, f16, bf16 and int8, with given and with symbolic sizes; copies, peer copies, streams, graphs
and a small network. A case that hangs or kills its process is an outcome like others. -o writes all
of it as JSON, to attach to an issue.

On an emulated GPU times are those of its model of the chip.
"""

from __future__ import annotations

import argparse
import json
import time
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from mgx_mlir.tools import options as shared
from mgx_mlir.tools.files import written
from mgx_mlir.tools.numbers import whole

if TYPE_CHECKING:
    from mgx_mlir.tools.selftest import Results


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("--target", default="gpu", metavar="T", help="gpu (default: the first), or a chip")
    add("--only", action="append", default=[], metavar="TEXT",
        help="cases whose name holds the text; repeatable")  # fmt: skip
    add("--list", action="store_true", help="print the names of the cases")
    add("--limit", type=whole(1), default=60, metavar="S", help="seconds for a case (default 60)")
    add("-o", "--output", type=written, metavar="FILE.json", help="write all outcomes")
    shared.add_json(parser)


def run(options: argparse.Namespace) -> int:
    from mgx_mlir.artifact.files import write_atomically
    from mgx_mlir.artifact.target import Target
    from mgx_mlir.errors import UsageError
    from mgx_mlir.tools.console import progress
    from mgx_mlir.tools.selftest import names, selftest

    if options.target != "gpu" and Target.get(options.target).kind == "cpu":
        raise UsageError(f"--target {options.target} is a CPU, which the cases are compared with")
    wanted = [n for n in names() if not options.only or any(text in n for text in options.only)]
    if not wanted:
        raise UsageError(f"no case's name holds '{options.only[-1]}'; --list prints them")
    if options.list:
        print("\n".join(wanted))
        return 0
    started = time.perf_counter()
    with progress("trying") as tick:
        results = selftest(options.target, wanted, options.limit, tick)
    record = _record(results, time.perf_counter() - started)
    text = json.dumps(record, indent=2)
    if options.output is not None:
        write_atomically(options.output, text.encode())
    print(text if options.json else _text(results, record))
    return 1 if results.failed else 0


def _record(results: Results, seconds: float) -> dict[str, Any]:
    from mgx_mlir.version import __version__

    return {
        "version": __version__,
        "target": results.target,
        "library": results.library,
        "device": results.device,
        "seconds": seconds,
        "counts": dict(results.counts),
        "rank_correlation": results.rank_correlation(),
        "worst": [{"case": o.case, "ratio": ratio} for ratio, o in results.worst()],
        "outcomes": [asdict(outcome) for outcome in results.outcomes],
    }


def _text(results: Results, record: dict[str, Any]) -> str:
    lines = []
    for outcome in results.failed:
        lines.append(f"{outcome.status.upper():<8} {outcome.case}")
        lines += [f"         {line}" for line in outcome.said.splitlines()[:4]]
    modelled = ", modelled" if results.library == "emulated" else ""
    correlation = record["rank_correlation"]
    if correlation is not None:
        lines.append(f"rank correlation of times{modelled} with estimates: {correlation:.2f}")
        lines.append("farthest above their estimates, of what is usual here:")
        lines += [
            f"{ratio:8.1f} x  {o.milliseconds:9.4f} ms  {o.case}" for ratio, o in results.worst()
        ]
    counts = ", ".join(f"{count} {name}" for name, count in sorted(results.counts.items()))
    product = results.device.get("product", "")
    lines.append(f"{results.target} ({product}, {results.library}): {counts}")
    return "\n".join(lines)
