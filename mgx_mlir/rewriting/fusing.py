"""Groups of ops that become one op: their inputs and outputs, and whether a cycle would arise."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from math import inf

from mlir import ir

from mgx_mlir.capabilities import LEAST_DEPTH
from mgx_mlir.dialects import mgx
from mgx_mlir.rewriting.queries import (
    definition,
    element_type,
    group_of,
    has_one_use,
    identity,
    is_static,
    shape,
    used_values,
    users,
)

# Ops whose kernel includes the pointwise work on their result.
WITH_EPILOGUE = (*mgx.CONTRACTIONS, mgx.AttentionOp, mgx.PoolingOp)


class Order:
    """The order of the ops of a block, kept up to date while ops are fused.

    `position`: the number of each op that has a result, by the op's identity. A fused op has the
    position of its last member. It can stand after users of its results until the block is
    sorted, so positions do not tell what may depend on what; levels do.
    `level`: at least the level of any op that the op depends on.
    """

    def __init__(self, block: ir.Block) -> None:
        numbered = ((identity(op), i) for i, op in enumerate(block.operations))
        self._block = block
        self.position = {key: i for key, i in numbered if key is not None}
        self.level = dict(self.position)

    def __contains__(self, op: ir.OpView) -> bool:
        return identity(op) in self.position

    def of(self, op: ir.OpView) -> int:
        """The op's position; -1 where it is in another block, or has no result."""
        key = identity(op)
        return -1 if key is None else self.position.get(key, -1)

    def replaced(self, before: Iterable[ir.Value], op: ir.OpView) -> None:
        """Notes that `op` replaces the ops of those identities; its users are set already."""
        numbers = [(self.position.pop(key), self.level.pop(key)) for key in before]
        position, level = (max(column) for column in zip(*numbers, strict=True))
        key = identity(op)
        if key is None:
            return  # nothing used the ops
        self.position[key], self.level[key] = position, level
        raised = [op]
        while raised:
            for user in self._users(raised.pop()):
                key = identity(user)
                if key is not None and self.level.get(key, level) < level:
                    self.level[key] = level
                    raised.append(user)

    def _users(self, op: ir.OpView) -> Iterator[ir.OpView]:
        """The ops of the block that use an op's results, in their bodies too."""
        for user in (user for result in op.results for user in users(result)):
            while user.operation.block != self._block:
                assert user.operation.parent is not None  # the block lies around it
                user = user.operation.parent.opview
            yield user


@dataclass
class Group:
    """Ops of one block that become one op. Every member has a result.

    The invariant: no op outside depends on a member while a member depends on it.
    """

    order: Order
    members: dict[ir.Value, ir.OpView] = field(default_factory=dict)
    # Ops outside, by identity, that are known to depend on no member.
    apart: set[ir.Value] = field(default_factory=set)
    # The lowest level of a member: no op of a lower level depends on a member.
    first: float = field(init=False)

    def __post_init__(self) -> None:
        self.first = min((self.order.level[key] for key in self.members), default=inf)

    def __contains__(self, op: ir.OpView) -> bool:
        return identity(op) in self.members

    def __len__(self) -> int:
        return len(self.members)

    def add(self, op: ir.OpView) -> None:
        key = op.results[0]
        self.members[key] = op
        level = self.order.level[key]
        self.first = min(self.first, level)
        self.apart = {other for other in self.apart if self.order.level[other] < level}

    def ordered(self) -> list[ir.OpView]:
        """The members in the order of their block."""
        place = self.order.position.__getitem__
        return [self.members[key] for key in sorted(self.members, key=place)]

    def owns_all_uses(self, op: ir.OpView) -> bool:
        """Whether nothing outside the group uses a result of `op`."""
        return all(user in self for result in op.results for user in users(result))

    def would_cycle(self, op: ir.OpView) -> bool:
        """Whether an operand of `op` from outside depends on a member."""
        outside = [d for d in _definitions(op) if d not in self]
        seen: set[ir.Value] = set()
        while outside:
            definer = outside.pop()
            if definer in self:
                return True
            key = definer.results[0]
            if key in seen or key in self.apart:
                continue
            if self.order.level.get(key, -1) >= self.first:
                seen.add(key)
                outside.extend(_definitions(definer))
        self.apart |= seen
        return False

    def would_be_read(self, op: ir.OpView) -> bool:
        """Whether a member depends on `op`, a member's producer, through ops outside."""
        wider = Group(self.order, dict(self.members))
        wider.add(op)
        return any(wider.would_cycle(member) for member in self.members.values())

    def inputs(self) -> list[ir.Value]:
        """The values that enter the group, each once, in order of first use."""
        members = self.ordered()
        inside = {result for op in members for result in op.results}
        values = (value for op in members for value in op.operands if value not in inside)
        return list(dict.fromkeys(values))

    def outputs(self) -> list[ir.Value]:
        """The values that leave the group, in order."""
        return [
            result
            for op in self.ordered()
            for result in op.results
            if any(user not in self for user in users(result))
        ]


