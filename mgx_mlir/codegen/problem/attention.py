"""Which kernels are attention, and attention as two matrix products around a softmax."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

from mlir import ir

from mgx_mlir.codegen.problem.match import Match, Source, matrix_of, used_arguments, with_epilogue
from mgx_mlir.codegen.problem.problem import Axis, Contraction, Matrix
from mgx_mlir.codegen.problem.views import element_name, resolve, splat_constant
from mgx_mlir.dialects import mgx

_ELEMENTS = frozenset(("bf16", "f16", "f32", "f64"))
# The argument number of the shares.
_SHARES = -1


@dataclass(frozen=True)
class Attention:
    """y[batch, m, e] = sum over n of softmax over n (score[batch, m, n]) * v[batch, n, e].

    The score is the result of the body of `op` on the sum over d of q[batch, m, d] * k[batch, n, d]
    and its other inputs, in the type `score`. `sources` are the inputs of the body, in order;
    None is that sum. Query m sees only the keys up to m + causal, and from m + earliest on,
    where these are given. With `nan_as_zero`, shares that are NaN are 0; with `empty_as_zero`,
    shares are 0 where no score is above -infinity. `result` is the second product, with its
    epilogue: its left operand is the shares, argument -1.
    Rows of the matrices are queries (q) or keys; sizes are those of q (M, D) and v (N, E).
    """

    op: ir.OpView
    batch: int
    M: int
    N: int
    D: int
    E: int
    q: Matrix
    k: Matrix
    v: Matrix
    element: str
    score: str
    sources: tuple[Source, ...]
    causal: int | None
    earliest: int | None
    nan_as_zero: bool
    empty_as_zero: bool
    result: Match

    @property
    def size(self) -> int:
        """The number of scores of all queries and keys."""
        return self.batch * self.M * self.N

    def used_arguments(self) -> list[tuple[int, str]]:
        """Number and element type of each input that is read, in order."""
        found = {**dict(used_arguments(self.scores())), **dict(used_arguments(self.result))}
        del found[_SHARES]
        return sorted(found.items())

    def scores(self, all_: bool = True) -> Match:
        """The first product, with the body after it, as a kernel that gives [batch, M, N].

        Unless `all_` is set, scores of keys that a query does not see are -inf.
        """
        seen = None if all_ else self.causal, None if all_ else self.earliest
        right = replace(self.k, row=self.k.column, column=self.k.row)
        problem = Contraction(self.batch, self.M, self.N, self.D, self.q, right, self.score)
        return Match(problem, self.score, self.op, self.sources, (0,), (self.score,), *seen)

    def values(self, scratch: int, element: str) -> Match:
        """The second product: shares [batch, M, N] of type `element`, input `scratch`, times v."""
        problem = self.result.problem
        shares = replace(problem.a, argument=scratch, element=element)
        return replace(self.result, problem=replace(problem, a=shares))


def heads_as_queries(attention: Attention) -> Attention:
    """Treats heads that read the same keys and values as more queries of one head.

    The result has the same layout. Gives the attention itself where no heads share, or where
    queries of a causal attention would see other keys.
    """
    group = math.gcd(_repeats(attention.k.batch), _repeats(attention.v.batch))
    if group == 1 or attention.earliest is not None:
        return attention
    if attention.causal is not None and not (attention.M == 1 and isinstance(attention.N, int)):
        return attention
    keys = [matrix.batch.split(group) for matrix in (attention.k, attention.v)]
    q = _rows_of_heads(attention.q, group)
    sources = _sources_of_heads(attention.sources, group)
    ends = _sources_of_heads(attention.result.sources, group)
    place = attention.result.place and _rows_of_heads(attention.result.place, group)
    if None in keys or q is None or sources is None or ends is None:
        return attention
    if attention.result.place is not None and place is None:
        return attention
    key_batch, value_batch = (axes[0] for axes in keys if axes is not None)
    seen = attention.N if attention.causal is None else attention.causal + 1
    batch, M, N = attention.batch // group, attention.M * group, min(attention.N, seen)
    v = replace(attention.v, batch=value_batch)
    product = _second(batch, (M, N, attention.E), v, attention.element, attention.score)
    return replace(
        attention,
        batch=batch,
        M=M,
        N=N,
        q=q,
        k=replace(attention.k, batch=key_batch),
        v=v,
        sources=sources,
        causal=None,
        result=replace(attention.result, problem=product, sources=ends, place=place),
    )


def _sources_of_heads(sources: Sequence[Source], group: int) -> tuple[Source, ...] | None:
    """Inputs of a pointwise epilogue, with `group` neighbouring matrices as one."""
    found = [_rows_of_heads(x, group) if isinstance(x, Matrix) else x for x in sources]
    return None if found.count(None) != sources.count(None) else tuple(found)


def _rows_of_heads(x: Matrix, group: int) -> Matrix | None:
    """`group` neighbouring matrices as one that has the rows of all."""
    axes = x.batch.split(group)
    if axes is None:
        return None
    return replace(x, batch=axes[0], row=Axis.of(*axes[1].factors, *x.row.factors))


def _repeats(axis: Axis) -> int:
    """The number of neighbours along an axis that are the same memory, where it is known."""
    size, stride = axis.factors[-1] if axis.factors else (1, 1)
    return size if stride == 0 and isinstance(size, int) else 1


def match_attention(kernel: mgx.KernelOp, placed: bool = False) -> Attention | None:
    """The kernel as an attention whose operands are views of its inputs; None for other kernels.

    With `placed`, the kernel may return a transpose of the result (`Match.place`).
    """
    block = kernel.regions[0].blocks[0]
    found = [op for op in block.operations if isinstance(op, mgx.AttentionOp)]
    if len(found) != 1:
        return None
    (op,) = found
    q, k, v = (resolve(operand) for operand in (op.q, op.k, op.v))
    if q is None or k is None or v is None or 0 in (*q.shape, *k.shape, *v.shape):
        return None
    element = element_name(op.y.type)
    sources = _sources(op)
    if sources is None or element not in _ELEMENTS:
        return None
    *outer, M, D = q.shape
    rank, batch, N, E = len(outer), math.prod(outer), k.shape[-2], v.shape[-1]
    score = "f64" if element == "f64" else "f32"
    values = matrix_of(v, rank)
    product = _second(batch, (M, N, E), values, element, score)
    ended = with_epilogue(block, [op], product, placed)
    if ended is None:
        return None
    return Attention(
        op=op,
        batch=batch,
        M=M,
        N=N,
        D=D,
        E=E,
        q=matrix_of(q, rank),
        k=matrix_of(k, rank),
        v=values,
        element=element,
        score=score,
        sources=sources,
        causal=None if op.causal is None else op.causal.value,
        earliest=None if op.earliest is None else op.earliest.value,
        nan_as_zero=op.nan_as_zero,
        empty_as_zero=op.empty_as_zero,
        result=ended,
    )


def _second(
    batch: int, sizes: tuple[int, int, int], v: Matrix, element: str, score: str
) -> Contraction:
    """The second product: the shares, with sizes M, N and E, times v."""
    M, N, E = sizes
    axes = (Axis.of((batch, M * N)), Axis.of((M, N)), Axis.of((N, 1)))
    return Contraction(batch, M, E, N, Matrix(_SHARES, element, 0, *axes), v, score)


def _sources(op: mgx.AttentionOp) -> tuple[Source, ...] | None:
    sources: list[Source] = [None]
    for value in op.extras:
        constant = splat_constant(value)
        if constant is not None:
            sources.append(constant)
            continue
        view = resolve(value)
        if view is None:
            return None
        sources.append(matrix_of(view, len(view.dims) - 2))
    return tuple(sources)
