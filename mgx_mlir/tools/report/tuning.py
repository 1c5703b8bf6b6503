"""The report of a tuning: each problem's candidates, their estimates beside their times."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from mgx_mlir.tools.report import framed
from mgx_mlir.tuning.record import Record
from mgx_mlir.tuning.work import Work


def page(title: str, found: Sequence[tuple[Work, Record, bool]]) -> str:
    """The page of the tuned problems: work, record, and whether the database had it."""
    before = sum(work.count * record.baseline for work, record, _ in found)
    now = sum(work.count * (record.best or record.baseline) for work, record, _ in found)
    modelled = any(record.key.modelled for _, record, _ in found)
    unit = "modelled clocks" if modelled else "ns"
    better = sum(0 < record.best < record.baseline for _, record, _ in found)
    summary = (
        f"{len(found)} problems, {better} with a schedule better than the estimate's: launches "
        f"in a run take {now:,.0f} {unit}, {before:,.0f} before."
    )
    data = {
        "verdict": [summary],
        "plots": _plots(found, unit),
        "tables": [_problems(found, unit), _candidates(found, unit)],
    }
    return framed(f"{title}, tuned", f"times in {unit}", data)


def _plots(found: Sequence[tuple[Work, Record, bool]], unit: str) -> list[dict[str, Any]]:
    points = [
        [one.estimate, one.time, f"{record.description}: {one.schedule}, {one.time:,.0f}"]
        for _, record, _ in found
        for one in record.candidates
        if one.result == "timed" and one.estimate and one.time
    ]
    if not points:
        return []
    return [
        {
            "id": "estimates",
            "title": "Estimates beside times",
            "note": "A point is a candidate; a good estimate ranks them as their times do.",
            "points": points,
            "axes": ["estimate, clocks", f"time, {unit}"],
        }
    ]


def _problems(found: Sequence[tuple[Work, Record, bool]], unit: str) -> dict[str, Any]:
    rows = [
        [
            record.description,
            ", ".join(work.names),
            work.count,
            record.baseline,
            record.best or record.baseline,
            (record.best or record.baseline) / record.baseline if record.baseline else None,
            str(record.schedule or "as estimated"),
            "known" if known else f"{len(record.candidates)} tried",
        ]
        for work, record, known in found
    ]
    columns = [["problem", "text"], ["kernels", "text"], ["launches", "number"],
               [f"before, {unit}", "number"], [f"now, {unit}", "number"],
               ["now / before", "number"], ["schedule", "text"], ["searched", "text"]]  # fmt: skip
    return {"id": "problems", "title": "Problems", "columns": columns, "rows": rows}


def _candidates(found: Sequence[tuple[Work, Record, bool]], unit: str) -> dict[str, Any]:
    rows = [
        [
            record.description,
            str(one.schedule),
            one.result,
            round(one.estimate) or None,
            one.time or None,
        ]
        for _, record, _ in found
        for one in record.candidates
    ]
    columns = [["problem", "text"], ["schedule", "text"], ["result", "text"],
               ["estimate, clocks", "number"], [f"time, {unit}", "number"]]  # fmt: skip
    return {"id": "candidates", "title": "Candidates", "columns": columns, "rows": rows}
