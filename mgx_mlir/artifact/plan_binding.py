"""A plan's sizes: the symbols that shapes give, and texts for people."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from mgx_mlir.artifact.formulas import bound, values
from mgx_mlir.artifact.plan import Plan, TensorSpec
from mgx_mlir.errors import ArtifactError, UsageError
from mgx_mlir.sizes.arithmetic import Symbol
from mgx_mlir.text import name_text

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


def beyond_limits(plan: Plan, inputs: Mapping[str, np.ndarray]) -> str:
    """The input whose value is more than a program takes; "" where there is none."""
    if not plan.limits:
        return ""
    known = sizes_of(plan, {spec.name: inputs[spec.name].shape for spec in plan.inputs})
    found = values(plan.formulas, known)
    for number, limit in plan.limits:
        name, most = plan.inputs[number].name, bound(limit, found)
        if (value := int(np.asarray(inputs[name]).item())) > most:
            return f"input '{name}' is {value}, and the program takes {most} at most"
    return ""


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
