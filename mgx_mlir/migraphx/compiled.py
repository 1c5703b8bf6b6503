"""A program of MIGraphX's interface, compiled: for a machine, or to be walked by numpy."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from mgx_mlir.artifact.record import Artifact
from mgx_mlir.artifact.target import kind_of
from mgx_mlir.compiler import CompileOptions, compile_to_bytecode, options_for
from mgx_mlir.errors import UnsupportedError, UsageError
from mgx_mlir.loader import compile as load
from mgx_mlir.loader import finalize, hip_device
from mgx_mlir.migraphx.argument import argument, as_argument, is_on_device
from mgx_mlir.migraphx.walked import WalkedModel, walk
from mgx_mlir.models.staged import Model
from mgx_mlir.models.staged.stored import read_source
from mgx_mlir.models.tune import tune
from mgx_mlir.rewriting.graph import Graph, value_names
from mgx_mlir.rewriting.queries import yielded
from mgx_mlir.settings import Settings
from mgx_mlir.tuning.search import Effort

# Inputs that programs get for their outputs where memory is the caller's.
OUTPUT = "main:#output_"


@dataclass(frozen=True)
class Compiled:
    """`execute` gets the inputs and the caller's outputs by name, and what else a run takes.

    `target` is the machine's, as `get_target` names it. `copies`: inputs and outputs are the
    host's, and copied. `in_parts`: the host computes some.
    """

    execute: Callable[..., Mapping[str, Any]]
    outputs: tuple[str, ...]
    target: str
    copies: bool = True
    in_parts: bool = False
    artifact: Artifact | None = None

    @staticmethod
    def of(graph: Graph, target: str, copies: bool, exact: bool, exhaustive: bool) -> Compiled:
        """The graph for a target; exhaustive: its schedules for a GPU are timed first. Raises what
        `mgx_mlir.compile` raises."""
        if target == "ref":
            with graph.module.context:
                count = len(yielded(graph.main.regions[0].blocks[0]))
                outputs = tuple(value_names(graph.main, "res_attrs", count))
                return Compiled(walk(graph), outputs, target)
        mode = "full-dynamic" if graph.open_dims() else "default"
        options = CompileOptions(mode=mode, exact=exact)
        artifact = compile_to_bytecode(graph, options_for(options, kind_of(target)))
        if exhaustive and kind_of(target) != "cpu":
            artifact = tune(artifact, target, effort=Effort(exhaustive=True))
        return Compiled.loaded(artifact, target, copies)

    @staticmethod
    def loaded(artifact: Artifact, target: str, copies: bool) -> Compiled:
        """An artifact for a target, with the code for it. Raises UnsupportedError for 'ref', which
        runs models in parts alone."""
        if target == "ref":
            if artifact.parts is None:
                raise UnsupportedError("the target 'ref' runs no program that is compiled already")
            walked = WalkedModel(*read_source(artifact))
            return Compiled(walked.run, walked.outputs, target, in_parts=True, artifact=artifact)
        settings = Settings.from_environment()
        chip = hip_device(target, settings).chip if target == "gpu" else target
        artifact = finalize(artifact, chip)
        if artifact.parts is not None:
            model = Model(artifact, target)
            return Compiled(model.run, model.outputs, target, in_parts=True, artifact=artifact)
        made = load(artifact, target)
        outputs = tuple(spec.name for spec in made.outputs)
        copies = copies or kind_of(target) == "cpu"
        return Compiled(made.run, outputs, target, copies, artifact=artifact)

    @property
    def is_gpu(self) -> bool:
        """Whether kernels run on a GPU."""
        return self.target != "ref" and kind_of(self.target) != "cpu"

    def run(self, params: Mapping[str, Any], stream: int | None = None) -> list[argument]:
        """The outputs, in order; with a stream they stay on the device.

        Parts run after the stream's work so far, and are done at the end: they are the host's.
        """
        if not isinstance(params, Mapping):
            kind = type(params).__name__
            raise UsageError(f"a program runs with a dict of inputs by name; {kind} is given")
        given = {
            name: value if self.is_gpu and is_on_device(value) else as_argument(value).value()
            for name, value in params.items()
        }
        own = {
            self.outputs[int(name.removeprefix(OUTPUT))]: given.pop(name)
            for name in list(given)
            if name.startswith(OUTPUT)
        }
        arguments: dict[str, Any] = {"outputs": own} if own else {}
        if stream is not None and not self.is_gpu:
            raise UsageError("run_async wants a program that was compiled for a GPU")
        if self.in_parts:
            if stream is not None:
                _wait_for(stream)
            given = {name: as_argument(value).numpy() for name, value in params.items()}
        elif self.is_gpu and (stream is not None or not self.copies):
            arguments["results"] = "device"
        if stream is not None and not self.in_parts:
            arguments["stream"] = stream
        found = self.execute(given, **arguments)
        return [argument(found[name]) for name in self.outputs]


def _wait_for(stream: int) -> None:
    from mgx_mlir.runtime.hip.library import call  # needs hip-python

    call("hipStreamSynchronize", stream)
