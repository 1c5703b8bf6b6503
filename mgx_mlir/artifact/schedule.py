"""The schedule of one kernel for one chip, as databases and artifacts hold it.

It names decisions, and holds no code: a generator compares it with the schedules that it finds
legal, so that one that was made to harm can at most be slow.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

Origin = Literal["user", "system"]
ORIGINS: tuple[Origin, ...] = ("user", "system")
MAX_WORDS = 1000


@dataclass(frozen=True, order=True)
class Schedule:
    """A variant of a family, '' for any, and a schedule of it in words, '' for the best estimate.

    The words are those that `mgx inspect --why --kernel NAME` lists.
    """

    variant: str = ""
    words: str = ""

    def __str__(self) -> str:
        return ": ".join(filter(None, (self.variant, self.words))) or "the best estimate"

    def to_json(self) -> list[str]:
        return [self.variant, self.words]

    @classmethod
    def from_json(cls, value: Any) -> Schedule:
        """Reads `to_json`'s form; ValueError for anything else."""
        if (
            not isinstance(value, list)
            or len(value) != 2
            or not all(isinstance(text, str) and len(text) <= MAX_WORDS for text in value)
        ):
            raise ValueError(f"a schedule is a variant and words, got {value!r:.80}")
        return cls(*value)


@dataclass(frozen=True)
class Tuned:
    """A schedule that tuning chose, and its source.

    origin: the database that it was first taken from. modelled: whether it was chosen by the clocks
    of the emulated device's model, and not by times on a GPU.
    """

    schedule: Schedule
    origin: Origin
    modelled: bool

    def describe(self) -> str:
        """The source in words."""
        how = "by modelled clocks" if self.modelled else "by measured times"
        return f"chosen {how}, in the {self.origin}'s tuning database"

    def to_json(self) -> list[Any]:
        return [*self.schedule.to_json(), self.origin, self.modelled]

    @classmethod
    def from_json(cls, value: Any) -> Tuned:
        """Reads `to_json`'s form; ValueError for anything else."""
        if not isinstance(value, list) or len(value) != 4 or type(value[3]) is not bool:
            raise ValueError(
                f"a tuned schedule is variant, words, origin and a bool, got {value!r:.80}"
            )
        if value[2] not in ORIGINS:
            raise ValueError(f"a schedule's origin is one of {', '.join(ORIGINS)}")
        return cls(Schedule.from_json(value[:2]), value[2], value[3])
