"""Makes a failing graph small: fewer outputs, then nodes cut out by feeding what they gave."""

from __future__ import annotations

import re
from collections.abc import Callable

from test.fuzz.graphs.graph import Case, Value


def smaller(case: Case, wrong: Callable[[Case], str], most_tries: int = 60) -> Case:
    """A case that still goes wrong in the same way (of the same words), with fewer nodes."""
    kind = _kind(wrong(case))
    left = most_tries

    def fails(candidate: Case) -> bool:
        nonlocal left
        left -= 1
        return left >= 0 and bool(candidate.nodes) and _kind(wrong(candidate)) == kind

    for value in case.outputs:
        candidate = Case(case.nodes, case.inputs, case.weights, (value,), case.values).pruned()
        if len(case.outputs) > 1 and fails(candidate):
            case = candidate
            break
    for node in reversed(case.nodes):
        if node in case.nodes:
            candidate = _without(case, node)
            if candidate is not None and fails(candidate):
                case = candidate
    return case


def _kind(text: str) -> str:
    """The words of a message without its names and numbers."""
    return re.sub(r"v\d+_\d+|[\d.e+-]+", "", text.split("\n")[0])[:60]


def _without(case: Case, node) -> Case | None:
    """The case with the node's results as inputs; of an output, with what it read as outputs."""
    values = case.values
    outputs = {v.name for v in case.outputs}
    if outputs & set(node.output):
        kept = [v for v in case.outputs if v.name not in node.output]
        given: list[Value] = [values[n] for n in node.input if n in values and n not in outputs]
        made = {n for other in case.nodes for n in other.output}
        kept += [v for v in given if v.name in made]
        if not kept:
            return None
        return Case(case.nodes, case.inputs, case.weights, tuple(kept), values).pruned()
    fed = tuple(values[n] for n in node.output if n in values)
    nodes = tuple(other for other in case.nodes if other is not node)
    return Case(nodes, (*case.inputs, *fed), case.weights, case.outputs, values).pruned()
