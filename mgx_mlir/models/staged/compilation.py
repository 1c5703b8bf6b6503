"""How the islands of a staged graph become programs: when they run, or before, for an artifact."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from mgx_mlir.artifact.parts import Part
from mgx_mlir.artifact.plan import Plan
from mgx_mlir.artifact.plan_binding import sizes_of
from mgx_mlir.artifact.record import Artifact
from mgx_mlir.artifact.target import Target, kind_of
from mgx_mlir.compiler import CompileOptions, Report, compile_to_bytecode, options_for
from mgx_mlir.errors import UnsupportedError, UsageError
from mgx_mlir.importer.loading import Source
from mgx_mlir.loader import compile
from mgx_mlir.models.specialize import ANY_SIZES, SpecializedModel
from mgx_mlir.models.staged.open_types import data_decided, is_open

if TYPE_CHECKING:
    from mgx_mlir.runtime.program import Program

# Programs that an island keeps: more than a model keeps, as loops change sizes at each trip.
_PROGRAMS = 64


@dataclass
class Record:
    """The islands compiled for an artifact, and the steps of each graph once it is surveyed.

    `artifacts` and `reasons` are by the place of a graph and the nodes of an island. `read` are the
    values that the host reads, or an island that is not compiled.
    """

    version: tuple[int, int] | None = None
    report: Report | None = None
    artifacts: dict[tuple[str, tuple[int, ...]], Artifact] = field(default_factory=dict)
    reasons: dict[tuple[str, tuple[int, ...]], str] = field(default_factory=dict)
    graphs: dict[str, tuple[Part, ...]] = field(default_factory=dict)
    read: set[str] = field(default_factory=set)


class StoredPrograms:
    """The programs of an artifact's segments, loaded when they are first met."""

    def __init__(self, artifact: Artifact, target: str | Target, arguments: Mapping[str, Any]):
        """The artifact has code for the target that may run."""
        assert artifact.parts is not None
        self.parts = artifact.parts
        self._artifact = artifact
        self._target = target
        self._arguments = arguments
        self._plans = {
            (place, part.nodes): part.plans
            for place, steps in self.parts.graphs.items()
            for part in steps
            if not part.on_host
        }
        self._programs: dict[int, Program] = {}
        self._lock = threading.Lock()

    def find(
        self, place: str, nodes: tuple[int, ...], arrays: Mapping[str, np.ndarray]
    ) -> Program | None:
        """The program of an island for inputs of these sizes, if the artifact has one."""
        for plan in self._plans.get((place, nodes), ()):
            if _fits(plan, arrays):
                with self._lock:
                    if id(plan) not in self._programs:
                        found = compile(
                            self._artifact.segment(plan), self._target, **self._arguments
                        )
                        self._programs[id(plan)] = found
                    return self._programs[id(plan)]
        return None


def _fits(plan: Plan, arrays: Mapping[str, np.ndarray]) -> bool:
    """Whether a plan is for inputs of these types and sizes."""
    specs = plan.inputs
    if any(s.name not in arrays or arrays[s.name].dtype.name != s.dtype for s in specs):
        return False
    if not plan.dims:
        return all(arrays[s.name].shape == s.shape for s in specs)
    try:
        sizes_of(plan, {s.name: arrays[s.name].shape for s in specs})
    except UsageError:
        return False
    return True


@dataclass(frozen=True)
class Compilation:
    """How islands are compiled: the arguments of SpecializedModel.

    `stored` are programs that an artifact has, `record` takes those that it is to have.
    `any_after` and `warm` are those of islands.
    """

    target: Any
    options: CompileOptions
    arguments: Mapping[str, Any]
    stored: StoredPrograms | None = None
    record: Record | None = None
    any_after: int | None = 0
    warm: int | None = None

    @property
    def on_gpu(self) -> bool:
        """Whether programs run on a GPU."""
        return kind_of(self.target) != "cpu"

    @property
    def splits(self) -> bool:
        """Whether all nodes whose data decide sizes are split: an artifact's are, for all targets.

        For a CPU only some are (see bounded).
        """
        return self.on_gpu or self.stored is not None or self.record is not None

    @property
    def island_options(self) -> CompileOptions:
        """The options of islands, without those about the model's inputs."""
        return replace(self.options, input_dims={}, dim_params={}, default_dim=None)

    def model(self, source: Source) -> SpecializedModel:
        """The model of an island. Sizes that the data decide get no programs of their own."""
        decided = data_decided(source)
        return SpecializedModel(
            source,
            self.target,
            self.island_options,
            limit=_PROGRAMS,
            any_after=self.any_after if is_open(source) else None,
            warm=None if decided else self.warm,
            ranges=decided,
            **self.arguments,
        )

    def try_static(self, place: str, nodes: tuple[int, ...], source: Source) -> None:
        """Compiles an island of known sizes. Raises UnsupportedError where it does not compile."""
        options = replace(self.island_options, mode="default")
        if self.record is None:
            compile_to_bytecode(source, options_for(options, self.target))
            return
        self._keep(self.record, (place, nodes), source, options)

    def try_any(self, place: str, nodes: tuple[int, ...], source: Source) -> None:
        """Compiles an island for any sizes, for an artifact; notes why where it cannot be."""
        if self.record is not None:
            options = replace(self.island_options, mode=ANY_SIZES, dim_params=data_decided(source))
            try:
                self._keep(self.record, (place, nodes), source, options)
            except UnsupportedError as error:
                self.record.reasons[place, nodes] = str(error)

    def _keep(
        self, record: Record, key: tuple[str, tuple[int, ...]], source: Source, options: Any
    ) -> None:
        record.artifacts[key] = compile_to_bytecode(
            source, options, version=record.version, report=record.report
        )
