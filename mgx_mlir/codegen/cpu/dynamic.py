"""Kernels for the host whose sizes are arguments: the work items are rows of elements."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace

from mlir import ir

from mgx_mlir.artifact.code_object import Argument, CodeObject
from mgx_mlir.artifact.formulas import Formulas
from mgx_mlir.artifact.target import Target
from mgx_mlir.codegen.builders import emit
from mgx_mlir.codegen.cpu.function import KernelBuilder
from mgx_mlir.codegen.cpu.schedule import SUM_DEPTH
from mgx_mlir.codegen.generic.buffers.blocked_sums import block_sums
from mgx_mlir.codegen.generic.dynamic.body import UNBOUNDED, Build, Function, Place, build_elements
from mgx_mlir.codegen.generic.dynamic.kernel import (
    is_dynamic,
    kernel_symbols,
    launch_arguments,
    lower_dynamic,
    split,
)
from mgx_mlir.codegen.generic.lowering.index import index_constant, symbol_values
from mgx_mlir.dialects import mgx
from mgx_mlir.sizes.arithmetic import Number

# A reduction block: rows, and columns (two vectors of f32) of each, reduced in parallel.
ROWS, COLUMNS = 4, 16


def compile_dynamic(kernel: mgx.KernelOp, target: Target) -> CodeObject:
    """The code object of an `mgx.kernel` with symbolic sizes. Errors as `lower_dynamic`'s."""
    functions = Functions.of(kernel)
    lower_dynamic(kernel, functions)
    return replace(functions.finish(kernel, target), why="sizes are arguments: generic path")


def finished(
    kernel: mgx.KernelOp,
    builder: KernelBuilder,
    places: Sequence[Sequence[Place]],
    formulas: Formulas,
    target: Target,
    explicit: bool = False,
) -> CodeObject:
    """The code object of functions that use these places. Launches of what is kept get no sizes."""
    symbols = kernel_symbols(kernel)
    arguments, scratch = launch_arguments(symbols, places, formulas)
    pairs = zip(arguments, builder.launches, strict=True)
    builder.resolve([own[len(symbols) if launch.kept else 0 :] for own, launch in pairs])
    code = replace(builder.finish(target, explicit), scratch_bytes=scratch)
    return replace(code, formulas=tuple(formulas.texts)) if is_dynamic(kernel) else code


class Functions:
    """The functions of a kernel under construction, which get the sizes first, then pointers."""

    def __init__(self, builder: KernelBuilder, symbols: Sequence[str]) -> None:
        self.builder = builder
        self.formulas = Formulas()
        self.symbols = tuple(symbols)
        self.places: list[tuple[Place, ...]] = []
        # By the number of a function that gets no sizes: the bytes that it makes (`Launch.kept`).
        self.kept: dict[int, int] = {}

    @staticmethod
    def of(kernel: mgx.KernelOp) -> Functions:
        """No functions yet, for a kernel."""
        builder = KernelBuilder(kernel.sym_name.value, ir.Module.create())
        return Functions(builder, kernel_symbols(kernel))

    def finish(self, kernel: mgx.KernelOp, target: Target, explicit: bool = False) -> CodeObject:
        """The code object of the functions."""
        for number, size in self.kept.items():
            launch = self.builder.launches[number]
            self.builder.launches[number] = replace(launch, kept=size)
        return finished(kernel, self.builder, self.places, self.formulas, target, explicit)

    def add_on(
        self,
        places: Sequence[Place],
        items: Number,
        body: Callable[[Sequence[ir.Value], ir.Value, ir.Value], None],
        kept: int = 0,
    ) -> None:
        """Adds a function with pointers to `places`; `body` as `KernelBuilder.add`'s.

        One that makes something to keep gets no sizes.
        """
        names = () if kept else self.symbols
        if kept:
            self.kept[len(self.places)] = kept

        def function(entry: ir.Block, begin: ir.Value, end: ir.Value) -> list[Argument]:
            unknown = ir.Location.unknown()
            values = [entry.add_argument(ir.IndexType.get(), unknown) for _ in names]
            types = [ir.MemRefType.get([UNBOUNDED], place.type) for place in places]
            pointers = [entry.add_argument(type_, unknown) for type_ in types]
            with symbol_values(dict(zip(names, values, strict=True))):
                body(pointers, begin, end)
            return [Argument("size", 0)] * len(names) + [Argument("scratch", 0)] * len(places)

        self.places.append(tuple(places))
        self.builder.add_function(self.formulas.number(items), function)

    def add(self, extents: Sequence[Number], build: Build, neighbours: bool) -> None:
        """Adds a loop over the last dimension in a function; the other dimensions are its items.

        Neighbours of some rows are computed together: LLVM makes vectors of them.
        """
        outer = list(extents[:-1]) if len(extents) > 1 else list(extents)
        inner = list(extents[-1:]) if len(extents) > 1 else []

        def function(entry: ir.Block, begin: ir.Value, end: ir.Value) -> list[Argument]:
            index = ir.IndexType.get()
            values = [entry.add_argument(index, ir.Location.unknown()) for _ in self.symbols]
            made = Function(entry)

            def here(rows: Sequence[Sequence[ir.Value]], columns: int = 1) -> None:
                block = ir.InsertionPoint.current.block
                build_elements(block, rows, extents, made, build, columns)

            def some(item: emit.Index, count: int) -> None:
                rows = [split(emit.value(emit.add(item, n)), outer) for n in range(count)]
                if not inner:
                    for row in rows:
                        here([row])
                    return
                size, whole = index_constant(inner[0]), emit.value(0)
                if neighbours:
                    whole = emit.value(emit.mul(emit.div(size, COLUMNS), COLUMNS))
                    emit.loop(
                        0,
                        whole,
                        COLUMNS,
                        lambda n: here([[*r, emit.value(n)] for r in rows], COLUMNS),
                    )
                for row in rows:
                    emit.loop(whole, size, 1, lambda n, row=row: here([[*row, emit.value(n)]]))

            with symbol_values(dict(zip(self.symbols, values, strict=True))):
                tiled = begin
                if neighbours and inner:
                    blocks = emit.div(emit.sub(end, begin), ROWS)
                    tiled = emit.value(emit.add(begin, emit.mul(blocks, ROWS)))
                    emit.loop(begin, tiled, ROWS, lambda item: some(item, ROWS))
                emit.loop(tiled, end, 1, lambda item: some(item, 1))
            block_sums(entry, SUM_DEPTH)
            self.places.append(tuple(made.pointers))
            return [Argument("size", 0)] * len(values) + [Argument("scratch", 0)] * len(
                made.pointers
            )

        self.builder.add_function(self.formulas.number(math.prod(outer)), function)
