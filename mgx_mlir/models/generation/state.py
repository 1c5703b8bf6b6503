"""The inputs of a decoder's next step: tokens, masks, positions and the cache."""

from __future__ import annotations

from typing import Any

import numpy as np

from mgx_mlir.errors import UsageError
from mgx_mlir.models.generation.cache import Cache, cache_for
from mgx_mlir.models.generation.form import Form
from mgx_mlir.models.generation.last_rows import ROWS
from mgx_mlir.models.generation.signature import Signature


class State:
    """Sequences that grow by tokens. Each has its entries from `starts` to `filled`.

    Shorter prompts are padded on the left; on the right where each sequence has places of its own
    in the cache, from the first on.
    """

    def __init__(
        self, form: Form, signature: Signature, prompts: list[list[int]], room: int, pad: int
    ) -> None:
        """`room`: how many tokens may come after the prompts. Raises UsageError."""
        lengths = np.array([len(prompt) for prompt in prompts])
        longest = int(lengths.max())
        fixed = signature.fixed_length
        if fixed and longest + room > fixed:
            raise UsageError(
                f"a prompt of {longest} tokens and {room} new ones; the model's cache has "
                f"{fixed} places"
            )
        masks = ("attention_mask", "seqlens_k") if form is Form.GROUPED else ("attention_mask",)
        if lengths.min() < longest and not any(map(signature.has, masks)):
            raise UsageError("prompts of unequal length need a model with attention_mask")
        self.prompt = np.full((len(prompts), longest), pad, np.int64)
        right = form is Form.GROUPED
        for row, prompt in zip(self.prompt, prompts, strict=True):
            row[slice(0, len(prompt)) if right else slice(longest - len(prompt), None)] = prompt
        # The row of each prompt's last token.
        self.last = lengths - 1 if right else np.full_like(lengths, longest - 1)
        self._starts = np.zeros_like(lengths) if right else longest - lengths
        self._filled = np.zeros_like(lengths)
        self._signature = signature
        self.cache: Cache = cache_for(form, signature, len(prompts), longest, room)

    def inputs(self, ids: np.ndarray, rows: int) -> dict[str, Any]:
        """The inputs for tokens (batch, count) beside the cache, those that the model has.

        `rows`: how many of the last tokens get logits.
        """
        signature, past, count = self._signature, self.cache.past, ids.shape[1]
        ends = (self._filled + self._new(ids))[:, None]
        starts, filled = self._starts[:, None], self._filled[:, None]
        columns = np.arange(past + count)[None] - (past - filled)
        if not self.cache.behind:
            columns = np.broadcast_to(np.arange(past), (len(ids), past))
        first = past if self.cache.behind else int(self._filled.max())
        given = {
            "input_ids": ids,
            "attention_mask": (columns >= starts) & (columns < ends),
            "position_ids": np.maximum(filled + np.arange(count) - starts, 0),
            "cache_position": np.arange(first, first + count),
            "use_cache_branch": np.array([past > 0]),
            ROWS: np.zeros(rows),
        }
        if signature.has("seqlens_k"):
            given["seqlens_k"] = ends.reshape((-1, 1)[: signature.rank("seqlens_k")]) - 1
        if signature.has("total_sequence_length"):
            ranks = (1,) * signature.rank("total_sequence_length")
            given["total_sequence_length"] = np.full(ranks, columns.shape[1])
        return {
            name: value.astype(signature.dtype(name), order="C")
            for name, value in given.items()
            if signature.has(name)
        }

    def reserve(self, count: int) -> None:
        """Makes places in the cache for `count` more tokens of each sequence."""
        self.cache.reserve(int(self._filled.max()) + count)

    def _new(self, ids: np.ndarray) -> np.ndarray:
        """How many of the tokens each sequence keeps: padding on the right is none of it."""
        return self.last + 1 if not self._filled.any() else np.full_like(self.last, ids.shape[1])

    def advance(self, ids: np.ndarray, outputs: dict[str, Any]) -> None:
        """Keeps the entries of a step with these tokens and outputs."""
        self._filled = self._filled + self._new(ids)
        self.cache.store(outputs, ids.shape[1])

    def rewind(self, count: int) -> None:
        """Forgets the last `count` tokens of each sequence."""
        self._filled = self._filled - count
        self.cache.rewind(count)
