"""Any kernel: its lowering to linalg, bufferized, as loops that LLVM vectorises.

Each linalg op becomes a loop nest; the outermost parallel iterations are the work items.
Ops that go through the same outer iterations, each touching only its own part of what the
others write, share one function, so that a row of a softmax stays in the cache from its
maximum to its quotient:

    for row in begin .. end:
        max, exp, sum, divide
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Literal

from mlir import ir

from mgx_mlir.codegen.contraction import emit
from mgx_mlir.codegen.cpu.function import KernelBuilder
from mgx_mlir.codegen.cpu.nests import Stage, build_rows, build_single, common_rows, item_count
from mgx_mlir.codegen.gpu import loops
from mgx_mlir.codegen.gpu.body import Body
from mgx_mlir.codegen.gpu.bufferize import bufferize
from mgx_mlir.codegen.gpu.generic import _flat_constant, _symbols_used
from mgx_mlir.codegen.gpu.memory import Memory, Piece, View
from mgx_mlir.codegen.lowering import lower_kernel
from mgx_mlir.errors import CompilerError
from mgx_mlir.finalizer.code_object import Argument, CodeObject
from mgx_mlir.target import Target

_NESTS = frozenset(("linalg.generic", "memref.copy"))
_PARALLEL = frozenset(("scf.forall", "scf.parallel"))
_NOTHING = frozenset(("func.return", "memref.alloc", "memref.dealloc", "memref.get_global"))


class HostBody(Body):
    """A function's body whose pointers are in the host's one address space."""

    def __init__(self, entry: ir.Block, memory: Memory, slots: dict[ir.Value, View]) -> None:
        super().__init__(entry, memory, slots)
        self._space = None
        self._private_space = None


def compile_generic(kernel: ir.OpView, target: Target) -> CodeObject:
    """The code object of any kernel that has a lowering. Errors as `lower_kernel`'s."""
    module = lower_kernel(kernel)
    function, inputs = bufferize(module)
    name = ir.StringAttr(kernel.attributes["sym_name"]).value
    builder = KernelBuilder(name, ir.Module.create())
    _Generator(function.operation, inputs, builder).run()
    return builder.finish(target)


