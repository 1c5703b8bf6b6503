"""Products of any number of rows: register tiles over a packed weight, as for a given number.

    %c = mgx.dot %a, %b : tensor<?x64xf32, #mgx.dims<[batch, _]>>, tensor<64x32xf32>

The right operand is packed by a launch of its own. Rows that fill no tile of the schedule's height
go through tiles of fewer rows, so that one row costs as much as it reads.

Weights of few bits, which are computed as they are read, stay as they are: each of few rows reads
them as the kernel of one row does. For more rows they are computed and packed in each run.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial

from mlir import ir

from mgx_mlir.artifact.code_object import Argument
from mgx_mlir.codegen.builders import emit
from mgx_mlir.codegen.cpu.contraction import emit_contraction, emit_packing
from mgx_mlir.codegen.cpu.epilogue import Epilogue
from mgx_mlir.codegen.cpu.nests import Functions
from mgx_mlir.codegen.cpu.operands import Computing
from mgx_mlir.codegen.cpu.pack import by_rows
from mgx_mlir.codegen.cpu.schedule import CpuSchedule, Machine, choose
from mgx_mlir.codegen.cpu.skinny import choose_skinny, emit_skinny, reads_computed
from mgx_mlir.codegen.cpu.ways import rows_as_matrices
from mgx_mlir.codegen.loops.body import Place
from mgx_mlir.codegen.meaning.index import index_constant
from mgx_mlir.codegen.problem.computed import vector_of
from mgx_mlir.codegen.problem.match import Match, used_arguments
from mgx_mlir.codegen.problem.problem import Computed, Contraction
from mgx_mlir.codegen.problem.rows import Rows, match_rows, with_rows
from mgx_mlir.codegen.refusal import Refusal
from mgx_mlir.dialects import mgx
from mgx_mlir.sizes.arithmetic import Number, ceil_div, is_more

# The number of rows that a schedule is chosen for.
USUAL_ROWS = 512
# The most rows that each read weights of few bits for themselves: for more, computing the weights
# once costs less.
FEW = 6
# The argument number of weights that are computed first.
_COMPUTED = -2


def match_product(kernel: mgx.KernelOp, machine: Machine) -> Rows | Refusal:
    """A kernel as a product of any number of rows with a matrix, or why it is none."""
    anchors = [
        op
        for op in kernel.regions[0].blocks[0].operations
        if isinstance(op, (*mgx.CONTRACTIONS, *mgx.DOTS))
    ]
    if len(anchors) != 1 or not isinstance(anchors[0], mgx.DOTS):
        return Refusal("several products, or one of windows")
    found = match_rows(kernel, anchors[0].operation)
    if isinstance(found, Refusal):
        return found
    problem = with_rows(found.match, USUAL_ROWS).problem
    if not by_rows(problem.a, machine.lanes(problem.accumulator)):
        return Refusal("rows whose elements are apart")
    return found


def add_product(
    functions: Functions, found: Rows, outputs: Sequence[Place], machine: Machine
) -> None:
    """Adds the functions of a product whose results go to `outputs`."""
    match = with_rows(found.match, USUAL_ROWS)
    inputs = {
        number: Place(emit.memory_type(element), found.elements[number], Argument("input", number))
        for number, element in used_arguments(match)
    }
    own = _Product(functions, found.rows, inputs, outputs, machine)
    if not isinstance(match.problem.b, Computed):
        own.add_tiles(match)
        return
    many = own.add_few(rows_as_matrices(match))
    if many != 0:
        own.add_tiles(own.add_computing(match, many), many)


@dataclass(frozen=True)
class _Product:
    """The functions of a product of `rows` rows. A share is 1 for the numbers of rows that a
    function is for, and 0 for others."""

    functions: Functions
    rows: Number
    inputs: dict[int, Place]
    outputs: Sequence[Place]
    machine: Machine

    def add_few(self, match: Match) -> Number:
        """Adds the function that computes B as it reads it, for each of few rows.

        Gives the share of the others; all where no vector of B can be read so.
        """
        problem = match.problem
        cut = choose_skinny(problem, self.machine)
        if cut is None or not reads_computed(problem, self.machine):
            return 1
        many = is_more(self.rows, FEW)
        used = [number for number, _ in used_arguments(match)]
        assert isinstance(problem.b, Computed)
        b = problem.b

        def body(pointers: Sequence[ir.Value], begin: ir.Value, end: ir.Value) -> None:
            read = dict(zip(used, pointers, strict=False))
            epilogue = Epilogue(match, read, pointers[len(used) :])
            vectors = partial(vector_of, b, read)
            emit_skinny(problem, cut, read[problem.a.argument], vectors, epilogue, begin, end)

        items = self.rows * (cut.items(problem) // problem.batch)
        places = [*(self.inputs[number] for number in used), *self.outputs]
        self.functions.add_on(places, (1 - many) * items, body)
        return many

    def add_computing(self, match: Match, share: Number) -> Match:
        """Adds the function that computes B. Gives the match that reads it."""
        assert isinstance(match.problem.b, Computed)
        work = Computing.of(match.problem.b, _COMPUTED)
        made = Place(emit.memory_type(work.result.element), share * work.size)
        read = [self.inputs[number] for number in work.arguments]
        self.functions.add_on([*read, made], share * work.items, work.emit)
        self.inputs[_COMPUTED] = made
        return replace(match, problem=replace(match.problem, b=work.result))

    def add_tiles(self, match: Match, share: Number = 1) -> None:
        """Adds the functions of register tiles."""
        problem = match.problem
        schedule = replace(choose(problem, self.machine), shared=True)
        used = [number for number, _ in used_arguments(match)]
        packed = self._add_packing(problem, schedule, share)
        places = [*(self.inputs[number] for number in used), *self.outputs, packed]
        items = schedule.column_blocks(problem) * ceil_div(self.rows, schedule.item_rows)

        def body(pointers: Sequence[ir.Value], begin: ir.Value, end: ir.Value) -> None:
            read = dict(zip(used, pointers, strict=False))
            epilogue = Epilogue(match, read, pointers[len(used) : -1])
            a, rows = read[problem.a.argument], index_constant(self.rows)
            emit_contraction(problem, schedule, a, pointers[-1], epilogue, begin, end, rows)

        self.functions.add_on(places, share * items, body)

    def _add_packing(self, problem: Contraction, schedule: CpuSchedule, share: Number) -> Place:
        """Adds the function that packs the right operand, which runs once for a weight."""
        element, size = schedule.packed_element(problem), schedule.packed_size(problem)
        packed = Place(emit.memory_type(element), share * size)

        def body(pointers: Sequence[ir.Value], begin: ir.Value, end: ir.Value) -> None:
            source, target = pointers
            emit_packing(problem, schedule, source, target, begin, end)

        number = problem.b.argument
        kept = 0 if number == _COMPUTED else size * emit.element_bytes(element)
        places = [self.inputs[number], packed]
        self.functions.add_on(places, share * schedule.pack_items(problem), body, kept)
        return packed
