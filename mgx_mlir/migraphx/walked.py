"""The target 'ref' for models that the host computes parts of: numpy computes the others."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import SimpleNamespace
from typing import Any

import numpy as np

from mgx_mlir.compiler import CompileOptions, import_model
from mgx_mlir.models.specialize import SpecializedModel
from mgx_mlir.models.staged import Model
from mgx_mlir.models.staged.compilation import Compilation
from mgx_mlir.passes.narrow_floats import NarrowFloats
from mgx_mlir.pipelines.runner import run_pipeline
from mgx_mlir.reference import evaluate
from mgx_mlir.rewriting.graph import Graph, value_names
from mgx_mlir.rewriting.pass_base import PassContext
from mgx_mlir.rewriting.queries import yielded


def walk(graph: Graph) -> Callable[..., Mapping[str, Any]]:
    """A function of inputs, and of arrays to write to, that gives the graph's outputs by name."""
    weights = {key: weight.array() for key, weight in graph.weights.items()}

    def run(inputs: Mapping[str, Any], outputs: Mapping[str, Any] | None = None) -> Any:
        with graph.module.context:
            found = evaluate(graph.module, weights, inputs)
        for name, array in (outputs or {}).items():
            np.copyto(array, found[name])
        return found

    return run


class WalkedModel(Model):
    """A model whose programs numpy walks."""

    def __init__(self, source: Any, options: CompileOptions) -> None:
        super().__init__(source, "cpu", options, any_after=None, warm=None)
        self._compilation = _Compilation("cpu", self._options, {}, any_after=None)
        self._whole = _Sizes(self._source, "cpu", self._options)


class _Compilation(Compilation):
    def model(self, source: Any) -> SpecializedModel:
        return _Sizes(source, self.target, self.island_options)


class _Sizes(SpecializedModel):
    """A model that is imported for sizes, where others are compiled."""

    def _made(self, options: CompileOptions) -> Any:
        graph = import_model(self._model, options)
        if options.floats != "f32":
            narrow = NarrowFloats(to=options.floats)
            run_pipeline(graph.module, [narrow], PassContext(weights=graph.weights))
        return graph

    def _beyond(self, made: Any, inputs: Mapping[str, Any]) -> str:
        return ""  # numpy has no limits

    def _load(self, artifact: Any, trust_code: bool = False) -> Any:
        block = artifact.main.regions[0].blocks[0]
        sides = (("inputs", "arg_attrs", block.arguments), ("outputs", "res_attrs", yielded(block)))
        names = {
            side: tuple(SimpleNamespace(name=n) for n in value_names(artifact.main, key, len(vals)))
            for side, key, vals in sides
        }
        return SimpleNamespace(run=walk(artifact), **names)
