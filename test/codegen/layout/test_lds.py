"""Bank conflicts by ranks, against counting them; the swizzles in use, against a search."""

from __future__ import annotations

import random
from collections import Counter

import pytest

from mgx_mlir.codegen.layout.lds import SWIZZLES, swizzle
from mgx_mlir.codegen.layout.map import Map
from test.codegen.layout.banks import (
    NEIGHBOURS,
    READS,
    READS_64_BANKS,
    Access,
    rows,
    swizzles,
    turns,
)

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
ATTENTION = swizzle(*SWIZZLES[32, 8])
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
    assert [reader.turns(rows(chunks, swizzle(0, 0, 0, 0))) for chunks in (4, 8)] == [2, 4]


def test_the_swizzle_of_64_byte_rows_is_the_least_without_conflicts() -> None:
    found = swizzles(4, 4, [*accesses(READS[16], *READERS), *writes(4, 4)])
    assert next(found) == SWIZZLES[32, 4]


@pytest.mark.parametrize("chunks", [4, 8])
def test_the_swizzles_of_64_banks_have_no_conflicts(chunks: int) -> None:
    values = SWIZZLES[64, chunks]
    reading = accesses(READS_64_BANKS[16], READERS[0])
    assert values in swizzles(chunks, 4, [*reading, *writes(chunks, 4)], banks=64)
    # Tiles in pairs have five bits of rows, of which the swizzle takes four.
    (joined,) = accesses(READS_64_BANKS[16], JOINED)
    assert joined.turns(rows(chunks, swizzle(*values, 0)), banks=64) == 1


def test_the_swizzle_of_attention_serves_writes_of_rows() -> None:
    lds = rows(8, ATTENTION)
    assert all(access.turns(lds) == 1 for access in writes(8, 6))


def test_no_swizzle_of_chunks_frees_reads_of_half_a_chunk() -> None:
    half = Access(Map.of(lane="row0-3 chunk0-1"), READS[8], width=8)
    assert not list(swizzles(4, 4, [half]))
