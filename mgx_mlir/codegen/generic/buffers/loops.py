"""linalg on memrefs as loops: which dimensions there are, and the code of one iteration."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from math import prod
from typing import TYPE_CHECKING

from mlir import ir
from mlir.dialects import scf

from mgx_mlir.codegen.generic.buffers.index import IndexBuilder, LinearForm, extents, linear_form
from mgx_mlir.codegen.generic.buffers.memory import DYNAMIC, Index, Piece, View
from mgx_mlir.errors import CompilerError

if TYPE_CHECKING:
    from mgx_mlir.codegen.generic.buffers.body import Body


# Loads in flight hide the latency of memory.
UNROLL = 4


@dataclass(frozen=True)
class Operand:
    """An operand of a nest: elements of `view` at the offsets `form`, or a scalar."""

    value: ir.Value
    view: View | None
    form: LinearForm
    is_output: bool

    @property
    def wraps(self) -> bool:
        return self.form.wraps


@dataclass(frozen=True)
class Group:
    """Neighbouring dimensions that are one loop: the last one's coefficient fits them all."""

    dims: tuple[int, ...]
    size: int


@dataclass(frozen=True)
class Place:
    """An element for each thread, as a function of the thread's number: the number is split
    by the sizes, and each part counts its step. Equal places are the same elements."""

    piece: Piece
    offset: int
    steps: tuple[tuple[int, int], ...]


@dataclass(frozen=True)
class Nest:
    """One linalg op (or copy) on memrefs.

    `parallel` runs from the slowest to the fastest loop; iterations of `reduction`
    follow in the op's own order. Dimensions of size 1 are in neither.
    """

    op: ir.Operation
    operands: tuple[Operand, ...]
    sizes: tuple[int, ...]
    parallel: tuple[Group, ...]
    reduction: tuple[Group, ...]

    @property
    def body(self) -> ir.Block | None:
        """The block that computes one iteration; None for a copy."""
        return self.op.regions[0].blocks[0] if len(self.op.regions) else None

    @property
    def iterations(self) -> int:
        """How many parallel iterations there are."""
        return prod(group.size for group in self.parallel)

    @property
    def outputs(self) -> tuple[Operand, ...]:
        return tuple(operand for operand in self.operands if operand.is_output)

    def place(self, operand: Operand) -> Place | None:
        """Where the thread of a parallel iteration finds the operand; None if in many places
        or where only the code knows."""
        form, view = operand.form, operand.view
        if view is None or not isinstance(view.offset, int) or form.rest:
            return None
        if any(form.coefficient(dim) for group in self.reduction for dim in group.dims):
            return None
        steps: list[tuple[int, int]] = []
        for group in self.parallel:
            size, step = group.size, form.coefficient(group.dims[-1])
            if steps and steps[-1][1] == step * size:
                size *= steps.pop()[0]
            steps.append((size, step))
        return Place(view.piece, view.offset + form.constant, tuple(steps))

    def accumulates(self, operand: Operand) -> bool:
        """Whether the reduction loops leave this output in one place."""
        return (
            operand.is_output
            and bool(self.reduction)
            and not any(
                operand.form.coefficient(dim) or operand.form.rest_uses(dim)
                for group in self.reduction
                for dim in group.dims
            )
        )


def nest_of(op: ir.Operation, view: Callable[[ir.Value], View]) -> Nest:
    """Reads a linalg.generic or memref.copy whose memrefs `view` knows."""
    values = list(op.operands)
    if op.name == "memref.copy":
        rank = ir.MemRefType(values[0].type).rank
        maps = [ir.AffineMap.get_identity(rank)] * 2
        reductions = [False] * rank
        inputs = 1
    else:
        maps = [ir.AffineMapAttr(a).value for a in ir.ArrayAttr(op.attributes["indexing_maps"])]
        kinds = [str(kind) for kind in ir.ArrayAttr(op.attributes["iterator_types"])]
        reductions = ["reduction" in kind for kind in kinds]
        inputs = ir.DenseI32ArrayAttr(op.attributes["operandSegmentSizes"])[0]
    operands = tuple(
        _operand(value, map_, number >= inputs, view)
        for number, (value, map_) in enumerate(zip(values, maps, strict=True))
    )
    shapes = [operand.view.shape if operand.view else () for operand in operands]
    sizes = extents(maps, shapes, len(reductions))
    split = _uses_indices(op) or any(operand.form.rest for operand in operands)
    parallel = [d for d, size in enumerate(sizes) if not reductions[d] and size != 1]
    reduction = [d for d, size in enumerate(sizes) if reductions[d] and size != 1]
    forms = [operand.form for operand in operands]
    first_output = forms[inputs]
    if not first_output.rest:
        # Threads next to each other store next to each other.
        parallel.sort(key=lambda d: -abs(first_output.coefficient(d)))
    return Nest(
        op,
        operands,
        tuple(sizes),
        _groups(parallel, sizes, forms, split),
        _groups(reduction, sizes, forms, split),
    )


