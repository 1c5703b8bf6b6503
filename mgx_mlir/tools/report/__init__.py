"""Reports: pages of one file that load nothing, with graphs, tables and plots.

Texts of a model reach a page as JSON, and its scripts put them there as text. The page's own
policy lets run the scripts of this package alone, which it names by their hashes.
"""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Mapping
from html import escape
from importlib import metadata, resources
from typing import Any

_SCRIPTS = ("base", "graph", "timeline", "charts", "table", "details", "plain", "main")


def framed(title: str, note: str, data: Mapping[str, Any]) -> str:
    """The page of these data, JSON values; see `main.js` for the names that it shows."""
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
        f'<p class="soft">{escape(note)}</p>'
        '<nav id="links"></nav></header><main id="page"></main>'
        "<noscript><main>The page needs JavaScript; --json has the same numbers.</main></noscript>"
        f'<script id="data" type="application/json">{_embedded(data)}</script>'
        f"<script>{library}</script><script>{script}</script></body></html>\n"
    )


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
