"""Element types: their names in the mgx dialect, their types in memory and in arithmetic.

The mgx types say more than LLVM can hold: signedness, 4-bit integers, 8-bit floats. A lowered
kernel holds every element in a *storage* type that any backend has:

    mgx                      storage                 computed in
    i1                       i1                      i1
    i8 .. i64, ui8 .. ui64   i8 .. i64               the same
    i2, i4, ui2, ui4         i8 (its low bits)       i8
    f32, f64                 the same                the same
    f16, bf16                the same                f32, rounded
    f8*, f4E2M1FN            i8 (the bits)           f32, rounded
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache

from mlir import ir

from mgx_mlir.elements import MINIFLOATS
from mgx_mlir.errors import UnsupportedError
from mgx_mlir.rewriting import symbolic as symbolic
from mgx_mlir.sizes.arithmetic import Number

BOOL, SIGNED, UNSIGNED, FLOAT = "bool", "signed", "unsigned", "float"


EXPONENT_ONLY = "f8E8M0FNU"


@dataclass(frozen=True)
class Element:
    """An mgx element type, without its MLIR context."""

    name: str
    kind: str
    bits: int

    @property
    def is_float(self) -> bool:
        return self.kind == FLOAT

    @property
    def is_byte_float(self) -> bool:
        """Whether memory holds the bits of the float in an i8."""
        return self.name in MINIFLOATS or self.name == EXPONENT_ONLY

    @property
    def is_integer(self) -> bool:
        return self.kind in (SIGNED, UNSIGNED)

    @property
    def lowest(self) -> int:
        """The lowest value of an integer type."""
        return -(1 << (self.bits - 1)) if self.kind == SIGNED else 0

    @property
    def highest(self) -> int:
        """The highest value of an integer type."""
        return (1 << (self.bits - (self.kind == SIGNED))) - 1

    def storage(self) -> ir.Type:
        """The type of an element in memory, of function arguments, of tensors."""
        if self.kind == BOOL:
            return ir.IntegerType.get_signless(1)
        if self.is_integer or self.is_byte_float:
            return ir.IntegerType.get_signless(max(self.bits, 8))
        return FLOATS[self.name]()

    def computed(self) -> Element:
        """The element type in which arithmetic on this one is done."""
        return F32 if self.is_float and self.bits < 32 else self


FLOATS: dict[str, Callable[[], ir.Type]] = {
    "bf16": ir.BF16Type.get,
    "f16": ir.F16Type.get,
    "f32": ir.F32Type.get,
    "f64": ir.F64Type.get,
}

BOOLEAN = Element("i1", BOOL, 1)
I32 = Element("i32", SIGNED, 32)
I64 = Element("i64", SIGNED, 64)
F32 = Element("f32", FLOAT, 32)
F64 = Element("f64", FLOAT, 64)


# Types of these classes need no look at their text, which costs more than all the rest.
_BY_CLASS: dict[type[ir.Type], Element] = {
    ir.F16Type: Element("f16", FLOAT, 16),
    ir.BF16Type: Element("bf16", FLOAT, 16),
    ir.F32Type: F32,
    ir.F64Type: F64,
}


@cache
def element_named(name: str) -> Element:
    """The element of a scalar type's text."""
    if name == "i1":
        return BOOLEAN
    if name.startswith("i"):
        return Element(name, SIGNED, int(name[1:]))
    if name.startswith("ui"):
        return Element(name, UNSIGNED, int(name[2:]))
    bits = {"b": 16, "f": int("".join(c for c in name[1:3] if c.isdigit()) or 0)}[name[0]]
    return Element(name, FLOAT, bits)


def element_of(type_: ir.Type) -> Element:
    """The element of a tensor, vector or scalar type of the mgx dialect."""
    if isinstance(type_, ir.ShapedType):
        type_ = type_.element_type
    return _BY_CLASS.get(type(type_)) or element_named(str(type_))


def shape_of(type_: ir.Type) -> tuple[int, ...]:
    """The static shape of a tensor type; `()` for a scalar. Raises UnsupportedError for others."""
    if not isinstance(type_, ir.ShapedType):
        return ()
    if not type_.has_static_shape:
        raise UnsupportedError(f"it has no form for {type_}, whose sizes only a run knows")
    return tuple(type_.shape)


def sizes_of(type_: ir.Type) -> tuple[Number, ...]:
    """The shape of a tensor type, whose dynamic dimensions are named by their sizes.

    Raises UnsupportedError for one without a name.
    """
    if not isinstance(type_, ir.RankedTensorType) or type_.has_static_shape:
        return shape_of(type_)
    sizes = symbolic.sizes_of(type_, None)
    known = tuple(size for size in sizes if size is not None)
    if len(known) != len(sizes):
        raise UnsupportedError(f"a size of {type_} does not follow from those of the inputs")
    return known


def bit_width(element: ir.Type) -> int:
    """Bits of a number type; an index counts 64."""
    if isinstance(element, ir.IndexType):
        return 64
    assert isinstance(element, ir.IntegerType | ir.FloatType), element
    return int(element.width)
