"""Short forms for building MLIR: index arithmetic that folds, counted loops, vectors in memory.

An index is a Python int where it is known and an `index` Value elsewhere; arithmetic on
known indices costs no op. Sizes of named dimensions (see mgx_mlir.sizes) count as known until code
needs their values, which `symbol_values` gives. Memory is a one-dimensional memref; vectors
start at any element.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any, TypeAlias

from mlir import ir
from mlir.dialects import arith, memref, scf, vector

from mgx_mlir.codegen.meaning.arithmetic import Arithmetic
from mgx_mlir.codegen.meaning.convert import load as load_element
from mgx_mlir.codegen.meaning.element import FLOATS, Element
from mgx_mlir.codegen.meaning.index import index_constant
from mgx_mlir.elements import BYTE_FLOATS as BYTE_FLOATS
from mgx_mlir.sizes.arithmetic import Size

Index: TypeAlias = "int | Size | Digits | ir.Value"
_KNOWN = (int, Size)


@dataclass(frozen=True)
class Digits:
    """The number high * size + low, low below size, whose quotient and remainder are known."""

    high: Index
    low: Index
    size: Index

    @property
    def number(self) -> Index:
        return linear(self.low, (self.high, self.size))


def element_type(name: str) -> ir.Type:
    """The MLIR type in which code computes with an element: 'ui8' and 'i8' are both i8.

    A float of 8 bits or fewer has the type of the byte that holds it.
    """
    if name in FLOATS:
        return FLOATS[name]()
    bits = _bits(name)
    return ir.IntegerType.get_signless(max(8, bits) if name.startswith("f") else bits)


@cache
def _bits(name: str) -> int:
    found = re.match(r"[a-z]+(\d+)", name)
    assert found is not None, name
    return int(found[1])


def memory_type(name: str) -> ir.Type:
    """The MLIR type of an element in memory: a bool is a byte."""
    return element_type("i8" if name == "i1" else name)


def element_bytes(name: str) -> int:
    """Bytes of an element in memory."""
    return max(_bits(name) // 8, 1)


def is_float(name: str) -> bool:
    return name in FLOATS


def value(x: Index) -> ir.Value:
    """The index as a Value."""
    if isinstance(x, Digits):
        return value(x.number)
    return index_constant(x) if isinstance(x, _KNOWN) else x


def add(a: Index, b: Index) -> Index:
    if isinstance(a, _KNOWN) and isinstance(b, _KNOWN):
        return a + b
    if isinstance(a, _KNOWN):
        a, b = b, a
    if isinstance(b, _KNOWN) and b == 0:
        return a.number if isinstance(a, Digits) else a
    return arith.addi(value(a), value(b))


def sub(a: Index, b: Index) -> Index:
    if isinstance(b, _KNOWN):
        return add(a, -b)
    return arith.subi(value(a), b)


def mul(a: Index, b: Index) -> Index:
    if isinstance(a, _KNOWN) and isinstance(b, _KNOWN):
        return a * b
    if isinstance(a, _KNOWN):
        a, b = b, a
    if isinstance(b, _KNOWN) and b in (0, 1):
        return a if b else 0
    return arith.muli(value(a), value(b))


def div(a: Index, b: Index) -> Index:
    """a / b for a >= 0 and b > 0."""
    if isinstance(a, Digits):
        return a.high if a.size == b else div(a.number, b)
    if not isinstance(b, _KNOWN):
        return arith.divui(value(a), b)
    if isinstance(a, _KNOWN):
        return a // b
    return a if b == 1 else arith.divui(a, value(b))


def rem(a: Index, b: Index) -> Index:
    """a % b for a >= 0 and b > 0."""
    if isinstance(a, Digits):
        return a.low if a.size == b else rem(a.number, b)
    if not isinstance(b, _KNOWN):
        return arith.remui(value(a), b)
    if isinstance(a, _KNOWN):
        return a - a // b * b
    return 0 if b == 1 else arith.remui(a, value(b))


def split(number: Index, *sizes: Index) -> list[Index]:
    """A number's digits, the last one fastest: each is below its size, but for one before them."""
    digits: list[Index] = []
    for size in reversed(sizes):
        digits.insert(0, rem(number, size))
        number = div(number, size)
    return [number, *digits]


def minimum(a: Index, b: Index) -> Index:
    if isinstance(a, int) and isinstance(b, int):
        return min(a, b)
    return arith.minsi(value(a), value(b))


def maximum(a: Index, b: Index) -> Index:
    if isinstance(a, int) and isinstance(b, int):
        return max(a, b)
    return arith.maxsi(value(a), value(b))


def linear(offset: Index, *terms: tuple[Index, Index]) -> Index:
    """offset + the sum of index * stride."""
    for index, stride in terms:
        offset = add(offset, mul(index, stride))
    return offset


