"""The second function of split-K: adds the partial sums that work-groups computed, in order.

    parts[split, batch, m, n]  ->  epilogue(sum over split)

A thread has as many neighbours along n as it stores at a time. No atomics: the same input
gives the same bits.
"""

from __future__ import annotations

import math

from mlir import ir
from mlir.dialects import arith

from mgx_mlir.codegen.builders import emit
from mgx_mlir.codegen.gpu.builders import memory
from mgx_mlir.codegen.gpu.builders.function import block_number, thread_number
from mgx_mlir.codegen.gpu.builders.ordering import fence
from mgx_mlir.codegen.gpu.families.contraction.epilogue import Epilogue
from mgx_mlir.codegen.gpu.families.contraction.function import Tensors
from mgx_mlir.codegen.problem.match import Match
from mgx_mlir.codegen.problem.problem import Matrix
from mgx_mlir.sizes.arithmetic import ceil_div, common_factor

# The number of the partial sums, among the inputs.
PARTS = -1
# Few, so that many compute units take part in adding few sums.
THREADS = 64
# Neighbours along n of a thread, at most.
LANES = 4
# Partial sums that are read before the first is waited for.
TOGETHER = 8


def lanes(match: Match) -> int:
    """Neighbours along n of a thread."""
    return math.gcd(common_factor(match.problem.N), LANES)


def blocks(match: Match) -> int:
    """Work-groups for all elements."""
    problem = match.problem
    return ceil_div(problem.batch * problem.M * problem.N // lanes(match), THREADS)


def emit_finish(
    match: Match, result: Matrix, splits: int, along: str, by_row: bool, tensors: Tensors
) -> None:
    """Emits the work of a thread; input `PARTS` of the function has the sums.

    along: the dimension of the grid along which work-groups go. by_row: all parts of a row stand
    together.
    """
    inputs, outputs = tensors.inputs, tensors.outputs
    block = block_number(along, blocks(match))
    number = emit.linear(thread_number(THREADS), (block, THREADS))
    problem, width = match.problem, lanes(match)
    size = problem.batch * problem.M * problem.N
    place = emit.mul(number, width)
    columns = problem.N // width
    n = emit.mul(emit.rem(number, columns), width)
    row = emit.div(number, columns)
    m, batch = emit.rem(row, problem.M), emit.div(row, problem.M)

    start, step = (
        (emit.linear(n, (row, splits * problem.N)), problem.N) if by_row else (place, size)
    )

    def part(split: int) -> ir.Value:
        return memory.load(inputs[PARTS], emit.add(start, split * step), width)

    add = arith.addf if emit.is_float(problem.accumulator) else arith.addi
    total: ir.Value | None = None
    for first in range(0, splits, TOGETHER):
        read = [part(split) for split in range(first, min(first + TOGETHER, splits))]
        # Else LLVM waits for each before it reads the next.
        fence()
        for x in read:
            total = x if total is None else add(total, x)
    assert total is not None
    inside = [emit.compare("slt", place, size)] if size % (width * THREADS) else []
    Epilogue(match, result, inputs, outputs)(total, batch, m, n, inside, False)
