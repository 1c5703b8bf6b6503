"""The generic path for any kernel: linalg, bufferized, as loops that LLVM vectorises.

Each linalg op becomes a loop nest; the outermost parallel iterations are the work items.
Ops share one function if they go through the same outer iterations and each touches only its
own part of what the others write. So a row of a softmax stays in the cache from its maximum to
its quotient:

    for row in begin .. end:
        max, exp, sum, divide
"""

from __future__ import annotations

from collections.abc import Sequence

from mlir import ir
from mlir.dialects import arith

from mgx_mlir.artifact.code_object import Argument, CodeObject
from mgx_mlir.artifact.target import Target
from mgx_mlir.codegen.builders import emit
from mgx_mlir.codegen.cpu.function import KernelBuilder
from mgx_mlir.codegen.cpu.nests import Stage, build_rows, build_single, common_rows, item_count
from mgx_mlir.codegen.cpu.schedule import SUM_DEPTH
from mgx_mlir.codegen.cpu.transposes import is_copy
from mgx_mlir.codegen.generic.buffers import loops
from mgx_mlir.codegen.generic.buffers.blocked_sums import block_sums
from mgx_mlir.codegen.generic.buffers.body import BufferBody
from mgx_mlir.codegen.generic.buffers.bufferize import bufferize
from mgx_mlir.codegen.generic.buffers.memory import Piece
from mgx_mlir.codegen.generic.buffers.walk import PARALLEL, Walk, arguments_of
from mgx_mlir.codegen.generic.lowering import lower_kernel
from mgx_mlir.dialects import mgx
from mgx_mlir.rewriting.in_place import overwritable, updates


def compile_generic(kernel: mgx.KernelOp, target: Target) -> CodeObject:
    """The code object of any kernel that has a lowering. Errors as `lower_kernel`'s."""
    return generic_builder(kernel, ir.Module.create()).finish(target)


def generic_builder(kernel: mgx.KernelOp, module: ir.Module) -> KernelBuilder:
    """The functions of any kernel that has a lowering, in a module of functions."""
    lowered = lower_kernel(kernel)
    function, inputs = bufferize(lowered)
    name = kernel.sym_name.value
    over = overwritable(kernel)
    builder = KernelBuilder(name, module, over, bool(over) and not updates(kernel))
    _Generator(function.operation, inputs, builder).run()
    return builder


class _Generator(Walk):
    def __init__(self, function: ir.Operation, inputs: int, builder: KernelBuilder) -> None:
        super().__init__(function, inputs)
        self._builder = builder
        self._stages: list[Stage] = []

    def run(self) -> None:
        operations = [op.operation for op in self.block.operations]
        self.place_allocations(operations)
        for op in operations:
            self.step(op)
        self.finish()
        groups = self._grouped()
        self._place(groups)
        pieces: list[tuple[Piece, ...]] = []
        for group, rows in groups:
            self._function(group, rows, pieces)
        offsets, self._builder.scratch_bytes = self.memory.layout()
        self._builder.resolve([arguments_of(used, offsets) for used in pieces])
        self.copy_constants(self._builder.module.body, None)

    # Collecting --------------------------------------------------------------------------

    def nest(self, nest: loops.Nest, initial: dict[int, ir.Value]) -> None:
        self._add(nest.op, nest, initial)

    def other(self, op: ir.Operation) -> None:
        for result in op.results:
            self.slot(result)
        self._add(op, None, {})

    def _add(self, op: ir.Operation, nest: loops.Nest | None, initial: dict[int, ir.Value]) -> None:
        pieces = self.touched(op), self.touched(op, inside=True)
        self._stages.append(Stage(op, nest, initial, *map(frozenset, pieces)))

    # Grouping ----------------------------------------------------------------------------

    def _grouped(self) -> list[tuple[list[Stage], int]]:
        """Stages by function, with the number of rows that a shared function iterates over."""
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
        """Allocates scratch from the first to the last function that touches it."""
        lifetimes: dict[Piece, tuple[int, int]] = {}
        for number, (group, _) in enumerate(groups):
            for stage in group:
                for piece in stage.pieces:
                    first, _ = lifetimes.get(piece, (number, number))
                    lifetimes[piece] = (first, number)
        for piece in self.memory.lifetimes:
            # Scalars live to the end: functions load them where they are used.
            always = (0, len(groups))
            self.memory.lifetimes[piece] = lifetimes.get(piece, always)

    # Functions ---------------------------------------------------------------------------

    def _function(self, group: Sequence[Stage], rows: int, pieces: list[tuple[Piece, ...]]) -> None:
        def build(entry: ir.Block, begin: ir.Value, end: ir.Value) -> list[Argument]:
            body = BufferBody(entry, self.memory, self.slots)
            over = () if rows else self._copied_over(group[0])
            if over:
                same = arith.cmpi(arith.CmpIPredicate.eq, *(body.start(piece) for piece in over))
                end = arith.select(same, begin, end)
            if rows:
                build_rows(body, group, rows, begin, end)
            elif group[0].nest is not None:
                build_single(body, group[0], begin, end)
            else:
                self._build_other(body, group[0].op, begin, end)
            block_sums(entry, SUM_DEPTH)
            order: dict[ir.Value, int] = {
                argument: number for number, argument in enumerate(entry.arguments)
            }
            used = [piece for piece, value in body.pieces.items() if value in order]
            used.sort(key=lambda piece: order[body.pieces[piece]])
            pieces.append(tuple(used))
            return [Argument("scratch", 0) for _ in used]

        self._builder.add_function(item_count(group, rows), build)

    def _copied_over(self, stage: Stage) -> tuple[Piece, ...]:
        """Input and output of a copy that may be one memory: then nothing has to be copied."""
        if stage.nest is None or len(stage.nest.operands) != 2 or not is_copy(stage.nest):
            return ()
        pieces = tuple(o.view.piece for o in stage.nest.operands if o.view is not None)
        return pieces if len(pieces) == 2 and all(map(self.memory.may_alias, pieces)) else ()

    def _build_other(
        self, body: BufferBody, op: ir.Operation, begin: ir.Value, end: ir.Value
    ) -> None:
        if op.name not in PARALLEL:
            body.copy(op)
            for result in op.results:
                view = self.slots.pop(result)
                body.store(body.value(result), view, [0])
                self.slots[result] = view
            return
        space = loops.parallel_space(op)

        def iteration(item: emit.Index) -> None:
            counts: list[emit.Index] = []
            for size in reversed(space.sizes[1:]):
                counts.insert(0, emit.rem(item, size))
                item = emit.div(item, size)
            body.copy_iteration(op, space, [item, *counts])

        emit.loop(begin, end, 1, iteration)
