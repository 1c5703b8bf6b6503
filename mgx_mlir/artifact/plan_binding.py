"""A plan for any sizes, bound to some: symbols from shapes, bytes, an offset for each tensor.

Pure data, as the plan is. A bound plan does not show how its sizes came about: a program runs
it as any other.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from mgx_mlir.artifact.formulas import bound, values
from mgx_mlir.artifact.plan import AnyStep, Buffer, Plan, TensorSpec, named_buffers, walk
from mgx_mlir.errors import ArtifactError, UsageError
from mgx_mlir.sizes.arithmetic import Symbol, ceil_div
from mgx_mlir.text import name_text

ALIGNMENT = 256
# The most inputs, and outputs, of a program that are shown on a line.
_SHOWN = 6


def sizes_of(plan: Plan, shapes: Mapping[str, Sequence[int]]) -> dict[str, int]:
    """The size of each of the plan's symbols, from the shapes of its inputs by name.

    Raises UsageError naming the input whose shape does not fit.
    """
    known: dict[str, int] = {}
    places: dict[str, str] = {}
    names = {dim.name for dim in plan.dims}
    for spec in plan.inputs:
        shape = shapes[spec.name]
        if len(shape) != len(spec.shape):
            raise UsageError(f"input '{spec.name}' is {text_of(plan, spec)}; got {list(shape)}")
        for axis, (wanted, size) in enumerate(zip(spec.shape, shape, strict=True)):
            text = plan.formulas[-1 - wanted] if wanted < 0 else ""
            name = _plain(text)
            if name not in names:
                continue
            where = f"dimension {axis} of input '{spec.name}'"
            if known.setdefault(name, size) != size:
                raise UsageError(
                    f"{where} is {size}, and {places[name]} is {known[name]}: both are '{name}'; "
                    f"compiled with dim_params={{'{name}': '?'}} they may differ"
                )
            places.setdefault(name, where)
    _check(plan, known, places)
    try:
        found = values(plan.formulas, known)
    except ArtifactError as error:
        raise UsageError(f"the program has no run with {_listed(known)}: {error}") from None
    for spec in plan.inputs:
        shape = tuple(bound(n, found) for n in spec.shape)
        if shape != tuple(shapes[spec.name]):
            raise UsageError(
                f"input '{spec.name}' is {text_of(plan, spec)}, which is {list(shape)} with "
                f"{_listed(known)}; got {list(shapes[spec.name])}"
            )
    return known


def _plain(text: str) -> str:
    """The symbol that a formula is, if it is nothing else."""
    return text.strip("`") if text else ""


def _check(plan: Plan, known: Mapping[str, int], places: Mapping[str, str]) -> None:
    for dim in plan.dims:
        if dim.name not in known:
            raise UsageError(f"no input of the program has '{dim.name}' as a dimension")
        size = known[dim.name]
        if size < dim.low or (dim.high is not None and size > dim.high):
            limit = "more" if dim.high is None else dim.high
            raise UsageError(
                f"{places[dim.name]} is {size}; the program is for '{dim.name}' from {dim.low} to "
                f"{limit}"
            )


def _listed(known: Mapping[str, int]) -> str:
    return ", ".join(f"{name} = {size}" for name, size in known.items())


def shape_text(plan: Plan, spec: TensorSpec) -> list[str]:
    """The sizes of a tensor of the plan for people: 'batch', '16'."""
    return [str(n) if n >= 0 else plan.formulas[-1 - n] for n in spec.shape]


def text_of(plan: Plan, spec: TensorSpec) -> str:
    """A tensor of the plan for people: 'float32[batch, 16]'."""
    return f"{spec.dtype}[{', '.join(shape_text(plan, spec))}]"


def signature_text(plan: Plan) -> str:
    """The inputs and outputs of a plan for people: 'x: float32[3, 4] -> y: float32[3]'."""

    def listed(specs: Sequence[TensorSpec]) -> str:
        shown = [f"{name_text(spec.name)}: {text_of(plan, spec)}" for spec in specs[:_SHOWN]]
        return ", ".join(shown) + (", ..." if len(specs) > _SHOWN else "")

    return f"{listed(plan.inputs)} -> {listed(plan.outputs)}"


def dim_text(dim: Symbol) -> str:
    """A symbol and its sizes for people: 'batch from 1 to 64, best 1, 8'."""
    high = "" if dim.high is None else f" to {dim.high}"
    best = f", best {', '.join(map(str, dim.optimals))}" if dim.optimals else ""
    return f"{dim.name} from {dim.low}{high}{best}"


def bind_plan(plan: Plan, known: Mapping[str, int]) -> Plan:
    """The plan for symbols of these sizes; whether it fits together is checked when it is run.

    Raises ArtifactError where formulas have no values for them.
    """
    if not plan.dims:
        return plan
    found = values(plan.formulas, known)
    buffers = [
        buffer if buffer.bytes >= 0 else replace(buffer, bytes=bound(buffer.bytes, found))
        for buffer in plan.buffers
    ]
    placed, arena = _placed(buffers, plan.steps)

    def spec(one: TensorSpec) -> TensorSpec:
        return replace(one, shape=tuple(bound(n, found) for n in one.shape))

    return Plan(
        tuple(spec(one) for one in plan.inputs),
        tuple(spec(one) for one in plan.outputs),
        arena,
        tuple(placed),
        plan.steps,
        limits=tuple((number, bound(most, found)) for number, most in plan.limits),
    )


def _placed(buffers: Sequence[Buffer], steps: Sequence[AnyStep]) -> tuple[list[Buffer], int]:
    """The buffers with their offsets in the arena, and the arena's bytes.

    Larger ones first, each at the lowest offset that is free while the buffer is live: from the
    first step that names it to the last. Control flow is one step with all that is in it.
    """
    lives: dict[int, tuple[int, int]] = {}
    for place, step in enumerate(steps):
        for number in (n for one in walk([step]) for n in named_buffers(one)):
            lives[number] = (lives.get(number, (place, place))[0], place)
    numbers = [n for n in lives if buffers[n].kind == "arena"]
    result = list(buffers)
    done: list[int] = []
    end = 0
    for number in sorted(numbers, key=lambda n: (-buffers[n].bytes, lives[n])):
        first, last = lives[number]
        taken = sorted(
            (result[n].offset, result[n].bytes)
            for n in done
            if lives[n][0] <= last and first <= lives[n][1]
        )
        offset = 0
        for start, size in taken:
            if offset + buffers[number].bytes <= start:
                break
            offset = max(offset, ceil_div(start + size, ALIGNMENT) * ALIGNMENT)
        result[number] = replace(buffers[number], offset=offset)
        end = max(end, offset + buffers[number].bytes)
        done.append(number)
    unused = [n for n, b in enumerate(buffers) if b.kind == "arena" and n not in lives]
    for number in unused:
        result[number] = replace(buffers[number], offset=0, bytes=0)
    return result, end
