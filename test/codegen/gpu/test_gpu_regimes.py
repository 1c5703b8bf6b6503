"""Regimes: which schedule a run of some size takes."""

from __future__ import annotations

import math

import pytest

from mgx_mlir.codegen.refusal import Refusal
from mgx_mlir.codegen.regimes import Regime, counted, scheduled
from mgx_mlir.sizes.arithmetic import Number, evaluate
from mgx_mlir.sizes.parser import parse

RANGES = ((2, 1), (16, 8), (math.inf, 32))


def shares(found: list[Regime], size: int) -> list[int]:
    return [evaluate(regime.share, {"n": size}) for regime in found]


@pytest.mark.parametrize(
    ("size", "regime"), [(1, 0), (2, 0), (3, 1), (16, 1), (17, 2), (100000, 2)]
)
def test_each_size_has_one_regime(size: int, regime: int) -> None:
    found = list(counted(parse("n"), RANGES))
    assert shares(found, size) == [int(number == regime) for number in range(3)]
    assert [x.usual for x in found] == [1, 8, 32]


@pytest.mark.parametrize(
    ("count", "usual"),
    [(1, [1]), (3, [3]), (20, [20])],
)
def test_a_given_number_has_one_regime(count: Number, usual: list[int]) -> None:
    found = list(counted(count, RANGES))
    assert [regime.usual for regime in found] == usual
    assert [regime.share for regime in found] == [1]


def test_regimes_of_equal_schedules_are_one() -> None:
    found = scheduled(counted(parse("n"), RANGES), lambda usual: "small" if usual < 32 else "large")
    assert not isinstance(found, Refusal)
    assert [schedule for schedule, _ in found] == ["small", "large"]
    regimes = [regime for _, regime in found]
    assert [shares(regimes, size) for size in (1, 8, 16, 17)] == [[1, 0]] * 3 + [[0, 1]]


@pytest.mark.parametrize(("slower", "count"), [(1.05, 1), (1.5, 3)])
def test_a_schedule_that_is_close_saves_a_function(slower: float, count: int) -> None:
    def clocks(schedule: int, usual: int) -> float:
        return 100 if schedule == usual else 100 * slower

    found = scheduled(counted(parse("n"), RANGES), lambda usual: usual, clocks)
    assert not isinstance(found, Refusal)
    assert len(found) == count and found[-1][0] == 32


def test_a_refusal_of_one_regime_is_that_of_all() -> None:
    found = scheduled(counted(parse("n"), RANGES), lambda usual: Refusal(f"{usual} images"))
    assert found == Refusal("1 images")
