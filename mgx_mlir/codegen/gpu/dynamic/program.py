"""Kernels whose sizes are arguments, for any GPU: one thread for each element."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from mlir import ir
from mlir.dialects import arith, gpu, scf

from mgx_mlir.artifact.code_object import Launch
from mgx_mlir.artifact.formulas import Formulas
from mgx_mlir.codegen.builders import emit
from mgx_mlir.codegen.generic.dynamic.body import Function, Place, build_elements
from mgx_mlir.codegen.generic.dynamic.kernel import (
    kernel_symbols,
    launch_arguments,
    lower_dynamic,
    split,
)
from mgx_mlir.codegen.generic.dynamic.nest import Nest
from mgx_mlir.codegen.generic.lowering.index import index_constant, symbol_values
from mgx_mlir.codegen.gpu.builders.function import gpu_module
from mgx_mlir.codegen.gpu.builders.program import GpuProgram, append_functions
from mgx_mlir.codegen.gpu.generic.function import BLOCK_SIZE
from mgx_mlir.dialects import mgx
from mgx_mlir.sizes.arithmetic import Number, ceil_div

# Sizes have no bound, so offsets need 64 bits.
_INDEX_BITS = 64
# Rows of a product that a thread computes: it reads each element of the right operand once.
ROWS = 4


DynamicProgram = GpuProgram


def in_turn(programs: Sequence[GpuProgram], formulas: Formulas) -> GpuProgram:
    """Programs, of which a run launches one, as one: they have the same scratch memory.

    The numbers of their launches stand for `formulas`.
    """
    first, *others = programs
    for other in others:
        append_functions(first.module, other.module)
    launches = tuple(launch for program in programs for launch in program.launches)
    scratch = sum((formulas.value(program.scratch_bytes) for program in programs), 0)
    bits = max(program.index_bits for program in programs)
    return GpuProgram(first.module, launches, formulas.number(scratch), bits)


def dynamic_program(kernel: mgx.KernelOp) -> DynamicProgram:
    """The GPU functions of an `mgx.kernel` with symbolic sizes, for any chip.

    Errors as `lower_dynamic`'s.
    """
    with kernel.context, kernel.location:
        name = kernel.sym_name.value
        module, block = gpu_module()
        functions = _Functions(name, block, kernel_symbols(kernel))
        lower_dynamic(kernel, functions)
        launches, scratch = functions.finish()
        program = GpuProgram(module, launches, scratch, _INDEX_BITS)
        return DynamicProgram.of(program, functions.formulas)


@contextmanager
def sized_function(
    block: ir.Block, name: str, threads: int, names: Sequence[str]
) -> Iterator[ir.Operation]:
    """Appends a gpu.func to `block`; ops that are built inside of the context are its body.

    Its first arguments are the sizes of these names; the body adds its pointers.
    """
    op = ir.Operation.create(
        "gpu.func",
        attributes={
            "sym_name": ir.StringAttr.get(name),
            "function_type": ir.TypeAttr.get(ir.FunctionType.get([], [])),
            "gpu.kernel": ir.UnitAttr.get(),
            "known_block_size": ir.DenseI32ArrayAttr.get([threads, 1, 1]),
        },
        regions=1,
        ip=ir.InsertionPoint(block),
    )
    entry = op.regions[0].blocks.append()
    values = [entry.add_argument(ir.IndexType.get(), ir.Location.unknown()) for _ in names]
    with ir.InsertionPoint(entry), symbol_values(dict(zip(names, values, strict=True))):
        yield op
        gpu.return_([])
    emit.set_arguments(op, entry)


class _Functions:
    def __init__(self, name: str, block: ir.Block, symbols: Sequence[str]) -> None:
        self.formulas = Formulas()
        self._name = name
        self._block = block
        self._symbols = tuple(symbols)
        self._made: list[tuple[str, int, tuple[Place, ...]]] = []

    def end(self) -> None:
        """Nothing: each nest has a function."""

    def add(self, nest: Nest) -> None:
        """Adds a function. A thread computes one element, or, for neighbours, those of `ROWS` rows
        in one column."""
        if nest.is_empty:
            return
        name, extents = f"{self._name}_{len(self._made)}", nest.space
        rows = ROWS if nest.neighbours and len(extents) > 1 else 1
        lines = [ceil_div(math.prod(extents[:-1]), rows), *extents[-1:]] if rows > 1 else extents
        threads = math.prod(lines)
        with sized_function(self._block, name, BLOCK_SIZE, self._symbols) as op:
            function = Function(
                op.regions[0].blocks[0], ir.Attribute.parse("#gpu.address_space<global>")
            )
            number = arith.muli(position("gpu.block_id"), index_constant(BLOCK_SIZE))
            number = arith.addi(number, position("gpu.thread_id"))
            bound = index_constant(threads)
            guard = scf.IfOp(arith.cmpi(arith.CmpIPredicate.ult, number, bound))
            with ir.InsertionPoint(guard.then_block):
                counts = [split(number, extents)] if rows == 1 else _rows(number, extents, lines)
                build_elements(guard.then_block, counts, extents, function, nest.build)
                scf.yield_([])
        grid = self.formulas.number(ceil_div(threads, BLOCK_SIZE))
        self._made.append((name, grid, tuple(function.pointers)))

    def finish(self) -> tuple[tuple[Launch, ...], int]:
        """The launches, and the bytes of scratch memory."""
        used = [places for _, _, places in self._made]
        arguments, scratch = launch_arguments(self._symbols, used, self.formulas)
        launches = tuple(
            Launch(name, (grid, 1, 1), (BLOCK_SIZE, 1, 1), own)
            for (name, grid, _), own in zip(self._made, arguments, strict=True)
        )
        return launches, scratch


def _rows(
    number: ir.Value, extents: Sequence[Number], lines: Sequence[Number]
) -> list[list[ir.Value]]:
    """The indices of a thread's elements; beyond the last row, the last row's are repeated."""
    line, column = split(number, lines)
    first = arith.muli(line, index_constant(ROWS))
    last = index_constant(math.prod(extents[:-1]) - 1)
    places = [arith.minui(arith.addi(first, index_constant(n)), last) for n in range(ROWS)]
    return [[*split(place, extents[:-1]), column] for place in places]


def position(op: str) -> ir.Value:
    """The number of a thread, or of a work-group."""
    attributes = {"dimension": ir.Attribute.parse("#gpu<dim x>")}
    return ir.Operation.create(op, results=[ir.IndexType.get()], attributes=attributes).result
