"""Convolutions and poolings of a dynamic number of images: static functions for one image.

    %y = mgx.convolution %x, %w ... : tensor<?x3x8x8xf32, #mgx.dims<[batch, _, _, _]>>, ...

The number of images must be the first dimension of each tensor that has it. Where no op mixes
images, the kernel of one image is a static one, for which the families have generators. The
launch multiplies the work-groups of its functions by the number of images. A work-group computes
the number of its image, and its pointers, those to scratch memory too, advance to it in 64 bits.

    x is image * X + x'    pointer + image * elements of an image

An image is a multiple of 16 bytes, so that vectors are aligned as in the first image. Runs for
which tiles are best have those of `products`, which cross from image to image.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field, replace
from functools import cache, cached_property, partial
from typing import TypeAlias

from mlir import ir
from mlir.dialects import arith

from mgx_mlir._native import _mgx
from mgx_mlir.artifact.code_object import Argument, Launch
from mgx_mlir.artifact.formulas import Formulas
from mgx_mlir.artifact.schedule import Schedule
from mgx_mlir.artifact.target import Target
from mgx_mlir.capabilities import CHUNK_BYTES
from mgx_mlir.codegen.choice import Offer, steered, steering
from mgx_mlir.codegen.gpu.builders import memory
from mgx_mlir.codegen.gpu.builders.function import element_bytes, signature
from mgx_mlir.codegen.gpu.builders.program import Generated, GpuProgram, aligned, in_turn
from mgx_mlir.codegen.gpu.families import pooling
from mgx_mlir.codegen.gpu.families.contraction.choices import BATCHES
from mgx_mlir.codegen.gpu.families.contraction.kernel import best_plan, kernel_request
from mgx_mlir.codegen.gpu.families.contraction.operands import SymbolicProduct, match_product
from mgx_mlir.codegen.gpu.families.contraction.products import ProductKernel, product_kernel
from mgx_mlir.codegen.gpu.families.contraction.recipes.tiles import Tiles
from mgx_mlir.codegen.gpu.families.family import Family
from mgx_mlir.codegen.meaning.element import bit_width, element_of, sizes_of
from mgx_mlir.codegen.problem.images import ANCHORS, has_images, images_of, of_images
from mgx_mlir.codegen.refusal import Refusal
from mgx_mlir.codegen.regimes import Regime, counted, scheduled
from mgx_mlir.dialects import mgx
from mgx_mlir.sizes.arithmetic import Number


def images_program(kernel: mgx.KernelOp, target: Target) -> Generated[GpuProgram] | Refusal | None:
    """The program of an `mgx.kernel` with symbolic sizes, and the schedule in words.

    A Refusal of kernels that do not work image by image; None where the kernel holds neither
    convolution nor pooling.
    """
    with kernel.context, kernel.location:
        anchors = [op for op in kernel.regions[0].blocks[0].operations if isinstance(op, ANCHORS)]
        if not anchors:
            return None
        anchor = anchors[0].OPERATION_NAME
        images = images_of(kernel)
        if isinstance(images, Refusal):
            return images.of(anchor)
        _, (inputs, results) = signature(kernel)
        steps: dict[Argument, int] = {}
        tensors = [(Argument("input", number), type_) for number, type_ in enumerate(inputs)]
        tensors += [(Argument("output", number), type_) for number, type_ in enumerate(results)]
        for argument, type_ in tensors:
            if has_images(type_):
                step = math.prod(sizes_of(type_)[1:])
                assert isinstance(step, int)  # one image has no symbolic sizes
                if step * element_bytes(element_of(type_)) % CHUNK_BYTES:
                    return Refusal(f"{anchor}: images that are no multiples of {CHUNK_BYTES} bytes")
                steps[argument] = step
        return _Images(kernel, images, steps, target).program()


# A schedule for each image, or tiles across images, as for runs of so many.
Way: TypeAlias = "Schedule | int"


def _steered(schedule: Schedule | None) -> AbstractContextManager[object]:
    """A context whose choices take the schedule, but for those that are steered already."""
    return steered(schedule) if steering() is None else nullcontext()


@dataclass
class _Images:
    """A kernel of any number of images. steps: elements of one, of each tensor that has some."""

    kernel: mgx.KernelOp
    images: Number
    steps: Mapping[Argument, int]
    target: Target
    formulas: Formulas = field(default_factory=Formulas)

    @cached_property
    def _made(self) -> Callable[[int], tuple[ir.Module, mgx.KernelOp]]:
        """The kernel of so many images, and the module that owns it."""
        return cache(partial(of_images, self.kernel))

    @cached_property
    def _best(self) -> Callable[[int], Offer | Refusal]:
        """The best plan for runs of so many images."""
        return cache(self._offer)

    def program(self) -> Generated[GpuProgram] | Refusal:
        made = pooling.FAMILY.program(self._made(1)[1], self.target)
        if isinstance(made, Generated):
            return self._generated(self._each(made.program, 1), made.schedule)
        if made is not None:
            return made
        found: list[tuple[Way, Regime]] | Refusal
        found = scheduled(counted(self.images, BATCHES), self._choose, self._clocks, beyond=True)
        if isinstance(found, Refusal):
            return found
        programs, words = [], []
        tiles = [replace(regime, usual=way) for way, regime in found if isinstance(way, int)]
        for number, (way, regime) in enumerate(found):
            if isinstance(way, int):
                continue
            offer = self._offer(1, way, f"{self.kernel.sym_name.value}_{number}")
            if isinstance(offer, Refusal):
                return offer
            programs.append(self._each(offer.generate(), regime.share))
            words.append(offer.schedule)
        if tiles:
            assert isinstance(self.across, ProductKernel)
            across = self.across.generated(tiles, self.formulas)
            if isinstance(across, Refusal):
                return across
            programs.append(across.program)
            words.append(across.schedule)
        return self._generated(in_turn(programs, self.formulas), ", or ".join(words))

    def _generated(self, program: GpuProgram, words: str) -> Generated[GpuProgram]:
        found = GpuProgram.of(program, self.formulas)
        return Generated(found, f"{words}, for each of any number of images")

    def _offer(
        self, count: int, schedule: Schedule | None = None, name: str = ""
    ) -> Offer | Refusal:
        """The best plan for runs of so many images, of a schedule where it has that."""
        request = kernel_request(self._made(count)[1], self.target)
        if request is None or isinstance(request, Refusal):
            return request or Refusal(f"no family of kernels takes {count} images")
        with _steered(schedule):
            return best_plan(replace(request, name=name or request.name))

    @cached_property
    def across(self) -> ProductKernel | Refusal:
        """The kernel as a product of all images' pixels."""
        problem = match_product(self.kernel)
        if not isinstance(problem, SymbolicProduct) or problem.along is None:
            return Refusal("images that are no neighbours in the product")
        return product_kernel(self.kernel, problem, self.target)

    def _choose(self, count: int) -> Way | Refusal:
        """The best way for runs of so many images."""
        offer = self._best(count)
        if isinstance(offer, Refusal):
            return offer
        if isinstance(offer.plan, Tiles) and isinstance(self.across, ProductKernel):
            tiling = offer.plan.tiling
            with _steered(Schedule("", tiling.schedule.describe(tiling.unit))):
                for choice in self.across.choices:
                    choice.best(count)
            return count
        one = self._offer(1, Schedule(offer.variant, offer.schedule)) if count > 1 else offer
        return one if isinstance(one, Refusal) else Schedule(one.variant, one.schedule)

    def _clocks(self, way: Way, count: int) -> float:
        """The estimate of a way for runs of so many images."""
        if isinstance(way, int):
            assert isinstance(self.across, ProductKernel)
            # Many small tiles take longer than by the estimate, which knows no cache of a unit.
            return self.across.clocks(way, count) if count <= way else math.inf
        offer = self._offer(count, way)
        if isinstance(offer, Refusal) or way != Schedule(offer.variant, offer.schedule):
            return math.inf
        return offer.clocks

    def _each(self, program: GpuProgram, share: Number) -> GpuProgram:
        """The program of many images, from that of one, whose functions change in place."""
        scratch = aligned(program.scratch_bytes)
        launches = {launch.function: launch for launch in program.launches}
        for outer in program.module.body.operations:
            for op in outer.operation.regions[0].blocks[0].operations:
                if op.operation.name == "gpu.func":
                    launch = launches[ir.StringAttr(op.attributes["sym_name"]).value]
                    _move(op.operation, launch, self.steps, scratch)
        count, made = share * self.images, []
        for launch in program.launches:
            x, y, z = launch.grid
            arguments = tuple(
                replace(a, index=self.formulas.number(count * a.index))
                if a.kind == "counters" else a
                for a in launch.arguments
            )  # fmt: skip
            grid = self.formulas.number(count * x), y, z
            made.append(replace(launch, grid=grid, arguments=arguments))
        bytes_ = self.formulas.number(count * scratch)
        return replace(program, launches=tuple(made), scratch_bytes=bytes_)


