"""Scalar code on a kernel's memory whose sizes are arguments: tensors, pointers, elements."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from mlir import ir
from mlir.dialects import arith, memref, scf

from mgx_mlir.artifact.code_object import Argument
from mgx_mlir.codegen.builders.emit import add_table
from mgx_mlir.codegen.meaning.body import Body, Indices
from mgx_mlir.codegen.meaning.element import Element
from mgx_mlir.codegen.meaning.index import Dim, Index, linear
from mgx_mlir.codegen.meaning.value import Stored
from mgx_mlir.rewriting.queries import ops_inside
from mgx_mlir.sizes.arithmetic import Number

# The element count of a pointer's type (memref types have sizes): more than any tensor has.
UNBOUNDED = 1 << 40


@dataclass(eq=False)
class Place:
    """Memory of a kernel: an input, an output, or (argument None) scratch.

    shared: the place whose memory it takes, if any.
    """

    type: ir.Type
    size: Number
    argument: Argument | None = None
    shared: Place | None = None

    @property
    def home(self) -> Place:
        """The place whose memory it has."""
        return self if self.shared is None else self.shared.home


@dataclass(eq=False)
class Table(Place):
    """Memory of known elements, which are part of the code."""

    elements: ir.DenseElementsAttr | None = None


@dataclass(frozen=True)
class Start:
    """The initial elements of a result: a number, or None where they are undefined."""

    shape: tuple[Number, ...]
    type: ir.Type
    value: float | int | None


class Held(Stored):
    """A tensor in a kernel's memory, row-major."""

    def __init__(
        self, place: Place, shape: Sequence[Number], element: Element, owned: bool = True
    ) -> None:
        self.shape, self.element, self.cost = tuple(shape), element, 0
        self.location = ir.Location.current
        self.value: Any = place
        self.base: Any = place
        self.owned = owned

    def read(self, body: Body, indices: Indices) -> ir.Value:
        assert isinstance(body, FunctionBody)
        return body.element(self, indices)

    def position(self, indices: Indices) -> Index:
        """The place of an element in the tensor's memory."""
        return linear(indices, self.shape)

    def reshaped(self, shape: tuple[Number, ...]) -> Held:
        return Held(self.value, shape, self.element, self.owned)


@dataclass(frozen=True)
class Slice:
    """The elements of a tensor in memory that belong to a row; `inside` are its own dimensions."""

    held: Held
    inside: tuple[int, ...]
    row: Indices

    def position(self, where: Sequence[Index]) -> Index:
        """The place in the tensor's memory of an element, by its indices in the slice."""
        outer, inner = iter(self.row), iter(where)
        rank = len(self.held.shape)
        indices = [next(inner if d in self.inside else outer) for d in range(rank)]
        return linear(indices, self.held.shape)


@dataclass
class Function:
    """A function under construction: its pointers, added as its body asks for them."""

    entry: ir.Block
    space: ir.Attribute | None = None
    pointers: dict[Place, ir.Value] = field(default_factory=dict)
    tables: dict[Table, ir.Value] = field(default_factory=dict)

    def pointer(self, place: Place) -> ir.Value:
        """The function's argument that points to the place, or its table: a flat memref."""
        place = place.home
        if isinstance(place, Table):
            return self.table(place)
        if place not in self.pointers:
            self.pointers[place] = self.argument(place)
        return self.pointers[place]

    def argument(self, place: Place) -> ir.Value:
        """A new argument that points to a place."""
        element = memory_type(place.type)
        type_ = ir.MemRefType.get([UNBOUNDED], element, memory_space=self.space)
        return self.entry.add_argument(type_, ir.Location.unknown())

    def table(self, table: Table) -> ir.Value:
        """A table of the module."""
        if table not in self.tables:
            self.tables[table] = _table(table, self.entry, self.space)
        return self.tables[table]

    def at(self, place: Place, index: ir.Value) -> tuple[ir.Value, ir.Value]:
        """The memory of an element of a place, and its index there."""
        return self.pointer(place), index

    def body(
        self, block: ir.Block, dims: Sequence[ir.Value], extents: Sequence[Number]
    ) -> FunctionBody:
        """Scalar code in a block, inside of loops with the indices `dims`."""
        return FunctionBody(block, dims, self)

    def element(self, dims: Sequence[ir.Value], extents: Sequence[Number], build: Build) -> None:
        """Builds the code for an element, at the insertion point."""
        body = self.body(ir.InsertionPoint.current.block, dims, extents)
        build(body, [tuple(Index(((Dim(d, n), 1),)) for d, n in enumerate(extents))])


