"""The functions of products of matrices: tiles over packed blocks, or few rows where B lies."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import cast

from mlir import ir

from mgx_mlir.codegen.builders import emit
from mgx_mlir.codegen.builders.emit import Index
from mgx_mlir.codegen.choice import Offer, best_offer
from mgx_mlir.codegen.cpu.contraction import Store, emit_contraction, emit_packing
from mgx_mlir.codegen.cpu.epilogue import Epilogue
from mgx_mlir.codegen.cpu.frame import Add, Computing, Frame, Memory, computed_first, with_computed
from mgx_mlir.codegen.cpu.schedule import CpuSchedule, Machine, choose, usual
from mgx_mlir.codegen.cpu.skinny import (
    Skinny,
    Vectors,
    choose_skinny,
    emit_skinny,
    is_direct,
    reads_computed,
)
from mgx_mlir.codegen.loops.place import Place
from mgx_mlir.codegen.problem.computed import readable, vector_of
from mgx_mlir.codegen.problem.match import Match, mapped, used_arguments
from mgx_mlir.codegen.problem.problem import Axis, Computed, Contraction, Image, Matrix
from mgx_mlir.codegen.refusal import Refusal
from mgx_mlir.sizes.arithmetic import Number, Size, is_more

# The most rows of which each reads B where it lies, whose columns or rows are contiguous: for more,
# packing B first costs less.
MOST_ALONG, MOST_ACROSS = 6, 3
# The most rows for which an item expands a block of B: their sums lie on the stack.
MOST_EXPANDED = 512
# The cost of computing a vector of an operand, in multiply-adds of a vector.
COMPUTED = 6.0


@dataclass(frozen=True)
class Product:
    """A product whose functions go to a frame, and the sums of others that are added."""

    frame: Frame
    match: Match
    before: Sequence[Place] = ()

    def add_skinny(self, cut: Skinny) -> None:
        """Adds the function of few rows."""
        self._add(cut.items(self.match.problem), partial(emit_skinny, cut=cut))

    def add_tiles(self, schedule: CpuSchedule) -> None:
        """Adds the functions of register tiles."""
        problem = self.match.problem
        packed = [self._add_packing(schedule)] if schedule.shared else []
        generate = partial(emit_contraction, schedule=schedule)
        self._add(schedule.items(problem), generate, packed)

    def _add(
        self, items: Number, generate: Callable[..., None], packed: Sequence[Place] = ()
    ) -> None:
        match, problem = self.match, self.match.problem

        def work(
            read: Memory, others: Sequence[ir.Value], end_: Epilogue, begin: ir.Value, end: ir.Value
        ) -> None:
            sums = others[: len(self.before)]
            store = _Total(problem, sums, end_) if sums else end_
            b: ir.Value | Vectors = others[-1] if packed else read[problem.b.argument]
            if isinstance(problem.b, Computed):
                b = partial(vector_of, problem.b, read)
            a = read[problem.a.argument]
            generate(problem, a=a, b=b, store=store, begin=begin, end=end)

        used = [number for number, _ in used_arguments(match)]
        self.frame.add(match, used, items, work, [*self.before, *packed])

    def _add_packing(self, schedule: CpuSchedule) -> Place:
        """Adds the function that packs B, which runs once for a weight."""
        problem, operand = self.match.problem, self.frame.inputs[self.match.problem.b.argument]
        size: Number = schedule.packed_size(problem)
        element = schedule.held_element(problem)
        # A copy for each of a symbolic number of matrices is made in each run.
        is_weight = operand.argument is not None and _is_given(problem.b) and isinstance(size, int)
        share = 1 if is_weight else self.frame.share
        size = share * size
        packed = Place(emit.memory_type(element), size)

        def body(pointers: Sequence[ir.Value], begin: ir.Value, end: ir.Value) -> None:
            source, target = pointers
            emit_packing(problem, schedule, source, target, begin, end)

        kept = size * emit.element_bytes(element) if is_weight else 0
        items = share * schedule.pack_items(problem)
        self.frame.functions.add_on([operand, packed], items, body, cast("int", kept))
        return packed


@dataclass(frozen=True)
class _Total:
    """Adds the sums of other products, which have the result's layout, and stores the total."""

    problem: Contraction
    before: Sequence[ir.Value]
    store: Store

    def __call__(
        self, sums: ir.Value, batch: Index, m: Index, n: Index, mask: ir.Value | None
    ) -> None:
        problem = self.problem
        place = emit.linear(n, (batch, problem.M * problem.N), (m, problem.N))
        lanes = ir.VectorType(sums.type).shape[0]
        for memory in self.before:
            more = emit.load_vector(memory, place, lanes, mask)
            sums = emit.plus(sums, more, problem.accumulator)
        self.store(sums, batch, m, n, mask)


