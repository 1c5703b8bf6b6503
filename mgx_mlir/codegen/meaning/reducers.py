"""The meaning of each reduction: its operation, its initial value, and its type.

Shared by the loops of single elements and by the generators of reduction kernels, on scalars or
vectors alike.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

from mlir import ir
from mlir.dialects import arith, vector

from mgx_mlir.codegen.meaning.arithmetic import Arithmetic
from mgx_mlir.codegen.meaning.convert import change, load, store
from mgx_mlir.codegen.meaning.element import BOOL, I64, Element, element_of, sizes_of
from mgx_mlir.codegen.meaning.index import index_constant
from mgx_mlir.codegen.meaning.numeric import integer_divide
from mgx_mlir.codegen.meaning.quantize import quotient
from mgx_mlir.dialects import mgx
from mgx_mlir.sizes.arithmetic import Number

Combine = Callable[[Arithmetic, Element, ir.Value, ir.Value], ir.Value]
# The value that changes no other, and the combination of two values.
Fold: TypeAlias = "tuple[float | int, Combine]"


Reduction: TypeAlias = (
    mgx.ReduceAllOp
    | mgx.ReduceAnyOp
    | mgx.ReduceMaxOp
    | mgx.ReduceMeanOp
    | mgx.ReduceMinOp
    | mgx.ReduceProdOp
    | mgx.ReduceSumOp
)


@dataclass(frozen=True)
class Reducer:
    """A reduction of elements of type `element`, combined in type `accumulator`.

    `initial` is neutral: it changes no value it is combined with. A total is divided by `count`
    in the end, unless `count` is 0.
    """

    element: Element
    accumulator: Element
    initial: float | int
    combined: Combine
    count: Number = 0

    def combine(self, a: Arithmetic, x: ir.Value, y: ir.Value) -> ir.Value:
        """Two partial results as one."""
        return self.combined(a, self.accumulator, x, y)

    def term(self, a: Arithmetic, value: ir.Value) -> ir.Value:
        """A stored value of `element` as a partial result."""
        value = load(a, self.element, value)
        return change(a, self.element.computed(), self.accumulator, value)

    def finish(self, a: Arithmetic, total: ir.Value) -> ir.Value:
        """The last partial result as a stored value of `element`."""
        if self.count and self.accumulator.is_float:
            total = quotient(a, total, self._count(a, total))
        elif self.count:
            total = integer_divide(a, self.accumulator, total, self._count(a, total))
        total = change(a, self.accumulator, self.element.computed(), total)
        return store(a, self.element, total)

    def _count(self, a: Arithmetic, total: ir.Value) -> ir.Value:
        is_float = self.accumulator.is_float
        if isinstance(self.count, int):
            return a.float(self.count, total) if is_float else a.int(self.count, total)
        number = arith.index_cast(I64.storage(), index_constant(self.count))
        if is_float:
            one: ir.Value = arith.sitofp(self.accumulator.storage(), number)
        else:
            one = change(Arithmetic(), I64, self.accumulator, number)
        return vector.broadcast(total.type, one) if isinstance(total.type, ir.VectorType) else one


def reducer_of(op: ir.OpView) -> Reducer:
    """The reducer of a `mgx.reduce_*` op."""
    assert isinstance(op, Reduction)
    source = op.x.type
    element = element_of(source)
    if isinstance(op, mgx.ReduceMeanOp):
        shape = sizes_of(source)
        count: Number = 1
        for axis in op.axes:
            count = count * shape[axis]
        return Reducer(element, sum_element(element), *SUM, count)
    initial, combine = _PLAIN[type(op)]
    start = initial(element) if callable(initial) else initial
    return Reducer(element, element.computed(), start, combine)


def lowest(element: Element) -> float | int:
    """The lowest value of the type where `element` is computed, -inf for floats."""
    if element.is_float:
        return float("-inf")
    return 0 if element.kind == BOOL else element.lowest


def highest(element: Element) -> float | int:
    """The highest value of the type where `element` is computed, inf for floats."""
    if element.is_float:
        return float("inf")
    return 1 if element.kind == BOOL else element.highest


def sum_element(element: Element) -> Element:
    """The type in which a sum that becomes a mean is kept: integers do not overflow it."""
    if element.is_integer and element.bits < 64:
        return I64
    return element.computed()


SUM: Fold = (0, Arithmetic.sum)

Start: TypeAlias = "float | int | Callable[[Element], float | int]"
_PLAIN: dict[type[ir.OpView], tuple[Start, Combine]] = {
    mgx.ReduceAllOp: (1, Arithmetic.bitwise_and),
    mgx.ReduceAnyOp: (0, Arithmetic.bitwise_or),
    mgx.ReduceMaxOp: (lowest, Arithmetic.maximum),
    mgx.ReduceMinOp: (highest, Arithmetic.minimum),
    mgx.ReduceProdOp: (1, Arithmetic.product),
    mgx.ReduceSumOp: SUM,
}


@dataclass(frozen=True)
class ArgReducer:
    """argmax or argmin: values and their indices are combined together.

    Which of two equal values wins depends on their indices, not on the order in which they are
    read. NaN is equal to NaN and wins against everything else.
    """

    element: Element
    index: Element
    largest: bool
    last: bool

    @staticmethod
    def of(op: mgx.ArgmaxOp | mgx.ArgminOp) -> ArgReducer:
        element, index = element_of(op.x.type), element_of(op.result.type)
        largest = isinstance(op, mgx.ArgmaxOp)
        return ArgReducer(element, index, largest, op.select_last_index.value)

    @property
    def initial(self) -> tuple[float | int, int]:
        """The initial value and index, which lose against all others."""
        computed = self.element.computed()
        start = lowest(computed) if self.largest else highest(computed)
        return start, -1 if self.last else self.index.highest

    def combine(
        self, a: Arithmetic, x: tuple[ir.Value, ir.Value], y: tuple[ir.Value, ir.Value]
    ) -> tuple[ir.Value, ir.Value]:
        """The better of two (value, index), values in the type where they are computed."""
        (value, index), (best, best_index) = y, x
        element = self.element.computed()
        better = a.less(element, best, value) if self.largest else a.less(element, value, best)
        equal = a.equal(element, value, best)
        if element.is_float:
            nan, best_nan = a.compare("uno", value, value), a.compare("uno", best, best)
            better = arith.ori(better, arith.andi(nan, a.negate(best_nan)))
            equal = arith.ori(equal, arith.andi(nan, best_nan))
        earlier = a.icompare("sgt" if self.last else "slt", index, best_index)
        take = arith.ori(better, arith.andi(equal, earlier))
        return a.select(take, value, best), a.select(take, index, best_index)
