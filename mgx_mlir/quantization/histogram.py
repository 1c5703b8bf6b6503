"""The distribution of a tensor's elements over many samples, and the range that suits it."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

# Bins of a histogram, half of them for negative numbers; those of wider ranges are merged in pairs.
BINS = 4096
_PIECE = 1 << 20
# Shares of the widest range that a search tries.
_SHARES = np.geomspace(1, 0.02, 48)
# The share of older samples in a moving average, and the share of elements inside a percentile.
_KEPT = 0.9
_INSIDE = 0.9999
# The least share of elements inside a range by entropy, which does not see how far those outside
# are moved: what few distinct elements tell of it is a range that leaves the largest out.
_LEAST_INSIDE = 0.99

Range = tuple[float, float]


class Observer:
    """The statistics of a tensor: its extremes, their moving averages, a histogram, channel means.

    Takes the same memory for any number of samples. `channel` is the axis whose means are kept;
    None for none.
    """

    def __init__(self, channel: int | None = None) -> None:
        self.low, self.high = np.inf, -np.inf
        self.average: Range | None = None
        self.zeros = 0
        self.width = 0.0
        self.counts = np.zeros(BINS, np.int64)
        self._channel = channel
        self._sum: np.ndarray | None = None
        self._elements = 0

    def add(self, array: np.ndarray) -> None:
        """Counts the elements of a finite f32 tensor."""
        if not array.size:
            return
        low, high = float(array.min()), float(array.max())
        self.low, self.high = min(self.low, low), max(self.high, high)
        old = self.average or (low, high)
        self.average = (
            _KEPT * old[0] + (1 - _KEPT) * low,
            _KEPT * old[1] + (1 - _KEPT) * high,
        )
        self._count(array, max(-low, high))
        if self._channel is not None:
            axis = self._channel % array.ndim
            others = tuple(i for i in range(array.ndim) if i != axis)
            total = array.sum(others, dtype=np.float64)
            if self._sum is not None and self._sum.shape != total.shape:
                self._channel = self._sum = None  # the channels are no fixed number
                return
            self._sum = total if self._sum is None else self._sum + total
            self._elements += array.size // array.shape[axis]

    def means(self) -> np.ndarray | None:
        """The mean of each channel, f64; None where none are kept."""
        return None if self._sum is None else self._sum / self._elements

    def _count(self, array: np.ndarray, largest: float) -> None:
        half = BINS // 2
        if largest and not self.width:
            self.width = largest / (half - 1)
        while largest >= self.width * half and largest:
            merged = self.counts.reshape(-1, 2).sum(1)
            self.counts = np.pad(merged, BINS // 4)
            self.width *= 2
        flat = array.reshape(-1)
        for start in range(0, flat.size, _PIECE):
            piece = flat[start : start + _PIECE]
            piece = piece[piece != 0]
            self.zeros += min(_PIECE, flat.size - start) - piece.size
            if piece.size:
                places = np.floor(piece.astype(np.float64) / self.width).astype(np.int64) + half
                self.counts += np.bincount(places, minlength=BINS)

    def bins(self) -> tuple[np.ndarray, np.ndarray]:
        """The centres of the bins that hold elements, and their counts; zeros have their own."""
        held = np.flatnonzero(self.counts)
        centres = np.clip((held - BINS // 2 + 0.5) * self.width, self.low, self.high)
        return np.append(centres, 0.0), np.append(self.counts[held], self.zeros)


def minmax(observer: Observer) -> Range:
    """From the smallest to the largest element."""
    return observer.low, observer.high


def moving_average(observer: Observer) -> Range:
    """Moving averages of the extremes of each sample."""
    assert observer.average is not None
    return observer.average


def percentile(observer: Observer) -> Range:
    """The range that leaves out one element in 10,000, half of them on each side."""
    centres, counts = observer.bins()
    order = np.argsort(centres)
    shares = np.cumsum(counts[order]) / counts.sum()
    tail = (1 - _INSIDE) / 2
    low = centres[order][np.searchsorted(shares, tail, "right")]
    high = centres[order][min(int(np.searchsorted(shares, 1 - tail)), len(order) - 1)]
    return (observer.low if observer.low == 0 else float(low)), float(high)


def mse(observer: Observer) -> Range:
    """The range of the least mean square error of 256 levels."""
    centres, counts = observer.bins()

    def cost(low: float, high: float) -> float:
        scale = (high - low) / 255
        nearest = np.round(np.clip(centres, low, high) / scale) * scale
        return float((counts * np.square(nearest - centres)).sum())

    return _searched(observer, cost)


def entropy(observer: Observer) -> Range:
    """The range whose 256 levels have the least Kullback-Leibler divergence from the elements."""
    centres, counts = observer.bins()
    # Zeros are exact in every range: they say nothing about it.
    centres, counts = centres[:-1], counts[:-1].astype(np.float64)

    def cost(low: float, high: float) -> float:
        inside = (centres >= low) & (centres <= high)
        if counts[inside].sum() < _LEAST_INSIDE * counts.sum():
            return np.inf
        reference = np.where(inside, counts, 0)
        levels = np.round((centres[inside] - low) / (high - low) * 255).astype(np.int64)
        sums = np.bincount(levels, counts[inside], 256)
        shared = sums / np.maximum(np.bincount(levels, minlength=256), 1)
        places = np.flatnonzero(inside)
        # Values outside count at the ends, where the levels do not have it.
        reference[places[0]] += counts[centres < low].sum()
        reference[places[-1]] += counts[centres > high].sum()
        p = reference[inside] / counts.sum()
        q = shared[levels] / counts[inside].sum()
        return float((p * np.log(p / q)).sum())

    return _searched(observer, cost) if counts.size else minmax(observer)


def _searched(observer: Observer, cost: Callable[[float, float], float]) -> Range:
    """The range of least cost: both ends drawn in together, then each by itself."""
    low, high = min(observer.low, 0.0), max(observer.high, 0.0)
    if high == low:
        return low, high
    best = min(_SHARES, key=lambda share: cost(low * share, high * share))
    ends = [low * best, high * best]
    for side, end in ((0, low), (1, high)):
        tried = [end * share for share in _SHARES] if end else []
        ends[side] = min(
            (ends[side], *tried),
            key=lambda at: cost(*((at, ends[1]) if side == 0 else (ends[0], at))),
        )
    return float(ends[0]), float(ends[1])


METHODS: dict[str, Callable[[Observer], Range]] = {
    "entropy": entropy,
    "minmax": minmax,
    "moving-average": moving_average,
    "mse": mse,
    "percentile": percentile,
}
