"""From an artifact to a program that runs: open, finalize for a missing target, load.

A program with code objects starts without a compiler: without MLIR, LLVM and ONNX, which the
distribution `mgx-mlir-runtime` does not have.
"""

from __future__ import annotations

import importlib.util
import logging
import os
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mgx_mlir.artifact.contents import code_hash
from mgx_mlir.artifact.record import Artifact
from mgx_mlir.artifact.schedule import Tuned
from mgx_mlir.artifact.target import Target, check_executable, executable_levels
from mgx_mlir.artifact.writer import is_artifact
from mgx_mlir.errors import Edge, TargetError, UsageError, UserError
from mgx_mlir.runtime.program import Program
from mgx_mlir.runtime.sized import SizedProgram
from mgx_mlir.settings import Settings
from mgx_mlir.trust import Trust, admitted, note_made, unvouched

if TYPE_CHECKING:
    from mgx_mlir.compiler import CompileOptions, Report
    from mgx_mlir.finalizer.cache import Cache
    from mgx_mlir.finalizer.server import Server
    from mgx_mlir.runtime.hip.device import Device

_log = logging.getLogger(__name__)

# Graphs of fewer ops have few kernels: workers are not started before there is work.
_MANY_OPS = 24

# (the work under way, how many are done, of how many)
Progress = Callable[[str, int, int], None]


def kernel_cache(settings: Settings) -> Cache | None:
    """The cache of code objects that the settings name; None for none."""
    if settings.cache_dir is None:
        return None
    from mgx_mlir.finalizer.cache import Cache  # no part of mgx-mlir-runtime

    return Cache(
        settings.cache_dir, settings.cache_bytes, settings.cache_shared, Trust.of(settings)
    )


@Edge("finalizing")
def finalize(
    artifact: Artifact | str | os.PathLike[str],
    arch: str | Target | Sequence[str | Target],
    *,
    settings: Settings | None = None,
    progress: Progress | None = None,
    report: Report | None = None,
    server: Server | None = None,
    cache: Cache | None = None,
) -> Artifact:
    """The artifact, or that of a file, with code objects for the given chips beside those it has.

    Kernels are finalized in parallel and taken from the cache where it has them. Code that nothing
    vouches for (docs/trust.md) is made again. `server` is that of `started`, `cache` by default the
    one of the settings. Raises
    TargetError for an unknown chip, CompilerError naming a kernel and its nodes, UserError without
    a compiler.
    """
    settings = settings or Settings.from_environment()
    names = [arch] if isinstance(arch, str | Target) else list(arch)
    targets = [name if isinstance(name, Target) else Target.get(name) for name in names]
    artifact = _expect_artifact(opened(artifact))
    usable = _usable(artifact, settings)
    missing = [t for t in targets if not usable.has_code_objects(t)]
    result = artifact.with_code_objects(usable.code_objects)
    if not missing:
        return result
    if not _has_compiler():
        raise _no_compiler(artifact, missing)
    from mgx_mlir.finalizer import Workers, finalize_all  # no part of mgx-mlir-runtime

    tuned = schedules_for(artifact, missing, settings)
    cache = cache or kernel_cache(settings)
    started = time.perf_counter()
    found = finalize_all(
        artifact.kernels,
        missing,
        Workers(settings.jobs, server=server),
        cache=cache,
        progress=progress,
        times=None if report is None else report.kernels,
        tuned=tuned,
    )
    if artifact.options.get("persistent"):
        from mgx_mlir.finalizer.residents import residents_for  # no part of mgx-mlir-runtime

        for target in missing:
            code = found[target.identity]
            code += residents_for(artifact, target, code, tuned.get(target.identity, {}), cache)
    if report is not None:
        report.stages.append(("finalize", time.perf_counter() - started))
    for identity, code in found.items():
        # Else it may come from a cache whose entries nothing vouches for.
        if cache is not None and cache.trust.needs_voucher(identity):
            note_made(cache.folder, code_hash(code))
    return replace(result.with_code_objects(found), schedules=_by_kernel(artifact, tuned))


@contextmanager
def started(targets: Sequence[Target], settings: Settings) -> Iterator[Server | None]:
    """The process that workers are forked from, started before there is work: it imports the
    code generators beside the work of this process. None where no workers will be."""
    if not targets or settings.jobs <= 1 or not _has_compiler():
        yield None
        return
    from mgx_mlir.finalizer import server_for  # no part of mgx-mlir-runtime

    with server_for(targets) as server:
        yield server


def schedules_for(
    artifact: Artifact, targets: Sequence[Target], settings: Settings
) -> dict[str, dict[str, Tuned]]:
    """The tuned schedules of an artifact's kernels, by the target's identity and the kernel's
    hash: those that it carries for a target, else those of the databases."""
    carried = {
        identity: {
            kernel.sha256: one
            for kernel, one in zip(artifact.kernels, found, strict=True)
            if one is not None
        }
        for identity, found in artifact.schedules.items()
    }
    missing = [t for t in targets if t.kind == "gpu" and t.identity not in carried]
    if not missing or not settings.tuning:
        return carried
    from mgx_mlir.tuning.lookup import tuned_schedules  # no part of mgx-mlir-runtime

    return carried | tuned_schedules(artifact.kernels, missing, settings)