def product_offers(match: Match, machine: Machine) -> dict[str, Callable[[], Offer | Refusal]]:
    """The ways of a product: offers whose `generate` gives an `Add`, or refusals."""
    match = (match.row_major() or match).as_row()
    if match.causal is not None or not all(isinstance(term.b, Matrix) for term in match.terms):
        refusal = Refusal("windows, or results that a diagonal bounds")
        return dict.fromkeys(("skinny", "tiles"), lambda: refusal)
    match = match if match.added else _with_joined_rows(match)
    if usual(match.problem) != match.problem:
        few = Refusal("symbolic sizes: it is a regime of tiles")
        return {"skinny": lambda: few, "tiles": partial(_regimes, match, machine)}
    return {"skinny": partial(_few_rows, match, machine), "tiles": partial(_tiles, match, machine)}


def _offer(words: str, work: float, add: Add) -> Offer:
    """An offer of so much work in multiply-adds of vectors, of which a core does two at once."""
    return Offer(words, lambda: add, work / 2)


def _few_rows(match: Match, machine: Machine) -> Offer | Refusal:
    reads = reads_computed(match.problem, machine)
    made, plain = ({}, match) if reads else computed_first(match)
    cut = choose_skinny(plain.problem, machine)
    if cut is None:
        return Refusal("too many rows, or operands that are not contiguous")

    def add(frame: Frame) -> None:
        _begun(frame, match, machine, reads).add_skinny(cut)

    return _offer(str(cut), cut.work(plain.problem) + _work_of(made, machine), add)


def _tiles(match: Match, machine: Machine) -> Offer:
    expands = expands_once(match.problem, machine)
    made, plain = ({}, match) if expands else computed_first(match)
    plan = choose(plain.problem, machine)

    def add(frame: Frame) -> None:
        _begun(frame, match, machine, expands).add_tiles(plan)

    return _offer(str(plan), plan.work(plain.problem) + _work_of(made, machine), add)


def _regimes(match: Match, machine: Machine) -> Offer | Refusal:
    """The functions of a product of symbolic sizes: of few rows, and of more."""
    problem, given = match.problem, usual(match.problem)
    if match.pairs and isinstance(problem.N, Size):
        return Refusal("pairs of columns, whose number is symbolic")
    if match.added:
        return Refusal("a sum of products")
    few = _rows_as_matrices(match)
    one = replace(few.problem, batch=1, N=given.N, K=given.K)
    cut, computes = choose_skinny(one, machine), isinstance(problem.b, Computed)
    many: Number = 1
    if cut is not None and not cut.transposed:
        most = MOST_ALONG if cut.along_k else MOST_ACROSS
        fits = reads_computed(one, machine) if computes else not _is_given(problem.b)
        many = is_more(problem.M, most) if fits and is_direct(problem) else 1
    made, plain = computed_first(match)
    if all(stride == 0 for _, stride in plain.problem.b.batch.factors):
        b = replace(plain.problem.b, batch=Axis(()))
        plain = replace(plain, problem=replace(plain.problem, b=b))
    plan = choose(plain.problem, machine)

    def add(frame: Frame) -> None:
        if many != 1 and cut is not None:
            Product(replace(frame, share=1 - many), few).add_skinny(cut)
        if many != 0:
            Product(with_computed(replace(frame, share=many), made), plain).add_tiles(plan)

    words = str(plan) if many == 1 else f"{cut}; {plan}"
    return _offer(words, plan.work(replace(given, a=plain.problem.a, b=plain.problem.b)), add)


