"""Products of rows of bytes by weights in a loop's kernel, as recurrent layers have them.

The weights are packed by a launch of its own, once for all runs: tiles of columns, in each the
bytes of `joined` rows of a column side by side, as one instruction sums them (see `joined`).

    tile 0: rows 0 .. 3 of columns 0 .. 15, of columns 16 .. 31, ...; rows 4 .. 7 of columns 0 ...
    tile 1: ...

A trip's rows are laid out as numbers of the same width, padded with zeros to whole groups.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from mlir import ir
from mlir.dialects import arith

from mgx_mlir.artifact.code_object import Argument
from mgx_mlir.codegen.builders import emit
from mgx_mlir.codegen.builders.emit import Index
from mgx_mlir.codegen.cpu import joined
from mgx_mlir.codegen.cpu.function import KernelBuilder
from mgx_mlir.codegen.cpu.schedule import JOINED, Machine
from mgx_mlir.codegen.loops.body import Function, Held, Lazy
from mgx_mlir.codegen.loops.place import UNBOUNDED, Place, element_bytes
from mgx_mlir.codegen.meaning.element import I32, element_of, sizes_of
from mgx_mlir.codegen.meaning.index import index_constant
from mgx_mlir.dialects import mgx
from mgx_mlir.rewriting.queries import ops_inside
from mgx_mlir.sizes.arithmetic import Number, ceil_div

# Rows whose sums are taken together, and at most so many vectors of their columns.
_TOGETHER, _MOST_VECTORS = (4, 2, 1), 8


@dataclass(frozen=True)
class PackedBytes:
    """Weights, an input of the kernel of `depth` rows by `columns`, as `place` holds them packed.

    `lanes`: sums of a vector; `vectors`: those of a tile; `joined`: numbers of a column side by
    side.
    """

    source: Place
    place: Place
    depth: int
    columns: int
    lanes: int
    vectors: int
    joined: int

    @property
    def row(self) -> int:
        """The numbers of a row that is laid out for the product: whole vectors of 16 bytes."""
        unit = 16 // element_bytes(self.place.type)
        return ceil_div(self.depth, unit) * unit

    def serves(self, op: mgx.QuantDotOp, values: Mapping[ir.Value, Lazy]) -> bool:
        """Whether these are the weights of a product of signed bytes whose rows are known."""
        weights, left = values[op.operands[1]], op.operands[0].type
        own = isinstance(weights, Held) and weights.place.argument == self.source.argument
        return own and _rows(left) is not None

    def codes(self, rows: Number) -> Place:
        """Memory for the rows of a trip."""
        return Place(emit.element_type(JOINED[self.joined]), rows * self.row)

    def product(self, function: Function, codes: Place, rows: Number) -> Held:
        """Builds the sums of products of laid out rows, at the insertion point."""
        result = Place(I32.storage(), rows * self.columns)
        a, b, c = (function.pointer(place) for place in (codes, self.place, result))
        size = rows if isinstance(rows, int) else index_constant(rows)
        emit.loop(0, size, 1, lambda row: self._clear(a, row))
        whole, rest = divmod(self.columns, self.vectors * self.lanes)

        def some(row: Index, count: int) -> None:
            places = [emit.add(row, n) for n in range(count)]
            tile = _Tile(self, (a, b, c), places, [self._start(a, place) for place in places])
            emit.loop(0, whole, 1, lambda number: tile.emit(number, self.vectors))
            if rest:
                tile.emit(whole, ceil_div(rest, self.lanes), rest)

        first: Index = 0
        for count in _TOGETHER:
            last = emit.mul(emit.div(size, count), count)
            emit.loop(first, last, count, lambda row, count=count: some(row, count))
            first = last
        return Held(result, (rows, self.columns), I32)

    def _clear(self, codes: ir.Value, row: Index) -> None:
        for k in range(self.depth, self.row):
            place = emit.linear(k, (row, self.row))
            emit.store(emit.constant(0, JOINED[self.joined]), codes, place)

    def _start(self, codes: ir.Value, row: Index) -> ir.Value:
        """What the sums of a row start from: packed bytes are 128 more than the weights."""
        if self.joined != 4:
            return emit.constant(0, "i32")
        width = 4 * max(n for n in (4, 8, self.lanes) if self.row % (4 * n) == 0)
        middle = emit.constant(joined.MIDDLE, "i8", width)

        def add(k: Index, sums: ir.Value) -> list[ir.Value]:
            some = emit.load_vector(codes, emit.linear(k, (row, self.row)), width)
            return [joined.dot(sums, middle, some)]

        zeros = emit.constant(0, "i32", width // 4)
        (sums,) = emit.loop(0, self.row, width, add, [zeros])
        return arith.subi(emit.constant(0, "i32"), emit.reduce_add(sums, "i32"))

    def pack(self, source: ir.Value, target: ir.Value, begin: Index, end: Index) -> None:
        """Builds the packing of columns begin .. end."""
        size, whole = self.vectors * self.lanes, ceil_div(self.columns, self.lanes)

        def column(n: Index) -> None:
            tile = emit.div(n, size)
            own = emit.minimum(self.vectors, emit.sub(whole, emit.mul(tile, self.vectors)))
            start = emit.mul(tile, size * self.row)
            inside = emit.mul(emit.sub(n, emit.mul(tile, size)), self.joined)
            group = emit.mul(own, self.lanes * self.joined)

            def row(k: Index) -> None:
                number = emit.load(source, emit.linear(n, (k, self.columns)))
                if self.joined == 4:
                    number = arith.xori(number, emit.constant(joined.MIDDLE, "i8"))
                else:
                    number = arith.extsi(emit.element_type(JOINED[self.joined]), number)
                place = emit.mul(emit.div(k, self.joined), group)
                place = emit.add(emit.add(start, inside), place)
                emit.store(number, target, emit.add(place, emit.rem(k, self.joined)))

            emit.loop(0, self.depth, 1, row)

        emit.loop(begin, end, 1, column)


@dataclass(frozen=True)
class _Tile:
    """The sums of some rows by a tile's columns; `memory`: the rows, the weights, the sums."""

    weights: PackedBytes
    memory: tuple[ir.Value, ir.Value, ir.Value]
    rows: Sequence[Index]
    starts: Sequence[ir.Value]

    def emit(self, number: Index, vectors: int, columns: int = 1 << 30) -> None:
        """Builds the sums of the tile of this number, which has some vectors and columns."""
        own, (a, b, c) = self.weights, self.memory
        width, size = own.lanes * own.joined, own.vectors * own.lanes
        start = emit.mul(number, size * own.row)

        def step(k: Index, *sums: ir.Value) -> list[ir.Value]:
            following = list(sums)
            codes = [
                joined.splat(a, emit.linear(k, (row, own.row)), own.lanes, own.joined)
                for row in self.rows
            ]
            # A group of `joined` rows lies every `vectors` vectors.
            place = emit.linear(start, (k, vectors * own.lanes))
            for n in range(vectors):
                right = emit.load_vector(b, emit.add(place, n * width), width)
                for r, left in enumerate(codes):
                    at = r * vectors + n
                    following[at] = joined.dot(following[at], right, left)
            return following

        starts = [emit.splat(x, own.lanes) for x in self.starts for _ in range(vectors)]
        sums = emit.loop(0, own.row, own.joined, step, starts)
        for r, row in enumerate(self.rows):
            for n in range(vectors):
                place = emit.linear(n * own.lanes, (row, own.columns), (number, size))
                mask = emit.lane_mask(columns - n * own.lanes, own.lanes)
                emit.store_vector(sums[r * vectors + n], c, place, mask)


