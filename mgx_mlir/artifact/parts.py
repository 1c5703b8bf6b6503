"""A program in parts: compiled segments, and nodes of the host between them. Pure data.

The graphs of a model are its main graph and the bodies of its control flow that the host runs.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from mgx_mlir.artifact.plan import Plan
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
    def of_checked(value: Any, model: bytes) -> Parts:
        """The parts in JSON values that libmgx has checked."""
        return Parts(
            model,
            tuple(value["inputs"]),
            value["weights"],
            {place: tuple(map(_part, steps)) for place, steps in value["graphs"].items()},
            value["signature"],
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
    nodes = tuple(value["nodes"])
    if "operator" in value:
        return Part(nodes, value["operator"])
    return Part(nodes, "", tuple(map(Plan.of_checked, value["plans"])), value.get("reason", ""))
