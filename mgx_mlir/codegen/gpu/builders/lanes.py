"""Exchange of values between the lanes of a wave, without LDS.

A butterfly combines neighbours at distances 1, 2, 4, 8 by DPP, which folds into the
combining instruction; at 16 by v_permlanex16 (RDNA) and across rows of 16 by v_readlane
(CDNA). Sources: LLVM's AMDGPUUsage and AMD's ISA documents, "Data parallel processing".
All lanes of the wave have to be active.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from mlir import ir
from mlir.dialects import arith, llvm, rocdl, vector

from mgx_mlir.artifact.target import Target
from mgx_mlir.codegen.builders import emit
from mgx_mlir.codegen.builders.emit import Index
from mgx_mlir.codegen.meaning.element import bit_width

# dpp_ctrl that exchanges lanes at a distance, given that lanes at smaller ones are equal already.
_DPP = {
    1: 0xB1,  # quad_perm [1, 0, 3, 2]
    2: 0x4E,  # quad_perm [2, 3, 0, 1]
    4: 0x141,  # row_half_mirror
    8: 0x140,  # row_mirror
}
_ROW = 16
_ROW_SHIFT = 0x110  # row_shr, by the number added
_ROW_ROTATE = 0x120  # row_ror, likewise

Combine = Callable[[Sequence[ir.Value], Sequence[ir.Value]], Sequence[ir.Value]]


def reduce(
    values: Sequence[ir.Value], lanes: int, lane: Index, combine: Combine, target: Target
) -> list[ir.Value]:
    """Combines the values of `lanes` neighbouring lanes, a power of two; each gets the result.

    values: scalars that are combined together, such as a value and its index. lane: the
    lane's number in its wave.
    """
    result = list(values)
    for distance, control in _DPP.items():
        if distance < lanes:
            result = list(combine(result, [_words(x, _dpp(control)) for x in result]))
    if lanes <= _ROW:
        return result
    if target.gpu.exchanges_rows and target.wave_size == 2 * _ROW:
        return list(combine(result, [_words(x, _across_rows) for x in result]))
    rows = [
        [_words(x, _reader(start)) for x in result] for start in range(0, target.wave_size, _ROW)
    ]
    low, high = combine(rows[0], rows[1]), combine(rows[2], rows[3])
    if lanes == target.wave_size:
        return list(combine(low, high))
    is_low = emit.compare("slt", lane, 2 * _ROW)
    return [arith.select(is_low, a, b) for a, b in zip(low, high, strict=True)]


def reduce_apart(
    values: Sequence[ir.Value], step: int, lanes: int, lane: Index, combine: Combine
) -> list[ir.Value]:
    """Combines the values of `lanes` lanes that lie `step` apart; each gets the result.

    values: vectors that are combined together. step, lanes: powers of two, whose product is at
    most the wave's size. lane: the lane's number in its wave.
    """
    i32 = ir.IntegerType.get_signless(32)
    result = list(values)
    here = arith.index_cast(i32, emit.value(lane))
    distance = step
    while distance < step * lanes:
        other = arith.xori(here, emit.constant(distance, "i32"))
        offset = arith.muli(other, emit.constant(4, "i32"))  # counts bytes
        result = list(combine(result, [_elements(x, _permuted(offset)) for x in result]))
        distance *= 2
    return result


def prefix(
    x: ir.Value,
    nothing: ir.Value,
    group: int,
    lane: Index,
    add: Callable[[ir.Value, ir.Value], ir.Value],
    target: Target,
) -> tuple[ir.Value, ir.Value]:
    """The exclusive prefix sum of x over the lanes of a `group`, and the sum of the wave's last
    group: of the whole wave, where it is one group.

    x: a scalar. add: the sum, or another associative operation; `nothing`: its neutral element,
    a constant. group: the number of lanes that belong together, a power of two. lane: the
    lane's number in its wave.
    """
    is_zero = nothing.owner.attributes["value"] == emit.zero(x.type)

    def before(y: ir.Value, distance: int) -> ir.Value:
        """The value of the lane `distance` before this one; `nothing` if the group or row starts
        after it."""
        moved = _words(y, _shifted(distance))
        if group >= _ROW and is_zero:
            return moved
        there = emit.compare("sge", emit.rem(lane, min(group, _ROW)), distance)
        return arith.select(there, moved, nothing)

    # Within rows of 16 lanes first; then the sums of the rows before are added.
    result = x
    for distance in (1, 2, 4, 8):
        if distance < group:
            result = add(result, before(result, distance))
    found = before(result, 1) if group > 1 else nothing
    last = target.wave_size - 1
    if group <= _ROW:
        return found, _words(result, _reader(last))
    ends = range(_ROW - 1, target.wave_size, _ROW)
    totals = [_words(result, _reader(end)) for end in ends]
    rows = group // _ROW
    sums = [nothing]
    for number, total in enumerate(totals, 1):
        sums.append(total if number % rows == 1 else add(sums[-1], total))
    for number in range(1, len(totals)):
        if number % rows:
            row = emit.compare("eq", emit.div(lane, _ROW), number)
            found = arith.select(row, add(found, sums[number]), found)
    return found, sums[-1]


def row_sum(x: ir.Value, first: int) -> ir.Value:
    """The sum of an f32 over the lanes of a row of 16 whose numbers are equal modulo `first`, a
    power of two. Each lane gets its sum."""
    distance = first
    while distance < _ROW:
        x = arith.addf(x, _words(x, _dpp(_ROW_ROTATE + distance)))
        distance *= 2
    return x


def exchange(x: ir.Value, distance: int, lane: Index, target: Target) -> ir.Value:
    """x, of 32 bits, of the lane whose number differs by the bit `distance`. lane: the lane's
    number in its wave."""
    i32 = ir.IntegerType.get_signless(32)
    word = x if x.type == i32 else arith.bitcast(i32, x)
    if target.gpu.exchanges_rows and distance == _ROW:
        low, high = emit.constant(0x76543210, "i32"), emit.constant(-0x01234568, "i32")
        moved = rocdl.permlanex16(i32, word, word, low, high, True, False)
    elif distance == _ROW // 2:
        moved = rocdl.update_dpp(i32, word, word, _ROW_ROTATE + distance, 0xF, 0xF, True)
    else:
        other = arith.xori(emit.value(lane), emit.value(distance))
        offset = arith.index_cast(i32, emit.value(emit.mul(other, 4)))
        moved = rocdl.ds_bpermute(i32, offset, word)
    return moved if x.type == i32 else arith.bitcast(x.type, moved)


def ballot(condition: ir.Value, target: Target) -> ir.Value:
    """An integer with a bit for each lane of the wave: whether its `condition` holds."""
    return rocdl.ballot(ir.IntegerType.get_signless(target.wave_size), condition)


def read(x: ir.Value, lane: ir.Value) -> ir.Value:
    """The scalar x, of 32 bits, of a lane (i32); for the scalar unit."""
    return rocdl.readlane(x.type, x, lane)


def first(x: ir.Value) -> ir.Value:
    """The scalar x of the wave's first lane, for the scalar unit."""
    return rocdl.readfirstlane(x.type, x)


