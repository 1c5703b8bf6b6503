"""Kernels of a dynamic number of images that no op mixes: the number, and the kernel of some.

    %y = mgx.convolution %x, %w ... : tensor<?x3x8x8xf32, #mgx.dims<[batch, _, _, _]>>, ...

The number of images is the first dimension of each tensor that has it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from mlir import ir

from mgx_mlir.codegen.meaning.element import sizes_of
from mgx_mlir.codegen.refusal import Refusal
from mgx_mlir.dialects import mgx
from mgx_mlir.rewriting import symbolic as symbolic
from mgx_mlir.sizes.arithmetic import Number, Size

ANCHORS = (*mgx.CONVOLUTIONS, mgx.PoolingOp)


def images_of(kernel: mgx.KernelOp) -> Number | Refusal:
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
    results = ir.FunctionType(kernel.function_type.value).results
    if not all(has_images(type_) for type_ in results):
        return Refusal("results of no image")
    if not all(_is_by_image(op) for op in ops):
        return Refusal("work that is not done image by image")
    return images


def has_images(type_: ir.Type) -> bool:
    """Whether a tensor has the dynamic number of images."""
    return any(isinstance(size, Size) for size in sizes_of(type_))


def _is_by_image(op: ir.OpView) -> bool:
    """Whether each image of a result depends only on that of the operands, and all in one way.

    In operands and results with images, the first dimension counts them.
    """
    mixed = [value for value in op.operands if has_images(value.type)]
    if not mixed:
        # Either no result has images, or a broadcast repeats one value for all of them.
        return isinstance(op, mgx.BROADCASTS) or not any(
            has_images(result.type) for result in op.results
        )
    if not all(has_images(result.type) for result in op.results):
        return False
    ranks = [len(sizes_of(value.type)) for value in (*op.operands, *op.results)]
    if isinstance(op, ANCHORS):
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


def of_images(kernel: mgx.KernelOp, count: int) -> tuple[ir.Module, mgx.KernelOp]:
    """The kernel of `count` images, and the module that holds it."""
    return of_sizes(kernel, lambda sizes: [count, *sizes[1:]])


def of_sizes(
    kernel: mgx.KernelOp, change: Callable[[Sequence[Number]], list[Number]]
) -> tuple[ir.Module, mgx.KernelOp]:
    """The kernel with the sizes of its symbolic tensors changed, and the module that holds it."""

    def changed(type_: ir.Type) -> ir.Type:
        if not isinstance(type_, ir.RankedTensorType) or not has_images(type_):
            return type_
        return symbolic.tensor_type(change(sizes_of(type_)), type_.element_type)

    def visit(op: ir.Operation) -> ir.WalkResult:
        arguments = [x for region in op.regions for block in region for x in block.arguments]
        for value in (*arguments, *op.results):
            value.set_type(changed(value.type))
        return ir.WalkResult.ADVANCE

    module = ir.Module.create()
    copy = kernel.operation.clone(ip=ir.InsertionPoint(module.body))
    copy.walk(visit)
    own = ir.FunctionType(kernel.function_type.value)
    type_ = ir.FunctionType.get([*map(changed, own.inputs)], [*map(changed, own.results)])
    copy.attributes["function_type"] = ir.TypeAttr.get(type_)
    found = copy.opview
    assert isinstance(found, mgx.KernelOp)
    return module, found
