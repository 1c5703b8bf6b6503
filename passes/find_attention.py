"""mgx-find-attention: two matrix products with a softmax between them as one op."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import ClassVar

from mlir import ir

from mgx_mlir.dialects import mgx
from mgx_mlir.rewriting.fusing import Group, Order, on_scalars
from mgx_mlir.rewriting.graph import main_function, node_name
from mgx_mlir.rewriting.masks import (
    Band,
    Mask,
    band_of,
    constant_mask,
    erase_unused,
    is_lowest_of,
    masked,
    read_mask,
    seen_by,
)
from mgx_mlir.rewriting.pass_base import Pass, PassContext
from mgx_mlir.rewriting.queries import (
    blocks,
    broadcast_to,
    definition,
    element_type,
    erase_dead,
    fused_location,
    has_one_use,
    has_sizes,
    identity,
    op_name,
    replace,
    shape,
    splat,
    users,
    with_operand,
)


@dataclass(frozen=True)
class FindAttention(Pass):
    """Puts softmax(score(q k^T)) v into `mgx.attention`, with all pointwise work on the scores.

    Before:  %s = mgx.dot %q, %kt ...
             %t = mgx.mul %s, %scale ...
             %u = mgx.add %t, %mask ...
             %p = mgx.softmax %u axis = 2 ...
             %y = mgx.dot %p, %v ...
    After:   %y = mgx.attention(%q, %k, %v) extras(%mask) ... { mul, add }

    Nothing else may use the scores. Constants that scale all of q or of k go into the body
    too, and so does cheap work on a mask that nothing else reads. A constant mask, or part of
    one, that leaves the keys around a query's own index becomes `causal` and `earliest`. Where
    shares that are NaN are replaced by 0, as PyTorch does behind masks, the op has `nan_as_zero`;
    where those of queries without a key are, it has `empty_as_zero`.
    """

    rounds: ClassVar[bool] = True
    symbolic: ClassVar[bool] = True
    name: ClassVar[str] = "mgx-find-attention"

    def apply(self, module: ir.Module, context: PassContext) -> None:
        for block in blocks(main_function(module)):
            order = Order(block)
            # List the softmaxes first: other ops are erased on the way.
            for op in [op for op in block.operations if isinstance(op, mgx.SoftmaxOp)]:
                found = _match(op, Group(order))
                if found is not None:
                    context.note(f"{len(found.scores)} ops on scores", node_name(op))
                    _Builder(found, context).build()
            erase_dead(block)


@dataclass
class _Found:
    """An attention: its two products, the softmax, and the pointwise ops between."""

    first: mgx.DotOp
    softmax: mgx.SoftmaxOp
    last: mgx.DotOp
    scores: Group
    # A bool for each query: where it is set, all shares of the query are 0.
    gate: ir.Value | None = None
    # The op that applies the gate.
    gated: mgx.WhereOp | None = None
    nan_as_zero: bool = False
    extras: list[ir.Value] = field(default_factory=list)


def _match(softmax: mgx.SoftmaxOp, scores: Group) -> _Found | None:
    x, sizes = softmax.x, shape(softmax.x)
    shares: ir.Value = softmax.y
    if softmax.axis.value != len(sizes) - 1 or not has_sizes(softmax):
        return None
    gate, gated, nan_as_zero = None, None, False
    while (last := _without_nan(shares) or _only_user(shares)) is not None:
        if isinstance(last, mgx.WhereOp):
            if has_one_use(shares):
                if gated is not None:
                    return None
                gate, gated = _gate(last, shares), last
                if gate is None:
                    return None
            else:
                nan_as_zero = True
        elif not isinstance(last, mgx.ConvertOp):
            break
        shares = last.result
    if not isinstance(last, mgx.DotOp) or 0 in sizes or last.a != shares or last.b == shares:
        return None
    first = _first_product(x)
    if first is None or shape(first.c) != sizes:
        return None
    kinds = {str(element_type(value)) for value in (first.a, first.b, last.b)}
    if len(kinds) != 1 or not kinds <= {"f16", "bf16", "f32", "f64"}:
        return None
    found = _Found(first, softmax, last, scores, gate, gated, nan_as_zero)
    return found if _collect(found, x, scores) else None


def _without_nan(shares: ir.Value) -> mgx.WhereOp | None:
    """The op that replaces NaN in the shares by 0; None if there is none."""
    readers = users(shares)
    where = next((op for op in readers if isinstance(op, mgx.WhereOp)), None)
    if len(readers) != 2 or where is None or where.b != shares:
        return None
    nan = definition(where.condition)
    if not isinstance(nan, mgx.IsnanOp) or nan.x != shares or not has_one_use(nan.y):
        return None
    return where if _is_zero(where.a) else None


def _gate(where: mgx.WhereOp, shares: ir.Value) -> ir.Value | None:
    """The condition, one for each query, by which `where` sets shares to 0; None for others."""
    op = definition(where.condition)
    if not _is_zero(where.a) or where.b != shares or not isinstance(op, mgx.MultibroadcastOp):
        return None
    return op.x if shape(op.x)[-1:] == (1,) else None


def _is_zero(value: ir.Value) -> bool:
    number = splat(value)
    return number is not None and bool(number == 0)


def _only_user(value: ir.Value) -> ir.OpView | None:
    return users(value)[0] if has_one_use(value) else None


def _first_product(value: ir.Value) -> mgx.DotOp | None:
    """The product that a chain of pointwise ops starts from: the first in operand order."""
    waiting, seen = [value], {value}
    while waiting:
        op = definition(waiting.pop())
        if isinstance(op, mgx.DotOp):
            return op
        if op is not None and mgx.is_pointwise(op):
            more = [v for v in reversed(op.operands) if v not in seen]
            seen.update(more)
            waiting.extend(more)
    return None


def _collect(found: _Found, x: ir.Value, scores: Group) -> bool:
    """Adds the ops between product and softmax to `scores`; whether all may be fused."""
    product = found.first.c
    outputs: set[ir.Value] = {product}
    for op in _between(product, found.softmax, scores.order.position):
        if not mgx.is_pointwise(op) or outputs.isdisjoint(op.operands):
            continue
        if shape(op.result) != shape(product) or str(element_type(op.result)) not in _KINDS:
            return False
        scores.add(op)
        outputs.add(op.result)
        for value in op.operands:
            if value not in outputs and value not in found.extras and splat(value) is None:
                found.extras.append(value)
    if x not in outputs or not _ends_in(found.softmax, outputs):
        return False
    return str(element_type(x)) != "f64" or str(element_type(product)) == "f64"


_KINDS = ("bf16", "f16", "f32", "f64", "i1")


def _between(first: ir.Value, last: ir.OpView, position: Mapping[ir.Value, int]) -> list[ir.OpView]:
    """The ops that use `first`, directly or not, and lie before `last` in its block, in order."""
    end = position[last.result]
    waiting = users(first)
    found: dict[int, ir.OpView] = {}
    while waiting:
        op = waiting.pop()
        key = identity(op)
        place = position.get(key, end) if key is not None else end
        if place < end and place not in found:
            found[place] = op
            waiting.extend(user for result in op.results for user in users(result))
    return [found[place] for place in sorted(found)]


def _ends_in(softmax: ir.OpView, values: set[ir.Value]) -> bool:
    """Whether only the softmax, and ops that make `values`, use `values`."""
    for value in values:
        for user in users(value):
            if user != softmax and values.isdisjoint(user.results):
                return False
    return True


class _Builder:
    """Builds the `mgx.attention` that replaces the matched ops."""

    def __init__(self, found: _Found, context: PassContext) -> None:
        self.found, self.context = found, context
        self.product = found.first.c
        double = isinstance(element_type(self.product), ir.F64Type)
        self.score: ir.Type = ir.F64Type.get() if double else ir.F32Type.get()
        self.band = Band(None, None)

    def build(self) -> None:
        found = self.found
        members = found.scores.ordered()
        location = fused_location([found.first, *members, found.softmax, found.last])
        empty_as_zero = self._take_gate()
        skipped = self._band_members()
        extras = [x for x in found.extras if self._is_read(x, skipped)]
        masks = [self._read_mask(x) for x in extras]
        sizes = shape(self.product)
        with ir.InsertionPoint(found.last), location:
            scale, (q, kt) = _scaled(found.first.a, found.first.b)
            k = _transposed(kt)

            def body(score: ir.Value, *inputs: ir.Value) -> ir.Value:
                values = {
                    mask.value: self._widened(mask.on_scalars(x))
                    for mask, x in zip(masks, inputs, strict=True)
                }
                if scale != 1:
                    score = mgx.mul(score, mgx.constant(scale, type=self.score))
                values[self.product] = score
                for op in members:
                    values[op.result] = self._scalar(op, values, skipped)
                return self._as_score(values[found.softmax.x])

            y = mgx.attention(
                q, k, found.last.b, [broadcast_to(mask.leaf, sizes) for mask in masks], body,
                self.band.last, found.nan_as_zero, self.band.first, empty_as_zero,
            )  # fmt: skip
            if found.gate is not None:
                zero = mgx.splat(0, y.type)
                y = mgx.where(mgx.multibroadcast(found.gate, list(shape(y))), zero, y)
        replace(found.last, [y])

    # The body ----------------------------------------------------------------------------

    def _wide(self, type_: ir.Type) -> ir.Type:
        """The type in which the body computes values that have `type_` in the program."""
        return self.score if isinstance(type_, ir.F16Type | ir.BF16Type) else type_

    def _widened(self, x: ir.Value) -> ir.Value:
        return self._converted(x, self._wide(x.type))

    def _as_score(self, x: ir.Value) -> ir.Value:
        return self._converted(x, self.score)

    @staticmethod
    def _converted(x: ir.Value, type_: ir.Type) -> ir.Value:
        return x if x.type == type_ else mgx.convert(x, type_)

    def _scalar(
        self, op: ir.OpView, values: dict[ir.Value, ir.Value], skipped: dict[ir.Value, ir.Value]
    ) -> ir.Value:
        """Builds a pointwise op of the program on scalars."""
        if op.result in skipped:
            return values[skipped[op.result]]
        operands = [values[x] if x in values else self._constant(x) for x in op.operands]
        type_ = self._wide(element_type(op.result))
        if isinstance(op, mgx.ConvertOp):
            return self._converted(operands[0], type_)
        return on_scalars(op, type_, operands)

    def _constant(self, value: ir.Value) -> ir.Value:
        number = splat(value)
        assert number is not None, op_name(definition(value))
        type_ = element_type(value)
        wide = self._wide(type_)
        return mgx.constant(number if wide == type_ else float(number), type=wide)

    # Masks -------------------------------------------------------------------------------

    def _is_read(self, extra: ir.Value, skipped: dict[ir.Value, ir.Value]) -> bool:
        members = self.found.scores.ordered()
        return any(extra in op.operands for op in members if op.result not in skipped)

    def _band_members(self) -> dict[ir.Value, ir.Value]:
        """Members that only exclude keys by their index, which `band` replaces.

        Maps each result to the score that it starts from.
        """
        skipped: dict[ir.Value, ir.Value] = {}
        for op in self.found.scores.ordered():
            for score, mask, kind in masked(op):
                if mask not in self.found.extras:
                    continue
                array = constant_mask(mask, shape(mask), self.context.weights)
                seen = seen_by(array, kind)
                band = None if seen is None else band_of(seen)
                if band is not None and self._narrow(band):
                    skipped[op.result] = score
                    break
        return skipped

    def _narrow(self, band: Band) -> bool:
        """Intersects `band` with a band; False where some query would keep no key."""
        queries, keys = shape(self.product)[-2:]
        within = self.band.within(band, int(queries), int(keys))
        self.band = within or self.band
        return within is not None

    def _read_mask(self, extra: ir.Value) -> Mask:
        members = self.found.scores.ordered()
        kinds = {kind for op in members for _, x, kind in masked(op, -math.inf) if x == extra}
        kind = kinds.pop() if len(kinds) == 1 else ""
        mask = read_mask(extra, kind, self.context.weights)
        if mask.band is not None and not self._narrow(mask.band):
            return Mask(extra, extra)
        return mask

    def _take_gate(self) -> bool:
        """Whether the gate hides exactly the queries without a key; then an attribute does so."""
        found = self.found
        if found.gated is None or found.gate is None or len(found.extras) != 1:
            return False
        biases = [x for op in found.scores.ordered() for _, x, kind in masked(op)
                  if kind == "bias" and x in found.extras]  # fmt: skip
        if not is_lowest_of(found.gate, biases):
            return False
        condition = found.gated.condition
        replace(found.gated, [found.gated.b])
        erase_unused(condition)
        found.gate = None
        return True


def _scaled(*operands: ir.Value) -> tuple[float, tuple[ir.Value, ...]]:
    """The product of constants that scale whole operands, and the operands without them.

    A scale may be in the op that makes an operand, or in one behind a chain of views.
    """
    scale, rest = 1.0, []
    for operand in operands:
        value, views = operand, []
        op = definition(value)
        while isinstance(op, _SAME_ELEMENTS) and has_one_use(value):
            views.append(op)
            value = op.x
            op = definition(value)
        factor = _factor(op) if op is not None and has_one_use(value) else None
        if op is None or factor is None:
            rest.append(operand)
            continue
        scale *= factor[0]
        value = factor[1]
        for view in reversed(views):
            value = with_operand(view, 0, value)
        rest.append(value)
    return scale, tuple(rest)


_SAME_ELEMENTS = (*mgx.RESHAPES, mgx.TransposeOp)


def _factor(op: ir.OpView) -> tuple[float, ir.Value] | None:
    """The constant that an op multiplies a tensor by, and the tensor."""
    if isinstance(op, mgx.DivOp):
        number = splat(op.b)
        return (1 / float(number), op.a) if number else None
    if isinstance(op, mgx.MulOp):
        for x, other in ((op.a, op.b), (op.b, op.a)):
            if (number := splat(other)) is not None:
                return float(number), x
    return None


def _transposed(kt: ir.Value) -> ir.Value:
    """The transposed matrices; if `kt` is a transpose already, its source without a new view."""
    op = definition(kt)
    source, order = kt, list(range(len(shape(kt))))
    if isinstance(op, mgx.TransposeOp):
        source, order = op.x, list(op.permutation)
    order[-2:] = order[-1], order[-2]
    return source if order == sorted(order) else mgx.transpose(source, order)
