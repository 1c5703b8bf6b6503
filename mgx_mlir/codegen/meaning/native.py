"""Conversions between f32 and fp8 by the instructions of the GPU that code is generated for.

CDNA 3 converts the "fnuz" kinds, CDNA 4 and RDNA 4 those of OCP, two values at a time. Within
`native_floats`, the conversions of `lowering.convert` use these instructions wherever they give
the same bits for every input (RDNA4 ISA, V_CVT_PK_FP8_F32 and its neighbours):

- From fp8, always; a NaN gives some NaN.
- To fp8 with saturation: the value is clamped to the kind's largest numbers first, so that no
  mode of the chip decides the result of larger values; every NaN becomes one NaN. Without
  saturation that mode would decide: bit arithmetic is used.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from contextvars import ContextVar

from mlir import ir
from mlir.dialects import arith, llvm, math, rocdl, vector

from mgx_mlir.codegen.meaning.arithmetic import Arithmetic, scalar_type
from mgx_mlir.codegen.meaning.element import F32, I32, Element
from mgx_mlir.elements import ELEMENTS
from mgx_mlir.scopes import holding

# By the feature of `Target.features`: the kinds that the instructions convert, and the largest
# finite number of each.
_KINDS = {
    feature: {
        row.name: row.minifloat.maximum
        for row in ELEMENTS
        if row.minifloat and row.feature == feature
    }
    for feature in ("fp8-fnuz", "fp8-ocp")
}
_NONE: dict[str, float] = {}
_converted: ContextVar[dict[str, float] | None] = ContextVar("converted", default=None)
# The factor from an f16 to the number of E4M3 with its bits, and a factor by which 480 overflows an
# f16, and the largest finite number, 448, does not.
_SCALE, _NEARLY = 256.0, 140.0


def native_floats(features: frozenset[str]) -> AbstractContextManager[object]:
    """Code that is generated inside is for GPUs with these features (see `Target`) alone."""
    kinds = {k: v for name in sorted(features & _KINDS.keys()) for k, v in _KINDS[name].items()}
    return holding(_converted, kinds)


def is_gpu() -> bool:
    """Whether code is generated for a GPU that is known."""
    return _converted.get() is not None


def decode(kind: Element, code: ir.Value, any_nan: bool) -> ir.Value | None:
    """The f32 of stored fp8, scalars or vectors; None where no instruction converts them.

    any_nan: a NaN may have any bits; else some of its upper half.
    """
    kinds = _converted.get()
    if kinds is None or not _is_row(code):
        return None
    if kind.name not in kinds:
        return _by_halves(kind.name, code)
    if not any_nan:
        return None
    one, two = (
        (rocdl.cvt_f32_fp8, rocdl.cvt_pk_f32_fp8)
        if "E4M3" in kind.name
        else (rocdl.cvt_f32_bf8, rocdl.cvt_pk_f32_bf8)
    )
    f32, i32 = F32.storage(), I32.storage()
    if not isinstance(code.type, ir.VectorType):
        return one(f32, arith.extui(i32, code), 0)
    (lanes,) = code.type.shape
    pair = ir.VectorType.get([2], f32)
    values: list[ir.Value] = []
    while len(values) < lanes:
        left = lanes - len(values)
        count = 4 if left >= 4 else 2 if left >= 2 else 1
        word = _word(code, len(values), count)
        if count == 1:
            values.append(one(f32, word, 0))
        for half in range(count // 2):
            both = two(pair, word, bool(half))
            values += [element(both, 0), element(both, 1)]
    return joined(values)


def _by_halves(name: str, code: ir.Value) -> ir.Value | None:
    """The f32 of stored OCP fp8 by way of f16; None for other kinds and for odd vectors."""
    if name not in ("f8E4M3FN", "f8E5M2") or not isinstance(code.type, ir.VectorType):
        return None
    (lanes,) = code.type.shape
    if lanes % 2:
        return None
    values: list[ir.Value] = []
    for start in range(0, lanes, 2):
        # Bytes 0 and 1 as the upper ones of halves.
        word = _word(code, start // 4 * 4, min(4, lanes - start // 4 * 4))
        both = _half_numbers(name, permuted(word, word, 0x010C000C + start % 4 * 0x01000100))
        values += [element(both, 0), element(both, 1)]
    return arith.extf(ir.VectorType.get([lanes], F32.storage()), joined(values))


def _half_numbers(name: str, bits: ir.Value) -> ir.Value:
    """Two f16 of codes that are the upper bytes of an i32's halves."""
    word, two = Arithmetic(), Arithmetic([2])
    f16 = ir.F16Type.get()

    def masked(x: ir.Value, mask: int) -> ir.Value:
        return arith.andi(x, word.int(mask, x))

    if name == "f8E4M3FN":
        moved = masked(arith.shrui(bits, word.int(1, bits)), 0x3F803F80)
        bits = arith.ori(moved, masked(bits, 0x80008000))
    one = vector.from_elements(ir.VectorType.get([1], I32.storage()), [bits])
    value: ir.Value = vector.bitcast(two.type(f16), one)
    if name == "f8E4M3FN":
        value = arith.mulf(value, two.constant(_SCALE, f16))
        infinite = arith.mulf(value, two.constant(_NEARLY, f16))
        value = math.fma(infinite, two.constant(0.0, f16), value)
    return value