def start(body: Body, nest: Nest) -> list[Index]:
    """The offset of each operand's first element."""
    return [
        body.build.add(operand.view.offset, operand.form.constant, operand.wraps)
        if operand.view
        else 0
        for operand in nest.operands
    ]


def bind(
    body: Body, nest: Nest, group: Group, count: Index, offsets: list[Index], dims: list[Index]
) -> list[Index]:
    """The operands' offsets with `group` at iteration `count`; `dims` learns its dimensions."""
    if len(group.dims) == 1:
        dims[group.dims[0]] = count
    last = group.dims[-1]
    return [
        body.build.add(
            offset,
            body.build.mul(count, operand.form.coefficient(last), operand.wraps),
            operand.wraps,
        )
        for operand, offset in zip(nest.operands, offsets, strict=True)
    ]


def emit(
    body: Body,
    nest: Nest,
    offsets: list[Index],
    initial: dict[int, ir.Value],
    dims: list[Index] | None = None,
    places: dict[int, Place] | None = None,
) -> None:
    """Emits the nest from `offsets` on.

    With `dims`, the parallel dimensions are bound in it and in the offsets already;
    without, they become loops. `initial` gives, by operand number, a scalar that is known
    to fill an accumulated output; `places` says where the thread finds operands, so that
    what it has just stored needs no load.
    """
    if dims is not None:
        _Emission(body, nest, initial, dims, places or {}).reduction(offsets)
        return
    dims = [0] * len(nest.sizes)

    def descend(position: int, offsets: list[Index]) -> None:
        if position == len(nest.parallel):
            _Emission(body, nest, initial, dims, {}).reduction(offsets)
            return
        group = nest.parallel[position]
        with counted(body.build, group.size) as count:
            descend(position + 1, bind(body, nest, group, count, offsets, dims))
            scf.yield_([])

    descend(0, offsets)


@dataclass(frozen=True)
class _Emission:
    """The code of a nest for bound parallel dimensions."""

    body: Body
    nest: Nest
    initial: dict[int, ir.Value]
    dims: list[Index]
    places: dict[int, Place]

    def reduction(self, offsets: list[Index]) -> None:
        nest, body = self.nest, self.body
        if nest.body is None:
            self._store(self._load(0, offsets), 1, offsets)
            return
        kept = [number for number, o in enumerate(nest.operands) if nest.accumulates(o)]
        values = [
            body.value(self.initial[number])
            if number in self.initial
            else self._load(number, offsets)
            for number in kept
        ]
        results = self._loop(0, offsets, kept, values)
        for number, value in zip(kept, results, strict=True):
            self._store(value, number, offsets)

    def _loop(
        self, position: int, offsets: list[Index], kept: list[int], values: list[ir.Value]
    ) -> list[ir.Value]:
        """The reduction loops from one on; gives what is kept in registers across them."""
        nest, build = self.nest, self.body.build
        if position == len(nest.reduction):
            return self._iteration(offsets, dict(zip(kept, values, strict=True)))
        group = nest.reduction[position]
        loop = scf.ForOp(build.value(0), build.value(group.size), build.value(1), values)
        innermost = position == len(nest.reduction) - 1
        count = min(group.size, UNROLL) if innermost else 1
        loop.operation.attributes["llvm.loop_annotation"] = _unrolling(count)
        with ir.InsertionPoint(loop.body):
            inner = bind(self.body, nest, group, loop.induction_variable, offsets, self.dims)
            scf.yield_(self._loop(position + 1, inner, kept, list(loop.inner_iter_args)))
        return list(loop.results)

    def _iteration(self, offsets: list[Index], kept: dict[int, ir.Value]) -> list[ir.Value]:
        """One iteration; stores what is not kept, and gives the new values of what is."""
        nest, body = self.nest, self.body
        assert nest.body is not None
        pairs = zip(nest.operands, nest.body.arguments, strict=True)
        for number, (operand, argument) in enumerate(pairs):
            if number in kept:
                body.set(argument, kept[number])
            elif operand.view is None:
                body.set(argument, body.value(operand.value))
            elif next(iter(argument.uses), None) is not None:
                body.set(argument, self._load(number, offsets))
        yielded = body.copy_nested(nest.body, self.dims)
        first = len(nest.operands) - len(nest.outputs)
        results = []
        for number, value in enumerate(yielded, first):
            if number in kept:
                results.append(value)
            else:
                self._store(value, number, offsets)
        return results

    def _load(self, number: int, offsets: list[Index]) -> ir.Value:
        place = self.places.get(number)
        if place is not None and place in self.body.stored:
            return self.body.stored[place]
        return self.body.load_at(self._piece(number), self._address(number, offsets))

    def _store(self, value: ir.Value, number: int, offsets: list[Index]) -> None:
        place = self.places.get(number)
        self.body.store_at(value, self._piece(number), self._address(number, offsets))
        if place is not None:
            self.body.stored[place] = value

    def _address(self, number: int, offsets: list[Index]) -> Index:
        """The operand's offset, with its quotients and remainders added."""
        build, place = self.body.build, self.places.get(number)
        if place is not None and place in self.body.addresses:
            return self.body.addresses[place]
        offset = offsets[number]
        for expression, factor in self.nest.operands[number].form.rest:
            term = build.mul(build.evaluate(expression, self.dims), factor, wraps=True)
            offset = build.add(offset, term, wraps=True)
        if place is not None:
            self.body.addresses[place] = offset
        return offset

    def _piece(self, number: int) -> Piece:
        view = self.nest.operands[number].view
        assert view is not None
        return view.piece


