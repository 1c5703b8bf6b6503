"""The meaning of each pointwise op for one element, on scalars or vectors alike.

`emit_pointwise` is shared: the lowering to linalg uses it on scalars, the generators of
contraction kernels inline their epilogues with it on vectors.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from mlir import ir
from mlir.dialects import arith

from mgx_mlir.codegen.generic.lowering import functions
from mgx_mlir.codegen.generic.lowering.arithmetic import Arithmetic
from mgx_mlir.codegen.generic.lowering.by_class import ByClass
from mgx_mlir.codegen.generic.lowering.convert import change, convert, load, store
from mgx_mlir.codegen.generic.lowering.element import BOOL, F32, F64, SIGNED, Element, element_of
from mgx_mlir.codegen.generic.lowering.integers import (
    integer_divide,
    integer_power,
    integer_remainder,
    shift_left,
    shift_right,
)
from mgx_mlir.dialects import mgx
from mgx_mlir.errors import CompilerError, UnsupportedError

# An emitter gets the arithmetic, the op, the element type of its operands, and the operands in the
# type where that element is computed; it gives a value of the same type, or a bool.
Emitter = Callable[[Arithmetic, Any, Element, Sequence[ir.Value]], ir.Value]
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
    if emitter is None:
        raise UnsupportedError(f"{op.location}: {op.operation.name} is not a pointwise op")
    element, result = element_of(op.operands[0].type), element_of(op.result.type)
    value = emitter(a, op, element.computed(), [load(a, element, x) for x in operands])
    return [value if result.kind == BOOL else store(a, result, value)]


def pointwise_ops() -> tuple[type[ir.OpView], ...]:
    """The classes of the ops that `emit_pointwise` takes, without constants and bodies of ops."""
    classes = (*emits.classes(), *emits_stored.classes())
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


# Emitters on floats, and on all numbers


def _function(name: str) -> Emitter:
    if hasattr(functions, name):
        return lambda a, op, element, x: getattr(functions, name)(a, x[0])
    return lambda a, op, element, x: a.math(name, x[0])


_FUNCTIONS: dict[type[ir.OpView], str] = {
    mgx.AcosOp: "acos",
    mgx.AcoshOp: "acosh",
    mgx.AsinOp: "asin",
    mgx.AsinhOp: "asinh",
    mgx.AtanOp: "atan",
    mgx.AtanhOp: "atanh",
    mgx.CeilOp: "ceil",
    mgx.CosOp: "cos",
    mgx.CoshOp: "cosh",
    mgx.ErfOp: "erf",
    mgx.ExpOp: "exp",
    mgx.FloorOp: "floor",
    mgx.LogOp: "log",
    mgx.Log1pOp: "log1p",
    mgx.Log2Op: "log2",
    mgx.NearbyintOp: "roundeven",
    mgx.RsqrtOp: "rsqrt",
    mgx.SinOp: "sin",
    mgx.SinhOp: "sinh",
    mgx.SqrtOp: "sqrt",
    mgx.TanOp: "tan",
    mgx.TanhOp: "tanh",
}
for _class, _name in _FUNCTIONS.items():
    emits(_class)(_function(_name))


@emits(mgx.AbsOp)
def _abs(a: Arithmetic, op: Any, element: Element, x: Sequence[ir.Value]) -> ir.Value:
    if element.is_float:
        return a.math("absf", x[0])
    if element.kind != SIGNED:
        return x[0]
    zero = a.int(0, x[0])
    negative = a.icompare("slt", x[0], zero)
    return a.select(negative, arith.subi(zero, x[0]), x[0])


@emits(mgx.NegOp)
def _neg(a: Arithmetic, op: Any, element: Element, x: Sequence[ir.Value]) -> ir.Value:
    return a.neg(x[0]) if element.is_float else arith.subi(a.int(0, x[0]), x[0])


@emits(mgx.RecipOp)
def _recip(a: Arithmetic, op: Any, element: Element, x: Sequence[ir.Value]) -> ir.Value:
    return a.div(a.float(1.0, x[0]), x[0])


@emits(mgx.ReluOp)
def _relu(a: Arithmetic, op: Any, element: Element, x: Sequence[ir.Value]) -> ir.Value:
    zero = a.int(0, x[0])  # keeps a NaN, as the comparison is false for it
    return a.select(a.less(element, x[0], zero), zero, x[0])


@emits(mgx.SigmoidOp)
def _sigmoid(a: Arithmetic, op: Any, element: Element, x: Sequence[ir.Value]) -> ir.Value:
    one = a.float(1.0, x[0])
    return a.div(one, a.add(one, a.math("exp", a.neg(x[0]))))


@emits(mgx.SignOp)
def _sign(a: Arithmetic, op: Any, element: Element, x: Sequence[ir.Value]) -> ir.Value:
    zero, one = a.int(0, x[0]), a.int(1, x[0])
    result = a.select(a.less(element, zero, x[0]), one, x[0])
    if element.kind == "unsigned":
        return result
    return a.select(a.less(element, x[0], zero), a.int(-1, x[0]), result)


@emits(mgx.EluOp)
def _elu(a: Arithmetic, op: mgx.EluOp, element: Element, x: Sequence[ir.Value]) -> ir.Value:
    zero = a.float(0.0, x[0])
    below = a.mul(a.float(op.alpha.value, x[0]), a.math("expm1", x[0]))
    return a.select(a.compare("ogt", x[0], zero), x[0], below)


@emits(mgx.LeakyReluOp)
def _leaky_relu(
    a: Arithmetic, op: mgx.LeakyReluOp, element: Element, x: Sequence[ir.Value]
) -> ir.Value:
    below = a.mul(a.float(op.alpha.value, x[0]), x[0])
    return a.select(a.compare("ogt", x[0], a.float(0.0, x[0])), x[0], below)


@emits(mgx.BitwiseNotOp, mgx.NotOp)
def _not(a: Arithmetic, op: Any, element: Element, x: Sequence[ir.Value]) -> ir.Value:
    return arith.xori(x[0], a.int(-1, x[0]))


@emits(mgx.IsnanOp)
def _isnan(a: Arithmetic, op: Any, element: Element, x: Sequence[ir.Value]) -> ir.Value:
    return a.compare("uno", x[0], x[0])


@emits(mgx.IsinfOp)
def _isinf(a: Arithmetic, op: mgx.IsinfOp, element: Element, x: Sequence[ir.Value]) -> ir.Value:
    positive = a.compare("oeq", x[0], a.float(float("inf"), x[0]))
    negative = a.compare("oeq", x[0], a.float(float("-inf"), x[0]))
    if op.detect_positive.value and op.detect_negative.value:
        return arith.ori(positive, negative)
    if op.detect_positive.value:
        return positive
    if op.detect_negative.value:
        return negative
    return a.constant(False, ir.IntegerType.get_signless(1))


@emits(mgx.AddOp)
def _add(a: Arithmetic, op: Any, element: Element, x: Sequence[ir.Value]) -> ir.Value:
    return a.add(*x) if element.is_float else arith.addi(*x)


@emits(mgx.SubOp)
def _sub(a: Arithmetic, op: Any, element: Element, x: Sequence[ir.Value]) -> ir.Value:
    return a.sub(*x) if element.is_float else arith.subi(*x)


@emits(mgx.MulOp)
def _mul(a: Arithmetic, op: Any, element: Element, x: Sequence[ir.Value]) -> ir.Value:
    return a.product(element, *x)


@emits(mgx.DivOp)
def _div(a: Arithmetic, op: Any, element: Element, x: Sequence[ir.Value]) -> ir.Value:
    return a.div(*x) if element.is_float else integer_divide(a, element, *x)


@emits(mgx.FmodOp)
def _fmod(a: Arithmetic, op: Any, element: Element, x: Sequence[ir.Value]) -> ir.Value:
    if element.is_float:
        return arith.remf(*x)
    return integer_remainder(a, element, *x)


@emits(mgx.ModOp)
def _mod(a: Arithmetic, op: Any, element: Element, x: Sequence[ir.Value]) -> ir.Value:
    remainder = _fmod(a, op, element, x)
    if element.kind == "unsigned":
        return remainder
    zero = a.int(0, x[0])
    differs = arith.xori(a.less(element, remainder, zero), a.less(element, x[1], zero))
    if element.is_float:
        nonzero = a.compare("one", remainder, zero)
        return a.select(arith.andi(differs, nonzero), a.add(remainder, x[1]), remainder)
    nonzero = a.icompare("ne", remainder, zero)
    return a.select(arith.andi(differs, nonzero), arith.addi(remainder, x[1]), remainder)


@emits(mgx.PowOp)
def _pow(a: Arithmetic, op: Any, element: Element, x: Sequence[ir.Value]) -> ir.Value:
    if not element.is_float:
        return integer_power(a, element, *x)
    return functions.power(a, *x)


@emits(mgx.MaxOp)
def _max(a: Arithmetic, op: Any, element: Element, x: Sequence[ir.Value]) -> ir.Value:
    return a.maximum(element, *x)


@emits(mgx.MinOp)
def _min(a: Arithmetic, op: Any, element: Element, x: Sequence[ir.Value]) -> ir.Value:
    return a.minimum(element, *x)


@emits(mgx.SqdiffOp)
def _sqdiff(a: Arithmetic, op: Any, element: Element, x: Sequence[ir.Value]) -> ir.Value:
    difference = _sub(a, op, element, x)
    return a.product(element, difference, difference)


@emits(mgx.PreluOp)
def _prelu(a: Arithmetic, op: Any, element: Element, x: Sequence[ir.Value]) -> ir.Value:
    positive = a.less(element, a.int(0, x[0]), x[0])
    return a.select(positive, x[0], a.product(element, *x))


@emits(mgx.BitwiseAndOp, mgx.LogicalAndOp)
def _and(a: Arithmetic, op: Any, element: Element, x: Sequence[ir.Value]) -> ir.Value:
    return arith.andi(*x)


@emits(mgx.BitwiseOrOp, mgx.LogicalOrOp)
def _or(a: Arithmetic, op: Any, element: Element, x: Sequence[ir.Value]) -> ir.Value:
    return arith.ori(*x)


@emits(mgx.BitwiseXorOp, mgx.LogicalXorOp)
def _xor(a: Arithmetic, op: Any, element: Element, x: Sequence[ir.Value]) -> ir.Value:
    return arith.xori(*x)


@emits(mgx.ShiftLeftOp)
def _shift_left(a: Arithmetic, op: Any, element: Element, x: Sequence[ir.Value]) -> ir.Value:
    return shift_left(a, element, *x)


@emits(mgx.ShiftRightOp)
def _shift_right(a: Arithmetic, op: Any, element: Element, x: Sequence[ir.Value]) -> ir.Value:
    return shift_right(a, element, *x)


@emits(mgx.EqualOp)
def _equal(a: Arithmetic, op: Any, element: Element, x: Sequence[ir.Value]) -> ir.Value:
    return a.equal(element, *x)


@emits(mgx.GreaterOp)
def _greater(a: Arithmetic, op: Any, element: Element, x: Sequence[ir.Value]) -> ir.Value:
    return a.less(element, x[1], x[0])


@emits(mgx.LessOp)
def _less(a: Arithmetic, op: Any, element: Element, x: Sequence[ir.Value]) -> ir.Value:
    return a.less(element, *x)


@emits(mgx.ClipOp)
def _clip(a: Arithmetic, op: Any, element: Element, x: Sequence[ir.Value]) -> ir.Value:
    value, low, high = x  # keeps a NaN in x
    value = a.select(a.less(element, value, low), low, value)
    return a.select(a.less(element, high, value), high, value)


# Ops whose operands differ in type


@emits_stored(mgx.WhereOp)
def _where(a: Arithmetic, op: Any, x: Sequence[ir.Value]) -> ir.Value:
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
    if op.precision is not None:
        value = _divide_in(a, element_of(op.precision.value), wide, value, scale)
    else:
        value = a.div(value, scale)
    if target.is_integer:
        value = a.math("roundeven", value)
    if zero:
        value = a.add(value, zero[0])
    return convert(a, wide, target, value, op.saturate.value)


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
