"""Kernels of a product and the reduction of its rows, such as a normalisation: one launch or two.

The product's tiles have the rows' reductions as their end (see ending), or a kernel of rows follows
the product's: the estimates choose. Of any number of rows, one alone is as a given one.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import partial
from typing import TypeVar

from mlir import ir

from mgx_mlir.artifact.code_object import Argument
from mgx_mlir.artifact.target import Target
from mgx_mlir.codegen.builders import emit
from mgx_mlir.codegen.choice import Offer, best_offer
from mgx_mlir.codegen.gpu.builders.program import Generated, GpuProgram, Part, aligned, joined
from mgx_mlir.codegen.gpu.families.contraction.beginning import Beginning
from mgx_mlir.codegen.gpu.families.contraction.convolution import Product
from mgx_mlir.codegen.gpu.families.contraction.cost import LAUNCH_CLOCKS
from mgx_mlir.codegen.gpu.families.contraction.ending import Ending
from mgx_mlir.codegen.gpu.families.contraction.function import Parameter, outputs_of
from mgx_mlir.codegen.gpu.families.contraction.kernel import best_plan, kernel_request
from mgx_mlir.codegen.gpu.families.contraction.operands import SymbolicProduct, match_product
from mgx_mlir.codegen.gpu.families.contraction.plan import OneFunction, Request
from mgx_mlir.codegen.gpu.families.contraction.products import product_kernel
from mgx_mlir.codegen.gpu.families.contraction.recipes.broad import as_broad
from mgx_mlir.codegen.gpu.families.contraction.recipes.skinny import as_skinny
from mgx_mlir.codegen.gpu.families.contraction.recipes.tiles import Tiles, tiles_plan
from mgx_mlir.codegen.gpu.families.family import Family
from mgx_mlir.codegen.gpu.families.rows.cost import choose, clocks
from mgx_mlir.codegen.gpu.families.rows.generator import rows_program
from mgx_mlir.codegen.gpu.families.rows.match import Rows, match_rows
from mgx_mlir.codegen.gpu.loops import loops_program
from mgx_mlir.codegen.loops.kernel import is_symbolic
from mgx_mlir.codegen.meaning.element import sizes_of
from mgx_mlir.codegen.problem.images import of_sizes
from mgx_mlir.codegen.problem.problem import Axis
from mgx_mlir.codegen.problem.reduced import ReducedProduct
from mgx_mlir.codegen.problem.views import element_name
from mgx_mlir.codegen.refusal import Refusal
from mgx_mlir.dialects import mgx
from mgx_mlir.sizes.arithmetic import Number, Size, evaluate, is_more, symbols

T = TypeVar("T")


def normalised_program(kernel: mgx.KernelOp, target: Target) -> Generated[GpuProgram] | None:
    """The program of an `mgx.kernel` for a chip, and its schedules in words.

    None where the kernel is no product whose rows are reduced.
    """
    with kernel.context, kernel.location:
        parts = ReducedProduct.of(kernel)
        if parts is None:
            return None
        own = _Kernel(parts, target)
        return own.of_any_rows(kernel) if is_symbolic(kernel) else own.program()


@dataclass(frozen=True)
class _Kernel:
    """A kernel for a chip."""

    parts: ReducedProduct
    target: Target

    def program(self) -> Generated[GpuProgram]:
        found = self._offer()
        if isinstance(found, Refusal):
            request = kernel_request(self.parts.product, self.target)
            plan = best_plan(request) if isinstance(request, Request) else None
            own = Generated(plan.generate(), plan.schedule) if isinstance(plan, Offer) else None
            return self._beside(own)
        return Generated(found.generate(), found.schedule)

    def of_any_rows(self, kernel: mgx.KernelOp) -> Generated[GpuProgram]:
        """The same of symbolic sizes: in runs of one row its own launch, where that gains."""
        rows = math.prod(sizes_of(self.parts.value.type)[:-1], start=1)
        alone: Generated[GpuProgram] | None = None
        if _is_one_where_all_are(rows, kernel):
            module, one = of_sizes(kernel, lambda sizes: [evaluate(x, _Ones()) for x in sizes])
            one.sym_name = ir.StringAttr.get(f"{self.parts.name}_one")
            parts = ReducedProduct.of(one)
            offer = _Kernel(parts, self.target)._offer() if parts else Refusal("")
            if isinstance(offer, Offer) and offer.variant == "one launch":
                alone = Generated(offer.generate(), f"for one row {offer.schedule}, else ")
            del module
        problem = match_product(self.parts.product)
        product: Generated[GpuProgram] | Refusal | None = None
        if isinstance(problem, SymbolicProduct):
            found = product_kernel(self.parts.product, problem, self.target)
            product = found if isinstance(found, Refusal) else found.generated()
        return self._beside(product, alone, rows)

    def _offer(self) -> Offer | Refusal:
        """The best way of given sizes."""
        request = kernel_request(self.parts.product, self.target)
        rows = match_rows(self.parts.reduction)
        if not isinstance(request, Request) or not isinstance(rows, Rows):
            return Refusal("the generic path")
        one = self._begun if self.parts.rows_first else self._ended
        return best_offer({
            "one launch": partial(one, request, rows),
            "two launches": partial(self._apart, request, rows),
        })  # fmt: skip

    def _ended(self, request: Request, rows: Rows) -> Offer | Refusal:
        """The product whose last work-groups reduce the rows."""
        elements = {n: element_name(type_) for n, type_ in enumerate(self.parts.inputs)}
        outputs = []
        for number, result in zip(self.parts.results, rows.results, strict=True):
            size = rows.rows * (rows.columns if result.whole else 1)
            name = _element(self.parts.reduction, result.operand.argument)
            outputs.append(Parameter(name, size, Argument("output", number)))
        used = {n: elements[n] for n in rows.used if n < len(self.parts.inputs)}
        ending = Ending(rows, used, tuple(outputs), self.parts.place, self.target)
        found: list[tuple[float, Tiles | OneFunction]] = []
        for plan in (tiles_plan(request, ending=ending), as_skinny(request), as_broad(request)):
            if isinstance(plan, Refusal) or not _has_rows(plan.product, rows):
                continue
            more = 0.0
            if isinstance(plan, OneFunction):
                more = ending.clocks(rows.rows, plan.groups.threads)
            found.append((plan.clocks + more, plan))
        clocks, best = min(found, key=lambda x: x[0], default=(math.inf, None))
        if best is None or math.isinf(clocks):
            return Refusal("results that are no rows of one matrix, or that no work-group reduces")
        generate = partial(best.program, request.sizes, f"{self.parts.name}_product", ending=ending)
        words = f"{best.describe()}, the last work-group of rows reduces them"
        return Offer(words, generate, clocks, "one launch", best)

    def _begun(self, request: Request, rows: Rows) -> Offer | Refusal:
        """The product whose work-groups normalise the rows that they multiply."""
        parts, match, sizes = self.parts, request.product.match, request.sizes
        own, a, K = len(parts.inputs), match.problem.a, match.problem.K
        plain = Axis.of((match.problem.M, K)), Axis.of((K, 1))
        if (a.argument, a.offset, a.row, a.column) != (own, 0, *plain):
            return Refusal("a product that reads other matrices than the rows")
        outputs = outputs_of(match.result_elements, sizes[1])
        numbers = [Argument("output", number) for number in parts.results]
        results = [replace(x, argument=n) for x, n in zip(outputs, numbers, strict=True)]
        if parts.place is not None:
            results.append(Parameter(a.element, sizes[0][own], parts.place))
        (reduce,) = (x for x in parts.reduction.body.blocks[0] if isinstance(x, mgx.FusedReduceOp))
        keeps = parts.place is not None
        beginning = Beginning.of(rows, reduce, request.unit, self.target, results, keeps)
        if isinstance(beginning, Refusal):
            return beginning
        match = replace(match, problem=replace(match.problem, a=beginning.x))
        request = replace(request, product=replace(request.product, match=match))
        plan = tiles_plan(request, ending=beginning)
        if isinstance(plan, Refusal) or math.isinf(plan.clocks):
            return plan if isinstance(plan, Refusal) else Refusal("rows that no wave holds")
        generate = partial(plan.program, sizes, f"{parts.name}_product", ending=beginning)
        words = f"{plan.describe()}, each work-group normalises its rows"
        return Offer(words, generate, plan.clocks, "one launch", plan)

    def _apart(self, request: Request, rows: Rows) -> Offer | Refusal:
        """The product and the rows, one after the other."""
        plan, schedule = best_plan(request), choose(rows, self.target)
        if isinstance(plan, Refusal) or schedule is None:
            return plan if isinstance(plan, Refusal) else Refusal("no schedule of the rows")
        total = plan.clocks + LAUNCH_CLOCKS + clocks(rows, schedule, self.target)
        words = "; then ".join(self._ordered(plan.schedule, schedule.describe()))

        def generate() -> GpuProgram:
            reduction = rows_program(self.parts.reduction, self.target)
            assert isinstance(reduction, Generated)
            return self._joined(plan.generate(), reduction.program)

        return Offer(words, generate, total, "two launches", plan)

    def _ordered(self, product: T, rows: T) -> tuple[T, T]:
        """Two of a kind, of the product and of the rows, in the order of their launches."""
        return (rows, product) if self.parts.rows_first else (product, rows)

    def _beside(
        self,
        product: Generated[GpuProgram] | Refusal | None,
        alone: Generated[GpuProgram] | None = None,
        rows: Number = 0,
    ) -> Generated[GpuProgram]:
        """Both where a generator takes one of them at most. alone: for runs of one of the rows."""
        kernels = self.parts.product, self.parts.reduction
        found = zip(kernels, (product, rows_program(kernels[1], self.target)), strict=True)
        ways = [x if isinstance(x, Generated) else _generic(kernel) for kernel, x in found]
        # The functions of generators have indices of 32 bits.
        if any(way.program.index_bits > 32 for way in ways):
            ways, alone = [_generic(kernel) for kernel in kernels], None
        program = self._joined(ways[0].program, ways[1].program, alone, rows)
        words = alone.schedule if alone else ""
        return Generated(
            program, words + "; then ".join(self._ordered(*(x.schedule for x in ways)))
        )

    def _joined(
        self,
        product: GpuProgram,
        reduction: GpuProgram,
        alone: Generated[GpuProgram] | None = None,
        rows: Number = 0,
    ) -> GpuProgram:
        """Both programs as one, and that of one row, which is launched instead of them."""
        parts, type_ = self.parts, self.parts.value.type
        place, own = parts.place or Argument("scratch", 0), Argument("input", len(parts.inputs))
        size = math.prod(sizes_of(type_), start=1) * emit.element_bytes(element_name(type_))
        end = 0 if parts.place else aligned(size)
        outputs = {
            Argument("output", i): Argument("output", n) for i, n in enumerate(parts.results)
        }
        more = is_more(rows, 1) if alone else 1
        first, second = self._ordered(product, reduction)
        both = [
            Part(first, {Argument("output", 0): place}, more),
            Part(second, {own: place} | outputs, more),
        ]
        if alone:
            both.append(Part(alone.program, {}, (1 - more) * rows))
        return joined(both, end)


def _generic(kernel: mgx.KernelOp) -> Generated[GpuProgram]:
    return Generated(loops_program(kernel), "generic path")


class _Ones(dict[str, int]):
    """All symbols as 1."""

    def __missing__(self, name: str) -> int:
        return 1


def _is_one_where_all_are(rows: Number, kernel: mgx.KernelOp) -> bool:
    """Whether there is one row only where each size of a kernel that is a symbol is 1."""
    own = ir.FunctionType(kernel.function_type.value)
    sizes = {x for type_ in (*own.inputs, *own.results) for x in sizes_of(type_)}
    named = {x.name: Size.of(x) for size in sizes for x in symbols(size)}
    return rows == math.prod(named.values(), start=1)


def _has_rows(product: Product, rows: Rows) -> bool:
    """Whether a product's results are rows, in row-major order."""
    problem, result, match = product.match.problem, product.result, product.match
    if problem.batch > 1 or match.pairs or (rows.rows, rows.columns) != (problem.M, problem.N):
        return False
    return problem.M == 1 or (result.row.stride, result.column.stride) == (problem.N, 1)


def _element(kernel: mgx.KernelOp, number: int) -> str:
    """The element of a kernel's result."""
    return element_name(ir.FunctionType(kernel.function_type.value).results[number])


FAMILY = Family("normalised", 15, normalised_program, symbolic=True)
