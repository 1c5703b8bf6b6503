"""A verdict on a timed program, in three sentences: what bounds it, what costs most, what to try.

The kernels' times are set beside the least times that the machine allows: bytes over the rate of
its memory, operations over the rate of its matrix units. On devices whose times are modelled, the
host's time is the emulator's own and is left out.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

# Milliseconds from one launch to the next in a HIP graph, by public measurements (some 4 us).
LAUNCH_MS = 0.004
# Shares from which something bounds a program, and what a network must gain to be told.
_BOUND, _GAIN = 0.5, 1.05
_UNIT = re.compile(r"\b(mfma|wmma) of (\w+)")
_OPERATOR = re.compile(r"^k\d+_")


def verdict(record: Mapping[str, Any], facts: Mapping[int, Mapping[str, Any]]) -> list[str]:
    """Sentences about a record of `mgx perf` with kernels; none for a record of runs alone.

    facts: of `kernel_facts`, by kernel; without them groups go by their nodes' names.
    """
    rows = [row for row in record.get("kernels", ()) if row["ms"] > 0]
    total = sum(row["ms"] for row in rows)
    if not rows or not total:
        return []
    shares = _shares(record, rows, total)
    return [
        _bound(record, rows, total, shares),
        _costliest(rows, total, facts),
        _advice(record, rows, total, shares, facts),
    ]


def _shares(
    record: Mapping[str, Any], rows: Sequence[Mapping[str, Any]], total: float
) -> dict[str, float]:
    """The share of the kernels' time that memory, and matrix units or multiply-adds, need alone."""
    machine = record.get("machine", {})
    memory = machine.get("memory bytes", 0)
    moved = sum(min(row["ms"], row["bytes"] / memory * 1e3) for row in rows) if memory else 0.0
    worked = 0.0
    for row in rows:
        rate = machine.get(_unit(row) or "fma f32", 0)
        worked += min(row["ms"], row["flops"] / rate * 1e3) if rate else 0.0
    return {"memory": moved / total, "units": worked / total}


def _unit(row: Mapping[str, Any]) -> str:
    """The unit that a kernel's schedule names: 'mfma f16'; '' for none."""
    found = _UNIT.search(row.get("why", ""))
    return " ".join(found.groups()) if found else ""


def _launches(record: Mapping[str, Any], rows: Sequence[Mapping[str, Any]]) -> int:
    """The launches on a device; on the CPU they cost next to nothing."""
    return sum(row["launches"] for row in rows) if "host_ms" in record else 0


def _bound(
    record: Mapping[str, Any],
    rows: Sequence[Mapping[str, Any]],
    total: float,
    shares: Mapping[str, float],
) -> str:
    launches = _launches(record, rows)
    started, host = launches * LAUNCH_MS, _host(record)
    megabytes = sum(row["bytes"] for row in rows) / 1e6
    figures = (
        f"memory alone needs {_percent(shares['memory'])} of the kernels' time "
        f"({megabytes:.1f} MB), the arithmetic {_percent(shares['units'])}"
    )
    if host > total:
        return f"Bound by the host: its part of a run takes {host:.3f} ms; {figures}."
    if started > total:
        return (
            f"Bound by launches: {launches} of them take some {started:.2f} ms by public figures "
            f"of about 4 us each; {figures}."
        )
    if shares["units"] >= max(_BOUND, shares["memory"]):
        return f"Bound by arithmetic: {figures}."
    if shares["memory"] >= _BOUND:
        return f"Bound by memory: {figures}."
    if "host_ms" not in record:
        return f"Bound neither by memory nor by arithmetic: {figures}."
    short = sum(row["ms"] for row in rows if row["ms"] / max(row["launches"], 1) < 2 * LAUNCH_MS)
    return (
        f"Bound by latency, neither by memory nor by arithmetic: {figures}; kernels below 8 us "
        f"take {short / total:.0%} of the time."
    )


