"""Draws what benchmarks measured, and writes it into the documents.

    python -m benchmarks.plots [DOCS]

DOCS/measured.json, of `benchmarks.compile --json`, becomes two pictures in DOCS/pictures, and a
table of DOCS/measured.md. `compile.svg`: seconds to compile, beside IREE. `latency.svg`: latency on
the CPU as a share of onnxruntime's. DOCS/portable.json, of `benchmarks.portable --json`, becomes
another table there, where it exists.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping, Sequence
from html import escape
from pathlib import Path
from typing import Any

from mgx_mlir.artifact.files import write_atomically

_WIDTH, _BAR, _LEFT = 640, 16, 170
_COLOURS = ("#2a7ab0", "#c0803a", "#7a7a7a")

# (a label, its bars: a legend and a value each)
Group = tuple[str, Sequence[tuple[str, float]]]
Figures = Mapping[str, Mapping[str, Any]]
LABELS = {"bert": "BERT, 6 layers", "resnet50": "ResNet-50"}


def bars(title: str, unit: str, groups: Sequence[Group]) -> str:
    """Horizontal bars in groups, each with its value at its end."""
    longest = max((value for _, bars in groups for _, value in bars), default=0.0) or 1.0
    scale = (_WIDTH - _LEFT - 70) / longest
    legends = list(dict.fromkeys(legend for _, bars in groups for legend, _ in bars))
    parts = [f'<text x="4" y="16" font-weight="bold">{escape(title)}</text>']
    for number, legend in enumerate(legends):
        x = _LEFT + number * 150
        fill = _COLOURS[number % len(_COLOURS)]
        parts.append(f'<rect x="{x}" y="26" width="10" height="10" fill="{fill}"/>')
        parts.append(f'<text x="{x + 14}" y="35">{escape(legend)}</text>')
    y = 46
    for label, its in groups:
        parts.append(f'<text x="4" y="{y + 12}">{escape(label)}</text>')
        for legend, value in its:
            fill = _COLOURS[legends.index(legend) % len(_COLOURS)]
            wide = value * scale
            parts.append(
                f'<rect x="{_LEFT}" y="{y}" width="{wide:.1f}" height="{_BAR - 3}" fill="{fill}"/>'
                f'<text x="{_LEFT + wide + 4:.1f}" y="{y + 11}">{value:.2f}{unit}</text>'
            )
            y += _BAR
        y += 8
    body = "".join(parts)
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {y}" '
        f'font-family="sans-serif" font-size="12" fill="#444">{body}</svg>\n'
    )


def compile_times(figures: Figures) -> str:
    """Seconds to compile each model for a chip and for the CPU, ours beside IREE's."""
    groups: list[Group] = []
    for model, its in figures.items():
        for target in [name for name in its if f"iree {name}" in its]:
            pairs = {"mgx-mlir": its[target], "IREE": its[f"iree {target}"]}
            found = [(n, float(cost["seconds"])) for n, cost in pairs.items() if cost]
            groups.append((f"{model}, {target}", found))
    return bars("Time to compile", " s", groups)


def latencies(figures: Figures) -> str:
    """The latency of each model on the CPU over onnxruntime's, by the number of threads."""
    groups = [(model, _ratios(its)) for model, its in figures.items()]
    return bars("CPU latency / onnxruntime's", "", groups)


def _ratios(its: Mapping[str, Any]) -> list[tuple[str, float]]:
    """The latency over onnxruntime's for each number of threads that both were measured with."""
    counts = [name.removeprefix("latency ") for name in its if name.startswith("latency ")]
    return [
        (f"{n} thread{'s' * (n != '1')}", its[f"latency {n}"] / its[f"onnxruntime {n}"])
        for n in counts
        if its[f"latency {n}"] and its[f"onnxruntime {n}"]
    ]


def compile_table(figures: Figures) -> str:
    """Seconds and memory of each model, beside IREE's seconds; latency over onnxruntime's."""
    rows = []
    for model, its in figures.items():
        seconds = [_seconds(its.get(n)) for n in ("gfx942", "iree gfx942", "cpu", "iree cpu")]
        ratios = [f"{value:.2f}" for _, value in _ratios(its)]
        rows.append([LABELS.get(model, model), _cost(its["portable"]), *seconds, ", ".join(ratios)])
    title = "CPU latency / onnxruntime's, 1 and 2 threads"
    return _table(
        ["model", "portable", "for gfx942", "IREE, gfx942", "for the CPU", "IREE, CPU", title], rows
    )


def portable_table(figures: Figures) -> str:
    """The steps of compiling once and shipping, beside IREE."""
    rows = []
    for model, its in figures.items():
        costs = [_cost(its.get(name)) for name in ("portable", "finalize", "iree")]
        sizes = [n and f"{n / 1e3:.0f} kB" for n in (its["artifact bytes"], its["vmfb bytes"])]
        load = f"{its['warm load']:.2f} s"
        rows.append([LABELS.get(model, model), *costs, load, sizes[0], sizes[1] or ""])
    return _table(
        ["model", "portable compile", "cold finalize", "IREE, import and compile", "warm load",
         "artifact without weights", "IREE's vmfb"],
        rows,
    )  # fmt: skip


def _seconds(cost: Any) -> str:
    return f"{cost['seconds']:.1f} s" if cost else ""


def _cost(cost: Any) -> str:
    return f"{_seconds(cost)}, {cost['megabytes']:.0f} MB" if cost else ""


def _table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = [head, ["---", *["---:"] * (len(head) - 1)]]
    return "\n".join(f"| {' | '.join(row)} |" for row in [*lines, *rows])


def with_table(text: str, name: str, table: str) -> str:
    """A document whose part between the comments NAME and 'end of NAME' is the table."""
    first, last = f"<!-- {name} -->", f"<!-- end of {name} -->"
    before, _, rest = text.partition(first)
    _, found, after = rest.partition(last)
    if not found:
        raise ValueError(f"the document has no part from {first} to {last}")
    return f"{before}{first}\n\n{table}\n\n{last}{after}"


def written(docs: Path) -> dict[Path, str]:
    """The files that follow from the figures, by name."""
    figures = json.loads((docs / "measured.json").read_text())
    text = (docs / "measured.md").read_text()
    text = with_table(text, "measured.json", compile_table(figures))
    if (docs / "portable.json").exists():
        portable = json.loads((docs / "portable.json").read_text())
        text = with_table(text, "portable.json", portable_table(portable))
    return {
        docs / "pictures" / "compile.svg": compile_times(figures),
        docs / "pictures" / "latency.svg": latencies(figures),
        docs / "measured.md": text,
    }


def main() -> int:
    docs = Path(sys.argv[1] if len(sys.argv) > 1 else "docs")
    for file, text in written(docs).items():
        write_atomically(file, text.encode())
    return 0


if __name__ == "__main__":
    sys.exit(main())
