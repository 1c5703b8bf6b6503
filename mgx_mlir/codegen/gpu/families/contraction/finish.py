"""The second function of split-K: adds the partial sums that work-groups computed, in order.

    parts[split, batch, m, n]  ->  epilogue(sum over split)

A thread has as many neighbours along n as it stores at a time. No atomics: the same input
gives the same bits.
"""

from __future__ import annotations

import math
from dataclasses import replace

from mlir import ir
from mlir.dialects import arith

from mgx_mlir.codegen.builders import emit
from mgx_mlir.codegen.gpu.builders import memory
from mgx_mlir.codegen.gpu.builders.function import block_number, thread_number
from mgx_mlir.codegen.gpu.builders.ordering import fence
from mgx_mlir.codegen.gpu.families.contraction.epilogue import Epilogue
from mgx_mlir.codegen.gpu.families.contraction.function import Tensors
from mgx_mlir.codegen.problem.match import Match
from mgx_mlir.codegen.problem.problem import Axis, Matrix
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


def pitch(columns: int) -> int:
    """Elements of a row of sums whose vectors have `LANES` of any number of columns."""
    return ceil_div(columns, LANES) * LANES


def blocks(match: Match, padded: bool = False) -> int:
    """Work-groups for all elements, of rows with a `pitch` where they are padded."""
    problem = match.problem
    columns, width = problem.N, lanes(match)
    if padded:
        columns, width = pitch(columns), LANES
    return ceil_div(problem.batch * problem.M * columns // width, THREADS)


def emit_finish(
    match: Match,
    result: Matrix,
    splits: int,
    along: str,
    by_row: bool,
    tensors: Tensors,
    padded: bool = False,
) -> None:
    """Emits the work of a thread; input `PARTS` of the function has the sums.

    along: the dimension of the grid along which work-groups go. by_row: all parts of a row stand
    together. padded: rows have a `pitch`.
    """
    inputs, outputs = tensors.inputs, tensors.outputs
    block = block_number(along, blocks(match, padded))
    number = emit.linear(thread_number(THREADS), (block, THREADS))
    problem, width = match.problem, LANES if padded else lanes(match)
    each = pitch(problem.N) if padded else problem.N
    size = problem.batch * problem.M * each
    place = emit.mul(number, width)
    columns = each // width
    n = emit.mul(emit.rem(number, columns), width)
    row = emit.div(number, columns)
    m, batch = emit.rem(row, problem.M), emit.div(row, problem.M)

    start, step = (
        (emit.linear(n, (row, splits * problem.N)), problem.N) if by_row else (place, size)
    )

    def part(split: int) -> ir.Value:
        at = emit.add(start, split * step)
        # LLVM would take the constant out of a formula, whose other terms may be negative.
        return memory.load(inputs[PARTS], at if isinstance(step, int) else memory.opaque(at), width)

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
    Epilogue(match, result, inputs, outputs)(total, batch, m, n, inside, each != problem.N)


def parts_of(match: Match, splits: int, by_row: bool, padded: bool) -> tuple[Match, Matrix]:
    """The match that stores its sums without an epilogue, and their layout in scratch memory.

    by_row, padded: as above.
    """
    problem, element = match.problem, match.problem.accumulator
    sums = replace(
        match, result_element=element, epilogue=None, sources=(), results=(0,),
        result_elements=(element,), causal=None,
    )  # fmt: skip
    M, N = problem.M, pitch(problem.N) if padded else problem.N
    batch = Axis.of((splits * (1 if padded else problem.batch), M * N))
    row = Axis.of((M, N))
    if by_row:
        batch, row = Axis.of((splits, N)), Axis.of((M, splits * N))
    return sums, Matrix(0, element, 0, batch, row, Axis(((N, 1),)) if padded else Axis.of((N, 1)))
