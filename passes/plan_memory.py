"""mgx-plan-memory: gives every intermediate tensor a place in one arena."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from mlir import ir

from mgx_mlir.dialects import mgx
from mgx_mlir.graph import main_function
from mgx_mlir.pass_manager import Pass, PassContext
from mgx_mlir.rewriting import RESHAPES, definition

# A launch's result that the caller provides memory for.
OUTPUT = -1


@dataclass
class _Life:
    """A tensor's size in bytes, and the first and last step at which its bytes matter."""

    result: ir.Value
    size: int
    first: int
    last: int
    offset: int = OUTPUT


@dataclass(frozen=True)
class PlanMemory(Pass):
    """Writes `mgx.offsets` on each launch and `mgx.arena_bytes` on the module.

    Before:  %1 = mgx.launch @k0(%0) : (tensor<4xf32>) -> tensor<4xf32>
    After:   %1 = mgx.launch @k0(%0) {mgx.offsets = array<i64: 0>} : ...

    Offsets are multiples of `alignment` bytes. Tensors that are alive at one time do not
    overlap; the largest are placed first, each at the lowest offset that is free. A tensor
    that the program returns lies in the caller's memory: its offset is -1.
    """

    alignment: int = 256

    name: ClassVar[str] = "mgx-plan-memory"

    def apply(self, module: ir.Module, context: PassContext) -> None:
        block = main_function(module).operation.regions[0].blocks[0]
        steps = [op for op in block.operations if op.operation.name == "mgx.launch"]
        lives = _lives(block, steps)
        size = _place([life for life in lives if life.offset != OUTPUT], self.alignment)
        offsets = {life.result: life.offset for life in lives}
        for step in steps:
            places = [offsets[result] for result in step.operation.results]
            step.operation.attributes["mgx.offsets"] = ir.DenseI64ArrayAttr.get(places)
        i64 = ir.IntegerType.get_signless(64)
        module.operation.attributes["mgx.arena_bytes"] = ir.IntegerAttr.get(i64, size)


def memory_source(value: ir.Value) -> ir.Value:
    """The value whose memory a value lies in: reshapes share that of their operand."""
    op = definition(value)
    while op is not None and op.operation.name in RESHAPES:
        value = op.operation.operands[0]
        op = definition(value)
    return value


def direct_outputs(terminator: ir.OpView) -> dict[ir.Value, int]:
    """Launch results that are written straight into the caller's memory, with the output's number.

    A value that is returned twice is written to its first place, and copied.
    """
    outputs: dict[ir.Value, int] = {}
    for number, value in enumerate(terminator.operation.operands):
        source = memory_source(value)
        producer = definition(source)
        if producer is not None and producer.operation.name == "mgx.launch":
            outputs.setdefault(source, number)
    return outputs


def _lives(block: ir.Block, steps: Sequence[ir.OpView]) -> list[_Life]:
    terminator = list(block.operations)[-1]
    outputs = direct_outputs(terminator)
    lives: dict[ir.Value, _Life] = {}
    for number, step in enumerate(steps):
        for operand in step.operation.operands:
            source = memory_source(operand)
            if source in lives:
                lives[source].last = number
        for result in step.operation.results:
            life = _Life(result, mgx.byte_size(result.type), number, number)
            life.offset = OUTPUT if result in outputs else 0
            lives[result] = life
    return list(lives.values())


def _place(lives: list[_Life], alignment: int) -> int:
    """Sets each offset; returns the arena's size in bytes."""
    placed: list[_Life] = []
    size = 0
    for life in sorted(lives, key=lambda life: (-life.size, life.first)):
        taken = sorted(
            (other.offset, other.offset + other.size)
            for other in placed
            if other.first <= life.last and life.first <= other.last
        )
        offset = 0
        for start, end in taken:
            if offset + life.size <= start:
                break
            offset = max(offset, -(-end // alignment) * alignment)
        life.offset = offset
        placed.append(life)
        size = max(size, -(-(offset + life.size) // alignment) * alignment)
    return size
