"""The legal schedules of a kernel for a chip, with their estimates: all that tuning tries."""

from __future__ import annotations

import math
from dataclasses import dataclass

from mgx_mlir.artifact.schedule import Schedule
from mgx_mlir.artifact.target import Target
from mgx_mlir.codegen.choice import Candidate, Heard, Offer, heard, steered
from mgx_mlir.codegen.gpu.builders.program import Generated
from mgx_mlir.codegen.gpu.families.family import Family
from mgx_mlir.codegen.gpu.kernel import FAMILIES
from mgx_mlir.codegen.loops.kernel import is_symbolic
from mgx_mlir.codegen.meaning.native import native_floats
from mgx_mlir.codegen.refusal import Refusal
from mgx_mlir.dialects import mgx


@dataclass(frozen=True)
class Option:
    """A schedule and its estimate in clocks; infinite where its variant has none."""

    schedule: Schedule
    clocks: float


@dataclass(frozen=True)
class Space:
    """The schedules of a kernel by estimate, the least first. The first one of `options` of the
    variant that is taken has the best estimate, and is the untuned choice unless it spills."""

    family: str
    options: tuple[Option, ...]


def space_of(kernel: mgx.KernelOp, target: Target) -> Space | None:
    """The schedules that the kernel's family compares; None where there is nothing to choose.

    Kernels whose sizes are arguments have none: their times depend on the sizes of a run.
    """
    if is_symbolic(kernel):
        return None
    for family in FAMILIES:
        with heard() as found:
            made = _generated(family, kernel, target)
        if not isinstance(made, Generated):
            continue
        options = _of_choices("", found, made.schedule)
        for name, clocks in _offers(found).items():
            with steered(Schedule(name)), heard() as inner:
                alone = _generated(family, kernel, target)
            if isinstance(alone, Generated):
                of_variant = _of_choices(name, inner, alone.schedule)
                options |= of_variant or {Schedule(name): clocks}
        ordered = sorted(options.items(), key=lambda pair: pair[1])
        return Space(family.name, tuple(Option(*pair) for pair in ordered)) if options else None
    return None


def _generated(
    family: Family, kernel: mgx.KernelOp, target: Target
) -> Generated[object] | Refusal | None:
    with native_floats(target.features):
        return family.program(kernel, target)


def _offers(found: Heard) -> dict[str, float]:
    """The variants that offered a schedule, and its estimate."""
    return {
        name: math.inf if answer.clocks is None else answer.clocks
        for variants in found.variants
        for name, answer in variants.answers.items()
        if isinstance(answer, Offer)
    }


def _of_choices(variant: str, found: Heard, taken: str) -> dict[Schedule, float]:
    """The estimates of a variant's schedules; `taken` is the one that was taken, in words.

    A variant compares its estimate with those of others: their choices are left out.
    """
    if found.variants:
        return {}  # the schedules of each variant are listed by its name
    relevant: list[Candidate] = []
    for choice in reversed(found.choices):
        known = {one.words for one in relevant}
        if any(one.words in taken or one.words in known for one in choice.candidates):
            relevant += choice.candidates
    estimates: dict[Schedule, float] = {}
    for one in relevant:
        schedule = Schedule(variant, one.words)
        estimates[schedule] = min(one.clocks, estimates.get(schedule, one.clocks))
    return estimates
