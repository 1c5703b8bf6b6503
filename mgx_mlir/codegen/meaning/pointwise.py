"""The meaning of each pointwise op for one element, on scalars or vectors alike.

`emit_pointwise` is shared: loops use it on scalars, the generators of
contraction kernels inline their epilogues with it on vectors.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from mlir import ir
from mlir.dialects import arith

from mgx_mlir.codegen.meaning import native
from mgx_mlir.codegen.meaning.arithmetic import Arithmetic, constant_number
from mgx_mlir.codegen.meaning.by_class import ByClass
from mgx_mlir.codegen.meaning.convert import change, convert, load, store
from mgx_mlir.codegen.meaning.element import BOOL, F32, F64, Element, element_of
from mgx_mlir.codegen.meaning.numeric import computes
from mgx_mlir.codegen.meaning.quantize import (
    code_of_narrow,
    divided,
    divided_by,
    integer_code,
    known_scale,
)
from mgx_mlir.dialects import mgx
from mgx_mlir.errors import CompilerError, UnsupportedError
from mgx_mlir.rewriting.queries import definition, users

# An emitter of an op with attributes gets the op before the arguments of a numeric function.
Emitter = Callable[..., ir.Value]
emits: ByClass[Emitter] = ByClass()
# An emitter of an op whose operands differ in type gets and gives values as memory holds them.
StoredEmitter = Callable[[Arithmetic, Any, Sequence[ir.Value]], ir.Value]
emits_stored: ByClass[StoredEmitter] = ByClass()


def emit_pointwise(op: ir.OpView, operands: Sequence[ir.Value]) -> list[ir.Value]:
    """The results of a pointwise op, at the current insertion point.

    op: a pointwise op of the dialect on tensors or scalars, or one with a body of them as a whole:
    `mgx.pointwise`, or `mgx.attention`, whose operands are then a score and the extras.
    operands: one scalar, or one vector of a common shape, for each operand, in storage types
    (`Element.storage`): unsigned integers signless, 8-bit floats and 4-bit types as i8.
    Raises UnsupportedError for an op that is not pointwise.
    """
    if isinstance(op, mgx.PointwiseOp | mgx.AttentionOp):
        return _emit_body(op, operands)
    a = Arithmetic.like(operands)
    stored = emits_stored.of(op)
    if stored is not None:
        return [stored(a, op, operands)]
    emitter = emits.of(op)
    compute = computes.of(op) if emitter is None else partial(emitter, op)
    if compute is None:
        raise UnsupportedError(f"{op.location}: {op.operation.name} is not a pointwise op")
    element, result = element_of(op.operands[0].type), element_of(op.result.type)
    value = compute(a, element.computed(), *(load(a, element, x) for x in operands))
    return [value if result.kind == BOOL else store(a, result, value)]


def pointwise_ops() -> tuple[type[ir.OpView], ...]:
    """The classes of the ops that `emit_pointwise` takes, without constants and bodies of ops."""
    classes = (*computes.classes(), *emits.classes(), *emits_stored.classes())
    return tuple(class_ for class_ in classes if class_ is not mgx.ConstantOp)


def _emit_body(
    op: mgx.PointwiseOp | mgx.AttentionOp, operands: Sequence[ir.Value]
) -> list[ir.Value]:
    block = op.body.blocks[0]
    vector = Arithmetic.like(operands).vector
    values: dict[ir.Value, ir.Value] = dict(zip(block.arguments, operands, strict=True))
    for inner in block.operations:
        arguments = [values[x] for x in inner.operands]
        if isinstance(inner, mgx.YieldOp):
            return arguments
        if isinstance(inner, mgx.ConstantOp):
            results = [scalar_constant(Arithmetic(vector), inner)]
        else:
            with inner.location:
                results = emit_pointwise(inner, arguments)
        values.update(zip(inner.results, results, strict=True))
    raise CompilerError(f"{op.location}: a body without mgx.yield")


@emits_stored(mgx.ConstantOp)
def _constant(a: Arithmetic, op: mgx.ConstantOp, x: Sequence[ir.Value]) -> ir.Value:
    return scalar_constant(a, op)


def scalar_constant(a: Arithmetic, op: mgx.ConstantOp) -> ir.Value:
    """The value of an mgx.constant that holds one element, or one element repeated."""
    value, element = op.value, element_of(op.result.type)
    if isinstance(value, ir.DenseElementsAttr):
        value = value.get_splat_value()
    assert isinstance(value, ir.BoolAttr | ir.FloatAttr | ir.IntegerAttr)
    return number(a, element, value.value)


def number(a: Arithmetic, element: Element, value: float | int | bool) -> ir.Value:
    """A constant of an element type, as memory holds it."""
    if element.is_byte_float:
        return store(a, element, a.constant(value, F32.storage()))
    return a.constant(value, element.storage())


# Ops with attributes


@emits(mgx.EluOp)
def _elu(op: mgx.EluOp, a: Arithmetic, element: Element, x: ir.Value) -> ir.Value:
    zero = a.float(0.0, x)
    below = a.mul(a.float(op.alpha.value, x), a.math("expm1", x))
    return a.select(a.compare("ogt", x, zero), x, below)


@emits(mgx.LeakyReluOp)
def _leaky_relu(op: mgx.LeakyReluOp, a: Arithmetic, element: Element, x: ir.Value) -> ir.Value:
    below = a.mul(a.float(op.alpha.value, x), x)
    return a.select(a.compare("ogt", x, a.float(0.0, x)), x, below)


@emits(mgx.ClipOp)
def _clip(
    op: mgx.ClipOp, a: Arithmetic, element: Element, x: ir.Value, low: ir.Value, high: ir.Value
) -> ir.Value:
    least, most = constant_number(low), constant_number(high)
    inside = None
    if least is not None and most is not None and least <= most:
        inside = native.median(x, least, most)
    if inside is None:
        above = a.select(a.less(element, x, low), low, x)  # keeps a NaN
        return a.select(a.less(element, high, above), high, above)
    return inside if _scales_its_source(op) else a.select(a.compare("uno", x, x), x, inside)


def _scales_its_source(op: mgx.ClipOp) -> bool:
    """Whether all readers multiply by what is clipped, scaled and shifted: a NaN stays one."""
    sources = {op.x}
    value = op.x
    while isinstance(maker := definition(value), mgx.AddOp | mgx.MulOp):
        values = [x for x in maker.operands if not isinstance(definition(x), mgx.ConstantOp)]
        if len(values) != 1:
            break
        value = values[0]
        sources.add(value)
    return all(
        isinstance(user, mgx.MulOp) and not sources.isdisjoint(user.operands)
        for user in users(op.result)
    )


@emits(mgx.IsinfOp)
def _isinf(op: mgx.IsinfOp, a: Arithmetic, element: Element, x: ir.Value) -> ir.Value:
    positive = a.compare("oeq", x, a.float(float("inf"), x))
    negative = a.compare("oeq", x, a.float(float("-inf"), x))
    if op.detect_positive.value and op.detect_negative.value:
        return arith.ori(positive, negative)
    if op.detect_positive.value:
        return positive
    if op.detect_negative.value:
        return negative
    return a.constant(False, ir.IntegerType.get_signless(1))


# Ops whose operands differ in type


@emits_stored(mgx.WhereOp)
def _where(a: Arithmetic, op: mgx.WhereOp, x: Sequence[ir.Value]) -> ir.Value:
    return a.select(*x)


@emits_stored(mgx.ConvertOp)
def _convert(a: Arithmetic, op: mgx.ConvertOp, x: Sequence[ir.Value]) -> ir.Value:
    source, target = element_of(op.x.type), element_of(op.result.type)
    return convert(a, source, target, x[0], op.saturate.value)


@emits_stored(mgx.BitCastOp)
def _bit_cast(a: Arithmetic, op: mgx.BitCastOp, x: Sequence[ir.Value]) -> ir.Value:
    source, target = element_of(op.x.type), element_of(op.result.type)
    if source.storage() == target.storage():
        # Only types of less than a byte share storage and differ in how it is filled.
        return store(a, target, x[0]) if target.is_integer and target.bits < 8 else x[0]
    return arith.bitcast(a.type(target.storage()), x[0])


@emits_stored(mgx.QuantizelinearOp)
def _quantizelinear(a: Arithmetic, op: mgx.QuantizelinearOp, x: Sequence[ir.Value]) -> ir.Value:
    elements = [element_of(operand.type) for operand in op.operands]
    target = element_of(op.result.type)
    wide = F64 if elements[0].name == "f64" else F32
    value, scale, *zero = [_as(a, e, wide, v) for e, v in zip(elements, x, strict=True)]
    known, divide = known_scale(x[1], wide), a.div
    if known is None and wide == F32 and native.is_gpu():
        divide = partial(divided_by, a)
    if op.precision is not None:
        known, divide = None, partial(_divide_in, a, element_of(op.precision.value), wide)
    if target.is_integer and target.bits <= 16:
        points = (zero[0], load(a, target, x[2])) if zero else None
        point = constant_number(points[1]) if points else 0
        narrow = _unconverted(op.x)
        source = element_of(narrow.type)
        if known is not None and point is not None and source.name in ("f16", "bf16"):
            if source.name == "f16" and isinstance(definition(narrow), mgx.MulOp):
                value = native.multiplied_halves(value)
            code = code_of_narrow(a, source, target, value, known, int(point))
            if code is not None:
                return code
        return integer_code(a, target, value, scale, points, known, divide, _is_summed(op.x))
    value = divide(value, scale) if known is None else divided(a, value, known)
    if target.is_integer:
        value = a.math("roundeven", value)
    if zero:
        value = a.add(value, zero[0])
    return convert(a, wide, target, value, op.saturate.value)


def _unconverted(value: ir.Value) -> ir.Value:
    """The value of a narrow float that is converted to a wider one; else the value itself."""
    op = definition(value)
    if not isinstance(op, mgx.ConvertOp):
        return value
    source = element_of(op.x.type)
    return op.x if source.is_float and source.bits < element_of(value.type).bits else value


def _is_summed(value: ir.Value) -> bool:
    """Whether a float is made of sums of a product of bytes, times their scales."""
    waiting, found = [value], set()
    while waiting:
        value = waiting.pop()
        op = definition(value)
        if op is None or value in found:
            continue
        found.add(value)
        if isinstance(op, mgx.MulOp):
            sums = (definition(x) for x in op.operands)
            if any(
                isinstance(x, mgx.ConvertOp) and element_of(x.x.type).name == "i32" for x in sums
            ):
                return True
        waiting.extend(op.operands)
    return False


def _divide_in(
    a: Arithmetic, precision: Element, wide: Element, x: ir.Value, y: ir.Value
) -> ir.Value:
    """x / y with operands and quotient rounded to `precision`; given and taken in `wide`."""
    x, y = (load(a, precision, convert(a, wide, precision, value)) for value in (x, y))
    quotient = store(a, precision, a.div(x, y), keep=True)
    return _as(a, precision, wide, quotient)


@emits_stored(mgx.DequantizelinearOp)
def _dequantizelinear(a: Arithmetic, op: mgx.DequantizelinearOp, x: Sequence[ir.Value]) -> ir.Value:
    elements = [element_of(operand.type) for operand in op.operands]
    target = element_of(op.result.type)
    wide = target.computed()
    value, scale, *zero = [_as(a, e, wide, v) for e, v in zip(elements, x, strict=True)]
    if zero:
        value = a.sub(value, zero[0])
    return store(a, target, a.mul(value, scale))


def _as(a: Arithmetic, element: Element, wide: Element, value: ir.Value) -> ir.Value:
    return change(a, element.computed(), wide, load(a, element, value))
