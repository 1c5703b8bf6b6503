"""linalg on memrefs as loops: their dimensions, and the code of one iteration."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import prod

from mlir import ir

from mgx_mlir.codegen.generic.buffers.index import LinearForm, extents, linear_form
from mgx_mlir.codegen.generic.buffers.memory import DYNAMIC, MemoryView, Piece
from mgx_mlir.errors import CompilerError
from mgx_mlir.sizes.arithmetic import ceil_div


@dataclass(frozen=True)
class NestOperand:
    """An operand of a nest: elements of `view` at the offsets `form`, or a scalar."""

    value: ir.Value
    view: MemoryView | None
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
    """One element for each thread, as a function of the thread's number. The number is split by
    the sizes of `steps`; each part is multiplied by its step. Equal Places are equal elements."""

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
    operands: tuple[NestOperand, ...]
    sizes: tuple[int, ...]
    parallel: tuple[Group, ...]
    reduction: tuple[Group, ...]

    @property
    def body(self) -> ir.Block | None:
        """The block that computes one iteration; None for a copy."""
        return self.op.regions[0].blocks[0] if len(self.op.regions) else None

    @property
    def iterations(self) -> int:
        """The number of parallel iterations."""
        return prod(group.size for group in self.parallel)

    @property
    def outputs(self) -> tuple[NestOperand, ...]:
        return tuple(operand for operand in self.operands if operand.is_output)

    def place(self, operand: NestOperand) -> Place | None:
        """The one element of the operand that a parallel iteration touches; None if it touches
        several, or if the offset is known only at run time."""
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

    def accumulates(self, operand: NestOperand) -> bool:
        """Whether all reduction iterations update one element of this output."""
        return (
            operand.is_output
            and bool(self.reduction)
            and not any(
                operand.form.coefficient(dim) or operand.form.rest_uses(dim)
                for group in self.reduction
                for dim in group.dims
            )
        )


def nest_of(op: ir.Operation, view: Callable[[ir.Value], MemoryView]) -> Nest:
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
        # Neighbouring threads store neighbouring elements (coalesced).
        parallel.sort(key=lambda d: -abs(first_output.coefficient(d)))
    return Nest(
        op,
        operands,
        tuple(sizes),
        _groups(parallel, sizes, forms, split),
        _groups(reduction, sizes, forms, split),
    )


def _operand(
    value: ir.Value, map_: ir.AffineMap, is_output: bool, view: Callable[[ir.Value], MemoryView]
) -> NestOperand:
    if not isinstance(value.type, ir.MemRefType):
        return NestOperand(value, None, LinearForm(), is_output)
    place = view(value)
    return NestOperand(value, place, linear_form(map_, place.strides), is_output)


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
    sizes = tuple(
        max(0, ceil_div(u - low, s)) for low, u, s in zip(lower, upper, step, strict=True)
    )
    return ParallelSpace(sizes, tuple(lower), tuple(step))


def _constant(value: ir.Value) -> int | None:
    owner = value.owner
    if isinstance(owner, ir.Block) or owner.operation.name != "arith.constant":
        return None
    return ir.IntegerAttr(owner.operation.attributes["value"]).value
