"""Maps between named groups of bits that are linear over GF(2).

    Map.of(lane="r0-3 k2-3", value="k0-1")

is an operand of a matrix instruction: bit 4 of a lane's number is bit 2 of k, the lowest bit of a
value's number is bit 0 of k. Each bit of the input adds (by XOR) its image to the output, so that
f(x ^ y) = f(x) ^ f(y). A bit whose image is 0, written '-', holds copies; one that moves two bits
of the output is written 'n0^n3'.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property, reduce
from operator import xor

# Names of groups of bits and how many bits each has, sorted by name.
Bits = tuple[tuple[str, int], ...]


@dataclass(frozen=True)
class Map:
    """A map from the groups of bits `inputs` to the groups `outputs`, linear over GF(2).

    A number over several groups has the bits of the first group lowest. `columns` holds the
    image of each input bit, as such a number over the outputs. Equal maps compare equal,
    whatever order their groups were given in.
    """

    inputs: Bits
    outputs: Bits
    columns: tuple[int, ...]

    @staticmethod
    def of(**inputs: str) -> Map:
        """The map that texts describe: for each group the images of its bits, lowest first.

        'r0-3 k2 -' are six bits: the first four move r, the fifth bit 2 of k, the last nothing.
        Raises ValueError for another text.
        """
        groups = {
            name: [image for word in text.split() for image in _images(word)]
            for name, text in inputs.items()
        }
        images = {
            (name, bit): image for name, group in groups.items() for bit, image in enumerate(group)
        }
        sizes: dict[str, int] = {}
        for name, bit in (moved for image in images.values() for moved in image):
            sizes[name] = max(sizes.get(name, 0), bit + 1)
        return Map._built({name: len(group) for name, group in groups.items()}, sizes, images)

    @staticmethod
    def _built(
        inputs: Mapping[str, int],
        outputs: Mapping[str, int],
        images: Mapping[tuple[str, int], Iterable[tuple[str, int]]],
    ) -> Map:
        ins, outs = (tuple(sorted((n, s) for n, s in x.items() if s)) for x in (inputs, outputs))
        places = {bit: 1 << number for number, bit in enumerate(_bits(outs))}
        columns = (reduce(xor, (places[b] for b in images[bit]), 0) for bit in _bits(ins))
        return Map(ins, outs, tuple(columns))

    @cached_property
    def _images(self) -> dict[tuple[str, int], tuple[tuple[str, int], ...]]:
        """For each bit of the input the bits of the output that it moves."""
        out = list(_bits(self.outputs))
        return {
            bit: tuple(b for number, b in enumerate(out) if column >> number & 1)
            for bit, column in zip(_bits(self.inputs), self.columns, strict=True)
        }

    def image(self, name: str, bit: int) -> tuple[tuple[str, int], ...]:
        """The bits of the output, as (group, number), that a bit of the input moves."""
        return self._images[name, bit]

    def bits(self, name: str) -> int:
        """Bits of the group of that name, of the input or else of the output; 0 for no group."""
        return dict(self.inputs).get(name) or dict(self.outputs).get(name, 0)

    def moving(self, name: str, output: str) -> tuple[int, ...]:
        """The bits of an input group that move some bit of an output group."""
        return tuple(bit for bit in range(self.bits(name)) if output in dict(self.image(name, bit)))

    def __call__(self, **places: int) -> dict[str, int]:
        """The output for an input; groups that are not given are 0."""
        number, at = 0, 0
        for name, size in self.inputs:
            value = places.get(name, 0)
            if value >> size:
                raise ValueError(f"{name} = {value} has more than {size} bits")
            number |= value << at
            at += size
        return _unpacked(self.flat(number), self.outputs)

    def flat(self, number: int) -> int:
        """The output, as one number, for an input as one number."""
        chosen = (c for bit, c in enumerate(self.columns) if number >> bit & 1)
        return reduce(xor, chosen, 0)

    # New maps ------------------------------------------------------------------------------

    def then(self, other: Map) -> Map:
        """other(self(x)). Input groups of `other` that this map does not give are 0.

        Raises ValueError where an output is no input of `other`, or has more bits.
        """
        for name, size in self.outputs:
            if size > dict(other.inputs).get(name, 0):
                raise ValueError(f"{size} bits of {name} do not fit {other.inputs}")
        images = {
            bit: [b for middle in moved for b in other.image(*middle)]
            for bit, moved in self._images.items()
        }
        return Map._built(dict(self.inputs), dict(other.outputs), images)

    def renamed(self, **names: str) -> Map:
        """The same map with other names of groups."""
        return Map._built(
            {names.get(n, n): size for n, size in self.inputs},
            {names.get(n, n): size for n, size in self.outputs},
            {
                (names.get(n, n), bit): [(names.get(m, m), b) for m, b in moved]
                for (n, bit), moved in self._images.items()
            },
        )

    def split(self, name: str, low: str, high: str, count: int) -> Map:
        """The map whose input group `name` is two: its lowest `count` bits, and the others."""
        inputs = dict(self.inputs)
        size = inputs.pop(name)
        images = {
            ((low if bit < count else high, bit % count if bit < count else bit - count)
             if n == name else (n, bit)): moved
            for (n, bit), moved in self._images.items()
        }  # fmt: skip
        return Map._built(inputs | {low: count, high: size - count}, dict(self.outputs), images)

    def onto(self, *outputs: str) -> Map:
        """The map to some of the output groups."""
        images = {bit: [b for b in moved if b[0] in outputs] for bit, moved in self._images.items()}
        kept = {name: size for name, size in self.outputs if name in outputs}
        return Map._built(dict(self.inputs), kept, images)


def _images(word: str) -> Iterator[list[tuple[str, int]]]:
    """The images that a word of `Map.of` describes: one, or several for a range."""
    if word == "-":
        yield []
        return
    if found := re.fullmatch(r"([a-z]+)(\d+)-(\d+)", word):
        yield from ([(found[1], bit)] for bit in range(int(found[2]), int(found[3]) + 1))
        return
    parts = [re.fullmatch(r"([a-z]+)(\d+)", part) for part in word.split("^")]
    if None in parts:
        raise ValueError(f"'{word}' is no image of bits: write r0, r0-3, r0^r3 or -")
    yield [(part[1], int(part[2])) for part in parts if part]


def _bits(groups: Bits) -> Iterator[tuple[str, int]]:
    return ((name, bit) for name, size in groups for bit in range(size))


def _unpacked(number: int, groups: Bits) -> dict[str, int]:
    result = {}
    for name, size in groups:
        result[name] = number & ((1 << size) - 1)
        number >>= size
    return result
