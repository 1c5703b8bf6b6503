"""If, Loop, Scan and SequenceMap by the host, with bodies that are staged graphs."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

import numpy as np
from onnx import GraphProto, NodeProto, TypeProto, helper

from mgx_mlir.artifact.plan import ENDLESS
from mgx_mlir.errors import MgxError, ModelError
from mgx_mlir.importer import prepare, structure
from mgx_mlir.importer.loading import Source
from mgx_mlir.models.host.values import show, type_of
from mgx_mlir.models.staged.context import Context
from mgx_mlir.models.staged.partition import Known, source_of
from mgx_mlir.models.staged.survey import Survey
from mgx_mlir.runtime.loaded import row_major

Find = Callable[[str], Any]


class Staged(Protocol):
    """A staged graph, as far as control flow asks it (see graph.Staged)."""

    source: Source
    types: Mapping[str, TypeProto]
    known: dict[str, Known]

    @property
    def max_loop_iterations(self) -> int: ...
    def body(self, source: Source, types: Mapping[str, TypeProto], place: str) -> Staged: ...
    def run(self, values: Mapping[str, Any], context: Context) -> list[Any]: ...
    def survey(self) -> Survey: ...


class Body:
    """A graph attribute of a node: one staged graph for each combination of input types."""

    def __init__(self, graph: GraphProto, place: str, outer: Staged) -> None:
        self.graph = graph
        self._place = place
        self._outer = outer
        self._captured = sorted(structure.free_names(graph) - outer.known.keys())
        self._graphs: dict[tuple[bytes, ...], Staged] = {}
        self._of_dtypes: dict[tuple[np.dtype[Any] | None, ...], Staged] = {}

    def run(self, arguments: Sequence[Any], find: Find, context: Context) -> list[Any]:
        """The outputs. `find` gives the values that the body reads from around it."""
        if len(arguments) != len(self.graph.input):
            raise ModelError(
                f"its body takes {len(self.graph.input)} inputs and gets {len(arguments)}"
            )
        formal = [v.name for v in self.graph.input]
        values = dict(zip(formal, arguments, strict=True))
        values |= {name: find(name) for name in self._captured}
        return self.staged(values).run(values, context)

    def staged(self, values: Mapping[str, Any]) -> Staged:
        """The staged graph for inputs of the types of these values."""
        key = tuple(v.dtype if isinstance(v, np.ndarray) else None for v in values.values())
        if (found := self._of_dtypes.get(key)) is not None:
            return found
        declared = self._declared()
        types = {n: _input_type(v, declared.get(n)) for n, v in values.items()}
        found = self._of_types(types)
        if None not in key:  # the types of others do not follow
            self._of_dtypes[key] = found
        return found

    def survey(self) -> Survey:
        """The survey of the body for inputs of the declared types; empty without these."""
        types = self._declared()
        names = [*self._captured, *(v.name for v in self.graph.input)]
        if any(types.get(n, TypeProto()).WhichOneof("value") is None for n in names):
            return Survey()
        return self._of_types({n: types[n] for n in names}).survey()

    def _declared(self) -> dict[str, TypeProto]:
        declared = {n: self._outer.types[n] for n in self._captured if n in self._outer.types}
        return declared | {v.name: v.type for v in self.graph.input}

    def _of_types(self, types: dict[str, TypeProto]) -> Staged:
        key = tuple(t.SerializeToString(deterministic=True) for t in types.values())
        if key not in self._graphs:
            known = self._outer.known | {t.name: t for t in self.graph.initializer}
            source = source_of(
                self._outer.source, self.graph.node, types, self.graph.output, known, "body"
            )
            try:
                inferred = prepare.infer(source.model)
            except ModelError:  # without sizes; the island with sizes reports the fault
                inferred = types
            self._graphs[key] = self._outer.body(source, inferred, self._place)
        return self._graphs[key]


class Control:
    """One node of control flow."""

    def __init__(self, node: NodeProto, version: int, outer: Staged) -> None:
        self._node = node
        self._version = version
        self._most = outer.max_loop_iterations
        self._attributes = {a.name: helper.get_attribute_value(a) for a in node.attribute}
        self._bodies = {
            name: Body(value, f"{node.name}/{name}", outer)
            for name, value in self._attributes.items()
            if isinstance(value, GraphProto)
        }

    def run(self, find: Find, context: Context) -> list[Any]:
        """The node's results. Raises ModelError where its body does not fit its inputs."""
        inputs = [find(name) if name else None for name in self._node.input]
        runs = {"If": self._if, "Loop": self._loop, "SequenceMap": self._map, "Scan": self._scan}
        try:
            return runs[self._node.op_type](inputs, find, context)
        except MgxError as error:
            name = structure.display_name(self._node)
            if name in str(error):
                raise
            raise type(error)(f"in {name}: {error}") from error

    def survey(self) -> Survey:
        """The surveys of the bodies, together."""
        found = Survey()
        for body in self._bodies.values():
            try:
                found.add(body.survey())
            except ModelError:
                if self._node.op_type != "If":
                    raise  # of an If, the branch that a run takes has to fit, and no other
        return found

    def _body(self, name: str) -> Body:
        if name not in self._bodies:
            raise ModelError(f"it has no {name}")
        return self._bodies[name]

    def _if(self, inputs: list[Any], find: Find, context: Context) -> list[Any]:
        chosen = "then_branch" if _single(inputs[0], "its condition") else "else_branch"
        return self._body(chosen).run([], find, context)

    def _loop(self, inputs: list[Any], find: Find, context: Context) -> list[Any]:
        """Any number of trips; the results after the carried values stack their entries."""
        count, condition, *carried = [*inputs, None, None][: max(len(inputs), 2)]
        # A program would copy them in each trip.
        carried = [row_major(v) if isinstance(v, np.ndarray) else v for v in carried]
        trips = None if count is None else int(_single(count, "its number of trips"))
        going = condition is None or bool(_single(condition, "its condition"))
        body = self._body("body")
        entries: list[list[Any]] = [[] for _ in range(len(body.graph.output) - 1 - len(carried))]
        if len(body.graph.output) < 1 + len(carried):
            raise ModelError("its body has fewer results than the loop carries")
        trip = 0
        before = [_shaped(0, np.int64, body, 0), _shaped(True, np.bool_, body, 1), *carried]
        most = self._most if trips is None or trips >= ENDLESS else trips
        while going and (trips is None or trip < trips):
            if trip == most:
                raise ModelError(
                    f"it states no number of trips, and has not ended after {trip}; if it "
                    "should end, raise it (max_loop_iterations=)"
                )
            arguments = [_shaped(trip, np.int64, body, 0), before[1], *carried]
            again, *results = body.run(arguments, find, context)
            carried = results[: len(carried)]
            for column, entry in zip(entries, results[len(carried) :], strict=True):
                column.append(entry)
            going = bool(_single(again, "its condition"))
            trip += 1
        stacked = self._stacked(body, entries, before, find)
        return [*carried, *stacked]

    def _scan(self, inputs: list[Any], find: Find, context: Context) -> list[Any]:
        if self._version >= 9:
            return self._scan_one(inputs, find, context)
        # The first definition: sequences of a batch, each of its own length, after input 0.
        lengths, *rest = inputs
        count = self._attributes["num_scan_inputs"]
        size = rest[-1].shape[1]
        batch = []
        for index in range(rest[0].shape[0]):
            length = size if lengths is None else int(lengths[index])
            parts = [value[index] for value in rest]
            parts[-count:] = [part[:length] for part in parts[-count:]]
            results = self._scan_one(parts, find, context)
            states = len(rest) - count
            results[states:] = [_filled(result, size) for result in results[states:]]
            batch.append(results)
        return [np.stack(column) for column in zip(*batch, strict=True)]

    def _scan_one(self, inputs: list[Any], find: Find, context: Context) -> list[Any]:
        body, count = self._body("body"), int(self._attributes["num_scan_inputs"])
        states, scanned = inputs[: len(inputs) - count], inputs[len(inputs) - count :]
        name = "scan_input_directions" if self._version >= 9 else "directions"
        axes = list(self._attributes.get("scan_input_axes", [0] * count))
        scanned = [
            np.flip(np.moveaxis(x, axis, 0), 0) if back else np.moveaxis(x, axis, 0)
            for x, axis, back in zip(
                scanned, axes, self._attributes.get(name, [0] * count), strict=True
            )
        ]
        steps = {len(x) for x in scanned}
        if len(steps) != 1:
            raise ModelError(f"the scanned inputs have {sorted(steps)} entries")
        columns: list[list[Any]] = [[] for _ in range(len(body.graph.output) - len(states))]
        first = [*states, *(x[:1].reshape(x.shape[1:]) if len(x) else x for x in scanned)]
        for step in range(steps.pop()):
            results = body.run([*states, *(x[step] for x in scanned)], find, context)
            states = results[: len(states)]
            for column, entry in zip(columns, results[len(states) :], strict=True):
                column.append(entry)
        stacked = self._stacked(body, columns, first, find)
        places = self._attributes.get("scan_output_axes", [0] * len(stacked))
        backs = self._attributes.get("scan_output_directions", [0] * len(stacked))
        placed = [
            np.moveaxis(np.flip(x, 0) if back else x, 0, axis)
            for x, axis, back in zip(stacked, places, backs, strict=True)
        ]
        return [*states, *placed]

    def _map(self, inputs: list[Any], find: Find, context: Context) -> list[Any]:
        """The body for each element; other sequences go along, tensors are the same for all."""
        items, *others = inputs
        if not isinstance(items, list):
            raise ModelError(f"its first input is {show(items)}; it takes a sequence")
        for other in others:
            if isinstance(other, list) and len(other) != len(items):
                raise ModelError(f"sequences of {len(items)} and of {len(other)} elements")
        body = self._body("body")
        results: list[list[Any]] = [[] for _ in body.graph.output]
        for index, item in enumerate(items):
            rest = [other[index] if isinstance(other, list) else other for other in others]
            for column, value in zip(results, body.run([item, *rest], find, context), strict=True):
                column.append(value)
        return list(results)

    def _stacked(
        self, body: Body, columns: list[list[Any]], inputs: Sequence[Any], find: Find
    ) -> list[np.ndarray]:
        """Each column along a new first axis."""
        stacked = []
        for index, column in enumerate(columns, len(body.graph.output) - len(columns)):
            if not column:
                stacked.append(_no_entries(body, index, inputs, find))
                continue
            shapes = {value.shape for value in column}
            if len(shapes) > 1:
                raise ModelError(f"the entries of its result have the shapes {sorted(shapes)}")
            stacked.append(np.stack(column))
        return stacked


