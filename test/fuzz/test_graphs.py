"""Random graphs on the host and on emulated chips, strictly, and the first ones that went wrong."""

from __future__ import annotations

import pytest

from mgx_mlir.artifact.target import executable_levels
from test.fuzz.command import fuzz
from test.fuzz.graphs.found import FOUND


def test_graphs_of_a_few_seeds() -> None:
    fuzz("graphs", "--seed", "9100", "--count", "12")


def test_graphs_of_open_sizes() -> None:
    fuzz(
        "graphs",
        "--seed",
        "9300",
        "--count",
        "12",
        "--mode",
        "full-dynamic",
        "--targets",
        "cpu,gfx942",
    )


def test_graphs_that_went_wrong() -> None:
    targets = "cpu,gfx942,gfx1030,gfx1100"
    fuzz(
        "graphs",
        "--found",
        "--count",
        str(len(FOUND)),
        "--all",
        "--targets",
        targets,
        "--mode",
        "default",
    )


@pytest.mark.slow
def test_three_hundred_graphs() -> None:
    fuzz("graphs", "--seed", "30000", "--count", "300")


@pytest.mark.slow
def test_graphs_as_resident_kernels() -> None:
    fuzz(
        "graphs", "--persistent", "--seed", "770100", "--count", "30", "--targets", "gfx942,gfx1100"
    )


@pytest.mark.slow
def test_graphs_on_each_level_of_cpus() -> None:
    levels = ",".join(target.name for target in executable_levels())
    fuzz("graphs", "--seed", "60000", "--count", "100", "--all", "--targets", levels)
