"""Cuts long sums of floats in loops into blocks, whose sums are added to a total.

The error of a sum grows with the number of its terms. The error of a block's total does not:

    for k in 0 .. K:                 for first in 0 .. K step 256:
      sum += term                      sum = 0
                                       for k in first .. min(first + 256, K):
                                         sum += term
                                       total += sum
"""

from __future__ import annotations

from mlir import ir
from mlir.dialects import arith, scf

from mgx_mlir.codegen.builders import emit
from mgx_mlir.codegen.meaning.index import index_constant
from mgx_mlir.rewriting.queries import definition, has_one_use, ops_inside

# Where the order of a sum is free, LLVM keeps at least this many partial sums in parallel.
_SHARED = 4


def block_sums(block: ir.Block, terms: int) -> None:
    """Cuts every innermost loop below a block that does nothing but add up floats.

    terms: of a sum that one register holds in a block.
    """
    loops = [loop for op in block.operations for loop in ops_inside(op, scf.ForOp)]
    for loop in [loop for loop in loops if _only_sums(loop) and not _few(loop, terms)]:
        _cut(loop, terms)


def _only_sums(loop: scf.ForOp) -> bool:
    """Whether a loop carries nothing but sums of floats, whose terms do not depend on the sums."""
    *operations, last = loop.body.operations
    carried = list(loop.inner_iter_args)
    if not carried or any(op.operation.regions for op in operations):
        return False
    for sum_, following in zip(carried, last.operands, strict=True):
        add = definition(following)
        if not isinstance(add, arith.AddFOp) or sum_ not in (add.lhs, add.rhs):
            return False
        if not (has_one_use(sum_) and has_one_use(following)):
            return False
    return True


def _depth(loop: scf.ForOp, terms: int) -> int:
    """The indices of a block. It is larger where LLVM makes a vector of sums, which share them, and
    where each step adds vectors of them.
    """
    *_, last = loop.body.operations
    add = last.operands[0].owner.opview
    step = definition(loop.step)
    if isinstance(add.result.type, ir.VectorType) and isinstance(step, arith.ConstantOp):
        return terms * int(step.value.value)
    return terms * (_SHARED if "reassoc" in str(add.fastmath) else 1)


def _few(loop: scf.ForOp, terms: int) -> bool:
    """Whether a loop is known to have no more iterations than a block."""
    bound = definition(loop.upperBound)
    return isinstance(bound, arith.ConstantOp) and bound.value.value <= _depth(loop, terms)


def _cut(loop: scf.ForOp, terms: int) -> None:
    lower, upper, starts = loop.lowerBound, loop.upperBound, list(loop.initArgs)
    depth = _depth(loop, terms)
    results = list(loop.results)
    with ir.InsertionPoint(loop), loop.location:
        zeros = [arith.constant(x.type, emit.zero(x.type)) for x in results]
        outer = scf.ForOp(lower, upper, index_constant(depth), starts)
    for before, after in zip(results, outer.results, strict=True):
        before.replace_all_uses_with(after)
    with ir.InsertionPoint(outer.body), loop.location:
        following = arith.addi(outer.induction_variable, index_constant(depth))
        end = arith.minsi(following, upper)
        totals = [
            arith.addf(total, sum_)
            for total, sum_ in zip(outer.inner_iter_args, results, strict=True)
        ]
        scf.YieldOp(totals)
    loop.operation.move_after(end.owner)
    # Its lower and upper bound and its step, then what it starts from.
    for number, value in enumerate([outer.induction_variable, end, loop.step, *zeros]):
        loop.operation.operands[number] = value
