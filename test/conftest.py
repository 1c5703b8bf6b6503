"""What the tests share."""

from __future__ import annotations

import re

_ONNX_CASE = re.compile(r"test_onnx_backend\.py::test_(?:other_)?case\[OnnxBackend(\w+?)ModelTest-")


def pytest_terminal_summary(terminalreporter):
    """How many of ONNX's backend tests passed, by group."""
    passed: dict[str, int] = {}
    for report in terminalreporter.stats.get("passed", ()):
        match = _ONNX_CASE.search(report.nodeid)
        if match and report.when == "call":
            passed[match[1]] = passed.get(match[1], 0) + 1
    if passed:
        groups = ", ".join(f"{count} {group}" for group, count in sorted(passed.items()))
        terminalreporter.write_line(f"ONNX's backend tests passed: {groups}")