def _operand(
    value: ir.Value, map_: ir.AffineMap, is_output: bool, view: Callable[[ir.Value], View]
) -> Operand:
    if not isinstance(value.type, ir.MemRefType):
        return Operand(value, None, LinearForm(), is_output)
    place = view(value)
    return Operand(value, place, linear_form(map_, place.strides), is_output)


def _groups(
    dims: Sequence[int], sizes: Sequence[int], forms: Sequence[LinearForm], split: bool
) -> tuple[Group, ...]:
    groups: list[Group] = []
    for dim in dims:
        previous = groups[-1].dims[-1] if groups else None
        if (
            not split
            and previous is not None
            and all(
                form.coefficient(previous) == form.coefficient(dim) * sizes[dim] for form in forms
            )
        ):
            last = groups.pop()
            groups.append(Group((*last.dims, dim), last.size * sizes[dim]))
        else:
            groups.append(Group((dim,), sizes[dim]))
    return tuple(groups)


def _uses_indices(op: ir.Operation) -> bool:
    found = False

    def visit(inner: ir.Operation) -> ir.WalkResult:
        nonlocal found
        found = found or inner.name == "linalg.index"
        return ir.WalkResult.INTERRUPT if found else ir.WalkResult.ADVANCE

    op.walk(visit)
    return found


@dataclass(frozen=True)
class ParallelSpace:
    """The iterations of an scf.forall or scf.parallel: sizes, first values and steps."""

    sizes: tuple[int, ...]
    lower: tuple[int, ...]
    step: tuple[int, ...]


def parallel_space(op: ir.Operation) -> ParallelSpace:
    """Reads a parallel loop with constant bounds; CompilerError for others."""
    if op.name == "scf.forall":
        names = ("staticLowerBound", "staticUpperBound", "staticStep")
        bounds = [list(ir.DenseI64ArrayAttr(op.attributes[name])) for name in names]
        known = not any(DYNAMIC in row for row in bounds)
    else:
        counts = list(ir.DenseI32ArrayAttr(op.attributes["operandSegmentSizes"]))
        rank = counts[0]
        known = counts[3] == 0 and all(_constant(v) is not None for v in op.operands)
        flat = [_constant(v) or 0 for v in op.operands]
        bounds = [flat[i * rank : (i + 1) * rank] for i in range(3)]
    if not known or len(op.results):
        raise CompilerError(f"{op.name} with results or bounds that are computed is not supported")
    lower, upper, step = bounds
    sizes = tuple(max(0, -(-(u - low) // s)) for low, u, s in zip(lower, upper, step, strict=True))
    return ParallelSpace(sizes, tuple(lower), tuple(step))


def _unrolling(count: int) -> ir.Attribute:
    """How often LLVM copies a loop's body; its own choice takes ten times longer to compile."""
    how = f"count = {count} : i32" if count > 1 else "disable = true"
    return ir.Attribute.parse(f"#llvm.loop_annotation<unroll = <{how}>>")


@contextmanager
def counted(build: IndexBuilder, size: int) -> Iterator[ir.Value]:
    """A loop from 0 to `size`; the block ends it with scf.yield."""
    loop = scf.ForOp(build.value(0), build.value(size), build.value(1))
    with ir.InsertionPoint(loop.body):
        yield loop.induction_variable


def _constant(value: ir.Value) -> int | None:
    owner = value.owner
    if isinstance(owner, ir.Block) or owner.operation.name != "arith.constant":
        return None
    return ir.IntegerAttr(owner.operation.attributes["value"]).value
