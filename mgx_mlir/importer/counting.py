"""Loops whose condition compares a counter with a size: their trips, before the model runs.

    %h, %t, %y = mgx.loop %most, %start init(%h0, %zero)      ->  mgx.loop %steps, %true init(%h0)
        ... yield less(add(%t, 1), %steps), %h, add(%t, 1), %y        ... yield %go, %h, %y

Exporters of frameworks with `while` write recurrent layers so.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeGuard

import numpy as np
from mlir import ir

from mgx_mlir.dialects import mgx
from mgx_mlir.importer import emit, tensors
from mgx_mlir.rewriting.queries import definition, replace, yielded
from mgx_mlir.sizes.arithmetic import Number, ceil_div, maximum, minimum
from mgx_mlir.sizes.cases import Case, plain

# Numbers of trips from here on mean that the body decides alone.
_NO_COUNT = (1 << 31) - 1

# Bits of numbers that count exactly for more trips than loops make; those of fewer wrap, or stay.
_BITS = 32

# The element of a tensor of one integer or boolean: a size, a Case, or None.
Find = Callable[[ir.Value], "Number | Case | None"]


@dataclass(frozen=True)
class Line:
    """A number in trip t: first + step * t."""

    first: Number
    step: int

    def __sub__(self, other: Line) -> Line:
        return Line(self.first - other.first, self.step - other.step)

    def plus(self, number: int) -> Line:
        return Line(self.first + number, self.step)


@dataclass
class Counting:
    """A loop, as `mgx.loop` makes it, whose trips are looked for. `find` knows sizes."""

    loop: mgx.LoopOp
    find: Find

    def __post_init__(self) -> None:
        self._block = self.loop.body.blocks[0]
        self._again, *self._following = yielded(self._block)

    def trips(self) -> Number | None:
        """The number of trips, a formula of sizes; None where only a run knows it."""
        count, start = self.find(self.loop.max_trip_count), self.find(self.loop.condition)
        conditions = self._conditions(self._again, True)
        if count is None or start is None or conditions is None:
            return None
        if not start:
            return 0
        after: list[Number] = []
        for line in conditions:
            if line.step < 0:
                after.append(maximum(ceil_div(line.first, -line.step), 0))
            elif not line.first >= 1:
                return None  # it may hold in later trips again
        most = plain(count)
        limits = [] if isinstance(most, int) and most >= _NO_COUNT else [maximum(most, 0)]
        if not after:
            limits += [] if start is True else [plain(Case(start.test, most, 0))]  # type: ignore[union-attr]
        elif start is True:
            limits += [number + 1 for number in after]
        else:
            assert isinstance(start, Case)
            limits += self._from_the_start(start, conditions, after)
        if not limits:
            return None
        total = limits[0]
        for number in limits[1:]:
            total = minimum(total, number)
        return total

    def counted(self, trips: Number) -> list[ir.Value]:
        """The results of the loop that makes so many trips, in place of this one.

        Values that it carries unchanged are not carried, nor are counters.
        """
        carried = list(self._block.arguments)[2:]
        results: list[ir.Value | None] = [None] * len(self.loop.outputs)
        kept = []
        for number, argument in enumerate(carried):
            init, line = self.loop.init[number], self.line(argument)
            if self._following[number] == argument:
                argument.replace_all_uses_with(init)
                results[number] = init
            elif line is not None:
                with ir.InsertionPoint.at_block_begin(self._block):
                    argument.replace_all_uses_with(self._of_trip(line, argument.type))
                last = emit.convert(emit.amount(line.first + trips * line.step), _element(init))
                results[number] = emit.reshape(last, tensors.dims(init))
            else:
                kept.append(number)
        made = self._rebuilt(trips, kept)
        places = [*kept, *range(len(carried), len(results))]
        for place, result in zip(places, made, strict=True):
            results[place] = result
        found = [result for result in results if result is not None]
        replace(self.loop, found)
        return found

    def _rebuilt(self, trips: Number, kept: Sequence[int]) -> list[ir.Value]:
        """The results of a loop that carries the values `kept`, and takes over the body."""
        loop, block = self.loop, self._block
        gone = [n for n in range(len(loop.init)) if n not in kept]
        following = [yielded(block)[1:][n] for n in range(len(self._following)) if n not in gone]
        terminator = list(block.operations)[-1]
        with ir.InsertionPoint(terminator), terminator.location:
            mgx.YieldOp([block.arguments[1], *following])
        terminator.erase()
        for number in reversed(gone):
            block.erase_argument(2 + number)
        types = [r.type for n, r in enumerate(loop.outputs) if n not in gone]
        start = mgx.constant(True, np.bool_)
        made = mgx.LoopOp(types, emit.amount(trips), start, [loop.init[n] for n in kept])
        block.append_to(made.body)
        return list(made.outputs)

    def _of_trip(self, line: Line, type_: ir.Type) -> ir.Value:
        """A counter's value, from the number of the trip."""
        value: ir.Value = self._block.arguments[0]
        if line.step != 1:
            value = emit.mul(value, line.step)
        if line.first != 0:
            value = emit.add(value, emit.amount(line.first))
        wide = emit.convert(value, ir.RankedTensorType(type_).element_type)
        return emit.reshape(wide, tensors.dims_of_type(type_))

    def _from_the_start(
        self, start: Case, conditions: Sequence[Line], after: Sequence[Number]
    ) -> list[Number]:
        """The trips by each condition, where the first one is an unproven comparison."""
        falling = [line for line in conditions if line.step < 0]
        before = {line.first - line.step for line in falling}
        is_itself = before == {start.test.size} and (start.yes, start.no) == (True, False)
        if is_itself and not start.test.is_zero:  # the condition, before the first trip
            return [maximum(ceil_div(line.first - line.step, -line.step), 0) for line in falling]
        return [plain(Case(start.test, number + 1, 0)) for number in after]

    def _conditions(self, value: ir.Value, holds: bool) -> list[Line] | None:
        """Numbers that are 1 or more exactly where a boolean of the body is `holds`; or None."""
        found = self.find(value)
        if isinstance(found, bool):
            return [] if found is holds else None
        if value == self._block.arguments[1] and holds:
            return []
        op = definition(value)
        if isinstance(op, mgx.NotOp):
            return self._conditions(op.operands[0], not holds)
        if _passes(op):
            return self._conditions(op.operands[0], holds)
        if isinstance(op, mgx.AddOp) and self.find(op.operands[1]) == 0:  # of a boolean as a number
            return self._conditions(op.operands[0], holds)
        if isinstance(op, mgx.LogicalOrOp) and (lines := self._or_equal(op, holds)) is not None:
            return lines
        if isinstance(op, mgx.LogicalAndOp if holds else mgx.LogicalOrOp):
            both = [self._conditions(operand, holds) for operand in op.operands]
            if None not in both:
                return [line for lines in both for line in lines or ()]
        if not isinstance(op, mgx.LessOp | mgx.GreaterOp | mgx.EqualOp):
            return None
        a, b = (self.line(operand) for operand in op.operands)
        if a is None or b is None:
            return None
        if isinstance(op, mgx.EqualOp):
            return None if holds else _unequal(a - b)
        less = b - a if isinstance(op, mgx.LessOp) else a - b
        return [less if holds else Line(1 - less.first, -less.step)]

    def _or_equal(self, op: ir.OpView, holds: bool) -> list[Line] | None:
        """As `_conditions`, of `a < b or a == b`."""
        one, other = (definition(x) for x in op.operands)
        strict, equal = (other, one) if isinstance(one, mgx.EqualOp) else (one, other)
        if not isinstance(strict, mgx.LessOp | mgx.GreaterOp) or not isinstance(equal, mgx.EqualOp):
            return None
        if list(strict.operands) != list(equal.operands):
            return None
        less = self._conditions(strict.results[0], True)
        if less is None:
            return None
        return [line.plus(1) if holds else Line(-line.first, -line.step) for line in less]

    def line(self, value: ir.Value) -> Line | None:
        """The number that a value of the body is in each trip."""
        found = self.find(value)
        if found is not None:
            return Line(plain(found), 0)
        if not _is_exact(value):
            return None
        if value == self._block.arguments[0]:
            return Line(0, 1)
        arguments: list[ir.Value] = list(self._block.arguments)
        if value in arguments:
            number = arguments.index(value) - 2
            first = self.find(self.loop.init[number]) if number >= 0 else None
            step = _step(self._following[number], value, self.find)
            return None if first is None or step is None else Line(plain(first), step)
        op = definition(value)
        if _passes(op):
            return self.line(op.operands[0])
        if isinstance(op, mgx.AddOp | mgx.SubOp):
            a, b = (self.line(operand) for operand in op.operands)
            if a is not None and b is not None:
                return a - b if isinstance(op, mgx.SubOp) else a - (Line(0, 0) - b)
        return None


