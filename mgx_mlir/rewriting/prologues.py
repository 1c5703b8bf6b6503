"""Work that a product's kernel does on an operand as it reads it: weights of few bits expand there.

    %u = mgx.unpack %w : tensor<64x16xui8> -> tensor<64x32xui4>
    %d = ... (%u - zero points) * scales, of blocks of 8 ... : tensor<64x32xf16>
    %t = mgx.transpose %d permutation = [1, 0] : tensor<64x32xf16> -> tensor<32x64xf16>
    %y = mgx.dot %x, %t ...

A tree of ops from weights to operand stays in the program instead of being computed at compile
time, where fewer bytes are read and the work costs less than those take; one from other values
is no kernel of its own. A convolution is such a product too: what is done on its images before
it is done on the pixels that are read, and on filters where these are of one pixel.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field

from mlir import ir

from mgx_mlir.dialects import mgx
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
    op_name,
    shape,
    splat,
    users,
)
from mgx_mlir.rewriting.views import Layout, apply, is_view, whole

# A block computes so many rows, or columns, of a product with what it read of an operand.
_TILE = 128
# What a compute unit does in the time in which it gets a byte from memory: operations on one
# element each (CDNA 3: 5.3 TB/s, 304 units of 128 lanes at 2.1 GHz).
_OPERATIONS_A_BYTE = 16
# In the time that a launch takes, memory gives so many bytes (3 us at a third of 1 TB/s).
_LAUNCH_BYTES = 1 << 20
# Constants of fewer elements are no matter.
_LEAST_ELEMENTS = 1 << 10
# Blocks read so many elements along k at a time, and zeros past the end.
_STEP = 64
# Tensors that one operand may be made from: each takes registers for what is on its way.
_MOST_LEAVES = 4
_PRODUCTS = frozenset(("mgx.convolution", "mgx.dot"))
# Of fewer products a result no kernel with a place for more is made.
_LEAST_DEPTH = 8


@dataclass
class Prologue:
    """The ops between an operand of a product and what is read for it.

    `ops`: operands before users. `leaves`: values that enter.
    """

    ops: list[ir.OpView] = field(default_factory=list)
    leaves: list[ir.Value] = field(default_factory=list)


def prologue_of(product: ir.OpView, number: int) -> Prologue | None:
    """What a product does on operand `number` as it reads it; None where that does not pay.

    A product is a `mgx.dot` or a `mgx.convolution`, whose operand 0 are the images.
    """
    if op_name(product) not in _PRODUCTS or not is_static(product):
        return None
    if op_name(product) == "mgx.convolution" and not _may_be_computed(product, number):
        return None
    operand = product.operation.operands[number]
    if not isinstance(element_type(operand), ir.FloatType):
        return None
    tree = Prologue()
    if not _grow(tree, operand, math.prod(shape(operand))):
        return None
    if not any(_computes(op) for op in tree.ops) or len(tree.leaves) > _MOST_LEAVES:
        return None
    layouts = _layouts(tree, product)
    if layouts is None or not all(_is_readable(layout, product, number) for layout in layouts):
        return None
    depth = _depth(product)
    if not _is_finite(tree, depth):
        return None
    if op_name(product) == "mgx.convolution" and (depth < _LEAST_DEPTH or not _has_kernels(tree)):
        return None
    scaled = expands_blocks(tree.ops[-1]) and depth % _STEP == 0
    if number == 0 and not scaled and prologue_of(product, 1) is not None:
        return None  # past the end of k, one operand has to be zero
    work = _work(tree, product, number, layouts)
    return tree if work <= _OPERATIONS_A_BYTE * _saved(tree, operand) else None


def _may_be_computed(convolution: ir.OpView, number: int) -> bool:
    """Whether kernels have a place where they would compute an operand of a convolution."""
    x, w = (shape(value) for value in convolution.operation.operands)
    axis = len(w) - 1 if _is_channels_last(convolution) else 1
    if w[axis] == 1 and x[axis] > 1:
        return False  # one channel a group: each pixel is read for itself
    return number == 0 or _is_plain(convolution)


def _has_kernels(tree: Prologue) -> bool:
    """Whether convolutions' kernels read and compute elements of such types, and none else."""
    types = [element_type(leaf) for leaf in tree.leaves]
    types += [element_type(op.operation.results[0]) for op in tree.ops]
    floats = [x for x in types if isinstance(x, ir.FloatType)]
    return all(x.width >= 8 for x in types) and all(16 <= x.width <= 32 for x in floats)