def _work_of(made: Mapping[int, Computing], machine: Machine) -> float:
    """The work of operands that are computed first."""
    return sum(COMPUTED * work.size / machine.lanes("f32") for work in made.values())


def _begun(frame: Frame, match: Match, machine: Machine, computes: bool) -> Product:
    """A product after the functions of sums that are added, and of operands computed first.

    computes: the product computes operands as it reads them.
    """
    before: list[Place] = []
    for term in match.added:
        element = term.accumulator
        sums = Place(emit.memory_type(element), term.batch * term.M * term.N)
        alone = Match(term, element, None, (), (0,), (element,))
        offer = best_offer(product_offers(alone, machine))
        assert isinstance(offer, Offer)
        offer.generate()(replace(frame, outputs=[sums]))
        before.append(sums)
    match = replace(match, added=())
    if not computes:
        made, match = computed_first(match)
        frame = with_computed(frame, made)
    return Product(frame, match, before)


def expands_once(problem: Contraction, machine: Machine) -> bool:
    """Whether tiles take a product whose B is computed: an item expands its block for all rows."""
    b, lanes = problem.b, machine.lanes(problem.accumulator)
    if not isinstance(b, Computed) or isinstance(problem.a, Computed):
        return False
    return problem.M <= MOST_EXPANDED and problem.K % lanes == 0 and readable(b, True, lanes)


def _is_given(matrix: Matrix | Image) -> bool:
    """Whether an operand has given sizes: it is most likely a weight, which is packed once."""
    axes = (matrix.batch, matrix.row, matrix.column) if isinstance(matrix, Matrix) else matrix.axes
    factors = (factor for axis in axes for factor in axis.factors if factor[1] != 0)
    return not any(isinstance(number, Size) for factor in factors for number in factor)


def _with_joined_rows(match: Match) -> Match:
    """A match of matrices that one B serves as a match of one matrix, where rows allow that."""
    problem, b = match.problem, match.problem.b
    assert isinstance(b, Matrix)
    tensors = [read.matrix for read in b.tensors] if isinstance(b, Computed) else [b]
    if problem.batch == 1 or match.place is not None or type(problem.a) is not Matrix:
        return match
    if any(stride != 0 for x in tensors for _, stride in x.batch.factors):
        return match

    def joined(x: Matrix) -> Matrix:
        batch = x.batch.factors or ((problem.batch, 0),)
        row = x.row.factors or ((problem.M, 0),)
        return replace(x, batch=Axis(()), row=Axis.of(*batch, *row))

    def one(x: Matrix) -> Matrix:
        return replace(x, batch=Axis(()))

    a = joined(problem.a)
    if not a.row.stride:
        return match
    own = replace(problem, batch=1, M=problem.batch * problem.M, a=a, b=b.mapped(one))
    return replace(match, problem=own, sources=mapped(match.sources, joined))


def _rows_as_matrices(match: Match) -> Match:
    """A match of matrices of some rows as one of more matrices of one row."""
    problem = match.problem

    def apart(x: Matrix) -> Matrix:
        batch = x.batch.factors or ((problem.batch, 0),)
        row = x.row.factors or ((problem.M, 0),)
        return replace(x, batch=Axis.of(*batch, *row), row=Axis(()))

    def several(x: Matrix) -> Matrix:
        batch = x.batch.factors or ((problem.batch, 0),)
        return replace(x, batch=Axis.of(*batch, (problem.M, 0)))

    assert isinstance(problem.b, Matrix)
    a, b = apart(problem.a), problem.b.mapped(several)
    own = replace(problem, batch=problem.batch * problem.M, M=1, a=a, b=b)
    place = match.place and apart(match.place)
    return replace(match, problem=own, sources=mapped(match.sources, apart), place=place)
