"""The keys and values that a decoder keeps between its steps, in each form."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from mgx_mlir.models.generation.form import Form
from mgx_mlir.models.generation.memory import Memory
from mgx_mlir.models.generation.signature import Signature
from mgx_mlir.runtime.program import Program

Arrays = dict[str, Any]

# Lengths of caches are multiples of it: few lengths, few programs.
_STEP = 128


def cache_for(form: Form, signature: Signature, batch: int, most: int) -> Cache:
    """The cache for `most` entries of each sequence, or of the model's fixed length."""
    if form is Form.GROWING:
        return GrowingCache(signature, batch)
    length = signature.fixed_length or -(-most // _STEP) * _STEP
    kind = AppendedCache if form is Form.APPENDED else PlacedCache
    return kind(signature, batch, length)


class Cache:
    """Past inputs, and the outputs that follow them. `past`: the entries of the next step's."""

    # Whether new entries lie behind the past ones: masks have columns for both then.
    behind = True

    def __init__(self, signature: Signature, batch: int, past: int) -> None:
        self.past = past
        self._signature = signature
        self._batch = batch

    def shapes(self) -> dict[str, tuple[int, ...]]:
        """The shapes of the next step's past inputs."""
        return {n: self._signature.shape(n, self._batch, self.past) for n in self._signature.caches}

    def start(self, memory: Memory) -> None:
        """Makes the cache. Comes before all methods below."""
        raise NotImplementedError

    def given(self) -> Arrays:
        """The past inputs."""
        raise NotImplementedError

    def results(self, program: Program, inputs: Arrays) -> Arrays:
        """Memory for outputs of a step of the program with these inputs."""
        raise NotImplementedError

    def store(self, outputs: Mapping[str, Any], count: int) -> None:
        """Keeps the `count` new entries of a step, whose outputs these are."""
        raise NotImplementedError

    def rewind(self, count: int) -> None:
        """Forgets the last entries."""
        raise NotImplementedError


class PlacedCache(Cache):
    """A cache of fixed length, in which the model puts new entries at their places.

    Where the program lets an output have the memory of its cache, nothing is copied.
    """

    behind = False

    def start(self, memory: Memory) -> None:
        types = {name: self._signature.dtype(name) for name in self._signature.caches}
        self._memory = memory
        self._caches = {
            name: memory.view(memory.zeros(math.prod(shape), types[name]), 0, shape)
            for name, shape in self.shapes().items()
        }
        self._spare: Arrays = {}

    def given(self) -> Arrays:
        return dict(self._caches)

    def results(self, program: Program, inputs: Arrays) -> Arrays:
        names = [spec.name for spec in program.inputs]
        numbers = {spec.name: n for n, spec in enumerate(program.outputs)}
        found = {}
        for past, present in self._signature.caches.items():
            if (numbers[present], names.index(past)) in program.plan.in_place:
                found[present] = self._caches[past]
                continue
            cache = self._caches[past]
            if past not in self._spare:
                vector = self._memory.zeros(math.prod(cache.shape), cache.dtype)
                self._spare[past] = self._memory.view(vector, 0, cache.shape)
            found[present] = self._spare[past]
        return found

    def store(self, outputs: Mapping[str, Any], count: int) -> None:
        for past, present in self._signature.caches.items():
            if outputs[present] is not self._caches[past]:
                self._spare[past] = self._caches[past]
                self._caches[past] = outputs[present]

    def rewind(self, count: int) -> None:
        pass  # the next entries take the places


class AppendedCache(Cache):
    """Windows of `length` entries into a vector, that move on by each new entry.

    An entry is `size` elements. The windows of all heads lie one after another and move
    together, so that the new entry of a head takes the memory of the oldest entry of the next
    one, which has just left its window. The first step sees one entry alone, which is masked.
    """

    def __init__(self, signature: Signature, batch: int, length: int) -> None:
        super().__init__(signature, batch, 1)
        self._length = length
        self._moved = 0

    def start(self, memory: Memory) -> None:
        self._memory = memory
        self._vectors: Arrays = {}
        self._spare: dict[tuple[str, int], Any] = {}
        for name in self._signature.caches:
            *outer, _, size = self._signature.shape(name, self._batch, self._length)
            count = (math.prod(outer) + 1) * self._length * size
            self._vectors[name] = memory.zeros(count, self._signature.dtype(name))

    def given(self) -> Arrays:
        return {
            name: self._memory.view(self._vectors[name], self._moved * shape[-1], shape)
            for name, shape in self.shapes().items()
        }

    def results(self, program: Program, inputs: Arrays) -> Arrays:
        count = inputs["input_ids"].shape[1]
        found = {}
        for past, present in self._signature.caches.items():
            shape = self._signature.shape(past, self._batch, count)
            if (past, count) not in self._spare:
                vector = self._memory.zeros(math.prod(shape), self._signature.dtype(past))
                self._spare[past, count] = self._memory.view(vector, 0, shape)
            found[present] = self._spare[past, count]
        return found

    def store(self, outputs: Mapping[str, Any], count: int) -> None:
        first = self.past != self._length
        place = self._length - count if first else self._length + self._moved
        for past, present in self._signature.caches.items():
            *outer, _, size = self._signature.shape(past, self._batch, count)
            rows = self._memory.view(
                self._memory.vector(outputs[present]), 0, (math.prod(outer), count * size)
            )
            self._memory.write(self._vectors[past], place * size, self._length * size, rows)
        self._moved += 0 if first else count
        self.past = self._length

    def rewind(self, count: int) -> None:
        self._moved -= count


class GrowingCache(Cache):
    """The outputs of a step are the past inputs of the next.

    A cache that holds one masked entry has sizes that a program for any takes; without positions
    of its own, a model would count the entry.
    """

    def __init__(self, signature: Signature, batch: int) -> None:
        empty = signature.has("attention_mask") and signature.has("position_ids")
        super().__init__(signature, batch, int(empty))

    def start(self, memory: Memory) -> None:
        types = {name: self._signature.dtype(name) for name in self._signature.caches}
        self._caches: Arrays = {n: np.zeros(s, types[n]) for n, s in self.shapes().items()}

    def given(self) -> Arrays:
        return dict(self._caches)

    def results(self, program: Program, inputs: Arrays) -> Arrays:
        return {}

    def store(self, outputs: Mapping[str, Any], count: int) -> None:
        self._caches = {n: outputs[present] for n, present in self._signature.caches.items()}
        self.past += count

    def rewind(self, count: int) -> None:
        self.past -= count
        self._caches = {n: cache[..., : self.past, :] for n, cache in self._caches.items()}
