"""The choice of a variant and of a schedule, by the estimates of cost models.

    with heard() as found:
        code = compiler(kernel)(target)
    print(found.choices[0].describe())

Outside of `heard`, as when a kernel is compiled, a choice takes the minimum and records nothing.

    with steered(Schedule("tiles", "tile 64x64x32, ...")) as way:
        code = compiler(kernel)(target)     # that schedule, or a ScheduleError

Inside of `steered`, a choice takes the candidate with the schedule's words where it is legal.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any, TypeVar

from mgx_mlir.artifact.schedule import Schedule
from mgx_mlir.codegen.refusal import Refusal
from mgx_mlir.scopes import holding

T = TypeVar("T")
SHOWN = 5
# Estimates are off by roundings, which may be more than a bound is below.
_ROUNDED = 1 - 1e-9


@dataclass(frozen=True)
class Offer:
    """A variant of a family that takes a kernel, by a schedule in words.

    clocks: the estimate. generate: makes the program, or adds its functions. variant: its name.
    plan: the family's own form of the schedule.
    """

    schedule: str
    generate: Callable[[], Any]
    clocks: float
    variant: str = ""
    plan: object = None

    def __str__(self) -> str:
        return f"{self.schedule}, {self.clocks:,.0f} clocks"


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


@dataclass(frozen=True)
class Variants:
    """The answers of a family's variants for a kernel, by name; the least clocks are taken."""

    answers: Mapping[str, Offer | Refusal]

    def describe(self) -> str:
        """A line for each variant: the taken one, other offers, and refusals."""
        taken = _least_offer(self.answers)
        lines = []
        for name, answer in self.answers.items():
            verdict = "taken" if name == taken else "not taken"
            verdict = "refused" if isinstance(answer, Refusal) else verdict
            lines.append(f"  {name}, {verdict}: {answer}")
        return "\n".join(["variants:", *lines])


@dataclass
class Heard:
    """The choices that were made, and the variants that were asked, in order."""

    choices: list[Choice] = field(default_factory=list)
    variants: list[Variants] = field(default_factory=list)

    def describe(self) -> str:
        """All of them, in lines for people; '' where nothing was chosen."""
        variants = [one.describe() for one in self.variants]
        return "\n".join([*variants, *(one.describe() for one in self.choices)])


@dataclass
class Steering:
    """The schedule that choices are to take, and whether they found its variant and its words."""

    schedule: Schedule
    found: set[str] = field(default_factory=set)

    @property
    def met(self) -> bool:
        """Whether all of the schedule was found since the last `reset`."""
        wanted = {name for name in ("variant", "words") if getattr(self.schedule, name)}
        return wanted <= self.found


_HEARD: ContextVar[Heard | None] = ContextVar("heard", default=None)
_STEERING: ContextVar[Steering | None] = ContextVar("steering", default=None)
_TERMS: ContextVar[dict[str, float] | None] = ContextVar("terms", default=None)


def heard() -> AbstractContextManager[Heard]:
    """Gives a record that collects the choices made inside of the context."""
    found = Heard()
    return holding(_HEARD, found)


def steered(schedule: Schedule | None) -> AbstractContextManager[Steering | None]:
    """Choices made inside of the context take this schedule; with None they are free."""
    return holding(_STEERING, None if schedule is None else Steering(schedule))


def steering() -> Steering | None:
    """The schedule that choices are to take here, if any."""
    return _STEERING.get()


def best_offer(variants: Mapping[str, Callable[[], Offer | Refusal]]) -> Offer | Refusal:
    """The offer of the least clocks, the first among equals; the last refusal without offers.

    Inside of `heard` the answers are recorded, and the choices of the variant that is taken.
    Inside of `steered` the wanted variant is taken where it makes an offer.
    """
    listener, way = _HEARD.get(), _STEERING.get()
    if way is not None and way.schedule.variant in variants:
        offer = variants[way.schedule.variant]()
        if isinstance(offer, Offer):
            way.found.add("variant")
            if offer.schedule == way.schedule.words:
                way.found.add("words")
            return offer
    answers: dict[str, Offer | Refusal] = {}
    choices: dict[str, list[Choice]] = {}
    for name, ask in variants.items():
        with heard() if listener is not None else nullcontext(Heard()) as found:
            answers[name] = ask()
        choices[name] = found.choices
    taken = _least_offer(answers)
    if listener is not None:
        listener.variants.append(Variants(answers))
        listener.choices += choices[taken] if taken else []
    return answers[taken] if taken else list(answers.values())[-1]


def _least_offer(answers: Mapping[str, Offer | Refusal]) -> str | None:
    """The name of the offer of the least clocks, the first among equals; None without offers."""
    clocks = {name: offer.clocks for name, offer in answers.items() if isinstance(offer, Offer)}
    return min(clocks, key=lambda name: clocks[name], default=None)


def least(
    candidates: Iterable[T],
    estimate: Callable[[T], float],
    words: Callable[[T], str],
    bound: Callable[[T], float] = lambda _: 0,
) -> T | None:
    """The candidate with the least estimate in clocks, the first one among equals.

    None without candidates. bound: a number that the estimate is not below, to spare estimates.
    Inside of `steered`, candidates with the wanted words are preferred.
    """
    listener, way = _HEARD.get(), _STEERING.get()
    if way is not None and way.schedule.words:
        candidates = list(candidates)
        wanted = [one for one in candidates if words(one) == way.schedule.words]
        if wanted:
            way.found.add("words")
            candidates = wanted
    if listener is None:
        return _least(list(candidates), estimate, bound)
    found: list[tuple[T, Candidate]] = []
    for candidate in candidates:
        terms: dict[str, float] = {}
        with holding(_TERMS, terms):
            clocks = estimate(candidate)
        found.append((candidate, Candidate(words(candidate), clocks, terms)))
    found.sort(key=lambda pair: pair[1].clocks)
    if not found:
        return None
    listener.choices.append(Choice(tuple(one for _, one in found)))
    return found[0][0]


def _least(
    candidates: Sequence[T], estimate: Callable[[T], float], bound: Callable[[T], float]
) -> T | None:
    """`least`, by the estimates of the candidates whose bounds are not above the least one."""
    least, taken = math.inf, len(candidates)
    for low, number in sorted((bound(one), number) for number, one in enumerate(candidates)):
        if low * _ROUNDED > least:
            break
        least, taken = min((least, taken), (estimate(candidates[number]), number))
    return candidates[taken] if candidates else None


def terms(**values: float) -> None:
    """Records the terms of the estimate of the candidate under consideration."""
    into = _TERMS.get()
    if into is not None:
        into.update(values)
