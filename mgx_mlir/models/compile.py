"""Compiling a model to a program; a model that only `Model` runs is refused with that advice."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from mgx_mlir import loader
from mgx_mlir.artifact.record import Artifact
from mgx_mlir.artifact.target import Target
from mgx_mlir.errors import Edge, UnsupportedError
from mgx_mlir.runtime.program import Program
from mgx_mlir.settings import Settings

if TYPE_CHECKING:
    from mgx_mlir.compiler import CompileOptions


@Edge("compiling")
def compile(
    model: Any,
    target: str | Target = "cpu",
    options: CompileOptions | None = None,
    *,
    settings: Settings | None = None,
    progress: loader.Progress | None = None,
    device: int | None = None,
    graph: bool = True,
    trust_code: bool = False,
) -> Program:
    try:
        return loader.compile(
            model,
            target,
            options,
            settings=settings,
            progress=progress,
            device=device,
            graph=graph,
            trust_code=trust_code,
        )
    except UnsupportedError as error:
        if isinstance(model, Artifact):
            raise
        from mgx_mlir.models.staged.check import refusal  # needs the compiler

        raise refusal(error, model, options, target) from error


compile.__doc__ = loader.compile.__doc__
