"""Element types, as one table: what each is called, how it is stored, which chips compute it.

The instructions that multiply a type are a chip's (`contraction.specs`); the dialect's type
constraints are in `MgxBase.td`. Sources: onnx.proto (TensorProto.DataType), MIGraphX's shape.hpp,
dlpack.h (DLDataTypeCode), and OCP's OFP8 and MX for small floats.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Minifloat:
    """A float of 8 bits or less: its layout and its special values (OCP OFP8, MX; ONNX Cast)."""

    bits: int
    mantissa: int
    bias: int
    largest: int  # the code of the largest finite value
    overflow: int  # the code of a value out of range, without saturation
    nan: int | None
    infinity: int | None = None
    signed_zero: bool = True

    @property
    def maximum(self) -> float:
        """The largest finite value, which is a normal number."""
        exponent, fraction = divmod(self.largest, 1 << self.mantissa)
        return (1 + fraction / (1 << self.mantissa)) * 2.0 ** (exponent - self.bias)


@dataclass(frozen=True)
class ElementRow:
    """An element type.

    name: MLIR's. bits: of an element in ONNX's raw data; numpy holds one in whole bytes. numpy:
    the name of the type in numpy, or in ml_dtypes. onnx, onnx_name: its number and name in ONNX.
    migraphx: MIGraphX's name of it. dlpack: DLPack's code of its kind. feature: what a chip needs
    for it, by `Target.features`; every chip has other types. minifloat: the layout of a small
    float. '' and None: there is none.
    """

    name: str
    bits: int
    numpy: str
    onnx: int
    onnx_name: str
    migraphx: str = ""
    dlpack: int | None = None
    feature: str = ""
    minifloat: Minifloat | None = None


# The rows with a name in MIGraphX come first, in the order of its enum.
ELEMENTS: tuple[ElementRow, ...] = (
    ElementRow("i1", 8, "bool", 9, "bool", "bool_type", 6),
    ElementRow("f16", 16, "float16", 10, "float16", "half_type", 2),
    ElementRow("f32", 32, "float32", 1, "float", "float_type", 2),
    ElementRow("f64", 64, "float64", 11, "double", "double_type", 2, "f64"),
    ElementRow("ui8", 8, "uint8", 2, "uint8", "uint8_type", 1),
    ElementRow("i8", 8, "int8", 3, "int8", "int8_type", 0),
    ElementRow("ui16", 16, "uint16", 4, "uint16", "uint16_type", 1),
    ElementRow("i16", 16, "int16", 5, "int16", "int16_type", 0),
    ElementRow("i32", 32, "int32", 6, "int32", "int32_type", 0),
    ElementRow("i64", 64, "int64", 7, "int64", "int64_type", 0),
    ElementRow("ui32", 32, "uint32", 12, "uint32", "uint32_type", 1),
    ElementRow("ui64", 64, "uint64", 13, "uint64", "uint64_type", 1),
    ElementRow(
        "f8E4M3FNUZ", 8, "float8_e4m3fnuz", 18, "float8e4m3fnuz", "fp8e4m3fnuz_type", 11,
        "fp8-fnuz",
        Minifloat(8, 3, 8, largest=0x7F, overflow=0x80, nan=0x80, signed_zero=False),
    ),
    ElementRow(
        "f8E4M3FN", 8, "float8_e4m3fn", 17, "float8e4m3fn", "fp8e4m3fn_type", 10, "fp8-ocp",
        Minifloat(8, 3, 7, largest=0x7E, overflow=0x7F, nan=0x7F),
    ),
    ElementRow(
        "f8E5M2", 8, "float8_e5m2", 19, "float8e5m2", "fp8e5m2_type", 12, "fp8-ocp",
        Minifloat(8, 2, 15, largest=0x7B, overflow=0x7C, nan=0x7E, infinity=0x7C),
    ),
    ElementRow("bf16", 16, "bfloat16", 16, "bfloat16", "bf16_type", 4, "bf16"),
    ElementRow(
        "f8E5M2FNUZ", 8, "float8_e5m2fnuz", 20, "float8e5m2fnuz", "fp8e5m2fnuz_type", 13,
        "fp8-fnuz",
        Minifloat(8, 2, 16, largest=0x7F, overflow=0x80, nan=0x80, signed_zero=False),
    ),
    ElementRow(
        "f4E2M1FN", 4, "float4_e2m1fn", 23, "float4e2m1", feature="mx",
        minifloat=Minifloat(4, 1, 1, largest=0x7, overflow=0x7, nan=None),
    ),
    # A power of two, without sign and mantissa.
    ElementRow("f8E8M0FNU", 8, "float8_e8m0fnu", 24, "float8e8m0", dlpack=14, feature="mx"),
    ElementRow("ui4", 4, "uint4", 21, "uint4"),
    ElementRow("i4", 4, "int4", 22, "int4"),
    ElementRow("ui2", 2, "uint2", 25, "uint2"),
    ElementRow("i2", 2, "int2", 26, "int2"),
)  # fmt: skip

MINIFLOATS = {row.name: row.minifloat for row in ELEMENTS if row.minifloat}
# Floats of 8 bits with a sign: code holds their bits as i8.
BYTE_FLOATS = frozenset(name for name, format_ in MINIFLOATS.items() if format_.bits == 8)
