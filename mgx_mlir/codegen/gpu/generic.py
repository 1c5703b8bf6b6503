"""Any bufferized function as GPU functions: one thread for each parallel iteration.

The path that always works. Each linalg op, copy and parallel loop of the function becomes
one `gpu.func` in a `gpu.module`; the threads' numbers are split into the loop's indices,
and reductions are loops in the thread that keep their sums in registers. What is neither
parallel nor a plain scalar runs in a function of one thread.

    func.func @k(%x: memref<8x4xf32>, %y: memref<8xf32>) {
      linalg.fill ... outs(%y)
      linalg.generic {iterator_types = ["parallel", "reduction"]} ins(%x) outs(%y) ...
    }

becomes one function of 8 threads, which starts its sum from the filled value:

    gpu.func @k_0(%x: memref<32xf32, global>, %y: memref<8xf32, global>) kernel

Inputs are never written. An output must not overlap an input or another output.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from math import prod

from mlir import ir
from mlir.dialects import gpu

from mgx_mlir.codegen.gpu import loops
from mgx_mlir.codegen.gpu.function import Access, Dimensions, GpuFunction
from mgx_mlir.codegen.gpu.index import delinearise
from mgx_mlir.codegen.gpu.memory import Index, Memory, Piece, View, storage_type
from mgx_mlir.errors import CompilerError
from mgx_mlir.finalizer.code_object import Argument, Launch

# 32-bit offsets reach elements up to this one.
MAX_INDEX_32 = (1 << 31) - 1

_NESTS = frozenset(("linalg.generic", "memref.copy"))
_PARALLEL = frozenset(("scf.forall", "scf.parallel"))
_NOTHING = frozenset(("func.return", "memref.alloc", "memref.dealloc", "memref.get_global"))


@dataclass(frozen=True)
class GpuProgram:
    """What the functions of `module` (one gpu.module in it) are launched with, in order."""

    module: ir.Module
    launches: tuple[Launch, ...]
    scratch_bytes: int
    index_bits: int


def generate(function: ir.OpView, inputs: int, name: str = "kernel") -> GpuProgram:
    """GPU functions for `function`, a func.func on static memrefs whose first `inputs`
    arguments are its inputs and whose others are its outputs.

    Raises CompilerError, naming the op, for memory whose place is only known at run time.
    """
    for dialect in ("arith", "gpu", "memref", "scf"):
        function.context.get_dialect_descriptor(dialect)  # loads it: ops are built, not parsed
    return _Generator(function.operation, inputs, name).run()


class _Generator:
    def __init__(self, function: ir.Operation, inputs: int, name: str) -> None:
        self._block = function.regions[0].blocks[0]
        self._source = function.parent
        self._name = name
        self._memory = Memory()
        self._functions: list[tuple[str, Dimensions, int, tuple[Piece, ...]]] = []
        self._fills: dict[Piece, tuple[loops.Nest, ir.Value]] = {}
        self._slots: dict[ir.Value, View] = {}
        self._module = ir.Module.create()
        self._largest = 0
        self._position = 0
        self._open: GpuFunction | None = None
        for number, argument in enumerate(self._block.arguments):
            is_input = number < inputs
            index = number if is_input else number - inputs
            self._memory.bind(argument, "input" if is_input else "output", index)

    def run(self) -> GpuProgram:
        self._module.operation.attributes["gpu.container_module"] = ir.UnitAttr.get()
        with ir.InsertionPoint(self._module.body):
            gpu_module = gpu.GPUModuleOp(ir.StringAttr.get("kernels"))
        self._functions_block = gpu_module.regions[0].blocks.append()
        operations = [op.operation for op in self._block.operations]
        self._place_allocations(operations)
        for self._position, op in enumerate(operations):
            with op.location:
                self._step(op)
        for piece in list(self._fills):
            # Scratch that was only filled was never read.
            if piece.kind == "output":
                self._flush(piece)
        self._close()
        self._copy_constants()
        return self._program()

    # Memory ------------------------------------------------------------------------------

    def _place_allocations(self, operations: list[ir.Operation]) -> None:
        last_use: dict[ir.Value, int] = {}
        for position, op in enumerate(operations):
            for value in _memrefs(op):
                last_use[_root(value)] = position
        for position, op in enumerate(operations):
            if op.name == "memref.alloc":
                value = op.results[0]
                memref = ir.MemRefType(value.type)
                lifetime = (position, last_use.get(value, position))
                piece = self._memory.scratch(prod(memref.shape), memref.element_type, lifetime)
                self._memory.views[value] = View(
                    piece, 0, tuple(memref.get_strides_and_offset()[0]), tuple(memref.shape)
                )

    def _slot(self, value: ir.Value) -> View:
        """A place in scratch, for good, for one scalar."""
        piece = self._memory.scratch(1, value.type, (0, len(self._block.operations)))
        self._slots[value] = View(piece, 0, (1,), (1,))
        return self._slots[value]

    def _touched(self, op: ir.Operation) -> set[Piece]:
        views = (self._memory.view(_root(value)) for value in _memrefs(op))
        return {view.piece for view in views if view}

    # Ops ---------------------------------------------------------------------------------

    def _step(self, op: ir.Operation) -> None:
        if op.name in _NOTHING or _is_view(op):
            return
        if op.name in _NESTS:
            self._nest(loops.nest_of(op, self._static_view))
            return
        if self._is_plain_scalar(op):
            return
        for piece in self._touched(op):
            self._flush(piece)
        if op.name in _PARALLEL:
            self._parallel(op)
        else:
            self._serial(op)

    def _static_view(self, value: ir.Value) -> View:
        view = self._memory.view(value)
        if view is None:
            raise CompilerError(f"memory that is placed at run time is not supported: {value.type}")
        return view

    def _is_plain_scalar(self, op: ir.Operation) -> bool:
        """Whether every function that needs the result can compute it again."""
        if len(op.regions) or not len(op.results):
            return False
        if op.name == "memref.load":
            return self._static_view(op.operands[0]).piece.kind in ("input", "constant")
        return not any(isinstance(v.type, ir.MemRefType) for v in op.operands)

    def _nest(self, nest: loops.Nest) -> None:
        if nest.iterations == 0:
            return
        fill = _filled_value(nest)
        (first, *_) = nest.outputs
        assert first.view is not None
        if fill is not None:
            self._flush(first.view.piece)
            self._fills[first.view.piece] = (nest, fill)
            return
        initial: dict[int, ir.Value] = {}
        for number, operand in enumerate(nest.operands):
            if operand.view is None:
                continue
            piece = operand.view.piece
            pending = self._fills.get(piece)
            alone = sum(o.view is not None and o.view.piece == piece for o in nest.operands) == 1
            if pending and alone and nest.accumulates(operand):
                filled = pending[0].outputs[0].view
                if filled and filled.covers_same(operand.view) and _covers(nest, operand):
                    initial[number] = pending[1]
                    del self._fills[piece]
        for piece in self._touched(nest.op):
            self._flush(piece)
        if nest.body is None and nest.operands[0].view == nest.operands[1].view:
            return
        self._emit_nest(nest, initial)

    def _flush(self, piece: Piece) -> None:
        if piece in self._fills:
            nest, _ = self._fills.pop(piece)
            self._emit_nest(nest, {})

    def _emit_nest(self, nest: loops.Nest, initial: dict[int, ir.Value]) -> None:
        accesses = _accesses(nest, self._memory)
        function = self._open
        if function is None or not function.takes(nest.iterations, accesses):
            function = self._function(nest.iterations)
        function.last = self._position
        function.accesses += accesses
        body = function.body
        with function.point:
            dims: list[Index] = [0] * len(nest.sizes)
            offsets = loops.start(body, nest)
            sizes = [group.size for group in nest.parallel]
            counts = delinearise(body.build, function.thread, sizes)
            for group, count in zip(nest.parallel, counts, strict=True):
                offsets = loops.bind(body, nest, group, count, offsets, dims)
            places = {number: nest.place(o) for number, o in enumerate(nest.operands)}
            known = {number: place for number, place in places.items() if place}
            loops.emit(body, nest, offsets, initial, dims, known)

    def _parallel(self, op: ir.Operation) -> None:
        space = loops.parallel_space(op)
        if prod(space.sizes) == 0:
            return
        function = self._function(prod(space.sizes))
        with function.point:
            counts = delinearise(function.body.build, function.thread, space.sizes)
            function.body.copy_iteration(op, space, counts)
        self._close()

    def _serial(self, op: ir.Operation) -> None:
        function = self._function(1)
        with function.point:
            function.body.copy(op)
            for result in op.results:
                function.body.store(function.body.value(result), self._slot(result), [0])
        self._close()

    # Functions ---------------------------------------------------------------------------

    def _function(self, threads: int) -> GpuFunction:
        """A new function of so many threads; the one before it ends."""
        self._close()
        name = f"{self._name}_{len(self._functions)}"
        self._open = GpuFunction(self._functions_block, name, threads, self._memory, self._slots)
        self._open.first = self._open.last = self._position
        return self._open

    def _close(self) -> None:
        function, self._open = self._open, None
        if function is None:
            return
        pieces = function.finish()
        for piece in pieces:
            # All of the function's work is under way at once.
            if piece in self._memory.lifetimes:
                first, last = self._memory.lifetimes[piece]
                span = min(first, function.first), max(last, function.last)
                self._memory.lifetimes[piece] = span
        self._largest = max([self._largest, *(p.elements for p in function.body.pieces)])
        self._functions.append((function.name, function.grid, function.block_size, pieces))

    def _copy_constants(self) -> None:
        """The tables that functions read, flat and in global memory, into the gpu.module."""
        wanted = _symbols_used(self._functions_block)
        if not wanted:
            return
        space = ir.Attribute.parse("#gpu.address_space<global>")
        table = ir.SymbolTable(self._source)
        for name in wanted:
            old = table[name].operation
            value = ir.DenseElementsAttr(old.attributes["initial_value"])
            with ir.InsertionPoint.at_block_begin(self._functions_block), old.location:
                flat = _flat_constant(value)
                memref = ir.MemRefType.get(
                    flat.type.shape, flat.type.element_type, memory_space=space
                )
                ir.Operation.create(
                    "memref.global",
                    attributes={
                        "sym_name": ir.StringAttr.get(name),
                        "sym_visibility": ir.StringAttr.get("private"),
                        "type": ir.TypeAttr.get(memref),
                        "initial_value": flat,
                        "constant": ir.UnitAttr.get(),
                    },
                )

    def _program(self) -> GpuProgram:
        offsets, scratch_bytes = self._memory.layout()
        launches = []
        for name, grid, block_size, pieces in self._functions:
            arguments = tuple(
                Argument("scratch", offsets[piece])
                if piece.kind == "scratch"
                else Argument(piece.kind, int(piece.key))  # type: ignore[arg-type]
                for piece in pieces
            )
            launches.append(Launch(name, grid, (block_size, 1, 1), arguments))
        last_thread = max((prod(launch.grid) * launch.block[0] for launch in launches), default=0)
        small = max(self._largest, last_thread) <= MAX_INDEX_32
        return GpuProgram(self._module, tuple(launches), scratch_bytes, 32 if small else 64)


def _filled_value(nest: loops.Nest) -> ir.Value | None:
    """The scalar that the nest fills all of its output with, where that is all it does."""
    if nest.body is None or nest.reduction or len(nest.outputs) != 1:
        return None
    if any(operand.view for operand in nest.operands[:-1]):
        return None
    (yield_, *more) = nest.body.operations
    if more or not _covers(nest, nest.operands[-1]):
        return None
    value = yield_.operation.operands[0]
    if not isinstance(value.owner, ir.Block):
        return value
    if value.owner != nest.body:
        return None
    scalar = nest.operands[ir.BlockArgument(value).arg_number]
    return None if scalar.is_output else scalar.value


def _covers(nest: loops.Nest, operand: loops.Operand) -> bool:
    """Whether the parallel iterations reach every element of the operand's view, once."""
    return operand.view is not None and nest.iterations == prod(operand.view.shape)


