"""Work that a product's kernel does on an operand as it reads it: weights of few bits expand there.

    %u = mgx.unpack %w : tensor<64x16xui8> -> tensor<64x32xui4>
    %d = ... (%u - zero points) * scales, of blocks of 8 ... : tensor<64x32xf16>
    %t = mgx.transpose %d permutation = [1, 0] : tensor<64x32xf16> -> tensor<32x64xf16>
    %y = mgx.dot %x, %t ...

A tree of ops from weights to operand stays in the program instead of being computed at compile
time, where fewer bytes are read and the work costs less than those take; one from other values
is no kernel of its own.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field

from mlir import ir

from mgx_mlir.dialects import mgx
from mgx_mlir.fusing import contraction_of
from mgx_mlir.rewriting import (
    definition,
    element_type,
    has_one_use,
    identity,
    is_constant,
    op_name,
    shape,
    splat,
    users,
)
from mgx_mlir.views import apply, is_view, whole

# A block computes so many rows, or columns, of a product with what it read of an operand.
_TILE = 128
# What a compute unit does in the time in which it gets a byte from memory: operations on one
# element each (CDNA 3: 5.3 TB/s, 304 units of 128 lanes at 2.1 GHz).
_OPERATIONS_A_BYTE = 16
# In the time that a launch takes, memory gives so many bytes (3 us at a third of 1 TB/s).
_LAUNCH_BYTES = 1 << 20
# Constants of fewer elements are no matter.
_LEAST_ELEMENTS = 1 << 10
# Elements that a product reads along k at a time, at most.
_STEP = 128
# Tensors that one operand may be made from: each takes registers for what is on its way.
_MOST_LEAVES = 4


@dataclass
class Prologue:
    """The ops between an operand of a product and what is read for it.

    `ops`: operands before users. `leaves`: values that enter.
    """

    ops: list[ir.OpView] = field(default_factory=list)
    leaves: list[ir.Value] = field(default_factory=list)


def prologue_of(dot: ir.OpView, number: int) -> Prologue | None:
    """What a `mgx.dot` does on operand `number` as it reads it; None where that does not pay."""
    if op_name(dot) != "mgx.dot":
        return None
    if not all(ir.RankedTensorType(v.type).has_static_shape for v in dot.operation.operands):
        return None
    operand = dot.operation.operands[number]
    if not isinstance(element_type(operand), ir.FloatType):
        return None
    tree = Prologue()
    if not _grow(tree, operand, math.prod(shape(operand))):
        return None
    if not any(_computes(op) for op in tree.ops) or len(tree.leaves) > _MOST_LEAVES:
        return None
    if not _can_be_read(tree, dot) or not _is_finite(tree, shape(dot.operation.operands[0])[-1]):
        return None
    scaled = expands_blocks(tree.ops[-1]) and shape(dot.operation.operands[0])[-1] % _STEP == 0
    if number == 0 and not scaled and prologue_of(dot, 1) is not None:
        return None  # past the end of k, one operand has to be zero
    return tree if _pays(tree, dot, number) else None


def _grow(tree: Prologue, value: ir.Value, size: int) -> bool:
    """Adds what makes a value of as many elements as the operand; False where that is no tree."""
    op = definition(value)
    if splat(value) is not None:
        return True
    if op is None or not _may_enter(op) or math.prod(shape(value)) != size:
        tree.leaves.append(value)
        return True
    if not has_one_use(value) or len(op.operation.results) != 1:
        return False
    for operand in dict.fromkeys(op.operation.operands):
        if not _grow(tree, operand, size):
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


def _can_be_read(tree: Prologue, dot: ir.OpView) -> bool:
    """Whether strides say where the elements of each leaf are that an element needs."""
    inside = {op.operation.results[0] for op in tree.ops}
    for leaf in tree.leaves:
        if element_type(leaf).width == 1:
            return False
        for reader in users(leaf):
            value, layout = leaf, whole(shape(leaf))
            while reader != dot and (result := identity(reader)) in inside:
                assert result is not None
                if op_name(reader) == "mgx.unpack":
                    layout = whole(shape(result))
                elif op_name(reader) in mgx.VIEWS:
                    after = apply(layout, reader) if is_view(reader) else None
                    if after is None:
                        return False
                    layout = after
                value, reader = result, users(result)[0]
            if len(layout.dims) != len(shape(value)):
                return False
    return True


# What is not a finite number for every finite number near zero.
_RISKY = frozenset(
    f"mgx.{name}" for name in "acosh atanh div fmod log log2 mod pow recip rsqrt tan".split()
)
# Blocks read so many elements along k at a time, and zeros past the end.
_STEP = 64


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


def _pays(tree: Prologue, dot: ir.OpView, number: int) -> bool:
    """Whether the bytes saved are worth the work, which blocks that read the same repeat."""
    operand = dot.operation.operands[number]
    size = math.prod(shape(operand))
    made = size * element_type(operand).width // 8
    if all(is_constant(leaf) for leaf in tree.leaves):
        # Of less than 8 bits, they share bytes (see mgx-pack-weights).
        read = sum(math.prod(shape(v)) * element_type(v).width // 8 for v in tree.leaves)
        saved = made - read
        if size < _LEAST_ELEMENTS or 3 * read > 2 * made:
            return False
    else:
        saved = 2 * made + _LAUNCH_BYTES
    others = shape(dot.operation.results[0])[-1 if number == 0 else -2]
    work = sum(_operations(op) for op in tree.ops) * size * math.ceil(others / _TILE)
    return work <= _OPERATIONS_A_BYTE * saved


def expands_blocks(op: ir.OpView) -> bool:
    """Whether an op gives a product codes of few bits times the scales of their blocks (OCP MX)."""
    inner = op
    if op_name(op) == "mgx.pointwise":
        inner, *others = op.regions[0].blocks[0].operations
        if len(others) != 1:
            return False
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
        for number in (0, 1) if op_name(op) == "mgx.dot" else ():
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
