"""inspect: print what an artifact holds: versions, plan, kernels, code objects, weights."""

from __future__ import annotations

import argparse
import json
from pathlib import Path


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("artifact", type=Path, metavar="X.mgx")
    add("--json", action="store_true", help="everything but the bytes, as JSON")
    add("--kernel", metavar="NAME", help="print the portable IR of a kernel")
    add("--isa", metavar="KERNEL", help="print the disassembly of a kernel's code objects")
    add("--arch", metavar="A", help="only this chip's code object")


def run(options: argparse.Namespace) -> int:
    import mgx_mlir
    from mgx_mlir.errors import UsageError
    from mgx_mlir.portable import kernel_text
    from mgx_mlir.tools.console import print_artifact

    artifact = mgx_mlir.load(options.artifact)
    names = [kernel.name for kernel in artifact.kernels]
    wanted = options.kernel or options.isa
    if wanted is not None and wanted not in names:
        raise UsageError(f"no kernel '{wanted}'; the artifact has {', '.join(names)}")
    if options.kernel:
        print(kernel_text(artifact.kernels[names.index(options.kernel)].bytecode))
    elif options.isa:
        return _print_isa(artifact, names.index(options.isa), options.arch)
    elif options.json:
        print(json.dumps(artifact.to_json(), indent=2))
    else:
        print_artifact(artifact)
    return 0


def _print_isa(artifact: object, kernel: int, arch: str | None) -> int:
    from mgx_mlir.artifact import Artifact
    from mgx_mlir.codegen.disassembly import disassemble
    from mgx_mlir.errors import UsageError

    assert isinstance(artifact, Artifact)
    found = [
        c for (k, _), c in artifact.code_objects.items() if k == kernel and arch in (None, c.arch)
    ]
    if not found:
        raise UsageError("there is no such code object; run `mgx finalize --arch` first")
    for code_object in found:
        print(disassemble(code_object.data, code_object.arch))
    return 0
