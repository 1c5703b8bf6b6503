"""The candidates of each choice of a schedule, for listeners."""

from __future__ import annotations

import math
import re
from typing import Any

import pytest
from contraction_kernels import Product
from convolution_kernels import Convolution
from element_kernels import gelu
from mlir import ir
from row_kernels import RowKernel

from mgx_mlir.artifact.target import Target
from mgx_mlir.codegen.choice import Choice, Offer, best_offer, heard, least, terms
from mgx_mlir.codegen.gpu.builders.program import GpuProgram
from mgx_mlir.codegen.gpu.families.contraction import cost
from mgx_mlir.codegen.gpu.kernel import compiler
from mgx_mlir.codegen.refusal import Refusal
from test.codegen.attention_kernels import AttentionCase

KERNELS = (
    (
        Product((512, 512, 512), "nt"),
        {"matrix", "lds", "memory", "loop", "start", "roof", "adding"},
    ),
    (AttentionCase(4, 128, 128, 64), {"matrix", "softmax", "lds", "start", "merging"}),
    (RowKernel("softmax", (1024, 1024), (1,)), {"issue", "memory", "latency", "launches"}),
    (gelu((1024, 1024), "f16"), {"issue", "memory", "latency"}),
)


def choices(kernel: ir.OpView, chip: str) -> tuple[str, bytes, list[Choice]]:
    with heard() as found:
        code = compiler(kernel)(Target.get(chip))
    return code.why, code.data, found.choices


@pytest.mark.parametrize("chip", ["gfx942", "gfx1100"])
@pytest.mark.parametrize(("case", "names"), KERNELS, ids=lambda x: getattr(x, "name", ""))
def test_a_choice_tells_what_it_compared(
    case: Product | AttentionCase | RowKernel, names: set[str], chip: str
) -> None:
    _, kernel = case.kernel()
    why, data, found = choices(kernel, chip)
    assert found
    for choice in found:
        clocks = [candidate.clocks for candidate in choice.candidates]
        assert len(clocks) > 10
        assert clocks == sorted(clocks)
        assert all(set(candidate.terms) == names for candidate in choice.candidates)
        assert len({candidate.words for candidate in choice.candidates}) > len(clocks) / 2
    assert found[-1].candidates[0].words in why
    assert compiler(kernel)(Target.get(chip)).data == data


def test_the_first_of_equal_candidates_is_chosen_heard_or_not() -> None:
    def estimate(word: str) -> float:
        terms(length=len(word))
        return len(word)

    words = ["three", "two", "one"]
    assert least(words, estimate, str.upper) == "two"
    with heard() as found:
        assert least(words, estimate, str.upper) == "two"
        assert least([], estimate, str.upper) is None
    (choice,) = found.choices
    assert [candidate.words for candidate in choice.candidates] == ["TWO", "ONE", "THREE"]
    assert choice.candidates[0].terms == {"length": 3}
    assert choice.describe(1).splitlines()[-1].split() == "3 5 clocks THREE (length 5)".split()
    assert least(words, estimate, str.upper) == "two"
    assert len(found.choices) == 1


def test_a_bound_spares_estimates() -> None:
    asked: list[int] = []

    def estimate(number: int) -> float:
        asked.append(number)
        return (5, 3, 9, 3, 8)[number]

    assert least(range(5), estimate, str, (4, 2, 3.5, 3, 8).__getitem__) == 1
    assert asked == [1, 3]
    assert least(range(2), lambda _: math.inf, str) == 0
    assert least([], estimate, str) is None


