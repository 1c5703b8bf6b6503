"""Compiles a model and prices a run of it, by whatever checkout stands in the current folder.

`benchmarks.nets` runs this file in a process, with a JSON record of the arguments of `priced`, and
reads the result from the last line that it prints.
"""

from __future__ import annotations

import json
import os
import resource
import sys
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

LAUNCH_CLOCKS = 2000


def priced(
    model: str, chip: str, inputs: str, mode: str, floats: str, disable: Sequence[str], cold: bool
) -> dict[str, Any]:
    """The steps of a run of the model in a file, and the seconds of processors to compile it.

    inputs: a file of arrays. mode, floats, disable: as CompileOptions has them. A step is its
    node, its launches, and its clocks without those of the launches themselves. cold: without the
    cache of finalized kernels.
    """
    import mgx_mlir
    from mgx_mlir import emulator
    from mgx_mlir.artifact.target import Target
    from mgx_mlir.compiler import CompileOptions
    from mgx_mlir.runtime.hip.profile import step_times
    from mgx_mlir.runtime.sized import SizedProgram
    from mgx_mlir.settings import Settings

    with np.load(inputs) as arrays:
        given = dict(arrays)
    options = CompileOptions(mode=mode, floats=floats, disable=tuple(disable))
    if mode != "full-dynamic":
        options = _of_sizes(model, given, options)
    before = _seconds()
    kept = {"MGX_CACHE_DIR": "none"} if cold else {}
    settings = Settings.from_environment(os.environ | {"MGX_JOBS": "1"} | kept)
    program: Any = mgx_mlir.compile(model, chip, options, settings=settings)
    seconds = _seconds() - before
    if isinstance(program, SizedProgram):
        program = program.program(given)
    target, (device,) = Target.get(chip), emulator.devices()
    steps = []
    for step, work in zip(step_times(program, given, 1), program.plan.work(), strict=True):
        busy = step.median * device.clock_khz - LAUNCH_CLOCKS * step.launches
        roof = step.times * _memory_bytes(program.plan, work, target) / target.memory_bytes_a_clock
        steps.append((step.node, step.launches, max(busy, roof)))
    return {"steps": steps, "seconds": seconds}


def _of_sizes(model: str, given: Mapping[str, np.ndarray], options: Any) -> Any:
    """Options that give the model's symbols the sizes of the inputs."""
    from dataclasses import replace

    import onnx

    sizes = {}
    for value in onnx.load(model, load_external_data=False).graph.input:
        if value.name in given:
            dims = value.type.tensor_type.shape.dim
            named = zip(dims, given[value.name].shape, strict=True)
            sizes.update({dim.dim_param: size for dim, size in named if dim.dim_param})
    return replace(options, dim_params=sizes)


def _memory_bytes(plan: Any, step: Any, target: Any) -> int:
    """Bytes that a step moves from and to memory, each once.

    Tensors that one kernel hands the next stay in the last cache if they fill at most half of it.
    A step without arithmetic takes of its weights no more than all others: it looks up rows.
    """
    numbers = {step.source} if hasattr(step, "source") else set(step.arguments)
    moved = [plan.buffers[number] for number in numbers]
    weights = sum(b.bytes for b in moved if b.kind == "weight")
    others = [b for b in moved if b.kind != "weight"]
    if not getattr(step, "flops", 0):
        weights = min(weights, sum(b.bytes for b in others))
    kept = target.cache_bytes // 2
    return weights + sum(b.bytes for b in others if b.kind != "arena" or b.bytes > kept)


def _seconds() -> float:
    kinds = (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)
    return sum(sum(resource.getrusage(kind)[:2]) for kind in kinds)


if __name__ == "__main__":
    arguments = json.loads(sys.argv[1])
    # The emulated library reads them at its first call.
    os.environ["MGX_EMULATED_DEVICES"] = arguments["chip"]
    os.environ["MGX_EMULATOR_PROFILE"] = "sample"
    os.environ["MGX_HIP"] = "emulated"
    print(json.dumps(priced(**arguments)))
