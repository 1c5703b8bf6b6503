"""A graph that runs in steps: islands compile when they are first met, the host does the rest."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
import onnx
from onnx import NodeProto, TypeProto

from mgx_mlir.artifact.parts import Part
from mgx_mlir.errors import ArtifactError, ModelError, OpenError, UnsupportedError
from mgx_mlir.importer import Unsupported, check_model, prepare, structure
from mgx_mlir.importer.loading import Source
from mgx_mlir.models import host
from mgx_mlir.models.host.evaluate import Evaluator
from mgx_mlir.models.host.values import is_tensor, show
from mgx_mlir.models.specialize import SpecializedModel, Values
from mgx_mlir.models.staged import bounded, quick
from mgx_mlir.models.staged.compilation import Compilation
from mgx_mlir.models.staged.constants import value_of
from mgx_mlir.models.staged.context import Context
from mgx_mlir.models.staged.control import Control
from mgx_mlir.models.staged.open_types import is_open, open_types
from mgx_mlir.models.staged.partition import (
    Step,
    known_values,
    partition,
    source_of,
    stored_steps,
)
from mgx_mlir.models.staged.rows import static_rows
from mgx_mlir.models.staged.survey import Survey

if TYPE_CHECKING:
    from mgx_mlir.runtime.program import Program

# Why a segment of an artifact has no program.
_NO_RANKS = "the ranks of its inputs are known only then"


class _ReplanError(Exception):
    """More nodes are the host's than the steps say."""