def median(x: ir.Value, low: float, high: float) -> ir.Value | None:
    """The f32 x between bounds, by one instruction; NaN becomes `low`. None for other values."""
    if not is_gpu() or not isinstance(scalar_type(x), ir.F32Type) or not _is_row(x):
        return None
    if not isinstance(x.type, ir.VectorType):
        return _median(x, low, high)
    return joined([_median(element(x, i), low, high) for i in range(x.type.shape[0])])


def multiplied_halves(x: ir.Value) -> ir.Value:
    """The f32 x, a product of two f16, rounded to f16 where an instruction multiplies two pairs."""
    if not is_gpu() or not isinstance(x.type, ir.VectorType):
        return x
    narrow = ir.VectorType.get(x.type.shape, ir.F16Type.get())
    return arith.extf(x.type, arith.truncf(narrow, x))


def low_bytes(x: ir.Value) -> ir.Value | None:
    """The low byte of each i32 of a vector; None where no instruction joins those of two."""
    if not is_gpu() or not isinstance(x.type, ir.VectorType) or not _is_row(x):
        return None
    (lanes,) = x.type.shape
    if lanes % 4:
        return None
    words = []
    for at in range(0, lanes, 4):
        first, second, third, fourth = (element(x, at + i) for i in range(4))
        below, above = permuted(second, first, 0x0C0C0400), permuted(fourth, third, 0x0C0C0400)
        words.append(permuted(above, below, 0x05040100))
    return vector.bitcast(ir.VectorType.get([lanes], ir.IntegerType.get_signless(8)), joined(words))


def permuted(high: ir.Value, low: ir.Value, selector: int) -> ir.Value:
    """v_perm_b32: each byte of `selector` is the number of a byte of `high`:`low`, or 12 for 0."""
    operands = [high, low, Arithmetic().int(selector, low)]
    return llvm.CallIntrinsicOp(low.type, "llvm.amdgcn.perm", operands, [], []).results[0]


def encode(kind: Element, value: ir.Value) -> ir.Value | None:
    """f32 as stored fp8, saturating, scalars or vectors; None where no instruction converts."""
    largest = (_converted.get() or _NONE).get(kind.name)
    if largest is None or not _is_row(value):
        return None
    two = rocdl.cvt_pk_fp8_f32 if "E4M3" in kind.name else rocdl.cvt_pk_bf8_f32
    i8 = ir.IntegerType.get_signless(8)
    if not isinstance(value.type, ir.VectorType):
        return arith.trunci(i8, _words(two, [_inside(value, largest)]))
    (lanes,) = value.type.shape
    inside = [_inside(element(value, i), largest) for i in range(lanes)]
    words = [_words(two, inside[at : at + 4]) for at in range(0, lanes, 4)]
    whole = ir.VectorType.get([4 * len(words)], i8)
    codes = vector.bitcast(whole, joined(words))
    if whole.shape[0] == lanes:
        return codes
    return vector.extract_strided_slice(ir.VectorType.get([lanes], i8), codes, [0], [lanes], [1])


def _is_row(value: ir.Value) -> bool:
    """Whether it is a scalar or a vector of one dimension, and no constant (constants fold)."""
    owner = value.owner
    if not isinstance(owner, ir.Block) and owner.operation.name == "arith.constant":
        return False
    return not isinstance(value.type, ir.VectorType) or (
        len(value.type.shape) == 1 and not value.type.scalable
    )


def _inside(x: ir.Value, largest: float) -> ir.Value:
    """An f32 clamped to the largest numbers of a kind. NaN is selected, as v_med3 loses it."""
    a = Arithmetic()
    inside = _median(x, -largest, largest)
    return a.select(a.compare("uno", x, x), a.float(float("nan"), x), inside)


def _median(x: ir.Value, low: float, high: float) -> ir.Value:
    """v_med3_f32 of a scalar."""
    a = Arithmetic()
    value: ir.Value = rocdl.fmed3(x.type, x, a.float(low, x), a.float(high, x))
    return value


def _words(two: Callable[..., ir.Value], values: Sequence[ir.Value]) -> ir.Value:
    """Up to four f32 as the bytes of an i32, from the lowest."""
    i32 = I32.storage()
    word: ir.Value = llvm.mlir_poison(i32)
    for at in range(0, len(values), 2):
        first, second = values[at], values[min(at + 1, len(values) - 1)]
        word = two(i32, first, second, word, bool(at))
    return word


def _word(code: ir.Value, start: int, count: int) -> ir.Value:
    """One, two or four bytes of a vector as an i32, the first the lowest."""
    i32 = I32.storage()
    if count == 1:
        return arith.extui(i32, element(code, start))
    part = code
    whole = ir.VectorType(code.type)
    if whole.shape[0] != count:
        type_ = ir.VectorType.get([count], whole.element_type)
        part = vector.extract_strided_slice(type_, code, [start], [count], [1])
    wide = ir.IntegerType.get_signless(8 * count)
    word = element(vector.bitcast(ir.VectorType.get([1], wide), part), 0)
    return word if count == 4 else arith.extui(i32, word)


def element(x: ir.Value, number: int) -> ir.Value:
    """One element of a vector."""
    return vector.ExtractOp(x, [], [number]).result


def joined(values: Sequence[ir.Value]) -> ir.Value:
    """A vector of scalars."""
    type_ = ir.VectorType.get([len(values)], values[0].type)
    return vector.FromElementsOp(type_, list(values)).result