def compare(kind: str, a: Index, b: Index) -> ir.Value:
    """a `kind` b as i1, for signed indices; kind as in arith: slt, sge, eq, ..."""
    return arith.cmpi(getattr(arith.CmpIPredicate, kind), value(a), value(b))


def named_index(read: ir.Value, size: Index) -> ir.Value:
    """The index that a read value names: negative ones count from the end, and one out of bounds
    is clamped."""
    index: ir.Value = arith.index_cast(ir.IndexType.get(), read)
    is_negative = compare("slt", index, 0)
    index = arith.select(is_negative, arith.addi(index, value(size)), index)
    return arith.minsi(arith.maxsi(index, value(0)), value(sub(size, 1)))


def loop(
    lower: Index,
    upper: Index,
    step: int,
    body: Callable[..., Sequence[ir.Value] | None],
    carried: Sequence[ir.Value] = (),
    rolled: bool = False,
) -> list[ir.Value]:
    """`for i in range(lower, upper, step)`: body(i, *carried) gives the next carried values.

    A loop known to run once becomes straight code. LLVM does not unroll a `rolled` loop. Vectors of
    one element are carried as scalars: LLVM 22 never ends where such a vector of less than 32 bits
    comes into a block of an AMD GPU's code that computes with it. Vectors of bytes are carried as
    words: LLVM would copy parts of such a vector apart, and spill.
    """
    if isinstance(lower, int) and isinstance(upper, int):
        if upper <= lower:
            return list(carried)
        if upper - lower <= step:
            return list(body(lower, *carried) or ())
    types = [x.type for x in carried]
    op = scf.ForOp(value(lower), value(upper), value(step), [_carried(x) for x in carried])
    with ir.InsertionPoint(op.body):
        values = map(_restored, op.inner_iter_args, types)
        result = body(op.induction_variable, *values)
        scf.YieldOp([_carried(x) for x in result or ()])
    if rolled:
        op.attributes["llvm.loop_annotation"] = ir.Attribute.parse(
            "#llvm.loop_annotation<unroll = <disable = true>>"
        )
    return list(map(_restored, op.results, types))


def count(begin: Index, end: Index, sizes: Sequence[Index], body: Callable[..., None]) -> None:
    """`for i in range(begin, end)`: body(i, *the digits of i), as `split` gives them.

    The last digit that differs is a loop of its own: divisions by symbolic sizes take long.
    """
    if not sizes:
        loop(begin, end, 1, lambda number: body(number, number))
        return
    *others, size = sizes
    if size == 1:
        count(begin, end, others, lambda number, *digits: body(number, *digits, 0))
        return

    def run(number: Index) -> None:
        first, digits = mul(number, size), split(number, *others)
        low, high = maximum(sub(begin, first), 0), minimum(sub(end, first), size)
        loop(low, high, 1, lambda digit: body(add(first, digit), *digits, digit))

    whole = maximum(size, 1)
    loop(div(begin, whole), div(add(end, sub(whole, 1)), whole), 1, run)


def _carried(x: ir.Value) -> ir.Value:
    """The element of a vector of one, the words of a vector of bytes; other values as they are."""
    return _restored(x, _carried_type(x.type))


