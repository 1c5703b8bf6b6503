"""The choice of a schedule by the estimate of a cost model, and the candidates.

    with heard() as choices:
        code = compiler(kernel)(target)
    print(choices[0].describe())

Outside of `heard`, as when a kernel is compiled, a choice takes the minimum and records nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import TypeVar

T = TypeVar("T")
SHOWN = 5


@dataclass(frozen=True)
class Candidate:
    """A schedule in words, its estimate in clocks, and the terms of the estimate."""

    words: str
    clocks: float
    terms: Mapping[str, float]

    def describe(self) -> str:
        """The candidate in words, one line."""
        terms = ", ".join(f"{name} {round(value):,}" for name, value in self.terms.items())
        return f"{self.clocks:>12,.0f} clocks  {self.words}{f' ({terms})' if terms else ''}"


@dataclass(frozen=True)
class Choice:
    """The candidates of one choice; the chosen one comes first."""

    candidates: tuple[Candidate, ...]

    def describe(self, shown: int = SHOWN) -> str:
        """The best `shown` ones, and the worst, a line each."""
        best, count = self.candidates[:shown], len(self.candidates)
        lines = [f"{number + 1:>5} {one.describe()}" for number, one in enumerate(best)]
        if count > shown:
            lines.append(f"{count:>5} {self.candidates[-1].describe()}")
        return "\n".join([f"{count} legal schedules, by their estimates:", *lines])


_CHOICES: ContextVar[list[Choice] | None] = ContextVar("choices", default=None)
_TERMS: ContextVar[dict[str, float] | None] = ContextVar("terms", default=None)


@contextmanager
def heard() -> Iterator[list[Choice]]:
    """Yields a list that collects the choices made inside of the context, in order."""
    found: list[Choice] = []
    token = _CHOICES.set(found)
    try:
        yield found
    finally:
        _CHOICES.reset(token)


def least(
    candidates: Iterable[T], estimate: Callable[[T], float], words: Callable[[T], str]
) -> T | None:
    """The candidate with the least estimate in clocks, the first one among equals.

    None without candidates.
    """
    listener = _CHOICES.get()
    if listener is None:
        return min(candidates, key=estimate, default=None)
    found: list[tuple[T, Candidate]] = []
    for candidate in candidates:
        terms: dict[str, float] = {}
        token = _TERMS.set(terms)
        try:
            clocks = estimate(candidate)
        finally:
            _TERMS.reset(token)
        found.append((candidate, Candidate(words(candidate), clocks, terms)))
    found.sort(key=lambda pair: pair[1].clocks)
    if not found:
        return None
    listener.append(Choice(tuple(one for _, one in found)))
    return found[0][0]


def terms(**values: float) -> None:
    """Records the terms of the estimate of the candidate under consideration."""
    into = _TERMS.get()
    if into is not None:
        into.update(values)
