"""Records of tuned problems, for tests of what is done with them."""

from __future__ import annotations

from mgx_mlir.artifact.schedule import Schedule
from mgx_mlir.tuning.record import Key, Outcome, Record


def key(number: int = 0, chip: str = "gfx942", modelled: bool = True) -> Key:
    return Key(f"{number:064x}", chip, 304, "generator", "22.1.8", modelled)


def record(number: int = 0, chip: str = "gfx942", words: str | None = "wide") -> Record:
    """The record of a problem whose default takes 100 clocks, and a candidate 90."""
    schedule = None if words is None else Schedule("tiles", words)
    candidates = (
        Outcome(Schedule(), "timed", 100.0, 1.0),
        Outcome(Schedule("tiles", "wide"), "timed", 90.0, 1.0, 80.0),
        Outcome(Schedule("tiles", "long"), "hung", estimate=95.0),
    )
    return Record(
        key(number, chip), "contraction", f"dot {number}", schedule, 100.0, 90.0, 1.0, False,
        "gfx942 (emulated)", "10.0", "2026-01-02T03:04:05Z", candidates,
    )  # fmt: skip
