"""A product's few rows: read as vectors, or brought to LDS once for all waves of a work-group."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial

from mlir import ir
from mlir.dialects import arith

from mgx_mlir.capabilities import CHUNK_BYTES
from mgx_mlir.codegen.builders import emit
from mgx_mlir.codegen.builders.emit import Index
from mgx_mlir.codegen.gpu.builders import memory
from mgx_mlir.codegen.gpu.builders.ordering import barrier
from mgx_mlir.codegen.problem.computed import repeats
from mgx_mlir.codegen.problem.problem import Matrix, Read, vector_width

# Chunks of 16 bytes that one phase of an access to LDS serves.
_PHASE = 8


def vectors(
    inputs: Mapping[int, ir.Value],
    matrix: Matrix,
    start: tuple[Index, Index, Index],
    inside: ir.Value,
    lanes: int,
    per_byte: int = 1,
    uniform: bool = False,
) -> list[ir.Value]:
    """`lanes` neighbours along the matrix' rows from `start` on, in reads of up to 16 bytes.

    start: (batch, row, column), of a row that lanes divide. uniform: batch and column are those of
    all lanes of a wave, and the instruction adds their offset; `inputs` are plain pointers.
    """
    size, width = emit.element_bytes(matrix.element), lanes
    if per_byte == 1:
        others = matrix.column, matrix.batch
        width = vector_width(matrix.row, *others, offset=matrix.offset, limit=lanes)
    width = min(width, CHUNK_BYTES // size * per_byte)
    batch, row, column = start
    along, factors = matrix.row, matrix.row.factors
    place, far = along.offset(row), emit.div(matrix.at(batch, 0, column), per_byte)
    buffer, count = inputs[matrix.argument], width // per_byte
    found = []
    for first in range(0, lanes, width):
        if len(factors) < 2 or factors[-1][0] % lanes == 0:
            at = emit.add(place, first * (factors[-1][1] if factors else 0))
        else:
            at = along.offset(emit.add(row, first))
        at = emit.div(at, per_byte)
        if uniform:
            at = memory.guarded(at, [inside], size)
            found.append(memory.load_far(buffer, at, far, count))
        else:
            at = memory.guarded(emit.add(far, at), [inside], size)
            found.append(memory.load(buffer, at, count))
    return found


def lanes_of(read: Read, lanes: int) -> int:
    """The elements that a lane reads of a tensor: one where those along k are all the same."""
    return 1 if read.per_byte == 1 and repeats(read.matrix.row, lanes) else lanes


def taken(values: list[ir.Value], lanes: int, per_byte: int = 1) -> ir.Value:
    """The first `lanes` elements of reads that `vectors` gave; these leave the list."""
    x = values.pop(0)
    while ir.VectorType(x.type).shape[0] * per_byte < lanes:
        x = memory.concatenated([x, values.pop(0)])
    return x


@dataclass(frozen=True)
class SharedRows:
    """`count` rows in LDS: of a step, `lanes` neighbours along k for each of `across` lanes.

        chunks of 16 bytes:     0 1 2 3     4 5 6 7     8 9 10 11       lanes 0, 1, 2
        in LDS:                 0 4 8 ...   1 5 9 ...   2 6 10 ...      lanes read neighbours

    The next step's go to the other half of LDS, so that a step has one barrier.
    """

    matrix: Matrix
    count: int
    lanes: int
    across: int
    threads: int
    end: Index

    @property
    def chunk(self) -> int:
        """Elements of a chunk."""
        return CHUNK_BYTES // emit.element_bytes(self.matrix.element)

    @property
    def chunks(self) -> int:
        """Chunks of a lane."""
        return self.lanes // self.chunk

    @property
    def pitch(self) -> int:
        """Chunks of LDS between two of a lane: those of a phase of writes are in all banks."""
        return self.across + _PHASE // self.chunks

    @property
    def elements(self) -> int:
        """Elements of both halves."""
        return 2 * self.count * self.chunks * self.pitch * self.chunk

    def read(
        self, inputs: Mapping[int, ir.Value], thread: Index, batch: Index, k0: Index
    ) -> list[ir.Value]:
        """A thread's part of the step from k0 on, as memory holds it; 0 past the end."""
        found = []
        for m, place, mine in self._parts(thread):
            k = emit.add(k0, emit.mul(place, self.chunk))
            inside = emit.compare("slt", k, self.end)
            if not isinstance(mine, bool):
                inside = arith.andi(inside, mine)
            found += vectors(inputs, self.matrix.transposed(), (batch, k, m), inside, self.chunk)
        return found

    def write(
        self,
        values: list[ir.Value],
        lds: ir.Value,
        thread: Index,
        turn: Index,
        arranged: Callable[[ir.Value], ir.Value],
    ) -> None:
        """Writes the first of `values`, which `read` gave for step `turn`, arranged, and waits."""
        for m, place, mine in self._parts(thread):
            x = arranged(taken(values, self.chunk))
            lane, chunk = emit.div(place, self.chunks), emit.rem(place, self.chunks)
            emit.when(mine, partial(memory.store, x, lds, self.place(turn, m, chunk, lane)))
        barrier()

    def rows(self, lds: ir.Value, lane: Index, turn: Index) -> list[ir.Value]:
        """A lane's neighbours of each row, of the step number `turn`."""
        return [
            memory.concatenated(
                [
                    memory.load(lds, self.place(turn, m, chunk, lane), self.chunk)
                    for chunk in range(self.chunks)
                ]
            )
            for m in range(self.count)
        ]

    def _parts(self, thread: Index) -> Iterator[tuple[Index, Index, ir.Value | bool]]:
        """The row and the chunk of it that a thread brings, and whether it is one, for each."""
        row = self.chunks * self.across
        total = self.count * row
        for first in range(0, total, self.threads):
            number = emit.add(thread, first)
            mine = first + self.threads <= total or emit.compare("slt", number, total)
            m, place = emit.split(number, row) if self.count > 1 else (0, number)
            yield m, place, mine

    def place(self, turn: Index, m: Index, chunk: Index, lane: Index) -> Index:
        """The first element of a lane's chunk in LDS."""
        row = emit.linear(m, (emit.rem(turn, 2), self.count))
        line = emit.linear(chunk, (row, self.chunks))
        return emit.mul(emit.linear(lane, (line, self.pitch)), self.chunk)