def _is_channels_last(convolution: ir.OpView) -> bool:
    return "channels_last" in convolution.operation.attributes


def _is_plain(convolution: ir.OpView) -> bool:
    """Whether a convolution is a product of matrices, with no windows."""
    attributes = convolution.operation.attributes
    lists = {x: list(ir.DenseI64ArrayAttr(attributes[x])) for x in ("pads", "strides")}
    return _taps(convolution) == 1 and set(lists["pads"]) == {0} and set(lists["strides"]) == {1}


def _taps(convolution: ir.OpView) -> int:
    """Pixels of a window."""
    w = shape(convolution.operation.operands[1])
    return math.prod(w[1:-1] if _is_channels_last(convolution) else w[2:])


def _depth(product: ir.OpView) -> int:
    """Products that are summed up for one result."""
    if op_name(product) == "mgx.dot":
        return shape(product.operation.operands[0])[-1]
    return math.prod(shape(product.operation.operands[1])[1:])


def _grow(tree: Prologue, value: ir.Value, size: int, most: int = MOST_BEHIND) -> bool:
    """Adds what makes a value of as many elements as the operand, at most so many ops deep.

    False where that is no tree.
    """
    op = definition(value)
    if splat(value) is not None:
        return True
    if op is None or not _may_enter(op) or math.prod(shape(value)) != size:
        tree.leaves.append(value)
        return True
    if not most or not has_one_use(value) or len(op.operation.results) != 1:
        return False
    for operand in dict.fromkeys(op.operation.operands):
        if not _grow(tree, operand, size, most - 1):
            return False
    tree.ops.append(op)
    return True


def _may_enter(op: ir.OpView) -> bool:
    element = element_type(op.operation.results[0])
    if _computes(op) and isinstance(element, ir.FloatType) and element.width <= 8:
        return False  # what quantizes is done once
    if op_name(op) == "mgx.pointwise":
        # Another may come later, and one may be a contraction's epilogue.
        return contraction_of(op) is None and not _follows_pointwise(op)
    return op_name(op) in mgx.VIEWS | mgx.POINTWISE | {"mgx.unpack"}


def _follows_pointwise(op: ir.OpView) -> bool:
    """Whether a fused op reads what has passed this one, through views alone."""
    readers = users(op.operation.results[0])
    while len(readers) == 1 and op_name(readers[0]) in mgx.VIEWS:
        readers = users(readers[0].operation.results[0])
    return any(op_name(reader) == "mgx.pointwise" for reader in readers)


def _layouts(tree: Prologue, product: ir.OpView) -> list[Layout] | None:
    """Where the elements of each leaf are that an element needs; None without strides for it."""
    inside = {op.operation.results[0] for op in tree.ops}
    found = []
    for leaf in tree.leaves:
        if element_type(leaf).width == 1:
            return None
        for reader in users(leaf):
            layout = whole(shape(leaf))
            if reader != product and identity(reader) not in inside:
                continue
            while reader != product and (result := identity(reader)) in inside:
                assert result is not None
                if op_name(reader) == "mgx.unpack":
                    layout = whole(shape(result))
                elif op_name(reader) in mgx.VIEWS:
                    after = apply(layout, reader) if is_view(reader) else None
                    if after is None:
                        return None
                    layout = after
                reader = users(result)[0]
            found.append(layout)
    return found


