"""Parts of tensors: which elements of each dimension are wanted, and how views change that.

A part of a dimension is a range of its elements, or of the indices of one factor. With the cut
((2, 4), place 1, 0 .. 1) of the 8 rows of a tensor<8x3xf32>, rows 0 and 4 are wanted: the first
of the four rows of each of two batches.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import chain
from math import prod

from mlir import ir

from mgx_mlir.dialects import mgx
from mgx_mlir.rewriting.queries import shape


@dataclass(frozen=True)
class Cut:
    """Elements start .. end of factor `place` of a dimension split into factors, slowest first."""

    split: tuple[int, ...]
    place: int
    start: int
    end: int

    @property
    def size(self) -> int:
        """The number of elements of the dimension that are left."""
        return prod(self.split) // self.split[self.place] * (self.end - self.start)


# One cut for each dimension of a tensor; None where all of it is wanted.
Cuts = tuple[Cut | None, ...]


def cut_sizes(dims: Sequence[int], cuts: Cuts) -> list[int]:
    """The sizes of a part of a tensor of shape `dims`."""
    return [size if cut is None else cut.size for size, cut in zip(dims, cuts, strict=True)]


def cut_value(value: ir.Value, cuts: Cuts) -> ir.Value:
    """The part of a value, as views."""
    dims = shape(value)
    splits = [(n,) if cut is None else cut.split for n, cut in zip(dims, cuts, strict=True)]
    axes, starts, ends = [], [], []
    for dim, cut in enumerate(cuts):
        if cut is not None:
            axes.append(sum(map(len, splits[:dim])) + cut.place)
            starts.append(cut.start)
            ends.append(cut.end)
    whole = mgx.reshape(value, list(chain(*splits)))
    return mgx.reshape(mgx.slice(whole, axes, starts, ends), cut_sizes(dims, cuts))


def through_reshape(cuts: Cuts, source: Sequence[int], result: Sequence[int]) -> Cuts | None:
    """The part of a reshape's operand that gives a part of its result; None if no cut does."""
    found: list[Cut | None] = [None] * len(source)
    if 0 in source:
        return None
    for mine, theirs in _groups(source, result):
        wanted = [(dim, cut) for dim in theirs if (cut := cuts[dim]) is not None]
        if not wanted:
            continue
        mine = [dim for dim in mine if source[dim] != 1]
        theirs = [dim for dim in theirs if result[dim] != 1]
        if [source[dim] for dim in mine] == [result[dim] for dim in theirs]:
            for dim, cut in wanted:
                found[mine[theirs.index(dim)]] = cut
            continue
        if len(wanted) > 1:
            return None
        ((own, cut),) = wanted
        if len(mine) == 1:
            parts = [cut.split if dim == own else (result[dim],) for dim in theirs]
            place = sum(map(len, parts[: theirs.index(own)])) + cut.place
            found[mine[0]] = Cut(tuple(chain(*parts)), place, cut.start, cut.end)
        elif len(theirs) == 1 and cut.split == tuple(source[dim] for dim in mine):
            size = cut.split[cut.place]
            found[mine[cut.place]] = Cut((size,), 0, cut.start, cut.end)
        else:
            return None
    return tuple(found)


def _groups(source: Sequence[int], result: Sequence[int]) -> Iterator[tuple[list[int], list[int]]]:
    """The finest groups of dimensions of two shapes that hold the same elements, in order."""
    i = j = 0
    while i < len(source) and j < len(result):
        mine, theirs = [i], [j]
        a, b = source[i], result[j]
        i, j = i + 1, j + 1
        while a != b:
            if a < b:
                mine.append(i)
                a, i = a * source[i], i + 1
            else:
                theirs.append(j)
                b, j = b * result[j], j + 1
        yield mine, theirs
