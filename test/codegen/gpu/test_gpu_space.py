"""The legal schedules of a kernel, and kernels compiled by one of them."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import cast

import pytest
from contraction_kernels import Product
from convolution_kernels import Convolution
from element_kernels import gelu
from row_kernels import RowKernel

from mgx_mlir.artifact.code_object import CodeObject
from mgx_mlir.artifact.schedule import Schedule, Tuned
from mgx_mlir.artifact.target import Target
from mgx_mlir.codegen.choice import steered
from mgx_mlir.codegen.gpu.families.contraction.space import ProductSchedule
from mgx_mlir.codegen.gpu.kernel import compiler
from mgx_mlir.codegen.gpu.space import Option, Space, space_of
from mgx_mlir.errors import ScheduleError
from mgx_mlir.finalizer import NOT_USED, finalize_kernel_for
from mgx_mlir.rewriting.portable import kernel_to_bytecode
from test.codegen.attention_kernels import AttentionCase

Case = Product | Convolution | AttentionCase | RowKernel
CASES: tuple[tuple[Case, str], ...] = (
    (Product((512, 512, 512), "nt"), "contraction"),
    (Product((1, 256, 512), "nt"), "contraction"),
    (Convolution((1, 64, 56, 56), 64, (3, 3), native=True), "contraction"),
    (AttentionCase(4, 128, 128, 64), "attention"),
    (RowKernel("softmax", (1024, 1024), (1,)), "rows"),
    (gelu((1024, 1024), "f16"), "pointwise"),
)


def space(case: Case, chip: str) -> Space:
    _, kernel = case.kernel()
    found = space_of(kernel, Target.get(chip))
    assert found is not None
    return found


@pytest.mark.parametrize("chip", ["gfx942", "gfx1100"])
@pytest.mark.parametrize(("case", "family"), CASES, ids=lambda x: getattr(x, "name", ""))
def test_every_schedule_is_listed_once_and_can_be_asked_for(
    case: Case, family: str, chip: str
) -> None:
    found = space(case, chip)
    assert found.family == family
    assert len({option.schedule for option in found.options}) == len(found.options) > 10
    clocks = [option.clocks for option in found.options]
    assert clocks == sorted(clocks)
    _, kernel = case.kernel()
    compile_for, target = compiler(kernel), Target.get(chip)
    default = compile_for(target)
    named = [option for option in found.options if option.schedule.words in default.why]
    assert named and all(math.isfinite(option.clocks) for option in named if option.schedule.words)
    for first in (found.options.index(named[0]), len(found.options) // 2):
        option, code = compiled_first(found.options[first:], compile_for, target)
        assert option.schedule.words in code.why
        assert (code.data == default.data) == (code.why == default.why)


def compiled_first(
    options: Sequence[Option], compile_for: Callable[[Target], CodeObject], target: Target
) -> tuple[Option, CodeObject]:
    """The first option whose kernel spills no registers, and its code."""
    for option in options:
        try:
            with steered(option.schedule):
                return option, compile_for(target)
        except ScheduleError as error:
            assert "spill" in str(error)
    raise AssertionError("all spill")


def test_a_schedule_of_another_variant_is_asked_by_its_name() -> None:
    case = Product((1, 256, 512), "nt")
    found = space(case, "gfx942")
    variants = {option.schedule.variant for option in found.options}
    assert variants == {"skinny", "tiles"}
    _, kernel = case.kernel()
    tiles = next(o.schedule for o in found.options if o.schedule.variant == "tiles")
    with steered(tiles):
        why = compiler(kernel)(Target.get("gfx942")).why
    assert why == f"mgx.dot: {tiles.words}"


@pytest.mark.parametrize(
    "schedule",
    [Schedule("tiles", "tile 1x1x1"), Schedule("none"), Schedule("", "'; drop"), Schedule("\0")],
)
def test_an_illegal_schedule_is_an_error_or_is_not_used(schedule: Schedule) -> None:
    _, kernel = Product((64, 64, 64), "nt").kernel()
    target = Target.get("gfx942")
    with steered(schedule), pytest.raises(ScheduleError, match="no schedule"):
        compiler(kernel)(target)
    tuned = {target.identity: Tuned(schedule, "user", True)}
    data = kernel_to_bytecode(kernel)
    (plain,) = finalize_kernel_for(data, [target])
    (code,) = finalize_kernel_for(data, [target], tuned=tuned)
    assert code.data == plain.data
    assert code.why.startswith(f"{plain.why}; {NOT_USED}: no schedule ")


def test_a_tuned_schedule_is_used_and_says_so() -> None:
    case = Product((512, 512, 512), "nt")
    _, kernel = case.kernel()
    option = space(case, "gfx942").options[5]
    tuned = {"gfx942": Tuned(option.schedule, "system", False)}
    (code,) = finalize_kernel_for(kernel_to_bytecode(kernel), [Target.get("gfx942")], tuned=tuned)
    source = "chosen by measured times, in the system's tuning database"
    assert code.why == f"mgx.dot: {option.schedule.words}; {source}"


def test_slow_memory_without_a_cache_takes_less_split_k() -> None:
    """Partial sums pass twice what holds them: operands alone would not change the order."""
    _, kernel = Product((128, 256, 8192), "nt").kernel()
    chip = Target.get("gfx942")

    def parts(target: Target) -> int:
        found = space_of(kernel, target)
        assert found is not None
        counted = re.search(r"k in (\d+) parts", found.options[0].schedule.words)
        return int(counted[1]) if counted else 1

    slow = replace(chip, memory_bytes_a_clock=100, cache_bytes=0)
    assert parts(chip) > parts(slow) >= 1


def test_narrow_writes_cost_lds_alone() -> None:
    """Four waves transpose a tile of 64 x 32 by writes of 4 bytes, two by writes of 8."""
    options = {
        o.schedule.words: o.clocks for o in space(Product((4096,) * 3, "nn"), "gfx942").options
    }
    wide, narrow = (
        options[f"tile 64x64x32, {waves} waves, prefetch distance 4, mfma of f16"]
        for waves in ("1x2", "2x2")
    )
    assert wide < narrow < 2 * wide


@pytest.mark.parametrize("fill", [1, 7, 36, 1216])
@pytest.mark.parametrize("prefetch", [1, 3, 4])
@pytest.mark.parametrize("waves_k", [0, 4])
def test_parts_of_a_run_stay_within_their_scratch_memory(
    fill: int, prefetch: int, waves_k: int
) -> None:
    """So many work-groups have room, for up to half as many tiles; and a part has the iterations
    that its loop takes for given."""
    schedule = ProductSchedule(1, 1, 1, 1, prefetch, waves_k=waves_k, fill=fill)
    for turns in (1, 2, 5, 16, 63, 100):
        seen = set()
        for tiles in range(fill + 2):
            parts = cast(int, schedule.cut(turns * schedule.turn, tiles))
            assert parts == 1 or (parts * tiles <= fill and turns // parts >= schedule.least)
            assert parts == 1 or tiles <= fill // 2
            seen.add(parts)
        assert max(seen) <= cast(int, schedule.most(turns * schedule.turn))