def _definitions(op: ir.OpView) -> Iterator[ir.OpView]:
    return (definer for value in used_values(op) if (definer := definition(value)) is not None)


def contractions_of(pointwise: mgx.PointwiseOp) -> list[ir.OpView]:
    """The contractions, or the attention, in whose kernel a `mgx.pointwise` is the last op.

    These are one contraction, or two contractions whose results the op adds up: two sums over
    k of the same sizes are one sum over a longer k.
    """
    last = contraction_of(pointwise)
    if last is None:
        return []
    for value in pointwise.inputs:
        producer = definition(value)
        if producer is None or producer == last or not are_alike(producer, last):
            continue
        if has_one_use(value) and are_added(pointwise, value, last.result):
            return [producer, last]
    return [last]


def is_chosen_by_concat(op: ir.OpView, kind: str) -> bool:
    """Whether an op is a gather that a concat alone reads, whose kernel writes it where it lies.

    A program of kind 'cpu' has none: its loops over a concat are those of one copy after another.
    """
    if kind == "cpu" or not isinstance(op, mgx.GATHERS) or not has_one_use(op.results[0]):
        return False
    user = users(op.results[0])[0]
    return isinstance(user, mgx.ConcatOp) and user.operation.block == op.operation.block


def are_alike(op: ir.OpView, other: ir.OpView) -> bool:
    """Whether two contractions have sums of the same kind, of the same rows and columns."""
    if type(op) is not type(other) or not isinstance(op, _SUMMED):
        return False
    types = [[element_type(v) for v in (*x.operands, x.result)] for x in (op, other)]
    if op.operation.block != other.operation.block or types[0] != types[1]:
        return False
    if shape(op.result) != shape(other.result):
        return False
    return all(group_of(x) == 1 and _depth(x) >= LEAST_DEPTH for x in (op, other))


_SUMMED = (mgx.ConvolutionOp, mgx.DotOp, mgx.QuantConvolutionOp, mgx.QuantDotOp)


def _depth(contraction: ir.OpView) -> int:
    """The products that are summed up for a result; 0 where the number is not known."""
    left, right = (shape(value) for value in contraction.operands)
    if any(size < 0 for size in (*left, *right)):
        return 0
    return left[-1] if isinstance(contraction, mgx.DOTS) else math.prod(right[1:])


def are_added(pointwise: mgx.PointwiseOp, a: ir.Value, b: ir.Value) -> bool:
    """Whether a `mgx.pointwise` does nothing with two of its operands but add them up.

    Other additions may lie between them; their order does not matter.
    """
    operands = list(pointwise.inputs)
    if operands.count(a) != 1 or operands.count(b) != 1:
        return False
    arguments = pointwise.body.blocks[0].arguments
    trails = [_sums_of(arguments[operands.index(x)]) for x in (a, b)]
    return any(x in trails[1] for x in trails[0])


