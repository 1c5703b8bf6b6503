"""Whether a plan keeps to what its kernels may touch: the last look before anything runs.

A kernel's code touches the memory of its arguments, as large as its interface says, and its own
scratch memory. So a plan is safe whose arguments are that large and lie where they say, and whose
results lie apart from all else that a launch touches, wherever the plan comes from.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

from mgx_mlir.artifact.code_object import CodeObject
from mgx_mlir.artifact.interface import ITEM_BYTES, Interface
from mgx_mlir.artifact.plan import ARENA_ALIGNMENT, WRITABLE, Buffer, Plan
from mgx_mlir.artifact.plan_binding import bind_plan
from mgx_mlir.artifact.steps import AnyStep, Step, called, named_buffers, walk
from mgx_mlir.errors import ArtifactError, UsageError
from mgx_mlir.sizes.arithmetic import Symbol

# Sizes that the symbols of a plan are tried with, as near as their bounds allow: a plan whose
# kernels fit at none of them fits nowhere. Many divisors, so that quotients have no remainder.
_TRIED = (1, 2, 48, 720, 64, 4096)


def check_fit(plan: Plan, code: Sequence[CodeObject]) -> None:
    """Raises ArtifactError where a launch may touch memory that the plan does not give it.

    Sizes are known: plan and code are bound. Code without an interface is not looked at: somebody
    vouches for it together with the plan (trust.py).
    """
    for step in plan.work():
        if not isinstance(step, Step) or step.kernel < 0:
            continue
        if step.kernel >= len(code):
            raise ArtifactError(f"{called(step)} runs kernel {step.kernel}, which is missing")
        interface = code[step.kernel].interface
        if interface is not None:
            _check_step(plan, step, interface)
    _check_in_place(plan, code)


def check_code(plan: Plan, code: Sequence[CodeObject]) -> None:
    """As `check_fit`, for plans of any sizes too: those are tried with some sizes.

    Raises ArtifactError where no sizes fit. Each run is checked for its own sizes.
    """
    for sizes, inner in plan.programs:
        check_fit(inner, [one.bound(sizes) for one in code])
    if not plan.dims:
        check_fit(plan, code)
        return
    fault: ArtifactError | None = None
    for size in _TRIED:
        known = {dim.name: _near(dim, size) for dim in plan.dims}
        try:
            bound, sized = bind_plan(plan, known), [one.bound(known) for one in code]
        except (ArtifactError, UsageError):
            continue  # the model has no run of these sizes
        try:
            check_fit(bound, sized)
        except ArtifactError as error:
            fault = fault or error
        else:
            return
    if fault is not None:
        raise fault


def _near(dim: Symbol, size: int) -> int:
    return max(dim.low, size if dim.high is None else min(size, dim.high))


def _check_step(plan: Plan, step: Step, interface: Interface) -> None:
    operands, inputs = interface.operands, len(interface.inputs)
    buffers = [plan.buffers[number] for number in step.arguments]
    if len(buffers) != len(operands):
        raise ArtifactError(
            f"{called(step)} has {len(buffers)} arguments; its kernel reads {inputs} and writes "
            f"{len(interface.outputs)}"
        )
    for place, (buffer, operand) in enumerate(zip(buffers, operands, strict=True)):
        if buffer.bytes < operand.bytes:
            raise ArtifactError(
                f"{called(step)} gives its kernel {buffer.bytes} bytes for "
                f"{_named(place, inputs)}, which takes {operand.bytes}"
            )
        if _alignment(plan, buffer) % ITEM_BYTES[operand.dtype]:
            raise ArtifactError(
                f"{called(step)} gives its kernel other elements than {operand.dtype} for "
                f"{_named(place, inputs)}"
            )
    for place, operand in enumerate(interface.outputs, inputs):
        if buffers[place].kind not in WRITABLE:
            raise ArtifactError(
                f"{called(step)} writes to a buffer of kind '{buffers[place].kind}'"
            )
        for other, buffer in enumerate(buffers):
            if other == place or not buffers[place].overlaps(buffer):
                continue
            exact = buffer == buffers[place] and buffer.bytes == operand.bytes
            if not (exact and other in operand.over):
                raise ArtifactError(
                    f"{called(step)} writes {_named(place, inputs)} of its kernel over "
                    f"{_named(other, inputs)}"
                )


def _alignment(plan: Plan, buffer: Buffer) -> int:
    """A number of bytes that the address of a buffer is a multiple of, whose elements are whole."""
    if buffer.kind in ("input", "output") and buffer.bytes:
        specs = plan.inputs if buffer.kind == "input" else plan.outputs
        return ITEM_BYTES[specs[buffer.index].dtype]
    return ARENA_ALIGNMENT  # by Plan.check; weights are placed by the runtime


def _named(place: int, inputs: int) -> str:
    return f"input {place}" if place < inputs else f"output {place - inputs}"


def _check_in_place(plan: Plan, code: Sequence[CodeObject]) -> None:
    """Checks each output that the caller may give the memory of an input."""
    for output, source in plan.in_place:
        if not _may_share(plan, code, output, source):
            raise ArtifactError(
                f"plan: output '{plan.outputs[output].name:.80}' cannot have the memory of input "
                f"'{plan.inputs[source].name:.80}'"
            )


def _may_share(plan: Plan, code: Sequence[CodeObject], output: int, source: int) -> bool:
    """Whether one launch, outside of control flow, makes the output of the input, which nothing
    else has; and nothing wrote the output before."""
    touched = Counter(_memories(plan, plan.steps))
    for step in plan.steps:
        if ("output", output) not in set(_memories(plan, [step])):
            continue
        if not isinstance(step, Step) or step.kernel < 0 or touched["input", source] != 1:
            return False
        interface = code[step.kernel].interface
        if interface is None:
            return True
        places = list(_memories(plan, [step]))
        over = {
            (one, other)
            for place, operand in enumerate(interface.outputs, len(interface.inputs))
            for one, other in [(places[place], places[n]) for n in operand.over]
        }
        return (("output", output), ("input", source)) in over
    return False


def _memories(plan: Plan, steps: Sequence[AnyStep]) -> Iterator[tuple[str, int]]:
    """The memory of each argument of some steps: its kind and number."""
    for step in walk(steps):
        for number in named_buffers(step):
            yield plan.buffers[number].kind, plan.buffers[number].index
