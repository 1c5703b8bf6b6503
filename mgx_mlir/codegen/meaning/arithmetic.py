"""arith and math ops on scalars or vectors alike, with this project's float rules."""

from __future__ import annotations

from collections.abc import Sequence

from mlir import ir
from mlir.dialects import arith, math

from mgx_mlir.codegen.meaning.element import UNSIGNED, Element

CONTRACT = arith.FastMathFlags.contract
SUM = arith.FastMathFlags.contract | arith.FastMathFlags.reassoc
# Ops whose result is the number of their operand, where all elements of that are one number.
_REPEATING = ("arith.extf", "vector.broadcast", "vector.extract")


class Arithmetic:
    """Builds values of one shape: scalars (`vector=None`) or vectors of the given shape.

    Types are given as scalar types; values have the vector's shape.
    """

    def __init__(self, vector: Sequence[int] | None = None) -> None:
        self.vector = list(vector) if vector is not None else None

    @staticmethod
    def like(values: Sequence[ir.Value]) -> Arithmetic:
        """The arithmetic for values of the same shape as the given ones."""
        for value in values:
            if isinstance(value.type, ir.VectorType):
                return Arithmetic(value.type.shape)
        return Arithmetic()

    def type(self, scalar: ir.Type) -> ir.Type:
        return scalar if self.vector is None else ir.VectorType.get(self.vector, scalar)

    def constant(self, value: float | int | bool, scalar: ir.Type) -> ir.Value:
        if isinstance(scalar, ir.IntegerType):
            attribute: ir.Attribute = (
                ir.BoolAttr.get(bool(value))
                if scalar.width == 1
                else ir.IntegerAttr.get(scalar, wrapped(int(value), scalar.width))
            )
        elif isinstance(scalar, ir.IndexType):
            attribute = ir.IntegerAttr.get(scalar, int(value))
        else:
            attribute = ir.FloatAttr.get(scalar, float(value))
        if self.vector is not None:
            attribute = ir.DenseElementsAttr.get_splat(self.type(scalar), attribute)
        return arith.ConstantOp(self.type(scalar), attribute).result

    # Floats

    def add(self, a: ir.Value, b: ir.Value) -> ir.Value:
        return arith.addf(a, b, fastmath=CONTRACT)

    def sub(self, a: ir.Value, b: ir.Value) -> ir.Value:
        return arith.subf(a, b, fastmath=CONTRACT)

    def mul(self, a: ir.Value, b: ir.Value) -> ir.Value:
        return arith.mulf(a, b, fastmath=CONTRACT)

    def div(self, a: ir.Value, b: ir.Value) -> ir.Value:
        return arith.divf(a, b, fastmath=CONTRACT)

    def share(self, a: ir.Value, total: ir.Value) -> ir.Value:
        """a / total, where many are divided by one total: its reciprocal may be taken once."""
        return arith.divf(a, total, fastmath=CONTRACT | arith.FastMathFlags.arcp)

    def neg(self, a: ir.Value) -> ir.Value:
        return arith.negf(a, fastmath=CONTRACT)

    def math(self, name: str, *operands: ir.Value) -> ir.Value:
        """The float function `math.<name>`."""
        return getattr(math, name)(*operands, fastmath=CONTRACT)

    def float(self, value: float, like: ir.Value) -> ir.Value:
        """A constant of the type of `like`."""
        return self.constant(value, scalar_type(like))

    def compare(self, predicate: str, a: ir.Value, b: ir.Value) -> ir.Value:
        return arith.cmpf(getattr(arith.CmpFPredicate, predicate.upper()), a, b)

    # Integers

    def int(self, value: int, like: ir.Value) -> ir.Value:
        """A constant of the type of `like`."""
        return self.constant(value, scalar_type(like))

    def icompare(self, predicate: str, a: ir.Value, b: ir.Value) -> ir.Value:
        return arith.cmpi(getattr(arith.CmpIPredicate, predicate), a, b)

    # Bools

    def negate(self, a: ir.Value) -> ir.Value:
        return arith.xori(a, self.int(1, a))

    def select(self, condition: ir.Value, a: ir.Value, b: ir.Value) -> ir.Value:
        return arith.select(condition, a, b)

    # Both

    def less(self, element: Element, a: ir.Value, b: ir.Value) -> ir.Value:
        """a < b, false if either is NaN, for values in the type where `element` is computed."""
        if element.is_float:
            return self.compare("olt", a, b)
        return self.icompare("slt" if element.kind == "signed" else "ult", a, b)

    def equal(self, element: Element, a: ir.Value, b: ir.Value) -> ir.Value:
        return self.compare("oeq", a, b) if element.is_float else self.icompare("eq", a, b)

    def maximum(self, element: Element, a: ir.Value, b: ir.Value) -> ir.Value:
        """The larger; NaN if either is NaN."""
        if element.is_float:
            return arith.maximumf(a, b)
        return arith.maxsi(a, b) if element.kind == "signed" else arith.maxui(a, b)

    def minimum(self, element: Element, a: ir.Value, b: ir.Value) -> ir.Value:
        """The smaller; NaN if either is NaN."""
        if element.is_float:
            return arith.minimumf(a, b)
        return arith.minsi(a, b) if element.kind == "signed" else arith.minui(a, b)

    def sum(self, element: Element, a: ir.Value, b: ir.Value) -> ir.Value:
        """a + b as part of a sum whose order does not matter."""
        if element.is_float:
            return arith.addf(a, b, fastmath=SUM)
        return arith.addi(a, b)

    def product(self, element: Element, a: ir.Value, b: ir.Value) -> ir.Value:
        return self.mul(a, b) if element.is_float else arith.muli(a, b)

    def bitwise_and(self, element: Element, a: ir.Value, b: ir.Value) -> ir.Value:
        return arith.andi(a, b)

    def bitwise_or(self, element: Element, a: ir.Value, b: ir.Value) -> ir.Value:
        return arith.ori(a, b)

    def extend(self, element: Element, value: ir.Value, scalar: ir.Type) -> ir.Value:
        """A wider integer of the same value."""
        extend = arith.extui if element.kind in (UNSIGNED, "bool") else arith.extsi
        return extend(self.type(scalar), value)


def scalar_type(value: ir.Value) -> ir.Type:
    """The type of the elements of a vector or tensor, or of a scalar."""
    type_ = value.type
    return type_.element_type if isinstance(type_, ir.ShapedType) else type_


def constant_number(value: ir.Value) -> float | int | None:
    """The number of a constant, or of all of its elements; None for other values."""
    op = value.owner
    while not isinstance(op, ir.Block) and op.name in _REPEATING:
        op = op.operands[0].owner
    if isinstance(op, ir.Block) or op.name not in ("arith.constant", "llvm.mlir.constant"):
        return None
    number: ir.Attribute = op.attributes["value"]
    if isinstance(number, ir.DenseElementsAttr):
        if not number.is_splat:
            return None
        number = number.get_splat_value()
    return number.value if isinstance(number, ir.FloatAttr | ir.IntegerAttr) else None


def wrapped(value: int, bits: int) -> int:
    """The value of the low bits as a two's complement number."""
    return (value + (1 << (bits - 1))) % (1 << bits) - (1 << (bits - 1))
