"""The sizes that get a program of their own: clones of a graph with these sizes bound."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator

from mlir import ir

from mgx_mlir.errors import UsageError
from mgx_mlir.passes.bind_dims import BindDims
from mgx_mlir.passes.simplify_dyn_ops import SimplifyDynOps
from mgx_mlir.pipelines.runner import run_pipeline
from mgx_mlir.rewriting.graph import Graph
from mgx_mlir.rewriting.pass_base import PassContext
from mgx_mlir.rewriting.symbolic import named_symbols

# Each combination of optimal sizes is a whole program to compile.
MOST = 64


def optimal_sizes(graph: Graph) -> list[dict[str, int]]:
    """Every combination of the optimal sizes of the inputs' symbols; empty where none are given.

    Raises UsageError where only some symbols have optimal sizes, or the combinations are many.
    """
    with graph.module.context:
        block = graph.main.operation.regions[0].blocks[0]
        found = named_symbols(argument.type for argument in block.arguments)
    symbols = [s for s in found.values() if s.low != s.high]
    if not any(symbol.optimals for symbol in symbols):
        return []
    for symbol in symbols:
        if not symbol.optimals:
            raise UsageError(
                f"'{symbol.name}' has no optimal sizes and others have: a program of its own "
                "needs a size for each"
            )
    count = math.prod(len(symbol.optimals) for symbol in symbols)
    if count > MOST:
        raise UsageError(f"the optimal sizes have {count} combinations; at most {MOST} compile")
    chosen = itertools.product(*(symbol.optimals for symbol in symbols))
    return [{s.name: n for s, n in zip(symbols, sizes, strict=True)} for sizes in chosen]


def bound_graphs(graph: Graph) -> Iterator[tuple[dict[str, int], Graph]]:
    """For each combination of optimal sizes, the graph with these; weights are shared."""
    for sizes in optimal_sizes(graph):
        with graph.module.context, ir.Location.unknown():
            module = ir.Module.create()
            for op in graph.module.body.operations:
                op.operation.clone(ip=ir.InsertionPoint(module.body))
        bind = BindDims(tuple(f"{name}:{size}" for name, size in sizes.items()))
        run_pipeline(module, (SimplifyDynOps(), bind), PassContext(weights=graph.weights))
        yield sizes, Graph(module, graph.weights, graph.name)
