"""The choice of the next token from a model's logits."""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence
from dataclasses import dataclass

import numpy as np

from mgx_mlir.errors import UsageError


@dataclass(frozen=True)
class Sampling:
    """How tokens are chosen. A temperature of 0 takes the most likely token.

    Else logits are divided by `temperature`; the `top_k` greatest remain (0: all), of them the
    fewest whose probabilities sum to `top_p`, and one is drawn. `repetition_penalty` divides the
    positive logits of tokens that a sequence has, and multiplies the negative ones. Each sequence
    draws from a generator of its own, of `seed` and its number.
    """

    temperature: float = 0.0
    top_k: int = 0
    top_p: float = 1.0
    repetition_penalty: float = 1.0
    seed: int = 0
    min_length: int = 0
    no_repeat_ngram_size: int = 0

    def check(self) -> None:
        """Raises UsageError where a number is out of its range."""
        for name, value, good, range_ in (
            ("temperature", self.temperature, self.temperature >= 0, "0 or more"),
            ("top_k", self.top_k, self.top_k >= 0, "0 or more"),
            ("top_p", self.top_p, 0 < self.top_p <= 1, "above 0 and at most 1"),
            ("repetition_penalty", self.repetition_penalty, self.repetition_penalty > 0, "above 0"),
            ("seed", self.seed, self.seed >= 0, "0 or more"),
            ("min_length", self.min_length, self.min_length >= 0, "0 or more"),
            (
                "no_repeat_ngram_size",
                self.no_repeat_ngram_size,
                self.no_repeat_ngram_size >= 0,
                "0 or more",
            ),
        ):
            if not (good and math.isfinite(value)):
                raise UsageError(f"{name} is {value}; it is {range_}")

    def generators(self, count: int) -> list[np.random.Generator]:
        """The random generator of each sequence."""
        return [np.random.default_rng([self.seed, number]) for number in range(count)]

    def shares(
        self, logits: np.ndarray, seen: Sequence[int], stop: Collection[int] = ()
    ) -> np.ndarray:
        """The probability of each token, by its logits (vocabulary,), after the tokens `seen`.

        Tokens of `stop` end the sequence.
        """
        scores = logits.astype(np.float64)
        if self.repetition_penalty != 1 and seen:
            own = np.unique(np.asarray(seen))
            factor = np.where(scores[own] > 0, 1 / self.repetition_penalty, self.repetition_penalty)
            scores[own] *= factor
        barred = self._repeats(seen)
        if len(seen) < self.min_length:
            barred += [token for token in stop if token < len(scores)]
        scores[barred] = -np.inf
        found = np.zeros_like(scores)
        if self.temperature == 0:
            found[scores.argmax()] = 1
            return found
        order = np.argsort(-scores, kind="stable")[: self.top_k or None]
        shares = np.exp((scores[order] - scores[order[0]]) / self.temperature)
        shares /= shares.sum()
        kept = int(np.searchsorted(shares.cumsum(), self.top_p)) + 1
        found[order[:kept]] = shares[:kept] / shares[:kept].sum()
        return found

    def _repeats(self, seen: Sequence[int]) -> list[int]:
        """The tokens that would make the last tokens those of an earlier place."""
        count = self.no_repeat_ngram_size - 1
        if count < 0 or len(seen) < count:
            return []
        last = list(seen[len(seen) - count :])
        starts = range(len(seen) - count)
        return [seen[n + count] for n in starts if list(seen[n : n + count]) == last]

    def choose(
        self, logits: np.ndarray, seen: Sequence[int], generator: np.random.Generator,
        stop: Collection[int] = (),
    ) -> int:  # fmt: skip
        """A token by its logits (vocabulary,), after the tokens `seen`; `stop` as for `shares`."""
        return draw(self.shares(logits, seen, stop), generator)


def draw(shares: np.ndarray, generator: np.random.Generator) -> int:
    """A number by the probability of each."""
    (some,) = shares.nonzero()
    if len(some) == 1:
        return int(some[0])
    place = np.searchsorted(shares[some].cumsum(), generator.random() * shares.sum(), "right")
    return int(some[min(int(place), len(some) - 1)])
