"""Convolutions of images of any size by Winograd's formula, where a run has many pixels.

    %y = mgx.convolution %x, %w {channels_last, relaxed} : tensor<?x?x?x64xf32>, ...

The schedule is that of a usual image. Runs of few pixels take the product of windows.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from mlir import ir

from mgx_mlir.codegen.builders import emit
from mgx_mlir.codegen.cpu.epilogue import Epilogue
from mgx_mlir.codegen.cpu.nests import Functions
from mgx_mlir.codegen.cpu.pixels import Pixels, as_rows, least_tile_cost, match_pixels
from mgx_mlir.codegen.cpu.schedule import Machine
from mgx_mlir.codegen.cpu.windows import WindowProduct, add_windows
from mgx_mlir.codegen.cpu.winograd import emit_filters, emit_winograd
from mgx_mlir.codegen.cpu.winograd_schedule import ELEMENT, WinogradSchedule, choose_winograd
from mgx_mlir.codegen.loops.body import Place
from mgx_mlir.codegen.problem.match import Match, used_arguments
from mgx_mlir.codegen.problem.problem import Axis, Image
from mgx_mlir.codegen.refusal import Refusal
from mgx_mlir.sizes.arithmetic import is_more

# The side of the image that a schedule is chosen for, and the pixels of a run from which it pays.
USUAL_SIDE, MANY = 28, 256


@dataclass(frozen=True)
class OpenWinograd:
    """A convolution, `match`, that takes the formula for many pixels of a run, else `product`."""

    match: Match
    product: WindowProduct
    pixels: Pixels
    plan: WinogradSchedule


def open_winograd(match: Match, product: WindowProduct, machine: Machine) -> OpenWinograd | None:
    """A convolution of images of any size; None for one that does not gain."""
    if not match.relaxed or match.added or type(match.problem.b) is not Image:
        return None
    pixels = match_pixels(match, machine)
    if pixels is None or product.pixels is not None or product.turned:
        return None
    side, scene = USUAL_SIDE, pixels.scene
    around = side + 2 - 2 * scene.pads[0], side + 2 - 2 * scene.pads[1]
    usual = replace(scene, sizes=around, outputs=(side, side), batch=Axis(()))
    problem = replace(pixels.problem, batch=1, N=side * side)
    given = replace(pixels, problem=problem, scene=usual)
    answer = choose_winograd(given, machine)
    if isinstance(answer, Refusal) or answer[0] >= problem.K * least_tile_cost(given, machine):
        return None
    return OpenWinograd(match, product, pixels, answer[1])


def add_winograd(
    functions: Functions,
    found: OpenWinograd,
    inputs: Mapping[int, Place],
    outputs: Sequence[Place],
    machine: Machine,
) -> None:
    """Adds the functions of a convolution, and those of its product for few pixels."""
    pixels, plan = found.pixels, found.plan
    many = is_more(found.product.rows, MANY - 1)
    add_windows(functions, found.product, inputs, outputs, machine, 1 - many)
    size = plan.filter_size(pixels)
    made = Place(emit.element_type(ELEMENT), size)

    def transform(pointers: Sequence[ir.Value], begin: ir.Value, end: ir.Value) -> None:
        source, target = pointers
        emit_filters(pixels, plan, source, target, begin, end)

    weights = inputs[pixels.filters.argument]
    kept = size * emit.element_bytes(ELEMENT)
    functions.add_on([weights, made], plan.filter_items(pixels), transform, kept)
    used = [number for number, _ in used_arguments(found.match)]

    def body(pointers: Sequence[ir.Value], begin: ir.Value, end: ir.Value) -> None:
        read = dict(zip(used, pointers, strict=False))
        epilogue = Epilogue(as_rows(found.match), read, pointers[len(used) : -1])
        image = read[pixels.scene.argument]
        emit_winograd(pixels, plan, pointers[-1], image, epilogue, begin, end)

    places = [*(inputs[number] for number in used), *outputs, made]
    functions.add_on(places, many * plan.items(pixels), body)
