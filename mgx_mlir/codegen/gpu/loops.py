"""The path that every kernel can take on a GPU: one thread for each element of a nest.

Nests share a function where each thread touches what they write at one place only, its own: a
reduction and the work on its result, say. Reductions are loops in a thread.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from mlir import ir
from mlir.dialects import arith, gpu, scf

from mgx_mlir.artifact.code_object import Launch
from mgx_mlir.artifact.formulas import Formulas
from mgx_mlir.codegen.builders import emit
from mgx_mlir.codegen.gpu.builders.function import (
    Dimensions,
    gpu_module,
    grid_of,
    linear_block,
    position,
    promise,
    thread_number,
)
from mgx_mlir.codegen.gpu.builders.program import GpuProgram
from mgx_mlir.codegen.loops.blocked_sums import block_sums
from mgx_mlir.codegen.loops.body import Function
from mgx_mlir.codegen.loops.kernel import is_symbolic, kernel_symbols, launch_arguments, lower_nests
from mgx_mlir.codegen.loops.nest import Access, Facts, Nest, bind, build_elements
from mgx_mlir.codegen.loops.place import Place
from mgx_mlir.codegen.meaning.index import symbol_values
from mgx_mlir.dialects import mgx
from mgx_mlir.rewriting.in_place import overwritable
from mgx_mlir.rewriting.queries import definition, ops_inside
from mgx_mlir.sizes.arithmetic import Number, ceil_div

BLOCK_SIZE = 256
# A small launch uses work-groups of one wave, to spread its threads over more compute units.
SMALL_BLOCK_SIZE, SMALL_LAUNCH = 64, 16384
# Terms that a thread adds to one float before that is added to a total.
SUM_TERMS = 1024
# Rows of a product that a thread computes: it reads each element of the right operand once.
ROWS = 4
# Iterations that are unrolled: loads in flight hide the latency of memory.
UNROLL = 4
# The largest element index that 32-bit offsets reach.
MAX_INDEX_32 = (1 << 31) - 1


def loops_program(kernel: mgx.KernelOp) -> GpuProgram:
    """The GPU functions of any `mgx.kernel`, for any chip. Errors as `lower_nests`'s."""
    with kernel.context, kernel.location:
        module, block = gpu_module()
        functions = _Functions(kernel, block)
        lower_nests(kernel, functions)
        program = functions.program(module)
        return GpuProgram.of(program, functions.formulas) if is_symbolic(kernel) else program


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
    def __init__(self, kernel: mgx.KernelOp, block: ir.Block) -> None:
        self.formulas = Formulas()
        self._name, self._block = kernel.sym_name.value, block
        self._symbols, self._over = kernel_symbols(kernel), overwritable(kernel)
        self._nests: list[Facts] = []
        self._made: list[tuple[str, tuple[int, int, int], int, tuple[Place, ...]]] = []
        self._largest = 0

    def add(self, nest: Nest) -> None:
        if not nest.is_empty:
            self._nests.append(Facts.of(nest, self._symbols))

    def end(self) -> None:
        groups: list[list[Facts]] = []
        for facts in self._nests:
            if groups and _fit([*groups[-1], facts]):
                groups[-1].append(facts)
            else:
                groups.append([facts])
        for group in groups:
            self._build(group)

    def program(self, module: ir.Module) -> GpuProgram:
        """The functions, and their launches."""
        used = [places for _, _, _, places in self._made]
        arguments, scratch = launch_arguments(self._symbols, used, self.formulas)
        launches = tuple(
            Launch(name, grid, (threads, 1, 1), own)
            for (name, grid, threads, _), own in zip(self._made, arguments, strict=True)
        )
        small = not self._symbols and self._largest <= MAX_INDEX_32
        return GpuProgram(module, launches, scratch, 32 if small else 64)

    def _build(self, nests: Sequence[Facts]) -> None:
        """Adds the function of some nests. A thread computes an element of each, or, of neighbours,
        those of `ROWS` rows in one column."""
        facts, name = nests[0], f"{self._name}_{len(self._made)}"
        groups, count = facts.parallel, facts.iterations
        tiled = facts.nest.neighbours and len(groups) > 1
        columns: Number = groups[-1].size if groups else 1
        rows: Number = math.prod(group.size for group in groups[:-1])
        if tiled:
            count = ceil_div(rows, ROWS) * columns
        threads, grid = _threads(count), None
        if isinstance(count, int):
            grid = grid_of(ceil_div(count, threads), threads)
        with sized_function(self._block, name, threads, self._symbols) as op:
            entry = op.regions[0].blocks[0]
            function = Function(entry, ir.Attribute.parse("#gpu.address_space<global>"))
            number = _number(threads, grid)

            def work() -> None:
                for facts in nests:
                    first: list[emit.Index] = [0] * len(facts.nest.extents)
                    places = [list(first) for _ in range(ROWS if tiled else 1)]
                    for n, dims in enumerate(places):
                        item = _row(number, n, columns, rows) if tiled else number
                        bind(facts.parallel, dims, item)
                    build_elements(function, facts, places)

            full = grid is not None and math.prod(grid) * threads == count
            emit.when(full or emit.compare("ult", number, count), work)
            block_sums(entry, SUM_TERMS)
            _unroll(op)
        places = tuple(function.pointers)
        written = frozenset[Place]().union(*(facts.written for facts in nests))
        promises = [promise(place in written, self._shared(place)) for place in places]
        attributes = [ir.DictAttr.get(own) for own in [*({} for _ in self._symbols), *promises]]
        op.attributes["arg_attrs"] = ir.ArrayAttr.get(attributes)
        if grid is not None:
            op.attributes["known_grid_size"] = ir.DenseI32ArrayAttr.get(list(grid))
        own = grid or (self.formulas.number(ceil_div(count, threads)), 1, 1)
        self._made.append((name, own, threads, places))
        if not self._symbols:
            sizes = [math.prod(own) * threads, *(place.size for place in places)]
            self._largest = max(self._largest, *(n for n in sizes if isinstance(n, int)))

    def _shared(self, place: Place) -> bool:
        """Whether a place may be the memory of another one."""
        argument = place.argument
        if argument is None or not self._over:
            return False
        return argument.kind == "output" or argument.index in self._over


