"""Tuning a model, or an artifact, for a chip."""

from __future__ import annotations

from concurrent.futures import Executor
from typing import TYPE_CHECKING

from mgx_mlir.artifact.record import Artifact
from mgx_mlir.artifact.target import Target
from mgx_mlir.errors import Edge
from mgx_mlir.loader import opened
from mgx_mlir.models.compile import compile_to_bytecode
from mgx_mlir.settings import Settings
from mgx_mlir.tuning.search import Effort
from mgx_mlir.tuning.tune import Progress, Told, tune_artifact

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from mgx_mlir.compiler import AnyModel, CompileOptions, OptionKeywords


@Edge("tuning")
def tune(
    model: AnyModel | Artifact,
    target: str | Target = "gpu",
    options: CompileOptions | None = None,
    *,
    effort: Effort | None = None,
    kernels: str = "",
    settings: Settings | None = None,
    executor: Executor | None = None,
    scheduler: str = "",
    progress: Progress = lambda text, done, total: None,
    told: Told = lambda work, record, known: None,
    **keywords: Unpack[OptionKeywords],
) -> Artifact:
    """The artifact of a model, or the one given, with the schedules that won on a chip.

    `target` is a chip such as 'gfx942', or 'gpu' for that of device 0. The user's database gets the
    results too, problem by problem; `effort` says how much is tried, `kernels` a regular expression
    which problems, `executor` where candidates are finalized, `scheduler` the address of a farm.
    `told` is called with each problem, its record, and whether the database had it. Raises what
    `compile_to_bytecode` raises, TargetError where there is no such device, DeviceError and
    UsageError.
    """
    artifact = opened(model)
    if not isinstance(artifact, Artifact):
        artifact = compile_to_bytecode(model, options, **keywords)
    return tune_artifact(
        artifact,
        target,
        effort,
        kernels=kernels,
        settings=settings,
        executor=executor,
        scheduler=scheduler,
        progress=progress,
        told=told,
    )
