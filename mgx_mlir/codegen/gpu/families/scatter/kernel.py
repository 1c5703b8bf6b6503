"""Whether the scatter family takes a kernel, by which method, and the kernel's functions."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from mgx_mlir.artifact.target import Target
from mgx_mlir.capabilities import MAX_BYTES
from mgx_mlir.codegen.gpu.builders.launches import Launches
from mgx_mlir.codegen.gpu.families.family import Family, Scheduled
from mgx_mlir.codegen.gpu.families.scatter.generator import Generator, build
from mgx_mlir.codegen.gpu.families.scatter.match import MAX_POINTS, Scatter, match_scatter
from mgx_mlir.codegen.gpu.families.scatter.ordered import build_ordered, build_sums
from mgx_mlir.codegen.refusal import Refusal
from mgx_mlir.dialects import mgx
from mgx_mlir.sizes.arithmetic import Size


@dataclass(frozen=True)
class _Method:
    """A method in words, and the function that adds its functions to a generator's."""

    words: str
    build: Callable[[Generator, Target], None]

    def describe(self) -> str:
        return self.words


def choose(scatter: Scatter, target: Target) -> _Method | Refusal:
    """The method that the kind of update asks for."""
    if any(isinstance(size, Size) for size in (scatter.size, scatter.points)):
        if scatter.ordered:
            return Refusal("updates in their order")
    elif max(scatter.size, scatter.points) * 8 > MAX_BYTES:
        # Scratch memory holds up to 8 bytes for each element, or for each point.
        size = max(scatter.size, scatter.points)
        return Refusal(f"{size} elements are more than 31-bit offsets reach")
    into = f"{scatter.points} runs of {scatter.run} into {scatter.slots} slots"
    if scatter.ordered:
        return _Method(f"{into}: in their order", build_ordered)
    if scatter.kind == "add" and scatter.element.is_float:
        return _Method(f"{into}: exact sums", lambda generator, _: build_sums(generator))
    how = "the last of a slot" if scatter.kind == "none" else "atomics"
    return _Method(f"{into}: {how}", lambda generator, _: build(generator))


def _build(scatter: Scatter, launches: Launches, method: _Method, target: Target) -> None:
    method.build(Generator(scatter, launches), target)


def _launches(kernel: mgx.KernelOp, scatter: Scatter) -> Launches:
    limits = [MAX_POINTS - 1 - scatter.points * scatter.run]
    # Sums of a given number of points are exact whatever it is (see sums).
    limits = [limit for limit in limits if isinstance(limit, Size)]
    return Launches(kernel, scatter.overwritable, limits=limits)


program = Scheduled(match_scatter, choose, _build, launches=_launches)
FAMILY = Family("scatter", 120, program, symbolic=True)