# Builds code for some elements, given the indices of each, into a body.
Build = Callable[["FunctionBody", Sequence[Indices]], None]


class FunctionBody(Body):
    """The scalar code of a function on a kernel's memory."""

    def __init__(self, block: ir.Block, dims: Sequence[ir.Value], function: Function) -> None:
        super().__init__(block, dims)
        self._function = function
        # Whether an index, such as a loop's, is below a bound, where the loops around decide it.
        self.known: dict[tuple[Index, Number], bool] = {}

    def decided(self, index: Index, bound: Number) -> bool | None:
        """Whether an index is below a bound; None where it is for some elements only."""
        low, high = index.bounds
        if high < bound or low >= bound:
            return bool(high < bound)
        return self.known.get((index - index.constant, bound - index.constant))

    def below(self, index: Index, bound: Number) -> ir.Value:
        known = self.decided(index, bound)
        return super().below(index, bound) if known is None else self._truth(known)

    def inside(self, index: Index, size: Number) -> ir.Value | None:
        before, within = self.decided(index, 0), self.decided(index, size)
        if before or within is False:
            return self._truth(False)
        return None if before is False and within else super().inside(index, size)

    def clamp(self, index: Index, size: Number) -> Index:
        before, within = self.decided(index, 0), self.decided(index, size)
        if index.is_within(size) or before is not False or not within:
            return super().clamp(index, size)
        return self.known_within(index, size)

    def _truth(self, value: bool) -> ir.Value:
        with self._points[-1]:
            return arith.constant(ir.IntegerType.get_signless(1), ir.BoolAttr.get(value))

    def element(self, held: Held, indices: Indices) -> ir.Value:
        """An element of a tensor in memory; the indices must be in bounds."""
        return self._loaded(held.value, held.position(indices))

    def _loaded(self, place: Place, where: Index) -> ir.Value:
        memory, index = self._function.at(place, self.scalar(where))
        value = memref.load(memory, [index])
        if _is_bool(place.type):
            zero = arith.constant(ir.IntegerType.get_signless(8), 0)
            return arith.cmpi(arith.CmpIPredicate.ne, value, zero)
        return value

    def put(self, value: ir.Value, place: Place, where: Index) -> None:
        """Stores an element."""
        with self._points[-1]:
            if _is_bool(place.type):
                value = arith.extui(ir.IntegerType.get_signless(8), value)
            memory, index = self._function.at(place, self.scalar(where))
            memref.store(value, memory, [index])

    def insert(self, value: ir.Value, line: Slice, where: Sequence[ir.Value]) -> Slice:
        """The slice, which is changed where it is."""
        self.put(value, line.held.value, line.position(self._indices(line, where)))
        return line

    def extract(self, line: Slice, where: Sequence[ir.Value]) -> ir.Value:
        return self._loaded(line.held.value, line.position(self._indices(line, where)))

    def _indices(self, line: Slice, where: Sequence[ir.Value]) -> list[Index]:
        sizes = [line.held.shape[d] for d in line.inside]
        return [Index.runtime(v, 0, n - 1) for v, n in zip(where, sizes, strict=True)]

    def loop(
        self,
        lower: Index | Number,
        upper: Index | Number,
        carried: Sequence[Any],
        emit: Callable[[Index, Sequence[Any]], Sequence[Any]],
    ) -> list[Any]:
        """As `Body.loop`; slices among the carried values stay what they are."""
        slices = {n: line for n, line in enumerate(carried) if isinstance(line, Slice)}

        def merged(values: Sequence[ir.Value]) -> list[Any]:
            rest = iter(values)
            return [slices[n] if n in slices else next(rest) for n in range(len(carried))]

        def plain(values: Sequence[Any]) -> list[ir.Value]:
            return [value for value in values if not isinstance(value, Slice)]

        found = super().loop(
            lower, upper, plain(carried), lambda i, values: plain(emit(i, merged(values)))
        )
        return merged(found)

    def reduce(
        self,
        loops: Sequence[tuple[Sequence[int], Number]],
        starts: Sequence[Sequence[ir.Value]],
        emit: Callable[[int, Sequence[ir.Value]], Sequence[ir.Value]],
    ) -> list[list[ir.Value]]:
        """Builds loops in which `emit` gives an element's next values from the current ones.

        loops: the dimensions that one counts, by the last of them, and how far.
        """
        each, zero = len(starts[0]), self.scalar(Index(()))

        def level(depth: int, carried: Sequence[ir.Value]) -> Sequence[ir.Value]:
            if depth < len(loops):
                dims, size = loops[depth]

                def trip(index: Index, values: Sequence[ir.Value]) -> Sequence[ir.Value]:
                    for d in dims:
                        self.bind(d, zero)
                    self.bind(dims[-1], self.scalar(index))
                    return level(depth + 1, values)

                return self.loop(0, size, carried, trip)
            following: list[ir.Value] = []
            for number in range(len(starts)):
                following += emit(number, carried[number * each : (number + 1) * each])
            return following

        found = level(0, [value for own in starts for value in own])
        if len(starts) > 1 and found and isinstance(found[0].owner.opview, scf.ForOp):
            _keep_scalar(found[0].owner)
        return [[*found[n * each : (n + 1) * each]] for n in range(len(starts))]

    def bind(self, dim: int, value: ir.Value) -> None:
        """Sets the index of a dimension."""
        while len(self._dims) <= dim:
            self._dims.append(value)
        self._dims[dim] = value


