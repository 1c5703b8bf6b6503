"""The accuracy of a quantized model as a table, as JSON, and as an HTML page with a plot."""

from __future__ import annotations

import html
import math
import sys
from collections.abc import Iterator, Mapping
from typing import Any

from mgx_mlir.quantization.accuracy import Accuracy, Error, label
from mgx_mlir.quantization.rewrite import Choice
from mgx_mlir.quantization.search import Step
from mgx_mlir.text import name_text

_HEAD = ("precision", "SQNR, dB", "cosine", "largest error")
# The plot's size and margins in pixels, and the ratio in dB of its upper edge.
_WIDTH, _HEIGHT, _MARGIN, _MOST = 900, 260, 40, 80.0


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
    return _decibels(error.sqnr), f"{error.cosine:.6f}", f"{error.worst:.3g}"


def _decibels(ratio: float) -> str:
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


def page(title: str, accuracy: Accuracy, choices: list[Choice], steps: list[Step]) -> str:
    """The accuracy as one HTML file: a plot along the graph, the outputs, and each node."""
    return "\n".join(_page(title, accuracy, choices, steps)) + "\n"


def _page(
    title: str, accuracy: Accuracy, choices: list[Choice], steps: list[Step]
) -> Iterator[str]:
    precisions = {choice.node: choice.precision for choice in choices}
    shown = html.escape(name_text(title))
    yield '<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8">'
    yield f"<title>{shown}</title>"
    yield (
        "<style>body{font:14px sans-serif;margin:2em}td,th{padding:2px 12px;text-align:right}"
        "td:first-child,th:first-child{text-align:left}tr:nth-child(even){background:#f4f4f4}"
        "</style></head><body>"
    )
    yield f"<h1>{shown}</h1>"
    yield f"<p>Beside the f32 model, over {accuracy.samples} samples.</p>"
    yield "<h2>Ratio of signal to noise along the graph, dB</h2>"
    yield _plot(accuracy)
    if steps:
        yield "<h2>Mixed precision</h2><ol start='0'>"
        yield from (f"<li>{html.escape(step_text(step))}</li>" for step in steps)
        yield "</ol>"
    yield "<h2>Outputs</h2>"
    yield from _table(
        (
            name,
            "" if error.agreement is None else f"top-1 agreement {error.agreement:.2%}",
            *_figures(error),
        )
        for name, error in accuracy.outputs.items()
    )
    yield "<h2>Nodes</h2>"
    yield from _table(
        (label(row), precisions.get(row.node, ""), *_figures(row.error)) for row in accuracy.rows
    )
    yield "</body></html>"


def _table(rows: Iterator[tuple[str, ...]]) -> Iterator[str]:
    yield "<table><tr>" + "".join(f"<th>{word}</th>" for word in ("", *_HEAD)) + "</tr>"
    for row in rows:
        cells = "".join(f"<td>{html.escape(name_text(cell))}</td>" for cell in row)
        yield f"<tr>{cells}</tr>"
    yield "</table>"


def _plot(accuracy: Accuracy) -> str:
    """The ratio of each node as a point of an SVG; exact ones lie at the upper edge."""
    inner = _HEIGHT - 2 * _MARGIN
    step = (_WIDTH - 2 * _MARGIN) / max(1, len(accuracy.rows) - 1)
    parts = []
    for level in range(0, int(_MOST) + 1, 20):
        y = _HEIGHT - _MARGIN - inner * level / _MOST
        parts.append(
            f'<line x1="{_MARGIN}" x2="{_WIDTH - _MARGIN}" y1="{y:.1f}" y2="{y:.1f}" '
            f'stroke="#ddd"/><text x="{_MARGIN - 8}" y="{y + 4:.1f}" text-anchor="end" '
            f'font-size="11">{level}</text>'
        )
    points = []
    for number, row in enumerate(accuracy.rows):
        ratio = min(max(row.error.sqnr, 0.0), _MOST)
        x, y = _MARGIN + number * step, _HEIGHT - _MARGIN - inner * ratio / _MOST
        points.append(f"{x:.1f},{y:.1f}")
        text = html.escape(name_text(f"{label(row)}: {_decibels(row.error.sqnr)} dB"))
        parts.append(
            f'<circle cx="{x:.1f}" cy="{y:.1f}" r="3" fill="#06c"><title>{text}</title></circle>'
        )
    line = f'<polyline points="{" ".join(points)}" fill="none" stroke="#06c"/>'
    return f'<svg width="{_WIDTH}" height="{_HEIGHT}" role="img">{line}{"".join(parts)}</svg>'
