"""The report of a timed program: verdict, graph, timeline, kernels, memory, roofline."""

from __future__ import annotations

import base64
import json
import zlib
from collections.abc import Mapping, Sequence
from typing import Any

from mgx_mlir.tools.report import framed
from mgx_mlir.tools.report.blocks import blocks
from mgx_mlir.tools.report.verdict import verdict

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
    return framed(f"{record['model']} on {record['device']}", _runs(record), data)


def _runs(record: Mapping[str, Any]) -> str:
    return "one run of each kind" if record["runs"] == 1 else f"{record['runs']} runs of each kind"


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
