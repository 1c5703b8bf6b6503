"""Random choices: element types, shapes, axes, and arrays with the values that break things."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import ml_dtypes
import numpy as np

Array = np.ndarray
Type = np.dtype[Any]


def types(*names: Any) -> tuple[Type, ...]:
    return tuple(np.dtype(name) for name in names)


BF16 = np.dtype(ml_dtypes.bfloat16)
F16, F32, F64 = types("f2", "f4", "f8")
I8, I16, I32, I64, U8, U16, U32, U64 = types("i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8")
BOOL = np.dtype(bool)
SIGNED = (I8, I16, I32, I64)
UNSIGNED = (U8, U16, U32, U64)
INTEGERS = SIGNED + UNSIGNED
FLOATS = (F32, F64, F16, BF16)
PLAIN = (F32, F64, F16)
WIDE = (I32, I64, U32, U64)
NUMBERS = FLOATS + INTEGERS
ALL = (*NUMBERS, BOOL)
FLOATS8 = types(
    ml_dtypes.float8_e4m3fn,
    ml_dtypes.float8_e4m3fnuz,
    ml_dtypes.float8_e5m2,
    ml_dtypes.float8_e5m2fnuz,
)
_SIZES = (1, 2, 3, 4, 5, 6)
_LONG = (17, 33, 64, 130)


def is_float(dtype: Type) -> bool:
    return dtype.kind == "f" or dtype == BF16 or dtype in FLOATS8


@dataclass(frozen=True, eq=False)
class Fixed:
    """An input that is an initializer of the model."""

    array: Array


class Draw:
    """The random choices of one case; equal for an equal seed, on every machine."""

    def __init__(self, seed: str) -> None:
        self.rng = random.Random(seed)
        self.numpy = np.random.default_rng(self.rng.getrandbits(64))
        self.special = self.chance(0.3)  # NaN, infinities, the ends of integers
        self.empty = self.chance(0.06)  # sizes of 0

    def chance(self, share: float) -> bool:
        return self.rng.random() < share

    def pick(self, *options: Any) -> Any:
        return self.rng.choice(options)

    def among(self, options: Sequence[Any]) -> Any:
        return self.rng.choice(options)

    def between(self, low: int, high: int) -> int:
        return self.rng.randint(low, high)

    def shape(self, low: int = 0, high: int = 4, empty: bool = True) -> list[int]:
        """A shape of `low` to `high` dimensions; of no elements only where `empty` allows it."""
        found = [self.among(_SIZES) for _ in range(self.between(low, high))]
        if found and self.empty and empty:
            found[self.rng.randrange(len(found))] = 0
        if found and self.chance(0.05):
            found[-1] = self.among(_LONG)
        return found

    def broadcast(self, shape: Sequence[int]) -> list[int]:
        """A shape that broadcasts to this one."""
        kept = shape[len(shape) - self.between(0, len(shape)) :]
        return [1 if self.chance(0.3) else size for size in kept]

    def axis(self, rank: int) -> int:
        return self._signed(self.rng.randrange(rank), rank)

    def axes(self, rank: int) -> list[int]:
        """One or more distinct axes, some of them negative."""
        count = self.between(1, rank) if rank else 0
        return [self._signed(axis, rank) for axis in self.rng.sample(range(rank), count)]

    def _signed(self, axis: int, rank: int) -> int:
        return axis - rank if self.chance(0.4) else axis

    def array(
        self,
        shape: Sequence[int],
        dtype: Type,
        low: float | None = None,
        high: float | None = None,
        special: bool | None = None,
    ) -> Array:
        """An array; between `low` and `high` where they are given, else small numbers."""
        if dtype == BOOL:
            return np.asarray(self.numpy.random(shape) < 0.5)
        bounded = low is not None and high is not None
        special = (self.special if special is None else special) and not bounded
        if is_float(dtype):
            found = self.numpy.standard_normal(shape) * self.pick(1, 3, 0.3)
            if bounded:
                found = self.numpy.uniform(low, high, shape)
            return self._marked(np.asarray(found).astype(dtype), _odd_floats, special)
        least = low if low is not None else -9 if dtype.kind == "i" else 0
        most = high if high is not None else 9
        found = self.numpy.integers(int(least), int(most), shape, endpoint=True)
        return self._marked(np.asarray(found).astype(dtype), _odd_integers, special)

    def _marked(self, array: Array, odd: Any, special: bool) -> Array:
        """The array with some elements replaced by values that are special."""
        if not special or not array.size or array.dtype in FLOATS8:
            return array
        flat = array.reshape(-1).copy()
        values = odd(array.dtype)
        for _ in range(max(1, flat.size // 5)):
            flat[self.rng.randrange(flat.size)] = self.among(values)
        return flat.reshape(array.shape)

    def plain(self, shape: Sequence[int], dtype: Type = F32) -> Array:
        """An array without special values."""
        return self.array(shape, dtype, special=False)

    def positive(self, shape: Sequence[int], dtype: Type = F32) -> Array:
        return (np.abs(self.plain(shape, dtype)) + np.asarray(0.1, dtype)).astype(dtype)

    def fixed(self, array: Array, share: float = 1.0) -> Array | Fixed:
        """The array as an initializer in this share of the cases, else as an input."""
        return Fixed(array) if self.chance(share) else array

    def ints(self, values: Any, share: float = 1.0) -> Array | Fixed:
        """An int64 tensor of axes, sizes and the like."""
        return self.fixed(np.asarray(values, np.int64), share)


def _odd_floats(dtype: Type) -> list[Array]:
    limits = ml_dtypes.finfo(dtype)
    values = (np.nan, np.inf, -np.inf, -0.0, 0.0, 0.5, -0.5, 1.5, 2.5, -2.5, 1, -1)
    return [np.asarray(v).astype(dtype) for v in (*values, limits.max, limits.tiny)]


def _odd_integers(dtype: Type) -> list[int]:
    limits = np.iinfo(dtype)
    return [int(limits.min), int(limits.max), int(limits.max) // 2, 0, 1]