def _carried_type(type_: ir.Type) -> ir.Type:
    if not isinstance(type_, ir.VectorType) or ir.VectorType(type_).rank != 1:
        return type_
    (count,), element = ir.VectorType(type_).shape, ir.VectorType(type_).element_type
    if count % 8 == 0 and getattr(element, "width", 0) == 8:
        return ir.VectorType.get([count // 4], ir.IntegerType.get_signless(32))
    return element if count == 1 else type_


def _restored(x: ir.Value, type_: ir.Type) -> ir.Value:
    """A value as one of this type, of as many bits."""
    if x.type == type_:
        return x
    if not isinstance(type_, ir.VectorType):
        return vector.extract(x, [], [0])
    if isinstance(x.type, ir.VectorType):
        return vector.bitcast(type_, x)
    return vector.from_elements(type_, [x])


def repeat(
    first: Sequence[ir.Value],
    condition: Callable[..., ir.Value],
    body: Callable[..., Sequence[ir.Value]],
) -> list[ir.Value]:
    """`x = first; while condition(*x): x = body(*x)`; gives x."""
    types = [x.type for x in first]
    op = scf.WhileOp(types, list(first))
    locations = [ir.Location.unknown()] * len(types)
    before = op.before.blocks.append(*types, arg_locs=locations)
    after = op.after.blocks.append(*types, arg_locs=locations)
    with ir.InsertionPoint(before):
        values = list(before.arguments)
        scf.ConditionOp(condition(*values), values)
    with ir.InsertionPoint(after):
        scf.YieldOp(list(body(*after.arguments)))
    return list(op.results)


def when(
    condition: ir.Value | bool,
    body: Callable[[], object],
    otherwise: Callable[[], object] | None = None,
) -> None:
    """`if condition: body()`, and `otherwise()` else."""
    if isinstance(condition, bool):
        if condition:
            body()
        elif otherwise is not None:
            otherwise()
        return
    op = scf.IfOp(condition, has_else=otherwise is not None)
    with ir.InsertionPoint(op.then_block):
        body()
        scf.YieldOp([])
    if otherwise is not None:
        assert op.else_block is not None
        with ir.InsertionPoint(op.else_block):
            otherwise()
            scf.YieldOp([])


def choose(
    condition: ir.Value | bool,
    yes: Callable[[], Sequence[ir.Value]],
    no: Callable[[], Sequence[ir.Value]],
    types: Sequence[ir.Type],
) -> list[ir.Value]:
    """`yes() if condition else no()`, of values of these types."""
    if isinstance(condition, bool):
        return list(yes() if condition else no())
    op = scf.IfOp(condition, list(map(_carried_type, types)), has_else=True)
    for block, values in ((op.then_block, yes), (op.else_block, no)):
        assert block is not None
        with ir.InsertionPoint(block):
            scf.YieldOp(list(map(_carried, values())))
    return list(map(_restored, op.results, types))


def stack(size: int, element: str) -> ir.Value:
    """`size` elements on the stack, aligned to a cache line."""
    type_ = ir.MemRefType.get([size], memory_type(element))
    return memref.alloca(type_, [], [], alignment=64)


def splat(x: ir.Value, lanes: int) -> ir.Value:
    return vector.broadcast(ir.VectorType.get([lanes], x.type), x)


def halves(x: ir.Value) -> list[ir.Value]:
    """The even and the odd elements of a vector."""
    lanes = ir.VectorType(x.type).shape[0]
    return [vector.ShuffleOp(x, x, list(range(i, lanes, 2))).result for i in (0, 1)]


def constant(number: float | int, element: str, lanes: int = 0) -> ir.Value:
    """A constant scalar, or vector of `lanes` equal elements."""
    return Arithmetic([lanes] if lanes else None).constant(number, element_type(element))


def attribute_constant(attribute: ir.Attribute, lanes: int) -> ir.Value:
    """A vector whose lanes are the element of a constant, in the type that code computes with."""
    type_ = attribute.type
    if isinstance(type_, ir.IntegerType):
        width = type_.width
        number = int(ir.IntegerAttr(attribute).value) & ((1 << width) - 1)
        signed = number - (1 << width) if width > 1 and number >> (width - 1) else number
        type_ = ir.IntegerType.get_signless(width)
        attribute = ir.IntegerAttr.get(type_, signed)
    vector_type = ir.VectorType.get([lanes], type_)
    return arith.constant(vector_type, ir.DenseElementsAttr.get_splat(vector_type, attribute))


def add_table(name: str, type_: ir.MemRefType, elements: ir.Attribute, block: ir.Block) -> None:
    """Adds a constant table to a module's block; `memref.get_global` gives it."""
    entries: dict[str, ir.Attribute] = {
        "sym_name": ir.StringAttr.get(name),
        "sym_visibility": ir.StringAttr.get("private"),
        "type": ir.TypeAttr.get(type_),
        "initial_value": elements,
        "constant": ir.UnitAttr.get(),
    }
    place = ir.InsertionPoint.at_block_begin(block)
    ir.Operation.create("memref.global", attributes=entries, ip=place)


def lane_mask(count: Index, lanes: int) -> ir.Value | None:
    """A mask of the first `count` lanes; None when `count` is known to be all."""
    if isinstance(count, int) and count >= lanes:
        return None
    type_ = ir.VectorType.get([lanes], ir.IntegerType.get_signless(1))
    return vector.create_mask(type_, [value(count)])


def load_vector(
    memory: ir.Value,
    index: Index,
    lanes: int,
    mask: ir.Value | None = None,
) -> ir.Value:
    """`lanes` elements from `index` on; a masked lane is not read and has zero."""
    element = ir.MemRefType(memory.type).element_type
    type_ = ir.VectorType.get([lanes], element)
    if mask is None:
        return vector.load(type_, memory, [value(index)])
    fill = arith.constant(type_, zero(type_))
    return vector.maskedload(type_, memory, [value(index)], mask, fill)


def store_vector(x: ir.Value, memory: ir.Value, index: Index, mask: ir.Value | None = None) -> None:
    """Stores x from `index` on; a masked lane is not written."""
    if mask is None:
        vector.store(x, memory, [value(index)])
    else:
        vector.maskedstore(memory, [value(index)], mask, x)


def load(memory: ir.Value, index: Index) -> ir.Value:
    return memref.load(memory, [value(index)])


def prefetch(memory: ir.Value, index: Index) -> None:
    """Asks for the line of the cache that holds an element."""
    memref.prefetch(memory, [value(index)], is_write=False, locality_hint=3, is_data_cache=True)


def store(x: ir.Value, memory: ir.Value, index: Index) -> None:
    memref.store(x, memory, [value(index)])


def zero(type_: ir.Type) -> ir.Attribute:
    """The zero of a scalar or vector type."""
    if isinstance(type_, ir.VectorType):
        return ir.DenseElementsAttr.get_splat(type_, zero(type_.element_type))
    if isinstance(type_, ir.IntegerType):
        return ir.IntegerAttr.get(type_, 0)
    return ir.FloatAttr.get(type_, 0.0)


def from_memory(x: ir.Value, element: str) -> ir.Value:
    """An element (or vector) read from memory, in the type that code computes with."""
    if element != "i1":
        return x
    return arith.cmpi(arith.CmpIPredicate.ne, x, Arithmetic.like([x]).int(0, x))


def to_memory(x: ir.Value, element: str) -> ir.Value:
    """An element (or vector) in the type that memory holds."""
    if element != "i1":
        return x
    return arith.extui(Arithmetic.like([x]).type(ir.IntegerType.get_signless(8)), x)


def convert(x: ir.Value, source: str, target: str) -> ir.Value:
    """x of element type `source` as `target`. A float that becomes an integer must be whole."""
    if source == target:
        return x
    a = Arithmetic.like([x])
    if source in BYTE_FLOATS:
        # The lower half may hold all the bits that make an instruction's result a NaN.
        wide = load_element(a, Element(source, "float", 8), x, any_nan=target != "bf16")
        return upper_half(wide) if target == "bf16" else convert(wide, "f32", target)
    type_ = a.type(element_type(target))
    if is_float(source) != is_float(target):
        if is_float(source):
            return arith.fptosi(type_, x)
        return (arith.uitofp if source.startswith("ui") else arith.sitofp)(type_, x)
    wider = element_bytes(target) > element_bytes(source)
    if is_float(source):
        # `contract`: a result on which code computes further, in f32, is not rounded in between.
        flags = {"fastmath": arith.FastMathFlags.contract}
        return (arith.extf if wider else arith.truncf)(type_, x, **flags)
    if element_bytes(source) == element_bytes(target):
        return x
    if not wider:
        return arith.trunci(type_, x)
    return arith.extui(type_, x) if source.startswith("ui") else arith.extsi(type_, x)


def upper_half(x: ir.Value) -> ir.Value:
    """An f32, or a vector of them, that a bf16 holds exactly, as bf16."""
    a, i16, i32 = Arithmetic.like([x]), *map(ir.IntegerType.get_signless, (16, 32))
    bits = arith.bitcast(a.type(i32), x)
    half = arith.trunci(a.type(i16), arith.shrui(bits, a.int(16, bits)))
    return arith.bitcast(a.type(ir.BF16Type.get()), half)


def multiply_add(a: ir.Value, b: ir.Value, c: ir.Value, element: str) -> ir.Value:
    """a * b + c on vectors; one rounding for floats, wrap-around for integers."""
    if is_float(element):
        return vector.fma(a, b, c)
    return arith.addi(arith.muli(a, b), c)


def plus(a: ir.Value, b: ir.Value, element: str) -> ir.Value:
    return arith.addf(a, b) if is_float(element) else arith.addi(a, b)


def reduce_add(x: ir.Value, element: str) -> ir.Value:
    """The sum of a vector's lanes, in any order."""
    flags: dict[str, Any] = {}
    if is_float(element):
        flags["fastmath"] = arith.FastMathFlags.reassoc | arith.FastMathFlags.contract
    return vector.reduction(element_type(element), vector.CombiningKind.ADD, x, **flags)


def both(a: ir.Value | bool, b: ir.Value | bool) -> ir.Value | bool:
    """a and b, for i1 and for what is known."""
    if isinstance(a, bool):
        return b if a else a
    if isinstance(b, bool):
        return a if b else b
    return arith.andi(a, b)


def select(condition: ir.Value, a: Index, b: Index) -> ir.Value:
    """a where the condition holds, else b."""
    return arith.select(condition, value(a), value(b))


def set_arguments(function: ir.Operation, entry: ir.Block) -> None:
    """Gives a function the arguments of its entry block. The pointers do not alias each other."""
    types = [argument.type for argument in entry.arguments]
    function.attributes["function_type"] = ir.TypeAttr.get(ir.FunctionType.get(types, []))
    plain = ir.DictAttr.get({})
    no_alias = ir.DictAttr.get({"llvm.noalias": ir.UnitAttr.get()})
    function.attributes["arg_attrs"] = ir.ArrayAttr.get(
        [no_alias if isinstance(type_, ir.MemRefType) else plain for type_ in types]
    )
