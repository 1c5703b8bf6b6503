"""MIGraphX's `shape`: an element type, lengths, and strides or dimensions with bounds."""

from __future__ import annotations

import enum
from collections.abc import Iterable, Mapping, Sequence
from math import prod
from operator import index
from typing import Any, TypeAlias

import numpy as np

from mgx_mlir.artifact.element_types import numpy_dtype
from mgx_mlir.elements import ELEMENTS
from mgx_mlir.errors import Edge, UsageError
from mgx_mlir.sizes.arithmetic import Symbol, bounds, symbols
from mgx_mlir.sizes.parser import parse

# Numpy's types by MIGraphX's names, in the order of its enum.
_DTYPES = {row.migraphx: numpy_dtype(row.numpy) for row in ELEMENTS if row.migraphx}
# The most that a dimension without an upper bound is given.
ENDLESS_DIM = (1 << 63) - 1


class Numbered(enum.IntEnum):
    """An enum of MIGraphX: its members are numbers, and show their names."""

    __str__ = enum.Enum.__str__
    __format__ = enum.Enum.__format__  # type: ignore[assignment]


_ENUM: Any = Numbered
type_t = _ENUM("type_t", [*_DTYPES, "tuple_type"], start=0)
_NAME_OF = {dtype: name for name, dtype in _DTYPES.items()}


def dtype_of(name: str | int) -> np.dtype:
    """The numpy type of an element type's name: 'float', 'float_type', 'uint8', 'uint8_t'; or of
    its number in `type_t`. Raises UsageError where there is none.
    """
    text = type_t(name).name if isinstance(name, int) and name in list(type_t) else str(name)
    known = text if text in _DTYPES else text.removesuffix("_t").removesuffix("_type") + "_type"
    if known not in _DTYPES:
        raise UsageError(f"'{text}' is no element type; there are {', '.join(_DTYPES)}")
    return _DTYPES[known]


def type_name(dtype: np.dtype) -> str:
    """MIGraphX's name of a numpy type. Raises UsageError where it has none."""
    if dtype not in _NAME_OF:
        raise UsageError(f"MIGraphX has no element type for {dtype}")
    return _NAME_OF[dtype]


class dynamic_dimension:
    """The sizes from `min` to `max` that a dimension may have, and those to be best at.

    Dimensions of one `name` have the same size in each run, '2*name' twice as much; names do not
    count where dimensions are compared. As in MIGraphX `dynamic_dimension("2*n", {"n":
    dynamic_dimension(1, 8)})` has a formula for its name, and the bounds that follow from those of
    its symbols; `expression` and `symbols` name these two. Without arguments the size is 0. Raises
    UsageError for bounds that leave no size, and for what is no formula.
    """

    min: int
    max: int
    optimals: set[int]
    name: str

    @Edge("making a dimension")
    def __init__(
        self,
        min: int | str = 0,
        max: int | Mapping[str, dynamic_dimension] | None = None,
        optimals: Iterable[int] = (),
        name: str = "",
        *,
        expression: str = "",
        symbols: Mapping[str, dynamic_dimension] | None = None,
    ) -> None:
        if expression:
            min, max = expression, symbols or {}
        max = 0 if max is None and min == 0 else max
        if isinstance(min, str) and isinstance(max, Mapping):
            known = {symbol: dim._symbol(symbol) for symbol, dim in max.items()}
            min, max, optimals, name = _of_formula(min, known)
        if isinstance(min, str) or not isinstance(max, int) or not 0 <= min <= max:
            raise UsageError(f"a dimension cannot go from {min} to {max}")
        self.min, self.max, self.optimals, self.name = min, max, set(optimals), name

    @staticmethod
    def of(text: str, known: Mapping[str, Symbol]) -> dynamic_dimension:
        """The dimension of a formula. Raises UsageError for what is none of `known` symbols."""
        return dynamic_dimension(*_of_formula(text, known))

    def _symbol(self, name: str) -> Symbol:
        high = None if self.max >= ENDLESS_DIM else self.max
        return Symbol(name, self.min, high, tuple(sorted(self.optimals)))

    def is_symbolic(self) -> bool:
        """Whether its size has a name in a run, or a formula."""
        return bool(self.name) and not self.is_fixed()

    def is_fixed(self) -> bool:
        """Whether only one size is possible."""
        return self.min == self.max

    def __eq__(self, other: object) -> bool:
        return isinstance(other, dynamic_dimension) and self._key() == other._key()

    def __hash__(self) -> int:
        return hash(self._key())

    def _key(self) -> tuple[object, ...]:
        return self.min, self.max, frozenset(self.optimals)

    def __repr__(self) -> str:
        best = f", {{{', '.join(map(str, sorted(self.optimals)))}}}" if self.optimals else ""
        return f"[{self.min}, {self.max}{best}]"


_Dimension: TypeAlias = dynamic_dimension


def _of_formula(text: str, known: Mapping[str, Symbol]) -> tuple[int, int, Iterable[int], str]:
    """The bounds, the best sizes and the name of a dimension that a formula of symbols gives."""
    try:
        size = parse(text, known)
    except ValueError as error:
        raise UsageError(str(error)) from None
    if unknown := sorted({symbol.name for symbol in symbols(size)} - known.keys()):
        raise UsageError(f"'{text}' has symbols without bounds: {', '.join(unknown)}")
    low, high = bounds(size)
    best = known[text].optimals if text in known else ()
    return int(max(low, 0)), int(min(high, ENDLESS_DIM)), best, str(size)


