"""The masks of an attention: the band of keys that a query sees by its index, and the rest.

    %w = mgx.where %m, %zero, %lowest : ...        // %m: keys that are there
    %b = mgx.add %w, %window : ...                 // a constant: a query's neighbours
    %s = mgx.add %scores, %b : ...

Query i sees the keys i + first to i + last, whatever %m holds. The rest of the work on the mask
is done with the scores.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

import numpy as np
from mlir import ir

from mgx_mlir.artifact.weights import WeightStore
from mgx_mlir.dialects import mgx
from mgx_mlir.rewriting.fusing import on_scalars
from mgx_mlir.rewriting.queries import (
    MOST_BEHIND,
    broadcast_source,
    definition,
    element_type,
    has_one_use,
    shape,
    splat,
    users,
)

# A score of this or less next to one of ordinary size has no share: its exponential is 0.
EXCLUDED = -6e4
# Elements of a constant mask up to which it is searched for a band.
MAX_MASK = 1 << 24
# Up to this many ops on a mask, repeating them for each score costs less than a launch.
_MOST_OPS = 6
_CHEAP = (
    mgx.AddOp, mgx.ConvertOp, mgx.EqualOp, mgx.GreaterOp, mgx.LessOp, mgx.LogicalAndOp,
    mgx.LogicalOrOp, mgx.MulOp, mgx.NotOp, mgx.SubOp, mgx.WhereOp,
)  # fmt: skip
_READ = frozenset(("bf16", "f16", "f32", "i1"))


@dataclass(frozen=True)
class Band:
    """Query i sees the keys i + first to i + last; no bound where one is None."""

    first: int | None
    last: int | None

    def within(self, other: Band, queries: int, keys: int) -> Band | None:
        """The band that both leave; None unless each query keeps a key."""
        firsts = [x.first for x in (self, other) if x.first is not None]
        lasts = [x.last for x in (self, other) if x.last is not None]
        first, last = max(firsts, default=None), min(lasts, default=None)
        if first is not None and (queries - 1 + first >= keys or (last or first) < first):
            return None
        return Band(first, last)


def band_of(seen: np.ndarray) -> Band | None:
    """The band of a mask [queries, keys] that leaves each query a key; None for other masks."""
    queries, keys = seen.shape
    if not seen.any(axis=1).all():
        return None
    firsts, lasts = seen.argmax(axis=1), keys - 1 - seen[:, ::-1].argmax(axis=1)
    rows = np.arange(queries)
    last, first = int(lasts[0]), int(firsts[-1]) - (queries - 1)
    bound = Band(None if firsts[-1] == 0 else first, None if last == keys - 1 else last)
    expected = np.ones_like(seen)
    places = np.arange(keys) - rows[:, None]
    if bound.last is not None:
        expected &= places <= bound.last
    if bound.first is not None:
        expected &= places >= bound.first
    return bound if np.array_equal(seen, expected) else None


@dataclass
class Mask:
    """An input of the work on scores, of their shape, and the ops that compute it.

    `band`: the keys that its constants leave. `ops`: the ops on scalars that compute the rest,
    operands before users. `kept` maps some of their results to the values that replace them.
    `leaf` is the value that they read; the input itself where there are no such ops.
    """

    value: ir.Value
    leaf: ir.Value
    band: Band | None = None
    ops: list[ir.OpView] = field(default_factory=list)
    kept: dict[ir.Value, ir.Value] = field(default_factory=dict)

    def source(self, value: ir.Value) -> ir.Value:
        """The value that replaces an operand of one of the ops, or the mask's value."""
        value = broadcast_source(value)
        while value in self.kept:
            value = broadcast_source(self.kept[value])
        return value

    def on_scalars(self, x: ir.Value) -> ir.Value:
        """The mask's element from its leaf's element, in the program's types, so that it is
        rounded as in the program."""
        if self.leaf == self.value:
            return x
        known = {self.leaf: x}
        for op in self.ops:
            operands = []
            for operand in op.operands:
                source = self.source(operand)
                number = splat(source)
                if source not in known and number is not None:
                    known[source] = mgx.constant(number, type=element_type(source))
                operands.append(known[source])
            known[op.result] = on_scalars(op, element_type(op.result), operands)
        return known[self.source(self.value)]


def read_mask(value: ir.Value, kind: str, weights: WeightStore) -> Mask:
    """Reads how an input of the work on scores is made.

    kind: 'bias', which is added; 'seen' or 'hidden', which chooses scores or makes them
    -infinity; '' where the kind is not known. Only masks that make scores -infinity become a
    band: a query all of whose keys are hidden by finite numbers sees all of them equally.
    """
    found = Mask(value, value)
    sizes = shape(value)
    if not all(isinstance(size, int) for size in sizes):
        return found
    if kind:
        _find_band(value, kind, sizes, weights, found)
    leaves: list[ir.Value] = []
    if not _grow(value, found, leaves) or len(leaves) != 1:
        return Mask(value, value)
    if not found.ops and not found.kept:
        return Mask(value, value)
    (found.leaf,) = leaves
    return found


def _grow(value: ir.Value, mask: Mask, leaves: list[ir.Value], most: int = MOST_BEHIND) -> bool:
    """Adds the ops behind a value, `most` deep; whether they may be repeated for each score."""
    source = mask.source(value)
    if splat(source) is not None or source in leaves:
        return True
    if any(source == op.result for op in mask.ops):
        return True
    op = definition(source)
    if not isinstance(op, _CHEAP) or not _is_alone(value, source) or len(mask.ops) >= _MOST_OPS:
        leaves.append(source)
        return str(element_type(source)) in _READ
    if not most or not all(_grow(v, mask, leaves, most - 1) for v in op.operands):
        return False
    mask.ops.append(op)
    return True