def _sums_of(value: ir.Value) -> list[ir.Value]:
    """The results of the chain of additions that a value is in, each used only by the next."""
    found: list[ir.Value] = []
    while has_one_use(value) and isinstance(user := users(value)[0], mgx.AddOp):
        value = user.c
        found.append(value)
    return found


def half_of(value: ir.Value, product: ir.Value) -> int | None:
    """0 or 1 where a value is the even or the odd columns of a product; else None.

    %e = mgx.step %p axes = [1] steps = [2]
    %s = mgx.slice %p axes = [1] starts = [1] ends = [8]
    %o = mgx.step %s axes = [1] steps = [2]
    """
    step = definition(value)
    last = [len(shape(product)) - 1]
    if not isinstance(step, mgx.StepOp) or (list(step.axes), list(step.steps)) != (last, [2]):
        return None
    if step.x == product:
        return 0
    cut, size = definition(step.x), shape(product)[-1]
    if not isinstance(cut, mgx.SliceOp) or cut.x != product or not has_one_use(cut.y):
        return None
    ends = list(cut.axes), list(cut.starts), list(cut.ends)
    return 1 if ends == (last, [1], [size]) else None


def paired_product(pointwise: mgx.PointwiseOp) -> mgx.DotOp | None:
    """The product whose even and odd columns a `mgx.pointwise` alone reads; None without one."""
    halves = [v for v in pointwise.inputs if isinstance(definition(v), mgx.StepOp)]
    if len(halves) != 2 or not all(map(has_one_use, halves)):
        return None
    product = _behind_half(halves[0])
    if not isinstance(product, mgx.DotOp) or len(users(product.c)) != 2:
        return None
    numbers = {half_of(value, product.c) for value in halves}
    here = product.operation.block == pointwise.operation.block
    return product if numbers == {0, 1} and here else None


def _behind_half(value: ir.Value) -> ir.OpView | None:
    """The op whose columns a value steps over, by way of a slice or not."""
    step = definition(value)
    source = definition(step.x) if isinstance(step, mgx.StepOp) else None
    return definition(source.x) if isinstance(source, mgx.SliceOp) else source


def is_paired(product: ir.OpView) -> bool:
    """Whether a `mgx.pointwise` alone reads the even and odd columns of a product."""
    if not isinstance(product, mgx.DotOp):
        return False
    halves = [user.y for user in users(product.c) if isinstance(user, mgx.StepOp)]
    readers = [reader for half in halves for reader in users(half)]
    return any(
        isinstance(reader, mgx.PointwiseOp) and paired_product(reader) == product.operation
        for reader in readers
    )


def contraction_of(pointwise: mgx.PointwiseOp) -> ir.OpView | None:
    """The contraction, or attention, whose epilogue a `mgx.pointwise` becomes: the last one.

    Without a contraction, a pooling of known sizes. A product whose columns it reads in pairs
    comes first.
    """
    if (pair := paired_product(pointwise)) is not None:
        return pair
    found: ir.OpView | None = None
    for value in pointwise.inputs:
        producer = definition(value)
        if not isinstance(producer, WITH_EPILOGUE):
            continue
        if producer.operation.block != pointwise.operation.block or not has_one_use(value):
            continue
        if shape(value) == shape(pointwise.results[0]) and _comes_after(producer, found):
            found = producer
    return found


def _comes_after(op: ir.OpView, found: ir.OpView | None) -> bool:
    """Whether an op should get the epilogue rather than the op found before."""
    is_pooling, was_pooling = (isinstance(x, mgx.PoolingOp) for x in (op, found))
    if is_pooling and not is_static(op):
        return False
    if found is None or is_pooling != was_pooling:
        return found is None or was_pooling
    return bool(found.is_before_in_block(op))


def on_scalars(op: ir.OpView, type_: ir.Type, operands: Sequence[ir.Value]) -> ir.Value:
    """Builds an op of the program on scalars, with a result of type `type_`."""
    scalar = ir.Operation.create(
        op.name,
        results=[type_],
        operands=list(operands),
        attributes={name: op.attributes[name] for name in op.attributes},
        loc=op.location,
    )
    return scalar.result
