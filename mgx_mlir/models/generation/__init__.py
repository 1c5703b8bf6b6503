"""Text of decoders: prompts in, tokens out, one at a time.

    decoder = Decoder("model.onnx", target="cpu")
    for tokens in decoder.stream([[1, 15, 7], [1, 9]], max_new_tokens=20):
        print(tokens)              # the next token of each sequence; None where it has ended
    sequences = generate("model.onnx", [[1, 15, 7]], temperature=0.7, top_p=0.9, stop=[2])

Decoders are those that optimum exports: `input_ids`, `attention_mask`, `position_ids` and
`past_key_values.*` to `logits` and `present.*`. One program for any sizes runs the prompt and each
step where the model has one, else programs for the sizes met.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import fields
from typing import Any

import numpy as np

from mgx_mlir.errors import Edge, UsageError
from mgx_mlir.models.generation.cache import Signature
from mgx_mlir.models.generation.sampling import Sampling
from mgx_mlir.models.staged import Model

__all__ = ["Decoder", "Sampling", "generate"]


class Decoder:
    """A decoder with a cache. Any number of threads may use it.

    Takes the arguments of `Model`. Raises what it raises, and UnsupportedError where the model's
    inputs and outputs are not those of a decoder.
    """

    @Edge("reading the model")
    def __init__(self, model: Any, target: Any = "cpu", options: Any = None, **arguments: Any):
        # Each step has new sizes: programs for given ones do not pay.
        arguments = {"warm": None, **arguments}
        self.model = Model(model, target, options, **arguments)
        self._signature = Signature.of(self.model.input_types, self.model.outputs)

    @Edge("generating")
    def stream(
        self,
        prompt_ids: Sequence[Sequence[int]],
        *,
        max_new_tokens: int = 128,
        stop: Sequence[int] = (),
        pad: int = 0,
        sampling: Sampling | None = None,
    ) -> Iterator[list[int | None]]:
        """The next token of each prompt, step by step; None for a sequence that has ended.

        A sequence ends after a token of `stop`, and after `max_new_tokens`. Shorter prompts are
        padded with `pad` on the left. Raises UsageError where a prompt is empty, or an argument is
        out of its range, UnsupportedError where unequal prompts meet a model without a mask.
        """
        sampling = sampling or Sampling()
        sampling.check()
        prompts = [[int(token) for token in prompt] for prompt in prompt_ids]
        if not prompts or not all(prompts):
            raise UsageError("a prompt is empty; give each at least one token")
        if max_new_tokens < 1:
            raise UsageError(f"max_new_tokens is {max_new_tokens}; it is 1 or more")
        return self._steps(prompts, max_new_tokens, frozenset(stop), pad, sampling)

    def generate(self, prompt_ids: Sequence[Sequence[int]], **arguments: Any) -> list[list[int]]:
        """The new tokens of each prompt, without the token that ended it. Arguments: `stream`'s."""
        stop = frozenset(arguments.get("stop", ()))
        found: list[list[int]] = [[] for _ in prompt_ids]
        for tokens in self.stream(prompt_ids, **arguments):
            for own, token in zip(found, tokens, strict=True):
                if token is not None and token not in stop:
                    own.append(token)
        return found

    def _steps(
        self,
        prompts: list[list[int]],
        most: int,
        stop: frozenset[int],
        pad: int,
        sampling: Sampling,
    ) -> Iterator[list[int | None]]:
        state = _State(self._signature, prompts, most, pad)
        generators = sampling.generators(len(prompts))
        seen = [list(prompt) for prompt in prompts]
        ended = [False] * len(prompts)
        for _ in range(most):
            outputs = self.model.run(state.inputs())
            logits = outputs["logits"][:, -1]
            tokens: list[int | None] = []
            for number, row in enumerate(logits):
                token = None
                if not ended[number]:
                    token = sampling.choose(row, seen[number], generators[number])
                    seen[number].append(token)
                    ended[number] = token in stop
                tokens.append(token)
            yield tokens
            if all(ended):
                return
            state.advance(outputs, [pad if token is None else token for token in tokens])


class _State:
    """The inputs of a decoder's next step."""

    def __init__(self, signature: Signature, prompts: list[list[int]], most: int, pad: int) -> None:
        longest = max(map(len, prompts))
        self._signature = signature
        self._ids = np.full((len(prompts), longest), pad, np.int64)
        mask = np.zeros_like(self._ids)
        for row, (ids, own) in enumerate(zip(self._ids, mask, strict=True)):
            ids[longest - len(prompts[row]) :] = prompts[row]
            own[longest - len(prompts[row]) :] = 1
        if not mask.all() and not signature.has("attention_mask"):
            raise UsageError("prompts of unequal length need a model with attention_mask")
        # A cache that holds one masked entry has sizes that a program for any takes; without
        # positions of its own, a model would count the entry.
        empty = int(signature.has("attention_mask") and signature.has("position_ids"))
        self._past = empty
        self._mask = np.concatenate([np.zeros((len(prompts), empty), np.int64), mask], 1)
        self._caches: dict[str, Any] = signature.empty(len(prompts), empty)

    def inputs(self) -> dict[str, Any]:
        """The inputs by name, those that the model has."""
        length = self._ids.shape[1]
        places = np.maximum(self._mask.cumsum(1) - 1, 0)[:, -length:]
        given = {
            "input_ids": self._ids,
            "attention_mask": self._mask,
            "position_ids": places,
            "cache_position": np.arange(self._past, self._past + length),
            "use_cache_branch": np.array([self._past > 0]),
        }
        made = {
            name: value.astype(self._signature.dtype(name))
            for name, value in given.items()
            if self._signature.has(name)
        }
        return {**made, **self._caches}

    def advance(self, outputs: dict[str, Any], tokens: Sequence[int]) -> None:
        """Makes the step after one with these outputs, whose inputs are the chosen tokens."""
        self._past += self._ids.shape[1]
        self._caches = self._signature.following(outputs)
        self._ids = np.asarray(tokens, np.int64)[:, None]
        self._mask = np.concatenate([self._mask, np.ones_like(self._ids)], 1)


def generate(
    model: Any,
    prompt_ids: Sequence[Sequence[int]],
    target: Any = "cpu",
    options: Any = None,
    *,
    max_new_tokens: int = 128,
    stop: Sequence[int] = (),
    pad: int = 0,
    **keywords: Any,
) -> list[list[int]]:
    """The new tokens of each prompt, without the token that ended it.

    `model` is a Decoder, or what `Model` takes. Keywords are the fields of Sampling, and else
    arguments of `Model`. Errors as `Decoder.stream`'s.
    """
    names = {field.name for field in fields(Sampling)}
    sampling = Sampling(**{n: v for n, v in keywords.items() if n in names})
    rest = {n: v for n, v in keywords.items() if n not in names}
    decoder = model if isinstance(model, Decoder) else Decoder(model, target, options, **rest)
    return decoder.generate(
        prompt_ids, max_new_tokens=max_new_tokens, stop=stop, pad=pad, sampling=sampling
    )
