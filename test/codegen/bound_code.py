"""Code objects for given sizes, for tests that launch kernels themselves."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from mgx_mlir.artifact.code_object import MOST_GROUPS, Argument, CodeObject
from mgx_mlir.artifact.formulas import bound, values
from mgx_mlir.errors import ArtifactError


def bound_code(code: CodeObject, known: Mapping[str, int]) -> CodeObject:
    """The code object where symbols have these sizes. Raises ArtifactError for others than its own.

    Its interface, which launches do not need, is left out.
    """
    found = values(code.formulas, known)
    for name, (low, high) in code.interface.dims.items() if code.interface else ():
        if not low <= known[name] <= (known[name] if high is None else high):
            raise ArtifactError(f"the code is not for {name} = {known[name]}")
    if code.interface and any(bound(number, found) for number in code.interface.zeros):
        raise ArtifactError(f"the sizes do not agree: {known}")
    launches = []
    for launch in code.launches:
        x, y, z = (bound(number, found) for number in launch.grid)
        if max(x, y, z) > MOST_GROUPS:
            raise ArtifactError("a launch of work-groups that is out of range")
        arguments = tuple(Argument(a.kind, bound(a.index, found)) for a in launch.arguments)
        if x * y * z:
            launches.append(replace(launch, grid=(x, y, z), arguments=arguments))
    scratch = bound(code.scratch_bytes, found)
    return replace(
        code, launches=tuple(launches), scratch_bytes=scratch, interface=None, formulas=()
    )
