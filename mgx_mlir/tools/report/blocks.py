"""Blocks of a network that repeat, found in the order of its steps.

Steps of one kernel are alike, so that the layers of a network are runs of numbers that repeat, one
after another: 3 | 4 5 6 | 4 5 6 | 4 5 6 | 7. A picture shows a block as one box.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

# A block of one step repeats at least as often before it is one.
_LEAST_ALONE = 4
# The boxes that a picture shows at a time: longer rows of steps become boxes of their own.
_MOST_BOXES = 120


@dataclass(frozen=True)
class Block:
    """The steps `first` to `end` (exclusive): number `number` of `times` like ones.

    `times` is 1 for a part of a long row of unlike steps.
    """

    first: int
    end: int
    number: int = 1
    times: int = 1

    def to_json(self) -> dict[str, Any]:
        return asdict(self)


def blocks(kernels: Sequence[int]) -> list[Block]:
    """The blocks of steps with these kernels, in order, without overlaps; steps between them
    belong to none. A picture of the blocks and the other steps has at most some hundred boxes."""
    found = _repeated(kernels)
    boxes = len(kernels) - sum(block.end - block.first - 1 for block in found)
    return found if boxes <= _MOST_BOXES else _parted(found, len(kernels), boxes)


def _repeated(kernels: Sequence[int]) -> list[Block]:
    found: list[Block] = []
    place = 0
    while place < len(kernels):
        length, times = _best(kernels, place)
        if times < 2:
            place += 1
            continue
        for number in range(times):
            first = place + number * length
            found.append(Block(first, first + length, number + 1, times))
        place += length * times
    return found


def _best(kernels: Sequence[int], place: int) -> tuple[int, int]:
    """The period and the count of the repetition that covers most from a place on."""
    best, covered = (1, 1), 1
    # Another step of the same kernel begins each repetition.
    for next_one in (n for n in range(place + 1, len(kernels)) if kernels[n] == kernels[place]):
        length = next_one - place
        if place + 2 * length > len(kernels):
            break
        times = _times(kernels, place, length)
        if times * length > covered and times >= (_LEAST_ALONE if length == 1 else 2):
            best, covered = (length, times), times * length
    return best


def _times(kernels: Sequence[int], place: int, length: int) -> int:
    block, times = kernels[place : place + length], 1
    while kernels[place + times * length : place + (times + 1) * length] == block:
        times += 1
    return times


def _parted(found: list[Block], count: int, boxes: int) -> list[Block]:
    """The blocks, and parts of the steps between them, so that few boxes are left."""
    size = -(-boxes // _MOST_BOXES) + 1
    parts: list[Block] = []
    ends = [*((block.first, block.end, block) for block in found), (count, count, None)]
    place = 0
    for first, end, block in ends:
        for start in range(place, first, size):
            stop = min(start + size, first)
            if stop - start > 1:
                parts.append(Block(start, stop))
        if block is not None:
            parts.append(block)
        place = end
    return _joined(parts) if len(parts) > _MOST_BOXES else parts


def _joined(parts: list[Block]) -> list[Block]:
    """Neighbouring blocks as one, so that at most `_MOST_BOXES` are left."""
    size = -(-len(parts) // _MOST_BOXES)
    groups = [parts[n : n + size] for n in range(0, len(parts), size)]
    return [Block(group[0].first, group[-1].end) for group in groups]