def _by_kernel(
    artifact: Artifact, tuned: Mapping[str, Mapping[str, Tuned]]
) -> dict[str, tuple[Tuned | None, ...]]:
    return {
        identity: tuple(found.get(kernel.sha256) for kernel in artifact.kernels)
        for identity, found in sorted(tuned.items())
    }


def _usable(artifact: Artifact, settings: Settings) -> Artifact:
    """The artifact with the code objects alone that may run."""
    return admitted(artifact, Trust.of(settings), settings.cache_dir)


def _has_compiler() -> bool:
    return importlib.util.find_spec("mgx_mlir.finalizer") is not None


def _no_compiler(artifact: Artifact, missing: Sequence[Target]) -> UserError:
    for target in missing:
        if artifact.runs_on(target):
            return unvouched(artifact.name, target.name)
    arch = ",".join(target.name for target in missing)
    if any(target.kind == "cpu" for target in missing):
        levels = ", ".join(level.name for level in executable_levels())
        arch = f"TARGET (CPUs that this machine is: {levels})"
    return TargetError(
        f"the artifact has no code for {', '.join(t.name for t in missing)}, and "
        "mgx-mlir-runtime has no compiler; add it where mgx-mlir is installed: "
        f"mgx finalize FILE --arch {arch}"
    )


@Edge("compiling")
def compile(
    model: Any,
    target: str | Target = "cpu",
    options: CompileOptions | None = None,
    *,
    settings: Settings | None = None,
    progress: Progress | None = None,
    device: int | None = None,
    graph: bool = True,
    trust_code: bool = False,
) -> Program:
    """Compiles a model, or an artifact, to a program that runs on `target`.

    `target` is 'cpu', a level of CPUs such as 'x86-64-v3', a chip such as 'gfx942', or 'gpu' for
    the chip of `device` (default 0). For 'cpu' an artifact's code for this machine is taken,
    else that of the best level that this machine runs.
    A chip's program runs on `device`, by default on the first device that is such a chip; with
    `graph` it is replayed as a HIP graph. An artifact's own code objects are used, those for
    the chip before those of its generic processor; without either it is finalized. Machine code
    of a file runs where this machine made it, a trusted key signed it, or `trust_code` consents;
    else it is made again (docs/trust.md). Raises what `compile_to_bytecode` and `finalize` raise,
    TargetError where there is no such device, and DeviceError.
    """
    carried = _carried(settings)
    settings = settings or Settings.from_environment()
    if trust_code:
        settings = replace(settings, trust_code=True)
    model = opened(model)
    if isinstance(model, Artifact) and options is not None:
        raise no_options(model)
    if isinstance(model, Artifact):
        _check_whole(model)
    if target != "gpu" and not isinstance(target, Target):
        target = Target.get(target)
    if isinstance(target, Target) and target.kind == "cpu":
        if device is not None:
            raise UsageError(f"device {device} is a GPU, and the target is {target.word}; give one")
        check_executable(target)
        artifact = _ready(model, options, target, settings, progress)
        code = artifact.code_objects_for(target)
        program = _sized(Program(artifact.plan, code, artifact.weights, settings.threads))
        program.pickled = made_again, (compile, artifact, target, {}, carried)
        return program
    # Looked for before the work: a missing device is known at once.
    found = hip_device(target, settings, device)
    target = target if isinstance(target, Target) else Target.get(found.chip)
    artifact = _ready(model, options, target, settings, progress)
    from mgx_mlir.runtime.hip.program import HipProgram  # needs hip-python

    code = artifact.code_objects_for(target)
    program = _sized(HipProgram(artifact.plan, code, artifact.weights, found, graph))
    held = sum(w.nbytes for w in artifact.weights.values() if w.data is not None and not w.splat)
    if held <= _MOST_HELD:
        named = {"device": device, "graph": graph}
        program.pickled = made_again, (compile, artifact, target, named, carried)
    return program


# The settings that a pickled program takes along. Whose code runs is for its reader to say.
_CARRIED = ("cpu", "emulated_devices", "hip", "jobs", "threads", "tuning")
# The most bytes of weights that a GPU's program keeps on the host, so that it can be pickled.
_MOST_HELD = 1 << 30


def _carried(settings: Settings | None) -> dict[str, Any] | None:
    return None if settings is None else {name: getattr(settings, name) for name in _CARRIED}


def pickled(kind: Any, model: Any, target: Any, named: Mapping[str, Any],
            settings: Settings | None) -> tuple[Any, ...]:  # fmt: skip
    """What `__reduce__` gives for something that `kind` makes of a model for a target."""
    return made_again, (kind, model, target, dict(named), _carried(settings))


