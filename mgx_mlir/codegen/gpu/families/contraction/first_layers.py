"""Convolutions of images of any size with three or four channels, a model's first layer.

    %y = mgx.convolution %x, %w ... : tensor<?x3x?x?xf32, #mgx.dims<[batch, _, h, w]>>, ...

The work-groups are those of given sizes (see the recipe `narrow`), by formulas. There is a function
for widths, of the image and of the results, that vectors divide, and one for others, of which a run
launches one. A tensor has at most 2^31 bytes.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import cast

from mlir import ir

from mgx_mlir.artifact.target import Target
from mgx_mlir.capabilities import CHUNK_BYTES
from mgx_mlir.codegen.builders import emit
from mgx_mlir.codegen.gpu.builders.function import signature
from mgx_mlir.codegen.gpu.builders.launches import Launches
from mgx_mlir.codegen.gpu.builders.pointers import forwards, value_of
from mgx_mlir.codegen.gpu.builders.program import Generated, GpuProgram
from mgx_mlir.codegen.gpu.builders.units import unit_for
from mgx_mlir.codegen.gpu.families.contraction.constraints import MAX_BATCH, image_in_memory
from mgx_mlir.codegen.gpu.families.contraction.convolution import (
    Product,
    in_place,
    side_by_side,
    stored_along,
)
from mgx_mlir.codegen.gpu.families.contraction.function import Tensors
from mgx_mlir.codegen.gpu.families.contraction.recipes.narrow import best_of, narrow_refusal
from mgx_mlir.codegen.gpu.families.contraction.recipes.narrow_block import Narrow
from mgx_mlir.codegen.gpu.families.contraction.variants import Multiples
from mgx_mlir.codegen.gpu.families.family import Family, Matched
from mgx_mlir.codegen.meaning.element import sizes_of
from mgx_mlir.codegen.problem.match import Match, match_convolution, used_arguments
from mgx_mlir.codegen.problem.problem import Axis, ComputedImage, Dimension, Image
from mgx_mlir.codegen.refusal import Refusal
from mgx_mlir.dialects import mgx
from mgx_mlir.rewriting.symbolic import named_symbols
from mgx_mlir.sizes.arithmetic import Number

# The height and width of images that schedules are chosen for.
_USUAL = 128


@dataclass(frozen=True)
class _Problem:
    """A convolution of few channels, and its product."""

    name: str
    match: Match
    product: Product
    transposed: bool


def _match(kernel: mgx.KernelOp) -> _Problem | Refusal | None:
    found = match_convolution(kernel)
    if found is None or not isinstance(found[1].problem.b, Image):
        return None
    name, match = found
    product = in_place(match)
    if isinstance(product, Refusal):
        return product.of(name)
    plain = side_by_side(product)
    along = stored_along(plain)
    return _Problem(name, match, along, along is not plain)


def _program(
    kernel: mgx.KernelOp, found: _Problem, target: Target
) -> Generated[GpuProgram] | Refusal:
    _, (inputs, _) = signature(kernel)
    problem, image = found.match.problem, image_in_memory(found.match.problem.b)
    unit = unit_for(target, problem.a.element, problem.accumulator, problem.b.element)
    if unit is None or image is None:
        return Refusal(f"{target.name}: no instruction for the image")
    sizes = [cast(int, math.prod(sizes_of(type_))) for type_ in inputs]
    if refusal := narrow_refusal(found.match, sizes, unit):
        return refusal
    if not forwards(*image.axes):
        return Refusal("images that are read backwards")
    plans, values = [], 1 if found.transposed else unit.values
    aligned, even = _aligned(image, values)
    computed = problem.b if isinstance(problem.b, ComputedImage) else None
    for own in (image, aligned):
        how = found.product, _usual(own, inputs), unit, target, 1, 1
        best = best_of(Narrow(*how, computed, problem.a, found.transposed))
        if isinstance(best, Refusal):
            return best
        plans.append(replace(best, image=own))
    used = [number for number, _ in used_arguments(found.match)]
    launches = Launches(kernel, inputs_first=True)
    shares: list[Number] = [1 - even, even]
    for share, plan in zip(shares, plans, strict=True):
        groups = plan.groups
        assert groups.lds is not None
        lds = [(groups.lds[0], emit.element_type(groups.lds[1]))]
        grid = (share * groups.grid[0], *groups.grid[1:])
        launches.limit(*(MAX_BATCH - share * n for n in grid[1:]))
        read, written = launches.inputs(used), launches.results
        with launches.function(read, written, groups.threads, grid, lds) as (_, frame):
            pointers = dict(zip(used, frame.pointers, strict=False))
            plan.emit(Tensors(pointers, frame.pointers[len(used) :], frame.lds[0]))
    words = ", or ".join(dict.fromkeys(plan.describe() for plan in plans))
    if refusal := launches.refusal():
        return refusal
    return Generated(launches.program(), f"any sizes, {words}")


def _aligned(image: Image, values: int) -> tuple[Image, Number]:
    """The image whose width and strides vectors of 16 bytes divide, and a number that is 1 where
    they do, and else 0. Strides are no multiples of the width where the image is a part of another.

    `values`: the results of a lane, which divide the rows of results.
    """
    multiples = Multiples(CHUNK_BYTES // emit.element_bytes(image.element))

    def whole(number: int, part: int = 0) -> int:
        return number if isinstance(number, int) else multiples(number, part)

    rows, columns = (replace(dim, stride=whole(dim.stride)) for dim in image.dims)
    wide = whole(columns.size), whole(columns.outputs, values)
    columns = replace(columns, size=wide[0], outputs=wide[1])
    return replace(_with_strides(image, whole), dims=(rows, columns)), multiples.holds


def _usual(image: Image, inputs: Sequence[ir.Type]) -> Image:
    """The image of the sizes that schedules are chosen for."""
    known = named_symbols(inputs)

    def at(number: Number) -> int:
        return value_of(number, known, _USUAL)

    def dim(x: Dimension) -> Dimension:
        return replace(x, size=at(x.size), outputs=at(x.outputs), stride=at(x.stride))

    found = _with_strides(image, at).with_dims(dim)
    return replace(found, batch=Axis(tuple((1, stride) for _, stride in found.batch.factors)))


def _with_strides(image: Image, change: Callable[[int], int]) -> Image:
    """The image with other strides of images and of channels."""
    batch, channel = (
        Axis(tuple((n, change(stride)) for n, stride in axis.factors))
        for axis in (image.batch, image.channel)
    )
    return replace(image, batch=batch, channel=channel)


FAMILY = Family("first_layers", 21, Matched(_match, _program), symbolic=True, given=False)
