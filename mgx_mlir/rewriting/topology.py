"""The order of the ops of a block in which definitions precede uses."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from itertools import pairwise

from mlir import ir

from mgx_mlir.errors import CompilerError
from mgx_mlir.rewriting.queries import used_values


def sort_topologically(block: ir.Block) -> None:
    """Reorders a block so that definitions precede uses, moving as few ops as it can.

    Ops that are fused from several positions can stand after a user of one of their results.
    Raises CompilerError where ops depend on each other: no order can satisfy that.
    """
    ops = [op.operation for op in block.operations]
    position: dict[ir.Value, int] = {result: i for i, op in enumerate(ops) for result in op.results}
    # For each op reached: the ops that it needs and that are not ordered yet.
    waiting: dict[int, list[int]] = {}
    order: dict[int, None] = {}
    for start in range(len(ops)):
        stack = [start]
        while stack:
            top = stack[-1]
            if top not in waiting:
                needed = {position[v] for v in used_values(ops[top]) if v in position}
                waiting[top] = sorted((n for n in needed if n not in order), reverse=True)
            while waiting[top] and waiting[top][-1] in order:
                waiting[top].pop()
            if not waiting[top]:
                order.setdefault(stack.pop())
            elif waiting[top][-1] in waiting:
                place = ops[waiting[top][-1]].location
                raise CompilerError(f"{place}: an op would depend on its own result")
            else:
                stack.append(waiting[top][-1])
    sequence = list(order)
    stay = _longest_increasing(sequence)
    if sequence[0] not in stay:
        ops[sequence[0]].move_before(ops[0])
    for before, after in pairwise(sequence):
        if after not in stay:
            ops[after].move_after(ops[before])


def _longest_increasing(sequence: Sequence[int]) -> set[int]:
    """The numbers of a longest increasing subsequence of distinct numbers."""
    # The last number of the best subsequence of each length, and each number's predecessor.
    lasts: list[int] = []
    before: dict[int, int | None] = {}
    for number in sequence:
        place = bisect_left(lasts, number)
        before[number] = lasts[place - 1] if place else None
        lasts[place : place + 1] = [number]
    found = set()
    step = lasts[-1] if lasts else None
    while step is not None:
        found.add(step)
        step = before[step]
    return found
