"""Scalar code on a kernel's memory whose sizes are arguments: tensors, pointers, elements."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from mlir import ir
from mlir.dialects import arith, memref, scf

from mgx_mlir.artifact.code_object import Argument
from mgx_mlir.codegen.generic.lowering.body import Body, Indices
from mgx_mlir.codegen.generic.lowering.element import Element
from mgx_mlir.codegen.generic.lowering.index import Dim, Index, index_constant, linear
from mgx_mlir.codegen.generic.lowering.value import Stored
from mgx_mlir.rewriting.queries import ops_inside
from mgx_mlir.sizes.arithmetic import Number

# The element count of a pointer's type (memref types have sizes): more than any tensor has.
UNBOUNDED = 1 << 40


@dataclass(eq=False)
class Place:
    """Memory of a kernel: an input, an output, or (argument None) scratch."""

    type: ir.Type
    size: Number
    argument: Argument | None = None


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

    def pointer(self, place: Place) -> ir.Value:
        """The function's argument that points to the place: a flat memref."""
        if place not in self.pointers:
            element = memory_type(place.type)
            type_ = ir.MemRefType.get([UNBOUNDED], element, memory_space=self.space)
            self.pointers[place] = self.entry.add_argument(type_, ir.Location.unknown())
        return self.pointers[place]

    def at(self, place: Place, index: ir.Value) -> tuple[ir.Value, ir.Value]:
        """The memory of an element of a place, and its index there."""
        return self.pointer(place), index

    def body(
        self, block: ir.Block, dims: Sequence[ir.Value], extents: Sequence[Number]
    ) -> FunctionBody:
        """Scalar code in a block, inside of loops with the indices `dims`."""
        return FunctionBody(block, dims, self)


# Builds code for some elements, given the indices of each, into a body.
Build = Callable[["FunctionBody", Sequence[Indices]], None]


class Functions(Protocol):
    """The functions of a kernel under construction."""

    def add(self, extents: Sequence[Number], build: Build, neighbours: bool) -> None:
        """Adds a function that does `build` for each element of a space, in any order.

        neighbours: whether several elements, neighbours along the last dimension, should be
        computed together.
        """


class FunctionBody(Body):
    """The scalar code of a function on a kernel's memory."""

    def __init__(self, block: ir.Block, dims: Sequence[ir.Value], function: Function) -> None:
        super().__init__(block, dims)
        self._function = function
        self._carried: list[ir.Value] = []

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

    def accumulators(self) -> list[ir.Value]:
        """The values of the results so far."""
        return self._carried

    def reduce(
        self,
        extents: Sequence[Number],
        starts: Sequence[Sequence[ir.Value]],
        emit: Callable[[int, Indices], Sequence[ir.Value]],
    ) -> list[list[ir.Value]]:
        """Builds loops in which `emit` gives each element's next values from the current ones."""
        each = len(starts[0])

        def step(indices: Indices, carried: Sequence[ir.Value]) -> Sequence[ir.Value]:
            following: list[ir.Value] = []
            for number in range(len(starts)):
                self._carried = list(carried[number * each : (number + 1) * each])
                following += emit(number, indices)
            return following

        found = self.nest(extents, [value for own in starts for value in own], step)
        if len(starts) > 1 and found and isinstance(found[0].owner.opview, scf.ForOp):
            _keep_scalar(found[0].owner)
        return [found[n * each : (n + 1) * each] for n in range(len(starts))]


def _keep_scalar(loop: ir.OpView) -> None:
    """Keeps LLVM from vectorising along a reduction, so that it vectorises over the neighbours.

    Sums whose terms may not be reordered are not vectorised.
    """
    flags = ir.Attribute.parse("#arith.fastmath<contract>")
    for add in ops_inside(loop, arith.AddFOp):
        add.fastmath = flags


def build_elements(
    block: ir.Block,
    rows: Sequence[Sequence[ir.Value]],
    extents: Sequence[Number],
    function: Function,
    build: Build,
    columns: int = 1,
) -> None:
    """Builds, at the end of a block, the code for the elements at some indices.

    The elements are each combination of a row of `rows`, which differ in all indices but the last,
    with one of `columns` neighbours along the last dimension.
    """
    body = function.body(block, rows[0], extents)
    first = tuple(Index(((Dim(d, n), 1),)) for d, n in enumerate(extents))
    places = list(first[-1:])
    for column in range(1, columns):
        with ir.InsertionPoint(block):
            place = arith.addi(rows[0][-1], index_constant(column))
        places.append(Index.runtime(place, 0, extents[-1] - 1))
    outer = [first[:-1]]
    for row in rows[1:]:
        sizes = zip(row[:-1], extents[:-1], strict=True)
        outer.append(tuple(Index.runtime(value, 0, size - 1) for value, size in sizes))
    build(body, [(*row, place) for row in outer for place in places] if extents else [()])


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
