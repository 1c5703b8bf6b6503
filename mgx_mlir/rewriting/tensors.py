"""Memory of a program's tensors: its size, and the intervals of steps in which it is alive."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

Interval: TypeAlias = tuple[int, int]


@dataclass
class Tensor:
    """Memory that one or more values share: `size` bytes, alive in some intervals.

    `output` is the number of the caller's tensor that it is, -1 for one in the arena.
    """

    size: int
    lives: list[Interval] = field(default_factory=list)
    offset: int = 0
    output: int = -1
    # Where only launches without a decision between them use the tensor, these launches as bits
    # by their numbers: those that make it, those that make or read it, and those its makers need.
    makers: int = 0
    users: int = 0
    needed: int = 0

    @property
    def first(self) -> int:
        return min(start for start, _ in self.lives)

    @property
    def last(self) -> int:
        return max(end for _, end in self.lives)

    def meets(self, other: Tensor) -> bool:
        """Whether both are alive at one time."""
        return any(a <= d and c <= b for a, b in self.lives for c, d in other.lives)

    def may_meet(self, other: Tensor) -> bool:
        """Whether both may be alive at one time if launches wait only for the inputs they read."""
        if not self.makers or not other.makers:
            return False
        return bool(self.users & ~other.needed) and bool(other.users & ~self.needed)


def lower_bound(tensors: Sequence[Tensor]) -> int:
    """The largest sum of sizes of tensors that are alive at one time: no arena is smaller."""
    changes: dict[int, int] = {}
    for tensor in tensors:
        for start, end in merged(tensor.lives):
            changes[start] = changes.get(start, 0) + tensor.size
            changes[end + 1] = changes.get(end + 1, 0) - tensor.size
    most = alive = 0
    for position in sorted(changes):
        alive += changes[position]
        most = max(most, alive)
    return most


def conflict(source: Tensor, target: Tensor, at: int) -> bool:
    """Whether two tensors are alive at one time, apart from the copy of one to the other."""
    return any(
        a <= d and c <= b and not (b == at == c)
        for a, b in merged(source.lives)
        for c, d in merged(target.lives)
    )


def merged(lives: list[Interval]) -> list[Interval]:
    """The intervals in order, with touching ones merged."""
    result: list[Interval] = []
    for start, end in sorted(lives):
        if result and start <= result[-1][1]:
            result[-1] = (result[-1][0], max(end, result[-1][1]))
        else:
            result.append((start, end))
    return result
