"""A kernel of a loop, for the host: a work item, or one for each part, does all trips."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from mlir import ir
from mlir.dialects import scf

from mgx_mlir.artifact.code_object import CodeObject
from mgx_mlir.artifact.target import Target
from mgx_mlir.codegen.builders import emit
from mgx_mlir.codegen.cpu.nests import Functions
from mgx_mlir.codegen.cpu.packed_weights import PackedWeights, pack_weights
from mgx_mlir.codegen.cpu.schedule import Machine
from mgx_mlir.codegen.cpu.vectors import Lanes, NoVectorsError, RowReduction, is_extreme
from mgx_mlir.codegen.loops.body import Lazy
from mgx_mlir.codegen.loops.kernel import kernel_symbols, lower_nests, split
from mgx_mlir.codegen.loops.nest import Facts, Nest
from mgx_mlir.codegen.loops.place import Place
from mgx_mlir.codegen.loops.repeat import (
    Group,
    PartBody,
    PartFunction,
    PartsMeetError,
    RepeatKernel,
)
from mgx_mlir.codegen.meaning.index import index_constant
from mgx_mlir.dialects import mgx
from mgx_mlir.rewriting.kernel_loops import leading_sizes, loop_of
from mgx_mlir.sizes.arithmetic import Number

# Parts are work items: with more than a few, they would read the same weights too often.
MOST_PARTS = 4
# Rows whose sums are taken together, so that weights are read once for them.
ROWS = (4, 2, 1)


def compile_repeat(kernel: mgx.KernelOp, target: Target) -> CodeObject:
    """The code object of an `mgx.kernel` with a loop. Errors as `lower_nests`'s."""
    lead = leading_sizes(loop_of(kernel))
    # The last dimension is left whole: its rows share weights, and are taken together.
    for count in range(len(lead) - 1, 0, -1):
        parts = math.prod(lead[:count])
        if isinstance(parts, int) and parts <= MOST_PARTS:
            try:
                return _compile(kernel, lead[:count], target)
            except PartsMeetError:
                continue
    return _compile(kernel, (), target)


