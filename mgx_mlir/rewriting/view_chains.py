"""From layouts to view ops: the shortest chain of ops that gives a view, or that undoes it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cmp_to_key
from itertools import combinations, pairwise
from math import prod

from mgx_mlir.rewriting.views import Factor, Factors, Layout, row_major
from mgx_mlir.sizes.arithmetic import Number, Size, Symbol, exact, substitute


@dataclass(frozen=True)
class Change:
    """One view op to make: its name without 'mgx.', and its argument.

    'reshape' and 'multibroadcast' take a shape, 'transpose' a permutation, 'slice' the start
    and end of each dimension.
    """

    name: str
    argument: tuple[int, ...] | tuple[tuple[int, int], ...]


def changes(layout: Layout, source: Sequence[int]) -> list[Change] | None:
    """The view ops that give `layout` of a contiguous tensor of shape `source`.

    Reshape to the parts that the layout distinguishes, slice, transpose, reshape, broadcast,
    reshape; an op that changes nothing is left out. None where no such chain gives the layout
    (steps that do not divide a dimension, elements that overlap or run backwards).
    """
    if prod(layout.shape) == 0 or prod(source) == 0:
        return None
    few = layout.factors
    chains = [_chain(f, layout, list(source)) for f in (few, _at_dimensions(few, source))]
    return min((chain for chain in chains if chain is not None), key=len, default=None)


def _at_dimensions(factors: Factors, source: Sequence[int]) -> Factors:
    """The factors, split where a dimension of the source ends."""
    parted: list[Factor] = []
    steps = _of_some(factors, source)
    for size, stride in factors:
        for end in row_major(source):
            if not steps[stride] >= 1:
                continue
            outer, inner = exact(size * stride, end), exact(end, stride)
            if outer not in (None, 1) and inner not in (None, 1):
                parted.append((outer, end))
                size = inner
        parted.append((size, stride))
    return tuple(parted)


def _chain(factors: Factors, layout: Layout, now: list[int]) -> list[Change] | None:
    """The ops from a tensor of shape `now`, through one dimension for each factor, to `layout`."""
    moving = _falling((f for f in factors if f[1] != 0), now)
    if moving is None or not all(stride >= 0 for _, stride in moving):
        return None
    parts = _parts(moving, layout.offset, prod(now))
    if parts is None:
        return None
    sizes, starts, counts = parts
    steps: list[Change] = []

    def reshape(shape: Sequence[int]) -> None:
        if list(shape) != now:
            steps.append(Change("reshape", tuple(shape)))
            now[:] = shape

    if counts != sizes:
        sizes, starts, counts = _joined(sizes, starts, counts, now)
        if any(isinstance(n, Size) for n in _bounds_that_cut(sizes, starts, counts)):
            return None
        reshape(sizes)
        bounds = tuple((a, a + n) for a, n in zip(starts, counts, strict=True))
        steps.append(Change("slice", bounds))
        now[:] = counts
    permutation = [moving.index(f) for f in factors if f[1] != 0]
    if permutation != sorted(permutation):
        shape = [size for size, _ in moving]
        wide = [i for i, size in enumerate(now) if size != 1]
        if [now[i] for i in wide] == shape:
            # The tensor already has these dimensions, and some of size 1.
            permutation = _padded([wide[i] for i in permutation], now, layout.shape)
        else:
            reshape(shape)
        steps.append(Change("transpose", tuple(permutation)))
        now[:] = [now[i] for i in permutation]
    spread = _spread(layout.shape, factors)
    if spread is not None:
        narrow, dims = spread
        if narrow != [1] * (len(narrow) - len(now)) + now:  # a broadcast adds dimensions itself
            reshape(narrow)
        steps.append(Change("multibroadcast", tuple(dims)))
        now[:] = dims
    reshape(layout.shape)
    return steps


def _falling(factors: Iterable[Factor], source: Sequence[int]) -> list[Factor] | None:
    """Factors by falling stride; None where it is unknown which stride is larger."""
    found = list(factors)
    steps = _of_some(found, source)
    if not any(isinstance(stride, Size) for stride in steps):
        return sorted(found, key=lambda f: -f[1])
    if not all(a >= b or b >= a for a, b in combinations(steps.values(), 2)):
        return None

    def order(a: Factor, b: Factor) -> int:
        if a[1] == b[1]:
            return 0
        return -1 if steps[a[1]] >= steps[b[1]] else 1

    return sorted(found, key=cmp_to_key(order))


def _of_some(factors: Iterable[Factor], source: Sequence[Number]) -> dict[int, Number]:
    """The strides, and what they are to proofs: of no elements views are right in any order, so
    that no symbol is 0 that a dimension of the source is a multiple of."""
    single = [n.terms[0][0] for n in source if isinstance(n, Size) and len(n.terms) == 1]
    found = [atom for atoms in single for atom in atoms if isinstance(atom, Symbol)]
    known = {s.name: Size.of(replace(s, low=max(s.low, 1))) for s in found}
    return {n: substitute(n, known) if isinstance(n, Size) else n for _, n in factors}


def _bounds_that_cut(
    sizes: Sequence[int], starts: Sequence[int], counts: Sequence[int]
) -> Iterator[int]:
    """The starts and ends of a slice along the dimensions that it cuts."""
    for size, start, count in zip(sizes, starts, counts, strict=True):
        if (start, count) != (0, size):
            yield from (start, start + count)


def _parts(
    moving: Sequence[Factor], offset: int, elements: int
) -> tuple[list[int], list[int], list[int]] | None:
    """The sizes of the parts of the source that the factors, by falling stride, move along, with
    the start and the count of elements reached in each; parts without a factor have count 1."""
    sizes, starts, counts = [], [], []
    above = elements
    for size, stride in moving:
        have = exact(above, stride)
        start = 0 if offset < stride else offset // stride
        if have is None or not start + size <= have:
            return None
        sizes.append(have)
        starts.append(start)
        counts.append(size)
        offset -= start * stride
        above = stride
    if above != 1:
        sizes.append(above)
        starts.append(offset)
        counts.append(1)
    return sizes, starts, counts


def _joined(
    sizes: Sequence[int], starts: Sequence[int], counts: Sequence[int], shape: Sequence[int]
) -> tuple[list[int], list[int], list[int]]:
    """The parts with the tensor's own dimensions where both are the same but for ones."""
    wide = [i for i, size in enumerate(shape) if size != 1]
    if [shape[i] for i in wide] != list(sizes):
        return list(sizes), list(starts), list(counts)
    all_starts, all_counts = [0] * len(shape), [1] * len(shape)
    for i, start, count in zip(wide, starts, counts, strict=True):
        all_starts[i], all_counts[i] = start, count
    return list(shape), all_starts, all_counts


