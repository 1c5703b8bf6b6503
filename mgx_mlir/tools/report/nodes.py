"""The nodes of an ONNX graph as the steps of a picture."""

from __future__ import annotations

import onnx


def named_nodes(graph: onnx.GraphProto) -> list[tuple[str, list[int]]]:
    """For each node its name, or one made of its operator and number, and the nodes it reads."""
    made: dict[str, int] = {}
    found = []
    for number, node in enumerate(graph.node):
        reads = sorted({made[x] for x in node.input if x in made})
        found.append((node.name or f"{node.op_type}_{number}", reads))
        made.update(dict.fromkeys(filter(None, node.output), number))
    return found


def kinds_of(graph: onnx.GraphProto) -> list[int]:
    """For each node the number of its operator: what `blocks` finds repetitions in."""
    numbers: dict[str, int] = {}
    return [numbers.setdefault(f"{n.domain}::{n.op_type}", len(numbers)) for n in graph.node]