def _single(value: Any, what: str) -> Any:
    """The one element of a tensor."""
    if not isinstance(value, np.ndarray) or value.size != 1:
        raise ModelError(f"{what} is {show(value)}, not one element")
    return value.reshape(-1)[0]


def _shaped(value: int, dtype: type, body: Body, index: int) -> np.ndarray:
    """The counter or the condition in the shape that the body declares: [] or [1]."""
    if index >= len(body.graph.input):
        raise ModelError("its body does not take the number of the trip and the condition")
    rank = len(body.graph.input[index].type.tensor_type.shape.dim)
    return np.full([1] * rank, value, dtype)


def _no_entries(body: Body, index: int, inputs: Sequence[Any], find: Find) -> np.ndarray:
    """A stacked result without entries, of the type that the body gives; unknown sizes are 0."""
    output = body.graph.output[index]
    names = [v.name for v in body.graph.input]
    values = dict(zip(names, inputs, strict=False))
    values |= {name: find(name) for name in body._captured}
    known = body.staged(values).types.get(output.name)
    tensor = output.type.tensor_type if output.type.tensor_type.elem_type else None
    if tensor is None:
        if known is None or not known.tensor_type.elem_type:
            raise ModelError(f"the element type of '{output.name}' is not known without a trip")
        tensor = known.tensor_type
    dtype = helper.tensor_dtype_to_np_dtype(tensor.elem_type)
    return np.empty((0, *(d.dim_value for d in tensor.shape.dim)), dtype)


def _filled(result: np.ndarray, size: int) -> np.ndarray:
    """A result of a shorter sequence, padded with zeros at the end."""
    missing = np.zeros((size - len(result), *result.shape[1:]), result.dtype)
    return np.concatenate([result, missing])


def _input_type(value: Any, declared: TypeProto | None) -> TypeProto:
    """The type of a body's input: the value's, or the declared where a value shows none."""
    if isinstance(value, np.ndarray) or declared is None:
        return type_of(value)
    kind = declared.WhichOneof("value")
    if kind is None or kind == "tensor_type":
        return type_of(value)
    return declared
