"""The accuracy of a quantized model as a table and as JSON."""

from __future__ import annotations

import math
import sys
from collections.abc import Mapping
from typing import Any

from mgx_mlir.quantization.accuracy import Accuracy, Error, label
from mgx_mlir.quantization.search import Step
from mgx_mlir.text import name_text

_HEAD = ("precision", "SQNR, dB", "cosine", "largest error")


def print_accuracy(accuracy: Accuracy, precisions: Mapping[str, str]) -> None:
    """A line for each product of `precisions` (by node), and for each output."""
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table("node", *_HEAD, box=None, pad_edge=False)
    for column in table.columns[2:]:
        column.justify = "right"
    for row in accuracy.rows:
        if row.node in precisions:
            text = Text(name_text(label(row)), overflow="fold")
            table.add_row(text, precisions[row.node], *_figures(row.error))
    for name, error in accuracy.outputs.items():
        table.add_row(Text(f"output {name_text(name)}"), "", *_figures(error))
    Console(file=sys.stdout, highlight=False, color_system=None).print(table)
    for name, error in accuracy.outputs.items():
        if error.agreement is not None:
            print(
                f"{name_text(name)}: the same top-1 class for {error.agreeing} of {error.rows} "
                f"({error.agreement:.2%})"
            )


def _figures(error: Error) -> tuple[str, str, str]:
    return decibels(error.sqnr), f"{error.cosine:.6f}", f"{error.worst:.3g}"


def decibels(ratio: float) -> str:
    """A ratio of signal to noise in words."""
    return "exact" if ratio == math.inf else f"{ratio:.1f}"


def step_text(step: Step) -> str:
    """A line about a step of the search for mixed precision."""
    what = f"'{name_text(step.node)}' in f32" if step.node else "all products quantized"
    return f"{what}: loss {step.loss:.4g}"


def record_of(accuracy: Accuracy) -> dict[str, Any]:
    """The accuracy as JSON values; an infinite ratio is null."""

    def values(error: Error) -> dict[str, Any]:
        ratio = error.sqnr if math.isfinite(error.sqnr) else None
        found = {"sqnr": ratio, "cosine": error.cosine, "max_error": error.worst}
        return found if error.agreement is None else found | {"top1_agreement": error.agreement}

    rows = [{"node": r.node, "operator": r.operator, **values(r.error)} for r in accuracy.rows]
    outputs = {name: values(error) for name, error in accuracy.outputs.items()}
    return {
        "samples": accuracy.samples,
        "loss": accuracy.loss,
        "nodes": rows,
        "outputs": outputs,
    }
