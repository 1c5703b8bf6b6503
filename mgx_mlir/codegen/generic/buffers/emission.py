"""The code of a loop nest: its loops, and what each iteration loads, computes and stores."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Protocol

from mlir import ir
from mlir.dialects import scf

from mgx_mlir.codegen.generic.buffers.index import IndexBuilder
from mgx_mlir.codegen.generic.buffers.loops import Group, Nest, Place
from mgx_mlir.codegen.generic.buffers.memory import Index, Piece

# Iterations that are unrolled: loads in flight hide the latency of memory.
UNROLL = 4


class Code(Protocol):
    """The code that a nest is added to: a `BufferBody`, as far as nests use it."""

    build: IndexBuilder
    addresses: dict[Place, Index]
    stored: dict[Place, ir.Value]

    def value(self, old: ir.Value) -> ir.Value: ...
    def set(self, old: ir.Value, new: ir.Value) -> None: ...
    def load_at(self, piece: Piece, address: Index) -> ir.Value: ...
    def store_at(self, value: ir.Value, piece: Piece, address: Index) -> None: ...
    def copy_nested(self, block: ir.Block, indices: list[Index]) -> list[ir.Value]: ...


def start(body: Code, nest: Nest) -> list[Index]:
    """The offset of each operand's first element."""
    return [
        body.build.add(operand.view.offset, operand.form.constant, operand.wraps)
        if operand.view
        else 0
        for operand in nest.operands
    ]


def bind(
    body: Code, nest: Nest, group: Group, count: Index, offsets: list[Index], dims: list[Index]
) -> list[Index]:
    """The operands' offsets with `group` at iteration `count`; sets its dimensions in `dims`."""
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
    body: Code,
    nest: Nest,
    offsets: list[Index],
    initial: dict[int, ir.Value],
    dims: list[Index] | None = None,
    places: dict[int, Place] | None = None,
) -> None:
    """Emits the nest from `offsets` on.

    With `dims`, the parallel dimensions are bound in it and in the offsets already;
    without, they become loops. `initial` gives, by operand number, a scalar that is known
    to fill an accumulated output. `places` gives the operands that the thread alone touches:
    values that it has just stored there need no load.
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

    body: Code
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
        """Emits the reduction loops from `position` on; gives the values kept in registers."""
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
        """Emits one iteration: stores outputs not kept in registers, gives the new kept values."""
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


def _unrolling(count: int) -> ir.Attribute:
    """The unroll factor of a loop for LLVM; its own choice takes ten times longer to compile."""
    how = f"count = {count} : i32" if count > 1 else "disable = true"
    return ir.Attribute.parse(f"#llvm.loop_annotation<unroll = <{how}>>")


@contextmanager
def counted(build: IndexBuilder, size: int) -> Iterator[ir.Value]:
    """A loop from 0 to `size`; the block ends it with scf.yield."""
    loop = scf.ForOp(build.value(0), build.value(size), build.value(1))
    with ir.InsertionPoint(loop.body):
        yield loop.induction_variable
