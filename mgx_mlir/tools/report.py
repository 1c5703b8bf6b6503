"""The report of a timed program: one page of HTML and SVG, without scripts or anything outside.

Every text of the model is escaped, and the page's own policy lets no script run.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from html import escape
from typing import Any

from mgx_mlir.artifact.contents import size_text

_STYLE = """
body{font:14px/1.45 system-ui,sans-serif;margin:2em auto;max-width:1100px;padding:0 1em;color:#222}
h1{font-size:1.4em}h2{font-size:1.1em;margin-top:2em;border-bottom:1px solid #ccc}
table{border-collapse:collapse;width:100%}
td,th{padding:2px 8px;text-align:right;border-bottom:1px solid #eee;vertical-align:top}
td.t,th.t{text-align:left;overflow-wrap:anywhere}svg{width:100%;height:auto;background:#fafafa}
svg text{font:11px system-ui,sans-serif}.note{color:#666}nav a{margin-right:1em}
@media(prefers-color-scheme:dark){body{background:#181818;color:#ddd}svg{background:#222}
svg text{fill:#ddd}td,th{border-color:#333}a{color:#8bf}}
"""
_POLICY = "default-src 'none'; style-src 'unsafe-inline'"
_WIDTH = 1060
_ROW = 18
# Characters of a name in a picture; tables have it whole.
_SHORT = 60


def page(record: Mapping[str, Any], compared: Sequence[Mapping[str, Any]] = ()) -> str:
    """The page of a record of `mgx perf`, and the times beside those of another record."""
    sections = {
        "Runs": _runs(record),
        "Beside the other run": _compared(compared),
        "Steps": _graph(record.get("steps", ())),
        "Timeline": _timeline(record),
        "Roofline": _roofline(record),
        "Memory": _memory(record.get("arena")),
        "Kernels": _kernels(record),
        "Compilation": _stages(record.get("stages", ())),
    }
    there = {title: body for title, body in sections.items() if body}
    links = "".join(f'<a href="#{_anchor(title)}">{escape(title)}</a>' for title in there)
    bodies = "".join(f'<h2 id="{_anchor(t)}">{escape(t)}</h2>{body}' for t, body in there.items())
    title = f"{record['model']} on {record['device']}"
    return (
        f'<!DOCTYPE html><html lang="en"><head><meta charset="utf-8">'
        f'<meta http-equiv="Content-Security-Policy" content="{_POLICY}">'
        f"<title>{escape(title)}</title><style>{_STYLE}</style></head>"
        f"<body><h1>{escape(title)}</h1><nav>{links}</nav>{bodies}</body></html>\n"
    )


def _anchor(title: str) -> str:
    return title.lower().replace(" ", "-")


def _note(record: Mapping[str, Any]) -> str:
    if record["times"] == "modelled":
        text = (
            "Times of kernels come from a model of the chip, those of runs are the emulator's own."
        )
        return f'<p class="note">{text}</p>'
    return ""


def _table(heads: Sequence[str], rows: Iterable[Sequence[str]], texts: Sequence[int]) -> str:
    """A table of cells that are HTML already; the columns `texts` are left-aligned."""

    def cells(tag: str, values: Sequence[str]) -> str:
        kind = dict.fromkeys(texts, ' class="t"')
        return "".join(f"<{tag}{kind.get(n, '')}>{v}</{tag}>" for n, v in enumerate(values))

    body = "".join(f"<tr>{cells('td', row)}</tr>" for row in rows)
    return f"<table><tr>{cells('th', heads)}</tr>{body}</table>"


def _runs(record: Mapping[str, Any]) -> str:
    kinds = record["run_ms"]
    names = sorted({name for times in kinds.values() for name in times})
    rows = [
        [escape(kind), *(f"{times.get(name, 0):.3f}" for name in names)]
        for kind, times in kinds.items()
    ]
    memory = record.get("memory_bytes", {})
    listed = "; ".join(f"{escape(n)} {size_text(size)}" for n, size in memory.items())
    sizes = f" Memory: {listed}." if listed else ""
    text = f"<p>{record['runs']} runs of each kind, milliseconds.{sizes}</p>"
    return _note(record) + text + _table(["run", *names], rows, [0])


def _compared(rows: Sequence[Mapping[str, Any]]) -> str:
    if not rows:
        return ""
    cells = [
        [escape(r["what"]), escape(r["name"]), f"{r['before']:.4f}", f"{r['now']:.4f}",
         "" if r["ratio"] is None else f"{r['ratio']:.2f}"]
        for r in rows
    ]  # fmt: skip
    return _table(["", "name", "before, ms", "now, ms", "now / before"], cells, [0, 1])


def _svg(width: float, height: float, parts: Iterable[str]) -> str:
    return f'<svg viewBox="0 0 {width:.0f} {height:.0f}">{"".join(parts)}</svg>'


def _box(
    x: float, y: float, width: float, height: float, fill: str, title: str, **data: Any
) -> str:
    facts = "".join(f' data-{name}="{value!r}"' for name, value in data.items())
    return (
        f'<rect x="{x:.2f}" y="{y:.2f}" width="{max(width, 0.5):.2f}" height="{height:.2f}" '
        f'fill="{fill}"{facts}><title>{escape(title)}</title></rect>'
    )


def _text(x: float, y: float, text: str, anchor: str = "start") -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}">{escape(text)}</text>'


def _heat(share: float) -> str:
    """A colour from blue to red for a share of the longest time."""
    return f"hsl({210 * (1 - min(max(share, 0), 1)):.0f} 70% 55%)"


def _name(step: Mapping[str, Any]) -> str:
    return step["node"] or "copy"


def _graph(steps: Sequence[Mapping[str, Any]]) -> str:
    """The steps from above, bars of their times, and arcs from each step to those that read it."""
    if not steps:
        return ""
    longest = max(step["ms"] for step in steps) or 1.0
    left, parts = 140.0, []
    for number, step in enumerate(steps):
        y = number * _ROW + _ROW / 2
        for source in step["reads"]:
            from_y = source * _ROW + _ROW / 2
            out = min(left - 10, 8 + 4 * math.sqrt(abs(y - from_y)))
            parts.append(
                f'<path d="M{left} {from_y}C{left - out:.1f} {from_y} {left - out:.1f} {y} {left} '
                f'{y}" fill="none" stroke="#999" stroke-width=".7"/>'
            )
    for number, step in enumerate(steps):
        y, share = number * _ROW + 2, step["ms"] / longest
        name = _name(step)
        title = f"{name}: {step['ms']:.4f} ms, kernel {step['kernel']}"
        parts.append(_box(left, y, share * 300, _ROW - 4, _heat(share), title, ms=step["ms"]))
        parts.append(_text(left + share * 300 + 5, y + 11, f"{step['ms']:.4f} ms  {name[:_SHORT]}"))
    return _svg(_WIDTH, len(steps) * _ROW + 4, parts)


def _timeline(record: Mapping[str, Any]) -> str:
    """The host's calls above and the kernels below, from left to right, each on its own scale."""
    calls = [(c["name"], c["start_ms"], c["ms"]) for c in record.get("host_calls", ())]
    kernels, end = [], 0.0
    for step in record.get("steps", ()):
        kernels.append((_name(step), end, step["ms"]))
        end += step["ms"]
    parts = []
    for row, (title, spans) in enumerate({"host": calls, "kernels": kernels}.items()):
        total = max((start + spent for _, start, spent in spans), default=0.0)
        if not total:
            continue
        y, longest, scale = 10 + 44 * row, max(s for _, _, s in spans), (_WIDTH - 190) / total
        parts += [_text(0, y + 15, title), _text(_WIDTH - 4, y + 15, f"{total:.4f} ms", "end")]
        for name, start, spent in spans:
            told, fill = f"{name}: {spent:.4f} ms", _heat(spent / longest)
            parts.append(_box(70 + start * scale, y, spent * scale, 22, fill, told))
    return _note(record) + _svg(_WIDTH, 90, parts) if parts else ""


def _roofline(record: Mapping[str, Any]) -> str:
    """Operations a second over operations a byte, logarithmic, below the rates of the chip."""
    machine = dict(record.get("machine", {}))
    memory = machine.pop("memory bytes", 0)
    rows = [k for k in record.get("kernels", ()) if k["flops"] and k["bytes"] and k["ms"]]
    if not memory or not machine or not rows:
        return ""
    points = [(k["flops"] / k["bytes"], k["flops"] / k["ms"] * 1e3, k) for k in rows]
    low_x, high_x = -3.0, 4.5
    high_y = math.ceil(math.log10(max(machine.values())))
    low_y = min(high_y - 6, math.floor(min(math.log10(rate) for _, rate, _ in points)))
    height = 420.0

    def place(intensity: float, rate: float) -> tuple[float, float]:
        x = (math.log10(intensity) - low_x) / (high_x - low_x) * (_WIDTH - 80) + 60
        return x, (high_y - math.log10(rate)) / (high_y - low_y) * (height - 40) + 10

    parts = [_text(4, place(1, 10.0**n)[1], f"1e{n}") for n in range(low_y, high_y + 1)] + [
        _text(place(10.0**n, 1e9)[0], height - 4, f"1e{n}") for n in range(-3, 5)
    ]
    for rate in sorted(set(machine.values())):
        name = ", ".join(unit for unit, its in machine.items() if its == rate)
        knee = rate / memory
        (x0, y0), (x1, y1) = place(10.0**low_x, memory * 10.0**low_x), place(knee, rate)
        end = place(10.0**high_x, rate)[0]
        parts.append(
            f'<path d="M{x0:.1f} {y0:.1f}L{x1:.1f} {y1:.1f}L{end:.1f} {y1:.1f}" fill="none" '
            f'stroke="#888"><title>{escape(name)}</title></path>'
        )
        parts.append(_text(end, y1 - 3, f"{name} {rate / 1e12:.1f} T/s", "end"))
    longest = max(k["ms"] for _, _, k in points)
    for intensity, rate, kernel in points:
        x, y = place(min(max(intensity, 10.0**low_x), 10.0**high_x), rate)
        title = f"{kernel['nodes'][0]}: {rate / 1e9:.1f} GFLOP/s at {intensity:.2f} FLOP a byte"
        fill = _heat(kernel["ms"] / longest)
        parts.append(
            f'<circle cx="{x:.1f}" cy="{y:.1f}" r="5" fill="{fill}"><title>{escape(title)}</title>'
            "</circle>"
        )
    text = "Operations a second over operations a byte, logarithmic; lines are the chip's rates."
    return f'<p class="note">{text}</p>' + _svg(_WIDTH, height, parts)


def _memory(arena: Mapping[str, Any] | None) -> str:
    """Buffers of the arena: steps from left to right, addresses from above."""
    if not arena or not arena["buffers"]:
        return ""
    steps = 1 + max(buffer["last"] for buffer in arena["buffers"])
    height, wide = 300.0, (_WIDTH - 20) / steps
    parts = []
    for number, buffer in enumerate(arena["buffers"]):
        y = buffer["offset"] / arena["bytes"] * height
        tall = buffer["bytes"] / arena["bytes"] * height
        count = buffer["last"] - buffer["first"] + 1
        title = (
            f"{size_text(buffer['bytes'])} at {buffer['offset']}, steps {buffer['first']} to "
            f"{buffer['last']}"
        )
        fill = f"hsl({number * 47 % 360} 45% 60%)"
        parts.append(_box(10 + buffer["first"] * wide, y, count * wide, tall, fill, title,
                          bytes=buffer["bytes"]))  # fmt: skip
    text = (
        f"The arena of {size_text(arena['bytes'])}: steps from left to right, addresses from above."
    )
    return f"<p>{text}</p>" + _svg(_WIDTH, height, parts)


def _kernels(record: Mapping[str, Any]) -> str:
    rows = [
        [
            "copy" if k["kernel"] < 0 else str(k["kernel"]),
            str(k["launches"]),
            f"{k['ms']:.4f}",
            f"{k['share']:.1%}",
            f"{k['bytes'] / 1e6:.3f}",
            f"{k['gb_per_s']:.1f}",
            f"{k['gflop_per_s']:.1f}",
            escape(", ".join(k["nodes"])),
            escape(k.get("why", "")),
        ]
        for k in record.get("kernels", ())
    ]
    heads = ["kernel", "launches", "ms", "share", "MB", "GB/s", "GFLOP/s", "nodes", "schedule"]
    return _table(heads, rows, [7, 8]) if rows else ""


def _stages(stages: Sequence[Mapping[str, Any]]) -> str:
    total = sum(stage["ms"] for stage in stages) or 1.0
    rows = [[escape(s["stage"]), f"{s['ms']:.1f}", f"{s['ms'] / total:.1%}"] for s in stages]
    return _table(["stage", "ms", "share"], rows, [0]) if stages else ""
