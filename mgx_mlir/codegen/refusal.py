"""Refusals: why a generator does not take a kernel, or why a schedule is illegal."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Refusal:
    """The reason of a refusal, for people: a clause such as 'K = 4 is below 8'.

    A function that checks returns `Refusal | None`, and None where nothing is wrong. A function
    that makes something returns `X | Refusal`, and `X | Refusal | None` where None says that the
    work is not of its kind, which is no reason to tell.
    """

    reason: str

    def __str__(self) -> str:
        return self.reason

    def of(self, subject: str) -> Refusal:
        """The same, of a subject that is named first: 'mgx.dot: K = 4 is below 8'."""
        return Refusal(f"{subject}: {self.reason}")