def _accesses(nest: loops.Nest, memory: Memory) -> list[Access]:
    """What a thread of the nest reads and writes, and where."""
    found = []
    for operand in nest.operands:
        if operand.view is not None:
            place = nest.place(operand)
            found.append(Access(operand.view.piece, place, operand.is_output))
    if nest.body is not None:
        for op in nest.body.operations:
            for inner, value in _memory_uses(op.operation):
                view = memory.view(_root(value))
                if view is not None:
                    found.append(Access(view.piece, None, inner.name != "memref.load"))
    return found


def _is_view(op: ir.Operation) -> bool:
    return op.name.startswith("memref.") and any(
        isinstance(result.type, ir.MemRefType) for result in op.results
    )


def _memrefs(op: ir.Operation) -> Iterator[ir.Value]:
    """The memrefs that an op and those inside of it use."""
    return (value for _, value in _memory_uses(op))


def _memory_uses(op: ir.Operation) -> list[tuple[ir.Operation, ir.Value]]:
    """The op and those inside of it, each with the memrefs that it uses."""
    found: list[tuple[ir.Operation, ir.Value]] = []

    def visit(inner: ir.Operation) -> ir.WalkResult:
        found.extend((inner, v) for v in inner.operands if isinstance(v.type, ir.MemRefType))
        return ir.WalkResult.ADVANCE

    op.walk(visit)
    return found


