"""Whether a model compiles to an artifact, runs with parts on the host, or is refused."""

from __future__ import annotations

import enum
import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Any

from mgx_mlir import advice
from mgx_mlir.advice import OpenDim
from mgx_mlir.artifact.record import Artifact
from mgx_mlir.artifact.target import Target
from mgx_mlir.compiler import (
    CompileOptions,
    OptionKeywords,
    compile_to_bytecode,
    import_arguments,
    options_for,
    with_keywords,
)
from mgx_mlir.errors import Edge, ModelError, OpenError, Unsupported, UnsupportedError, UsageError
from mgx_mlir.importer import examine, loading, structure
from mgx_mlir.importer.loading import AnySource, Source
from mgx_mlir.models.specialize import ANY_SIZES
from mgx_mlir.models.staged import Model
from mgx_mlir.models.staged.coverage import served_sizes, slow_nodes
from mgx_mlir.sizes.range import Given, Range

if TYPE_CHECKING:
    from typing_extensions import Unpack

# Trial sizes for dimensions that nobody gave a size; the first that the model accepts is used.
TRIAL_SIZES = (64, 8, 224, 1, 512)
# Elements of an input, at most: of volumes so large the compiler's own constants fill the memory.
MOST_TRIED = 1 << 25


class State(enum.Enum):
    """The outcome for a model."""

    ARTIFACT = "compiles to an artifact"
    ANY = "compiles to one program for any sizes"
    SIZES = "needs sizes to compile to an artifact"
    PARTS = "compiles to an artifact in parts, with nodes that the host runs"
    MODEL = "runs with mgx_mlir.Model and `mgx run`, and has no artifact"
    REFUSED = "is refused"


@dataclass(frozen=True)
class Check:
    """The result of compiling a model, or else of partitioning it.

    `targets` are those that an artifact can be finalized for: all but SPIR-V, which has no form
    of some kernels. `open_dims` are the inputs' dimensions without a size, `tried` the trial
    sizes used for them. `sizes` says which sizes the one program for any serves, `slow` are nodes
    that it computes by the generic path. `host` are nodes that the host runs, `late` nodes that
    wait for a run's sizes or values (`Model` compiles anew for these), `unsupported` those that
    nothing runs, with a reason for each; `reason` is that of the whole model.
    """

    name: str
    nodes: int
    state: State
    targets: tuple[str, ...] = ()
    open_dims: tuple[OpenDim, ...] = ()
    tried: Mapping[str, int] | None = None
    sizes: tuple[str, ...] = ()
    slow: tuple[Unsupported, ...] = ()
    host: tuple[Unsupported, ...] = ()
    late: tuple[Unsupported, ...] = ()
    unsupported: tuple[Unsupported, ...] = ()
    reason: str = ""

    def to_json(self) -> dict[str, Any]:
        """The result as JSON values. `state` is the name of the state in small letters."""
        lists = {
            "slow": self.slow,
            "host": self.host,
            "late": self.late,
            "unsupported": self.unsupported,
        }
        return {
            "name": self.name,
            "nodes": self.nodes,
            "state": self.state.name.lower(),
            "targets": list(self.targets),
            "open_dims": [asdict(dim) for dim in self.open_dims],
            "tried": dict(self.tried or {}),
            "sizes": list(self.sizes),
            "reason": self.reason,
            **{name: [asdict(entry) for entry in entries] for name, entries in lists.items()},
        }

    def __str__(self) -> str:
        parts = [f"{self.name}: {self.state.value}"]
        if self.targets:
            parts.append(f"targets: {', '.join(self.targets)}")
        if self.state is State.SIZES and self.open_dims:
            parts.append(f"{advice.sizes(self.open_dims)}; a run takes those of its inputs")
        if self.tried:
            listed = ", ".join(f"{name} = {size}" for name, size in self.tried.items())
            parts.append(f"looked at with {listed}")
        if self.sizes:
            parts += ["one program for:", *(f"  {one}" for one in self.sizes)]
        if self.state is State.ANY:
            parts.append(
                "mgx_mlir.Model and `mgx run` compile it once; an artifact is for all sizes "
                f"({advice.ALL_SIZES}), or for given ones"
            )
        parts += self._listed("slow in that program", self.slow)
        parts += self._listed("not supported", self.unsupported)
        parts += self._listed("on the host, between compiled parts", self.host)
        late = "compiled, or on the host, once a run shows the data"
        if self.state is State.SIZES:
            late = "for each combination of sizes Model compiles anew, as these need them"
        parts += self._listed(late, self.late)
        if self.reason and not (self.unsupported or self.host or self.late):
            parts.append(self.reason)
        return "\n".join(parts)

    def _listed(self, what: str, entries: Sequence[Unsupported]) -> list[str]:
        count = len({entry.node for entry in entries if entry.is_node})
        of = f" ({count} of {self.nodes} nodes)" if count else ""
        return [f"{what}{of}:", *(f"  {entry}" for entry in entries)] if entries else []


