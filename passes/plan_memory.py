"""mgx-plan-memory: gives every intermediate tensor a place in one arena."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from mlir import ir

from mgx_mlir.dialects import mgx
from mgx_mlir.errors import UnsupportedError
from mgx_mlir.graph import main_function, node_name
from mgx_mlir.pass_manager import Pass, PassContext
from mgx_mlir.passes.place_concats import IN_PLACE, memory_of
from mgx_mlir.rewriting import definition

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
        _require_static(steps)
        concats = [op for op in block.operations if IN_PLACE in op.operation.attributes]
        parts = _parts(concats)
        lives = _lives(block, steps, parts)
        size = _place([life for life in lives.values() if life.offset != OUTPUT], self.alignment)
        for op in (*steps, *concats):
            offsets = []
            for result in op.operation.results:
                whole, inside = parts.get(result, (result, 0))
                offset = lives[whole].offset
                offsets.append(offset + inside if offset != OUTPUT else OUTPUT)
            op.operation.attributes["mgx.offsets"] = ir.DenseI64ArrayAttr.get(offsets)
        i64 = ir.IntegerType.get_signless(64)
        module.operation.attributes["mgx.arena_bytes"] = ir.IntegerAttr.get(i64, size)


def _require_static(steps: Sequence[ir.OpView]) -> None:
    """Raises UnsupportedError naming the node of a launch whose results' sizes are not known."""
    for op in steps:
        for result in op.operation.results:
            if not ir.RankedTensorType(result.type).has_static_shape:
                node = node_name(op) or "?"
                raise UnsupportedError(
                    f"node '{node}': its result {result.type} has a size that is known only "
                    "when the model runs",
                    (node,),
                )


def direct_outputs(terminator: ir.OpView) -> dict[ir.Value, int]:
    """Launch results that are written straight into the caller's memory, with the output's number.

    A value that is returned twice is written to its first place, and copied.
    """
    outputs: dict[ir.Value, int] = {}
    for number, value in enumerate(terminator.operation.operands):
        source = memory_of(value)
        producer = definition(source)
        if producer is not None and producer.operation.name == "mgx.launch":
            outputs.setdefault(source, number)
    return outputs


def _parts(concats: Sequence[ir.OpView]) -> dict[ir.Value, tuple[ir.Value, int]]:
    """For what is part of a concat in place: the outermost result, and the offset in it."""
    parts: dict[ir.Value, tuple[ir.Value, int]] = {}
    # A concat of concats stands behind them: from the last to the first, wholes are known.
    for op in reversed(concats):
        whole, offset = parts.get(op.operation.results[0], (op.operation.results[0], 0))
        for operand in op.operation.operands:
            parts[memory_of(operand)] = (whole, offset)
            offset += mgx.byte_size(operand.type)
    return parts


def _lives(
    block: ir.Block, steps: Sequence[ir.OpView], parts: dict[ir.Value, tuple[ir.Value, int]]
) -> dict[ir.Value, _Life]:
    """The life of each tensor that has memory of its own, by its value."""
    outputs = direct_outputs(list(block.operations)[-1])
    lives: dict[ir.Value, _Life] = {}
    for number, step in enumerate(steps):
        for operand in step.operation.operands:
            source = memory_of(operand)
            whole, _ = parts.get(source, (source, 0))
            if whole in lives:
                lives[whole].last = number
        for result in step.operation.results:
            whole, _ = parts.get(result, (result, 0))
            if whole not in lives:
                life = _Life(whole, mgx.byte_size(whole.type), number, number)
                life.offset = OUTPUT if whole in outputs else 0
                lives[whole] = life
            lives[whole].last = number
    return lives


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
