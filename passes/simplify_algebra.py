"""mgx-simplify-algebra: scales and offsets move into weights; ops take cheaper forms."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import prod
from typing import ClassVar

from mlir import ir

from mgx_mlir.dialects import mgx
from mgx_mlir.rewriting.graph import main_function, node_name
from mgx_mlir.rewriting.pass_base import Pass, PassContext
from mgx_mlir.rewriting.queries import (
    CONTRACTIONS,
    blocks,
    broadcast_source,
    broadcast_to,
    definition,
    element_type,
    erase_dead,
    fused_location,
    has_one_use,
    has_sizes,
    is_constant,
    is_static,
    op_name,
    replace,
    shape,
    source_sizes,
    splat,
)

# With this many repeats of a divisor, its inverse is worth an op.
_MANY = 8

# A rewrite returns the value that replaces the op's result, or None.
Rewrite = Callable[[ir.OpView], "ir.Value | None"]


@dataclass(frozen=True)
class SimplifyAlgebra(Pass):
    """Folds batch normalisation and scales into weights, and gathers constants.

    Before:  %c = mgx.convolution %x, %w ...
             %m = mgx.mul %c, %scale ...      // %scale, %shift: broadcasts along channels
             %y = mgx.add %m, %shift ...
    After:   %v = mgx.mul %w, %scale' ...     // a constant, folded by mgx-fold-constants
             %c = mgx.convolution %x, %v ...
             %y = mgx.add %c, %shift ...

    Also: (x + a) + b to x + (a + b), (x + a) + (y + b) to (x + y) + (a + b), and so for
    products; (x + a) * b to x * b + a * b below a contraction or a scale; x - a to x + (-a);
    x / a to x * (1 / a) for floats, and so for a divisor that is broadcast; x ^ 1, 2, 3 to
    products; x ^ -1 to 1 / x; x ^ 0.5 to sqrt(x); 1 / sqrt(x) to rsqrt(x); 1 + tanh(x), of
    GELU, to 2 sigmoid(2 x); log(softmax(x)) to logsoftmax(x); x * -1 to -x; 0 * x to 0 for
    integers; a batch of equal products to a broadcast of one; a batch of named size with one right
    operand to a product with more rows. `a` and `b` are constants.
    These change the rounding of float results, never an integer.
    """

    max_rounds: int = 8

    cleanup: ClassVar[bool] = True
    rounds: ClassVar[bool] = True
    symbolic: ClassVar[bool] = True
    name: ClassVar[str] = "mgx-simplify-algebra"

    def apply(self, module: ir.Module, context: PassContext) -> None:
        for block in blocks(main_function(module)):
            for _ in range(self.max_rounds):
                if not _round(block, context):
                    break
                erase_dead(block)


def _round(block: ir.Block, context: PassContext) -> bool:
    changed = False
    for op in list(block.operations):
        rewrites = _REWRITES.get(op.operation.name, ())
        # New ops get the sizes of the ops they replace.
        for rewrite in rewrites if has_sizes(op) else ():
            with ir.InsertionPoint(op), op.operation.location:
                value = rewrite(op)
            if value is not None:
                context.note(rewrite.__name__.strip("_"), node_name(op))
                replace(op, [value])
                changed = True
                break
    return changed


def _is_float(value: ir.Value) -> bool:
    return isinstance(element_type(value), ir.FloatType)


def _constant_operand(op: ir.OpView) -> tuple[ir.Value, ir.Value] | None:
    """(variable, constant) of a commutative op with exactly one constant operand."""
    a, b = op.operation.operands
    if is_constant(b) and not is_constant(a):
        return a, b
    if is_constant(a) and not is_constant(b):
        return b, a
    return None


def _broadcast_together(a: ir.Value, b: ir.Value) -> tuple[ir.Value, ir.Value]:
    """The sources of two broadcasts to one shape, broadcast to their smallest common shape."""
    common = [max(pair) for pair in zip(source_sizes(a), source_sizes(b), strict=True)]
    a, b = broadcast_source(a), broadcast_source(b)
    common = common[len(common) - max(len(shape(a)), len(shape(b))) :]
    return broadcast_to(a, common), broadcast_to(b, common)


def _combine_constants(op: ir.OpView) -> ir.Value | None:
    """(x . a) . b = x . (a . b) for add and mul."""
    parts = _constant_operand(op)
    if parts is None or not _is_float(parts[0]):
        return None
    inner = definition(parts[0])
    if op_name(inner) != op.operation.name or not has_one_use(parts[0]):
        return None
    assert inner is not None
    if inner.operation.block != op.operation.block:  # a loop's body would do its work
        return None
    below = _constant_operand(inner)
    if below is None:
        return None
    make = mgx.add if op.operation.name == "mgx.add" else mgx.mul
    with fused_location([inner, op]):
        a, b = _broadcast_together(below[1], parts[1])
        return make(below[0], broadcast_to(make(a, b), list(shape(parts[0]))))


def _gather_constants(op: ir.OpView) -> ir.Value | None:
    """(x . a) . (y . b) = (x . y) . (a . b) for add and mul."""
    if not _is_float(op.operation.results[0]):
        return None
    found = []
    for value in op.operation.operands:
        inner = definition(value)
        if op_name(inner) != op.operation.name or not has_one_use(value):
            return None
        assert inner is not None
        parts = _constant_operand(inner)
        if parts is None or inner.operation.block != op.operation.block:
            return None
        found.append((inner, parts))
    (first, (x, a)), (second, (y, b)) = found
    if first == second:
        return None
    make = mgx.add if op.operation.name == "mgx.add" else mgx.mul
    with fused_location([first, second, op]):
        dims = list(shape(op.operation.results[0]))
        return make(make(x, y), broadcast_to(make(*_broadcast_together(a, b)), dims))


def _distribute_scale(op: ir.OpView) -> ir.Value | None:
    """(x + a) * b = x * b + a * b where a contraction or another scale makes x and takes b."""
    parts = _constant_operand(op)
    if parts is None or not has_one_use(parts[0]):
        return None
    add = definition(parts[0])
    if op_name(add) != "mgx.add":
        return None
    assert add is not None
    below = _constant_operand(add)
    if below is None:
        return None
    if add.operation.block != op.operation.block:
        return None
    maker = definition(below[0])
    is_scaled = op_name(maker) == "mgx.mul" and maker and _constant_operand(maker) is not None
    if not is_scaled and op_name(maker) not in CONTRACTIONS:
        return None
    if not _is_float(below[0]) or not has_one_use(below[0]):
        return None
    with fused_location([add, op]):
        a, b = _broadcast_together(below[1], parts[1])
        offset = broadcast_to(mgx.mul(a, b), list(shape(parts[0])))
        return mgx.add(mgx.mul(below[0], parts[1]), offset)


def _scale_into_weights(op: ir.OpView) -> ir.Value | None:
    """conv(x, w) * s = conv(x, w * s), and dot(x, w) * s = dot(x, w * s), for constant w."""
    parts = _constant_operand(op)
    if parts is None or not has_one_use(parts[0]):
        return None
    contraction = definition(parts[0])
    name = op_name(contraction)
    if name not in ("mgx.convolution", "mgx.dot"):
        return None
    assert contraction is not None
    if contraction.operation.block != op.operation.block:
        return None
    operands = contraction.operation.operands
    place = 0 if name == "mgx.dot" and is_constant(operands[0]) else 1
    w = operands[place]
    if not is_constant(w):
        return None
    scale, sizes = broadcast_source(parts[1]), source_sizes(parts[1])
    channel = 1 if name == "mgx.convolution" else len(sizes) - 1 - (place == 0)
    number = splat(parts[1])
    if number is None and any(size != 1 for i, size in enumerate(sizes) if i != channel):
        return None
    with fused_location([contraction, op]):
        if number is not None:
            factor = mgx.splat(number, w.type)
        else:
            # Output channels are the weight's first dimension for conv, its last for dot.
            target = [1] * len(shape(w))
            target[0 if name == "mgx.convolution" else channel] = sizes[channel]
            factor = broadcast_to(mgx.reshape(scale, target), list(shape(w)))
        scaled = mgx.mul(w, factor)
        clone = contraction.operation.clone()
        clone.operands[place] = scaled
        return clone.results[0]


def _dot_of_broadcasts(op: ir.OpView) -> ir.Value | None:
    """One product where all products of a batch have the same operands."""
    result = op.operation.results[0]
    operands = list(op.operation.operands)
    sizes = [source_sizes(value) for value in operands]
    same = {
        i
        for i, size in enumerate(shape(result)[:-2])
        if size > 1 and all(dims[i] == 1 for dims in sizes)
    }
    if not same:
        return None
    parts = []
    for value, dims in zip(operands, sizes, strict=True):
        source = mgx.reshape(broadcast_source(value), dims)
        few = [1 if i in same else size for i, size in enumerate(shape(value))]
        parts.append(broadcast_to(source, few))
    return broadcast_to(mgx.dot(*parts), shape(result))


def _one_matrix_for_all(op: ir.OpView) -> ir.Value | None:
    """A batch of products with the same right operand as one product with more rows.

    The importer does so where the sizes are known.
    """
    result = op.operation.results[0]
    a, b = op.operation.operands
    *batch, rows, depth = shape(a)
    source, dims = broadcast_source(b), source_sizes(b)
    if is_static(op) or not batch or any(size != 1 for size in dims[:-2]):
        return None
    flat = mgx.reshape(a, [prod([*batch, rows]), depth])
    matrix = source if len(shape(source)) == 2 else mgx.reshape(source, dims[-2:])
    return mgx.reshape(mgx.dot(flat, matrix), shape(result))


def _subtract_to_add(op: ir.OpView) -> ir.Value | None:
    a, b = op.operation.operands
    if not is_constant(b) or is_constant(a) or not _is_float(a):
        return None
    return mgx.add(a, broadcast_to(mgx.neg(broadcast_source(b)), list(shape(a))))


def _divide_to_multiply(op: ir.OpView) -> ir.Value | None:
    a, b = op.operation.operands
    if not is_constant(b) or is_constant(a) or not _is_float(a):
        return None
    return mgx.mul(a, broadcast_to(mgx.recip(broadcast_source(b)), list(shape(a))))


def _divide_once(op: ir.OpView) -> ir.Value | None:
    """x / b = x * (1 / b) where b is repeated: one division for each element of b."""
    a, b = op.operation.operands
    source = broadcast_source(b)
    if source == b or not _is_float(a) or is_constant(a):
        return None
    if _MANY * prod(shape(source)) > prod(shape(a)):
        return None
    return mgx.mul(a, broadcast_to(mgx.recip(source), shape(a)))


def _reciprocal_of_sqrt(op: ir.OpView) -> ir.Value | None:
    operands = op.operation.operands
    if len(operands) == 2 and splat(operands[0]) != 1:
        return None
    root = definition(operands[-1])
    if op_name(root) != "mgx.sqrt" or not _is_float(operands[-1]):
        return None
    assert root is not None
    return mgx.rsqrt(root.operation.operands[0])


def _negate(op: ir.OpView) -> ir.Value | None:
    """x * -1 and x / -1; 0 - x of integers only: of floats, 0 - 0 is 0, not -0."""
    a, b = op.operation.operands
    if op.operation.name == "mgx.sub":
        return mgx.neg(b) if splat(a) == 0 and not _is_float(b) and _is_signed(b) else None
    if splat(b) == -1 and _is_signed(a):
        return mgx.neg(a)
    if splat(a) == -1 and op.operation.name == "mgx.mul" and _is_signed(b):
        return mgx.neg(b)
    return None


def _is_signed(value: ir.Value) -> bool:
    element = element_type(value)
    return not isinstance(element, ir.IntegerType) or not (
        element.is_unsigned or element.width == 1
    )


def _times_zero(op: ir.OpView) -> ir.Value | None:
    """0 * x of integers only: a float x could be infinite or NaN."""
    result = op.operation.results[0]
    if _is_float(result):
        return None
    zero = next((v for v in op.operation.operands if splat(v) == 0), None)
    return None if zero is None or zero.type != result.type else zero


def _tanh_to_sigmoid(op: ir.OpView) -> ir.Value | None:
    """1 + tanh(x) = 2 sigmoid(2 x), as in GELU: one exponential less, and no cancellation."""
    parts = _constant_operand(op)
    if parts is None or splat(parts[1]) != 1 or not has_one_use(parts[0]):
        return None
    tanh = definition(parts[0])
    if op_name(tanh) != "mgx.tanh":
        return None
    assert tanh is not None
    with fused_location([tanh, op]):
        two = mgx.splat(2, parts[0].type)
        return mgx.mul(mgx.sigmoid(mgx.mul(tanh.operation.operands[0], two)), two)


def _log_of_softmax(op: ir.OpView) -> ir.Value | None:
    softmax = definition(op.operation.operands[0])
    if op_name(softmax) != "mgx.softmax" or not has_one_use(op.operation.operands[0]):
        return None
    assert softmax is not None
    with fused_location([softmax, op]):
        operation = softmax.operation
        axis = ir.IntegerAttr(operation.attributes["axis"]).value
        return mgx.logsoftmax(operation.operands[0], axis)


def _power(op: ir.OpView) -> ir.Value | None:
    base, exponent = op.operation.operands
    value = splat(exponent)
    if value == 1:
        return base
    if value in (2, 3):
        square = mgx.mul(base, base)
        return square if value == 2 else mgx.mul(square, base)
    if value == -1 and _is_float(base):
        return mgx.recip(base)
    # pow(-0.0, 0.5) is 0.0 and pow(-inf, 0.5) is inf; sqrt differs there, as documented.
    return mgx.sqrt(base) if value == 0.5 and _is_float(base) else None


_REWRITES: dict[str, tuple[Rewrite, ...]] = {
    "mgx.add": (_tanh_to_sigmoid, _combine_constants, _gather_constants),
    "mgx.div": (_reciprocal_of_sqrt, _negate, _divide_to_multiply, _divide_once),
    "mgx.dot": (_dot_of_broadcasts, _one_matrix_for_all),
    "mgx.log": (_log_of_softmax,),
    "mgx.mul": (
        _scale_into_weights,
        _distribute_scale,
        _combine_constants,
        _gather_constants,
        _negate,
        _times_zero,
    ),
    "mgx.pow": (_power,),
    "mgx.recip": (_reciprocal_of_sqrt,),
    "mgx.sub": (_negate, _subtract_to_add),
}