def _unequal(line: Line) -> list[Line] | None:
    """Where a number that goes by 1 to 0 is not 0 yet."""
    if line.step == 1:
        line = Line(-line.first, -1)
    return [line] if line.step == -1 and line.first >= 0 else None


def _step(value: ir.Value, argument: ir.Value, find: Find) -> int | None:
    """The integer that a value is more than an argument of the body; None where it is another."""
    if not _is_exact(value):
        return None
    if value == argument:
        return 0
    op = definition(value)
    if _passes(op):
        return _step(op.operands[0], argument, find)
    if not isinstance(op, mgx.AddOp | mgx.SubOp):
        return None
    sign = -1 if isinstance(op, mgx.SubOp) else 1
    pairs = [(op.operands[0], op.operands[1])]
    pairs += [(op.operands[1], op.operands[0])] if sign == 1 else []
    for counter, constant in pairs:
        number, less = find(constant), _step(counter, argument, find)
        if isinstance(number, int) and less is not None:
            return less + sign * number
    return None


def _is_exact(value: ir.Value) -> bool:
    """Whether a counter of a value's type counts exactly."""
    element = _element(value)
    return isinstance(element, ir.IntegerType | ir.FloatType) and element.width >= _BITS


def _passes(op: ir.OpView | None) -> TypeGuard[ir.OpView]:
    """Whether an op of one element gives its operand as it is, in another type or shape."""
    if isinstance(op, mgx.ConvertOp):
        return True
    same = mgx.is_view(op) or isinstance(op, mgx.IdentityOp)
    return op is not None and same and {*tensors.dims(op.operands[0])} <= {1}


def _element(value: ir.Value) -> ir.Type:
    return ir.RankedTensorType(value.type).element_type