def _keep_scalar(loop: ir.OpView) -> None:
    """Keeps LLVM from vectorising along a reduction, so that it vectorises over the neighbours.

    Sums whose terms may not be reordered are not vectorised.
    """
    flags = ir.Attribute.parse("#arith.fastmath<contract>")
    for add in ops_inside(loop, arith.AddFOp):
        add.fastmath = flags


def _table(table: Table, entry: ir.Block, space: ir.Attribute | None) -> ir.Value:
    """The memref of a table, which the module has once, in a function of it."""
    elements = table.elements
    assert elements is not None
    block = entry.owner.operation.block
    assert isinstance(table.size, int)  # that of a constant
    shape, element = [max(table.size, 1)], memory_type(table.type)
    type_ = ir.MemRefType.get(shape, element, memory_space=space)
    name = f"table_{len(block.operations)}"
    for op in block.operations:
        if op.name == "memref.global" and op.attributes["initial_value"] == elements:
            name = ir.StringAttr(op.attributes["sym_name"]).value
            break
    else:
        add_table(name, type_, elements, block)
    with ir.InsertionPoint.at_block_begin(entry):
        return memref.get_global(type_, name)


def memory_type(type_: ir.Type) -> ir.Type:
    """An element's type in memory: a bool is a byte."""
    return ir.IntegerType.get_signless(8) if _is_bool(type_) else type_


def element_bytes(type_: ir.Type) -> int:
    """The bytes of an element in memory."""
    held = memory_type(type_)
    assert isinstance(held, ir.IntegerType | ir.FloatType)
    return held.width // 8


def _is_bool(type_: ir.Type) -> bool:
    return isinstance(type_, ir.IntegerType) and type_.width == 1
