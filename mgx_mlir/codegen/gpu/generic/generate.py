"""Any bufferized function as GPU functions: one thread for each parallel iteration.

This path takes every kernel. Each linalg op, copy and parallel loop of the function becomes
one `gpu.func` in a `gpu.module`. The threads' numbers are split into the loop's indices, and
reductions are loops in the thread that keep their sums in registers. An op that is neither
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

from math import prod

from mlir import ir
from mlir.dialects import gpu

from mgx_mlir.artifact.code_object import Launch
from mgx_mlir.codegen.generic.buffers import emission, loops
from mgx_mlir.codegen.generic.buffers.index import delinearise
from mgx_mlir.codegen.generic.buffers.memory import Index, Memory, Piece
from mgx_mlir.codegen.generic.buffers.walk import PARALLEL, Walk, arguments_of, memory_uses, root
from mgx_mlir.codegen.gpu.builders.function import Dimensions
from mgx_mlir.codegen.gpu.builders.program import GpuProgram
from mgx_mlir.codegen.gpu.generic.function import Access, GpuBody, GpuFunction

# The largest element index that 32-bit offsets reach.
MAX_INDEX_32 = (1 << 31) - 1


def generate(function: ir.OpView, inputs: int, name: str = "kernel") -> GpuProgram:
    """GPU functions for `function`, a func.func on static memrefs whose first `inputs`
    arguments are its inputs and whose others are its outputs.

    Raises CompilerError, naming the op, for memory whose offset is only known at run time.
    """
    for dialect in ("arith", "gpu", "memref", "scf"):
        function.context.get_dialect_descriptor(dialect)  # loads it: ops are built, not parsed
    return _Generator(function.operation, inputs, name).run()


class _Generator(Walk):
    def __init__(self, function: ir.Operation, inputs: int, name: str) -> None:
        super().__init__(function, inputs)
        self._name = name
        self._functions: list[tuple[str, Dimensions, int, tuple[Piece, ...]]] = []
        self._module = ir.Module.create()
        self._largest = 0
        self._position = 0
        self._open: GpuFunction | None = None

    def run(self) -> GpuProgram:
        self._module.operation.attributes["gpu.container_module"] = ir.UnitAttr.get()
        with ir.InsertionPoint(self._module.body):
            gpu_module = gpu.GPUModuleOp(ir.StringAttr.get("kernels"))
        self._functions_block = gpu_module.regions[0].blocks.append()
        operations = [op.operation for op in self.block.operations]
        self.place_allocations(operations)
        for self._position, op in enumerate(operations):
            with op.location:
                self.step(op)
        self.finish()
        self._close()
        self.copy_constants(self._functions_block, ir.Attribute.parse(GpuBody.space))
        return self._program()

    # Ops ---------------------------------------------------------------------------------

    def nest(self, nest: loops.Nest, initial: dict[int, ir.Value]) -> None:
        accesses = _accesses(nest, self.memory)
        function = self._open
        if function is None or not function.takes(nest.iterations, accesses):
            function = self._function(nest.iterations)
        function.last = self._position
        function.accesses += accesses
        body = function.body
        with function.point:
            dims: list[Index] = [0] * len(nest.sizes)
            offsets = emission.start(body, nest)
            sizes = [group.size for group in nest.parallel]
            counts = delinearise(body.build, function.thread, sizes)
            for group, count in zip(nest.parallel, counts, strict=True):
                offsets = emission.bind(body, nest, group, count, offsets, dims)
            places = {number: nest.place(o) for number, o in enumerate(nest.operands)}
            known = {number: place for number, place in places.items() if place}
            emission.emit(body, nest, offsets, initial, dims, known)

    def other(self, op: ir.Operation) -> None:
        if op.name in PARALLEL:
            self._parallel(op)
        else:
            self._serial(op)

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
                function.body.store(function.body.value(result), self.slot(result), [0])
        self._close()

    # Functions ---------------------------------------------------------------------------

    def _function(self, threads: int) -> GpuFunction:
        """A new function of `threads` threads; the one before it ends."""
        self._close()
        name = f"{self._name}_{len(self._functions)}"
        self._open = GpuFunction(self._functions_block, name, threads, self.memory, self.slots)
        self._open.first = self._open.last = self._position
        return self._open

    def _close(self) -> None:
        function, self._open = self._open, None
        if function is None:
            return
        pieces = function.finish()
        for piece in pieces:
            # All of the function's work runs at the same time.
            if piece in self.memory.lifetimes:
                first, last = self.memory.lifetimes[piece]
                span = min(first, function.first), max(last, function.last)
                self.memory.lifetimes[piece] = span
        self._largest = max([self._largest, *(p.elements for p in function.body.pieces)])
        self._functions.append((function.name, function.grid, function.block_size, pieces))

    def _program(self) -> GpuProgram:
        offsets, scratch_bytes = self.memory.layout()
        launches = []
        for name, grid, block_size, pieces in self._functions:
            arguments = arguments_of(pieces, offsets)
            launches.append(Launch(name, grid, (block_size, 1, 1), arguments))
        last_thread = max((prod(launch.grid) * launch.block[0] for launch in launches), default=0)
        small = max(self._largest, last_thread) <= MAX_INDEX_32
        return GpuProgram(self._module, tuple(launches), scratch_bytes, 32 if small else 64)


def _accesses(nest: loops.Nest, memory: Memory) -> list[Access]:
    """The memory accesses of a thread of the nest, and their places."""
    found = []
    for operand in nest.operands:
        if operand.view is not None:
            place = nest.place(operand)
            found.append(Access(operand.view.piece, place, operand.is_output))
    if nest.body is not None:
        for op in nest.body.operations:
            for inner, value in memory_uses(op.operation):
                view = memory.view(root(value))
                if view is not None:
                    found.append(Access(view.piece, None, inner.name != "memref.load"))
    return found
