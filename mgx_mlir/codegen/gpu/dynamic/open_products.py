"""Products of activations of any sizes, and convolutions of images of any: tiles of one matrix.

    %c = mgx.dot %a, %b : tensor<?x?x?xf16, #mgx.dims<[b, m, k]>>, tensor<?x?x?xf16, ...>
    %y = mgx.convolution %x, %w : tensor<?x?x?x16xf32, #mgx.dims<[batch, h, w, _]>>, ...

Pointers advance to the work-group's matrix, or image, in 64 bits; within it offsets have 31 bits.
The loop along a symbolic K has whole turns, and reads zeros behind the last element. There are
functions for few results and for many, and, where vectors divide no symbolic K or stride for
sure, functions for sizes that they divide. A run launches one: the grids of the others are 0.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from functools import partial
from typing import cast

from mlir import ir

from mgx_mlir.artifact.code_object import Argument, Launch
from mgx_mlir.artifact.target import Target
from mgx_mlir.capabilities import CHUNK_BYTES
from mgx_mlir.codegen.builders import emit
from mgx_mlir.codegen.gpu.builders.function import (
    MAX_THREADS,
    Tensor,
    block_number,
    signature,
    thread_number,
)
from mgx_mlir.codegen.gpu.builders.program import Generated, aligned
from mgx_mlir.codegen.gpu.dynamic.pointers import (
    USUAL,
    Move,
    OpenProgram,
    forwards,
    one_part,
    reach,
    value_of,
)
from mgx_mlir.codegen.gpu.dynamic.program import DynamicProgram
from mgx_mlir.codegen.gpu.families.contraction import finish, packing
from mgx_mlir.codegen.gpu.families.contraction.constraints import MAX_BATCH, problem_refusal
from mgx_mlir.codegen.gpu.families.contraction.convolution import (
    PACKED_FILTER,
    PACKED_IMAGE,
    Product,
    channels_moved_last,
    in_place,
    place_of_results,
    stored_along,
    subsampled,
)
from mgx_mlir.codegen.gpu.families.contraction.cost import choose
from mgx_mlir.codegen.gpu.families.contraction.function import (
    Parameter,
    Tensors,
    WorkGroups,
    add_function,
)
from mgx_mlir.codegen.gpu.families.contraction.generator import TilesGenerator, epilogue_work
from mgx_mlir.codegen.gpu.families.contraction.packing import Packing, emit_channels_last
from mgx_mlir.codegen.gpu.families.contraction.recipes.tiles import Tiles
from mgx_mlir.codegen.gpu.families.contraction.request import Request
from mgx_mlir.codegen.gpu.families.contraction.space import Tiling
from mgx_mlir.codegen.gpu.families.family import Family, Matched
from mgx_mlir.codegen.gpu.families.regimes import Regime, in_ranges, scheduled
from mgx_mlir.codegen.meaning.element import element_of, sizes_of
from mgx_mlir.codegen.problem.match import mapped, match_contraction
from mgx_mlir.codegen.problem.problem import (
    Axis,
    Contraction,
    Edge,
    Image,
    Matrix,
    Windows,
    pixels,
)
from mgx_mlir.codegen.refusal import Refusal
from mgx_mlir.dialects import mgx
from mgx_mlir.rewriting.symbolic import named_symbols
from mgx_mlir.sizes.arithmetic import (
    Number,
    Symbol,
    ceil_div,
    common_factor,
    is_more,
)

# Runs of up to as many results as with all symbols of the first value have a schedule for symbols
# of the second one. Symbols of images are their heights and widths.
RANGES = ((256, 125), (1024, USUAL), (math.inf, 2048))
IMAGES = ((28, 14), (112, 56), (math.inf, 224))

_SCRATCH = Argument("scratch", 0)
# Threads of a work-group that packs.
_PACKING = 256


@dataclass(frozen=True)
class _Problem:
    """A product, or a convolution as one, by the name of its op.

    image: the pixels whose channels are moved to be last first, [batch, channel, pixel]; None where
    nothing is moved. filters: as they are packed, likewise.
    """

    name: str
    product: Product
    image: Matrix | None = None
    filters: Packing | None = None


def _match(kernel: mgx.KernelOp) -> _Problem | Refusal | None:
    operations = kernel.regions[0].blocks[0].operations
    anchors = [op for op in operations if isinstance(op, (*mgx.DOTS, *mgx.CONVOLUTIONS))]
    if not anchors:
        return None
    name = anchors[0].OPERATION_NAME
    match = match_contraction(kernel)
    if match is None:
        return Refusal(f"{name}: types, views or an epilogue that the generator does not match")
    moved = None if match.added else channels_moved_last(match.problem)
    if moved is not None:
        own = replace(match, problem=moved[0])
        product: Product | Refusal = Product(own, place_of_results(match), {})
    else:
        product = in_place(match)
    if isinstance(product, Refusal):
        return product.of(name)
    product = stored_along(product)
    operands = [x for term in product.match.terms for x in (term.a, term.b)]
    if not {type(x) for x in operands} <= {Matrix, Windows}:
        return Refusal(f"{name}: operands that are not plain matrices or images")
    if moved is None:
        return _Problem(name, product)
    assert isinstance(match.problem.b, Image)
    return _Problem(name, product, pixels(subsampled(match.problem.b)), moved[1])


@dataclass
class _Parts:
    """The matrices of one work-group: `moves` advance pointers to them, in order.

    Packed operands are in scratch memory, filters first.
    """

    types: tuple[Sequence[ir.Type], Sequence[ir.Type]]
    problem: _Problem
    moves: list[Move] = field(default_factory=list)

    def read(self, x: Matrix) -> Matrix:
        filters, image = self.problem.filters, self.problem.image
        if x.argument == PACKED_FILTER and filters is not None:
            return self._moved(x, _SCRATCH, self.types[0][filters.argument], filters.elements)
        if x.argument == PACKED_IMAGE and image is not None:
            type_ = self.types[0][image.argument]
            return self._moved(x, _SCRATCH, type_, self.image, self.image_at)
        type_ = self.types[0][x.argument]
        return self._moved(x, Argument("input", x.argument), type_, math.prod(sizes_of(type_)))

    def written(self, x: Matrix, number: int) -> Matrix:
        type_ = self.types[1][number]
        return self._moved(x, Argument("output", number), type_, math.prod(sizes_of(type_)))

    def term(self, x: Contraction) -> Contraction:
        assert isinstance(x.b, Matrix)  # as `_match` gives it
        return replace(x, batch=1, a=self.read(x.a), b=self.read(x.b))

    @property
    def image(self) -> Number:
        """Elements of the packed images."""
        image = self.problem.image
        return image.batch.size * image.row.size * image.column.size if image else 0

    @property
    def image_at(self) -> Number:
        """The first byte of the packed images."""
        return aligned(self.problem.filters.bytes) if self.problem.filters else 0

    @property
    def end(self) -> Number:
        """The bytes of all packed operands."""
        image = self.problem.image
        bytes_ = emit.element_bytes(image.element) if image else 0
        return self.image_at + aligned(self.image * bytes_)

    def _moved(
        self, x: Matrix, argument: Argument, type_: ir.Type, size: Number, at: Number = 0
    ) -> Matrix:
        number = len(self.moves)
        tensor = Tensor(1, element_of(type_), written=argument.kind == "output")
        # The first windows begin before the image.
        start, inner = (0, x.offset) if isinstance(x, Windows) else (x.offset, 0)
        span = reach(x.row, x.column)
        self.moves.append(Move(argument, tensor, start, x.batch, size, span, at))
        return replace(x, argument=number, offset=inner, batch=one_part(start, x.batch))


def _program(
    kernel: mgx.KernelOp, problem: _Problem, target: Target
) -> Generated[DynamicProgram] | Refusal:
    name, (inputs, results) = signature(kernel)
    match, place = problem.product.match, problem.product.result
    whole, parts = match.problem, _Parts((inputs, results), problem)
    one, *added = (parts.term(term) for term in match.terms)
    sources = mapped(match.sources, parts.read)
    first = len(parts.moves)
    places = [parts.written(place, number) for number in range(len(results))]
    own = replace(match, problem=one, added=tuple(added), sources=sources, place=None)
    product = Product(own, places[0], {})
    if not forwards(*(axis for x in _matrices(product) for axis in (x.row, x.column))):
        return Refusal("rows or columns that are read backwards")
    known = named_symbols([*inputs, *results])
    ranges = RANGES if problem.name.endswith("dot") else IMAGES
    moves = parts.moves[: first + len(results)]
    before: tuple[_Packed, ...] = ()
    if problem.image is not None:
        parts.read(problem.image)
        before = (_Packed(problem, parts.moves[-1], parts),)
    found = _Kernel(kernel, target, name, whole, product, moves, first, known, ranges, before)
    return found.generated()


@dataclass(frozen=True)
class _Packed:
    """The functions that pack an image, read by `image`, and its filters."""

    problem: _Problem
    image: Move
    parts: _Parts

    def emit(self, program: OpenProgram, batch: Number) -> None:
        filters, image = self.problem.filters, self.problem.image
        if filters is not None:
            program.add(partial(self._filters, filters))
        assert image is not None
        output = next(
            move for move in self.parts.moves
            if move.argument == _SCRATCH and move.at == self.parts.image_at and move.parts.factors
        )  # fmt: skip
        chunks = image.row.size // (CHUNK_BYTES // emit.element_bytes(image.element))
        grid = (ceil_div(image.column.size, _PACKING), chunks, batch)
        moves = [self.image, replace(output, tensor=replace(output.tensor, written=True))]
        with program.function(_PACKING, grid, (), "z", moves) as (frame, _):
            source, target = frame.buffers
            block = emit.mul(block_number("x", MAX_THREADS), _PACKING)
            thread = emit.add(block, thread_number(_PACKING))
            own = replace(image, offset=0)
            emit_channels_last(own, source, target, thread, block_number("y", chunks))

    def _filters(self, filters: Packing, block: ir.Block, name: str) -> Launch:
        count = math.prod(sizes_of(self.parts.types[0][filters.argument]))
        assert isinstance(count, int)
        read = Parameter(filters.element, count, Argument("input", filters.argument))
        packed = Parameter(filters.element, filters.elements, _SCRATCH)
        groups = WorkGroups(packing.THREADS, (filters.blocks, 1, 1))
        body = partial(packing.emit_packing, [filters])
        return add_function(block, name, ({filters.argument: read}, [packed]), groups, body)


@dataclass
class _Kernel:
    """A kernel: its product of all matrices, `whole`, and that of a work-group's, `product`.

    moves: the tensors of `product`, of which `first` are read. ranges: as `RANGES`.
    """

    kernel: mgx.KernelOp
    target: Target
    name: str
    whole: Contraction
    product: Product
    moves: Sequence[Move]
    first: int
    known: Mapping[str, Symbol]
    ranges: Sequence[tuple[float, int]]
    packed: Sequence[_Packed] = ()

    def generated(self) -> Generated[DynamicProgram] | Refusal:
        ways: list[tuple[Product, Tiling, Number]] = []
        for number, (variant, part) in enumerate(_variants(self.product, self.moves)):
            choice = _Choice(self, variant, number > 0)
            regimes = _ranges(self.whole, self.known, self.ranges)
            found = scheduled(regimes, choice.best, choice.clocks)
            if isinstance(found, Refusal):
                return found
            ways += [(variant, tiling, regime.share * part) for tiling, regime in found]
        scratch = [self._sums(tiling) for _, tiling, _ in ways]
        bytes_ = sum(
            (share * move.size * move.tensor.bytes
             for (*_, share), move in zip(ways, scratch, strict=True) if move), start=0,
        )  # fmt: skip
        limits = [MAX_BATCH - n for n in (self.whole.N, self.whole.batch)]
        used = [move for move in scratch if move]
        start = self._start
        used += [packed.image for packed in self.packed]
        program = OpenProgram(self.kernel, self.moves, limits, used, start + bytes_)
        if refusal := program.refusal():
            return refusal
        for packed in self.packed:
            packed.emit(program, self.whole.batch)
        for (variant, tiling, share), sums in zip(ways, scratch, strict=True):
            self._emit(program, variant, tiling, share, sums)
        words = dict.fromkeys(tiling.schedule.describe(tiling.unit) for _, tiling, _ in ways)
        return Generated(program.program(), f"any sizes, {', or '.join(words)}")

    @property
    def counts(self) -> tuple[list[int], list[int]]:
        """The sizes of inputs and results that a request names, which say nothing."""
        return [0] * self.first, [0] * (len(self.moves) - self.first)

    def _sums(self, tiling: Tiling) -> Move | None:
        """Scratch memory for the partial sums of split-K."""
        splits, problem = tiling.schedule.splits, self.product.match.problem
        if splits == 1:
            return None
        size = splits * problem.M * problem.N
        element = element_of(ir.RankedTensorType.get([1], emit.element_type(problem.accumulator)))
        parts = Axis(((self.whole.batch, size),))
        tensor = Tensor(1, element, written=True)
        return Move(_SCRATCH, tensor, 0, parts, self.whole.batch * size, size, self._start)

    @property
    def _start(self) -> Number:
        """The bytes of packed operands, before partial sums."""
        return sum((packed.parts.end for packed in self.packed), start=0)

    def _emit(
        self, program: OpenProgram, variant: Product, tiling: Tiling, share: Number,
        sums: Move | None,
    ) -> None:  # fmt: skip
        schedule, unit, whole = tiling.schedule, tiling.unit, self.whole
        x = share * ceil_div(whole.M, schedule.rows(unit)) * schedule.splits
        grid = (x, ceil_div(whole.N, schedule.columns(unit)), whole.batch)
        generator = TilesGenerator(variant, self.counts, tiling, self.name, None, None)
        generator.cut = schedule.splits
        moves = [*self.moves[: self.first], sums] if sums else self.moves
        lds, first = generator.lds(), self.first
        with program.function(tiling.threads, grid, lds, "z", moves) as (frame, _):
            inputs: dict[int, ir.Value] = dict(enumerate(frame.pointers[:first]))
            generator.emit(Tensors(inputs, frame.pointers[first:], frame.lds[0]))
        if sums is None:
            return
        match = variant.match
        grid = (share * finish.blocks(match), 1, whole.batch)
        moves = [*self.moves[:first], sums, *self.moves[first:]]
        with program.function(finish.THREADS, grid, (), "z", moves) as (frame, _):
            inputs = {n: frame.pointers[n] for n in {x.argument for x in match.reads}}
            inputs[finish.PARTS] = frame.pointers[first]
            tensors = Tensors(inputs, frame.pointers[first + 1 :], None)
            finish.emit_finish(match, variant.result, schedule.splits, "x", False, tensors)


@dataclass(frozen=True)
class _Choice:
    """The choice of a schedule for a variant of a kernel's product."""

    own: _Kernel
    variant: Product
    aligned: bool

    def _request(self, usual: int) -> Request | Refusal:
        """The variant where symbols have about this value."""
        own = self.own
        usual += self.aligned * (-usual % _most_lanes(self.variant))
        common = _usual(self.variant, own.known, usual)
        if refusal := problem_refusal(common.match, None, own.target):
            return refusal
        return Request(common.match, common, False, own.counts, own.target, own.name)

    def best(self, usual: int) -> Tiling | Refusal:
        """The best schedule; k is cut where it is given."""
        request = self._request(usual)
        if isinstance(request, Refusal):
            return request
        given = all(isinstance(term.K, int) for term in self.variant.match.terms)
        terms, work = request.match.terms, epilogue_work(request.match)
        fits = None if given else lambda _: True
        schedule = choose(terms, request.unit, self.own.target, fits, work)
        if schedule is None:
            return Refusal(f"no schedule fits {self.own.target.name}")
        return Tiling(schedule, request.unit, self.own.target)

    def clocks(self, tiling: Tiling, usual: int) -> float:
        """The estimate of a schedule."""
        request = self._request(usual)
        if isinstance(request, Refusal):
            return math.inf
        return Tiles(request.product, tiling).clocks


