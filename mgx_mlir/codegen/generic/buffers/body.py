"""The body of one function, copied op by op from a bufferized function.

Loads and stores become loads and stores of the flat pieces of memory that the function
takes as bare pointers. Values that are computed outside of the copied region and used in it are
computed again at the function's start.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod

from mlir import ir
from mlir.dialects import arith, memref, scf

from mgx_mlir.codegen.generic.buffers import emission, loops
from mgx_mlir.codegen.generic.buffers.bufferize import PRIVATE_BYTES
from mgx_mlir.codegen.generic.buffers.index import IndexBuilder
from mgx_mlir.codegen.generic.buffers.memory import (
    DYNAMIC,
    Index,
    Memory,
    MemoryView,
    Piece,
    bit_width,
    static_layout,
)
from mgx_mlir.errors import CompilerError

_VIEWS = frozenset(
    "memref.cast memref.collapse_shape memref.expand_shape memref.get_global "
    "memref.memory_space_cast memref.subview".split()
)


class BufferBody:
    """Builds the body of a function around `entry`, its first block.

    `slots` gives the view that holds a scalar which an earlier function computed.
    """

    # The memory spaces of the function's pointer arguments, and of its private memory.
    space: str | None = None
    private_space: str | None = None

    def __init__(self, entry: ir.Block, memory: Memory, slots: dict[ir.Value, MemoryView]) -> None:
        self.entry = entry
        self.build = IndexBuilder(entry)
        self.pieces: dict[Piece, ir.Value] = {}
        self.written: set[Piece] = set()
        # For elements that the thread alone touches: their addresses, and the values it stored
        # there last.
        self.addresses: dict[loops.Place, Index] = {}
        self.stored: dict[loops.Place, ir.Value] = {}
        self.memory = memory
        self._slots = slots
        self._values: dict[ir.Value, ir.Value] = {}
        self._views: dict[ir.Value, MemoryView] = {}
        self._indices: list[list[Index]] = []
        # Values computed again go before this op, after the constants they use.
        with ir.InsertionPoint(entry):
            self._anchor = arith.constant(ir.IntegerType.get_signless(1), 0).owner

    # Values ------------------------------------------------------------------------------

    def set(self, old: ir.Value, new: ir.Value) -> None:
        """Maps `old` to `new` in everything copied from here on."""
        self._values[old] = new

    def value(self, old: ir.Value) -> ir.Value:
        """The value that replaces `old`; if there is none, `old` is computed again at the start."""
        if old not in self._values:
            with ir.InsertionPoint(self._anchor):
                if old in self._slots:
                    self._values[old] = self.load(self._slots[old], [0])
                elif isinstance(old.owner, ir.Block):
                    raise CompilerError(f"a {old.type} argument of the function is not supported")
                else:
                    self.copy(old.owner.operation)
        return self._values[old]

    def view(self, old: ir.Value) -> MemoryView:
        """The view that the memref `old` is."""
        found = self._views.get(old) or self.memory.view(old)
        if found is None:
            raise CompilerError(
                f"memory that is chosen at run time is not supported: {old.type} of "
                f"{getattr(old.owner, 'name', 'a block')}"
            )
        return found

    # Memory ------------------------------------------------------------------------------

    def load(self, view: MemoryView, indices: Sequence[Index]) -> ir.Value:
        """The element of `view` at `indices`, in the program's type."""
        return self.load_at(view.piece, self._address(view, indices))

    def store(self, value: ir.Value, view: MemoryView, indices: Sequence[Index]) -> None:
        """Stores an element, given in the program's type."""
        self.store_at(value, view.piece, self._address(view, indices))

    def load_at(self, piece: Piece, address: Index) -> ir.Value:
        """Element `address` of `piece`, in the program's type."""
        loaded = memref.load(self._pointer(piece), [self.build.value(address)])
        element = piece.element_type
        if loaded.type == element:
            return loaded
        if isinstance(element, ir.IndexType):
            return arith.index_cast(element, loaded)
        if bit_width(element) == 1:
            # Any byte but 0 is true, as in numpy.
            return arith.cmpi(arith.CmpIPredicate.ne, loaded, arith.constant(loaded.type, 0))
        if isinstance(element, ir.IntegerType):
            return arith.trunci(element, loaded)
        bits = ir.IntegerType.get_signless(bit_width(element))
        return arith.bitcast(element, arith.trunci(bits, loaded))

    def store_at(self, value: ir.Value, piece: Piece, address: Index) -> None:
        """Stores element `address` of `piece`, given in the program's type."""
        element, storage = piece.element_type, piece.storage_type
        if element != storage:
            if isinstance(element, ir.IndexType):
                value = arith.index_cast(storage, value)
            elif not isinstance(element, ir.IntegerType):
                bits = ir.IntegerType.get_signless(bit_width(element))
                value = arith.extui(storage, arith.bitcast(bits, value))
            else:
                value = (arith.extui if bit_width(element) == 1 else arith.extsi)(storage, value)
        self.written.add(piece)
        memref.store(value, self._pointer(piece), [self.build.value(address)])

    def start(self, piece: Piece) -> ir.Value:
        """The address of the piece's first element, as a number."""
        return memref.extract_aligned_pointer_as_index(self._pointer(piece))

    def _address(self, view: MemoryView, indices: Sequence[Index]) -> Index:
        address = view.offset
        for index, stride in zip(indices, view.strides, strict=True):
            address = self.build.add(address, self.build.mul(index, stride))
        return address

    def _pointer(self, piece: Piece) -> ir.Value:
        if piece not in self.pieces:
            if piece.kind == "constant":
                self.pieces[piece] = self._constant(piece)
            else:
                flat = self._flat_type(piece)
                self.pieces[piece] = self.entry.add_argument(flat, ir.Location.unknown())
        return self.pieces[piece]

    def _flat_type(self, piece: Piece) -> ir.Type:
        return ir.MemRefType.get(
            [piece.elements], piece.storage_type, memory_space=_attribute(self.space)
        )

    def _constant(self, piece: Piece) -> ir.Value:
        flat = self._flat_type(piece)
        with ir.InsertionPoint(self._anchor):
            return memref.get_global(flat, str(piece.key))

    # Ops ---------------------------------------------------------------------------------

    def copy_block(self, block: ir.Block) -> list[ir.Value]:
        """Copies the ops of a block at the insertion point; gives its terminator's operands."""
        operations = list(block.operations)
        for op in operations[:-1]:
            self.copy(op.operation)
        return [self.value(operand) for operand in operations[-1].operation.operands]

    def copy(self, op: ir.Operation) -> None:
        """Copies one op at the insertion point."""
        special = _SPECIAL.get(op.name)
        if special is not None:
            special(self, op)
        elif op.name in _VIEWS:
            if op.name == "memref.subview":
                self._subview(op)
        elif len(op.regions) == 0:
            self._copy_plain(op)
        else:
            self._copy_with_regions(op)

    def copy_nested(self, block: ir.Block, indices: list[Index]) -> list[ir.Value]:
        """Copies the body of a linalg op in which `linalg.index` gives `indices`."""
        self._indices.append(indices)
        yielded = self.copy_block(block)
        self._indices.pop()
        return yielded

    def _copy_plain(self, op: ir.Operation) -> None:
        if any(isinstance(result.type, ir.MemRefType) for result in op.results):
            raise CompilerError(f"{op.name} gives memory in a way that is not supported")
        operands = [self.value(operand) for operand in op.operands]
        new = op.clone().operation
        for number, operand in enumerate(operands):
            new.operands[number] = operand
        for old, result in zip(op.results, new.results, strict=True):
            self._values[old] = result

    def _copy_with_regions(self, op: ir.Operation) -> None:
        if any(isinstance(v.type, ir.MemRefType) for v in [*op.operands, *op.results]):
            raise CompilerError(f"{op.name} that passes memory on is not supported")
        operands = [self.value(operand) for operand in op.operands]
        new = ir.Operation.create(
            op.name,
            results=[result.type for result in op.results],
            operands=operands,
            attributes={name: op.attributes[name] for name in op.attributes},
            regions=len(op.regions),
        )
        for old_region, region in zip(op.regions, new.regions, strict=True):
            for old_block in old_region.blocks:
                types = [argument.type for argument in old_block.arguments]
                block = region.blocks.append(*types)
                self._values.update(zip(old_block.arguments, block.arguments, strict=True))
                with ir.InsertionPoint(block):
                    for inner in old_block.operations:
                        self.copy(inner.operation)
        self._values.update(zip(op.results, new.results, strict=True))

    def _load(self, op: ir.Operation) -> None:
        base, *indices = op.operands
        self._values[op.results[0]] = self.load(self.view(base), [self.value(i) for i in indices])

    def _store(self, op: ir.Operation) -> None:
        value, base, *indices = op.operands
        self.store(self.value(value), self.view(base), [self.value(i) for i in indices])

    def _allocate(self, op: ir.Operation) -> None:
        type_ = ir.MemRefType(op.results[0].type)
        piece = Piece("private", len(self.pieces), prod(type_.shape), type_.element_type)
        if piece.bytes > PRIVATE_BYTES:
            raise CompilerError(
                f"a thread needs {piece.bytes} bytes of its own; at most {PRIVATE_BYTES} are there"
            )
        flat = ir.MemRefType.get(
            [piece.elements], piece.storage_type, memory_space=_attribute(self.private_space)
        )
        with ir.InsertionPoint(self._anchor):
            self.pieces[piece] = memref.alloca(flat, [], [])
        strides, offset = static_layout(type_)
        self._views[op.results[0]] = MemoryView(piece, offset or 0, strides, tuple(type_.shape))

    def _subview(self, op: ir.Operation) -> None:
        """Copies a view of static sizes and strides, with offsets that may be computed."""
        result = op.results[0]
        source = self.view(op.operands[0])
        type_ = ir.MemRefType(result.type)
        dynamic = iter(op.operands[1:])
        offset = source.offset
        statics = ir.DenseI64ArrayAttr(op.attributes["static_offsets"])
        for static, stride in zip(statics, source.strides, strict=True):
            index: Index = self.value(next(dynamic)) if static == DYNAMIC else static
            offset = self.build.add(offset, self.build.mul(index, stride))
        strides, _ = static_layout(type_)
        self._views[result] = MemoryView(source.piece, offset, strides, tuple(type_.shape))

    def _dimension(self, op: ir.Operation) -> None:
        raise CompilerError("memref.dim of a dynamic size is not supported")

    def _index(self, op: ir.Operation) -> None:
        dim = ir.IntegerAttr(op.attributes["dim"]).value
        self._values[op.results[0]] = self.build.value(self._indices[-1][dim])

    def _nest(self, op: ir.Operation) -> None:
        nest = loops.nest_of(op, self.view)
        if nest.body is None and nest.operands[0].view == nest.operands[1].view:
            return
        emission.emit(self, nest, emission.start(self, nest), {})

    def _parallel(self, op: ir.Operation) -> None:
        """Copies a parallel loop inside a function as a sequential loop."""
        space = loops.parallel_space(op)

        def descend(chosen: list[Index]) -> None:
            if len(chosen) == len(space.sizes):
                self.copy_iteration(op, space, chosen)
                return
            with emission.counted(self.build, space.sizes[len(chosen)]) as index:
                descend([*chosen, index])
                scf.yield_([])

        descend([])

    def copy_iteration(
        self, op: ir.Operation, space: loops.ParallelSpace, counts: Sequence[Index]
    ) -> None:
        """Copies the body of a parallel loop for one iteration, by its counts from 0."""
        block = op.regions[0].blocks[0]
        for argument, count, low, step in zip(
            block.arguments, counts, space.lower, space.step, strict=True
        ):
            index = self.build.add(low, self.build.mul(count, step, wraps=True), wraps=True)
            self._values[argument] = self.build.value(index)
        for inner in list(block.operations)[:-1]:
            self.copy(inner.operation)


def _attribute(space: str | None) -> ir.Attribute | None:
    return None if space is None else ir.Attribute.parse(space)


def _skip(body: BufferBody, op: ir.Operation) -> None:
    """Copies nothing: memory is freed by its owner."""


_SPECIAL: dict[str, Callable[[BufferBody, ir.Operation], None]] = {
    "linalg.generic": BufferBody._nest,
    "linalg.index": BufferBody._index,
    "memref.alloc": BufferBody._allocate,
    "memref.alloca": BufferBody._allocate,
    "memref.copy": BufferBody._nest,
    "memref.dealloc": _skip,
    "memref.dim": BufferBody._dimension,
    "memref.load": BufferBody._load,
    "memref.store": BufferBody._store,
    "scf.forall": BufferBody._parallel,
    "scf.parallel": BufferBody._parallel,
}