def uniform(index: Index) -> Index:
    """An index that all lanes of a wave share, for the scalar unit."""
    if isinstance(index, int):
        return index
    i32 = ir.IntegerType.get_signless(32)
    return arith.index_cast(ir.IndexType.get(), first(arith.index_cast(i32, index)))


def _elements(x: ir.Value, move: Callable[[ir.Value], ir.Value]) -> ir.Value:
    """Moves the elements of a vector."""
    size = ir.VectorType(x.type).shape[0]
    moved = [_words(vector.extract(x, [], [i]), move) for i in range(size)]
    return vector.from_elements(x.type, moved)


def _permuted(offset: ir.Value) -> Callable[[ir.Value], ir.Value]:
    return lambda x: rocdl.ds_bpermute(x.type, offset, x)


def _words(x: ir.Value, move: Callable[[ir.Value], ir.Value]) -> ir.Value:
    """Moves a scalar as words of 32 bits."""
    i32 = ir.IntegerType.get_signless(32)
    type_ = x.type
    width = bit_width(type_)
    if width < 32:
        bits = ir.IntegerType.get_signless(width)
        whole = x if isinstance(type_, ir.IntegerType) else arith.bitcast(bits, x)
        moved: ir.Value = arith.trunci(bits, move(arith.extui(i32, whole)))
        return moved if isinstance(type_, ir.IntegerType) else arith.bitcast(type_, moved)
    if width == 32:
        whole = x if isinstance(type_, ir.IntegerType) else arith.bitcast(i32, x)
        moved = move(whole)
        return moved if isinstance(type_, ir.IntegerType) else arith.bitcast(type_, moved)
    one = ir.VectorType.get([1], type_)
    words = vector.bitcast(ir.VectorType.get([width // 32], i32), vector.from_elements(one, [x]))
    moves = [move(vector.extract(words, [], [i])) for i in range(width // 32)]
    joined = vector.from_elements(ir.VectorType.get([len(moves)], i32), moves)
    return vector.extract(vector.bitcast(one, joined), [], [0])


def _dpp(control: int) -> Callable[[ir.Value], ir.Value]:
    def move(x: ir.Value) -> ir.Value:
        # Every lane has a source lane: the value for missing ones is never used.
        old = llvm.mlir_poison(x.type)
        return rocdl.update_dpp(x.type, old, x, control, 0xF, 0xF, True)

    return move


def _shifted(distance: int) -> Callable[[ir.Value], ir.Value]:
    """A move from the lane `distance` before, in the row of 16; 0 where there is none."""

    def move(x: ir.Value) -> ir.Value:
        old = arith.constant(x.type, emit.zero(x.type))
        return rocdl.update_dpp(x.type, old, x, _ROW_SHIFT + distance, 0xF, 0xF, True)

    return move


def _across_rows(x: ir.Value) -> ir.Value:
    """The value of the lane 16 away, given that the lanes of each row are equal."""
    zero = emit.constant(0, "i32")
    return rocdl.permlanex16(x.type, llvm.mlir_poison(x.type), x, zero, zero, False, False)


def _reader(lane: int) -> Callable[[ir.Value], ir.Value]:
    return lambda x: rocdl.readlane(x.type, x, emit.constant(lane, "i32"))