def _padded(wide: Sequence[int], shape: Sequence[int], wanted: Sequence[int]) -> list[int]:
    """A permutation of dimensions that are not 1, extended by those that are 1: where `wanted`
    has ones, or in front."""
    ones = [i for i, size in enumerate(shape) if size == 1]
    if [size for size in wanted if size != 1] != [shape[i] for i in wide]:
        return [*ones, *wide]
    if len(wanted) != len(shape):
        return [*ones, *wide]
    left, right = iter(ones), iter(wide)
    return [next(left) if size == 1 else next(right) for size in wanted]


def _spread(shape: Sequence[int], factors: Factors) -> tuple[list[int], list[int]] | None:
    """The shapes before and after the broadcast that repeats elements, None without one."""
    if all(stride != 0 for _, stride in factors):
        return None
    # By the result's own dimensions where each of them repeats as a whole or not at all.
    by_dimension = Layout(0, (factors,)).reshaped(shape)
    if by_dimension is not None:
        repeats = [{stride == 0 for size, stride in dim if size != 1} for dim in by_dimension.dims]
        if all(len(kinds) < 2 for kinds in repeats):
            pairs = zip(repeats, shape, strict=True)
            return [1 if True in kinds else size for kinds, size in pairs], list(shape)
    return [size if stride != 0 else 1 for size, stride in factors], [size for size, _ in factors]


def inverse(layout: Layout, source: Sequence[int]) -> Layout | None:
    """The view of `layout`'s result that gives back its source, of that shape.

    None where an element of the source occurs twice or not at all, or where strides cannot
    express how its shape splits the elements.
    """
    if layout.offset or prod(layout.shape) != prod(source):
        return None
    falling = _falling(layout.factors, source)
    least = _of_some(layout.factors, source)
    if falling is None or not all(stride >= 1 for stride in least.values()):
        return None  # and so the smallest is 1: the sizes' product is the source's
    if any(outer[1] != inner[0] * inner[1] for outer, inner in pairwise(falling)):
        return None
    steps = row_major([size for size, _ in layout.factors])
    place = dict(zip(layout.factors, steps, strict=True))
    back = Layout(0, tuple(((size, place[size, stride]),) for size, stride in falling))
    return back.reshaped(source)
