"""The form of a program: what it computes of which inputs, in whatever order it is written."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

from mlir import ir

from mgx_mlir.dialects import mgx

# Numbers of values by what makes them: values of one number are equal.
Numbers: TypeAlias = dict[Any, int]


def form_of(
    block: ir.Block,
    names: Sequence[str],
    results: Sequence[ir.Value],
    weights: Mapping[str, Any],
    numbers: Numbers,
) -> tuple[Any, ...]:
    """The inputs by name, with their types, and the numbers of the results. Programs of one form,
    by the same `numbers`, compute the same. Instructions that nothing reads do not count."""
    known: dict[ir.Value, int] = {}
    inputs = []
    for name, value in zip(names, block.arguments, strict=True):
        inputs.append((name, str(value.type)))
        known[value] = _number(numbers, ("input", name, str(value.type)))
    _walk(block, known, weights, numbers, 0)
    return tuple(sorted(inputs)), tuple(known[value] for value in results)


def _walk(
    block: ir.Block,
    known: dict[ir.Value, int],
    weights: Mapping[str, Any],
    numbers: Numbers,
    depth: int,
) -> tuple[int, ...]:
    """Numbers the results of a block's ops; those that its end yields."""
    for op in block.operations:
        if not len(op.results):
            return tuple(known[value] for value in op.operands)
        bodies = []
        for body in [inner for region in op.regions for inner in region.blocks]:
            for place, value in enumerate(body.arguments):
                known[value] = _number(numbers, ("argument", depth, place, str(value.type)))
            bodies.append(_walk(body, known, weights, numbers, depth + 1))
        made = (
            op.operation.name,
            _attributes(op, weights),
            tuple(known[value] for value in op.operands),
            tuple(str(result.type) for result in op.results),
            tuple(bodies),
        )
        for place, result in enumerate(op.results):
            known[result] = _number(numbers, (*made, place))
    return ()


def _attributes(op: ir.OpView, weights: Mapping[str, Any]) -> Any:
    """The attributes; of a weight its contents."""
    if isinstance(op, mgx.LiteralOp):
        return weights[op.key.value].sha256
    return tuple(sorted((name, str(op.attributes[name])) for name in op.attributes))


def _number(numbers: Numbers, made: Any) -> int:
    return numbers.setdefault(made, len(numbers))
