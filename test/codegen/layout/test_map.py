"""The laws of maps of bits, for random maps of a fixed seed."""

from __future__ import annotations

import random
from collections.abc import Iterator

import pytest

from mgx_mlir.codegen.layout.map import Map, conversion, rank

Sizes = tuple[tuple[str, int], ...]
LANES: Sizes = (("lane", 5), ("value", 3))
PLACES: Sizes = (("c", 4), ("r", 4))


def maps(inputs: Sizes, outputs: Sizes, count: int = 50) -> Iterator[Map]:
    generator = random.Random(f"{inputs} {outputs}")
    width, size = (sum(s for _, s in groups) for groups in (inputs, outputs))
    for _ in range(count):
        yield Map(inputs, outputs, tuple(generator.randrange(1 << size) for _ in range(width)))


def numbers(sizes: Sizes) -> Iterator[dict[str, int]]:
    """Every place of some groups."""
    for number in range(1 << sum(size for _, size in sizes)):
        place, rest = {}, number
        for name, size in sizes:
            place[name], rest = rest % (1 << size), rest >> size
        yield place


def test_a_text_names_the_image_of_each_bit() -> None:
    fragment = Map.of(lane="r0-1 k1 -", value="k0 r0^k1")
    assert fragment(lane=0b0110, value=0) == {"r": 2, "k": 2}
    assert fragment(lane=0b1000) == {"r": 0, "k": 0}
    assert fragment(lane=0b0100, value=0b11) == {"r": 1, "k": 1}
    assert fragment == Map.of(value="k0 r0^k1", lane="r0 r1 k1 -")
    assert fragment.copies("lane") == (3,)


@pytest.mark.parametrize("text", ["r", "0", "r0+r1", "r0-", "r0^"])
def test_another_text_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="no image of bits"):
        Map.of(lane=text)


def test_a_number_beyond_its_group_is_refused() -> None:
    with pytest.raises(ValueError, match="lane = 4 has more than 2 bits"):
        Map.of(lane="r0-1")(lane=4)


def test_maps_are_linear() -> None:
    for f in maps(LANES, PLACES, 5):
        for x in range(256):
            assert f.flat(x ^ 0x5A) == f.flat(x) ^ f.flat(0x5A)


def test_then_applies_one_map_after_the_other() -> None:
    for f, g in zip(maps(LANES, PLACES), maps(PLACES, (("byte", 7),)), strict=True):
        both = f.then(g)
        assert all(both(**place) == g(**f(**place)) for place in numbers(LANES))


def test_then_refuses_places_that_the_second_map_lacks() -> None:
    with pytest.raises(ValueError, match="4 bits of r do not fit"):
        Map.of(lane="r0-3").then(Map.of(r="n0-2"))


def test_dividing_a_product_gives_the_other_factor() -> None:
    for f, g in zip(
        maps(LANES, PLACES), maps((("lane", 1), ("part", 2)), (("r", 2),)), strict=True
    ):
        both = f.product(g)
        assert both.bits("lane") == 6 and both.bits("r") == 6
        assert both.divide(f) == g
        for place in numbers(LANES):
            assert both(**place) == f(**place)


def test_a_map_that_is_no_factor_does_not_divide() -> None:
    fragment = Map.of(lane="r0-3 k2-3", value="k0-1")
    assert fragment.divide(Map.of(value="k0-1")) == Map.of(lane="r0-3 k0-1")
    assert fragment.divide(Map.of(value="k0-2")) is None
    assert fragment.divide(Map.of(value="k1")) is None
    # A later bit reaches into what the divisor holds.
    assert Map.of(lane="k0^k1 k1").divide(Map.of(lane="k0")) is None


def test_an_inverse_gives_the_smallest_input() -> None:
    found = 0
    for f in maps(LANES, (("c", 3), ("r", 3))):
        if rank(f.columns) < 6:
            with pytest.raises(ValueError, match="places that no input reaches"):
                f.inverse()
            continue
        found += 1
        inverse = f.inverse()
        assert inverse.then(f) == Map.identity(c=3, r=3)
        for y in range(64):
            assert inverse.flat(y) == min(x for x in range(256) if f.flat(x) == y)
    assert found > 20


def test_the_inverse_of_copies_takes_the_first() -> None:
    assert Map.of(lane="r0 - k0").inverse() == Map.of(r="lane0", k="lane2")


def test_width_counts_neighbours() -> None:
    rows = Map.of(value="byte0-2 byte5", lane="byte3-4 byte6")
    assert (rows.width("value"), rows.width("lane")) == (8, 1)
    # Another bit moves bit 1 too: a run of two stays aligned.
    assert Map.of(value="byte0-2", lane="byte1^byte3").width("value") == 2


def test_width_agrees_with_reading_all_places() -> None:
    generator = random.Random(1)
    for _ in range(300):
        size = generator.randrange(4)
        low = [1 << bit for bit in range(size)]
        rest = [generator.randrange(32) << generator.randrange(4) & 31 for _ in range(5 - size)]
        f = Map((("lane", 2), ("value", 3)), (("byte", 5),), tuple([*rest, *low][:5]))

        def runs(width: int, f: Map = f) -> bool:
            return all(
                f(lane=lane, value=v + i)["byte"] == f(lane=lane, value=v)["byte"] + i
                and f(lane=lane, value=v)["byte"] % width == 0
                for lane in range(4) for v in range(0, 8, width) for i in range(width)
            )  # fmt: skip

        assert f.width("value") == max(w for w in (1, 2, 4, 8) if runs(w))


def test_splitting_and_choosing_groups() -> None:
    fragment = Map.of(lane="r0-3 k2-3", value="k0-1")
    split = fragment.split("lane", "row", "group", 4)
    assert split == Map.of(row="r0-3", group="k2-3", value="k0-1")
    assert split.onto("r") == Map.of(row="r0-3", group="- -", value="- -")
    assert fragment.moving("lane", "k") == (4, 5)
    assert fragment.renamed(r="c", value="part") == Map.of(lane="c0-3 k2-3", part="k0-1")


def test_a_conversion_says_where_each_element_is() -> None:
    for source, wanted in zip(maps(LANES, PLACES), maps(LANES, PLACES, 100), strict=False):
        if rank(source.columns) < 8:
            continue
        moved = conversion(source, wanted)
        assert all(source(**moved(**p)) == wanted(**p) for p in numbers(LANES))
