"""The report of a timed program: one page that loads nothing, with a graph, tables and plots.

Texts of the model reach the page as JSON, and its scripts put them there as text. The page's own
policy lets run the scripts of this package alone, which it names by their hashes.
"""

from __future__ import annotations

import base64
import hashlib
import json
import zlib
from collections.abc import Mapping, Sequence
from html import escape
from importlib import metadata, resources
from typing import Any

from mgx_mlir.tools.report.blocks import blocks
from mgx_mlir.tools.report.verdict import verdict

_SCRIPTS = ("base", "graph", "timeline", "charts", "table", "details", "main")
# The fields of a kernel's facts that are long, and so stored compressed.
_LONG = ("ir", "isa", "estimate")


def page(
    record: Mapping[str, Any],
    compared: Sequence[Mapping[str, Any]] = (),
    facts: Mapping[int, Mapping[str, Any]] | None = None,
) -> str:
    """The page of a record of `mgx perf`, and the times beside those of another record.

    facts: those of `facts.kernel_facts`, by kernel.
    """
    facts = facts or {}
    data = {
        **record,
        "compared": list(compared),
        "verdict": verdict(record, facts),
        "kernels": [_kernel(row, facts.get(row["kernel"])) for row in record.get("kernels", ())],
        "blocks": [b.to_json() for b in blocks([s["kernel"] for s in record.get("steps", ())])],
    }
    title = f"{record['model']} on {record['device']}"
    library = _layout_library()
    script = "(() => {\n" + "\n".join(_part(f"{name}.js") for name in _SCRIPTS) + "})();\n"
    allowed = " ".join(f"'sha256-{_hash(text)}'" for text in (library, script))
    policy = f"default-src 'none'; style-src 'unsafe-inline'; script-src {allowed}"
    return (
        '<!DOCTYPE html><html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f'<meta http-equiv="Content-Security-Policy" content="{policy}">'
        f"<title>{escape(title)}</title><style>{_part('style.css')}</style></head><body>"
        f"<header><h1>{escape(title)}</h1>"
        f'<p class="soft">{_runs(record)}</p>'
        '<nav id="links"></nav></header><main id="page"></main>'
        "<noscript><main>The page needs JavaScript; mgx perf --json has the same numbers."
        "</main></noscript>"
        f'<script id="data" type="application/json">{_embedded(data)}</script>'
        f"<script>{library}</script><script>{script}</script></body></html>\n"
    )


def _runs(record: Mapping[str, Any]) -> str:
    return "one run of each kind" if record["runs"] == 1 else f"{record['runs']} runs of each kind"


def _part(name: str) -> str:
    return resources.files(__name__).joinpath("web", name).read_text(encoding="utf-8")


def _layout_library() -> str:
    """dagre, which lays out graphs in layers, from the package XStatic-Dagre."""
    file = metadata.distribution("XStatic-Dagre").locate_file("xstatic/pkg/dagre/data/dagre.min.js")
    with open(str(file), encoding="utf-8") as stream:
        return stream.read()


def _hash(text: str) -> str:
    return base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()


def _embedded(data: Mapping[str, Any]) -> str:
    """JSON that no text in it can end: a browser reads < as such in JSON alone."""
    text = json.dumps(data, separators=(",", ":"), allow_nan=False)
    return text.replace("<", "\\u003c")


def _kernel(row: Mapping[str, Any], facts: Mapping[str, Any] | None) -> dict[str, Any]:
    """A row of a record with the facts about its kernel."""
    if facts is None:
        return dict(row)
    code = json.dumps({name: facts[name] for name in _LONG}).encode()
    return {
        **row,
        "name": facts["name"],
        "fused": facts["nodes"],
        "types": facts["types"],
        "why": row.get("why") or facts["why"],
        "bytes_of_code": facts["bytes_of_code"],
        "code_launches": facts["launches"],
        "stats": facts["stats"],
        "has_estimate": bool(facts["estimate"]),
        "code": base64.b64encode(zlib.compress(code, 9)).decode(),
    }
