"""Groups of ops that become one: what enters, what leaves, whether a cycle would arise."""

from __future__ import annotations

from dataclasses import dataclass, field

from mlir import ir

from mgx_mlir.rewriting import definitions, users


@dataclass
class Group:
    """Ops of one block that become one op.

    The invariant: no op outside depends on a member while a member depends on it.
    """

    members: dict[ir.Operation, None] = field(default_factory=dict)

    def __contains__(self, op: ir.Operation | ir.OpView) -> bool:
        return op.operation in self.members

    def add(self, op: ir.Operation | ir.OpView) -> None:
        self.members[op.operation] = None

    def ordered(self) -> list[ir.Operation]:
        """The members in the order of their block."""
        if not self.members:
            return []
        block = next(iter(self.members)).block
        return [op.operation for op in block.operations if op.operation in self.members]

    def owns_all_uses(self, op: ir.Operation | ir.OpView) -> bool:
        """Whether nothing outside the group uses a result of `op`."""
        return all(user in self for result in op.operation.results for user in users(result))

    def would_cycle(self, op: ir.Operation | ir.OpView, position: dict[ir.Operation, int]) -> bool:
        """Whether an operand of `op` from outside depends on a member.

        `position` numbers the ops of the block; nothing before the first member can depend
        on one.
        """
        first = min(position[member] for member in self.members)
        outside = [d for d in definitions(op.operation) if d not in self.members]
        seen: set[ir.Operation] = set()
        while outside:
            operation = outside.pop()
            if operation in self.members:
                return True
            if operation not in seen and position.get(operation, -1) > first:
                seen.add(operation)
                outside.extend(definitions(operation))
        return False

    def inputs(self) -> list[ir.Value]:
        """The values that enter the group, each once, in order of first use."""
        values: dict[ir.Value, None] = {}
        for op in self.ordered():
            for value in op.operands:
                if isinstance(value.owner, ir.Block) or value.owner.operation not in self.members:
                    values.setdefault(value)
        return list(values)

    def outputs(self) -> list[ir.Value]:
        """The values that leave the group, in order."""
        return [
            result
            for op in self.ordered()
            for result in op.results
            if any(user not in self for user in users(result))
        ]


def positions(block: ir.Block) -> dict[ir.Operation, int]:
    """The number of each op in its block."""
    return {op.operation: i for i, op in enumerate(block.operations)}
