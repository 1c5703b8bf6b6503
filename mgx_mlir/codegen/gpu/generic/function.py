"""One gpu.func under construction: its threads, and the work that they do in sequence."""

from __future__ import annotations

from dataclasses import dataclass

from mlir import ir
from mlir.dialects import arith, gpu, scf

from mgx_mlir.codegen.generic.buffers.blocked_sums import block_sums
from mgx_mlir.codegen.generic.buffers.body import BufferBody
from mgx_mlir.codegen.generic.buffers.loops import Place
from mgx_mlir.codegen.generic.buffers.memory import Index, Memory, MemoryView, Piece
from mgx_mlir.codegen.gpu.builders.function import Dimensions, block_number, grid_of, thread_number
from mgx_mlir.sizes.arithmetic import ceil_div

BLOCK_SIZE = 256
# A small launch uses work-groups of one wave, to spread its threads over more compute units.
SMALL_BLOCK_SIZE = 64
SMALL_LAUNCH = 16384
# Terms that a thread adds to one float before that is added to a total.
SUM_TERMS = 1024


@dataclass(frozen=True)
class Access:
    """A thread reads, or also writes, elements of `piece`. `place` follows from the thread's
    number; None where other threads' elements are accessed too."""

    piece: Piece
    place: Place | None
    writes: bool


class GpuBody(BufferBody):
    """A function's body whose pointers have the GPU's address spaces."""

    space = "#gpu.address_space<global>"
    private_space = "#gpu.address_space<private>"


class GpuFunction:
    """A function of `threads` threads, in work-groups of one dimension.

    Code goes to `point`. `thread` is the number of the thread; threads beyond the last one
    do nothing.
    """

    def __init__(
        self,
        block: ir.Block,
        name: str,
        threads: int,
        memory: Memory,
        slots: dict[ir.Value, MemoryView],
    ) -> None:
        self.name = name
        self.threads = threads
        self.block_size = block_size(threads)
        self.grid = grid(threads, self.block_size)
        self.first = self.last = 0
        self.accesses: list[Access] = []
        self._op = ir.Operation.create(
            "gpu.func",
            attributes={
                "sym_name": ir.StringAttr.get(name),
                "function_type": ir.TypeAttr.get(ir.FunctionType.get([], [])),
                "gpu.kernel": ir.UnitAttr.get(),
                "known_block_size": ir.DenseI32ArrayAttr.get([self.block_size, 1, 1]),
                "known_grid_size": ir.DenseI32ArrayAttr.get(list(self.grid)),
            },
            regions=1,
            ip=ir.InsertionPoint(block),
        )
        self.body = GpuBody(self._op.regions[0].blocks.append(), memory, slots)
        self._guard: scf.IfOp | None = None
        with ir.InsertionPoint(self.body.entry):
            self.thread = self._thread_number()
            if self.grid[0] * self.grid[1] * self.block_size != threads:
                value = self.body.build.value
                inside = arith.cmpi(arith.CmpIPredicate.ult, value(self.thread), value(threads))
                self._guard = scf.IfOp(inside)
        self.point = ir.InsertionPoint(self._guard.then_block if self._guard else self.body.entry)

    def takes(self, threads: int, accesses: list[Access]) -> bool:
        """Whether the threads can do more work without waiting for each other.

        They can where every thread touches each written piece only at its own place.
        """
        if threads != self.threads:
            return False
        everything = [*self.accesses, *accesses]
        written = {access.piece for access in everything if access.writes}
        places: dict[Piece, set[Place | None]] = {}
        for access in everything:
            if access.piece in written:
                places.setdefault(access.piece, set()).add(access.place)
        return all(len(found) == 1 and None not in found for found in places.values())

    def finish(self) -> tuple[Piece, ...]:
        """Ends the function; returns the pieces that its arguments point to, in order."""
        if self._guard is not None:
            with self.point:
                scf.yield_([])
        with ir.InsertionPoint(self.body.entry):
            gpu.return_([])
        block_sums(self.body.entry, SUM_TERMS)
        values = list(self.body.entry.arguments)
        by_value = {value: piece for piece, value in self.body.pieces.items()}
        pieces = tuple(by_value[value] for value in values)
        types = [value.type for value in values]
        self._op.attributes["function_type"] = ir.TypeAttr.get(ir.FunctionType.get(types, []))
        self._op.attributes["arg_attrs"] = ir.ArrayAttr.get([self._promises(p) for p in pieces])
        return pieces

    def _promises(self, piece: Piece) -> ir.DictAttr:
        unit = ir.UnitAttr.get()
        promises = {} if self.body.memory.may_alias(piece) else {"llvm.noalias": unit}
        if piece not in self.body.written:
            promises["llvm.readonly"] = unit
        return ir.DictAttr.get(promises)

    def _thread_number(self) -> Index:
        if self.threads == 1:
            return 0
        build = self.body.build
        number: Index = 0
        if self.grid[0] > 1:
            number = block_number("x", self.grid[0])
        if self.grid[1] > 1:
            row = build.mul(block_number("y", self.grid[1]), self.grid[0])
            number = build.add(row, number)
        lane = thread_number(self.block_size)
        return build.add(build.mul(number, self.block_size), lane)


def block_size(threads: int) -> int:
    """Threads in a work-group."""
    if threads == 1:
        return 1
    return SMALL_BLOCK_SIZE if threads <= SMALL_LAUNCH else BLOCK_SIZE


def grid(threads: int, block: int) -> Dimensions:
    """Work-groups in each dimension."""
    return grid_of(ceil_div(threads, block), block)