class StagedGraph:
    """A graph with the types of its inputs, and the programs compiled for its islands.

    `types` are those that onnx's inference finds. `place` is the place of a body, the node and the
    attribute, and '' for the main graph. A body compiles for the sizes of values, not for the
    values themselves, which change with each call.
    """

    def __init__(
        self,
        source: Source,
        types: Mapping[str, TypeProto],
        compilation: Compilation,
        *,
        place: str = "",
    ) -> None:
        """Raises UnsupportedError naming each node that neither compiles nor runs on the host."""
        self.place = place
        self.source = source
        self.types = types
        # Why the steps that a survey met do not compile; None for those that do.
        self._refused: dict[Any, UnsupportedError | None] = {}
        # The tensor with room for every possible result, by the name of the result's count.
        self._bounded = bounded.split(source.model, compilation.splits)
        self.known = known_values(source)
        self.compilation = compilation
        self._graph = source.model.graph
        self._opsets = prepare.opsets(source.model)
        self._rows = static_rows(self._graph, types, self.known)
        stored = compilation.stored
        self._stored = stored.parts.graphs.get(place) if stored is not None else None
        self._cuts: set[int] = set()
        self._named = {n: i for i, node in enumerate(self._graph.node) for n in _names(node)}
        self._steps: list[Step] | None = None
        # By nodes, and by the ranks of inputs: a branch may give another one than its other.
        self._islands: dict[tuple[tuple[int, ...], ...], SpecializedModel] = {}
        self._evaluators: dict[int, Any] = {}
        self._constants: dict[str, Any] = {}
        # The nodes of steps that may need no program; none of others.
        self._quick: dict[tuple[int, ...], list[NodeProto]] = {}
        self._lock = threading.RLock()

    @property
    def max_loop_iterations(self) -> int:
        """The most trips of a loop that states no number of them."""
        return self.compilation.options.max_loop_iterations

    def body(self, source: Source, types: Mapping[str, TypeProto], place: str) -> StagedGraph:
        """The staged graph of a node's body, for inputs of these types."""
        return StagedGraph(source, types, self.compilation, place=place)

    @property
    def compiled(self) -> int:
        """How many programs were compiled so far for islands outside of bodies."""
        return sum(island.compiled for island in self._islands.values())

    def wait(self) -> None:
        """Returns when none of these programs is being compiled in the background."""
        for island in self._islands.values():
            island.wait()

    @property
    def host_nodes(self) -> list[Unsupported]:
        """The nodes that the host runs, as far as it is known, with the reason."""
        nodes = [(self._graph.node[i], row) for i, row in sorted(self._rows.items())]
        return [
            Unsupported(node.name, bounded.operator_name(node), row.kind.value)
            for node, row in nodes
            if not bounded.is_first_half(node)
        ]

    def survey(self) -> Survey:
        """Finds the nodes that the host has to run, without running.

        Islands of known sizes are compiled to their portable form, as a run does; those whose
        inputs have sizes that only a run shows are imported with these open.
        """
        found = Survey()
        again = True
        while again:  # until no node leaves its island
            found.lacking.clear()
            again = any(self._survey_step(step, found) for step in self.plan())
        for index in sorted(self._rows):
            late = index in found.late
            if self._rows[index].kind is host.Kind.CONTROL and (
                not late or self.compilation.record
            ):
                body = self._control(index, self._graph.node[index]).survey()
                found.add(body if not late else Survey())
        if self.compilation.record is not None:
            self.compilation.record.graphs.setdefault(self.place, self._parts())
        found.host = [e for e in self.host_nodes if self._named.get(e.node) not in found.late]
        return found

    def _parts(self) -> tuple[Part, ...]:
        """The steps, as an artifact holds them."""
        record = self.compilation.record
        assert record is not None
        parts = []
        for step in self.plan():
            nodes, key = [self._graph.node[i] for i in step.nodes], (self.place, step.nodes)
            if step.on_host:
                parts.append(Part(step.nodes, bounded.operator_name(nodes[0])))
                bodies = {
                    f"{nodes[0].name}/{a.name}" for a in nodes[0].attribute if a.HasField("g")
                }
                surveyed = bodies <= record.graphs.keys()
                record.read |= {*nodes[0].input} if surveyed else structure.uses_of(nodes[0])
            elif key in record.artifacts:
                parts.append(Part(step.nodes))
            else:
                parts.append(Part(step.nodes, reason=record.reasons.get(key, _NO_RANKS)))
                record.read.update(*map(structure.uses_of, nodes))
        return tuple(parts)

    def _survey_step(self, step: Step, found: Survey) -> bool:
        """Whether nodes leave the step, so that the steps have to be planned anew."""
        types = {n: self.types.get(n, TypeProto()) for n in step.inputs}
        if step.on_host or any(not t.tensor_type.HasField("shape") for t in types.values()):
            return False
        key = step.nodes, step.outputs
        if key not in self._refused:  # most steps are those of the plan before
            self._refused[key] = self._refusal(step, self._source_of(step, types))
        refused = self._refused[key]
        blamed = self._blamed(refused) & {*step.nodes} if refused else set()
        blamed |= {i for i in step.nodes if self._data_decide(i)}
        rows = {i: row for i in blamed if (row := self._row(i)) is not None}
        at_once = {i: row for i, row in rows.items() if not row.compiles_for_values}
        if at_once:
            return self._move(at_once)
        if refused is None:
            return False
        late = rows.keys() | {i for i in blamed if self._is_open(i, refused)}
        for index in sorted(late - found.late.keys()):
            (entry, *_) = self._entries(index, refused)
            row = rows.get(index)
            found.late[index] = replace(entry, reason=row.kind.value) if row else entry
        if rows:
            return self._move(rows)
        if late - self._cuts:
            self._cuts |= late
            return self._move({})
        found.lacking += [e for i in sorted(blamed - late) for e in self._entries(i, refused)]
        if not blamed:
            name = self._graph.node[step.nodes[0]].name
            found.lacking += refused.entries or [Unsupported(name, "the part from", str(refused))]
        return False

    def _move(self, rows: Mapping[int, host.HostOperator]) -> bool:
        self._rows |= rows
        self._steps = None
        return True

    def _is_open(self, index: int, refused: UnsupportedError) -> bool:
        return isinstance(refused, OpenError) or all(e.open for e in self._entries(index, refused))

    def _entries(self, index: int, refused: UnsupportedError) -> list[Unsupported]:
        """The entries of an error for a node, inner nodes included."""
        found = [e for e in refused.entries if self._named.get(e.node) == index]
        node = self._graph.node[index]
        whole = Unsupported(node.name, bounded.operator_name(node), str(refused))
        return found or [whole]

    def _refusal(self, step: Step, source: Source) -> UnsupportedError | None:
        """Why an island does not compile; None where it does."""
        try:
            if not is_open(source):
                self.compilation.try_static(self.place, step.nodes, source)
                return None
            report = check_model(source)
            if not report.supported:
                return report.error()
            self.compilation.try_any(self.place, step.nodes, source)
        except UnsupportedError as error:
            return error
        return None

    def run(self, inputs: Mapping[str, Any], context: Context) -> list[Any]:
        """The values of the outputs, in order."""
        while True:
            mark = context.mark()
            try:
                return self._run(dict(inputs), context)
            except _ReplanError:
                context.restore(mark)

    def constant(self, name: str) -> Any:
        """A value that is known without running."""
        if name not in self._constants:
            self._constants[name] = value_of(self.known[name], self._opsets)
        return self._constants[name]

    def _run(self, values: dict[str, Any], context: Context) -> list[Any]:
        for step in self.plan():
            values |= self.done(step, values, context)
            for name in step.dead:
                values.pop(name, None)
        return [self._find(value.name, values) for value in self._graph.output]

    def _find(self, name: str, values: Mapping[str, Any]) -> Any:
        return values[name] if name in values else self.constant(name)

    def done(self, step: Step, values: Mapping[str, Any], context: Context) -> dict[str, Any]:
        """The results of a step."""
        if step.on_host:
            return self._on_host(step.nodes[0], lambda name: self._find(name, values), context)
        if step.nodes not in self._quick:
            nodes = [self._graph.node[i] for i in step.nodes]
            self._quick[step.nodes] = nodes if quick.are_quick(nodes) else []
        nodes = self._quick[step.nodes]
        found = quick.results(nodes, lambda name: self._find(name, values)) if nodes else None
        return self._compiled(step, values) if found is None else found

    def _data_decide(self, index: int) -> bool:
        """Whether the size of a node's results follows from no size of the inputs."""
        row = self._row(index)
        if row is None or row.kind is not host.Kind.DATA:
            return False
        symbols = {d.dim_param for v in self._graph.input for d in v.type.tensor_type.shape.dim} - {
            ""
        }
        results = [self.types.get(name) for name in self._graph.node[index].output]
        dims = [d for t in results if t is not None for d in t.tensor_type.shape.dim]
        return any(not d.HasField("dim_value") and d.dim_param not in symbols for d in dims)

    def plan(self) -> list[Step]:
        with self._lock:
            if self._steps is None:
                if self._stored is not None:
                    self._steps = self._stored_steps(self._stored)
                else:
                    self._steps = partition(self._graph, self.known, self._rows, self._cuts)
            return self._steps

    def _stored_steps(self, parts: Sequence[Part]) -> list[Step]:
        """The steps that an artifact has. Raises ArtifactError where they are not the graph's."""
        for part in parts:
            node = (
                self._graph.node[part.nodes[0]] if part.nodes[0] < len(self._graph.node) else None
            )
            if part.on_host and node is not None:
                row = host.find(node.domain, node.op_type, strings=True)
                if row is None or bounded.operator_name(node) != part.operator:
                    raise ArtifactError(f"the host knows no operator '{part.operator:.80}' there")
                self._rows.setdefault(part.nodes[0], row)
        groups = [part.nodes for part in parts]
        return stored_steps(self._graph, self.known, groups, self._rows)

    def name_of(self, step: Step) -> str:
        """The first node of a step, for people."""
        return structure.display_name(self._graph.node[step.nodes[0]])

    def island_program(
        self, step: Step, values: Mapping[str, Any]
    ) -> tuple[Program, dict[str, Any]]:
        """The program of a step that is none of the host's, and its inputs."""
        values = {n: self._find(n, values) for n in step.inputs}
        for name, value in values.items():
            if not is_tensor(value):
                raise ModelError(f"'{name}' is {show(value)} where a tensor of numbers is read")
        with self._lock:
            program = self._program(step, values)
        if [spec.name for spec in program.outputs] != [*step.outputs]:
            raise ArtifactError("a segment's program has other results than its nodes")
        return program, {spec.name: values[spec.name] for spec in program.inputs}

    def _compiled(self, step: Step, values: Mapping[str, Any]) -> dict[str, np.ndarray]:
        program, given = self.island_program(step, values)
        pairs = {c: most for c, most in self._bounded.items() if c in step.outputs}
        if not pairs or not self.compilation.on_gpu:
            return program.run(given)
        results: dict[str, Any] = program.run(given, results="device")  # type: ignore[call-arg]
        counts = {most: int(results[count].numpy()[0]) for count, most in pairs.items()}
        return {name: x.numpy(counts.get(name)) for name, x in results.items()}

    def _program(self, step: Step, arrays: Mapping[str, np.ndarray]) -> Program:
        """The island's program. Raises _ReplanError where some of its nodes have to leave it."""
        stored = self.compilation.stored
        found = stored.find(self.place, step.nodes, arrays) if stored is not None else None
        if found is not None:
            return found
        island = self._island(step, arrays)
        try:
            return island.program(arrays, Values.NONE)
        except UnsupportedError as error:
            blamed = self._blamed(error) & {*step.nodes}
        rows = {i: row for i in blamed if (row := self._row(i)) is not None}
        at_once = {i: row for i, row in rows.items() if not row.compiles_for_values}
        if not at_once and not self.place:
            try:
                return island.program(arrays, Values.COUNTS)
            except UnsupportedError:
                pass
        if at_once:  # and the others that an import would name next
            decided = [i for i in step.nodes if i not in at_once and self._data_decide(i)]
            at_once |= {i: row for i in decided if (row := self._row(i)) is not None}
        moved = at_once or rows
        if moved:
            self._rows |= moved
        elif blamed - self._cuts:
            self._cuts |= blamed
        else:
            return island.program(arrays, Values.NUMBERS)
        self._steps = self._stored = None
        raise _ReplanError

    def _blamed(self, error: UnsupportedError) -> set[int]:
        """The nodes that an error names; a fused one names several, separated by '+'."""
        names = [n for name in error.nodes for n in (name, *name.split("+"))]
        return {self._named[n] for n in names if n in self._named}

    def _row(self, index: int) -> host.HostOperator | None:
        node = self._graph.node[index]
        return host.find(node.domain, node.op_type)

    def _island(self, step: Step, arrays: Mapping[str, np.ndarray]) -> SpecializedModel:
        key = step.nodes, tuple(arrays[n].ndim for n in step.inputs)
        if key not in self._islands:
            declared = {v.name: v.type for v in self._graph.input}
            inner = {n: arrays[n] for n in step.inputs if n not in declared}
            found = open_types(inner, self.types)
            types = {n: declared[n] if n in declared else found[n] for n in step.inputs}
            self._islands[key] = self.compilation.model(self._source_of(step, types))
        return self._islands[key]

    def _source_of(self, step: Step, types: Mapping[str, TypeProto]) -> Source:
        """An island as a model whose inputs have these types."""
        nodes = [self._graph.node[i] for i in step.nodes]
        outputs = [onnx.ValueInfoProto(name=n) for n in step.outputs]
        return source_of(self.source, nodes, types, outputs, self.known, self.source.name)

    def _on_host(self, index: int, find: Any, context: Context) -> dict[str, Any]:
        node, row = self._graph.node[index], self._rows[index]
        if row.kind is host.Kind.CONTROL:
            results = self._control(index, node).run(find, context)
        else:
            with self._lock:
                if index not in self._evaluators:
                    self._evaluators[index] = Evaluator(node, row, self._opsets)
            inputs = [find(name) if name else None for name in node.input]
            draw = partial(context.generator, node.name)
            results = self._evaluators[index].run(inputs, draw)
        if len(results) < len(node.output):
            name = structure.display_name(node)
            raise ModelError(f"{name}: of {len(node.output)} results it has {len(results)}")
        return dict(zip(node.output, results, strict=False))

    def _control(self, index: int, node: NodeProto) -> Any:
        with self._lock:
            if index not in self._evaluators:
                version = self._opsets.get(node.domain, 1)
                self._evaluators[index] = Control(node, version, self)
        return self._evaluators[index]


def _names(node: NodeProto) -> Iterator[str]:
    yield node.name
    for graph in structure.subgraphs(node):
        for inner in graph.node:
            yield from _names(inner)
