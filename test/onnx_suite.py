"""ONNX's backend tests, as onnx's own runner makes them from a backend class."""

from __future__ import annotations

import unittest
import warnings

import onnx.backend.test
import pytest

from test.onnx_exclusions import reason

Cases = dict[str, type[unittest.TestCase]]


def cases_for(backend: type, module: str) -> Cases:
    """The classes of cases, by group, that run on a backend; `module` is the caller's name."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return onnx.backend.test.BackendTest(backend, module).test_cases


def names_of(cases: Cases) -> list[tuple[str, str]]:
    """Group and name of every case, in order. onnx's runner names the device it asks for."""
    return [
        (group, name)
        for group, tests in sorted(cases.items())
        for name in unittest.defaultTestLoader.getTestCaseNames(tests)
        if name.endswith("_cpu")
    ]


def included(names: list[tuple[str, str]]) -> list[tuple[str, str]]:
    """The cases that the table of exclusions does not name."""
    return [case for case in names if reason(case[1]) is None]


def share_cache(monkeypatch: pytest.MonkeyPatch, factory: pytest.TempPathFactory) -> None:
    """One kernel cache for all processes of the run, each of which compiles by itself."""
    base = factory.getbasetemp()
    shared = base.parent if base.name.startswith("popen-") else base
    monkeypatch.setenv("MGX_CACHE_DIR", str(shared / "kernel-cache"))
    monkeypatch.setenv("MGX_JOBS", "1")
    monkeypatch.setenv("MGX_THREADS", "1")
    # Where onnx's runner writes inputs and results of its light models.
    monkeypatch.setenv("ONNX_MODELS", str(base / "onnx-models"))


def run(cases: Cases, group: str, name: str) -> None:
    """Runs one case; it raises what is wrong."""
    getattr(cases[group](name), name)()
