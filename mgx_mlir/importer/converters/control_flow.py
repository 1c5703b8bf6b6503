"""Loop and Scan."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import nullcontext
from fractions import Fraction
from functools import partial
from typing import Any

import numpy as np
from mlir import ir

from mgx_mlir.artifact.plan import ENDLESS
from mgx_mlir.dialects import mgx
from mgx_mlir.errors import ModelError, UnsupportedError
from mgx_mlir.importer import emit, tensors, trips, unroll
from mgx_mlir.importer.counting import Counting
from mgx_mlir.importer.node import Node
from mgx_mlir.importer.registry import operator
from mgx_mlir.importer.values import Value
from mgx_mlir.rewriting.plan_attributes import MAX_ITERATIONS
from mgx_mlir.rewriting.queries import definition
from mgx_mlir.sizes.arithmetic import Number, Size
from mgx_mlir.sizes.cases import Case


def _as_list(results: Any) -> list[ir.Value]:
    return [results] if isinstance(results, ir.Value) else list(results)


@operator("Loop", (1, 25), "loop")
def loop(node: Node) -> Sequence[ir.Value | Value]:
    """A loop whose trips are known, and few, is written out."""
    unrolled = unroll.loop(node)
    return _loop(node) if unrolled is None else unrolled


def _loop(node: Node) -> list[ir.Value]:
    """The body decides after each trip whether there is another, as in onnxruntime.

    ONNX's text ignores that decision in a loop without a first condition; exporters rely on it.
    """
    count = emit.reshape(emit.convert(node.tensor(0), "i64"), []) if node.given(0) else None
    start = emit.reshape(node.tensor(1), []) if node.given(1) else None
    if count is None:
        count = mgx.constant(ENDLESS, np.int64)
    if start is None:
        start = mgx.constant(True, np.bool_)
    init = [node.tensor(i) for i in range(2, len(node.inputs))]
    graph = node.attribute("body")
    if len(graph.output) < 1 + len(init):
        raise ModelError("its body has fewer results than the loop carries")
    grown = _Grown(node, init)
    known = trips.counters(node, count, start, init, partial(_number, node))

    def body(i: ir.Value, go: ir.Value, *carried: ir.Value) -> list[ir.Value]:
        arguments = trips.arguments(graph, i, carried)
        with known.within(node.conversion, i, carried) if known else nullcontext():
            again, *values = node.conversion.inline(node, "body", arguments)
        results = grown.taken(carried, [node.constants.materialise(v) for v in values])
        _check_carried(init, results)
        decision = node.constants.materialise(again)
        if (kind := tensors.element_name(decision)) != "i1":
            raise ModelError(f"its body's condition is of type {kind}, not bool")
        return [emit.reshape(decision, []), *results]

    results = _as_list(mgx.loop(count, start, init, body))
    made = definition(results[0]) if results else None
    if not isinstance(made, mgx.LoopOp):
        return results
    counting = Counting(made, partial(_number, node))
    number = known.trips if known else counting.trips()
    if number is not None:
        results = counting.counted(number)
        node.conversion.forget_sizes()  # those of values that are gone
        sizes = tensors.named([number])[0]
        stacked = [_stacked(r, sizes) for r in results[len(init) :]]
        return grown.given_back([*results[: len(init)], *stacked])
    grown.refuse()
    made.operation.attributes[MAX_ITERATIONS] = ir.IntegerAttr.get(
        ir.IntegerType.get_signless(64), node.conversion.max_loop_iterations
    )
    return results


def _number(node: Node, value: ir.Value) -> Number | Case | None:
    """The one whole number or boolean of a tensor, where sizes say it."""
    if {*tensors.dims(value)} - {1}:
        return None
    found = node.conversion.sizes_in(Value("number", tensor=value))
    number = None if found is None else found.reshape(-1)[0]
    if isinstance(number, Fraction) and number.denominator == 1:
        return int(number)
    kinds = (int, Size) if tensors.is_float(value) else (int, Size, Case)
    return number if isinstance(number, kinds) else None


class _Grown:
    """The carried tensors of a loop to which each trip adds a part: its results are stacked."""

    def __init__(self, node: Node, init: Sequence[ir.Value]) -> None:
        self._node = node
        self._init = init
        self._axes: dict[int, int] = {}
        self._first: set[int] = set()
        self._types: dict[int, ir.Type] = {}

    def taken(self, carried: Sequence[ir.Value], results: list[ir.Value]) -> list[ir.Value]:
        """The results of a body, which carries such tensors unchanged, and gives their parts."""
        parts = []
        for number, argument in enumerate(carried):
            op = definition(results[number])
            if not isinstance(op, mgx.ConcatOp) or len(list(argument.uses)) != 1:
                continue
            if len(op.operands) != 2 or argument not in list(op.operands):
                continue
            place = list(op.operands).index(argument)
            parts.append(op.operands[1 - place])
            self._axes[number] = op.axis.value
            self._first |= {number} if place else set()
            self._types[number] = results[number].type
            results[number] = argument
        return [*results, *parts]

    def given_back(self, results: list[ir.Value]) -> list[ir.Value]:
        """The results of the loop: the parts of all trips joined to what was there first."""
        count = len(results) - len(self._axes)
        for (number, axis), parts in zip(self._axes.items(), results[count:], strict=True):
            if number in self._first:
                parts = mgx.reverse(parts, [0])
            sizes = tensors.known_sizes(parts, "the part that each trip adds")
            trips, *rest = sizes
            rest[axis] = trips * rest[axis]
            order = [*range(1, 1 + axis), 0, *range(1 + axis, len(sizes))]
            parts = emit.reshape(emit.transpose(parts, order), tensors.named(rest))
            there = self._init[number]
            pair = [parts, there] if number in self._first else [there, parts]
            empty = tensors.dims(there)[axis] == 0
            results[number] = parts if empty else emit.concat(pair, axis)
        return results[:count]

    def refuse(self) -> None:
        """Raises UnsupportedError where the trips, which are not known, change a type."""
        for number, changed in self._types.items():
            _refuse_change(number, self._init[number].type, changed)


def _check_carried(init: Sequence[ir.Value], results: Sequence[ir.Value]) -> None:
    """Raises UnequalError where a run's sizes may leave the types of carried values as they are."""
    for place, (before, after) in enumerate(zip(init, results, strict=False)):
        if before.type == after.type:
            continue
        sizes = tensors.dims(before), tensors.dims(after)
        of_one_kind = tensors.element(before) == tensors.element(after)
        if of_one_kind and len(sizes[0]) == len(sizes[1]):
            pairs = [(a, b) for a, b in zip(*sizes, strict=True) if a != b]
            a, b = next(((a, b) for a, b in pairs if None in (a, b)), pairs[0])
            if a is not None and b is not None and not (isinstance(a, int) and isinstance(b, int)):
                raise tensors.UnequalError((a, b), _changed(place, before.type, after.type))
        _refuse_change(place, before.type, after.type)


