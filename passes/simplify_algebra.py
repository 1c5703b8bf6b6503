"""mgx-simplify-algebra: scales and offsets move into weights; ops take cheaper forms."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import wraps
from math import prod
from typing import Any, ClassVar

from mlir import ir

from mgx_mlir.dialects import mgx
from mgx_mlir.rewriting.pass_base import PassContext
from mgx_mlir.rewriting.patterns import Pattern, PatternPass, rewrites
from mgx_mlir.rewriting.queries import (
    broadcast_source,
    broadcast_to,
    common_sizes,
    definition,
    element_type,
    fused_location,
    has_one_use,
    has_sizes,
    is_along,
    is_constant,
    shape,
    source_sizes,
    splat,
    with_operand,
)

# With this many repeats of a divisor, its inverse is worth an op.
_MANY = 8

# A rewrite returns the value that replaces the op's result, or None.
Rewrite = Callable[[Any], "ir.Value | None"]


def _rewrites(*ops: type[ir.OpView]) -> Callable[[Rewrite], Pattern]:
    """Marks a rewrite of ops whose sizes have values or names: new ops get these sizes."""

    def mark(rewrite: Rewrite) -> Pattern:
        @rewrites(*ops)
        @wraps(rewrite)
        def guarded(op: ir.OpView, context: PassContext) -> ir.Value | None:
            return rewrite(op) if has_sizes(op) else None

        return guarded

    return mark


def _is_float(value: ir.Value) -> bool:
    return isinstance(element_type(value), ir.FloatType)


def _constant_operand(op: mgx.AddOp | mgx.MulOp) -> tuple[ir.Value, ir.Value] | None:
    """(variable, constant) of a commutative op with exactly one constant operand."""
    if is_constant(op.b) and not is_constant(op.a):
        return op.a, op.b
    if is_constant(op.a) and not is_constant(op.b):
        return op.b, op.a
    return None


def _broadcast_together(a: ir.Value, b: ir.Value) -> tuple[ir.Value, ir.Value]:
    """The sources of two broadcasts to one shape, broadcast to their smallest common shape.

    A constant whose elements are all equal is the broadcast of one.
    """
    a, b = _as_one(a), _as_one(b)
    common = common_sizes(source_sizes(a), source_sizes(b))
    a, b = broadcast_source(a), broadcast_source(b)
    common = common[len(common) - max(len(shape(a)), len(shape(b))) :]
    return broadcast_to(a, common), broadcast_to(b, common)


def _as_one(value: ir.Value) -> ir.Value:
    number = splat(value)
    if number is None:
        return value
    return mgx.splat(number, mgx.tensor_type([1] * len(shape(value)), element_type(value)))


@_rewrites(mgx.AddOp, mgx.MulOp)
def combine_constants(op: mgx.AddOp | mgx.MulOp) -> ir.Value | None:
    """(x . a) . b = x . (a . b) for add and mul."""
    parts = _constant_operand(op)
    if parts is None or not _is_float(parts[0]):
        return None
    inner = definition(parts[0])
    if type(inner) is not type(op) or not has_one_use(parts[0]):
        return None
    if not _in_one_block(inner, op):
        return None
    below = _constant_operand(inner)
    if below is None:
        return None
    make = _builder(op)
    with fused_location([inner, op]):
        a, b = _broadcast_together(below[1], parts[1])
        return make(below[0], broadcast_to(make(a, b), list(shape(parts[0]))))


@_rewrites(mgx.AddOp, mgx.MulOp)
def gather_constants(op: mgx.AddOp | mgx.MulOp) -> ir.Value | None:
    """(x . a) . (y . b) = (x . y) . (a . b) for add and mul."""
    if not _is_float(op.c):
        return None
    found = []
    for value in (op.a, op.b):
        inner = definition(value)
        if type(inner) is not type(op) or not has_one_use(value):
            return None
        parts = _constant_operand(inner)
        if parts is None or not _in_one_block(inner, op):
            return None
        found.append((inner, parts))
    (first, (x, a)), (second, (y, b)) = found
    if first == second:
        return None
    make = _builder(op)
    with fused_location([first, second, op]):
        dims = list(shape(op.c))
        return make(make(x, y), broadcast_to(make(*_broadcast_together(a, b)), dims))


def _builder(op: mgx.AddOp | mgx.MulOp) -> Callable[[ir.Value, ir.Value], ir.Value]:
    return mgx.add if isinstance(op, mgx.AddOp) else mgx.mul


def _in_one_block(inner: ir.OpView, op: ir.OpView) -> bool:
    """Whether both ops are in one block: a loop's body would do the other's work at each trip."""
    return bool(inner.operation.block == op.operation.block)


@_rewrites(mgx.MulOp)
def distribute_scale(op: mgx.MulOp) -> ir.Value | None:
    """(x + a) * b = x * b + a * b where a contraction or another scale makes x and takes b."""
    parts = _constant_operand(op)
    if parts is None or not has_one_use(parts[0]):
        return None
    add = definition(parts[0])
    if not isinstance(add, mgx.AddOp) or not _in_one_block(add, op):
        return None
    below = _constant_operand(add)
    if below is None:
        return None
    maker = definition(below[0])
    is_scaled = isinstance(maker, mgx.MulOp) and _constant_operand(maker) is not None
    if not is_scaled and not isinstance(maker, mgx.CONTRACTIONS):
        return None
    if not _is_float(below[0]) or not has_one_use(below[0]):
        return None
    with fused_location([add, op]):
        a, b = _broadcast_together(below[1], parts[1])
        offset = broadcast_to(mgx.mul(a, b), list(shape(parts[0])))
        return mgx.add(mgx.mul(below[0], parts[1]), offset)


@_rewrites(mgx.MulOp)
def scale_into_weights(op: mgx.MulOp) -> ir.Value | None:
    """conv(x, w) * s = conv(x, w * s), and dot(x, w) * s = dot(x, w * s), for constant w."""
    parts = _constant_operand(op)
    if parts is None or not has_one_use(parts[0]):
        return None
    contraction = definition(parts[0])
    if not isinstance(contraction, mgx.ConvolutionOp | mgx.DotOp):
        return None
    if not _in_one_block(contraction, op):
        return None
    is_dot = isinstance(contraction, mgx.DotOp)
    place = 0 if is_dot and is_constant(contraction.operands[0]) else 1
    w = contraction.operands[place]
    if not is_constant(w):
        return None
    scale, sizes = broadcast_source(parts[1]), source_sizes(parts[1])
    channel = len(sizes) - 1 - (place == 0) if is_dot else 1
    number = splat(parts[1])
    if number is None and any(size != 1 for i, size in enumerate(sizes) if i != channel):
        return None
    with fused_location([contraction, op]):
        if number is not None:
            factor = mgx.splat(number, w.type)
        else:
            # Output channels are the weight's first dimension for conv, its last for dot.
            target = [1] * len(shape(w))
            target[channel if is_dot else 0] = sizes[channel]
            factor = broadcast_to(mgx.reshape(scale, target), list(shape(w)))
        return with_operand(contraction, place, mgx.mul(w, factor))


@_rewrites(mgx.DotOp)
def multiply_batch_of_broadcasts(op: mgx.DotOp) -> ir.Value | None:
    """One product where all products of a batch have the same operands."""
    operands = (op.a, op.b)
    sizes = [source_sizes(value) for value in operands]
    same = {
        i
        for i, size in enumerate(shape(op.c)[:-2])
        if size > 1 and all(dims[i] == 1 for dims in sizes)
    }
    if not same:
        return None
    parts = []
    for value, dims in zip(operands, sizes, strict=True):
        source = mgx.reshape(broadcast_source(value), dims)
        few = [1 if i in same else size for i, size in enumerate(shape(value))]
        parts.append(broadcast_to(source, few))
    return broadcast_to(mgx.dot(*parts), shape(op.c))


@_rewrites(mgx.AddOp)
def offset_into_bias(op: mgx.AddOp) -> ir.Value | None:
    """float(x - c) * a + b = float(x) * a + (b - c * a), of the sums x of a product of bytes."""
    biased = _constant_operand(op)
    scaled = definition(biased[0]) if biased else None
    if biased is None or not isinstance(scaled, mgx.MulOp):
        return None
    parts = _constant_operand(scaled)
    if parts is None or not all(map(has_one_use, (biased[0], parts[0]))):
        return None
    wide = definition(parts[0])
    if not isinstance(wide, mgx.ConvertOp) or not has_one_use(wide.x):
        return None
    less = definition(wide.x)
    if not isinstance(less, mgx.SubOp) or not is_constant(less.b):
        return None
    if not isinstance(definition(less.a), mgx.QuantDotOp | mgx.QuantConvolutionOp):
        return None
    axes = range(len(shape(op.c)))
    if not all(any(is_along(x, i) for i in axes) for x in (less.b, parts[1], biased[1])):
        return None
    element = element_type(op.c)
    with fused_location([less, scaled, op]):
        c, a = _broadcast_together(less.b, parts[1])
        ca, b = _broadcast_together(mgx.mul(mgx.convert(c, element), a), biased[1])
        bias = broadcast_to(mgx.sub(b, ca), shape(op.c))
        return mgx.add(mgx.mul(mgx.convert(less.a, element), parts[1]), bias)


@_rewrites(mgx.SubOp)
def subtract_to_add(op: mgx.SubOp) -> ir.Value | None:
    """x - a = x + (-a)."""
    if not is_constant(op.b) or is_constant(op.a) or not _is_float(op.a):
        return None
    return mgx.add(op.a, broadcast_to(mgx.neg(broadcast_source(op.b)), list(shape(op.a))))


@_rewrites(mgx.DivOp)
def divide_by_constant(op: mgx.DivOp) -> ir.Value | None:
    """x / a = x * (1 / a)."""
    if not is_constant(op.b) or is_constant(op.a) or not _is_float(op.a):
        return None
    return mgx.mul(op.a, broadcast_to(mgx.recip(broadcast_source(op.b)), list(shape(op.a))))


@_rewrites(mgx.DivOp)
def divide_once(op: mgx.DivOp) -> ir.Value | None:
    """x / b = x * (1 / b) where b is repeated: one division for each element of b."""
    source = broadcast_source(op.b)
    if source == op.b or not _is_float(op.a) or is_constant(op.a):
        return None
    if _MANY * prod(shape(source)) > prod(shape(op.a)):
        return None
    return mgx.mul(op.a, broadcast_to(mgx.recip(source), shape(op.a)))


@_rewrites(mgx.DivOp, mgx.RecipOp)
def reciprocal_of_sqrt(op: mgx.DivOp | mgx.RecipOp) -> ir.Value | None:
    """1 / sqrt(x) = rsqrt(x)."""
    divisor = op.x if isinstance(op, mgx.RecipOp) else op.b
    if isinstance(op, mgx.DivOp) and splat(op.a) != 1:
        return None
    root = definition(divisor)
    if not isinstance(root, mgx.SqrtOp) or not _is_float(divisor):
        return None
    return mgx.rsqrt(root.x)


@_rewrites(mgx.MulOp, mgx.DivOp)
def multiply_by_minus_one(op: mgx.MulOp | mgx.DivOp) -> ir.Value | None:
    """x * -1 and x / -1 are -x."""
    if splat(op.b) == -1 and _is_signed(op.a):
        return mgx.neg(op.a)
    if isinstance(op, mgx.MulOp) and splat(op.a) == -1 and _is_signed(op.b):
        return mgx.neg(op.b)
    return None


@_rewrites(mgx.SubOp)
def subtract_from_zero(op: mgx.SubOp) -> ir.Value | None:
    """0 - x = -x, of integers only: of floats, 0 - 0 is 0, not -0."""
    whole = not _is_float(op.b) and _is_signed(op.b)
    return mgx.neg(op.b) if whole and splat(op.a) == 0 else None


def _is_signed(value: ir.Value) -> bool:
    element = element_type(value)
    return not isinstance(element, ir.IntegerType) or not (
        element.is_unsigned or element.width == 1
    )


@_rewrites(mgx.MulOp)
def multiply_by_zero(op: mgx.MulOp) -> ir.Value | None:
    """0 * x = 0, of integers only: a float x could be infinite or NaN."""
    if _is_float(op.c):
        return None
    zero = next((v for v in (op.a, op.b) if splat(v) == 0), None)
    return None if zero is None or zero.type != op.c.type else zero


@_rewrites(mgx.AddOp)
def one_plus_tanh_to_sigmoid(op: mgx.AddOp) -> ir.Value | None:
    """1 + tanh(x) = 2 sigmoid(2 x), as in GELU: one exponential less, and no cancellation."""
    parts = _constant_operand(op)
    if parts is None or splat(parts[1]) != 1 or not has_one_use(parts[0]):
        return None
    tanh = definition(parts[0])
    if not isinstance(tanh, mgx.TanhOp):
        return None
    with fused_location([tanh, op]):
        two = mgx.splat(2, tanh.y.type)
        return mgx.mul(mgx.sigmoid(mgx.mul(tanh.x, two)), two)


@_rewrites(mgx.LogOp)
def log_of_softmax(op: mgx.LogOp) -> ir.Value | None:
    """log(softmax(x)) = logsoftmax(x)."""
    softmax = definition(op.x)
    if not isinstance(softmax, mgx.SoftmaxOp) or not has_one_use(op.x):
        return None
    with fused_location([softmax, op]):
        return mgx.logsoftmax(softmax.x, softmax.axis.value)


@_rewrites(mgx.PowOp)
def power_to_products(op: mgx.PowOp) -> ir.Value | None:
    """x ^ 1, 2, 3, -1 and 0.5 as products, a reciprocal and a square root."""
    base, value = op.a, splat(op.b)
    if value == 1:
        return base
    if value in (2, 3):
        square = mgx.mul(base, base)
        return square if value == 2 else mgx.mul(square, base)
    if value == -1 and _is_float(base):
        return mgx.recip(base)
    # pow(-0.0, 0.5) is 0.0 and pow(-inf, 0.5) is inf; sqrt differs there, as documented.
    return mgx.sqrt(base) if value == 0.5 and _is_float(base) else None


@dataclass(frozen=True)
class SimplifyAlgebra(PatternPass):
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
    integers; float(x - a) * b + c to float(x) * b + (c - a * b) for sums x of a product of bytes;
    a batch of equal products to a broadcast of one; a batch of named size with one right
    operand to a product with more rows. `a` and `b` are constants.
    These change the rounding of float results, never an integer.
    """

    cleanup: ClassVar[bool] = True
    rounds: ClassVar[bool] = True
    symbolic: ClassVar[bool] = True
    name: ClassVar[str] = "mgx-simplify-algebra"
    patterns: ClassVar = (
        one_plus_tanh_to_sigmoid,
        scale_into_weights,
        distribute_scale,
        combine_constants,
        gather_constants,
        offset_into_bias,
        reciprocal_of_sqrt,
        multiply_by_minus_one,
        subtract_from_zero,
        multiply_by_zero,
        divide_by_constant,
        divide_once,
        multiply_batch_of_broadcasts,
        log_of_softmax,
        power_to_products,
        subtract_to_add,
    )