class shape:
    """A tensor's element type (`type`), sizes (`lens`) and `strides` in elements.

    Without strides it is row-major; `permutation` gives the order of the dimensions in memory,
    outermost first; `dyn_dims` gives dimensions with bounds in place of sizes. Raises UsageError
    for an unknown type, or strides and sizes of different lengths.
    """

    type_t = type_t
    dynamic_dimension = dynamic_dimension

    @Edge("making a shape")
    def __init__(
        self,
        *,
        type: str | int = "float",
        lens: Sequence[int] | None = None,
        strides: Sequence[int] | None = None,
        permutation: Sequence[int] | None = None,
        dyn_dims: Sequence[_Dimension] = (),
        sub_shapes: Sequence[shape] = (),
    ) -> None:
        self._parts = tuple(sub_shapes)
        self._lens: tuple[int, ...] = ()
        self._strides: tuple[int, ...] = ()
        self._dims = tuple(dyn_dims)
        if self._parts:
            self._name = "tuple_type"
            return
        self._name = type_name(dtype_of(type))
        self._lens = (1,) if lens is None else tuple(index(n) for n in lens)
        if self._dims:
            self._lens = ()
            return
        if any(not 0 <= n < 1 << 63 for n in self._lens):
            raise UsageError(f"sizes are from 0 to 2^63-1: {list(self._lens)}")
        if strides is None:
            # A shape of which only the type is given is a scalar.
            strides = (0,) if lens is None else _packed_strides(self._lens, permutation)
        self._strides = tuple(int(n) for n in strides)
        if len(self._strides) != len(self._lens):
            raise UsageError(f"{len(self._lens)} sizes have {len(self._strides)} strides")

    def type(self) -> Any:
        """The element type, of the enum `type_t`."""
        return type_t[self._name]

    def type_string(self) -> str:
        """The element type's name, such as 'float_type'."""
        return self._name

    def type_size(self) -> int:
        """Bytes of an element."""
        return self.dtype.itemsize

    def lens(self) -> list[int]:
        """The sizes."""
        return list(self._lens)

    def strides(self) -> list[int]:
        """The strides, in elements."""
        return list(self._strides)

    def ndim(self) -> int:
        """The number of dimensions."""
        return len(self._dims or self._lens)

    def dyn_dims(self) -> list[_Dimension]:
        """The dimensions with bounds; empty where all sizes are known."""
        return list(self._dims)

    def sub_shapes(self) -> list[shape]:
        """The shapes of a tuple's parts."""
        return list(self._parts)

    def elements(self) -> int:
        """The number of elements."""
        return prod(self._lens)

    def bytes(self) -> int:
        """Bytes from the first element's to the last one's."""
        return self._space() * self.type_size()

    def dynamic(self) -> bool:
        """Whether a size is not known."""
        return bool(self._dims) or any(part.dynamic() for part in self._parts)

    def packed(self) -> bool:
        """Whether the elements fill the memory that they span."""
        return not self._parts and self.elements() == self._space()

    def broadcasted(self) -> bool:
        """Whether elements share memory along a dimension."""
        return bool(self._strides) and 0 in self._strides

    def scalar(self) -> bool:
        """Whether all elements are one in memory."""
        return bool(self._strides) and not any(self._strides)

    def transposed(self) -> bool:
        """Whether the dimensions lie in memory in another order."""
        steps = [step for step in self._strides if step]
        return steps != sorted(steps, reverse=True)

    def standard(self) -> bool:
        """Whether the tensor is row-major."""
        if self._parts or self._dims:
            return False
        return self.elements() == 1 or self._strides == _packed_strides(self._lens, None)

    @property
    def dtype(self) -> np.dtype:
        """The element type, as numpy's. Raises UsageError for a tuple."""
        if self._parts:
            raise UsageError("a tuple has no element type")
        return dtype_of(self._name)

    def _space(self) -> int:
        if not self.elements():
            return 0
        return 1 + sum((n - 1) * step for n, step in zip(self._lens, self._strides, strict=True))

    def _key(self) -> tuple[object, ...]:
        return self._name, self._lens, self._strides, self._dims, self._parts

    def __eq__(self, other: object) -> bool:
        return isinstance(other, shape) and self._key() == other._key()

    def __hash__(self) -> int:
        return hash(self._key())

    def __repr__(self) -> str:
        if self._parts:
            return f"[{', '.join(map(repr, self._parts))}]"
        if self._dims:
            return f"dynamic, {self._name}, {{{', '.join(map(repr, self._dims))}}}"
        sizes, steps = (", ".join(map(str, part)) for part in (self._lens, self._strides))
        return f"{self._name}, {{{sizes}}}, {{{steps}}}"


def _packed_strides(lens: Sequence[int], permutation: Sequence[int] | None) -> tuple[int, ...]:
    """The strides of a tensor without gaps whose dimensions lie in that order."""
    order = range(len(lens)) if permutation is None else permutation
    if sorted(order) != list(range(len(lens))):
        raise UsageError(f"{list(order)} is no permutation of {len(lens)} dimensions")
    strides, step = [0] * len(lens), 1
    for axis in reversed(order):
        strides[axis] = step
        step *= max(lens[axis], 1)
    return tuple(strides)
