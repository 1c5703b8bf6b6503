"""Which kernels are attention, and attention as two matrix products around a softmax."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import TypeVar

from mlir import ir

from mgx_mlir.codegen.contraction.match import (
    Match,
    Operand,
    Source,
    matrix_of,
    through_reshapes,
    used_arguments,
)
from mgx_mlir.codegen.contraction.problem import Axis, Contraction, Matrix
from mgx_mlir.codegen.contraction.views import (
    element_name,
    resolve,
    splat_constant,
)

_ELEMENTS = frozenset(("bf16", "f16", "f32", "f64"))


@dataclass(frozen=True)
class Attention:
    """y[batch, m, e] = sum over n of softmax over n (score[batch, m, n]) * v[batch, n, e].

    score is what the body of `op` makes of the sum over d of q[batch, m, d] * k[batch, n, d]
    and its other inputs, in the type `score`. `sources` are the inputs of the body, in order;
    None stands for that sum. Query m sees the keys up to m + causal only, where that is given.
    Shares that are NaN are 0 with `nan_as_zero`.
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
    nan_as_zero: bool

    @property
    def size(self) -> int:
        """Scores of all queries and keys."""
        return self.batch * self.M * self.N

    def used_arguments(self) -> list[tuple[int, str]]:
        """Number and element type of each input that is read, in order."""
        found = dict(used_arguments(self.scores()))
        found[self.v.argument] = self.v.element
        return sorted(found.items())

    def scores(self, causal: int | None = None) -> Match:
        """The first product, with the body after it, as a kernel that gives [batch, M, N]."""
        right = replace(self.k, row=self.k.column, column=self.k.row)
        problem = Contraction(self.batch, self.M, self.N, self.D, self.q, right, self.score)
        return Match(problem, self.score, self.op, self.sources, (0,), (self.score,), causal)

    def values(self, scratch: int, element: str) -> Match:
        """The second product: shares [batch, M, N] of type `element`, input `scratch`, times v."""
        shares = Matrix(
            scratch,
            element,
            0,
            Axis.of((self.batch, self.M * self.N)),
            Axis.of((self.M, self.N)),
            Axis.of((self.N, 1)),
        )
        problem = Contraction(self.batch, self.M, self.E, self.N, shares, self.v, self.score)
        return Match(problem, self.element, None, (), (0,), (self.element,))


def heads_as_queries(attention: Attention) -> Attention:
    """Heads that read the same keys and values as more queries of one head.

    The result lies in memory as before. The attention itself where no heads share, or where
    that would mix what queries of a causal one see.
    """
    group = math.gcd(_repeats(attention.k.batch), _repeats(attention.v.batch))
    if group == 1 or (attention.causal is not None and attention.M > 1):
        return attention
    keys = [_split(matrix.batch, group) for matrix in (attention.k, attention.v)]
    q = _rows_of_heads(attention.q, group)
    sources = [
        _rows_of_heads(source, group) if isinstance(source, Operand) else source
        for source in attention.sources
    ]
    if None in keys or q is None or sources.count(None) != 1:
        return attention
    k, v = (axes[0] for axes in keys if axes is not None)
    seen = attention.N if attention.causal is None else attention.causal + 1
    return replace(
        attention,
        batch=attention.batch // group,
        M=attention.M * group,
        N=min(attention.N, seen),
        q=q,
        k=replace(attention.k, batch=k),
        v=replace(attention.v, batch=v),
        sources=tuple(sources),
        causal=None,
    )


T = TypeVar("T", Matrix, Operand)


def _rows_of_heads(x: T, group: int) -> T | None:
    """`group` neighbouring matrices as one whose rows are those of all."""
    axes = _split(x.batch, group)
    if axes is None:
        return None
    return replace(x, batch=axes[0], row=Axis.of(*axes[1].factors, *x.row.factors))


def _repeats(axis: Axis) -> int:
    """How many neighbours along an axis are the same memory."""
    return axis.factors[-1][0] if axis.factors and axis.factors[-1][1] == 0 else 1


def _split(axis: Axis, inner: int) -> tuple[Axis, Axis] | None:
    """An axis as an outer one and one of size `inner`; None where no factor ends there."""
    outer = list(axis.factors)
    last: list[tuple[int, int]] = []
    while inner > 1:
        if not outer:
            return None
        size, stride = outer.pop()
        taken = math.gcd(size, inner)
        if taken not in (size, inner):
            return None
        last.insert(0, (taken, stride))
        if taken < size:
            outer.append((size // taken, stride * taken))
        inner //= taken
    return Axis.of(*outer), Axis.of(*last)


def match_attention(kernel: ir.OpView) -> Attention | None:
    """The kernel as an attention whose operands are views of its inputs; None for others."""
    block = kernel.regions[0].blocks[0]
    found = [op for op in block.operations if op.operation.name == "mgx.attention"]
    if len(found) != 1:
        return None
    (op,) = found
    (result,) = op.operation.results
    *_, terminator = block.operations
    if len(terminator.operands) != 1 or through_reshapes(terminator.operands[0]) != result:
        return None
    q, k, v = (resolve(operand) for operand in list(op.operands)[:3])
    if q is None or k is None or v is None or 0 in (*q.shape, *k.shape, *v.shape):
        return None
    element = element_name(result.type)
    sources = _sources(op)
    if sources is None or element not in _ELEMENTS:
        return None
    *batch, M, D = q.shape
    rank = len(batch)
    attributes = op.operation.attributes
    return Attention(
        op=op,
        batch=math.prod(batch),
        M=M,
        N=k.shape[-2],
        D=D,
        E=v.shape[-1],
        q=matrix_of(q, rank),
        k=matrix_of(k, rank),
        v=matrix_of(v, rank),
        element=element,
        score="f64" if element == "f64" else "f32",
        sources=sources,
        causal=ir.IntegerAttr(attributes["causal"]).value if "causal" in attributes else None,
        nan_as_zero="nan_as_zero" in attributes,
    )


def _sources(op: ir.OpView) -> tuple[Source, ...] | None:
    sources: list[Source] = [None]
    for value in list(op.operands)[3:]:
        constant = splat_constant(value)
        if constant is not None:
            sources.append(constant)
            continue
        view = resolve(value)
        if view is None:
            return None
        matrix = matrix_of(view, len(view.dims) - 2)
        sources.append(
            Operand(
                matrix.argument,
                matrix.element,
                matrix.offset,
                matrix.batch,
                matrix.row,
                matrix.column,
            )
        )
    return tuple(sources)
