"""A decoder with a cache: its program for any sizes runs the prompt, one for given sizes steps."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from mgx_mlir import loader
from mgx_mlir.artifact.record import Artifact
from mgx_mlir.errors import Edge, UsageError
from mgx_mlir.importer import loading
from mgx_mlir.models.generation.cache import GrowingCache
from mgx_mlir.models.generation.form import Form, arrange
from mgx_mlir.models.generation.last_rows import cut
from mgx_mlir.models.generation.memory import HostMemory, memory_for
from mgx_mlir.models.generation.sampling import Sampling
from mgx_mlir.models.generation.signature import Signature
from mgx_mlir.models.generation.speculation import speculate
from mgx_mlir.models.generation.state import State
from mgx_mlir.models.staged import Model
from mgx_mlir.runtime.arrays import host_array
from mgx_mlir.runtime.sized import SizedProgram

# The tokens of an answer where nothing limits it.
DEFAULT_TOKENS = 128


class Decoder:
    """A decoder with a cache. Any number of threads may use it.

    Takes the arguments of `Model`. Raises what it raises, and UnsupportedError where the model's
    inputs and outputs are not those of a decoder.
    """

    @Edge("reading the model")
    def __init__(self, model: Any, target: Any = "cpu", options: Any = None, **arguments: Any):
        model = loader.opened(model)
        form = Form.GROWING
        if not isinstance(model, Artifact):
            model = loading.load(model)
            reader = Model(model, target, options, **arguments)
            signature = Signature.of(reader.input_types, reader.outputs)
            sizes = {**(options.dim_params if options else {}), **arguments.get("dim_params", {})}
            form = arrange(model, signature, sizes)
            cut(model, "logits")
        if form is Form.GROWING:
            # Each step has new sizes: programs for given ones do not pay.
            arguments = {"warm": None, **arguments}
        self.form = form
        self.model = Model(model, target, options, **arguments)
        self._signature = Signature.of(self.model.input_types, self.model.outputs)

    def stream(
        self,
        prompt_ids: Sequence[Sequence[int]],
        *,
        max_new_tokens: int = DEFAULT_TOKENS,
        stop: Sequence[int] = (),
        pad: int = 0,
        sampling: Sampling | None = None,
        draft: Decoder | None = None,
        draft_tokens: int = 4,
    ) -> Iterator[list[int | None]]:
        """The next token of each prompt, step by step; None for a sequence that has ended.

        A sequence ends after a token of `stop`, and after `max_new_tokens`. Shorter prompts are
        padded with `pad`. With a smaller decoder of the same tokens as `draft`, for one prompt,
        that proposes `draft_tokens` for each step of this one, which takes those that it would
        have chosen: the tokens of a temperature of 0 stay, others have the same probabilities.
        Raises UsageError where a prompt is empty, or an argument is out of its range,
        UnsupportedError where unequal prompts meet a model without a mask.
        """
        with Edge("generating"):
            sampling = sampling or Sampling()
            sampling.check()
            prompts = [_ids(prompt) for prompt in _listed(prompt_ids)]
            if not prompts or not all(prompts):
                raise UsageError("a prompt is empty; give each at least one token")
            for name, value in (("max_new_tokens", max_new_tokens), ("draft_tokens", draft_tokens)):
                if value < 1:
                    raise UsageError(f"{name} is {value}; it is 1 or more")
            if draft is not None and len(prompts) > 1:
                raise UsageError(f"a draft model is for one prompt; there are {len(prompts)}")
            stops = frozenset(stop)
            if draft is None:
                return self._steps(prompts, max_new_tokens, stops, pad, sampling)
            room = max_new_tokens + draft_tokens
            pair = (Run(self, prompts, room, pad), Run(draft, prompts, room, pad))
            return speculate(pair, prompts[0], max_new_tokens, stops, sampling, draft_tokens)

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
        run = Run(self, prompts, most, pad)
        generators = sampling.generators(len(prompts))
        seen = [list(prompt) for prompt in prompts]
        ended = [False] * len(prompts)
        logits = run.prompt()
        for left in reversed(range(most)):
            tokens: list[int | None] = []
            for number, row in enumerate(logits):
                token = None
                if not ended[number]:
                    token = sampling.choose(row, seen[number], generators[number], stop)
                    seen[number].append(token)
                    ended[number] = token in stop
                tokens.append(token)
            yield tokens
            if all(ended) or not left:
                return
            logits = run.step([[pad if token is None else token] for token in tokens])[:, -1]


def _listed(prompts: Any) -> Any:
    """The prompts, one after another, also those of a tensor of two dimensions."""
    is_list = isinstance(prompts, list | tuple)
    found = prompts if is_list else host_array(prompts, "prompt_ids")
    if not is_list and found.ndim != 2:
        raise UsageError(f"prompt_ids has the shape {list(found.shape)}; it is a list of prompts")
    return found


def _ids(prompt: Any) -> list[int]:
    """The tokens of a prompt. Raises UsageError where it holds other than whole numbers."""
    array = host_array(prompt, "a prompt")
    if array.ndim != 1 or (array.size and array.dtype.kind not in "iu"):
        raise UsageError(
            "a prompt is a list of token ids, which are whole numbers; got "
            f"{array.dtype.name}{list(array.shape)}"
        )
    return [int(token) for token in array]


class Run:
    """A decoder with the state of some sequences."""

    def __init__(self, decoder: Decoder, prompts: list[list[int]], room: int, pad: int) -> None:
        """`room`: how many tokens may come after the prompts."""
        self._model, self._signature = decoder.model, decoder._signature
        self._state = State(decoder.form, self._signature, prompts, room, pad)
        self._memory: Any = None

    def prompt(self) -> np.ndarray:
        """The logits (batch, vocabulary) after the prompts."""
        last, ids = self._state.last, self._state.prompt
        first = int(last.min())  # the rows before it are nobody's last
        logits = self.step(ids, ids.shape[1] - first)
        if logits.shape[1] == 1:  # also of models that give those of the last token alone
            return logits[:, 0]
        return logits[np.arange(len(last)), last - (ids.shape[1] - logits.shape[1])]

    def step(self, tokens: Any, rows: int = 0) -> np.ndarray:
        """The logits (batch, count, vocabulary) after each of the tokens (batch, count).

        `rows`: of the last so many, where the model can leave out the others; 0: of all.
        """
        ids = np.asarray(tokens, np.int64)
        state, cache = self._state, self._state.cache
        state.reserve(ids.shape[1])
        given = state.inputs(ids, rows or ids.shape[1])
        types = {name: self._signature.dtype(name) for name in self._signature.caches}
        shapes = {
            name: np.broadcast_to(np.zeros((), types[name]), shape)
            for name, shape in cache.shapes().items()
        }
        program = self._model.program({**given, **shapes})
        if isinstance(program, SizedProgram):
            program = program.program({**given, **shapes})
        if self._memory is None:
            growing = isinstance(cache, GrowingCache)
            self._memory = HostMemory() if growing else memory_for(program)
            cache.start(self._memory)
        inputs = {**given, **cache.given()}
        if program is None:
            outputs = self._model.run(inputs)
        else:
            outputs = self._memory.run(program, inputs, cache.results(program, inputs))
        state.advance(ids, outputs)
        return np.asarray(outputs["logits"])

    def rewind(self, count: int) -> None:
        """Forgets the last `count` tokens."""
        if count:
            self._state.rewind(count)
