"""Tensors that share a scale, because elements are only moved or chosen between them."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

Tensor = TypeVar("Tensor", bound=Hashable)
# The tensors whose elements one is made of by moving them; None where its maker computes.
Carried = Callable[[Tensor], "Sequence[Tensor] | None"]
# The most elements of a weight that gains less by 8 bits than to quantize an input costs.
_SMALL = 1 << 20


@dataclass
class Group(Generic[Tensor]):
    """Tensors of one scale. The `roots` are those that no other member makes."""

    members: list[Tensor]
    roots: list[Tensor]

    def take(self, other: Group[Tensor]) -> None:
        """Adds the tensors of another group."""
        self.members += [name for name in other.members if name not in self.members]
        self.roots += [name for name in other.roots if name not in self.roots]


def groups_of(tensors: Sequence[Tensor], carried: Carried[Tensor]) -> list[Group[Tensor]]:
    """The tensors that are quantized for these, each with those that share its scale."""
    homes: dict[Tensor, Group[Tensor]] = {}
    for tensor in tensors:
        group: Group[Tensor] = Group([], [])
        for name, is_root in _sources(tensor, carried):
            other = homes.get(name)
            if other is not None and other is not group:
                group.take(other)
            if name not in group.members:
                group.members.append(name)
                if is_root:
                    group.roots.append(name)
        homes |= dict.fromkeys(group.members, group)
    return list({id(group): group for group in homes.values()}.values())


def _sources(tensor: Tensor, carried: Carried[Tensor]) -> Iterator[tuple[Tensor, bool]]:
    """A tensor and those that it is made of by moving elements; whether nothing moved them."""
    waiting, seen = [tensor], set()
    while waiting:
        name = waiting.pop()
        if name in seen:
            continue
        seen.add(name)
        sources = carried(name)
        yield name, sources is None
        waiting += sources or []


def is_moved(tensor: Tensor, carried: Carried[Tensor], is_input: Callable[[Tensor], bool]) -> bool:
    """Whether a tensor is an input of the program, or only moved from some."""
    waiting = [tensor]
    while waiting:
        name = waiting.pop()
        if is_input(name):
            continue
        sources = carried(name)
        if not sources:
            return False
        waiting += sources
    return True


def least_gain(sizes: Sequence[int]) -> int:
    """The most elements of a weight whose product is not quantized where it reads an input.

    `sizes` are those of all weights. No kernel makes an input and could quantize it too: that
    takes a launch of its own, which costs more than 8 bits gain.
    """
    return min(_SMALL, sum(sizes) // 10)
