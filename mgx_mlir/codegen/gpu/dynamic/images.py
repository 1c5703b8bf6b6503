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
from mgx_mlir.codegen.refusal import Refusal
from mgx_mlir.dialects import mgx
from mgx_mlir.rewriting import symbolic as symbolic
from mgx_mlir.sizes.arithmetic import Number, Size

_ANCHORS = (*mgx.CONVOLUTIONS, mgx.PoolingOp)
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
        anchors = [op for op in kernel.regions[0].blocks[0].operations if isinstance(op, _ANCHORS)]
        if not anchors:
            return None
        anchor = anchors[0].OPERATION_NAME
        images = _images(kernel)
        if isinstance(images, Refusal):
            return images.of(anchor)
        _module, one = _one_image(kernel)  # the module owns the kernel
        _, (inputs, results) = signature(kernel)
        steps: dict[Argument, int] = {}
        tensors = [(Argument("input", number), type_) for number, type_ in enumerate(inputs)]
        tensors += [(Argument("output", number), type_) for number, type_ in enumerate(results)]
        for argument, type_ in tensors:
            if _has_images(type_):
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
                found = DynamicProgram.of(program, kernel, formulas)
                return Generated(found, f"{made.schedule}, for each of any number of images")
            refusals += [str(made)] if made is not None else []
        return Refusal("; ".join(refusals) or f"{anchor}: no family of kernels takes one image")


def _images(kernel: mgx.KernelOp) -> Number | Refusal:
    """The number of images of a kernel, or why it does not work image by image."""
    *ops, _ = block = list(kernel.regions[0].blocks[0].operations)
    values = [*kernel.regions[0].blocks[0].arguments]
    values += [result for op in block for result in op.results]
    counts: dict[str, Number] = {}
    for value in values:
        if not isinstance(value.type, ir.RankedTensorType):
            return Refusal("values that are no tensors")
        if any(isinstance(size, Size) for size in sizes_of(value.type)):
            first, *others = sizes_of(value.type)
            if any(isinstance(size, Size) for size in others):
                return Refusal("a size that is an argument other than the number of images")
            counts[str(first)] = first
    if len(counts) != 1:
        return Refusal("sizes that are not the number of images")
    (images,) = counts.values()
    if not isinstance(images, Size):
        return Refusal("sizes that are not the number of images")
    _, (_, results) = signature(kernel)
    if not all(_has_images(type_) for type_ in results):
        return Refusal("results of no image")
    if not all(_is_by_image(op) for op in ops):
        return Refusal("work that is not done image by image")
    return images


def _has_images(type_: ir.Type) -> bool:
    return any(isinstance(size, Size) for size in sizes_of(type_))


def _is_by_image(op: ir.OpView) -> bool:
    """Whether each image of a result depends only on that of the operands, and all in one way.

    In operands and results with images, the first dimension counts them.
    """
    mixed = [value for value in op.operands if _has_images(value.type)]
    if not mixed:
        # Either no result has images, or a broadcast repeats one value for all of them.
        return isinstance(op, mgx.BROADCASTS) or not any(
            _has_images(result.type) for result in op.results
        )
    if not all(_has_images(result.type) for result in op.results):
        return False
    ranks = [len(sizes_of(value.type)) for value in (*op.operands, *op.results)]
    if isinstance(op, _ANCHORS):
        return mixed == [op.operands[0]]
    if mgx.is_pointwise(op) or isinstance(op, (mgx.PointwiseOp, mgx.MultibroadcastOp)):
        return len(set(ranks)) == 1
    if isinstance(op, mgx.RESHAPES):
        return True
    if isinstance(op, mgx.TransposeOp):
        return op.permutation[0] == 0
    if isinstance(op, mgx.SliceOp):
        return 0 not in list(op.axes)
    return False


def _one_image(kernel: mgx.KernelOp) -> tuple[ir.Module, mgx.KernelOp]:
    """The kernel of one image, and the module that holds it."""
    module = ir.Module.create()
    copy = kernel.operation.clone(ip=ir.InsertionPoint(module.body))
    block = copy.regions[0].blocks[0]
    for value in (*block.arguments, *(r for op in block.operations for r in op.results)):
        value.set_type(_of_one(value.type))
    _, (inputs, results) = signature(kernel)
    type_ = ir.FunctionType.get([_of_one(t) for t in inputs], [_of_one(t) for t in results])
    copy.attributes["function_type"] = ir.TypeAttr.get(type_)
    one = copy.opview
    assert isinstance(one, mgx.KernelOp)
    return module, one


def _of_one(type_: ir.Type) -> ir.Type:
    if not _has_images(type_):
        return type_
    sizes: list[Number | None] = [1, *sizes_of(type_)[1:]]
    return symbolic.tensor_type(sizes, ir.RankedTensorType(type_).element_type)


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
