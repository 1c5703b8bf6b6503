"""Fixtures and options that the tests share."""

from __future__ import annotations

import gc
import os
import re
from collections import Counter
from collections.abc import Iterator

import pytest

_ONNX_CASE = re.compile(
    r"test_(?:hip_)?onnx_backend\.py::test_(?:other_)?case\[(?:(gfx\w+)-)?OnnxBackend(\w+?)ModelTest-"
)


@pytest.fixture(autouse=True)
def environment() -> Iterator[None]:
    """No variable that a test sets, as `mgx perf` does, outlives it."""
    before = dict(os.environ)
    yield
    if os.environ != before:
        os.environ.clear()
        os.environ.update(before)


@pytest.hookimpl(tryfirst=True)  # before cases are chosen by their marks
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    counts: Counter[str] = Counter()
    for item in items:
        every = item.get_closest_marker("every")
        if every is not None:
            test = item.nodeid.partition("[")[0]
            if counts[test] % every.args[0]:
                item.add_marker(pytest.mark.slow)
            counts[test] += 1


def pytest_collection_finish() -> None:
    """Thousands of collected tests are no garbage: later collections need not look at them."""
    gc.collect()
    gc.freeze()


def pytest_terminal_summary(terminalreporter):
    """How many of ONNX's backend tests passed, by target and group."""
    passed: dict[tuple[str, str], int] = {}
    for report in terminalreporter.stats.get("passed", ()):
        match = _ONNX_CASE.search(report.nodeid)
        if match and report.when == "call":
            key = match[1] or "cpu", match[2]
            passed[key] = passed.get(key, 0) + 1
    for target in sorted({target for target, _ in passed}):
        groups = [f"{count} {group}" for (t, group), count in sorted(passed.items()) if t == target]
        line = f"ONNX's backend tests passed on {target}: {', '.join(groups)}"
        terminalreporter.write_line(line)
