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
from mgx_mlir.sizes.arithmetic import ceil_div

Arrays = dict[str, Any]

# Lengths of caches are multiples of a block, and double: few lengths, few programs.
BLOCK = 128


def cache_for(form: Form, signature: Signature, batch: int, longest: int, room: int) -> Cache:
    """The cache for prompts of up to `longest` tokens, and `room` more; or of the model's fixed
    length. It begins with a block for new ones."""
    if form is Form.GROWING:
        return GrowingCache(signature, batch)
    most = signature.fixed_length or _blocks(longest + room)
    length = min(most, _blocks(longest + min(room, BLOCK)))
    kind = AppendedCache if form is Form.APPENDED else PlacedCache
    return kind(signature, batch, length, most)


def _blocks(entries: int) -> int:
    """The places of as many blocks as entries take."""
    return ceil_div(entries, BLOCK) * BLOCK


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

    def reserve(self, entries: int) -> None:
        """Makes places for so many entries of each sequence, before a step."""

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


class BlockCache(Cache):
    """A cache of `length` places for each sequence. Where more are needed it has twice as many,
    `most` at the most, and its entries are copied."""

    def __init__(self, signature: Signature, batch: int, past: int, length: int, most: int) -> None:
        super().__init__(signature, batch, past)
        self._length, self._most = length, most
        self._memory: Any = None

    def reserve(self, entries: int) -> None:
        before = self._length
        while self._length < min(entries, self._most):
            self._length = min(2 * self._length, self._most)
        if self._length != before and self._memory is not None:
            self._grow(before)

    def _grow(self, before: int) -> None:
        """Moves the entries to memory for all places; there were so many before."""
        raise NotImplementedError

    def _rows(self, name: str, tensor: Any, count: int) -> Any:
        """A tensor of `count` places as a row for each head of each sequence."""
        *outer, _, size = self._signature.shape(name, self._batch, count)
        return self._memory.view(self._memory.vector(tensor), 0, (math.prod(outer), count * size))


class PlacedCache(BlockCache):
    """A cache in which the model puts new entries at their places.

    Where the program lets an output have the memory of its cache, nothing is copied.
    """

    behind = False

    def __init__(self, signature: Signature, batch: int, length: int, most: int) -> None:
        super().__init__(signature, batch, length, length, most)

    def start(self, memory: Memory) -> None:
        self._memory = memory
        self._caches, self._spare = self._made(), dict[str, Any]()

    def _made(self) -> Arrays:
        types = {name: self._signature.dtype(name) for name in self._signature.caches}
        return {
            name: self._memory.view(self._memory.zeros(math.prod(shape), types[name]), 0, shape)
            for name, shape in self.shapes().items()
        }

    def reserve(self, entries: int) -> None:
        super().reserve(entries)
        self.past = self._length

    def _grow(self, before: int) -> None:
        self.past = self._length
        caches, self._caches, self._spare = self._caches, self._made(), {}
        for name, cache in caches.items():
            rows = self._rows(name, cache, before)
            pitch = self._length * cache.shape[-1]
            self._memory.write(self._memory.vector(self._caches[name]), 0, pitch, rows)

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


class AppendedCache(BlockCache):
    """Windows of `length` entries into a vector, that move on by each new entry.

    An entry is `size` elements. The windows of all heads lie one after another and move
    together, so that the new entry of a head takes the memory of the oldest entry of the next
    one, which has just left its window. The first step sees one entry alone, which is masked.
    """

    def __init__(self, signature: Signature, batch: int, length: int, most: int) -> None:
        super().__init__(signature, batch, 1, length, most)
        self._moved = self._filled = 0

    def start(self, memory: Memory) -> None:
        self._memory = memory
        self._vectors = self._made()
        self._spare: dict[tuple[str, int], Any] = {}

    def _made(self) -> Arrays:
        found = {}
        for name in self._signature.caches:
            *outer, _, size = self._signature.shape(name, self._batch, self._length)
            count = (math.prod(outer) + 1) * self._length * size
            found[name] = self._memory.zeros(count, self._signature.dtype(name))
        return found

    def _grow(self, before: int) -> None:
        windows, self._vectors = self.given(), self._made()
        self.past = self._length
        self._moved = self._filled  # the windows may have to move back by all entries
        for name, window in windows.items():
            rows, size = self._rows(name, window, before), window.shape[-1]
            first = (self._length - before + self._moved) * size
            self._memory.write(self._vectors[name], first, self._length * size, rows)

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
            size = self._signature.shape(past, self._batch, count)[-1]
            rows = self._rows(past, outputs[present], count)
            self._memory.write(self._vectors[past], place * size, self._length * size, rows)
        self._moved += 0 if first else count
        self._filled += count
        self.past = self._length

    def rewind(self, count: int) -> None:
        self._moved -= count
        self._filled -= count


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
