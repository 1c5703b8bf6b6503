"""Blocks that repeat."""

from __future__ import annotations

import random

import pytest

from mgx_mlir.tools.report.blocks import Block, blocks


def test_layers_are_blocks() -> None:
    assert blocks([3, 4, 5, 4, 5, 4, 5, 6]) == [
        Block(1, 3, 1, 3), Block(3, 5, 2, 3), Block(5, 7, 3, 3)
    ]  # fmt: skip


def test_the_longest_repetition_is_taken() -> None:
    # Two of seven steps, not three pairs in each.
    layer = [1, 2, 1, 2, 1, 2, 9]
    assert [(b.first, b.end) for b in blocks(layer * 2)] == [(0, 7), (7, 14)]


def test_three_equal_steps_are_no_blocks() -> None:
    assert blocks([7, 7, 7, 8]) == [] and len(blocks([7, 7, 7, 7, 8])) == 4


@pytest.mark.parametrize("seed", range(20))
def test_blocks_are_in_order_and_boxes_few(seed: int) -> None:
    pick = random.Random(seed)
    kernels = [
        pick.randrange(pick.choice([3, 50, 4000])) for _ in range(pick.choice([5, 90, 2500]))
    ]
    found = blocks(kernels)
    ends = [0, *(b.end for b in found)]
    assert all(end <= b.first < b.end <= len(kernels) for end, b in zip(ends, found, strict=False))
    assert len(kernels) - sum(b.end - b.first - 1 for b in found) <= 130