@Edge("checking the model")
def check(
    model: AnySource,
    options: CompileOptions | None = None,
    target: str | Target = "cpu",
    **keywords: Unpack[OptionKeywords],
) -> Check:
    """Compiles the model to its portable form; where that is refused, partitions it as Model does.

    Nothing is finalized and nothing runs. A model whose inputs have dimensions without a size
    is compiled for any, else with some of TRIAL_SIZES. The parts are those for `target`. Raises
    ModelError where the model is malformed, UsageError and CompilerError.
    """
    options = with_keywords(options, keywords, "target") or CompileOptions()
    source = loading.load(model)
    nodes = sum(1 for _ in structure.all_nodes(source.model.graph))
    found = Check(source.name, nodes, State.REFUSED)
    imported = None
    try:
        graph, imported = examine(source, **import_arguments(options))
        found = replace(found, nodes=imported.nodes)
        if graph is None:
            raise imported.error()
        artifact = compile_to_bytecode(graph, options_for(options, target))
        served, slow = _covered(artifact, source, target)
        return replace(found, state=State.ARTIFACT, targets=_targets(), sizes=served, slow=slow)
    except UnsupportedError as error:
        refused = error
    if imported is None:  # it could not even be prepared
        state = State.SIZES if isinstance(refused, OpenError) else State.REFUSED
        return replace(found, state=state, reason=str(refused))
    if not imported.open_dims:
        return _parted(found, source, options, target, refused)
    found = replace(found, open_dims=imported.open_dims)
    try:
        any_sizes = replace(options_for(options, target), mode=ANY_SIZES)
        served, slow = _covered(compile_to_bytecode(source, any_sizes), source, target)
        return replace(found, state=State.ANY, targets=_targets(), sizes=served, slow=slow)
    except UnsupportedError as error:
        if error.entries:
            refused = error
    except (ModelError, UsageError):
        pass  # trial sizes show it
    for size in TRIAL_SIZES:
        tried = {d.symbol: _within(d, size) for d in imported.open_dims}
        if _elements(imported.open_dims, tried) > MOST_TRIED:
            continue
        sized = _with_sizes(options, imported.open_dims, tried)
        try:
            compile_to_bytecode(source, options_for(sized, target))
        except UnsupportedError as error:
            return _parted(replace(found, tried=tried), source, sized, target, error)
        except (ModelError, UsageError):
            continue
        return replace(found, state=State.SIZES, tried=tried, late=refused.entries)
    return _parted(found, source, options, target, refused)


def refusal(
    error: UnsupportedError,
    model: Any,
    options: CompileOptions | None = None,
    target: str | Target = "cpu",
) -> UnsupportedError:
    """The error of a compilation, with the way that the model runs nevertheless, if any."""
    if isinstance(error, OpenError) and not error.nodes:  # it asks for sizes
        return error
    try:
        found = check(model, options, target)
    except (ModelError, UsageError):
        return error
    if found.state not in (State.PARTS, State.MODEL):
        return error
    count = len(found.host)
    nodes = f", {count} of {found.nodes} nodes on the host" if count else ""
    artifact = "; `mgx compile` makes an artifact in parts" if found.state is State.PARTS else ""
    return type(error)(
        f"{error}\nmgx_mlir.Model and `mgx run` run the model as it is{nodes}{artifact}; "
        "`mgx check` lists why",
        error.nodes,
        error.entries,
    )


def _parted(
    found: Check,
    source: Source,
    options: CompileOptions,
    target: str | Target,
    refused: UnsupportedError,
) -> Check:
    found = replace(found, reason=str(refused))
    try:
        graph = Model(source, target, options).staged()
        survey = graph.survey()
    except UnsupportedError as error:
        return replace(found, unsupported=error.entries or refused.entries, reason=str(error))
    except ModelError:
        if not refused.entries:
            raise
        return replace(found, unsupported=refused.entries)  # onnx may not know them either
    runs = State.PARTS if graph.host_nodes else State.MODEL
    return replace(
        found,
        state=State.REFUSED if survey.lacking else runs,
        targets=() if survey.lacking or runs is State.MODEL else _targets(),
        host=tuple(survey.host),
        late=tuple(entry for _, entry in sorted(survey.late.items())),
        unsupported=tuple(survey.lacking),
    )


def _covered(
    artifact: Artifact, source: Source, target: str | Target
) -> tuple[tuple[str, ...], tuple[Unsupported, ...]]:
    """The sizes that a program for any serves, and its slow nodes."""
    if not artifact.plan.dims:
        return (), ()
    slow = slow_nodes(artifact, source.model, target)
    return served_sizes(artifact.plan), tuple(slow)


def _targets() -> tuple[str, ...]:
    return tuple(name for name in Target.names() if Target.get(name).kind != "spirv")


def _within(dim: OpenDim, size: int) -> int:
    return max(dim.low, min(size, dim.high or size))


def _elements(dims: Sequence[OpenDim], tried: Mapping[str, int]) -> int:
    """The elements of the largest input that has open dimensions, by the sizes tried."""
    return max(
        math.prod(tried.get(n, 1) if isinstance(n, str) else n for n in dim.shape) for dim in dims
    )


def _with_sizes(
    options: CompileOptions, dims: Sequence[OpenDim], tried: Mapping[str, int]
) -> CompileOptions:
    """The options with a size for each dimension; a size replaces a range."""
    places = {(d.input, d.place): tried[d.symbol] for d in dims}
    given: dict[str, Sequence[int | Range]] = {
        name: [places.get((name, place), size) for place, size in enumerate(sizes)]
        for name, sizes in options.input_dims.items()
    }
    symbols: dict[str, Given] = {**options.dim_params, **tried}
    return replace(options, mode="default", input_dims=given, dim_params=symbols)
