"""The numbers that a loop counts with, found before its body is converted.

    for i in range(n): part = Slice(x, i, min(i + 1, n))     ->     the part has one row

The nodes that the condition and the counters need are a loop of their own at first, whose trips
`counting` finds. In the body proper a counter is then a formula of the number of the trip, and
differences of such formulas are sizes.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

import numpy as np
from mlir import ir
from onnx import GraphProto, NodeProto, helper

from mgx_mlir.dialects import mgx
from mgx_mlir.errors import UnsupportedError
from mgx_mlir.importer import emit, structure, tensors
from mgx_mlir.importer.counting import Counting, Find, Line
from mgx_mlir.importer.node import Importing, Node
from mgx_mlir.importer.values import UnavailableError, Value
from mgx_mlir.rewriting.queries import definition
from mgx_mlir.sizes.arithmetic import Number, Size, Symbol, substitute, symbols

# The operators that make sizes of differences, and their inputs that they take these from.
_BOUNDS = {"Range": (0, 1), "Slice": (1, 2)}


@dataclass(frozen=True)
class Counters:
    """The trips of a loop, and what carried values of one element are in each of them."""

    trips: Number
    lines: Mapping[int, Line]

    @contextmanager
    def within(
        self, conversion: Importing, trip: ir.Value, carried: Sequence[ir.Value]
    ) -> Iterator[None]:
        """Inside, these are formulas of the number of the trip, a symbol that is no size."""
        most = self.trips - 1
        symbol = Symbol(f"trip {len(conversion.trips)}", 0, most if isinstance(most, int) else None)
        number = Size.of(symbol)
        numbers = {trip: number}
        numbers |= {carried[n]: line.first + number * line.step for n, line in self.lines.items()}
        conversion.trips[symbol.name] = self.trips
        conversion.counters |= {
            value: np.array([n], object).reshape([1] * tensors.rank(value))
            for value, n in numbers.items()
        }
        try:
            yield
        finally:
            del conversion.trips[symbol.name]
            for value in numbers:
                del conversion.counters[value]
            conversion.forget_sizes()


def counters(
    node: Node, count: ir.Value, start: ir.Value, init: Sequence[ir.Value], find: Find
) -> Counters | None:
    """The counters of a Loop whose body has sizes by them; None where they are not known."""
    graph: GraphProto = node.attribute("body")
    if not any(map(_is_placed, structure.all_nodes(graph))):
        return None
    single = [n for n, x in enumerate(init) if not {*tensors.dims(x)} - {1}]
    kept, part = _counting_part(graph, single)
    if part is None:
        return None
    conversion = node.conversion
    before, converted = len(conversion.unsupported), conversion.converted
    proto = helper.make_node("Loop", [], [], name=node.name, body=part)
    own = Node(proto, node.schema, [], conversion, node.scope)

    def body(i: ir.Value, go: ir.Value, *carried: ir.Value) -> list[ir.Value]:
        again, *values = conversion.subgraph(own, "body", arguments(part, i, carried))
        return [emit.reshape(again, []), *values, i]

    try:
        results = mgx.loop(count, start, [init[n] for n in kept], body)
    except (UnsupportedError, UnavailableError):
        return None  # the body proper says why
    finally:
        conversion.converted = converted
        del conversion.unsupported[before:]
        conversion.forget_sizes()
    made = definition(results if isinstance(results, ir.Value) else results[0])
    assert isinstance(made, mgx.LoopOp)
    counting = Counting(made, find)
    trips = counting.trips()
    lines = [counting.line(argument) for argument in [*made.body.blocks[0].arguments][2:]]
    made.operation.erase()
    conversion.forget_sizes()
    if trips is None or (isinstance(trips, int) and trips < 2):
        return None
    return Counters(trips, {n: x for n, x in zip(kept, lines, strict=True) if x is not None})


def arguments(graph: GraphProto, trip: ir.Value, carried: Iterable[ir.Value]) -> list[Value]:
    """The arguments of a Loop's body; it declares the shapes of number and condition, [] or [1].

    The condition is true in each trip: a false one ends the loop.
    """
    shapes = [[1] * len(v.type.tensor_type.shape.dim) for v in graph.input[:2]]
    return [
        Value("i", tensor=emit.reshape(trip, shapes[0])),
        Value("go", array=np.full(shapes[1], True)),
        *(Value("carried", tensor=v) for v in carried),
    ]


def _is_placed(node: NodeProto) -> bool:
    places = _BOUNDS.get(node.op_type, ()) if not node.domain else ()
    return any(place < len(node.input) for place in places)


def _counting_part(graph: GraphProto, single: Sequence[int]) -> tuple[list[int], GraphProto | None]:
    """The body with the nodes alone that its condition and its counters need.

    And the carried values, of those with a `single` element, that it has then; None where the
    condition needs others.
    """
    nodes, carried = _needed(graph, graph.output[0].name)
    if not carried <= {*single}:
        return [], None
    for number in single:
        more, others = _needed(graph, graph.output[1 + number].name)
        if others <= {*single}:
            nodes, carried = nodes | more, carried | others | {number}
    kept = sorted(carried)
    part = GraphProto(name=graph.name, initializer=graph.initializer)
    part.node.extend(node for place, node in enumerate(graph.node) if place in nodes)
    part.input.extend([*graph.input[:2], *(graph.input[2 + n] for n in kept)])
    part.output.extend([graph.output[0], *(graph.output[1 + n] for n in kept)])
    return kept, part


def _needed(graph: GraphProto, name: str) -> tuple[set[int], set[int]]:
    """The nodes that a value of a body depends on, in this trip and those before, and the carried
    values."""
    makers = {name: place for place, node in enumerate(graph.node) for name in node.output if name}
    carried = {v.name: number for number, v in enumerate(graph.input[2:])}
    nodes: set[int] = set()
    found: set[int] = set()
    wanted = [name]
    while wanted:
        name = wanted.pop()
        if name in carried and carried[name] not in found:
            found.add(carried[name])
            wanted.append(graph.output[1 + carried[name]].name)
        elif name in makers and makers[name] not in nodes:
            nodes.add(makers[name])
            wanted += structure.uses_of(graph.node[makers[name]])
    return nodes, found


def places(node: Node, index: int) -> list[Number] | None:
    """The elements of an input where they are sizes, or formulas of the numbers of trips too."""
    found = node.conversion.sizes_in(node.value(index), of_trips=True)
    numbers = [] if found is None else [n for n in found.reshape(-1) if isinstance(n, int | Size)]
    return None if found is None or len(numbers) < found.size else numbers


def same_in_all(number: Number, trips: Mapping[str, Number]) -> Number | None:
    """A number that is the same in all trips, without their symbols; None for others."""
    number = _from_the_last(number, trips)
    return None if any(one.name in trips for one in symbols(number)) else number


def never_negative(number: Number, trips: Mapping[str, Number]) -> bool:
    """Whether a number is 0 or more in all trips."""
    return number >= 0 or _from_the_last(number, trips) >= 0


def _from_the_last(number: Number, trips: Mapping[str, Number]) -> Number:
    """The number by the trips that follow: proofs know that these are 0 or more."""
    return substitute(number, {n: most - 1 - Size.of(Symbol(n, 0)) for n, most in trips.items()})