def made_again(
    kind: Any, model: Any, target: Any, named: Mapping[str, Any], carried: Mapping[str, Any] | None
) -> Any:
    """What was pickled, made of its model: code in it runs as that of a file does."""
    settings = None if carried is None else replace(Settings.from_environment(), **carried)
    return kind(model, target, settings=settings, **named)


def ready(
    artifact: Artifact,
    target: str | Target,
    *,
    settings: Settings | None = None,
    device: int | None = None,
) -> tuple[Target, Artifact]:
    """The target that the name means here, and the artifact with code for it that may run.

    Raises what `compile` raises.
    """
    settings = settings or Settings.from_environment()
    found = target_of(target, settings, device)
    return found, _ready(artifact, None, found, settings, None)


def target_of(target: str | Target, settings: Settings, device: int | None = None) -> Target:
    """The target that a name means here: 'gpu' is the chip of a device."""
    if target == "gpu":
        target = hip_device(target, settings, device).chip
    return target if isinstance(target, Target) else Target.get(target)


def no_options(artifact: Artifact) -> UsageError:
    """The error for compile options beside an artifact."""
    return UsageError(
        f"{artifact.name} is an artifact, compiled with options of its own; give none"
    )


def _check_whole(artifact: Artifact) -> None:
    """Raises UsageError for an artifact in parts, which only `Model` runs."""
    if artifact.parts is not None:
        raise UsageError(
            f"{artifact.name} is in parts: the host runs "
            f"{', '.join(artifact.parts.operators) or 'some'} between compiled segments; "
            "mgx_mlir.Model(artifact, target) of mgx-mlir runs it"
        )


def opened(model: Any) -> Any:
    """The artifact of a file that is one; any other model as it is."""
    if isinstance(model, str | os.PathLike) and is_artifact(Path(model)):
        return load(model)
    return model


def _ready(
    model: Any,
    options: CompileOptions | None,
    target: Target,
    settings: Settings,
    progress: Progress | None,
) -> Artifact:
    """The artifact of a model, or the given one, with code for the target that may run."""
    if not isinstance(model, Artifact):
        return _compiled(model, options, target, settings, progress)
    usable = _usable(model, settings)
    if usable.runs_on(target):
        _log.info("%s: its own code for %s is taken", model.name, target.name)
        return usable
    return finalize(model, target, settings=settings, progress=progress)


def _sized(program: Program) -> Program:
    """The program, or one that is bound to the sizes of each run."""
    return SizedProgram(program) if program.plan.dims else program


def _compiled(
    model: Any,
    options: CompileOptions | None,
    target: Target,
    settings: Settings,
    progress: Progress | None,
) -> Artifact:
    from mgx_mlir.compiler import compile_to_bytecode, import_model, options_for  # needs MLIR

    options = options_for(options, target)
    graph = import_model(model, options)
    targets = (target,) if graph.size >= _MANY_OPS else ()
    with started(targets, settings) as server:
        artifact = compile_to_bytecode(graph, options)
        return finalize(artifact, target, settings=settings, progress=progress, server=server)


def hip_device(target: str | Target, settings: Settings, ordinal: int | None = None) -> Device:
    """The device that runs a chip's programs; 'gpu' takes the device `ordinal`, default 0.

    The first call chooses the HIP library. An emulated one whose devices nobody named has
    the target's chip; one without that chip gets a device of it. Raises TargetError or DeviceError.
    """
    from mgx_mlir import emulator
    from mgx_mlir.runtime.hip import device  # needs hip-python
    from mgx_mlir.runtime.hip.library import open_library

    name = "" if isinstance(target, str) else target.name
    chip = (name,) if name in emulator.CHIPS else ()
    open_library(settings.hip, settings.emulated_devices or chip)
    if isinstance(target, str):
        there = device.devices()
        if not 0 <= (ordinal or 0) < len(there):
            listed = "; ".join(map(str, there)) or "none"
            raise TargetError(f"there is no device {ordinal or 0}; there are: {listed}")
        return there[ordinal or 0]
    return device.device_for(target, ordinal)


@Edge("loading the artifact")
def load(path: str | os.PathLike[str]) -> Artifact:
    """Opens an artifact by memory-mapping it. Raises ArtifactError where it is not sound."""
    return Artifact.open(path)


@Edge("saving the artifact")
def save(artifact: Artifact, path: str | os.PathLike[str]) -> None:
    """Writes an artifact to one file, whole or not at all."""
    _expect_artifact(artifact).save(path)


def _expect_artifact(value: Any) -> Artifact:
    if isinstance(value, Artifact):
        return value
    what = f"'{value}'" if isinstance(value, str | os.PathLike) else f"a {type(value).__name__}"
    raise UsageError(
        f"{what} is no artifact; mgx_mlir.load opens one, mgx_mlir.compile_to_bytecode makes one "
        "from a model"
    )