def _is_alone(value: ir.Value, source: ir.Value) -> bool:
    """Whether no other op reads a value, or the value that it broadcasts."""
    while value != source:
        op = definition(value)
        if not has_one_use(value) or op is None:
            return False
        if not isinstance(op, mgx.MultibroadcastOp):
            break
        value = op.x
    return has_one_use(source)


# The op that joins two masks, by their kind.
_JOINED = {"bias": mgx.AddOp, "hidden": mgx.LogicalOrOp, "seen": mgx.LogicalAndOp}


def _find_band(
    value: ir.Value, kind: str, sizes: tuple[int, ...], weights: WeightStore, mask: Mask
) -> None:
    """Takes a constant band out of a mask; `kept` then maps it to the mask without the band."""
    waiting, looked_at = [(value, kind)], 0
    while waiting and mask.band is None and looked_at < MOST_BEHIND:
        value, kind = waiting.pop()
        looked_at += 1
        source = broadcast_source(value)
        op = definition(source)
        if isinstance(op, mgx.ConvertOp) and kind == "bias":
            waiting.append((op.x, kind))
        elif isinstance(op, mgx.NotOp) and kind != "bias":
            waiting.append((op.x, "hidden" if kind == "seen" else "seen"))
        elif isinstance(op, mgx.WhereOp) and kind == "bias":
            for same, lowest, chosen in ((op.a, op.b, "seen"), (op.b, op.a, "hidden")):
                if splat(same) == 0 and splat(lowest) == -np.inf:
                    waiting.append((op.condition, chosen))
        elif op is not None and isinstance(op, _JOINED[kind]):
            a, b = op.operands
            waiting += [(b, kind), (a, kind)]
            for one, other in ((a, b), (b, a)):
                seen = seen_by(constant_mask(one, sizes, weights), kind, -math.inf)
                band = None if seen is None else band_of(seen)
                if band is not None and mask.band is None:
                    mask.band = band
                    mask.kept[source] = other


def seen_by(mask: np.ndarray | None, kind: str, excluded: float = EXCLUDED) -> np.ndarray | None:
    """The scores that a mask leaves as they are; None where it changes some in another way.

    Scores with a bias of `excluded` or less are hidden.
    """
    if mask is None:
        return None
    if kind == "bias":
        plain = mask.dtype != np.bool_ and ((mask == 0) | (mask <= excluded)).all()
        return mask == 0 if plain else None
    if mask.dtype != np.bool_:
        return None
    return ~mask if kind == "hidden" else mask


def constant_mask(
    value: ir.Value, sizes: tuple[int, ...], weights: WeightStore
) -> np.ndarray | None:
    """A constant that is the same for all batch elements, as [queries, keys]."""
    queries, keys = sizes[-2:]
    op = definition(value)
    while isinstance(op, (*mgx.BROADCASTS, *mgx.RESHAPES)):
        op = definition(op.x)
    if not isinstance(queries, int) or not isinstance(keys, int) or queries * keys > MAX_MASK:
        return None
    if isinstance(op, mgx.ConstantOp):
        array = mgx.constant_array(op)
    elif isinstance(op, mgx.LiteralOp):
        array = weights[op.key.value].array()
    else:
        return None
    if array.size != queries * keys or array.shape[-2:] != (queries, keys):
        return None
    flat = array.reshape(queries, keys)
    return flat if flat.dtype == np.bool_ else flat.astype(np.float64)


def is_lowest_of(gate: ir.Value, biases: Iterable[ir.Value]) -> bool:
    """Whether a bool for each query is true where a bias makes all its scores -infinity."""
    equal = definition(gate)
    if not isinstance(equal, mgx.EqualOp):
        return False
    for row_maximum, other in ((equal.a, equal.b), (equal.b, equal.a)):
        reduce, number = definition(row_maximum), splat(other)
        if number is None or float(number) != -math.inf:
            continue
        if not isinstance(reduce, mgx.ReduceMaxOp) or list(reduce.axes) != [reduce.x.type.rank - 1]:
            continue
        if _value_of(reduce.x) in map(_value_of, biases):
            return True
    return False


def _value_of(value: ir.Value) -> ir.Value:
    """The value that a chain of broadcasts and widening conversions starts from."""
    while True:
        value = broadcast_source(value)
        op = definition(value)
        if not isinstance(op, mgx.ConvertOp):
            return value
        types = [element_type(x) for x in (op.x, value)]
        if not all(isinstance(x, ir.FloatType) for x in types) or types[0].width > types[1].width:
            return value
        value = op.x


def masked(op: ir.OpView, excluded: float = EXCLUDED) -> Iterator[tuple[ir.Value, ir.Value, str]]:
    """The ways an op may hide scores: the score, the mask, and its kind (see `read_mask`).

    Scores that become `excluded` or less are hidden.
    """
    if isinstance(op, mgx.WhereOp):
        for score, other, kind in ((op.a, op.b, "seen"), (op.b, op.a, "hidden")):
            number = splat(other)
            if number is not None and float(number) <= excluded:
                yield score, op.condition, kind
    if isinstance(op, mgx.AddOp):
        yield from ((op.a, op.b, "bias"), (op.b, op.a, "bias"))


def erase_unused(value: ir.Value) -> None:
    """Erases the ops behind a value that no other op reads."""
    waiting = [value]
    erased = set()
    while waiting:
        value = waiting.pop()
        op = definition(value) if value not in erased else None
        if op is None or users(value) or len(op.results) != 1:
            continue
        erased.add(value)
        waiting.extend(reversed(dict.fromkeys(op.operands)))
        op.erase()
