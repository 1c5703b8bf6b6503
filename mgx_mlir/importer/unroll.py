"""Loops whose number of trips is known while a model is imported, written out if no kernel."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from mlir import ir
from onnx import GraphProto

from mgx_mlir.artifact.plan import ENDLESS
from mgx_mlir.dialects import mgx
from mgx_mlir.errors import ModelError
from mgx_mlir.importer import emit
from mgx_mlir.importer.node import Node
from mgx_mlir.importer.structure import subgraphs
from mgx_mlir.importer.values import Value
from mgx_mlir.rewriting.kernel_loops import fits_in_kernel
from mgx_mlir.rewriting.queries import definition

# Loops of more nodes than this, all trips together, stay loops.
MAX_NODES = 4096


class _Work:
    """The nodes that a loop becomes, those of loops inside of it at each trip."""

    def __init__(self, node: Node) -> None:
        self._conversion = node.conversion
        self._loop = (node.name, *node.proto.output)
        self._start = node.conversion.converted

    @property
    def is_too_much(self) -> bool:
        """Whether it was so the last time: loops around it do not try again at each trip."""
        return self._loop in self._conversion.kept_loops

    def exceeds(self, trips: int) -> bool:
        """Whether these trips are too many nodes."""
        return self._conversion.converted - self._start + trips > MAX_NODES

    def give_up(self, always: bool) -> None:
        """Forgets the nodes: they are not there. always: the loop is not tried again."""
        self._conversion.converted = self._start
        if always:
            self._conversion.kept_loops.add(self._loop)


def loop(node: Node) -> list[Value] | None:
    """The results of a Loop; None where its trips are not known, or too many."""
    trips, go = _known(node, 0, ENDLESS), _known(node, 1, 1)
    if trips is None or go is None:
        return None
    body: GraphProto = node.attribute("body")
    carried = [node.value(i) for i in range(2, len(node.inputs))]
    if len(body.output) < 1 + len(carried):
        raise ModelError("its body has fewer results than the loop carries")
    work = _Work(node)
    if work.is_too_much:
        return None
    most = node.conversion.max_loop_iterations if trips >= ENDLESS else trips
    entries: list[list[Value]] = [[] for _ in range(len(body.output) - 1 - len(carried))]
    before = len(node.conversion.unsupported)
    trip = 0
    while go and trip < trips:
        arguments = [_scalar(trip, np.int64, body, 0), _scalar(True, np.bool_, body, 1), *carried]
        again, *results = node.conversion.inline(node, "body", arguments)
        carried = results[: len(carried)]
        for column, entry in zip(entries, results[len(carried) :], strict=True):
            column.append(entry)
        trip += 1
        go = None if again.known is None else int(again.known.reshape(-1)[0])
        goes_on = go is None or (go and trip < trips)
        if go is None or (goes_on and (trip == most or work.exceeds(trip))):
            work.give_up(go is not None)
            del node.conversion.unsupported[before:]
            return None
    if entries and not trip:
        return None  # nothing shows the shape of the entries
    return [*carried, *(stack(node, column) for column in entries)]


def scan(
    node: Node,
    states: Sequence[ir.Value],
    scanned: Sequence[ir.Value],
    axes: Sequence[int],
    steps: int,
) -> tuple[list[ir.Value], list[ir.Value]] | None:
    """The final states of a Scan and its results, stacked along axis 0; None where too many."""
    body: GraphProto = node.attribute("body")
    work = _Work(node)
    if work.is_too_much or not 0 < steps <= MAX_NODES // _count(body):
        return None
    before = len(node.conversion.unsupported)
    carried = [Value("state", tensor=s) for s in states]
    entries: list[list[Value]] = [[] for _ in range(len(body.output) - len(carried))]
    for step in range(steps):
        parts = [
            Value("entry", tensor=emit.squeeze(emit.take(x, axis, step, step + 1), [axis]))
            for x, axis in zip(scanned, axes, strict=True)
        ]
        results = node.conversion.inline(node, "body", [*carried, *parts])
        carried = results[: len(carried)]
        for column, entry in zip(entries, results[len(carried) :], strict=True):
            column.append(entry)
        if work.exceeds(step):
            work.give_up(True)
            del node.conversion.unsupported[before:]
            return None
    final = [node.constants.materialise(v) for v in carried]
    return final, [node.constants.materialise(stack(node, column)) for column in entries]


def stays(results: Sequence[ir.Value]) -> bool:
    """Whether the loop that made the results is a kernel; if not, nothing reads it."""
    made = definition(results[0])
    return isinstance(made, mgx.LoopOp) and fits_in_kernel(made)


def stack(node: Node, entries: Sequence[Value]) -> Value:
    """The tensors along a new first axis."""
    known = [v.known for v in entries]
    if all(a is not None for a in known):
        return Value(node.name, array=np.stack([np.asarray(a) for a in known]))
    tensors = [node.constants.materialise(v) for v in entries]
    return Value(node.name, tensor=emit.stack(tensors, 0))


def _known(node: Node, index: int, absent: int) -> int | None:
    if not node.given(index):
        return absent
    known = node.known(index)
    return None if known is None else int(known.reshape(-1)[0])


def _scalar(value: int, dtype: type, body: GraphProto, index: int) -> Value:
    """The counter or the condition in the shape that the body declares: [] or [1]."""
    declared = body.input[index]
    rank = len(declared.type.tensor_type.shape.dim)
    return Value(declared.name, array=np.full([1] * rank, value, dtype))


def _count(graph: GraphProto) -> int:
    inner = (_count(g) for node in graph.node for g in subgraphs(node))
    return 1 + len(graph.node) + sum(inner)
