"""The verdict: what bounds a program, what costs most, what to try."""

from __future__ import annotations

from typing import Any

from mgx_mlir.tools.report.verdict import verdict


def record(ms: float, bytes: int, flops: int, launches: int = 1, **more: Any) -> dict[str, Any]:
    row = {"kernel": 0, "launches": launches, "ms": ms, "bytes": bytes, "flops": flops,
           "nodes": ["node"], "why": "mgx.dot: tile 64x64x32, mfma of f32"}  # fmt: skip
    machine = {"memory bytes": 1e12, "mfma f32": 1e14, "mfma f16": 8e14}
    return {"times": "measured", "kernels": [row], "machine": machine, "host_ms": {"graph": 0.01},
            **more}  # fmt: skip


FACTS = {0: {"name": "k0_dot", "types": "f32[8, 8] -> f32[8, 8]"}}


def test_memory() -> None:
    bound, most, tries = verdict(record(1.0, 900_000_000, 0), FACTS)
    assert bound.startswith("Bound by memory: memory alone needs 90% of the kernels' time")
    assert most == "Most of the time goes to dot 100% (1 kernel)."
    # Half of .9 ms is saved at most.
    assert "--fp16 (at most 1.8 times as fast)" in tries


def test_arithmetic() -> None:
    bound, _, tries = verdict(record(1.0, 1000, 80_000_000_000), FACTS)
    assert bound.startswith("Bound by arithmetic")
    assert "--fp16 (at most 3.3 times as fast)" in tries and "a larger batch" not in tries


def test_launches() -> None:
    bound, _, tries = verdict(record(0.1, 1000, 1000, launches=100), FACTS)
    assert bound.startswith("Bound by launches: 100 of them take some 0.40 ms")
    assert "a larger batch (up to 1.2 times" in tries


def test_the_host() -> None:
    assert verdict(record(1.0, 1000, 1000, host_ms={"graph": 5.0}), FACTS)[0].startswith(
        "Bound by the host: its part of a run takes 5.000 ms"
    )
    # The emulator's own time is not the host's.
    modelled = record(1.0, 1000, 1000, host_ms={"graph": 5.0}, times="modelled")
    assert "host" not in verdict(modelled, FACTS)[0]


def test_a_cpu_is_told_of_int8() -> None:
    on_cpu = record(1.0, 1000, 8_000_000) | {"machine": {"memory bytes": 1e10, "fma f32": 1e10}}
    del on_cpu["host_ms"]
    # Half of .8 ms is saved.
    assert verdict(on_cpu, FACTS)[2] == "Try mgx quantize (int8: about 1.7 times as fast)."
    narrow = {0: {"name": "k0_dot", "types": "i8[8, 8] -> i32[8, 8]"}}
    assert verdict(on_cpu, narrow)[2].startswith("No option of mgx")


def test_nothing_is_said_of_runs_alone() -> None:
    assert verdict({"times": "measured", "run_ms": {}}, {}) == []


def test_a_program_of_f16_is_not_told_to_use_it() -> None:
    facts = {0: {"name": "k0_dot", "types": "f16[8, 8] -> f16[8, 8]"}}
    assert "--fp16" not in verdict(record(1.0, 900_000_000, 0), facts)[2]
