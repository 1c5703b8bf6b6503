"""This compiler inside PyTorch: a backend of torch.compile.

    model = torch.compile(model, backend="mgx", options={"precision": "f16"})
    with torch.no_grad():
        model(x)                                   # the first call compiles
    print(mgx_mlir.torch.explain(model, x))        # what became of each graph, and why

Graphs go through ONNX in memory. Weights stay the model's own tensors. What cannot be exported or
compiled, trains, or draws random numbers runs eagerly, and a warning says once why.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any

import torch

from mgx_mlir.torch.graph import CompiledGraph, Story
from mgx_mlir.torch.options import Options

__all__ = ["Explanation", "Options", "Story", "backend", "explain"]

# Where graphs are noted while `explain` runs a model.
_noted: ContextVar[list[CompiledGraph] | None] = ContextVar("_noted", default=None)


def backend(
    gm: Any,
    example_inputs: Sequence[Any],
    *,
    mode: str | None = None,
    options: Mapping[str, Any] | None = None,
) -> Any:
    """What torch.compile calls for each graph; `options` are the fields of Options, by name.

    Raises UsageError for options that there are not.
    """
    graph = CompiledGraph(gm, example_inputs, Options.of(options, mode))
    noted = _noted.get()
    if noted is not None:
        noted.append(graph)
    return graph.__call__


@dataclass(frozen=True)
class Explanation:
    """The graphs of a model, and why Dynamo parted it: `breaks`, with how often each."""

    graphs: tuple[Story, ...]
    breaks: Mapping[str, int]

    def __str__(self) -> str:
        lines = [f"graph {n}: {story}" for n, story in enumerate(self.graphs)]
        lines += [f"parted {count} times: {why}" for why, count in self.breaks.items()]
        return "\n".join(lines) or "no graph: nothing in it computes with tensors"


def explain(model: Any, *args: Any, mgx_options: Mapping[str, Any] | None = None,
            **keywords: Any) -> Explanation:  # fmt: skip
    """Compiles a function or module, calls it once without gradients, and says what happened.

    `mgx_options` are those of the backend; all else is given to the model.
    """
    from torch._dynamo.utils import counters

    noted: list[CompiledGraph] = []
    before = _breaks(counters)

    def noting(gm: Any, example_inputs: Sequence[Any]) -> Any:
        return backend(gm, example_inputs, options=mgx_options)

    original = getattr(model, "_torchdynamo_orig_callable", None) or getattr(
        model, "_orig_mod", model
    )
    token = _noted.set(noted)
    try:
        with torch.no_grad():
            torch.compile(original, backend=noting)(*args, **keywords)
    finally:
        _noted.reset(token)
    return Explanation(tuple(g.story for g in noted), dict(_breaks(counters) - before))


def _breaks(counters: Mapping[str, Mapping[str, int]]) -> Counter[str]:
    """Why Dynamo parted graphs so far: the first line of each reason, and the user's line."""
    found: Counter[str] = Counter()
    for kind in ("graph_break", "unimplemented"):
        for said, count in counters[kind].items():
            lines = [line.strip(" #") for line in said.splitlines()]
            places = [line for line in lines if line.startswith("File ")]
            found[" at ".join([*lines[:1], *places[:1]])] += count
    return found
