"""A kernel of a loop, for any GPU: one work-group, or one for each part, does all trips."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial

from mlir import ir
from mlir.dialects import arith, gpu

from mgx_mlir.artifact.code_object import Launch
from mgx_mlir.artifact.formulas import Formulas
from mgx_mlir.codegen.builders import emit
from mgx_mlir.codegen.gpu.builders.function import gpu_module, position, thread_number
from mgx_mlir.codegen.gpu.builders.program import GpuProgram
from mgx_mlir.codegen.gpu.loops import sized_function
from mgx_mlir.codegen.loops.kernel import (
    is_symbolic,
    kernel_symbols,
    launch_arguments,
    lower_nests,
    split,
)
from mgx_mlir.codegen.loops.nest import Nest
from mgx_mlir.codegen.loops.place import Place, element_bytes, memory_type
from mgx_mlir.codegen.loops.repeat import (
    Group,
    PartFunction,
    PartsMeetError,
    RepeatKernel,
    Result,
)
from mgx_mlir.codegen.meaning.index import index_constant
from mgx_mlir.dialects import mgx
from mgx_mlir.rewriting.kernel_loops import leading_sizes, loop_of
from mgx_mlir.rewriting.queries import shape
from mgx_mlir.sizes.arithmetic import Number, exact

# Threads of a work-group: those of the widest nest, within these bounds.
LEAST_THREADS, MOST_THREADS = 64, 1024
# Bytes of what a trip makes and what is carried that stay in LDS; the rest is scratch memory.
LDS_BYTES = 32 << 10
# Parts of a sum, at most: each one that reads it adds them up.
MOST_CUTS = 8
# Terms of a part of a sum, at least.
LEAST_TERMS = 16


def repeat_program(kernel: mgx.KernelOp) -> GpuProgram:
    """The function of an `mgx.kernel` with a loop. Errors as `lower_nests`'s."""
    with kernel.context, kernel.location:
        lead = leading_sizes(loop_of(kernel))
        for count in range(len(lead), 0, -1):
            try:
                return _program(kernel, lead[:count])
            except PartsMeetError:
                continue
        return _program(kernel, ())


def _program(kernel: mgx.KernelOp, parts: tuple[Number, ...]) -> GpuProgram:
    name, symbols = kernel.sym_name.value, kernel_symbols(kernel)
    module, block = gpu_module()
    threads = _threads(kernel, len(parts))
    formulas = Formulas()
    with sized_function(block, name, threads, symbols) as op:
        function = _Function(
            op.regions[0].blocks[0],
            ir.Attribute.parse("#gpu.address_space<global>"),
            parts=parts,
            part=split(position("gpu.block_id"), parts),
        )
        lower_nests(kernel, group := _Group(function, threads), RepeatKernel(group))
    function.end(op)
    (arguments,), scratch = launch_arguments(symbols, [tuple(function.pointers)], formulas)
    grid = formulas.number(math.prod(parts))
    launch = Launch(name, (grid, 1, 1), (threads, 1, 1), arguments)
    program = GpuProgram(module, (launch,), scratch, 64)
    return GpuProgram.of(program, formulas) if is_symbolic(kernel) else program


def _threads(kernel: mgx.KernelOp, parts: int) -> int:
    """Threads of a work-group: as many as a nest of the loop has work for."""
    most = 1
    for op in loop_of(kernel).body.blocks[0].operations:
        depth = shape(op.operands[0])[-1] if isinstance(op, mgx.DOTS) else 1
        for result in op.results:
            sizes = shape(result)[parts:]
            if all(isinstance(size, int) and size >= 0 for size in [*sizes, depth]):
                most = max(most, math.prod(sizes) * max(1, min(depth // LEAST_TERMS, MOST_CUTS)))
            else:
                most = MOST_THREADS
    return max(LEAST_THREADS, min(1 << (most - 1).bit_length(), MOST_THREADS))


@dataclass
class _Function(PartFunction):
    """Its places that hold no input and no result are in LDS, as far as there is room."""

    local: dict[Place, ir.Value] = field(default_factory=dict)
    used: int = 0

    def at(self, place: Place, index: ir.Value) -> tuple[ir.Value, ir.Value]:
        if place not in self.local and place not in self.pointers:
            self._place(place)
        if place not in self.local:
            return self.pointer(place), index
        if math.prod(self.parts) == 1:
            return self.local[place], index
        first = index_constant(0)
        for count, part in zip(self.parts, self.part, strict=True):
            first = arith.addi(arith.muli(first, index_constant(count)), part)
        size = self._size(place)
        assert size is not None  # it is in LDS
        start = arith.muli(first, index_constant(size))
        return self.local[place], arith.subi(index, start)

    def _size(self, place: Place) -> Number | None:
        """The elements of a part of a place; None where parts differ."""
        return exact(place.size, math.prod(self.parts))

    def _place(self, place: Place) -> None:
        """Gives a place its memory."""
        size = self._size(place)
        if place.argument is None and not isinstance(place, Result) and isinstance(size, int):
            bytes_ = -(-size * element_bytes(place.type) // 16) * 16
            if self.used + bytes_ <= LDS_BYTES:
                self.used += bytes_
                space = ir.Attribute.parse("#gpu.address_space<workgroup>")
                type_ = ir.MemRefType.get(
                    [max(size, 1)], memory_type(place.type), memory_space=space
                )
                # It stands for an argument, which comes after all pointers.
                with ir.InsertionPoint.at_block_begin(self.entry):
                    self.local[place] = ir.Operation.create(
                        "builtin.unrealized_conversion_cast", results=[type_]
                    ).result
                return
        self.pointer(place)

    def end(self, op: ir.Operation) -> None:
        """Makes the arrays in LDS arguments of the function."""
        i64 = ir.IntegerType.get_signless(64)
        op.attributes["workgroup_attributions"] = ir.IntegerAttr.get(i64, len(self.local))
        for value in self.local.values():
            argument = self.entry.add_argument(value.type, ir.Location.unknown())
            value.replace_all_uses_with(argument)
            value.owner.erase()


@dataclass
class _Group(Group):
    """Each thread takes elements of the part, as far apart as there are threads."""

    threads: int
    rolled = True

    def cuts(self, shape: Sequence[Number], depth: int) -> int:
        elements = math.prod(shape[len(self.function.parts) :])
        cuts = 1
        while (
            isinstance(elements, int)
            and 2 * cuts <= MOST_CUTS
            and depth % (2 * cuts) == 0
            and depth // (2 * cuts) >= LEAST_TERMS
            and 2 * cuts * elements <= self.threads
        ):
            cuts *= 2
        return cuts

    def build(self, nest: Nest, inner: Sequence[Number]) -> None:
        items = math.prod(inner)
        thread = emit.value(thread_number(self.threads))
        work = partial(self._element, nest, inner)
        if isinstance(items, int) and items <= self.threads:
            inside = emit.compare("slt", thread, items) if items < self.threads else True
            emit.when(inside, lambda: work(thread))
        else:
            emit.loop(thread, index_constant(items), self.threads, work)
        gpu.barrier()

    def _element(self, nest: Nest, inner: Sequence[Number], item: ir.Value) -> None:
        dims = [*self.function.part, *split(item, inner)]
        self.function.element(dims, nest.space, nest.build)
