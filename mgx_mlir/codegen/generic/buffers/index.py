"""Index arithmetic: built with constants folded, and as linear forms of loop variables."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from mlir import ir
from mlir.dialects import arith

from mgx_mlir.codegen.generic.buffers.memory import Index


class IndexBuilder:
    """Emits index arithmetic at the current insertion point.

    Constants are built once, at the function's entry. Sums and products are marked as
    never wrapping around where the caller knows it: that lets the backend use one scalar
    base with a 32-bit offset.
    """

    def __init__(self, entry: ir.Block) -> None:
        self._entry = entry
        self._constants: dict[int, ir.Value] = {}
        self._type = ir.IndexType.get()
        self._no_wrap = ir.Attribute.parse("#arith.overflow<nsw, nuw>")

    def value(self, index: Index) -> ir.Value:
        """`index` as a value."""
        if isinstance(index, ir.Value):
            return index
        if index not in self._constants:
            with ir.InsertionPoint.at_block_begin(self._entry):
                self._constants[index] = arith.constant(self._type, index)
        return self._constants[index]

    def add(self, a: Index, b: Index, wraps: bool = False) -> Index:
        if isinstance(a, int) and isinstance(b, int):
            return a + b
        if isinstance(a, int) and a == 0:
            return b
        if isinstance(b, int) and b == 0:
            return a
        flags = None if wraps else self._no_wrap
        return arith.addi(self.value(a), self.value(b), overflow_flags=flags)

    def mul(self, a: Index, b: Index, wraps: bool = False) -> Index:
        if isinstance(a, int) and isinstance(b, int):
            return a * b
        for one, other in ((a, b), (b, a)):
            if isinstance(one, int) and one in (0, 1):
                return other if one else 0
        flags = None if wraps else self._no_wrap
        return arith.muli(self.value(a), self.value(b), overflow_flags=flags)

    def divide(self, a: Index, b: int) -> Index:
        """a / b, rounded towards zero, for a that is not negative."""
        if b == 1:
            return a
        return a // b if isinstance(a, int) else arith.divui(a, self.value(b))

    def remainder(self, a: Index, b: int) -> Index:
        """a mod b, for a that is not negative."""
        if b == 1:
            return 0
        return a % b if isinstance(a, int) else arith.remui(a, self.value(b))

    def evaluate(self, expression: ir.AffineExpr, dims: Sequence[Index]) -> Index:
        """An affine expression of dimensions that hold no negative value."""
        if isinstance(expression, ir.AffineConstantExpr):
            return expression.value
        if isinstance(expression, ir.AffineDimExpr):
            return dims[expression.position]
        if not isinstance(expression, ir.AffineBinaryExpr):
            raise ValueError(f"index expression {expression} is not supported")
        a, b = self.evaluate(expression.lhs, dims), self.evaluate(expression.rhs, dims)
        if isinstance(expression, ir.AffineAddExpr):
            return self.add(a, b, wraps=True)
        if isinstance(expression, ir.AffineMulExpr):
            return self.mul(a, b, wraps=True)
        if isinstance(b, int) and isinstance(expression, ir.AffineFloorDivExpr):
            return self._floor(a, b) if _subtracts(expression.lhs) else self.divide(a, b)
        if isinstance(b, int) and isinstance(expression, ir.AffineModExpr):
            if not _subtracts(expression.lhs):
                return self.remainder(a, b)
            return self.add(a, self.mul(self._floor(a, b), -b, wraps=True), wraps=True)
        if isinstance(b, int) and isinstance(expression, ir.AffineCeilDivExpr):
            return self.divide(self.add(a, b - 1), b)
        raise ValueError(f"index expression {expression} is not supported")

    def _floor(self, a: Index, b: int) -> Index:
        """a / b, rounded down, for any a."""
        return a // b if isinstance(a, int) else arith.floordivsi(a, self.value(b))


@dataclass
class LinearForm:
    """constant + the sum of coefficient * dimension + the sum of `rest`.

    `rest` holds the terms that are not linear (quotients and remainders), each with a factor.
    """

    constant: int = 0
    coefficients: dict[int, int] = field(default_factory=dict)
    rest: list[tuple[ir.AffineExpr, int]] = field(default_factory=list)

    def coefficient(self, dim: int) -> int:
        return self.coefficients.get(dim, 0)

    @property
    def wraps(self) -> bool:
        """Whether a partial sum may be negative."""
        return self.constant < 0 or any(c < 0 for c in self.coefficients.values())

    def rest_uses(self, dim: int) -> bool:
        return any(_uses(expression, dim) for expression, _ in self.rest)

    def add(self, expression: ir.AffineExpr, factor: int) -> None:
        """Adds `expression` times `factor`."""
        if isinstance(expression, ir.AffineConstantExpr):
            self.constant += expression.value * factor
        elif isinstance(expression, ir.AffineDimExpr):
            dim = expression.position
            self.coefficients[dim] = self.coefficient(dim) + factor
        elif isinstance(expression, ir.AffineAddExpr):
            self.add(expression.lhs, factor)
            self.add(expression.rhs, factor)
        elif isinstance(expression, ir.AffineMulExpr) and isinstance(
            expression.rhs, ir.AffineConstantExpr
        ):
            self.add(expression.lhs, factor * expression.rhs.value)
        else:
            self.rest.append((expression, factor))


def linear_form(map_: ir.AffineMap, strides: Sequence[int]) -> LinearForm:
    """The element offset that `map_` followed by `strides` gives."""
    form = LinearForm()
    for expression, stride in zip(map_.results, strides, strict=True):
        form.add(expression, stride)
    return form


def extents(maps: Sequence[ir.AffineMap], shapes: Sequence[Sequence[int]], dims: int) -> list[int]:
    """The size of each dimension, taken from the maps' results that are a single dimension."""
    sizes: list[int | None] = [None] * dims
    for map_, shape in zip(maps, shapes, strict=True):
        for expression, size in zip(map_.results, shape, strict=True):
            if isinstance(expression, ir.AffineDimExpr):
                sizes[expression.position] = size
    if None in sizes:
        raise ValueError(f"no operand gives the size of dimension {sizes.index(None)}")
    return [size for size in sizes if size is not None]


def delinearise(build: IndexBuilder, index: Index, sizes: Sequence[int]) -> list[Index]:
    """The coordinates of element `index` of a row-major space of `sizes`."""
    coordinates: list[Index] = []
    for size in reversed(sizes[1:]):
        coordinates.append(build.remainder(index, size))
        index = build.divide(index, size)
    # The quotient left of a valid index is less than the first size already.
    coordinates.extend([index] * bool(sizes))
    return coordinates[::-1]


def _subtracts(expression: ir.AffineExpr) -> bool:
    """Whether an expression of dimensions that hold no negative value may be negative.

    MLIR takes multiples of the divisor out of what is divided: (5 - d0) floordiv 5 becomes
    1 + (-d0) floordiv 5.
    """
    if isinstance(expression, ir.AffineConstantExpr):
        return bool(expression.value < 0)
    if not isinstance(expression, ir.AffineBinaryExpr):
        return False
    return _subtracts(expression.lhs) or _subtracts(expression.rhs)


def _uses(expression: ir.AffineExpr, dim: int) -> bool:
    return _any_dim(expression, lambda position: position == dim)


def _any_dim(expression: ir.AffineExpr, test: Callable[[int], bool]) -> bool:
    if isinstance(expression, ir.AffineDimExpr):
        return test(expression.position)
    if isinstance(expression, ir.AffineBinaryExpr):
        return _any_dim(expression.lhs, test) or _any_dim(expression.rhs, test)
    return False
