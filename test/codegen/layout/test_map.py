"""The laws of maps of bits, for random maps of a fixed seed."""

from __future__ import annotations

import random
from collections.abc import Iterator

import pytest

from mgx_mlir.codegen.layout.map import Map

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


def test_splitting_and_choosing_groups() -> None:
    fragment = Map.of(lane="r0-3 k2-3", value="k0-1")
    split = fragment.split("lane", "row", "group", 4)
    assert split == Map.of(row="r0-3", group="k2-3", value="k0-1")
    assert split.onto("r") == Map.of(row="r0-3", group="- -", value="- -")
    assert fragment.moving("lane", "k") == (4, 5)
    assert fragment.renamed(r="c", value="part") == Map.of(lane="c0-3 k2-3", part="k0-1")
