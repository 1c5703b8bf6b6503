"""The output of the tools: progress, sizes, tables."""

from __future__ import annotations

import argparse
import contextlib
import logging
import sys
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import numpy as np

from mgx_mlir.artifact.plan import Step
from mgx_mlir.errors import UsageError
from mgx_mlir.text import name_text

if TYPE_CHECKING:
    from mgx_mlir.artifact.record import Artifact
    from mgx_mlir.compiler import Report

Tick = Callable[[str, int, int], None]


@contextlib.contextmanager
def progress(what: str) -> Iterator[Tick]:
    """Shows progress, on a terminal only; the block calls the value that it is given.

    The line goes to standard error and disappears at the end, so that results stay clean. Nothing
    is shown where the log is of errors alone.
    """
    if is_quiet() or not sys.stderr.isatty():
        yield lambda text, done, total: None
        return
    from rich.console import Console

    # The line is made of control characters, which the tools' streams would escape.
    console = Console(file=sys.__stderr__)
    if not console.is_terminal:
        yield lambda text, done, total: None
        return
    with console.status(f"{what} ...") as status:

        def tick(text: str, done: int, total: int) -> None:
            count = f" {done}/{total}" if total > 1 else ""
            status.update(f"{what}: {text}{count}")

        yield tick


def is_quiet() -> bool:
    """Whether the log is of errors alone."""
    return not logging.getLogger("mgx_mlir").isEnabledFor(logging.WARNING)


def note(text: str) -> None:
    """Prints what a verb did that writes files; nothing where the log is of errors alone."""
    if not is_quiet():
        print(text)


def write_bytes(data: bytes) -> None:
    """Writes to standard output. Raises UsageError where that is a terminal."""
    if sys.stdout.isatty():
        raise UsageError("the form is bytes, and the output a terminal; name a file")
    sys.stdout.flush()
    sys.stdout.buffer.write(data)
    sys.stdout.buffer.flush()


def array_record(array: np.ndarray) -> dict[str, Any]:
    """A tensor as JSON values: type, shape, range and the first elements."""
    flat = array.reshape(-1)
    record: dict[str, Any] = {"dtype": str(array.dtype), "shape": list(array.shape)}
    if array.dtype.kind == "U":
        return {**record, "dtype": "string", "first": [str(text) for text in flat[:5]]}
    wide = flat.astype(np.float64)
    if wide.size:
        record |= {"min": wide.min(), "max": wide.max(), "mean": wide.mean()}
    record = {key: _finite(value) for key, value in record.items()}
    return {**record, "first": [_finite(value) for value in wide[:5]]}


def _finite(value: Any) -> Any:
    """A number as JSON has it: an infinity, or none, as text."""
    if isinstance(value, np.floating):
        return float(value) if np.isfinite(value) else str(value)
    return value


def describe_array(name: str, array: np.ndarray) -> str:
    """One line about a tensor: type, shape, range and the first elements."""
    name = name_text(name)
    dims = "x".join(map(str, array.shape)) or "scalar"
    flat = array.reshape(-1)
    if array.dtype.kind == "U":
        shown = ", ".join(repr(str(text)) for text in flat[:5])
        return f"{name}: string {dims}: {shown}" + (", ..." if flat.size > 5 else "")
    first = ", ".join(f"{float(v):.6g}" for v in flat[:5]) + (", ..." if flat.size > 5 else "")
    if not flat.size:
        return f"{name}: {array.dtype} {dims}"
    wide = flat.astype(np.float64)
    return (
        f"{name}: {array.dtype} {dims}, min {wide.min():.6g}, max {wide.max():.6g}, "
        f"mean {wide.mean():.6g}: {first}"
    )


def print_report(report: Report, options: argparse.Namespace) -> None:
    """The times (`--timing`) and the rewrites that fired (`--explain`), where asked for."""
    if options.timing:
        _print_times("stage", report.stages)
        slowest = sorted(report.passes.entries, key=lambda entry: -entry[1])
        _print_times("pass (slowest first)", slowest[:20])
        kernels = sorted(report.kernels.items(), key=lambda entry: -entry[1])
        if kernels:
            _print_times("kernel, all its chips (slowest first)", kernels[:20])
    if options.explain:
        for name, rewrite, node in report.fired:
            print(f"{name}: {rewrite} at {name_text(node) or '(no node)'}")


def _print_times(title: str, entries: list[tuple[str, float]]) -> None:
    from rich.console import Console
    from rich.table import Table

    table = Table(title, "ms", box=None, pad_edge=False)
    table.columns[1].justify = "right"
    for name, seconds in entries:
        table.add_row(name_text(name), f"{seconds * 1e3:.1f}")
    Console(file=sys.stdout, highlight=False, color_system=None).print(table)


def _how(artifact: Artifact) -> str:
    """The options that a program was compiled with, and its pipelines, in order."""
    given = artifact.options
    parts = [f"mode {given.get('mode', '?')}"]
    parts += [f"without {name}" for name in given.get("disable", ())]
    parts += ["exact"] if given.get("exact") else []
    pipelines = ", ".join(name for name, _ in artifact.pipelines)
    return f"{', '.join(parts)}: {pipelines} (--json has the passes)"


def print_artifact(artifact: Artifact) -> None:
    """The output of `mgx inspect`."""
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    console = Console(file=sys.stdout, highlight=False, color_system=None)
    console.print(artifact.summary(), markup=False)
    console.print(f"compiled      {_how(artifact)}", markup=False, soft_wrap=True)
    table = Table("kernel", "steps", "bytes", "nodes", box=None, pad_edge=False)
    steps = [s for plan in artifact.plans for s in plan.work() if isinstance(s, Step)]
    launched = [step.kernel for step in steps]
    for number, kernel in enumerate(artifact.kernels):
        nodes = [name_text(step.node) for step in steps if step.kernel == number]
        table.add_row(
            name_text(kernel.name),
            str(launched.count(number)),
            str(len(kernel.bytecode)),
            Text((nodes or [""])[0] + (f" and {len(nodes) - 1} more" if len(nodes) > 1 else "")),
        )
    console.print(table)
