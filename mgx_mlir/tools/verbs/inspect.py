"""inspect: print what an artifact holds: versions, plan, kernels, code objects, weights."""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mgx_mlir.errors import ArtifactError, UsageError
from mgx_mlir.finalizer.explain import STAGES
from mgx_mlir.settings import Settings
from mgx_mlir.suggest import instead, listed
from mgx_mlir.text import name_text

if TYPE_CHECKING:
    from mgx_mlir.artifact.contents import PortableKernel
    from mgx_mlir.artifact.record import Artifact
    from mgx_mlir.artifact.schedule import Tuned
    from mgx_mlir.artifact.target import Target

# Seconds to read a kernel.
READ_LIMIT = 60


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("artifact", type=Path, metavar="X.mgx")
    add("--json", action="store_true", help="everything but the bytes, as JSON")
    add("--kernel", metavar="NAME", help="print the portable IR of a kernel")
    add("--isa", metavar="KERNEL", help="print the disassembly of a kernel's code objects")
    add("--ir", metavar="KERNEL", help="print a kernel at a stage of its compilation")
    add(
        "--stage",
        choices=("portable", *STAGES, "isa"),
        help="of --ir: portable (the default; as --kernel), gpu (functions for GPUs, before they "
        "are lowered), cpu (functions for CPUs), llvm (LLVM IR as LLVM gets it), isa (as --isa)",
    )
    add(
        "--why",
        action="store_true",
        help="each kernel's schedule, or why a generator refused it; of --kernel NAME also each "
        "variant with its refusal or estimate, and the schedules that the model compared",
    )
    add("--arch", metavar="A", help="only this chip's code object")


def run(options: argparse.Namespace) -> int:
    import mgx_mlir
    from mgx_mlir.tools.console import print_artifact
    from mgx_mlir.tools.files import expect_artifact

    expect_artifact(options.artifact, options.verb)
    if options.stage and not options.ir:
        raise UsageError("--stage goes with --ir KERNEL")
    artifact = mgx_mlir.load(options.artifact)
    if options.stage in STAGES:
        return _print_stage(artifact, options.ir, options.stage, options.arch)
    if options.ir and options.stage == "isa":
        options.isa = options.ir
    elif options.ir:
        options.kernel = options.ir
    if options.kernel and options.why:
        return _print_choice(artifact, options.kernel, options.arch)
    if options.kernel:
        print(_kernel_text(artifact.kernels[_number(artifact, options.kernel)]))
    elif options.isa:
        return _print_isa(artifact, options.isa, options.arch)
    elif options.why:
        return _print_why(artifact, options.arch)
    elif options.json:
        print(json.dumps(artifact.to_json(), indent=2))
    else:
        print_artifact(artifact)
    return 0


def _kernel_text(kernel: PortableKernel) -> str:
    from mgx_mlir.rewriting.portable import kernel_text

    return _of_kernel(kernel, kernel_text)


def _of_kernel(kernel: PortableKernel, function: Callable[..., str], *arguments: Any) -> str:
    """The text that a function gives for the bytes of a kernel."""
    from mgx_mlir.finalizer.worker import WorkerError, WorkerPool

    # In a process of its own: the bytes may be anybody's.
    with WorkerPool(1, READ_LIMIT) as pool:
        try:
            return str(pool.submit(function, kernel.bytecode, *arguments).result())
        except WorkerError as error:
            raise ArtifactError(f"kernel {kernel.name} cannot be read: {error}") from error


def _number(artifact: Artifact, name: str) -> int:
    names = [kernel.name for kernel in artifact.kernels]
    if name not in names:
        hint = instead(name, names, f"the artifact has {listed(names)}")
        raise UsageError(f"no kernel '{name}'; {hint}")
    return names.index(name)


def _finalized(artifact: Artifact, arch: str | None) -> list[str]:
    """The targets that the artifact has code objects for; with `arch`, that one alone."""
    there = [name for name in artifact.code_objects if arch in (None, name.partition(":")[0])]
    if not there:
        finalized = ", ".join(artifact.code_objects) or "none"
        raise UsageError(
            f"no code objects for {arch or 'any chip'} (there are: {finalized}); "
            f"add them with mgx finalize --arch {arch or 'CHIP'}"
        )
    return there


def _print_why(artifact: Artifact, arch: str | None) -> int:
    for name in _finalized(artifact, arch):
        print(f"{name}:")
        schedules = artifact.schedules.get(name, (None,) * len(artifact.kernels))
        found = zip(artifact.kernels, artifact.code_objects[name], schedules, strict=True)
        for kernel, code, tuned in found:
            # A tuned schedule's source is part of the reason.
            source = "" if tuned or not code.why else "; untuned"
            print(f"  {name_text(kernel.name)}: {code.why or 'not recorded'}{source}")
    return 0


def _print_choice(artifact: Artifact, kernel: str, arch: str | None) -> int:
    from mgx_mlir.finalizer.explain import explain

    stored = artifact.kernels[_number(artifact, kernel)]
    for chip, target in _chips(artifact, arch):
        print(f"{kernel} for {chip}:")
        print(_of_kernel(stored, explain, target))
        tuned = _tuned(artifact, stored, target)
        print(f"tuned: {tuned.schedule}, {tuned.describe()}" if tuned else "untuned")
    return 0


def _print_stage(artifact: Artifact, kernel: str, stage: str, arch: str | None) -> int:
    from mgx_mlir.finalizer.explain import stage_text

    stored = artifact.kernels[_number(artifact, kernel)]
    comment = ";" if stage == "llvm" else "//"
    for chip, target in _chips(artifact, arch):
        text = _of_kernel(stored, stage_text, target, stage, _tuned(artifact, stored, target))
        print(f"{comment} {kernel} for {chip}\n{text.rstrip()}")
    return 0


def _chips(artifact: Artifact, arch: str | None) -> list[tuple[str, Target]]:
    """The chip that is asked for, or those that the artifact has code for, each as a target."""
    from mgx_mlir.artifact.target import Target

    chips = [arch] if arch else [name.partition(":")[0] for name in _finalized(artifact, arch)]
    # The code of a machine has no target's name; this machine's schedules are shown.
    return [(chip, Target.get(chip if chip in Target.names() else "cpu")) for chip in chips]


def _tuned(artifact: Artifact, kernel: PortableKernel, target: Target) -> Tuned | None:
    from mgx_mlir.loader import schedules_for

    found = schedules_for(artifact, [target], Settings.from_environment())
    return found.get(target.identity, {}).get(kernel.sha256)


def _print_isa(artifact: Artifact, kernel: str, arch: str | None) -> int:
    from mgx_mlir.codegen.gpu.builders.binary import disassemble

    number = _number(artifact, kernel)
    for name in _finalized(artifact, arch):
        print(f"; {kernel} for {name}")
        print(disassemble(artifact.code_objects[name][number].data))
    return 0
