"""Weights of 4 or 2 bits by blocks, packed as com.microsoft's MatMulNBits reads them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from mgx_mlir.sizes.arithmetic import ceil_div

_PIECE = 1 << 16
# Half-quadratic quantization: the norm of the error, its weight, and that weight's growth
# (Badri and Shaji, 2023, https://mobiusml.github.io/hqq_blog).
_NORM, _WEIGHT, _GROWTH, _ROUNDS = 0.7, 10.0, 1.01, 10


@dataclass(frozen=True)
class Blocks:
    """The form of a weight of `rows` output channels that sum `size` products each."""

    rows: int
    size: int
    block: int
    bits: int
    rounding: str

    @property
    def count(self) -> int:
        """The blocks of a row."""
        return ceil_div(self.size, self.block)

    def shapes(self) -> tuple[tuple[int, ...], tuple[int, ...], tuple[int, ...]]:
        """The shapes of the packed codes, of the scales and of the zero points."""
        packed = (self.rows, self.count, self.block * self.bits // 8)
        zeros = self.count if self.rounding == "hqq" else ceil_div(self.count * self.bits, 8)
        return packed, (self.rows * self.count,), (self.rows * zeros,)

    @property
    def zero_type(self) -> np.dtype:
        """The type of zero points: f32, or packed bytes."""
        return np.dtype(np.float32 if self.rounding == "hqq" else np.uint8)

    def quantize(self, weight: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Packed codes, scales and zero points of an f32 weight (rows, size), of any strides.

        Works row by row: beside the result it takes a few megabytes.
        """
        packed, scales, zeros = self.shapes()
        codes = np.empty(packed, np.uint8)
        all_scales = np.empty((self.rows, self.count), np.float32)
        all_zeros = np.empty((self.rows, zeros[0] // self.rows), self.zero_type)
        step = max(1, _PIECE // self.size)
        for start in range(0, self.rows, step):
            piece = slice(start, start + step)
            parts = self.stored(*self.codes(weight[piece]))
            codes[piece], all_scales[piece], all_zeros[piece] = parts
        return codes, all_scales.reshape(scales), all_zeros.reshape(zeros)

    def stored(
        self, codes: np.ndarray, scale: np.ndarray, zero: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Codes, scales and zero points as they are stored, with a row for each of the weight."""
        packed = pack(codes.astype(np.uint8), self.bits)
        zero = zero[..., 0]
        return packed, scale[..., 0], zero if self.rounding == "hqq" else self._packed_zeros(zero)

    def _blocked(self, rows: np.ndarray) -> np.ndarray:
        """Rows in blocks (rows, count, block); the last one is filled up with its last element."""
        rows = np.ascontiguousarray(rows)
        missing = self.count * self.block - self.size
        filled = np.pad(rows, ((0, 0), (0, missing)), "edge") if missing else rows
        return filled.reshape(len(rows), self.count, self.block)

    def codes(self, rows: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Codes (rows, count, block) as floats; scales and zero points (rows, count, 1)."""
        blocks = self._blocked(rows)
        most = (1 << self.bits) - 1
        scale, zero = grid(blocks, self.bits)
        codes = np.clip(np.round(blocks / scale) + zero, 0, most)
        if self.rounding == "hqq":
            codes, zero = _refined(blocks, scale, zero, codes, most)
        return codes, scale, zero

    def _packed_zeros(self, zero: np.ndarray) -> np.ndarray:
        per_byte = 8 // self.bits
        missing = -self.count % per_byte
        return pack(np.pad(zero.astype(np.uint8), ((0, 0), (0, missing))), self.bits)


def grid(blocks: np.ndarray, bits: int) -> tuple[np.ndarray, np.ndarray]:
    """The scale and the zero point (a whole number) of each block: (..., 1)."""
    low = np.minimum(blocks.min(-1, keepdims=True), 0)
    high = np.maximum(blocks.max(-1, keepdims=True), 0)
    scale = (high - low) / np.float32((1 << bits) - 1)
    scale = np.where(scale >= np.finfo(np.float32).tiny, scale, np.float32(1))
    return scale, np.round(-low / scale)


def pack(codes: np.ndarray, bits: int) -> np.ndarray:
    """Codes (..., size) of a few bits in bytes, the first in the lowest bits."""
    per_byte = 8 // bits
    parts = codes.reshape(*codes.shape[:-1], -1, per_byte)
    shifts = np.arange(per_byte, dtype=np.uint8) * bits
    return np.bitwise_or.reduce(parts << shifts, -1).astype(np.uint8)


def _refined(
    blocks: np.ndarray, scale: np.ndarray, zero: np.ndarray, codes: np.ndarray, most: int
) -> tuple[np.ndarray, np.ndarray]:
    """Codes and zero points (no whole numbers) of a smaller error in a norm that spares outliers.

    Each block keeps its best step, so that none gets worse.
    """
    best_codes, best_zero = codes, zero
    least = _error(blocks, scale, zero, codes)
    weight = _WEIGHT
    for _ in range(_ROUNDS):
        difference = blocks - scale * (codes - zero)
        size = np.abs(difference)
        floor = np.float32(1e-12)
        shrunk = size - np.power(np.maximum(size, floor), np.float32(_NORM - 1)) / np.float32(
            weight
        )
        sparse = np.sign(difference) * np.maximum(shrunk, 0)
        zero = (codes - (blocks - sparse) / scale).mean(-1, keepdims=True, dtype=np.float32)
        codes = np.clip(np.round(blocks / scale + zero), 0, most)
        error = _error(blocks, scale, zero, codes)
        better = error < least
        if not better.any():
            break
        best_codes = np.where(better, codes, best_codes)
        best_zero = np.where(better, zero, best_zero)
        least = np.minimum(error, least)
        weight *= _GROWTH
    return best_codes, best_zero


def _error(
    blocks: np.ndarray, scale: np.ndarray, zero: np.ndarray, codes: np.ndarray
) -> np.ndarray:
    """The mean absolute error of each block."""
    return np.abs(blocks - scale * (codes - zero)).mean(-1, keepdims=True)
