"""The memory of a bufferized function's values: pieces of memory, and views of them.

A view of a static memref is an offset and strides from the start of one piece of memory,
in elements. Chains of subview, reshape and cast fold into those numbers, so that generated
code addresses the piece alone.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from math import prod
from typing import Literal, TypeAlias

from mlir import ir

from mgx_mlir.errors import CompilerError
from mgx_mlir.sizes.arithmetic import ceil_div

# An index that is known, or a value that code computes.
Index: TypeAlias = "int | ir.Value"

SCRATCH_ALIGNMENT = 256

# ShapedType::kDynamic: a size, stride or offset that is only known at run time.
DYNAMIC: int = ir.ShapedType.get_dynamic_size()

_RESHAPES = frozenset(
    ("memref.cast", "memref.collapse_shape", "memref.expand_shape", "memref.memory_space_cast")
)


@dataclass(frozen=True)
class Piece:
    """One contiguous piece of memory: an argument of the kernel, scratch, a constant.

    `key` tells pieces of a kind apart: the number of the input or output, of the scratch
    piece or of the private one; for a constant, its symbol.
    """

    kind: Literal["input", "output", "scratch", "constant", "private"]
    key: int | str
    elements: int
    element_type: ir.Type  # as the program sees it

    @property
    def storage_type(self) -> ir.Type:
        """The type of an element in memory: types under 8 bits take a byte each."""
        return storage_type(self.element_type)

    @property
    def bytes(self) -> int:
        return self.elements * byte_width(self.element_type)


@dataclass(frozen=True)
class MemoryView:
    """Elements of `piece` at `offset` + the sum of index * stride."""

    piece: Piece
    offset: Index
    strides: tuple[int, ...]
    shape: tuple[int, ...]

    def covers_same(self, other: MemoryView) -> bool:
        """Whether both views hold the same elements at the same indices."""
        return (
            self.piece == other.piece
            and isinstance(self.offset, int)
            and self.offset == other.offset
            and self._extents() == other._extents()
        )

    def _extents(self) -> list[tuple[int, int]]:
        pairs = zip(self.shape, self.strides, strict=True)
        return [(size, step) for size, step in pairs if size != 1]


def bit_width(element: ir.Type) -> int:
    """Bits of a number type; an index counts 64."""
    if isinstance(element, ir.IndexType):
        return 64
    if isinstance(element, (ir.IntegerType, ir.FloatType)):
        return int(element.width)
    raise CompilerError(f"memory of element type {element} is not supported")


def byte_width(element: ir.Type) -> int:
    """Bytes that one element takes in memory."""
    return max(1, bit_width(element) // 8)


def storage_type(element: ir.Type) -> ir.Type:
    """The type of `element` in memory."""
    if bit_width(element) < 8:
        return ir.IntegerType.get_signless(8)
    if isinstance(element, ir.IndexType):
        return ir.IntegerType.get_signless(64)
    return element


def static_view(piece: Piece, memref: ir.MemRefType) -> MemoryView:
    """`piece` viewed as `memref`, whose layout must be static."""
    strides, offset = static_layout(memref)
    if offset is None:
        raise CompilerError(f"a memref with a dynamic offset cannot be addressed: {memref}")
    return MemoryView(piece, offset, strides, tuple(memref.shape))


def static_layout(memref: ir.MemRefType) -> tuple[tuple[int, ...], int | None]:
    """Strides, and the offset or None where it is dynamic. Refuses dynamic sizes."""
    if not memref.has_static_shape:
        raise CompilerError(f"a memref of dynamic shape cannot be addressed: {memref}")
    if 0 in memref.shape:
        # MLIR calls the strides of such a type dynamic; no element is ever addressed.
        return (0,) * len(memref.shape), 0
    strides, offset = memref.get_strides_and_offset()
    if DYNAMIC in strides:
        raise CompilerError(f"a memref with dynamic strides cannot be addressed: {memref}")
    return tuple(strides), None if offset == DYNAMIC else offset


@dataclass
class Memory:
    """The pieces of one function, and the views that its memref values are.

    The function's output may be the same memory as one of the inputs `overwritable`.
    """

    overwritable: frozenset[int] = frozenset()
    views: dict[ir.Value, MemoryView] = field(default_factory=dict)
    lifetimes: dict[Piece, tuple[int, int]] = field(default_factory=dict)
    _count: int = 0

    def bind(self, value: ir.Value, kind: Literal["input", "output"], key: int) -> None:
        """Makes `value`, an argument of the function, a piece of its own."""
        memref = ir.MemRefType(value.type)
        piece = Piece(kind, key, prod(memref.shape), memref.element_type)
        self.views[value] = static_view(piece, memref)

    def may_alias(self, piece: Piece) -> bool:
        """Whether the piece may be the same memory as another, one of the two being written."""
        if piece.kind == "input":
            return piece.key in self.overwritable
        return piece.kind == "output" and bool(self.overwritable)

    def scratch(self, elements: int, element: ir.Type, lifetime: tuple[int, int]) -> Piece:
        """A new piece of scratch that is needed from the first to the last of two steps."""
        piece = Piece("scratch", self._count, elements, element)
        self._count += 1
        self.lifetimes[piece] = lifetime
        return piece

    def view(self, value: ir.Value) -> MemoryView | None:
        """The view that `value` is, where it is known without computing anything."""
        if value in self.views:
            return self.views[value]
        if isinstance(value.owner, ir.Block):
            return None
        op = value.owner.operation
        memref = ir.MemRefType(value.type)
        if op.name == "memref.get_global":
            name = ir.FlatSymbolRefAttr(op.attributes["name"]).value
            piece = Piece("constant", name, prod(memref.shape), memref.element_type)
            found = static_view(piece, memref)
        elif op.name in _RESHAPES or op.name == "memref.subview":
            source = self.view(op.operands[0])
            strides, offset = static_layout(memref)
            if source is not None and op.name != "memref.subview":
                offset = source.offset if isinstance(source.offset, int) else None
            if source is None or offset is None:
                return None
            found = MemoryView(source.piece, offset, strides, tuple(memref.shape))
        else:
            return None
        self.views[value] = found
        return found

    def layout(self) -> tuple[dict[Piece, int], int]:
        """The byte offset of each scratch piece, and the size of all. Pieces whose lifetimes do
        not meet may share bytes."""
        offsets: dict[Piece, int] = {}
        end = 0
        for piece, (first, last) in sorted(
            self.lifetimes.items(), key=lambda item: (-item[0].bytes, item[0].key)
        ):
            taken = sorted(
                (offsets[other], offsets[other] + other.bytes)
                for other, (start, stop) in self.lifetimes.items()
                if other in offsets and start <= last and first <= stop
            )
            place = 0
            for begin, stop in taken:
                if place + piece.bytes <= begin:
                    break
                place = max(place, ceil_div(stop, SCRATCH_ALIGNMENT) * SCRATCH_ALIGNMENT)
            offsets[piece] = place
            end = max(end, place + piece.bytes)
        return offsets, ceil_div(end, SCRATCH_ALIGNMENT) * SCRATCH_ALIGNMENT