def _move(
    function: ir.Operation, launch: Launch, steps: Mapping[Argument, int], scratch: int
) -> None:
    """Advances a function's pointers to its work-group's image: x counts work-groups of all."""
    if "known_grid_size" in function.attributes:
        del function.attributes["known_grid_size"]
    entry = function.regions[0].blocks[0]
    assert not _mgx.ops_inside(function, ["gpu.grid_dim", "gpu.global_id"])
    found = [
        op for op in _mgx.ops_inside(function, ["gpu.block_id"])
        if str(op.attributes["dimension"]) == "#gpu<dim x>"
    ]  # fmt: skip
    index, i64 = ir.IndexType.get(), ir.IntegerType.get_signless(64)
    with ir.InsertionPoint.at_block_begin(entry), ir.Location.unknown():
        attributes = {"dimension": ir.Attribute.parse("#gpu<dim x>")}
        block = ir.Operation.create("gpu.block_id", results=[index], attributes=attributes).result
        blocks = arith.constant(index, launch.grid[0])
        image = block if launch.grid[0] == 1 else arith.divui(block, blocks)
        own = arith.remui(block, blocks) if found else block
        image = arith.index_castui(i64, image)
        for pointer, argument in zip(entry.arguments, launch.arguments, strict=False):
            if argument.kind == "scratch":
                width = bit_width(ir.MemRefType(pointer.type).element_type)
                step = scratch * 8 // width
            elif argument.kind == "counters":
                step = argument.index
            elif argument in steps:
                step = steps[argument]
            else:
                continue
            uses = [(use.owner, use.operand_number) for use in pointer.uses]
            moved = memory.moved(pointer, arith.muli(image, arith.constant(i64, step)))
            for user, position in uses:
                user.operation.operands[position] = moved
    for op in found:
        op.results[0].replace_all_uses_with(own)
        op.erase()


FAMILY = Family("images", 10, images_program, symbolic=True, given=False)
