"""Prologues: the work on an operand that a product's kernel does as it reads the operand.

The most common is the expansion of weights of few bits:

    %u = mgx.unpack %w : tensor<64x16xui8> -> tensor<64x32xui4>
    %d = ... (%u - zero points) * scales, of blocks of 8 ... : tensor<64x32xf16>
    %t = mgx.transpose %d permutation = [1, 0] : tensor<64x32xf16> -> tensor<32x64xf16>
    %y = mgx.dot %x, %t ...

A tree of ops from weights to operand stays in the program, and is not computed at compile time,
where it reads fewer bytes and its work costs less time than the bytes it saves. A tree from other
values is no kernel of its own. A convolution is such a product too: the work on its images is
done on the pixels as they are read; so is work on filters of one pixel. Products of integers
quantize their left operand.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

from mlir import ir

from mgx_mlir.capabilities import (
    BYTES_DEPTH,
    DEPTH_STEP,
    LAUNCH_BYTES,
    LEAST_DEPTH,
    OPERATIONS_A_BYTE,
    PRODUCT_TILE,
)
from mgx_mlir.dialects import mgx
from mgx_mlir.dialects.types import scalar_type
from mgx_mlir.rewriting.fusing import contraction_of
from mgx_mlir.rewriting.queries import (
    MOST_BEHIND,
    definition,
    element_type,
    group_of,
    has_one_use,
    identity,
    is_constant,
    is_static,
    shape,
    splat,
    users,
)
from mgx_mlir.rewriting.views import Layout, apply, is_view, whole
from mgx_mlir.sizes.arithmetic import Size, ceil_div

# Operands of fewer elements save too little to matter.
_LEAST_ELEMENTS = 1 << 10
# The most tensors that one operand may be computed from: each takes registers for its loads.
_MOST_LEAVES = 4
Convolution: TypeAlias = mgx.ConvolutionOp | mgx.QuantConvolutionOp
Dot: TypeAlias = mgx.DotOp | mgx.QuantDotOp
Product: TypeAlias = Convolution | Dot
# The operations of quantizing one element.
QUANTIZING = 10


@dataclass
class Prologue:
    """The ops between an operand of a product and the values that are read for it.

    `ops`: operands before users. `leaves`: the values that they read.
    """

    ops: list[ir.OpView] = field(default_factory=list)
    leaves: list[ir.Value] = field(default_factory=list)


def prologue_of(product: ir.OpView, number: int) -> Prologue | None:
    """The prologue of a product on operand `number`; None where it does not pay.

    A product is a `mgx.dot` or a `mgx.convolution`, whose operand 0 are the images. Of a dot of any
    sizes it is work on weights alone.
    """
    if not isinstance(product, Product):
        return None
    if isinstance(product, Convolution) and not _may_be_computed(product, number):
        return None
    operand, is_known = product.operands[number], is_static(product)
    if not is_known and (number == 0 or not _is_weight(product, operand)):
        return None
    if not isinstance(element_type(operand), ir.FloatType) and not _is_quantized(operand, number):
        return None
    tree = Prologue()
    if not _grow(tree, operand, math.prod(shape(operand))):
        return None
    if not any(_computes(op) for op in tree.ops) or len(tree.leaves) > _MOST_LEAVES:
        return None
    layouts = _layouts(tree, product)
    if layouts is None or not all(_is_readable(layout, product, number) for layout in layouts):
        return None
    if not is_known and not all(is_constant(leaf) for leaf in tree.leaves):
        return None
    depth = _depth(product)
    if not _is_finite(tree, depth):
        return None
    shallow = depth < LEAST_DEPTH or not _has_kernels(tree)
    if isinstance(product, Convolution) and shallow:
        return None
    last = [op for op in tree.ops if _computes(op)][-1]
    scaled = expands_blocks(last) and depth % DEPTH_STEP == 0
    if number == 0 and not scaled and prologue_of(product, 1) is not None:
        return None  # past the end of k, one operand has to be zero
    work = _work(tree, product, number, layouts)
    return tree if work <= OPERATIONS_A_BYTE * _saved(tree, operand) else None


def _is_quantized(operand: ir.Value, number: int) -> bool:
    """Whether a left operand is made of floats, as integers of 8 bits."""
    maker, element = definition(operand), element_type(operand)
    while maker is not None and mgx.is_view(maker):
        maker = definition(maker.operands[0])
    return (
        number == 0
        and isinstance(element, ir.IntegerType)
        and element.width == 8
        and maker is not None
        and any(isinstance(op, mgx.QuantizelinearOp) for op in _inner(maker))
    )


def _inner(op: ir.OpView) -> Iterable[ir.OpView]:
    """The ops of a fused op, or the op itself."""
    return op.body.blocks[0].operations if isinstance(op, mgx.PointwiseOp) else [op]


def _is_weight(product: Product, operand: ir.Value) -> bool:
    """Whether an operand of a product of any sizes is the matrix by which a dot multiplies rows."""
    type_ = ir.RankedTensorType(operand.type)
    return isinstance(product, Dot) and type_.has_static_shape and type_.rank == 2


def _may_be_computed(convolution: Convolution, number: int) -> bool:
    """Whether kernels can compute this operand of a convolution as they read it."""
    x, w = shape(convolution.x), shape(convolution.w)
    axis = len(w) - 1 if convolution.channels_last else 1
    if w[axis] == 1 and x[axis] > 1:
        return False  # one channel a group: each pixel is read for itself
    return number == 0 or _is_plain(convolution)


def _has_kernels(tree: Prologue) -> bool:
    """Whether convolution kernels can read and compute all elements of these types."""
    types = [element_type(leaf) for leaf in tree.leaves]
    types += [element_type(op.result) for op in tree.ops]
    floats = [x for x in types if isinstance(x, ir.FloatType)]
    return all(x.width >= 8 for x in types) and all(16 <= x.width <= 32 for x in floats)


def _is_plain(convolution: Convolution) -> bool:
    """Whether a convolution is a product of matrices, with no windows."""
    pads, strides = set(convolution.pads), set(convolution.strides)
    return _taps(convolution) == 1 and pads == {0} and strides == {1}


def _taps(convolution: Convolution) -> int:
    """Pixels of a window."""
    w = shape(convolution.w)
    return math.prod(w[1:-1] if convolution.channels_last else w[2:])


def _depth(product: Product) -> int:
    """The products that are summed up for one result."""
    if isinstance(product, Dot):
        return shape(product.b)[-2]
    return math.prod(shape(product.w)[1:])


def _grow(tree: Prologue, value: ir.Value, size: int, most: int = MOST_BEHIND) -> bool:
    """Adds the ops, at most `most` deep, that make a value of as many elements as the operand.

    False where these ops are no tree.
    """
    op = definition(value)
    if splat(value) is not None:
        return True
    if op is None or not _may_enter(op) or math.prod(shape(value)) != size:
        tree.leaves.append(value)
        return True
    if not most or not has_one_use(value) or len(op.results) != 1:
        return False
    for operand in dict.fromkeys(op.operands):
        if not _grow(tree, operand, size, most - 1):
            return False
    tree.ops.append(op)
    return True


def _may_enter(op: ir.OpView) -> bool:
    element = element_type(op.results[0])
    if _computes(op) and isinstance(element, ir.FloatType) and element.width <= 8:
        return False  # quantizing is done once
    if isinstance(op, mgx.PointwiseOp):
        # A later op may fuse with it, or it may be a contraction's epilogue.
        return contraction_of(op) is None and not _follows_pointwise(op)
    return mgx.is_view(op) or mgx.is_pointwise(op) or isinstance(op, mgx.UnpackOp)


def _follows_pointwise(op: ir.OpView) -> bool:
    """Whether a fused op reads the result of this op, through views alone."""
    readers = users(op.results[0])
    while len(readers) == 1 and mgx.is_view(readers[0]):
        readers = users(readers[0].result)
    return any(isinstance(reader, mgx.PointwiseOp) for reader in readers)


def _layouts(tree: Prologue, product: Product) -> list[Layout] | None:
    """The layout, in each leaf, of the elements that the operand needs; None without strides."""
    inside = {op.result for op in tree.ops}
    found = []
    for leaf in tree.leaves:
        if element_type(leaf).width == 1:
            return None
        for reader in users(leaf):
            layout = whole(shape(leaf))
            if reader != product and identity(reader) not in inside:
                continue
            while reader != product:
                if isinstance(reader, mgx.UnpackOp):
                    layout = whole(shape(reader.y))
                elif mgx.is_view(reader):
                    after = apply(layout, reader) if is_view(reader) else None
                    if after is None:
                        return None
                    layout = after
                reader = users(reader.result)[0]
            found.append(layout)
    return found


def _is_readable(layout: Layout, product: Product, number: int) -> bool:
    """Whether a product can read an operand with this layout: a convolution's images have one
    stride for each dimension of their pixels, and for their channels."""
    if isinstance(product, Dot) or number == 1:
        return len(layout.dims) == len(shape(product.operands[number]))
    count, *sizes = layout.shape
    group, last = group_of(product), product.channels_last
    channels = sizes.pop(-1 if last else 0)
    parts = [group, channels // group]
    grouped = layout.reshaped([count, *sizes, *parts] if last else [count, *parts, *sizes])
    if grouped is None:
        return False
    own = grouped.dims[1:-2] if last else grouped.dims[3:]
    return all(len(dim) == 1 for dim in own)


# Ops that give no finite number for some finite numbers near zero.
_RISKY = (
    mgx.AcoshOp, mgx.AtanhOp, mgx.DivOp, mgx.FmodOp, mgx.LogOp, mgx.Log2Op, mgx.ModOp, mgx.PowOp,
    mgx.RecipOp, mgx.RsqrtOp, mgx.TanOp,
)  # fmt: skip
# Ops that give none for small constants, and constants whose sums and products are finite: of f16.
_GROWING, _MOST_HALF, _MOST = (mgx.CoshOp, mgx.ExpOp, mgx.SinhOp), 255, 1 << 30


def _is_finite(tree: Prologue, depth: int) -> bool:
    """Whether the elements computed from the zeros past the end of k leave the sums unchanged."""
    return depth % DEPTH_STEP == 0 or not is_risky(*tree.ops)


def is_risky(*ops: ir.OpView) -> bool:
    """Whether ops, in turn, may give infinity or NaN for zeros. Integers are finite."""
    floats = [op for op in ops if isinstance(element_type(op.results[0]), ir.FloatType)]
    inner = [one for op in floats for one in _inner(op)]
    if any(isinstance(one, _RISKY) for one in inner):
        return True
    values = [value for op in (*floats, *inner) for value in op.operands]
    limit = _MOST
    if any(isinstance(scalar_type(value.type), ir.F16Type) for value in values):
        limit = _MOST_HALF
    if any(isinstance(one, _GROWING) for one in inner):
        limit = 0
    return not all(abs(float(x)) <= limit for v in values if (x := splat(v)) is not None)


def _computes(op: ir.OpView) -> bool:
    return mgx.is_pointwise(op) or isinstance(op, mgx.PointwiseOp)


def _saved(tree: Prologue, operand: ir.Value) -> float:
    """The bytes that need not move, a launch among them; 0 where they are too few to matter."""
    size = math.prod(shape(operand))
    made = size * element_type(operand).width // 8
    if not all(is_constant(leaf) for leaf in tree.leaves):
        return 2 * made + LAUNCH_BYTES
    # Weights of less than 8 bits share bytes (see mgx-pack-weights).
    read = sum(math.prod(shape(v)) * element_type(v).width // 8 for v in tree.leaves)
    return 0 if size < _LEAST_ELEMENTS or 3 * read > 2 * made else made - read


def _work(tree: Prologue, product: Product, number: int, layouts: Sequence[Layout]) -> float:
    """The operations of a prologue: blocks that read the same elements repeat them.

    A product of any number of rows counts as one of few.
    """
    result = shape(product.result)
    others = result[-1 if number == 0 else -2]
    if isinstance(others, Size):
        others = 1
    repeated = 1.0
    if isinstance(product, Convolution):
        group, last = group_of(product), product.channels_last
        filters = result[-1 if last else 1]
        others = filters // group if number == 0 else math.prod(result) // filters
        if last or any(_lie_last(layout) for layout in layouts):
            # With other layouts, pixels are packed and computed once.
            repeated = max(1.0, _taps(product) / math.prod(product.strides))
    operand = product.operands[number]
    if isinstance(element_type(operand), ir.IntegerType):
        depth = _depth(product)
        repeated *= ceil_div(depth, BYTES_DEPTH) * BYTES_DEPTH / depth
    size = math.prod(shape(operand)) * repeated
    return sum(_operations(op) for op in tree.ops) * size * ceil_div(others, PRODUCT_TILE)


def _lie_last(layout: Layout) -> bool:
    """Whether the channels of images, dimension 1, are neighbours in memory."""
    pixels = [stride for dim in layout.dims[2:] for _, stride in dim if stride]
    return layout.dims[1][-1][1] == 1 and bool(pixels)


def expands_blocks(op: ir.OpView) -> bool:
    """Whether an op scales codes of few bits by the scales of their blocks for a dot (OCP MX)."""
    inner = op
    if isinstance(op, mgx.PointwiseOp):
        body = op.body.blocks[0].operations
        if len(body) != 2:
            return False
        inner = body[0]
    if not isinstance(inner, mgx.DequantizelinearOp):
        return False
    if not isinstance(scalar_type(inner.scale.type), ir.Float8E8M0FNUType):
        return False
    readers = users(op.results[0])
    while readers and mgx.is_view(readers[0]):
        readers = users(readers[0].result)
    return bool(readers) and all(isinstance(reader, mgx.DotOp) for reader in readers)


def prologue_values(block: ir.Block, fused: bool = False) -> set[ir.Value]:
    """The results of all ops of a block that are in the prologue of a product.

    `fused`: only where the prologue is one `mgx.pointwise`, as in kernels.
    """
    found: set[ir.Value] = set()
    for op in block.operations:
        for number in _numbers(op):
            tree = prologue_of(op, number)
            work = [x for x in tree.ops if _computes(x)] if tree else []
            if tree and (not fused or [type(x) for x in work] == [mgx.PointwiseOp]):
                found.update(x.result for x in tree.ops)
    return found


def taken_gathers(block: ir.Block, kind: str, taken: set[ir.Value]) -> list[ir.OpView]:
    """Adds to `taken` the gathers of slices of a program of kind 'cpu' whose elements a
    `mgx.pointwise` alone reads: its kernel does them, unless it is a product's.

    Gives the transposes of which they, and others, gather: slices are copied to lie together first.
    """
    found: dict[ir.Value | None, ir.OpView] = {}
    for op in block.operations if kind == "cpu" else ():
        if isinstance(op, mgx.GatherndOp):
            if isinstance(view := definition(op.x), mgx.TransposeOp):
                found[identity(view)] = view
            user = users(op.y)[0] if has_one_use(op.y) else None
            if isinstance(user, mgx.PointwiseOp) and identity(user) not in taken:
                taken.update(() if contraction_of(user) else (op.y,))
    return list(found.values())


def _operations(op: ir.OpView) -> int:
    """The operations of an op on one element."""
    if mgx.is_view(op):
        return 0
    # A fused op ends with a yield.
    found = [QUANTIZING if isinstance(x, mgx.QuantizelinearOp) else 1 for x in _inner(op)]
    return sum(found) - isinstance(op, mgx.PointwiseOp)


def prologue_leaves(block: ir.Block) -> set[ir.Value]:
    """The values of a block that a product reads through its prologue."""
    trees = (prologue_of(op, n) for op in block.operations for n in _numbers(op))
    return {leaf for tree in trees if tree for leaf in tree.leaves}


def _numbers(op: ir.OpView) -> tuple[int, ...]:
    """The operands of an op that may have a prologue."""
    return (0, 1) if isinstance(op, Product) else ()
