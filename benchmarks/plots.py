"""Draws the figures of `benchmarks.compile --json FILE` as two pictures in SVG.

    python -m benchmarks.plots FILE FOLDER

`compile.svg`: seconds to compile, beside IREE. `latency.svg`: latency on the CPU as a share of
onnxruntime's.
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


def compile_times(figures: Mapping[str, Mapping[str, Any]]) -> str:
    """Seconds to compile each model for a chip and for the CPU, ours beside IREE's."""
    groups: list[Group] = []
    for model, its in figures.items():
        for target in [name for name in its if f"iree {name}" in its]:
            pairs = {"mgx-mlir": its[target], "IREE": its[f"iree {target}"]}
            found = [(n, float(cost["seconds"])) for n, cost in pairs.items() if cost]
            groups.append((f"{model}, {target}", found))
    return bars("Time to compile", " s", groups)


def latencies(figures: Mapping[str, Mapping[str, Any]]) -> str:
    """The latency of each model on the CPU over onnxruntime's, by the number of threads."""
    groups: list[Group] = []
    for model, its in figures.items():
        counts = [name.removeprefix("latency ") for name in its if name.startswith("latency ")]
        ratios = [
            (f"{n} thread{'s' * (n != '1')}", its[f"latency {n}"] / its[f"onnxruntime {n}"])
            for n in counts
            if its[f"latency {n}"] and its[f"onnxruntime {n}"]
        ]
        groups.append((model, ratios))
    return bars("CPU latency / onnxruntime's", "", groups)


def main() -> int:
    figures, folder = json.loads(Path(sys.argv[1]).read_text()), Path(sys.argv[2])
    folder.mkdir(parents=True, exist_ok=True)
    write_atomically(folder / "compile.svg", compile_times(figures).encode())
    write_atomically(folder / "latency.svg", latencies(figures).encode())
    return 0


if __name__ == "__main__":
    sys.exit(main())