def _refuse_change(place: int, before: ir.Type, after: ir.Type) -> None:
    raise UnsupportedError(_changed(place, before, after))


def _changed(place: int, before: ir.Type, after: ir.Type) -> str:
    return f"its carried value {place} changes its type from {before} to {after}"


def _stacked(result: ir.Value, trips: tensors.Dim) -> ir.Value:
    """A scan output whose number of entries is known."""
    sizes = (trips, *tensors.dims(result)[1:])
    result.set_type(tensors.tensor_type(tensors.element(result), sizes))
    return result


@operator("Scan", (8, 25), "loop gather")
def scan(node: Node) -> list[ir.Value]:
    """A loop over the entries of the scanned inputs; each result is stacked along its axis.

    It is written out where the entries are few, and all trips are too much work for a kernel.
    """
    if node.version < 9:
        return _scan_of_batches(node)
    count = int(node.attribute("num_scan_inputs"))
    states = [node.tensor(i) for i in range(len(node.inputs) - count)]
    scanned = [node.tensor(i) for i in range(len(states), len(node.inputs))]
    axes = _axes(node, "scan_input_axes", [tensors.rank(x) for x in scanned])
    backwards = _directions(node, "scan_input_directions", count)
    final, stacked = _scanned(node, states, scanned, axes, backwards)
    return [*final, *_placed(node, stacked)]


