"""A loop of multiply-adds that depend on nothing else: the peak rate of a core, measured."""

from __future__ import annotations

from mlir import ir

from mgx_mlir.artifact.code_object import Argument, CodeObject
from mgx_mlir.artifact.target import Target
from mgx_mlir.codegen.builders import emit
from mgx_mlir.codegen.cpu.function import KernelBuilder
from mgx_mlir.codegen.cpu.kernel import load_dialects
from mgx_mlir.codegen.cpu.schedule import Machine
from mgx_mlir.codegen.loops.place import UNBOUNDED
from mgx_mlir.dialects import context

# Sums of vectors that are in flight: enough to hide their latency, on every processor.
_SUMS = 12


def peak_loop(target: Target) -> tuple[CodeObject, int]:
    """The code object of `peak_0`, whose items do so many operations on f32 each; and how many.

    Its one argument is an array of f32 for the sums.
    """
    lanes = Machine.of(target).lanes("f32")
    with context() as used, ir.Location.unknown():
        load_dialects(used)
        builder = KernelBuilder("peak", ir.Module.create())

        def build(entry: ir.Block, begin: ir.Value, end: ir.Value) -> list[Argument]:
            type_ = ir.MemRefType.get([UNBOUNDED], emit.element_type("f32"))
            memory = entry.add_argument(type_, ir.Location.unknown())
            factor = emit.load_vector(memory, 0, lanes)

            def step(_: ir.Value, *sums: ir.Value) -> list[ir.Value]:
                return [emit.multiply_add(x, factor, factor, "f32") for x in sums]

            starts = [emit.load_vector(memory, n * lanes, lanes) for n in range(_SUMS)]
            sums = emit.loop(begin, end, 1, step, starts, rolled=True)
            for n, x in enumerate(sums):
                emit.store_vector(x, memory, n * lanes)
            return [Argument("output", 0)]

        builder.add_function(1, build)
        return builder.finish(target, explicit=True), 2 * _SUMS * lanes
