"""The state of one run of a model: the seeds of its random numbers."""

from __future__ import annotations

import zlib
from collections import Counter

import numpy as np


class Context:
    """The draws of one run. Equal runs draw equal numbers; each trip of a loop draws its own."""

    def __init__(self, seed: int) -> None:
        self._seed = seed
        self._draws: Counter[str] = Counter()

    def generator(self, node: str, seed: int | None) -> np.random.RandomState:
        """The generator of a node's next draw; `seed` is the node's own, where it has one."""
        draw = self._draws[node]
        self._draws[node] += 1
        if seed is not None:
            return np.random.RandomState([seed, draw] if draw else seed)
        return np.random.RandomState([self._seed, zlib.crc32(node.encode()), draw])

    def mark(self) -> Counter[str]:
        """The draws so far, for `restore`."""
        return self._draws.copy()

    def restore(self, mark: Counter[str]) -> None:
        """Forgets the draws since the mark."""
        self._draws = mark.copy()
