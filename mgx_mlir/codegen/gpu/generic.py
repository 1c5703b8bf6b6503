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
from mlir.dialects import arith, gpu, scf

from mgx_mlir.codegen.gpu import loops
from mgx_mlir.codegen.gpu.body import Body
from mgx_mlir.codegen.gpu.index import IndexBuilder, delinearise
from mgx_mlir.codegen.gpu.memory import Index, Memory, Piece, View, storage_type
from mgx_mlir.errors import CompilerError
from mgx_mlir.finalizer.code_object import Argument, Launch

BLOCK_SIZE = 256
# Few threads are spread over more compute units, in blocks of one wave.
SMALL_BLOCK_SIZE = 64
SMALL_LAUNCH = 16384
# HIP takes fewer than 2^32 threads along one dimension of a grid.
MAX_GRID_X = 1 << 23
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


@dataclass(frozen=True)
class _Function:
    name: str
    threads: int
    block_size: int
    pieces: tuple[Piece, ...]


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
        self._functions: list[_Function] = []
        self._fills: dict[Piece, tuple[loops.Nest, ir.Value]] = {}
        self._slots: dict[ir.Value, View] = {}
        self._module = ir.Module.create()
        self._largest = 0
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
        for op in operations:
            with op.location:
                self._step(op)
        for piece in list(self._fills):
            self._flush(piece)
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
        with self._function(nest.iterations) as (body, thread):
            dims: list[Index] = [0] * len(nest.sizes)
            offsets = loops.start(body, nest)
            counts = delinearise(body.build, thread, [group.size for group in nest.parallel])
            for group, count in zip(nest.parallel, counts, strict=True):
                offsets = loops.bind(body, nest, group, count, offsets, dims)
            loops.emit(body, nest, offsets, initial, dims)

    def _parallel(self, op: ir.Operation) -> None:
        space = loops.parallel_space(op)
        if prod(space.sizes) == 0:
            return
        with self._function(prod(space.sizes)) as (body, thread):
            counts = delinearise(body.build, thread, space.sizes)
            body.copy_iteration(op, space, counts)

    def _serial(self, op: ir.Operation) -> None:
        with self._function(1) as (body, _):
            body.copy(op)
            for result in op.results:
                body.store(body.value(result), self._slot(result), [0])

    # Functions ---------------------------------------------------------------------------

    def _function(self, threads: int) -> _FunctionContext:
        block = 1 if threads == 1 else _block_size(threads)
        return _FunctionContext(self, f"{self._name}_{len(self._functions)}", threads, block)

    def _finish(self, name: str, threads: int, block: int, body: Body, op: ir.Operation) -> None:
        arguments = body.entry.arguments
        order = {argument: number for number, argument in enumerate(arguments)}
        pieces = sorted(
            (piece for piece, value in body.pieces.items() if value in order),
            key=lambda piece: order[body.pieces[piece]],
        )
        types = [argument.type for argument in arguments]
        op.attributes["function_type"] = ir.TypeAttr.get(ir.FunctionType.get(types, []))
        unit = ir.UnitAttr.get()
        op.attributes["arg_attrs"] = ir.ArrayAttr.get(
            [
                ir.DictAttr.get(
                    {"llvm.noalias": unit}
                    if piece in body.written
                    else {"llvm.noalias": unit, "llvm.readonly": unit}
                )
                for piece in pieces
            ]
        )
        self._largest = max([self._largest, *(piece.elements for piece in body.pieces)])
        self._functions.append(_Function(name, threads, block, tuple(pieces)))

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
        for function in self._functions:
            arguments = tuple(
                Argument("scratch", offsets[piece])
                if piece.kind == "scratch"
                else Argument(piece.kind, int(piece.key))  # type: ignore[arg-type]
                for piece in function.pieces
            )
            block = (function.block_size, 1, 1)
            launches.append(Launch(function.name, _grid(function), block, arguments))
        last_thread = max((prod(launch.grid) * launch.block[0] for launch in launches), default=0)
        small = max(self._largest, last_thread) <= MAX_INDEX_32
        return GpuProgram(self._module, tuple(launches), scratch_bytes, 32 if small else 64)