def _scan_of_batches(node: Node) -> list[ir.Value]:
    """Scan of opset 8, whose tensors have a batch first: one scan for each batch entry."""
    count = int(node.attribute("num_scan_inputs"))
    inputs = [node.tensor(i) for i in range(1, len(node.inputs))]
    batch, steps = (tensors.size_of(inputs[-1], i, "a size of its input") for i in range(2))
    lengths = node.known(0) if node.given(0) else np.array(steps)
    if lengths is None or (lengths != steps).any():
        raise UnsupportedError("sequence_lens of other lengths than the tensors'")
    results = []
    for place in range(batch):
        parts = [emit.squeeze(emit.take(x, 0, place, place + 1), [0]) for x in inputs]
        states, scanned = parts[: len(parts) - count], parts[len(parts) - count :]
        backwards = _directions(node, "directions", count)
        final, stacked = _scanned(node, states, scanned, [0] * count, backwards)
        results.append([*final, *stacked])
    return [emit.stack(column, 0) for column in zip(*results, strict=True)]


def _scanned(
    node: Node,
    states: list[ir.Value],
    scanned: list[ir.Value],
    axes: list[int],
    backwards: Sequence[int],
) -> tuple[list[ir.Value], list[ir.Value]]:
    """The last states, and the results of all steps stacked along axis 0."""
    node.attribute("body")
    steps = tensors.dims(scanned[0])[axes[0]]
    if steps is None:
        tensors.size_of(scanned[0], axes[0], "the number of steps")  # says that it has to be known
    scanned = [
        mgx.reverse(x, [axis]) if back else x
        for x, axis, back in zip(scanned, axes, backwards, strict=True)
    ]
    if isinstance(steps, int):
        made = _kernel_scan(node, states, scanned, axes, steps)
        made = made or unroll.scan(node, states, scanned, axes, steps)
        if made is not None:
            return made
    return _scan_loop(node, states, scanned, axes, steps)


def _kernel_scan(
    node: Node,
    states: list[ir.Value],
    scanned: list[ir.Value],
    axes: list[int],
    steps: int,
) -> tuple[list[ir.Value], list[ir.Value]] | None:
    """The results of `_scan_loop`, where that is a kernel."""
    if steps < 2 or not states:
        return None
    before = len(node.conversion.unsupported)
    try:
        final, stacked = _scan_loop(node, states, scanned, axes, steps)
    except UnsupportedError:  # trips written out may change the types of what they carry
        node.conversion.forget_sizes()
        del node.conversion.unsupported[before:]
        return None
    return (final, stacked) if unroll.stays(final) else None


def _scan_loop(
    node: Node,
    states: list[ir.Value],
    scanned: list[ir.Value],
    axes: list[int],
    steps: tensors.Dim,
) -> tuple[list[ir.Value], list[ir.Value]]:
    """The final states of a Scan and its results, stacked along axis 0, by a loop."""

    def body(i: ir.Value, go: ir.Value, *carried: ir.Value) -> list[ir.Value]:
        entries = [mgx.gather(x, i, axis) for x, axis in zip(scanned, axes, strict=True)]
        arguments = [Value("argument", tensor=v) for v in (*carried, *entries)]
        results = node.conversion.subgraph(node, "body", arguments)
        _check_carried(states, results)
        return [go, *results]

    trips = emit.size_of(scanned[0], axes[0])
    results = _as_list(mgx.loop(trips, mgx.constant(True, np.bool_), states, body))
    stacked = [_stacked(r, steps) for r in results[len(states) :]]
    return results[: len(states)], stacked


def _placed(node: Node, stacked: list[ir.Value]) -> list[ir.Value]:
    """The stacked results of a Scan with the new dimension, and in the order, that it asks for."""
    places = _axes(node, "scan_output_axes", [tensors.rank(r) for r in stacked])
    directions = _directions(node, "scan_output_directions", len(stacked))
    for place, (axis, back) in enumerate(zip(places, directions, strict=True)):
        if back:
            stacked[place] = mgx.reverse(stacked[place], [0])
        rest = list(range(1, tensors.rank(stacked[place])))
        stacked[place] = emit.transpose(stacked[place], [*rest[:axis], 0, *rest[axis:]])
    return stacked


def _directions(node: Node, name: str, count: int) -> list[int]:
    """For each of `count` tensors, whether its entries come last first."""
    stated = list(node.attribute(name) or [0] * count)
    if len(stated) != count or not {0, 1}.issuperset(stated):
        raise ModelError(f"{name} = {stated}; {count} numbers, 0 or 1, are defined")
    return stated


def _axes(node: Node, name: str, ranks: Sequence[int]) -> list[int]:
    stated = node.attribute(name) or [0] * len(ranks)
    if len(stated) != len(ranks):
        raise ModelError(f"{name} = {list(stated)} for {len(ranks)} tensors")
    return [tensors.axis_in(a, r) for a, r in zip(stated, ranks, strict=True)]