def _compile(kernel: mgx.KernelOp, parts: tuple[Number, ...], target: Target) -> CodeObject:
    symbols, machine = kernel_symbols(kernel), Machine.of(target)
    lanes = machine.lanes("f32")
    functions = Functions(kernel.sym_name.value, lanes, symbols)
    packed = pack_weights(kernel, functions, machine, parts)

    def build(entry: ir.Block, begin: ir.Value, end: ir.Value) -> Iterable[Place]:
        function = PartFunction(entry, parts=parts)
        group = _Group(function, lanes, machine.registers // 2, symbols)

        def one(item: emit.Index) -> None:
            function.part = split(emit.value(item), parts)
            lower_nests(kernel, group, _Kernel(group, packed))

        emit.loop(begin, end, 1, one)
        return function.pointers

    functions.add_built(math.prod(parts), build)
    return functions.finish(target)


class _Kernel(RepeatKernel):
    """A loop's kernel that has some weights packed."""

    def __init__(self, group: _Group, packed: Mapping[ir.Value, PackedWeights]) -> None:
        super().__init__(group)
        self._function, self._packed = group.function, packed

    def packed_product(self, op: ir.OpView, operands: Sequence[Lazy]) -> Lazy | None:
        """The product by packed weights of rows in memory."""
        if (weights := self._packed.get(op.result)) is None:
            return None
        return weights.product(self._function, self.stored(operands[0]), op.result.type)


class _Vectors(Lanes, PartBody):
    """Code for neighbours along the last dimension, as many as a vector has lanes."""

    def __init__(
        self,
        block: ir.Block,
        dims: Sequence[ir.Value],
        function: PartFunction,
        extents: Sequence[Number],
        lanes: int,
    ) -> None:
        super().__init__(block, dims, function, extents)
        self.over(len(extents) - 1, lanes)


class _Reduction(RowReduction):
    """A reduction whose terms are read in the function's own part only."""

    def _body(self, dim: int, mask: ir.Value | None) -> Lanes:
        assert isinstance(self.function, PartFunction)
        dims, block = [emit.value(index) for index in self.dims], ir.InsertionPoint.current.block
        body = _Vectors(block, dims, self.function, self.facts.nest.space, self.lanes)
        body.over(dim, self.lanes, mask)
        return body


@dataclass
class _Group(Group):
    """Loops over the elements; for neighbours over some vectors of them.

    lanes: elements of a vector. vectors: of sums that stay in registers, at most.
    """

    lanes: int
    vectors: int
    symbols: Sequence[str]

    def build(self, nest: Nest, inner: Sequence[Number]) -> None:
        self._loops(nest, list(self.function.part), inner)

    def _loops(self, nest: Nest, dims: list[ir.Value], left: Sequence[Number]) -> None:
        if len(left) < 2:
            self._row(nest, dims, 1)
            return
        first: emit.Index = 0
        size = _bound(left[0])
        for rows in ROWS if nest.neighbours and len(left) == 2 else (1,):
            last = emit.mul(emit.div(size, rows), rows)

            def some(i: emit.Index, rows: int = rows) -> None:
                if len(left) > 2:
                    self._loops(nest, [*dims, emit.value(i)], left[1:])
                else:
                    self._row(nest, [*dims, emit.value(i)], rows)

            emit.loop(first, last, rows, some)
            first = last

    def _row(self, nest: Nest, dims: list[ir.Value], rows: int) -> None:
        """The elements of one row, or of some from the one with the indices `dims` on."""
        if len(dims) == len(nest.space):
            self._one(nest, dims)
            return
        first: emit.Index = 0
        count = self.vectors // rows if nest.neighbours else 1
        while count:
            first = self._vectors(nest, dims, first, count, rows)
            count //= 2
        for row in range(rows):
            own = [*dims[:-1], emit.value(emit.add(dims[-1], row))] if row else dims

            def one(i: emit.Index, own: list[ir.Value] = own) -> None:
                self._one(nest, [*own, emit.value(i)])

            emit.loop(first, _bound(nest.space[-1]), 1, one)

    def _one(self, nest: Nest, dims: list[ir.Value]) -> None:
        found = None
        if is_extreme(nest):
            places: list[emit.Index] = [*dims, *(0 for _ in nest.reduced)]
            facts = Facts.of(nest, self.symbols)
            if facts.reduction:
                found = _Reduction(self.function, facts, places, self.lanes).build()
        if found is None:
            self.function.element(dims, nest.space, nest.build)
            return
        body = self.function.body(ir.InsertionPoint.current.block, dims, nest.space)
        nest.put(body, nest.dims(), found)

    def _vectors(
        self, nest: Nest, dims: list[ir.Value], first: emit.Index, count: int, rows: int
    ) -> emit.Index:
        """Loops over `count` vectors of each row at a time, from an element on; gives the next."""
        step, extents = count * self.lanes, nest.space
        size = extents[-1]
        if not isinstance(size, int) or not isinstance(first, int):
            return first
        last = first + (size - first) // step * step
        if last == first:
            return first
        loop = scf.ForOp(emit.value(first), emit.value(last), emit.value(step))
        body = _Vectors(
            loop.body, [*dims, loop.induction_variable], self.function, extents, self.lanes
        )
        try:
            with ir.InsertionPoint(loop.body):
                *outer, column = body.own
                lines = [[*outer[:-1], outer[-1] + row] if row else outer for row in range(rows)]
                columns = [column + n * self.lanes for n in range(count)]
                nest.build(body, [(*line, place) for line in lines for place in columns])
                scf.YieldOp([])
            loop.operation.verify()  # a number for all lanes may stand where they differ
        except (NoVectorsError, ir.MLIRError):
            loop.operation.erase()
            return first
        return last


def _bound(size: Number) -> emit.Index:
    return size if isinstance(size, int) else index_constant(size)
