"""Convolutions and poolings of a dynamic number of images: static functions for one image.

    %y = mgx.convolution %x, %w ... : tensor<?x3x8x8xf32, #mgx.dims<[batch, _, _, _]>>, ...

The number of images must be the first dimension of each tensor that has it. Where no op mixes
images, the kernel of one image is a static one, for which the families have generators. The
launch multiplies the work-groups of its functions by the number of images. A work-group computes
the number of its image, and its pointers, those to scratch memory too, advance to it in 64 bits.

    x is image * X + x'    pointer + image * elements of an image

An image is a multiple of 16 bytes, so that vectors are aligned as in the first image.
"""

from __future__ import annotations

import math
from dataclasses import replace

from mlir import ir
from mlir.dialects import arith

from mgx_mlir.artifact.code_object import Argument, Launch
from mgx_mlir.artifact.formulas import Formulas
from mgx_mlir.artifact.target import Target
from mgx_mlir.capabilities import CHUNK_BYTES
from mgx_mlir.codegen.generic.buffers.memory import bit_width
from mgx_mlir.codegen.generic.lowering.element import element_of, sizes_of
from mgx_mlir.codegen.gpu.builders import memory
from mgx_mlir.codegen.gpu.builders.function import element_bytes, signature
from mgx_mlir.codegen.gpu.builders.program import Generated, GpuProgram, aligned
from mgx_mlir.codegen.gpu.dynamic.program import DynamicProgram
from mgx_mlir.codegen.gpu.families.contraction import kernel as contraction
from mgx_mlir.codegen.gpu.families.contraction import reduced
from mgx_mlir.codegen.gpu.families.family import Family
from mgx_mlir.codegen.gpu.families.pooling import generator as pooling
from mgx_mlir.codegen.problem.images import ANCHORS, has_images, images_of, one_image
from mgx_mlir.codegen.refusal import Refusal
from mgx_mlir.dialects import mgx
from mgx_mlir.rewriting import symbolic as symbolic
from mgx_mlir.sizes.arithmetic import Number

# The families that the kernel of one image is offered to, in this order.
_OF_ONE_IMAGE = (reduced.FAMILY, contraction.FAMILY, pooling.FAMILY)


def dynamic_images_program(
    kernel: mgx.KernelOp, target: Target
) -> Generated[DynamicProgram] | Refusal | None:
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
        _module, one = one_image(kernel)  # the module owns the kernel
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
        refusals = []
        for family in _OF_ONE_IMAGE:
            made = family.program(one, target)
            if isinstance(made, Generated):
                formulas = Formulas()
                program = _of_images(made.program, images, steps, formulas)
                found = DynamicProgram.of(program, formulas)
                return Generated(found, f"{made.schedule}, for each of any number of images")
            refusals += [str(made)] if made is not None else []
        return Refusal("; ".join(refusals) or f"{anchor}: no family of kernels takes one image")


def _of_images(
    program: GpuProgram, images: Number, steps: dict[Argument, int], formulas: Formulas
) -> GpuProgram:
    """The program of many images, from that of one, whose functions change in place.

    steps: elements of an image, for each input and result that has images.
    """
    scratch = aligned(program.scratch_bytes)
    launches = {launch.function: launch for launch in program.launches}
    for outer in program.module.body.operations:
        for op in outer.operation.regions[0].blocks[0].operations:
            if op.operation.name == "gpu.func":
                launch = launches[ir.StringAttr(op.attributes["sym_name"]).value]
                _move(op.operation, launch, steps, scratch)
    made = []
    for launch in program.launches:
        x, y, z = launch.grid
        made.append(replace(launch, grid=(formulas.number(images * x), y, z)))
    return replace(program, launches=tuple(made), scratch_bytes=formulas.number(images * scratch))


def _move(function: ir.Operation, launch: Launch, steps: dict[Argument, int], scratch: int) -> None:
    """Advances a function's pointers to its work-group's image: x counts work-groups of all."""
    if "known_grid_size" in function.attributes:
        del function.attributes["known_grid_size"]
    entry = function.regions[0].blocks[0]
    found: list[ir.Operation] = []

    def visit(op: ir.Operation) -> ir.WalkResult:
        if op.name == "gpu.block_id" and str(op.attributes["dimension"]) == "#gpu<dim x>":
            found.append(op)
        assert op.name not in ("gpu.grid_dim", "gpu.global_id")
        return ir.WalkResult.ADVANCE

    function.walk(visit)
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


FAMILY = Family("images", 10, dynamic_images_program)