class _Generator:
    def __init__(self, function: ir.Operation, inputs: int, builder: KernelBuilder) -> None:
        self._block = function.regions[0].blocks[0]
        self._source = function.parent
        self._builder = builder
        self._memory = Memory()
        self._slots: dict[ir.Value, View] = {}
        self._stages: list[Stage] = []
        self._fills: dict[Piece, tuple[loops.Nest, ir.Value]] = {}
        for number, argument in enumerate(self._block.arguments):
            is_input = number < inputs
            index = number if is_input else number - inputs
            kind: Literal["input", "output"] = "input" if is_input else "output"
            shape = tuple(ir.MemRefType(argument.type).shape)
            if 0 in shape:
                # MLIR gives no strides to what has no elements.
                piece = Piece(kind, index, 0, ir.MemRefType(argument.type).element_type)
                self._memory.views[argument] = View(piece, 0, (0,) * len(shape), shape)
            else:
                self._memory.bind(argument, kind, index)

    def run(self) -> None:
        operations = [op.operation for op in self._block.operations]
        for op in operations:
            if op.name == "memref.alloc":
                self._allocate(op.results[0])
        for op in operations:
            self._collect(op)
        for piece in list(self._fills):
            self._flush(piece)
        groups = self._grouped()
        self._place(groups)
        pieces: list[Sequence[Piece]] = []
        for group, rows in groups:
            self._function(group, rows, pieces)
        offsets, self._builder.scratch_bytes = self._memory.layout()
        self._builder.resolve(
            [
                [
                    Argument("scratch", offsets[piece])
                    if piece.kind == "scratch"
                    else Argument(piece.kind, int(piece.key))  # type: ignore[arg-type]
                    for piece in used
                ]
                for used in pieces
            ]
        )
        self._copy_constants()

    # Collecting --------------------------------------------------------------------------

    def _allocate(self, value: ir.Value) -> None:
        memref = ir.MemRefType(value.type)
        piece = self._memory.scratch(prod(memref.shape), memref.element_type, (0, 0))
        strides, _ = memref.get_strides_and_offset()
        self._memory.views[value] = View(piece, 0, tuple(strides), tuple(memref.shape))

    def _slot(self, value: ir.Value) -> None:
        """A place in scratch for a scalar that later functions need."""
        piece = self._memory.scratch(1, value.type, (0, 0))
        self._slots[value] = View(piece, 0, (1,), (1,))

    def _collect(self, op: ir.Operation) -> None:
        if op.name in _NOTHING or _is_view(op):
            return
        if op.name in _NESTS:
            self._collect_nest(loops.nest_of(op, self._view))
            return
        if self._is_plain_scalar(op):
            return
        touched = self._touched(op)
        for piece in touched:
            self._flush(piece)
        for result in op.results:
            self._slot(result)
        self._stages.append(Stage(op, None, {}, frozenset(touched)))

    def _collect_nest(self, nest: loops.Nest) -> None:
        """Fills wait for the reduction that starts from them."""
        if nest.iterations == 0:
            return
        fill = _filled_value(nest)
        if fill is not None:
            piece = nest.outputs[0].view.piece  # type: ignore[union-attr]
            self._flush(piece)
            self._fills[piece] = (nest, fill)
            return
        initial: dict[int, ir.Value] = {}
        for number, operand in enumerate(nest.operands):
            view = operand.view
            if view is None or view.piece not in self._fills or not nest.accumulates(operand):
                continue
            filled = self._fills[view.piece][0].outputs[0].view
            alone = sum(o.view is not None and o.view.piece == view.piece for o in nest.operands)
            covers = nest.iterations == prod(view.shape)
            if alone == 1 and covers and filled is not None and filled.covers_same(view):
                initial[number] = self._fills.pop(view.piece)[1]
        pieces = frozenset(o.view.piece for o in nest.operands if o.view)
        for piece in pieces:
            self._flush(piece)
        if nest.body is None and nest.operands[0].view == nest.operands[1].view:
            return
        self._stages.append(Stage(nest.op, nest, initial, pieces))

    def _flush(self, piece: Piece) -> None:
        if piece in self._fills:
            nest, _ = self._fills.pop(piece)
            self._stages.append(Stage(nest.op, nest, {}, frozenset([piece])))

    def _view(self, value: ir.Value) -> View:
        view = self._memory.view(value)
        if view is None:
            raise CompilerError(f"memory that is placed at run time is not supported: {value.type}")
        return view

    def _is_plain_scalar(self, op: ir.Operation) -> bool:
        """Whether every function that needs the result can compute it again."""
        if len(op.regions) or not len(op.results):
            return False
        if op.name == "memref.load":
            return self._view(op.operands[0]).piece.kind in ("input", "constant")
        return not any(isinstance(v.type, ir.MemRefType) for v in op.operands)

    def _touched(self, op: ir.Operation) -> set[Piece]:
        found: set[Piece] = set()

        def visit(inner: ir.Operation) -> ir.WalkResult:
            for value in inner.operands:
                if isinstance(value.type, ir.MemRefType):
                    view = self._memory.view(_root(value))
                    if view is not None:
                        found.add(view.piece)
            return ir.WalkResult.ADVANCE

        op.walk(visit)
        return found

    # Grouping ----------------------------------------------------------------------------

    def _grouped(self) -> list[tuple[list[Stage], int]]:
        """Stages by function, with the number of rows that a shared function goes through."""
        groups: list[tuple[list[Stage], int]] = []
        for stage in self._stages:
            if groups:
                together, _ = groups[-1]
                rows = common_rows([*together, stage])
                if rows:
                    groups[-1] = ([*together, stage], rows)
                    continue
            groups.append(([stage], 0))
        return groups

    def _place(self, groups: Sequence[tuple[list[Stage], int]]) -> None:
        """Scratch is taken from the first to the last function that touches it."""
        lifetimes: dict[Piece, tuple[int, int]] = {}
        for number, (group, _) in enumerate(groups):
            for stage in group:
                for piece in stage.pieces:
                    first, _ = lifetimes.get(piece, (number, number))
                    lifetimes[piece] = (first, number)
        for piece in self._memory.lifetimes:
            # Scalars live to the end: functions load them where they are used.
            always = (0, len(groups))
            self._memory.lifetimes[piece] = lifetimes.get(piece, always)

    # Functions ---------------------------------------------------------------------------

    def _function(self, group: Sequence[Stage], rows: int, pieces: list[Sequence[Piece]]) -> None:
        def build(entry: ir.Block, begin: ir.Value, end: ir.Value) -> list[Argument]:
            body = HostBody(entry, self._memory, self._slots)
            if rows:
                build_rows(body, group, rows, begin, end)
            elif group[0].nest is not None:
                build_single(body, group[0], begin, end)
            else:
                self._build_other(body, group[0].op, begin, end)
            order = {argument: number for number, argument in enumerate(entry.arguments)}
            used = [piece for piece, value in body.pieces.items() if value in order]
            used.sort(key=lambda piece: order[body.pieces[piece]])
            pieces.append(used)
            return [Argument("scratch", 0) for _ in used]

        self._builder.add_function(item_count(group, rows), build)

    def _build_other(self, body: Body, op: ir.Operation, begin: ir.Value, end: ir.Value) -> None:
        if op.name not in _PARALLEL:
            body.copy(op)
            for result in op.results:
                view = self._slots.pop(result)
                body.store(body.value(result), view, [0])
                self._slots[result] = view
            return
        space = loops.parallel_space(op)

        def iteration(item: emit.Index) -> None:
            counts: list[emit.Index] = []
            for size in reversed(space.sizes[1:]):
                counts.insert(0, emit.rem(item, size))
                item = emit.div(item, size)
            body.copy_iteration(op, space, [item, *counts])

        emit.loop(begin, end, 1, iteration)

    def _copy_constants(self) -> None:
        """The tables that functions read, flat, into the module."""
        module = self._builder.module
        table = ir.SymbolTable(self._source)
        for name in _symbols_used(module.body):
            value = ir.DenseElementsAttr(table[name].operation.attributes["initial_value"])
            flat = _flat_constant(value)
            memref = ir.MemRefType.get(flat.type.shape, flat.type.element_type)
            with ir.InsertionPoint.at_block_begin(module.body):
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


def _filled_value(nest: loops.Nest) -> ir.Value | None:
    """The scalar that the nest fills all of its output with, where that is all it does."""
    if nest.body is None or nest.reduction or len(nest.outputs) != 1:
        return None
    output = nest.outputs[0]
    if output.view is None or nest.iterations != prod(output.view.shape):
        return None
    if any(operand.view for operand in nest.operands[:-1]):
        return None
    (yield_, *more) = nest.body.operations
    if more:
        return None
    value = yield_.operation.operands[0]
    if not isinstance(value.owner, ir.Block):
        return value
    if value.owner != nest.body:
        return None
    scalar = nest.operands[ir.BlockArgument(value).arg_number]
    return None if scalar.is_output else scalar.value


def _is_view(op: ir.Operation) -> bool:
    return op.name.startswith("memref.") and any(
        isinstance(result.type, ir.MemRefType) for result in op.results
    )


def _root(value: ir.Value) -> ir.Value:
    """The memref that a chain of views starts from."""
    while not isinstance(value.owner, ir.Block):
        op = value.owner.operation
        if not _is_view(op) or not len(op.operands) or op.name.startswith("memref.alloc"):
            break
        value = op.operands[0]
    return value