class _FunctionContext:
    """A gpu.func under construction; gives its body and the number of the thread."""

    def __init__(self, owner: _Generator, name: str, threads: int, block_size: int) -> None:
        self._owner, self._name = owner, name
        self._threads, self._block_size = threads, block_size

    def __enter__(self) -> tuple[Body, Index]:
        owner = self._owner
        grid = _grid(_Function(self._name, self._threads, self._block_size, ()))
        unit, size = ir.UnitAttr.get(), self._block_size
        self._op = ir.Operation.create(
            "gpu.func",
            attributes={
                "sym_name": ir.StringAttr.get(self._name),
                "function_type": ir.TypeAttr.get(ir.FunctionType.get([], [])),
                "gpu.kernel": unit,
                "known_block_size": ir.DenseI32ArrayAttr.get([size, 1, 1]),
                "known_grid_size": ir.DenseI32ArrayAttr.get(list(grid)),
            },
            regions=1,
            ip=ir.InsertionPoint(owner._functions_block),
        )
        entry = self._op.regions[0].blocks.append()
        self._body = Body(entry, owner._memory, owner._slots)
        self._points = [ir.InsertionPoint(entry)]
        self._points[0].__enter__()
        thread = self._thread(grid)
        if grid[0] * grid[1] * size != self._threads:
            bound = self._body.build.value(self._threads)
            inside = arith.cmpi(arith.CmpIPredicate.ult, self._body.build.value(thread), bound)
            guard = scf.IfOp(inside)
            self._points.append(ir.InsertionPoint(guard.then_block))
            self._points[-1].__enter__()
        return self._body, thread

    def _thread(self, grid: tuple[int, int, int]) -> Index:
        if self._threads == 1:
            return 0
        build: IndexBuilder = self._body.build
        block: Index = 0
        if grid[0] > 1:
            block = _position("gpu.block_id", "x", grid[0])
        if grid[1] > 1:
            row = build.mul(_position("gpu.block_id", "y", grid[1]), grid[0])
            block = build.add(row, block)
        lane = _position("gpu.thread_id", "x", self._block_size)
        return build.add(build.mul(block, self._block_size), lane)

    def __exit__(self, kind: type[BaseException] | None, *rest: object) -> None:
        if kind is None and len(self._points) > 1:
            scf.yield_([])
        for point in reversed(self._points):
            point.__exit__(None, None, None)
        if kind is None:
            with ir.InsertionPoint(self._body.entry):
                gpu.return_([])
            self._owner._finish(self._name, self._threads, self._block_size, self._body, self._op)


def _position(op: str, dimension: str, bound: int) -> ir.Value:
    return ir.Operation.create(
        op,
        results=[ir.IndexType.get()],
        attributes={
            "dimension": ir.Attribute.parse(f"#gpu<dim {dimension}>"),
            "upper_bound": ir.IntegerAttr.get(ir.IndexType.get(), bound),
        },
    ).result


def _block_size(threads: int) -> int:
    return SMALL_BLOCK_SIZE if threads <= SMALL_LAUNCH else BLOCK_SIZE


def _grid(function: _Function) -> tuple[int, int, int]:
    blocks = -(-function.threads // function.block_size)
    columns = min(blocks, MAX_GRID_X)
    return columns, -(-blocks // columns), 1


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


def _is_view(op: ir.Operation) -> bool:
    return op.name.startswith("memref.") and any(
        isinstance(result.type, ir.MemRefType) for result in op.results
    )


def _memrefs(op: ir.Operation) -> Iterator[ir.Value]:
    """The memrefs that an op and those inside of it use."""
    found: list[ir.Value] = []

    def visit(inner: ir.Operation) -> ir.WalkResult:
        found.extend(v for v in inner.operands if isinstance(v.type, ir.MemRefType))
        return ir.WalkResult.ADVANCE

    op.walk(visit)
    return iter(found)


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
