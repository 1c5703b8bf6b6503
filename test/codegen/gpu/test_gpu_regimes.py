"""Regimes: which schedule a run of some size takes."""

from __future__ import annotations

import math

import pytest

from mgx_mlir.codegen.refusal import Refusal
from mgx_mlir.codegen.regimes import Regime, counted, scheduled
from mgx_mlir.sizes.arithmetic import Number, evaluate
from mgx_mlir.sizes.parser import parse
from test.codegen.bound_code import bound_code
from test.codegen.gpu.compiled import compiled

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


@pytest.mark.parametrize(("beyond", "schedules"), [(False, [1, 32]), (True, [1])])
def test_a_schedule_serves_sizes_beyond_its_own_where_that_is_asked_for(
    beyond: bool, schedules: list[int]
) -> None:
    """The schedule of the greatest sizes suits no others; the one of small ones is close."""

    def clocks(schedule: int, usual: int) -> float:
        return 100 if schedule == usual else 105 if schedule == 1 else 300

    some = counted(parse("n"), RANGES)
    found = scheduled(some, lambda usual: 32 if usual == 32 else 1, clocks, beyond=beyond)
    assert not isinstance(found, Refusal)
    assert [schedule for schedule, _ in found] == schedules


def test_every_function_of_images_is_launched_in_some_run() -> None:
    """Few images have a recipe of their own and many have tiles: none of these are for few."""
    image = "tensor<?x28x28x128xf16, #mgx.dims<[images : 1 ... ?, _, _, _]>>"
    filters = "tensor<128x3x3x128xf16>"
    text = f"""mgx.kernel @kernel(%x: {image}, %w: {filters}) -> ({image})
        attributes {{arch = #mgx.arch<"gfxMIGX">}} {{
      %y = mgx.convolution %x, %w pads = [1, 1, 1, 1] strides = [1, 1] dilations = [1, 1]
        {{channels_last, group = 1 : i64}} : {image}, {filters} -> {image}
      mgx.return %y : {image}
    }}"""
    code = compiled(text)
    taken = set()
    for images in (1, 2, 3, 16, 17, 40):
        grids = {x.function: x.grid[0] for x in bound_code(code, {"images": images}).launches}
        taken |= {function for function, groups in grids.items() if groups}
    assert taken == {launch.function for launch in code.launches}


def test_a_refusal_of_one_regime_is_that_of_all() -> None:
    found = scheduled(counted(parse("n"), RANGES), lambda usual: Refusal(f"{usual} images"))
    assert found == Refusal("1 images")