def _percent(share: float) -> str:
    return f"{share:.0%}" if share >= 0.01 else "less than 1%"


def _host(record: Mapping[str, Any]) -> float:
    """Milliseconds of the host beside its HIP calls, where they are a machine's own."""
    if record["times"] != "measured":
        return 0.0
    return min(record.get("host_ms", {}).values(), default=0.0)


def _costliest(
    rows: Sequence[Mapping[str, Any]], total: float, facts: Mapping[int, Mapping[str, Any]]
) -> str:
    groups: dict[str, list[float]] = {}
    for row in rows:
        groups.setdefault(_group(row, facts), []).append(row["ms"])
    most = sorted(groups.items(), key=lambda item: -sum(item[1]))[:3]
    told = ", ".join(
        f"{name} {_percent(sum(times) / total)} ({len(times)} kernel{'s' * (len(times) > 1)})"
        for name, times in most
    )
    return f"Most of the time goes to {told}."


def _group(row: Mapping[str, Any], facts: Mapping[int, Mapping[str, Any]]) -> str:
    if row["kernel"] < 0:
        return "copies"
    name = facts.get(row["kernel"], {}).get("name", "")
    if name:
        return _OPERATOR.sub("", name)
    return row["why"].partition(":")[0] or row["nodes"][0]


def _advice(
    record: Mapping[str, Any],
    rows: Sequence[Mapping[str, Any]],
    total: float,
    shares: Mapping[str, float],
    facts: Mapping[int, Mapping[str, Any]],
) -> str:
    """What to try, with the most that each can gain by the figures of the record."""
    tries = []
    if gain := _narrowed(record, rows, total, facts):
        option = "--fp16 (at most" if "host_ms" in record else "mgx quantize (int8: about"
        tries.append(f"{option} {gain:.1f} times as fast)")
    launches = _launches(record, rows)
    if launches * LAUNCH_MS > total / 2:
        least = max(total, launches * LAUNCH_MS)
        gain = (total + launches * LAUNCH_MS) / least
        tries.append(f"a larger batch (up to {gain:.1f} times the samples a second)")
    roof = max(shares.values())
    untuned = "host_ms" in record and not record.get("tuned")
    if untuned and 0 < roof < 1 / _GAIN:
        tries.append(f"mgx tune (the kernels stand at {_percent(roof)} of what the chip allows)")
    if not tries:
        stand = f"the kernels stand at {_percent(roof)} of what the machine allows"
        return f"No option of mgx is known to gain: {stand}."
    return f"Try {'; '.join(tries)}."


def _narrowed(
    record: Mapping[str, Any],
    rows: Sequence[Mapping[str, Any]],
    total: float,
    facts: Mapping[int, Mapping[str, Any]],
) -> float:
    """The gain of narrower elements in place of f32; 0 where that is little, or nothing is known.

    On devices f16: half of the bytes, and the matrix units' rate of f16. On CPUs int8: a quarter of
    the bytes, and twice the products an instruction, which AVX2 has too.
    """
    machine, on_cpu = record.get("machine", {}), "host_ms" not in record
    memory = machine.get("memory bytes", 0)
    if not memory:
        return 0.0
    saved = 0.0
    for row in rows:
        if "f32[" not in facts.get(row["kernel"], {}).get("types", ""):
            continue
        kind, _, element = _unit(row).partition(" ")
        slow, fast = machine.get(f"{kind} {element}", 0), machine.get(f"{kind} f16", 0)
        if on_cpu:
            slow, fast = machine.get("fma f32", 0), 2 * machine.get("fma f32", 0)
        moved = row["bytes"] / memory * 1e3
        before = max(moved, row["flops"] / slow * 1e3 if slow else 0.0)
        after = max(moved / (4 if on_cpu else 2), row["flops"] / fast * 1e3 if fast else 0.0)
        saved += max(0.0, min(row["ms"], before) - after)
    gain = total / (total - saved)
    return gain if gain >= _GAIN else 0.0