def _is_readable(layout: Layout, product: ir.OpView, number: int) -> bool:
    """Whether a product reads an operand that lies so: a convolution's images have one stride
    for each dimension of their pixels, and its channels."""
    if op_name(product) == "mgx.dot" or number == 1:
        return len(layout.dims) == len(shape(product.operation.operands[number]))
    count, *sizes = layout.shape
    group, last = group_of(product), _is_channels_last(product)
    channels = sizes.pop(-1 if last else 0)
    parts = [group, channels // group]
    grouped = layout.reshaped([count, *sizes, *parts] if last else [count, *parts, *sizes])
    if grouped is None:
        return False
    own = grouped.dims[1:-2] if last else grouped.dims[3:]
    return all(len(dim) == 1 for dim in own)


# What is not a finite number for every finite number near zero.
_RISKY = frozenset(
    f"mgx.{name}" for name in "acosh atanh div fmod log log2 mod pow recip rsqrt tan".split()
)


def _is_finite(tree: Prologue, depth: int) -> bool:
    """Whether what is computed of zeros, past the end of k, leaves the sums alone."""
    return depth % _STEP == 0 or not any(is_risky(op) for op in tree.ops)


def is_risky(op: ir.OpView) -> bool:
    """Whether an op may make something else than a finite number of zeros."""
    if op_name(op) == "mgx.pointwise":
        return any(op_name(inner) in _RISKY for inner in op.regions[0].blocks[0].operations)
    return op_name(op) in _RISKY


def _computes(op: ir.OpView) -> bool:
    return op_name(op) in mgx.POINTWISE or op_name(op) == "mgx.pointwise"


def _saved(tree: Prologue, operand: ir.Value) -> float:
    """Bytes that are not moved, a launch among them; none where that is too little to matter."""
    size = math.prod(shape(operand))
    made = size * element_type(operand).width // 8
    if not all(is_constant(leaf) for leaf in tree.leaves):
        return 2 * made + _LAUNCH_BYTES
    # Of less than 8 bits, they share bytes (see mgx-pack-weights).
    read = sum(math.prod(shape(v)) * element_type(v).width // 8 for v in tree.leaves)
    return 0 if size < _LEAST_ELEMENTS or 3 * read > 2 * made else made - read


def _work(tree: Prologue, product: ir.OpView, number: int, layouts: Sequence[Layout]) -> float:
    """Operations, which blocks that read the same elements repeat."""
    result = shape(product.operation.results[0])
    others = result[-1 if number == 0 else -2]
    repeated = 1.0
    if op_name(product) == "mgx.convolution":
        group, last = group_of(product), _is_channels_last(product)
        filters = result[-1 if last else 1]
        others = filters // group if number == 0 else math.prod(result) // filters
        if last or any(_lie_last(layout) for layout in layouts):
            # Else pixels are packed once, and computed then.
            steps = math.prod(ir.DenseI64ArrayAttr(product.operation.attributes["strides"]))
            repeated = max(1.0, _taps(product) / steps)
    size = math.prod(shape(product.operation.operands[number])) * repeated
    return sum(_operations(op) for op in tree.ops) * size * math.ceil(others / _TILE)


def _lie_last(layout: Layout) -> bool:
    """Whether the channels of images, dimension 1, are neighbours in memory."""
    pixels = [stride for dim in layout.dims[2:] for _, stride in dim if stride]
    return layout.dims[1][-1][1] == 1 and bool(pixels)


def expands_blocks(op: ir.OpView) -> bool:
    """Whether an op gives a product codes of few bits times the scales of their blocks (OCP MX)."""
    inner = op
    if op_name(op) == "mgx.pointwise":
        body = op.regions[0].blocks[0].operations
        if len(body) != 2:
            return False
        inner = body[0]
    if op_name(inner) != "mgx.dequantizelinear":
        return False
    scale = inner.operation.operands[1].type
    element = scale.element_type if isinstance(scale, ir.RankedTensorType) else scale
    if not isinstance(element, ir.Float8E8M0FNUType):
        return False
    readers = users(op.operation.results[0])
    while readers and op_name(readers[0]) in mgx.VIEWS:
        readers = users(readers[0].operation.results[0])
    return bool(readers) and all(op_name(reader) == "mgx.dot" for reader in readers)


def prologue_values(block: ir.Block, fused: bool = False) -> set[ir.Value]:
    """The results of all ops of a block that a product does as it reads an operand.

    `fused`: only where one `mgx.pointwise` computes it, as kernels have it.
    """
    found: set[ir.Value] = set()
    for op in block.operations:
        for number in _numbers(op):
            tree = prologue_of(op, number)
            work = [x for x in tree.ops if _computes(x)] if tree else []
            if tree and (not fused or [op_name(x) for x in work] == ["mgx.pointwise"]):
                found.update(x.operation.results[0] for x in tree.ops)
    return found


def _operations(op: ir.OpView) -> int:
    """Operations on an element."""
    if op_name(op) == "mgx.pointwise":
        return len(list(op.regions[0].blocks[0].operations)) - 1
    return 0 if op_name(op) in mgx.VIEWS else 1


def prologue_leaves(block: ir.Block) -> set[ir.Value]:
    """The values of a block that a product reads by way of work that its kernel does."""
    trees = (prologue_of(op, n) for op in block.operations for n in _numbers(op))
    return {leaf for tree in trees if tree for leaf in tree.leaves}


def _numbers(op: ir.OpView) -> tuple[int, ...]:
    """The operands of an op that may be computed so."""
    return (0, 1) if op_name(op) in _PRODUCTS else ()