def _threads(count: Number) -> int:
    """Threads of a work-group, of so many in all."""
    if count == 1:
        return 1
    return SMALL_BLOCK_SIZE if isinstance(count, int) and count <= SMALL_LAUNCH else BLOCK_SIZE


def _number(threads: int, grid: Dimensions | None) -> emit.Index:
    """The number of a thread among all."""
    if grid is None:
        first = arith.muli(position("gpu.block_id"), emit.value(threads))
        return arith.addi(first, position("gpu.thread_id"))
    return emit.add(emit.mul(linear_block(grid), threads), thread_number(threads))


def _row(number: emit.Index, n: int, columns: Number, rows: Number) -> emit.Index:
    """The number of a thread's n-th element; beyond the last row, the last row's are repeated."""
    line = emit.add(emit.mul(emit.div(number, columns), ROWS), n)
    row = arith.minui(emit.value(line), emit.value(rows - 1))
    return emit.add(emit.mul(row, columns), emit.rem(number, columns))


def _fit(nests: Sequence[Facts]) -> bool:
    """Whether a thread can do the work of nests without waiting for other threads."""
    first = nests[0].iterations
    if any(x.is_sequential or x.nest.neighbours or x.iterations != first for x in nests):
        return False
    written = frozenset[Place]().union(*(facts.written for facts in nests))
    places: dict[Place, set[object]] = {}
    for facts in nests:
        for access in facts.accesses:
            if access.place in written:
                places.setdefault(access.place, set()).add(_own_place(facts, access))
    return all(len(found) == 1 and None not in found for found in places.values())


def _own_place(facts: Facts, access: Access) -> tuple[object, ...] | None:
    """Where a thread's only element is, as steps of the thread's number; None if it has several.

    The number is split by the sizes of the steps.
    """
    reduced = [dim for group in facts.reduction for dim in group.dims]
    if not access.is_strided or any(access.step(dim) != 0 for dim in reduced):
        return None
    steps: list[tuple[Number, Number]] = []
    for group in facts.parallel:
        size, step = group.size, access.step(group.dims[-1])
        if steps and steps[-1][1] == step * size:
            size = size * steps.pop()[0]
        steps.append((size, step))
    return access.where.constant, *steps


def _unroll(function: ir.Operation) -> None:
    """Says how often loops are unrolled: LLVM's own choice takes ten times longer to compile."""
    for loop in ops_inside(function, scf.ForOp):
        bound = definition(loop.upperBound)
        known = bound.value.value if isinstance(bound, arith.ConstantOp) else UNROLL
        innermost = not any(op.operation.regions for op in loop.body.operations)
        count = min(known, UNROLL) if innermost else 1
        how = f"count = {count} : i32" if count > 1 else "disable = true"
        annotation = f"#llvm.loop_annotation<unroll = <{how}>>"
        loop.operation.attributes["llvm.loop_annotation"] = ir.Attribute.parse(annotation)
