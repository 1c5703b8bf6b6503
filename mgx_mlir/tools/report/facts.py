"""The facts about a program's kernels that a report shows: shapes, schedule, code, registers."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import Future
from typing import Any

from mgx_mlir.artifact.code_object import CodeObject
from mgx_mlir.artifact.contents import PortableKernel
from mgx_mlir.artifact.record import Artifact
from mgx_mlir.artifact.target import Target
from mgx_mlir.errors import MgxError

# The costliest kernels, whose choice of a schedule is made again to be shown, and the seconds
# that one of them may take.
_EXPLAINED, _LIMIT = 24, 120
# The waves of a SIMD at most, by the kind of matrix instructions of its generation.
_MOST_WAVES = {"mfma": 8, "wmma": 16}
_SIGNATURE = re.compile(r"mgx\.kernel @\w+\((.*?)\)(?: -> (.*?))? attributes")
_ADDRESS = re.compile(r"\s*// [0-9A-F]{8,}:.*$", re.MULTILINE)


def kernel_facts(
    artifact: Artifact,
    target: Target,
    costliest: Sequence[int],
    progress: Callable[[int, int], None] = lambda done, total: None,
) -> dict[int, dict[str, Any]]:
    """Facts by kernel: name, types, schedule, launches, registers, portable IR, instructions.

    `costliest` are the numbers of kernels, the longest first; of the first ones the estimates that
    their schedules were chosen by are there too. The artifact has code for the target.
    """
    from mgx_mlir.finalizer.explain import explain
    from mgx_mlir.finalizer.worker import WorkerPool
    from mgx_mlir.rewriting.portable import kernel_text
    from mgx_mlir.settings import Settings

    code = artifact.code_objects_for(target)
    numbers = list(costliest)
    chosen = numbers[:_EXPLAINED]
    found: dict[int, dict[str, Any]] = {}
    # In processes of their own: the bytes may be anybody's.
    with WorkerPool(Settings.from_environment().jobs, _LIMIT) as pool:
        texts = {n: pool.submit(kernel_text, artifact.kernels[n].bytecode) for n in numbers}
        reasons = {n: pool.submit(explain, artifact.kernels[n].bytecode, target) for n in chosen}
        for done, number in enumerate(numbers):
            text = _text(texts[number])
            found[number] = {
                **_of_code(artifact.kernels[number], code[number], target),
                "types": _types(text),
                "estimate": _text(reasons[number]) if number in reasons else "",
                "ir": text,
                "isa": _instructions(code[number]),
            }
            progress(done + 1, len(numbers))
    return found


def _text(future: Future[Any]) -> str:
    """What a worker gave; else why it gave nothing."""
    try:
        return str(future.result())
    except Exception as error:  # a report is better without a part than not at all
        return f"not shown: {error}"


def _types(text: str) -> str:
    """The types of a kernel's operands and results: 'f16[16, 64], f16[64, 32] -> f16[16, 32]'."""
    match = _SIGNATURE.search(text)
    if match is None:
        return ""
    sides = (re.findall(r"tensor<([^>]*)>", side or "") for side in match.groups())
    return " -> ".join(", ".join(map(_type, side)) for side in sides)


def _type(tensor: str) -> str:
    *sizes, element = tensor.partition(",")[0].split("x")
    return f"{element}[{', '.join(sizes)}]"


def _of_code(kernel: PortableKernel, code: CodeObject, target: Target) -> dict[str, Any]:
    return {
        "name": kernel.name,
        "nodes": list(kernel.nodes),
        "why": code.why,
        "bytes_of_code": len(code.data),
        "scratch_bytes": code.scratch_bytes,
        "launches": [
            {
                "function": launch.function,
                "grid": [_number(size, code.formulas) for size in launch.grid],
                "block": list(launch.block),
            }
            for launch in code.launches
        ],
        "stats": {name: _stats(stats, code, name, target) for name, stats in code.stats.items()},
    }


def _number(size: int, formulas: Sequence[str]) -> int | str:
    return formulas[-1 - size] if size < 0 else size


def _stats(
    stats: Mapping[str, int], code: CodeObject, function: str, target: Target
) -> dict[str, int]:
    """The figures of a function, with the waves that a SIMD holds at a time (its occupancy)."""
    blocks = [launch.block for launch in code.launches if launch.function == function]
    if target.architecture is None or not blocks:
        return dict(stats)
    wide = stats.get("wave_size", target.wave_size) or target.wave_size
    threads = blocks[0][0] * blocks[0][1] * blocks[0][2]
    waves = -(-threads // wide)
    used = max(1, stats.get("vgpr", 1) + stats.get("agpr", 0))
    held = min(target.gpu.lane_vgprs // used, _MOST_WAVES.get(target.matrix, 16))
    lds = stats.get("lds_bytes", 0)
    if lds:
        groups = target.lds_bytes // lds
        held = min(held, max(1, groups * waves // target.gpu.simds))
    return {**stats, "waves_per_simd": max(held, 1)}


def _instructions(code: CodeObject) -> str:
    from mgx_mlir.codegen.gpu.builders.binary import disassemble

    if not code.data:
        return "no function: results without elements"
    try:
        return _ADDRESS.sub("", disassemble(code.data))
    except (MgxError, OSError, ValueError) as error:
        return f"not shown: {error}"


def costliest(rows: Iterable[Mapping[str, Any]]) -> list[int]:
    """The numbers of the kernels of a record's rows, which have the longest first; no copies."""
    return [row["kernel"] for row in rows if row["kernel"] >= 0]
