"""A loop of multiply-adds that depend on nothing else: the peak rate of a core, measured."""

from __future__ import annotations

from collections.abc import Sequence

from mlir import ir

from mgx_mlir.artifact.code_object import Argument, CodeObject
from mgx_mlir.artifact.target import Target
from mgx_mlir.codegen.builders import emit
from mgx_mlir.codegen.cpu.kernel import load_dialects
from mgx_mlir.codegen.cpu.nests import Functions
from mgx_mlir.codegen.cpu.schedule import Machine
from mgx_mlir.codegen.loops.place import Place
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
        functions = Functions("peak", lanes)
        sums_ = Place(emit.element_type("f32"), _SUMS * lanes, Argument("output", 0))

        def body(pointers: Sequence[ir.Value], begin: ir.Value, end: ir.Value) -> None:
            (memory,) = pointers
            factor = emit.load_vector(memory, 0, lanes)

            def step(_: ir.Value, *sums: ir.Value) -> list[ir.Value]:
                return [emit.multiply_add(x, factor, factor, "f32") for x in sums]

            starts = [emit.load_vector(memory, n * lanes, lanes) for n in range(_SUMS)]
            sums = emit.loop(begin, end, 1, step, starts, rolled=True)
            for n, x in enumerate(sums):
                emit.store_vector(x, memory, n * lanes)

        functions.add_on([sums_], 1, body)
        return functions.finish(target, explicit=True), 2 * _SUMS * lanes
