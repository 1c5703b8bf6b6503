"""A plan and its code objects as one list of launches and copies, each pointer's place known.

What every executor does first, whatever the device; it finds whether plan and code objects
fit together.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from mgx_mlir.errors import ArtifactError
from mgx_mlir.finalizer.code_object import Argument, CodeObject, Launch
from mgx_mlir.plan import Plan, Step


@dataclass(frozen=True)
class Place:
    """Where a pointer points.

    kind 'arena' and 'scratch': `index` bytes into that memory. 'input' and 'output': the
    caller's tensor number `index`. 'weight': the weight called `key`.
    """

    kind: str
    index: int = 0
    key: str = ""


@dataclass(frozen=True)
class BoundLaunch:
    """A function of code object number `kernel`, with its pointers in order.

    `step` is the number of the plan's step that it belongs to.
    """

    step: int
    kernel: int
    launch: Launch
    places: tuple[Place, ...]
    node: str


@dataclass(frozen=True)
class BoundCopy:
    """`bytes` bytes, more than none, from the first place to the second."""

    step: int
    bytes: int
    places: tuple[Place, Place]


def bind(plan: Plan, code_objects: Sequence[CodeObject]) -> list[BoundLaunch | BoundCopy]:
    """The plan's steps in order. Raises ArtifactError where the parts do not fit together."""
    bound: list[BoundLaunch | BoundCopy] = []
    for number, step in enumerate(plan.steps):
        if step.kernel < 0:
            bound += _copy(plan, number, step)
        elif step.kernel >= len(code_objects):
            raise ArtifactError(f"plan: step {number} runs kernel {step.kernel}, which is missing")
        else:
            bound += _launches(plan, number, step, code_objects[step.kernel])
    return bound


def arena_bytes(plan: Plan) -> int:
    """The size of the arena, in whole lines of 256 bytes."""
    return -(-plan.arena_bytes // 256) * 256


def scratch_bytes(code_objects: Sequence[CodeObject]) -> int:
    """The scratch memory that kernels use in turn."""
    return max((code.scratch_bytes for code in code_objects), default=0)


def _copy(plan: Plan, number: int, step: Step) -> list[BoundCopy]:
    source, target = step.arguments
    size = plan.buffers[source].bytes
    if plan.buffers[target].bytes != size:
        raise ArtifactError(f"plan: step {number} copies between buffers of two sizes")
    return [BoundCopy(number, size, (_place(plan, source), _place(plan, target)))] if size else []


def _launches(plan: Plan, number: int, step: Step, code: CodeObject) -> list[BoundLaunch]:
    inputs = len(step.arguments) - _outputs(code)
    return [
        BoundLaunch(
            number,
            step.kernel,
            launch,
            tuple(_argument(plan, number, step, a, inputs) for a in launch.arguments),
            step.node,
        )
        for launch in code.launches
    ]


def _argument(plan: Plan, number: int, step: Step, argument: Argument, inputs: int) -> Place:
    if argument.kind == "scratch":
        return Place("scratch", argument.index)
    place = argument.index + (inputs if argument.kind == "output" else 0)
    limit = inputs if argument.kind == "input" else len(step.arguments)
    if inputs < 0 or place >= limit:
        raise ArtifactError(
            f"plan: step {number} ({step.node}) has {len(step.arguments)} arguments, too few "
            f"for its kernel, which wants {argument.kind} {argument.index}"
        )
    return _place(plan, step.arguments[place])


def _place(plan: Plan, number: int) -> Place:
    buffer = plan.buffers[number]
    if buffer.kind == "weight":
        return Place("weight", key=buffer.key)
    return Place(buffer.kind, buffer.offset if buffer.kind == "arena" else buffer.index)


def _outputs(code: CodeObject) -> int:
    """How many outputs the kernel has: every output is written by a launch."""
    written = [a.index for la in code.launches for a in la.arguments if a.kind == "output"]
    return max(written, default=-1) + 1