@pytest.mark.parametrize("chip", ["gfx908", "gfx942", "gfx1100", "gfx1201", "gfx1250"])
@pytest.mark.parametrize(
    "case",
    [
        Product((512, 512, 512), "nt"),
        Product((128, 768, 3072), "nn", "f32", epilogue="gelu"),
        Product((24, 4096, 8192), "nt", "i8"),
        Convolution((8, 256, 14, 14), 512, (3, 3), pads=(1, 1, 1, 1), last=True),
    ],
    ids=lambda x: x.name,
)
def test_no_estimate_is_below_its_bound(
    case: Product | Convolution, chip: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    ratios: list[float] = []

    def checked(candidates: Any, estimate: Any, words: Any, bound: Any) -> Any:
        ratios.extend(bound(one) / estimate(one) for one in candidates)
        return least(candidates, estimate, words, bound)

    monkeypatch.setattr(cost, "least", checked)
    _module, kernel = case.kernel()
    compiler(kernel)(Target.get(chip))
    assert len(ratios) > 20
    assert 0.5 < max(ratios) < 1 + 1e-9


def test_all_variants_of_a_product_are_listed() -> None:
    _, kernel = Product((1, 256, 512), "nt").kernel()
    with heard() as found:
        why = compiler(kernel)(Target.get("gfx942")).why
    (variants,) = found.variants
    names = ["broad", "depthwise", "direct", "narrow", "resident", "skinny", "tiles"]
    assert list(variants.answers) == names
    skinny, tiles = variants.answers["skinny"], variants.answers["tiles"]
    assert isinstance(skinny, Offer) and skinny.schedule in why
    assert isinstance(tiles, Offer) and tiles.clocks
    assert found.choices == []  # `skinny` compares nothing
    lines = variants.describe().splitlines()
    assert lines[3] == "  direct, refused: no convolution"
    assert lines[6].startswith("  skinny, taken: ")
    assert lines[7].startswith("  tiles, not taken: ") and lines[7].endswith(" clocks")


def test_refused_variants_of_a_convolution_say_why() -> None:
    _, kernel = Convolution((32, 64, 56, 56), 64, (3, 3), native=True).kernel()
    with heard() as found:
        compiler(kernel)(Target.get("gfx942"))
    answers = found.variants[0].answers
    assert isinstance(answers["tiles"], Offer)
    refusals = {name: str(x) for name, x in answers.items() if isinstance(x, Refusal)}
    assert refusals["direct"] == "64 channels a group"
    assert isinstance(answers["resident"], Offer)
    assert refusals["narrow"] == "operands that are read as they are"


def test_the_variant_of_the_least_clocks_is_taken() -> None:
    def made() -> GpuProgram:
        raise AssertionError

    def compared() -> Offer:
        least([3, 2], lambda x: x, str)
        return Offer("two", made, 2)

    refusal, far = Refusal("no"), Offer("far", made, 3)
    asked = {"a": lambda: refusal, "b": lambda: far, "c": compared, "d": compared}
    assert best_offer({"a": lambda: refusal}) is refusal
    assert best_offer(asked) == Offer("two", made, 2)
    with heard() as found:
        best_offer(asked)
    lines = found.variants[0].describe().splitlines()
    assert lines[1:4] == [
        "  a, refused: no",
        "  b, not taken: far, 3 clocks",
        "  c, taken: two, 2 clocks",
    ]
    assert len(found.choices) == 1  # those of the others tell nothing


@pytest.mark.parametrize(("rows", "without"), [(128, True), (512, False)])
def test_products_of_many_tiles_go_through_lds(rows: int, without: bool) -> None:
    """Waves that read fragments without LDS gain where a compute unit has one tile: where it has
    several large ones, no wave multiplies while all of a tile wait."""
    _, kernel = Product((rows, 3072, 768), "nt").kernel()
    why = compiler(kernel)(Target.get("gfx942")).why
    assert ("without LDS" in why) == without, why


def test_four_waves_share_k_where_all_they_read_is_on_its_way() -> None:
    """Eight of them read as much, and exchange twice the sums."""
    _, kernel = Product((49, 512, 2048), "nt").kernel()
    why = compiler(kernel)(Target.get("gfx942")).why
    assert "4 waves that share k without LDS" in why, why


def test_the_rate_of_the_l2_cache_bounds_all_units_together() -> None:
    """Small tiles read it more often, which costs nothing where the memory takes longer."""
    _, kernel = Product((16, 4096, 4096), "nt").kernel()
    why = compiler(kernel)(Target.get("gfx1100")).why
    assert "tile 16x16x32, 1x1 waves" in why, why


@pytest.mark.parametrize("turns", [1027, 1031])
def test_parts_of_a_precise_sum_are_whole_steps_of_all_waves_that_share_k(turns: int) -> None:
    """Twice as many steps of tiles in LDS have parts that these do not."""
    _, kernel = Product((16, 16, 128 * turns), "nt").kernel()
    why = compiler(kernel)(Target.get("gfx942")).why
    found = re.search(r"tile 16x16x128, 4 waves that share k .*?(?:k in (\d+) parts|mfma)", why)
    assert found is not None, why
    assert turns % int(found[1] or 1) == 0, why
