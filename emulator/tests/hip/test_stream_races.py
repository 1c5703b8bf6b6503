"""Strict mode between streams: what nothing orders is reported, and nothing else is."""

from __future__ import annotations

import re

import pytest
from hip_support import passes, run_python


@pytest.fixture(scope="module", params=["", "1"], ids=["sync", "async"])
def reports(request, image):
    """The report of each scenario of stream_races.py; "" where there is none."""
    script = f"import sys, stream_races\nsys.argv[1:] = [{'async' if request.param else ''!r}]\n"
    script += f"stream_races.main({str(image('gfx942'))!r})"
    result = run_python(
        script,
        MGX_EMULATED_DEVICES="gfx942",
        MGX_EMULATOR_STRICT="1",
        MGX_EMULATOR_ASYNC=request.param,
    )
    lines = passes(result).splitlines()
    assert len(lines) > 30
    found = dict(line.split(": ", 1) for line in lines)
    if request.param:
        # Threads of their own may miss it: see docs/emulator.md.
        found.pop("race_free")
    return found


def test_races_are_found_and_nothing_else_is(reports):
    raced = {name for name, text in reports.items() if text}
    assert raced == {name for name in reports if name.startswith("race_")}
    texts = [reports[name] for name in raced - {"race_free"}]
    assert all(text.startswith("race between streams: ") for text in texts)


def test_a_report_names_both_sides_and_the_bytes(reports):
    assert re.fullmatch(
        r"race between streams: kernel add_value \(stream \d+\) (reads|writes) what "
        r"kernel add_value \(stream \d+\) writes, and nothing orders them: "
        r"in bytes 0 to 256 of the allocation of 4096 bytes, at 0x[0-9a-f]+",
        reports["race_kernels"],
    )
    assert "a copy (stream" in reports["race_copy"]
    assert "bytes 255 to 256 of" in reports["race_one_byte"]
    branches = r"kernel add_value \(node [12] of a graph in stream \d+\)"
    assert re.search(rf"{branches} writes what {branches} writes", reports["race_branches"])
