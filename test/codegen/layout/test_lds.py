"""Bank conflicts by ranks, against counting them; the swizzles in use, against a search."""

from __future__ import annotations

import random
from collections import Counter

import pytest

from mgx_mlir.codegen.layout.fragments import MFMA, WMMA_GFX11, WMMA_GFX12, Fragments
from mgx_mlir.codegen.layout.lds import (
    NEIGHBOURS,
    READS,
    READS_64_BANKS,
    Access,
    rows,
    swizzles,
    turns,
)
from mgx_mlir.codegen.layout.map import Map

# Reads of a chunk of 16 bytes by each lane of a wave: rows of MFMA, and of WMMA of RDNA 4 and 3;
# columns of RDNA 3, whose even ones come first; rows and columns of plain multiply-adds.
READERS = (
    "row0-3 chunk0-1",
    "row0-3 chunk0 -",
    "row0-3 - -",
    "row3 row0-2 - -",
    "row0-2 - - -",
    "- - - row2-3 -",
)
# Columns of MFMA whose tiles are joined in pairs.
JOINED = "row0-1 row3-4 chunk0-1"


def accesses(span: tuple[int, ...], *lanes: str) -> list[Access]:
    return [Access(Map.of(lane=text), span) for text in lanes]


def writes(chunks: int, row_bits: int) -> list[Access]:
    """Writes of neighbouring chunks, of every row, every second, fourth or eighth."""
    inner = chunks.bit_length() - 1
    first = [f"chunk{bit}" for bit in range(inner)]
    found = []
    for start in range(4):
        own = [f"row{i}" if i < row_bits else "-" for i in range(start, start + 6 - inner)]
        found.append(Access(Map.of(lane=" ".join([*first, *own])), NEIGHBOURS[16]))
    return found


def test_ranks_agree_with_counting_lanes() -> None:
    generator = random.Random(0)
    for _ in range(3000):
        width, banks = generator.choice((4, 8, 16)), generator.choice((32, 64))
        span = generator.choice((NEIGHBOURS, READS, READS_64_BANKS))[width]
        columns = [generator.randrange(1 << 11) & -width for _ in range(6)]
        lanes = Map((("lane", 6),), (("byte", 11),), tuple(columns))
        phase = [0]
        for lane in span:
            phase += [lane ^ other for other in phase]
        words = {lanes.flat(lane) // width for lane in phase}
        slots = banks * 4 // width
        counted = max(Counter(word % slots for word in words).values())
        assert turns([lanes.flat(lane) for lane in span], width, banks) == counted


def test_rows_without_a_swizzle_meet_in_banks() -> None:
    """MFMA of 16 rows: as many turns as rows of LDS fit into half of the banks' bytes."""
    (reader,) = accesses(READS[16], READERS[0])
    assert [reader.turns(rows(chunks, (0,) * 4)) for chunks in (4, 8)] == [2, 4]


def test_the_swizzle_of_64_byte_rows_is_the_least_without_conflicts() -> None:
    found = swizzles(4, 4, [*accesses(READS[16], *READERS), *writes(4, 4)])
    assert next(found) == (0, 5, 6, 6)


@pytest.mark.parametrize(("chunks", "swizzle"), [(4, (0, 0, 4, 6)), (8, (0, 2, 4, 5))])
def test_the_swizzles_of_64_banks_have_no_conflicts(chunks: int, swizzle: tuple[int, ...]) -> None:
    reading = accesses(READS_64_BANKS[16], READERS[0])
    assert swizzle in swizzles(chunks, 4, [*reading, *writes(chunks, 4)], banks=64)
    # Tiles in pairs have five bits of rows, of which the swizzle takes four.
    (joined,) = accesses(READS_64_BANKS[16], JOINED)
    assert joined.turns(rows(chunks, (*swizzle, 0)), banks=64) == 1


@pytest.mark.parametrize(
    ("found", "span"),
    [
        (MFMA["16x16x16"], READS[16]),
        (MFMA["32x32x8"], READS[16]),
        (MFMA["16x16x32"], READS_64_BANKS[16]),
        (MFMA["32x32x16"], READS_64_BANKS[16]),
        (WMMA_GFX11, READS[16]),
        (WMMA_GFX11, NEIGHBOURS[16]),
        (WMMA_GFX12, NEIGHBOURS[16]),
    ],
)
def test_the_swizzle_of_attention_serves_keys_in_the_order_of_shares(
    found: Fragments, span: tuple[int, ...]
) -> None:
    """A lane reads 16 bytes along k, and the row of its key in tiles of joined scores."""
    lds, order = rows(8, (1, 2, 4, 5, 2, 1)), found.order(8)
    chunks = found.a.moving("lane", "k")
    words = []
    for bit in range(found.a.bits("lane")):
        image = [order.image("r", row)[0][1] for name, row in found.a.image("lane", bit)
                 if name == "r"]  # fmt: skip
        words.append(f"row{image[0]}" if image else f"chunk{chunks.index(bit)}" if chunks else "-")
    (reader,) = accesses(span, " ".join(words))
    assert reader.turns(lds, 64 if span == READS_64_BANKS[16] else 32) == 1


def test_the_swizzle_of_attention_serves_writes_of_rows() -> None:
    lds = rows(8, (1, 2, 4, 5, 2, 1))
    assert all(access.turns(lds) == 1 for access in writes(8, 6))


def test_no_swizzle_of_chunks_frees_reads_of_half_a_chunk() -> None:
    half = Access(Map.of(lane="row0-3 chunk0-1"), READS[8], width=8)
    assert not list(swizzles(4, 4, [half]))