def pack_weights(
    kernel: mgx.KernelOp, builder: KernelBuilder, machine: Machine
) -> list[PackedBytes]:
    """Adds the launches that pack the weights of a kernel's products of bytes, one each."""
    if machine.joined == 1:
        return []
    found: dict[int, PackedBytes] = {}
    for op in ops_inside(kernel, mgx.QuantDotOp):
        x, w = op.operands
        number, rows = _argument(kernel, w), _rows(x.type)
        if number is None or number in found or rows is None or not _are_weights(w.type):
            continue
        depth, columns = ir.RankedTensorType(w.type).shape
        most = min(rows, _TOGETHER[0]) if isinstance(rows, int) else _TOGETHER[0]
        found[number] = _packed(number, depth, columns, most, machine)
    for own in found.values():
        _add(builder, own)
    return list(found.values())


def _packed(number: int, depth: int, columns: int, rows: int, machine: Machine) -> PackedBytes:
    """The layout of weights for products of so many rows: all sums of a tile stay in registers."""
    lanes = machine.lanes("i32")
    vectors = min(_MOST_VECTORS, max(1, machine.registers // 2 // rows), ceil_div(columns, lanes))
    source = Place(emit.element_type("i8"), depth * columns, Argument("input", number))
    place = Place(emit.element_type(JOINED[machine.joined]), 0)
    own = PackedBytes(source, place, depth, columns, lanes, vectors, machine.joined)
    size = ceil_div(columns, lanes) * lanes * own.row
    return replace(own, place=Place(place.type, size))


def _add(builder: KernelBuilder, own: PackedBytes) -> None:
    def build(entry: ir.Block, begin: ir.Value, end: ir.Value) -> list[Argument]:
        unknown, places = ir.Location.unknown(), (own.source, own.place)
        types = [ir.MemRefType.get([UNBOUNDED], place.type) for place in places]
        source, target = (entry.add_argument(type_, unknown) for type_ in types)
        own.pack(source, target, begin, end)
        return [Argument("scratch", 0)] * len(places)

    builder.add_function(own.columns, build)
    size = own.place.size * element_bytes(own.place.type)
    assert isinstance(size, int)
    builder.launches[-1] = replace(builder.launches[-1], kept=size)


def _argument(kernel: mgx.KernelOp, value: ir.Value) -> int | None:
    """The number of the kernel's input that a value is."""
    return next((n for n, x in enumerate(kernel.body.blocks[0].arguments) if x == value), None)


def _rows(type_: ir.Type) -> Number | None:
    """The rows of a matrix of signed bytes with a known row."""
    if element_of(type_).name != "i8" or len(sizes := sizes_of(type_)) != 2:
        return None
    return sizes[0] if isinstance(sizes[1], int) and sizes[1] else None


def _are_weights(type_: ir.Type) -> bool:
    return ir.RankedTensorType(type_).has_static_shape and isinstance(_rows(type_), int)
