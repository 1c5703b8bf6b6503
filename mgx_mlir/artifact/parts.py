"""A program in parts: compiled segments, and nodes of the host between them. Pure data.

The graphs of a model are its main graph and the bodies of its control flow that the host runs.
`Parts.from_json` accepts hostile input and answers with ArtifactError.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from mgx_mlir.artifact.plan import Plan
from mgx_mlir.errors import ArtifactError
from mgx_mlir.text import name_text


@dataclass(frozen=True)
class Part:
    """A step of a graph: one node of the host, or a segment of nodes that compile.

    `nodes` are numbers in the graph. A node of the host has the name of its operator, such as
    'NonZero' or 'ai.onnx.ml::ZipMap'. A segment has a plan for each set of sizes that is known
    when it is compiled, or one for any sizes; without a plan it compiles when it runs, and
    `reason` says why.
    """

    nodes: tuple[int, ...]
    operator: str = ""
    plans: tuple[Plan, ...] = ()
    reason: str = ""

    @property
    def on_host(self) -> bool:
        """Whether the host runs the part."""
        return bool(self.operator)

    def to_json(self, *, counts: bool = True) -> dict[str, Any]:
        """The part as JSON values; see Plan.to_json for `counts`."""
        if self.on_host:
            return {"nodes": list(self.nodes), "operator": self.operator}
        plans = [plan.to_json(counts=counts) for plan in self.plans]
        why = {"reason": self.reason} if self.reason else {}
        return {"nodes": list(self.nodes), "plans": plans, **why}


@dataclass(frozen=True)
class Parts:
    """The parts of each graph, and the model that they are of.

    `model` are the bytes of an ONNX model without its large weights, whose keys in the artifact
    `weights` has by name: those that a node of the host reads, or a segment without a plan.
    `inputs` are the names of the model's inputs, `signature` its inputs and outputs for people.
    `graphs` has the steps of each graph by its place: '' for the main graph.
    """

    model: bytes = field(repr=False)
    inputs: tuple[str, ...]
    weights: Mapping[str, str]
    graphs: Mapping[str, tuple[Part, ...]]
    signature: str = ""

    @property
    def plans(self) -> Iterator[Plan]:
        """The plans of all segments, those for some sizes among them."""
        for plan in (plan for part in self.segments for plan in part.plans):
            yield from plan.plans

    @property
    def segments(self) -> list[Part]:
        """The segments of all graphs."""
        return [part for steps in self.graphs.values() for part in steps if not part.on_host]

    @property
    def operators(self) -> list[str]:
        """The operators that the host runs, each once."""
        steps = [part for steps in self.graphs.values() for part in steps if part.on_host]
        return sorted({part.operator.removeprefix("mgx.bounded::") for part in steps})

    def to_json(self, *, counts: bool = True) -> dict[str, Any]:
        """The parts as JSON values, without the model."""
        return {
            "inputs": list(self.inputs),
            "weights": dict(self.weights),
            "signature": self.signature,
            "graphs": {
                place: [part.to_json(counts=counts) for part in steps]
                for place, steps in self.graphs.items()
            },
        }

    @staticmethod
    def from_json(value: Any, model: bytes) -> Parts:
        """The parts in JSON values. Raises ArtifactError where anything is out of range."""
        weights, graphs = _typed(value, "weights", dict), _typed(value, "graphs", dict)
        if not all(isinstance(key, str) for key in weights.values()):
            raise ArtifactError("parts: 'weights' holds more than keys")
        if "" not in graphs:
            raise ArtifactError("parts: the steps of the main graph are missing")
        return Parts(
            model,
            tuple(_texts(value, "inputs")),
            weights,
            {place: tuple(map(_part, _typed(graphs, place, list))) for place in graphs},
            _typed(value, "signature", str),
        )

    def summary(self) -> list[str]:
        """A few lines for people, as those of Contents.summary."""
        segments = self.segments
        plans = sum(len(part.plans) for part in segments)
        late = [part for part in segments if not part.plans]
        lines = [
            f"model         {name_text(self.signature)}",
            f"parts         segments: {len(segments)}, with programs: {plans}; on the host: "
            + (", ".join(map(name_text, self.operators)) or "nothing"),
        ]
        lines += [f"segment       compiles when it runs: {name_text(p.reason)}" for p in late]
        return lines


def _part(value: Any) -> Part:
    nodes = _typed(value, "nodes", list)
    if not nodes or not all(type(n) is int and 0 <= n < 1 << 32 for n in nodes):
        raise ArtifactError(f"parts: 'nodes' holds {nodes!r:.80}, no numbers of nodes")
    if "operator" in value:
        operator = _typed(value, "operator", str)
        if not operator or len(nodes) != 1:
            raise ArtifactError("parts: a step of the host is one node of a named operator")
        return Part(tuple(nodes), operator)
    plans = tuple(map(Plan.from_json, _typed(value, "plans", list)))
    return Part(tuple(nodes), "", plans, _typed({"reason": "", **value}, "reason", str))


def _typed(value: Any, name: str, kind: type) -> Any:
    if not isinstance(value, dict) or type(value.get(name)) is not kind:
        raise ArtifactError(f"parts: '{name:.80}' is missing or no {kind.__name__}")
    return value[name]


def _texts(value: Any, name: str) -> list[str]:
    found: list[str] = _typed(value, name, list)
    if not all(isinstance(text, str) for text in found):
        raise ArtifactError(f"parts: '{name}' holds more than text")
    return found
