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
# Bytes of an element, at most: each that takes part in arithmetic is an operation at least.
_ELEMENT_BYTES = 4


def priced(
    model: str, chip: str, inputs: str, mode: str, floats: str, disable: Sequence[str], cold: bool,
    persistent: bool = False,
) -> dict[str, Any]:  # fmt: skip
    """The steps of a run of the model in a file, and the seconds of processors to compile it.

    inputs: a file of arrays. mode, floats, disable, persistent: as CompileOptions has them. A step
    is its node, its launches, and its clocks without those of the launches themselves; in a
    resident kernel, which is a launch of its first step, they are with those of a barrier before
    it. cold: without the cache of finalized kernels.
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
    target = Target.get(chip)
    alone: Any = None
    residents: list[Any] = []
    if persistent:
        alone, residents = _persistent(model, target, options, settings)
        program: Any = mgx_mlir.compile(alone, chip, settings=settings)
    else:
        program = mgx_mlir.compile(model, chip, options, settings=settings)
    seconds = _seconds() - before
    if isinstance(program, SizedProgram):
        program = program.program(given)
    (device,) = emulator.devices()
    steps, moved = [], []
    for step, work in zip(step_times(program, given, 1), program.plan.work(), strict=True):
        busy = step.median * device.clock_khz - LAUNCH_CLOCKS * step.launches
        moved.append(step.times * _memory_bytes(program.plan, work, target))
        steps.append((step.node, step.launches, max(busy, moved[-1] / target.memory_bytes_a_clock)))
    for code in residents:
        first, count = code.resident.first, code.resident.steps
        found = _resident(program.plan, alone.code_objects[target.identity], code, moved, target)
        for number in range(first, first + count):
            steps[number] = steps[number][0], int(number == first), found[number - first]
    return {"steps": steps, "seconds": seconds}


def _persistent(model: str, target: Any, options: Any, settings: Any) -> tuple[Any, list[Any]]:
    """The artifact of a persistent program, with the code of its steps alone; and of the others."""
    from dataclasses import replace

    import mgx_mlir

    portable = mgx_mlir.compile_to_bytecode(model, replace(options, persistent=True))
    made = mgx_mlir.finalize(portable, target.name, settings=settings)
    code = made.code_objects[target.identity]
    own = tuple(one for one in code if one.resident is None)
    return replace(made, code_objects={target.identity: own}), list(code[len(own) :])


def _resident(
    plan: Any, code: Sequence[Any], resident: Any, moved: Sequence[float], target: Any
) -> list[float]:
    """The clocks of each step of a resident kernel. moved: the bytes of the plan's steps."""
    from benchmarks.priced_resident import Kernel, Phase, clocks_of
    from mgx_mlir.finalizer.residents import buffers_of, phases_of

    record = resident.resident
    phases = phases_of(plan, code, record.first, record.first + record.steps)
    bodies: list[Any] = [None] * len(record.bodies)
    for phase, (body, _) in zip(phases, record.phases, strict=True):
        launch = code[phase.kernel].launches[phase.launch]
        given = buffers_of(plan, code, plan.steps[phase.step], phase.launch)
        sizes = [
            (buffer.bytes if buffer else 0, argument.index)
            for argument, buffer in zip(launch.arguments, given, strict=True)
        ]
        bodies[body] = bodies[body] or (launch, sizes)
    kernel = Kernel(resident, bodies, target)
    priced, left = [], dict(enumerate(moved))
    for phase, (body, waits) in zip(phases, record.phases, strict=True):
        clocks, units = kernel.clocks(body)
        # All that a step moves is its first launch's.
        priced.append(Phase(bool(waits), clocks, units, left.pop(phase.step, 0.0)))
    found = [kernel.entry] + [0.0] * (record.steps - 1)
    for phase, clocks in zip(phases, clocks_of(priced, target, kernel.barrier), strict=True):
        found[phase.step - record.first] += clocks
    return found


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
    A step takes of its weights no more elements than it has other bytes and arithmetic: it looks up
    rows of the others.
    """
    numbers = {step.source} if hasattr(step, "source") else set(step.arguments)
    moved = [plan.buffers[number] for number in numbers]
    weights = sum(b.bytes for b in moved if b.kind == "weight")
    others = [b for b in moved if b.kind != "weight"]
    used = _ELEMENT_BYTES * getattr(step, "flops", 0)
    weights = min(weights, used + sum(b.bytes for b in others))
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