def _ranges(
    problem: Contraction, known: Mapping[str, Symbol], ranges: Sequence[tuple[float, int]]
) -> Iterator[Regime]:
    """The regimes of a product: few results to many, and the value of symbols for each."""
    results = problem.M * problem.N
    if isinstance(results, int):
        yield Regime(1, USUAL)
        return
    ends = [value_of(results, known, int(min(end, MAX_BATCH))) for end, _ in ranges]
    for share, number in in_ranges(problem.batch * results, ends):
        yield Regime(share, ranges[number][1])


def _variants(product: Product, moves: Sequence[Move]) -> Iterator[tuple[Product, Number]]:
    """The product, and where that is another one, that of sizes which vectors divide: each
    with its launches, 1 or 0."""
    lanes = _most_lanes(product)
    odd: list[Number] = []

    def aligned(size: int) -> int:
        if common_factor(size) % lanes == 0 or size == 1:
            return size
        odd.append(size)
        return size // lanes * lanes

    def axis(x: Axis) -> Axis:
        last = len(x.factors) - 1
        inner = bool(x.factors) and x.factors[-1][1] == 1
        return Axis(
            tuple(
                (aligned(n) if inner and i == last else n, aligned(s))
                for i, (n, s) in enumerate(x.factors)
            )
        )

    def matrix(x: Matrix) -> Matrix:
        batch = Axis(tuple((n, math.lcm(s, lanes)) for n, s in x.batch.factors))
        return replace(x, batch=batch, row=axis(x.row), column=axis(x.column))

    if any(isinstance(x, Windows) for x in _matrices(product)):
        yield product, 1
        return
    match = product.match
    terms = [
        replace(t, N=aligned(t.N), K=aligned(t.K), a=matrix(t.a), b=matrix(t.b))
        for t in match.terms
        if isinstance(t.b, Matrix)
    ]
    own = replace(
        match, problem=terms[0], added=tuple(terms[1:]), sources=mapped(match.sources, matrix)
    )
    found = Product(own, matrix(product.result), {})
    for move in moves:
        aligned(cast(int, move.offset))
        for _, stride in move.parts.factors:
            aligned(stride)
    if not odd or any(isinstance(size, int) for size in odd):
        yield product, 1
        return
    rest: Number = sum((size - size // lanes * lanes for size in dict.fromkeys(odd)), 0)
    yield product, is_more(rest, 0)
    yield found, 1 - is_more(rest, 0)


def _most_lanes(product: Product) -> int:
    """Elements of a vector of 16 bytes, of the operand that has most."""
    operands = [x for term in product.match.terms for x in (term.a, term.b)]
    return CHUNK_BYTES // min(emit.element_bytes(x.element) for x in operands)


def _matrices(product: Product) -> list[Matrix]:
    """The matrices that are read and written."""
    match = product.match
    operands = [x for term in match.terms for x in (term.a, term.b) if isinstance(x, Matrix)]
    return [*operands, *match.reads, product.result]


def _usual(product: Product, known: Mapping[str, Symbol], usual: int) -> Product:
    """The product of the sizes that a schedule is chosen for."""

    def at(size: Number) -> int:
        return value_of(size, known, usual)

    def axis(x: Axis) -> Axis:
        return Axis(tuple((max(1, at(n)), at(s)) for n, s in x.factors))

    def static(x: Matrix) -> Matrix:
        found = replace(x, offset=at(x.offset), row=axis(x.row), column=axis(x.column))
        if isinstance(found, Windows):
            edges = tuple(
                Edge(*(at(getattr(edge, f.name)) for f in fields(Edge))) for edge in found.edges
            )
            return replace(found, edges=edges)
        return found

    def term(x: Contraction) -> Contraction:
        assert isinstance(x.b, Matrix)
        M, N, K = (max(1, at(size)) for size in (x.M, x.N, x.K))
        return replace(x, M=M, N=N, K=K, a=static(x.a), b=static(x.b))

    match = product.match
    first, *others = map(term, match.terms)
    sources = mapped(match.sources, static)
    own = replace(match, problem=first, added=tuple(others), sources=sources)
    return Product(own, static(product.result), {})


FAMILY = Family("open_products", 25, Matched(_match, _program))
