"""Outputs in the memory of inputs: what plans allow, and what programs write there."""

from __future__ import annotations

import dataclasses
import mmap
import re
from pathlib import Path

import cache_models as models
import numpy as np
import pytest

import mgx_mlir
from mgx_mlir.artifact.plan import Plan
from mgx_mlir.errors import ArtifactError, UsageError
from test.passes.graphs import parse

ROWS, PAGE = 256, 4096
X, ROW = f"tensor<{ROWS}x1024xf32>", "tensor<1x1024xf32>"
SCATTER = f"mgx.scatter_none %x[%i], %u axis = 0 : {X}, tensor<1x1024xi64>, {ROW} -> {X}"


def program(body: str, *results: str) -> mgx_mlir.Program:
    """A program of %x, a row %u, and %i, which says for each of its elements where it goes."""
    types = ", ".join(f'{X} {{mgx.name = "{name}"}}' for name in results)
    returned = f"{', '.join(f'%{name}' for name in results)} : {', '.join([X] * len(results))}"
    text = f"""
    func.func @main(%x: {X} {{mgx.name = "x"}}, %i: tensor<1x1024xi64> {{mgx.name = "i"}},
                    %u: {ROW} {{mgx.name = "u"}}) -> ({types}) {{
      {body}
      return {returned}
    }}"""
    return mgx_mlir.compile(mgx_mlir.compile_to_bytecode(parse(text)), "cpu")


def inputs(x: np.ndarray | None = None) -> dict[str, np.ndarray]:
    return {
        "x": np.zeros((ROWS, 1024), np.float32) if x is None else x,
        "i": np.full((1, 1024), 7),
        "u": np.ones((1, 1024), np.float32),
    }


def test_decoding_where_the_caches_lie() -> None:
    models.decode(mgx_mlir.compile(models.artifact("cpu"), "cpu"), np.copy)


def test_only_what_changes_is_written(tmp_path: Path) -> None:
    """Pages of a file are copied where they are written to."""
    file = tmp_path / "cache"
    file.write_bytes(bytes(ROWS * PAGE))
    with file.open("rb") as opened:
        memory = mmap.mmap(opened.fileno(), 0, access=mmap.ACCESS_COPY)
    given = inputs(np.frombuffer(memory, np.float32).reshape(ROWS, 1024))
    scatter = program(f"%y = {SCATTER}", "y")
    assert scatter.plan.in_place == ((0, 0),)
    scatter.run(given, {"y": given["x"]})
    assert given["x"][7].all() and not np.delete(given["x"], 7, 0).any()
    maps = Path("/proc/self/smaps").read_text().split(str(file))[1]
    (written,) = re.findall(r"Anonymous: +(\d+) kB", maps)[:1]
    assert int(written) * 1024 == PAGE


@pytest.mark.parametrize(
    ("body", "results"),
    [
        (f"%y = {SCATTER}\n%z = mgx.prefix_scan_sum %x axis = 0 : {X}", ("y", "z")),
        (f"%y = {SCATTER}", ("y", "x")),
        (f"%t = mgx.prefix_scan_sum %x axis = 0 : {X}\n%y = {SCATTER.replace('%x', '%t')}", ("y",)),
        (f"%y = {SCATTER.replace('none', 'add')}", ("y",)),
    ],
    ids=["read by another", "an output too", "not the input", "not replaced"],
)
def test_memory_that_is_needed_otherwise_is_refused(body: str, results: tuple[str, ...]) -> None:
    found, given = program(body, *results), inputs()
    assert found.plan.in_place == ()
    with pytest.raises(UsageError, match=r"'y' overlaps that of 'x'; give it memory of its own$"):
        found.run(given, {"y": given["x"]})


def test_only_all_of_the_memory_is_shared() -> None:
    scatter = program(f"%y = {SCATTER}", "y")
    memory = np.zeros((ROWS + 1, 1024), np.float32)
    with pytest.raises(UsageError, match=r"memory of its own, or all of that memory$"):
        scatter.run(inputs(memory[:-1]), {"y": memory[1:]})
    given = inputs(memory[:-1]) | {"u": memory[:1]}
    with pytest.raises(UsageError, match=r"'y' overlaps that of 'u'"):
        scatter.run(given, {"y": given["x"]})


def test_plans_keep_what_may_be_shared() -> None:
    plan = program(f"%y = {SCATTER}", "y").plan
    assert Plan.from_json(plan.to_json()) == plan
    for pairs in ([[0]], [[0, -1]], [[1, 0]], [[0, 3]], ["ab"]):
        with pytest.raises(ArtifactError, match=r"in_place|in the place of"):
            Plan.from_json(plan.to_json() | {"in_place": pairs})
    assert "in_place" not in dataclasses.replace(plan, in_place=()).to_json()
