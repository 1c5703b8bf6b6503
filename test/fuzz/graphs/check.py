"""Makes a random graph, and compares what a target computes with what the graph recorded."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Any

import numpy as np

import mgx_mlir
from mgx_mlir.compiler import CompileOptions
from mgx_mlir.errors import UserError
from mgx_mlir.settings import Settings
from test.fuzz.graphs import elements, movement, products, quantized, rows, windows
from test.fuzz.graphs.graph import Case, Graph, UnsoundError
from test.fuzz.graphs.kinds import KINDS

__all__ = [
    "elements",
    "movement",
    "problem",
    "products",
    "quantized",
    "random_case",
    "rows",
    "windows",
]


def random_case(
    seed: int, only: str = "", first: Sequence[str] = (), dtype: np.dtype[Any] | None = None
) -> Case:
    """The graph of a seed: 1 to 25 nodes, or a few more.

    first: kinds, one of which it begins with. dtype: of its floats; None for any.
    """
    rng = random.Random(seed)
    graph = Graph(rng)
    graph.float = dtype or graph.float
    wanted = rng.choice((1, 2, 3, 5, 8, 12, 20, 25))
    names = [n for n in KINDS if not only or n in only.split(",")]
    weights = [KINDS[n][0] for n in names]
    for _ in range(4 * wanted):
        before = len(graph.nodes)
        name = rng.choice(first) if first and not graph.nodes else rng.choices(names, weights)[0]
        try:
            KINDS[name][1](graph)
        except UnsoundError:
            graph.undo(before)
        if len(graph.nodes) >= wanted:
            break
    if not graph.nodes:
        return random_case(seed + (1 << 40), only, first, dtype)
    return Case.of(graph)


def problem(
    case: Case, target: str, settings: Settings, mode: str = "default", persistent: bool = False
) -> str:
    """The difference of a target's results; "" where there is none. Raises as compiling does."""
    options, is_open = CompileOptions(mode=mode, persistent=persistent), mode == "full-dynamic"
    try:
        program = mgx_mlir.compile(case.model(is_open), target, options, settings=settings)
        found = program.run(case.feeds())
    except UserError as error:
        if is_open:  # refused: the program, or these sizes, of which it asks more
            return ""
        raise error
    for value in case.outputs:
        got = np.asarray(found[value.name])
        if got.shape != value.shape or got.dtype != value.dtype:
            wanted = f"{value.dtype}{list(value.shape)}"
            return f"{value.name} is {got.dtype}{list(got.shape)}, not {wanted}"
        if not got.size:
            continue
        if not value.is_float:
            if not np.array_equal(got, value.exact):
                wrong = int((got != value.exact).sum())
                return f"{value.name}: {wrong} of {got.size} integers differ"
            continue
        error = np.abs(got.astype(np.float64) - value.exact)
        bad = ~(error <= value.tolerance())  # NaN too
        if bad.any():
            worst = float(np.nanmax(error)) if not np.isnan(error).all() else float("nan")
            most = np.abs(value.exact).max()
            return (
                f"{value.name}: {int(bad.sum())} of {got.size} elements differ, by {worst:.3g} at "
                f"most; rounding explains {value.tolerance():.3g} of {most:.3g}"
            )
    return ""
