"""Attention on the host: scores into scratch, their softmax in place, then the product with v.

The two products are contractions like any other. The body of the attention is the epilogue of
the first. Scores have the type in which they are computed, so nothing is rounded in between.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from mlir import ir
from mlir.dialects import arith, math, vector

from mgx_mlir.codegen.builders import emit
from mgx_mlir.codegen.builders.emit import Index
from mgx_mlir.codegen.cpu.function import KernelBuilder, Memory
from mgx_mlir.codegen.cpu.product import add_contraction
from mgx_mlir.codegen.cpu.schedule import Machine
from mgx_mlir.codegen.problem.attention import Attention

# step(at, mask, carried): handles the vector at offset `at`; gives the next carried value.
Step = Callable[[Index, ir.Value | None, ir.Value], ir.Value]
# Names the scratch memory among the inputs.
_SCRATCH = -1


def add_attention(
    builder: KernelBuilder,
    attention: Attention,
    inputs: Mapping[int, Memory],
    outputs: Sequence[Memory],
    machine: Machine,
) -> None:
    """Adds the launches of an attention. `inputs` has the memory of each argument it reads."""
    scratch = builder.scratch(attention.size, attention.score)
    add_contraction(builder, attention.scores(), inputs, [scratch], machine)

    def body(pointers: Sequence[ir.Value], begin: ir.Value, end: ir.Value) -> None:
        lanes = machine.lanes(attention.score)
        emit.loop(begin, end, 1, lambda row: _Row(attention, pointers[0], lanes, row).emit())

    builder.add([scratch], attention.batch * attention.M, body)
    values = attention.values(_SCRATCH, attention.score)
    add_contraction(builder, values, {**inputs, _SCRATCH: scratch}, outputs, machine)


class _Row:
    """The softmax of one row of scores, in place; keys that the query does not see get 0."""

    def __init__(self, attention: Attention, memory: ir.Value, lanes: int, row: Index) -> None:
        self.element, self.size, self.lanes = attention.score, attention.N, lanes
        self.memory, self.start = memory, emit.mul(row, attention.N)
        self.nan_as_zero, self.empty_as_zero = attention.nan_as_zero, attention.empty_as_zero
        self.seen: Index = attention.N
        self.first: Index = 0
        query = emit.rem(row, attention.M)
        if attention.causal is not None:
            self.seen = emit.minimum(emit.add(query, attention.causal + 1), attention.N)
        if attention.earliest is not None:
            self.first = emit.minimum(emit.add(query, attention.earliest), attention.N)

    def emit(self) -> None:
        lowest = emit.constant(float("-inf"), self.element, self.lanes)
        zero = emit.constant(0, self.element, self.lanes)
        if self.first != 0:
            none = emit.constant(float("-inf"), self.element)
            emit.loop(0, self.first, 1, lambda at: emit.store(none, self.memory, self._place(at)))

        def larger(at: Index, mask: ir.Value | None, largest: ir.Value) -> ir.Value:
            return arith.maximumf(largest, self._load(at, mask, lowest))

        largest = self._reduced("MAXIMUMF", self._over(larger, lowest))
        row_maximum = emit.splat(largest, self.lanes)

        def power(at: Index, mask: ir.Value | None, total: ir.Value) -> ir.Value:
            x = math.exp(arith.subf(self._load(at, mask, lowest), row_maximum))
            if mask is not None:
                x = arith.select(mask, x, zero)
            emit.store_vector(x, self.memory, self._place(at), mask)
            return arith.addf(total, x)

        total = self._reduced("ADD", self._over(power, zero))
        inverse = arith.divf(emit.constant(1, self.element), total)
        gone = self._without_shares(largest, total)
        factor = emit.splat(inverse, self.lanes)

        def share(at: Index, mask: ir.Value | None, same: ir.Value) -> ir.Value:
            x = arith.mulf(self._load(at, mask, zero), factor)
            if gone is not None:
                x = arith.select(gone, zero, x)
            emit.store_vector(x, self.memory, self._place(at), mask)
            return same

        self._over(share, zero)
        if self.seen != self.size:
            nothing = emit.constant(0, self.element)
            emit.loop(
                self.seen,
                self.size,
                1,
                lambda at: emit.store(nothing, self.memory, self._place(at)),
            )

    def _without_shares(self, largest: ir.Value, total: ir.Value) -> ir.Value | None:
        """Whether the row's shares become 0 (an i1); None where no row can be without shares."""
        if self.empty_as_zero and not self.nan_as_zero:
            lowest = emit.constant(float("-inf"), self.element)
            return arith.cmpf(arith.CmpFPredicate.OEQ, largest, lowest)
        if not self.nan_as_zero:
            return None
        # Where shares are NaN, the powers are NaN, and so is their sum; else it is 1 or more.
        return arith.cmpf(arith.CmpFPredicate.UNE, total, total)

    def _place(self, at: Index) -> Index:
        return emit.add(self.start, at)

    def _load(self, at: Index, mask: ir.Value | None, fill: ir.Value) -> ir.Value:
        return emit.load_vector(self.memory, self._place(at), self.lanes, mask, fill)

    def _over(self, step: Step, initial: ir.Value) -> ir.Value:
        """Runs step(at, mask, carried) over the vectors of scores of keys that the query sees."""
        whole = emit.mul(emit.div(self.seen, self.lanes), self.lanes)
        (carried,) = emit.loop(0, whole, self.lanes, lambda at, x: [step(at, None, x)], [initial])
        if isinstance(whole, int) and whole == self.seen:
            return carried
        rest = arith.subi(emit.value(self.seen), emit.value(whole))
        return step(whole, emit.lane_mask(rest, self.lanes), carried)

    def _reduced(self, kind: str, x: ir.Value) -> ir.Value:
        flags = arith.FastMathFlags.reassoc | arith.FastMathFlags.contract
        combine = getattr(vector.CombiningKind, kind)
        scalar = ir.VectorType(x.type).element_type
        return vector.reduction(scalar, combine, x, fastmath=flags)