def _root(value: ir.Value) -> ir.Value:
    """The memref that a chain of views starts from."""
    while not isinstance(value.owner, ir.Block):
        op = value.owner.operation
        if not _is_view(op) or not len(op.operands) or op.name.startswith("memref.alloc"):
            break
        value = op.operands[0]
    return value


def _symbols_used(block: ir.Block) -> list[str]:
    names: dict[str, None] = {}

    def visit(op: ir.Operation) -> ir.WalkResult:
        if op.name == "memref.get_global":
            names[ir.FlatSymbolRefAttr(op.attributes["name"]).value] = None
        return ir.WalkResult.ADVANCE

    for function in block.operations:
        function.operation.walk(visit)
    return list(names)


def _flat_constant(value: ir.DenseElementsAttr) -> ir.DenseElementsAttr:
    """The same elements along one dimension, in the types that memory holds."""
    type_ = ir.RankedTensorType(value.type)
    storage = storage_type(type_.element_type)
    flat = ir.RankedTensorType.get([prod(type_.shape)], storage)
    if storage == type_.element_type:
        # As text, because the bindings give no access to the elements of every type.
        elements = str(value).removeprefix("dense<").rpartition("> : ")[0]
        if "[" in elements:
            elements = "[" + elements.replace("[", "").replace("]", "") + "]"
        return ir.DenseElementsAttr(ir.Attribute.parse(f"dense<{elements}> : {flat}"))
    numbers = [int(element) & 0xFF for element in ir.DenseIntElementsAttr(value)]
    return ir.DenseElementsAttr.get([ir.IntegerAttr.get(storage, n) for n in numbers], flat)
