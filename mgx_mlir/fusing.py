"""Groups of ops that become one: what enters, what leaves, whether a cycle would arise."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from mlir import ir

from mgx_mlir.rewriting import (
    CONTRACTIONS,
    definition,
    has_one_use,
    identity,
    shape,
    used_values,
    users,
)


@dataclass
class Group:
    """Ops of one block that become one op. Every member has a result.

    The invariant: no op outside depends on a member while a member depends on it.
    """

    # The number in its block of each op that may become a member, by the op's identity.
    position: Mapping[ir.Value, int]
    members: dict[ir.Value, ir.Operation] = field(default_factory=dict)
    # For ops that are fused already: the number of their first, where `position` has the last.
    earliest: Mapping[ir.Value, int] = field(default_factory=dict)

    def __contains__(self, op: ir.Operation | ir.OpView) -> bool:
        return identity(op) in self.members

    def __len__(self) -> int:
        return len(self.members)

    def add(self, op: ir.Operation | ir.OpView) -> None:
        key = identity(op)
        assert key is not None
        self.members[key] = op.operation

    def ordered(self) -> list[ir.Operation]:
        """The members in the order of their block."""
        return [self.members[key] for key in sorted(self.members, key=self.position.__getitem__)]

    def owns_all_uses(self, op: ir.Operation | ir.OpView) -> bool:
        """Whether nothing outside the group uses a result of `op`."""
        return all(user in self for result in op.operation.results for user in users(result))

    def would_cycle(self, op: ir.Operation | ir.OpView) -> bool:
        """Whether an operand of `op` from outside depends on a member."""
        # Nothing before the first member can depend on one.
        first = min(self.earliest.get(m, self.position[m]) for m in self.members)
        outside = [d for d in _definitions(op.operation) if d not in self]
        seen: set[ir.Value] = set()
        while outside:
            operation = outside.pop()
            if operation in self:
                return True
            key = identity(operation)
            if key is not None and key not in seen and self.position.get(key, -1) > first:
                seen.add(key)
                outside.extend(_definitions(operation))
        return False

    def would_be_read(self, op: ir.Operation | ir.OpView) -> bool:
        """Whether a member depends on `op`, a producer of one, by way of ops outside."""
        wider = Group(self.position, dict(self.members), self.earliest)
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


def _definitions(operation: ir.Operation) -> Iterator[ir.Operation]:
    for value in used_values(operation):
        if not isinstance(value.owner, ir.Block):
            yield value.owner.operation


def positions(block: ir.Block) -> dict[ir.Value, int]:
    """The number in its block of each op that has a result."""
    numbered = ((identity(op), i) for i, op in enumerate(block.operations))
    return {key: i for key, i in numbered if key is not None}


def contraction_of(pointwise: ir.OpView) -> ir.Operation | None:
    """The contraction whose epilogue a `mgx.pointwise` becomes: the last one that can be."""
    found: ir.Operation | None = None
    for value in pointwise.operation.operands:
        producer = definition(value)
        if producer is None or producer.operation.name not in CONTRACTIONS:
            continue
        if producer.operation.block != pointwise.operation.block or not has_one_use(value):
            continue
        if shape(value) != shape(pointwise.operation.results[0]):
            continue
        if found is None or found.is_before_in_block(producer.operation):
            found = producer.operation
    return found
