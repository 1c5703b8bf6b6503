"""Convolutions of images with three or four channels, a model's first layer, by one function.

A work-group loads the pixels under its windows to LDS, where a pixel has four elements. It loads
its filters to registers in the layout of the matrix cores: in a step, each lane has one tap, a
pixel, of its row of results and of its filter. Pixels that one row of results needs at once lie
together in LDS: every second pixel, where windows move by two.

Filters have four channels too (see mgx-layout-weights). Where three are in use, the fourth may
have any value. Pixels of another float type are converted on their way to LDS, as those of an f32
input of an f16 model.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from mgx_mlir.capabilities import PIXEL_CHANNELS
from mgx_mlir.codegen.builders import emit
from mgx_mlir.codegen.choice import least
from mgx_mlir.codegen.gpu.builders.units import Unit
from mgx_mlir.codegen.gpu.families.contraction.constraints import image_in_memory
from mgx_mlir.codegen.gpu.families.contraction.convolution import PACKED_FILTER, PACKED_IMAGE, split
from mgx_mlir.codegen.gpu.families.contraction.plan import Recipe, Request
from mgx_mlir.codegen.gpu.families.contraction.recipes.images import pixel_group
from mgx_mlir.codegen.gpu.families.contraction.recipes.narrow_block import Narrow
from mgx_mlir.codegen.problem.match import Match
from mgx_mlir.codegen.problem.problem import ComputedImage, Image, Matrix
from mgx_mlir.codegen.refusal import Refusal
from mgx_mlir.sizes.arithmetic import ceil_div

_FLOATS = {"bf16", "f16", "f32"}
MOST_WAVES = 4
# Registers for a lane's filters, and for these and the pixels that a thread takes to LDS.
MOST_FILTERS, MOST_WAITING = 112, {"mfma": 160, "wmma": 128}


def narrow_refusal(match: Match, sizes: Sequence[int], unit: Unit) -> Refusal | None:
    """Why such work-groups do not serve a convolution; None where they do.

    sizes: elements of each input.
    """
    problem, image = match.problem, image_in_memory(match.problem.b)
    if image is None or match.added:
        return Refusal("no convolution of an image as it is, or converted")
    if image.channel.size not in (3, PIXEL_CHANNELS) or len(image.dims) != 2:
        return Refusal(f"{image.channel.size} channels, {len(image.dims)} dimensions")
    if image.dims[1].stride != 1 and (image.channel.stride, image.dims[1].stride) != (
        1,
        image.channel.size,
    ):
        return Refusal("pixels that lie apart")
    if unit.kind not in ("mfma", "wmma") or not {unit.element, image.element} <= _FLOATS:
        return Refusal("no matrix cores for the type")
    if unit.element != problem.b.element or problem.batch != image.batch.size:
        return Refusal("groups, or converted elements")
    if image.taps == 1 or image.dims[1].size == 1:
        return Refusal("no windows, or images of one column")
    if problem.a.batch.stride != 0:
        return Refusal("groups")
    a = problem.a
    channel, tap = split(a.column, image.channel.size)
    strides = [stride for axis in (a.row, tap) for _, stride in axis.factors]
    whole = all(x % PIXEL_CHANNELS == 0 for x in (a.offset, sizes[a.argument], *strides))
    if channel.stride != 1 or not whole:
        return Refusal(f"taps of filters that are not {PIXEL_CHANNELS} elements")
    return None


def as_narrow(request: Request) -> Narrow | Refusal:
    """The best such work-groups for a convolution and its product."""
    match, product, unit, target = request.match, request.exact, request.unit, request.target
    if not product.packings:
        return Refusal("operands that are read as they are")
    if refusal := narrow_refusal(match, request.sizes[0], unit):
        return refusal
    whole, image = match.problem.b, image_in_memory(match.problem.b)
    assert image is not None
    if pixel_group(image) * emit.element_bytes(image.element) < 8:
        return Refusal("pixels that are not read by 8 bytes")
    if not request.transposed and image.dims[1].outputs % unit.values:
        return Refusal("rows of results that are no multiple of a lane's")
    computed = whole if isinstance(whole, ComputedImage) else None
    # What the function reads in place of packed operands.
    read: dict[int, Matrix | Image] = {PACKED_IMAGE: image, PACKED_FILTER: match.problem.a}
    problem = product.match.problem
    assert isinstance(problem.b, Matrix)

    def unpacked(x: Matrix) -> Matrix:
        source = read.get(x.argument, x)
        return replace(x, argument=source.argument, element=source.element)

    a, b = unpacked(problem.a), unpacked(problem.b)
    inner = replace(product.match, problem=replace(problem, a=a, b=b))
    product = replace(product, match=inner, packings={})

    own = product, image, unit, target, 1, 1
    return best_of(Narrow(*own, computed, match.problem.a, request.transposed))


def best_of(plan: Narrow) -> Narrow | Refusal:
    """The best of the work-groups for the ways to divide the results."""
    found = [x for x in _cuts(plan) if _fits(x)]
    best = least(found, lambda x: x.clocks, Narrow.describe)
    return best or Refusal("no work-group that fits registers and LDS")


def _cuts(plan: Narrow) -> Iterator[Narrow]:
    """The ways to divide the results among work-groups."""
    rows, columns = plan.unit.rows, plan.image.dims[1].outputs
    total, parts = ceil_div(plan.count, rows), ceil_div(columns, rows)
    wides = sorted({ceil_div(parts, n) * rows for n in (1, 2, 3, 4, 8, 16)}, reverse=True)
    for tiles in (4, 3, 2, 1):
        for waves_n in (4, 2, 1) if total % tiles == 0 else ():
            if total // tiles % waves_n:
                continue
            waves_m = MOST_WAVES // waves_n
            for high in (waves_m * n for n in (1, 2, 4)):
                for wide in wides:
                    own = replace(plan, tiles=tiles, waves_m=waves_m, waves_n=waves_n)
                    yield replace(own, high=high, wide=min(wide, columns))


def _fits(found: Narrow) -> bool:
    image, target = found.image, found.target
    share = target.register_share
    pixels = found.turns * image.channel.size * found.group * found.pixel_size // 4
    if found.registers > MOST_FILTERS * share:
        return False
    if found.registers + pixels > MOST_WAITING[found.unit.kind] * share:
        return False
    if found.lds_elements * found.size > min(target.lds_bytes, 64 << 10) // 2:
        return False
    return found.blocks[2] == 1 or found.wide * image.dims[1].step % found.group == 0


RECIPE = Recipe("narrow", as_narrow)
