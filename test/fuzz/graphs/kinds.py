"""The kinds of nodes, and of small groups of nodes, that graphs grow by."""

from __future__ import annotations

from collections.abc import Callable

from test.fuzz.graphs.graph import Graph

KINDS: dict[str, tuple[float, Callable[[Graph], object]]] = {}


def kind(weight: float = 1.0) -> Callable[[Callable[[Graph], object]], Callable[[Graph], object]]:
    """Registers a function that adds nodes to a graph; `weight` is how often, beside others."""

    def register(function: Callable[[Graph], object]) -> Callable[[Graph], object]:
        KINDS[function.__name__] = (weight, function)
        return function

    return register
