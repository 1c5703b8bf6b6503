"""Speculative decoding: a draft model proposes tokens, and the model checks them in one step.

Source: Leviathan, Kalman and Matias, "Fast Inference from Transformers via Speculative Decoding",
2023: a proposal of probability q is taken with probability min(1, p / q), else a token is drawn
from max(0, p - q), so that tokens have the model's probabilities p.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Protocol

import numpy as np

from mgx_mlir.errors import UsageError
from mgx_mlir.models.generation.sampling import Sampling, draw


class Steps(Protocol):
    """A decoder with the state of one sequence."""

    def prompt(self) -> np.ndarray: ...
    def step(self, tokens: Sequence[Sequence[int]]) -> np.ndarray: ...
    def rewind(self, count: int) -> None: ...


def speculate(
    pair: tuple[Steps, Steps],
    prompt: Sequence[int],
    most: int,
    stop: frozenset[int],
    sampling: Sampling,
    count: int,
) -> Iterator[list[int | None]]:
    """The tokens of one sequence, at most `most`, by a model and its draft.

    `count` are proposed for each step of the model.
    """
    model, draft = pair
    (generator,) = sampling.generators(1)
    seen = list(prompt)
    logits = model.prompt()[0]
    shares = partial(sampling.shares, stop=stop)
    found = [draw(shares(logits, seen), generator)]
    if draft.prompt().shape[-1] != logits.shape[-1]:
        raise UsageError("the draft model has other tokens: its logits differ in number")
    given = 0
    unseen = found  # tokens that the draft model has not had
    while True:
        for token in found:
            yield [token]
            given += 1
            seen.append(token)
            if token in stop or given == most:
                return
        proposed, beliefs = _proposals(draft, unseen, seen, shares, generator, count)
        logits = model.step([[seen[-1], *proposed]])[0]
        found = _accepted(logits, proposed, beliefs, seen, shares, generator)
        taken = len(found) - 1
        model.rewind(count - taken)
        draft.rewind(max(count - 1 - taken, 0))
        unseen = found[-2:] if taken == count else found[-1:]


def _proposals(
    draft: Steps,
    unseen: Sequence[int],
    seen: Sequence[int],
    shares_of: Callable[..., np.ndarray],
    generator: np.random.Generator,
    count: int,
) -> tuple[list[int], list[np.ndarray]]:
    """Tokens, and the probabilities that each was drawn by."""
    proposed: list[int] = []
    beliefs = []
    for _ in range(count):
        logits = draft.step([proposed[-1:] or unseen])[0, -1]
        beliefs.append(shares_of(logits, [*seen, *proposed]))
        proposed.append(draw(beliefs[-1], generator))
    return proposed, beliefs


def _accepted(
    logits: np.ndarray,
    proposed: Sequence[int],
    beliefs: Sequence[np.ndarray],
    seen: Sequence[int],
    shares_of: Callable[..., np.ndarray],
    generator: np.random.Generator,
) -> list[int]:
    """The first proposals, as far as they are taken, and a token of the model's own."""
    for number, (token, belief) in enumerate(zip(proposed, beliefs, strict=True)):
        shares = shares_of(logits[number], [*seen, *proposed[:number]])
        if generator.random() * belief[token] >= shares[token]:
            rest = np.maximum(shares - belief, 0)
            own = draw(rest if rest.any() else shares, generator)
            return [*proposed[:number], own]
    own = draw(shares_of(logits[-1], [*seen, *proposed]), generator)
    return [*proposed, own]
