"""The claims that a kernel's types make of its symbolic sizes, which only a run can judge.

MLIR takes two names for sizes that may be equal: `add` of n and of m elements is well-formed.
Its code counts to n in both. Wherever a claim does not follow from the names, it becomes a number
that has to be 0 when the sizes are known; a kernel of this compiler has none, or true ones.
"""

from __future__ import annotations

from collections.abc import Iterator

from mlir import ir

from mgx_mlir.dialects import mgx
from mgx_mlir.errors import ArtifactError
from mgx_mlir.rewriting.queries import walk
from mgx_mlir.rewriting.symbolic import (
    OPEN_END,
    Pairs,
    Sizes,
    equal_sizes,
    result_sizes,
    sizes_of,
)
from mgx_mlir.sizes.arithmetic import Number, Size, maximum


def size_claims(kernel: mgx.KernelOp) -> list[Size]:
    """Numbers that are 0 where the kernel reads and writes inside of its tensors.

    Raises ArtifactError for a claim that holds for no sizes.
    """
    found: dict[Size, None] = {}
    for op in walk(kernel.operation):
        types = [value.type for value in (*op.operands, *op.results)]
        if not types or not all(isinstance(type_, ir.RankedTensorType) for type_ in types):
            continue
        if all(type_.has_static_shape for type_ in types):
            continue  # checked by the dialect's verifier
        for number in _claims(op):
            if isinstance(number, Size):
                found[number] = None
            elif number:
                raise ArtifactError(f"a stored kernel holds {op.name} of sizes that do not agree")
    return list(found)


def _claims(op: ir.Operation) -> Iterator[Number]:
    operands = [sizes_of(value.type, None) for value in op.operands]
    results = [sizes_of(value.type, None) for value in op.results]
    view = op.opview
    if isinstance(view, mgx.SliceOp):
        yield from _slice(view, operands[0], results[0])
    for a, b in _pairs(view, operands, results):
        if a is None or b is None:
            continue
        if isinstance(view, mgx.MultibroadcastOp) and 1 in (a, b):
            yield maximum(1 - (a if b == 1 else b), 0)  # the first one is read
        else:
            yield a - b


def _pairs(op: ir.OpView, operands: list[Sizes], results: list[Sizes]) -> Pairs:
    """Sizes that have to be equal: of operands, and of results and what follows from operands."""
    pairs = list(equal_sizes(op, operands, results[0])) if operands and results else []
    if mgx.is_pointwise(op) and operands:
        return [*pairs, *(p for r in results for p in zip(operands[0], r, strict=True))]
    rule = result_sizes(op, operands)
    inferred = [rule] if rule is not None else _inferred(op.operation)
    for stated, own in zip(results, inferred, strict=False):
        pairs += zip(stated, own, strict=True)
    return pairs


def _slice(op: mgx.SliceOp, x: Sizes, y: Sizes) -> Iterator[Number]:
    """A slice ends inside of its operand."""
    for axis, start, end in zip(op.axes, op.starts, op.ends, strict=True):
        size, length = x[axis], y[axis]
        if size is None or length is None:
            continue
        yield maximum(-start, 0)
        last = start + length if end == OPEN_END else end
        yield maximum(last - size, 0)


def _inferred(op: ir.Operation) -> list[Sizes]:
    """The sizes of the results that the dialect infers, by name; none where it infers none."""
    if len(op.regions):
        return []
    attributes = {name: op.attributes[name] for name in op.attributes}
    try:
        made = ir.Operation.create(
            op.name, None, list(op.operands), attributes, infer_type=True, ip=False, loc=op.location
        )
    except (ir.MLIRError, TypeError, ValueError):
        return []
    return [sizes_of(value.type, None) for value in made.results]
